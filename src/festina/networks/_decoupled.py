"""Decoupled initial weights, with which the modes of a task are learned independently."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from .._checks import finite_array, real_array
from .._precision import float64
from .._types import ArrayLike, Keys
from ._build import check_keys
from ._deep_linear import DeepLinear, check_widths
from ._frames import check_frame, haar, joined
from ._gated import Gated
from ._labels import seed_labels


@float64
def decoupled(
    output_modes: ArrayLike,
    input_modes: ArrayLike,
    hidden: Sequence[int] = (),
    *,
    initial_strength: ArrayLike | None = None,
    layer_strengths: ArrayLike | None = None,
    frames: Sequence[ArrayLike] | None = None,
    key: Keys | None = None,
) -> DeepLinear:
    r"""Return a deep linear network whose initial weights make the modes of a task independent.

    The weights are

    $$W_l = R_l\,\mathrm{diag}(b_l)\,R_{l-1}^\top, \qquad R_0 = V,\ R_D = U.$$

    The columns of each $R_l$ are orthonormal. For a task with $\Sigma^{yx} = USV^\top$ and
    $\Sigma^{xx} = V\Lambda V^\top$ gradient flow keeps this form. Each mode then follows a scalar
    equation that depends on $s_\alpha$ and $\Lambda_\alpha$ only (Saxe, McClelland & Ganguli 2014).

    **Arguments:**

    - `output_modes`, `input_modes`: U `(output, mode)` and V `(input, mode)`.
    - `hidden`: widths of the hidden layers, each at least the number of modes.
    - `initial_strength`: initial mode strength $a_0 = \prod_l b_l \ge 0$, divided evenly among the
      layers (balanced weights): one number, or `(*batch, mode)`.
    - `layer_strengths`: strengths $b_l$ of each layer, `(*batch, layer, mode)`, instead of
      `initial_strength`.
    - `frames`: $R_l$ of each hidden layer, `(hidden, mode)`.
    - `key`: random key, to draw random frames. Without `frames` and `key`, hidden unit i represents
      mode i.

    !!! note "When it stops being exact"

        Rounding errors couple the modes, and the coupling grows along the flow.

    **Example:**

    >>> import numpy as np
    >>> from festina.networks import decoupled
    >>> network = decoupled(np.eye(2), np.eye(2), (3,), initial_strength=0.01)
    >>> network.weights[0]
    array([[0.1, 0. ],
           [0. , 0.1],
           [0. , 0. ]])
    >>> network.end_to_end().round(3)
    array([[0.01, 0.  ],
           [0.  , 0.01]])
    """
    u, v = check_frame("output_modes", output_modes), check_frame("input_modes", input_modes)
    modes = u.shape[1]
    if v.shape[1] != modes:
        raise ValueError(
            f"`output_modes` and `input_modes` must have one column for each mode, got {modes} "
            f"and {v.shape[1]} columns. Give equally many of both."
        )
    widths = check_widths((len(v), *hidden, len(u)))
    if min(widths) < modes:
        raise ValueError(
            f"`hidden` layers must be at least as wide as the {modes} modes, got {tuple(hidden)}. "
            "Use wider layers or fewer modes; the network does not learn a mode that is left out."
        )
    b = _layer_strengths(initial_strength, layer_strengths, len(widths) - 1, modes)
    if frames is not None:
        if key is not None or len(frames) != len(hidden):
            raise ValueError(
                f"Give either a `key`, or `frames` with one matrix for each of the {len(hidden)} "
                f"hidden layers; got {len(frames)} frames {'without' if key is None else 'and'} "
                "a `key`."
            )
        inner = [check_frame("frames", frame) for frame in frames]
        shapes = [(width, modes) for width in widths[1:-1]]
        if [frame.shape for frame in inner] != shapes:
            raise ValueError(
                f"`frames` must have the shapes {shapes}, got {[f.shape for f in inner]}."
            )
    elif key is None:
        inner = [np.eye(width, modes) for width in widths[1:-1]]
    else:
        inner = haar(key, [(width, modes) for width in widths[1:-1]])
    labels = seed_labels(None if key is None or not inner else check_keys(key))
    if initial_strength is not None and (b == b[..., :1]).all():  # one strength for all modes
        a = np.asarray(initial_strength, dtype=float)
        labels["initial_strength"] = a[..., 0] if a.ndim else a
    return _in_frames((v, *inner, u), b).labelled(**labels)


@float64
def with_decoupled_weights(
    network: Gated,
    directions: Mapping[str, ArrayLike],
    *,
    initial_strength: ArrayLike | Mapping[str, ArrayLike],
    key: Keys | None = None,
) -> Gated:
    r"""Return a gated network with weights that make the modes of a task independent.

    The weights of edge e, from node s(e) to node t(e), are $W_e =
    R_{t(e)}\,\mathrm{diag}(b_e)\,R_{s(e)}^\top$. R holds the `directions` of the task at input and
    output nodes, and orthonormal columns at hidden nodes. Gradient flow keeps this form if the
    statistics of every path are diagonal in the `directions`. Under the same condition the race
    reduction is exact (Saxe, Sodhani & Lewallen 2022).

    **Arguments:**

    - `network`: gated network whose graph and gates are kept.
    - `directions`: matrix `(width, mode)` for each input and output node, by name. The columns of
      the matrix are orthonormal, or zero for a mode that the node does not have. If pathways have
      different directions at a node, give the directions by edge, such as `{"x-a": …}`.
    - `initial_strength`: $b_e$, one number or `(*batch, mode)`, or a mapping from edges to such
      values.
    - `key`: random key, to draw random frames for the hidden nodes. Without a `key`, unit i of a
      hidden node represents mode i.

    **Example:**

    >>> import jax
    >>> import numpy as np
    >>> from festina.networks import gated, with_decoupled_weights
    >>> drawn = gated({"x": 2, "h": 3, "y": 2}, ["x-h-y"], scale=0.1, key=jax.random.key(0))
    >>> directions = {"x": np.eye(2), "y": np.eye(2)}
    >>> network = with_decoupled_weights(drawn, directions, initial_strength=0.1)
    >>> network.predict(np.eye(2)).round(3)
    array([[0.01, 0.  ],
           [0.  , 0.01]])
    """
    frames = {name: _columns(name, given) for name, given in directions.items()}
    modes = {frame.shape[1] for frame in frames.values()}
    plan, parts = network.plan, []
    hidden = dict(plan.nodes[: -plan.ends])
    edges = list(network.part_axes)
    ends = {*plan.widths} - {*hidden}
    if surplus := [name for name in frames if name not in (*ends, *edges)]:
        raise ValueError(
            f"`directions` has {surplus[0]!r}, which is neither an input or output node nor an "
            f"edge at one. The input and output nodes are {', '.join(sorted(ends))}; hidden nodes "
            "take random frames from `key`."
        )
    by_edge: Mapping[str, ArrayLike] = (
        initial_strength
        if isinstance(initial_strength, Mapping)
        else dict.fromkeys(edges, initial_strength)
    )
    if missing := [edge for edge in edges if edge not in by_edge]:
        raise ValueError(
            f"`initial_strength` has no entry for edge {missing[0]!r}. Give one for each of the "
            f"edges {', '.join(edges)}."
        )
    if len(modes) != 1 or min(hidden.values(), default=min(modes)) < min(modes):
        raise ValueError(
            "`directions` must all have the same number of columns, and every hidden node at least "
            f"as many units: got {sorted(modes)} columns and hidden nodes {hidden}."
        )
    (count,) = modes
    shapes = [(width, count) for width in hidden.values()]
    drawn = [np.eye(*shape) for shape in shapes] if key is None else haar(key, shapes)
    inner = dict(zip(hidden, drawn, strict=True))
    for source, target in plan.edges:
        edge, ends = f"{source}-{target}", []
        for node in (source, target):
            frame = inner.get(node, frames.get(edge, frames.get(node)))
            if frame is None or frame.shape[-2] != plan.widths[node]:
                raise ValueError(
                    f"`directions` must have '{node}' or '{edge}', of shape "
                    f"({plan.widths[node]}, mode), got {'none' if frame is None else frame.shape}."
                )
            ends.append(frame)
        b = finite_array("initial_strength", by_edge[edge])
        if b.shape[-1:] not in ((), (1,), (count,)):
            raise ValueError(
                f"`initial_strength` must be one number or (*batch, mode) with {count} modes, got "
                f"shape {b.shape}."
            )
        b = np.broadcast_to(b, (*b.shape[:-1], count))
        parts.append((ends[1] * b[..., None, :]) @ ends[0].swapaxes(-1, -2))
    batch = np.broadcast_shapes(*(part.shape[:-2] for part in parts))
    parts = (np.broadcast_to(part, (*batch, *part.shape[-2:])).copy() for part in parts)
    return Gated(tuple(parts), plan, network.gating).with_labels(
        seed_labels(None if key is None or not hidden else check_keys(key))
    )


def _columns(name: str, given: ArrayLike) -> Float[np.ndarray, "width mode"]:
    """Return directions as a matrix; raise unless its non-zero columns are orthonormal."""
    frame = real_array(f"directions['{name}']", given)
    if frame.ndim == 2 and (there := frame.any(axis=0)).any():
        check_frame(f"directions['{name}']", frame[:, there])
        return frame
    return check_frame(f"directions['{name}']", frame)


def _layer_strengths(
    whole: ArrayLike | None, each: ArrayLike | None, depth: int, modes: int
) -> Float[np.ndarray, "*batch layer mode"]:
    if (whole is None) == (each is None):
        raise ValueError(
            "Give either `initial_strength` or `layer_strengths`, got "
            f"{'neither' if whole is None else 'both'}."
        )
    if each is not None:
        b = real_array("layer_strengths", each)
        if b.shape[-2:] != (depth, modes) or not np.isfinite(b).all():
            raise ValueError(
                f"`layer_strengths` must be finite and (*batch, layer, mode) with {depth} layers "
                f"and {modes} modes, got shape {b.shape}."
            )
        return b
    a = real_array("initial_strength", whole)
    if a.shape[-1:] not in ((), (modes,)) or not (np.isfinite(a) & (a >= 0)).all():
        raise ValueError(
            f"`initial_strength` must be a number ≥ 0 or (*batch, mode) with {modes} modes, got "
            f"{a.tolist()}. For negative strengths give `layer_strengths`."
        )
    a = np.broadcast_to(a, (*a.shape[:-1], modes))
    return np.repeat(a[..., None, :] ** (1 / depth), depth, axis=-2)


def _in_frames(
    frames: Sequence[Float[np.ndarray, "..."]], b: Float[np.ndarray, "*batch layer mode"]
) -> DeepLinear:
    """Return the network with weights R_l diag(b_l) R_{l−1}ᵀ in layer l."""
    pairs = itertools.pairwise(frames)
    return joined(
        *(
            (after * b[..., layer, None, :]) @ before.swapaxes(-1, -2)
            for layer, (before, after) in enumerate(pairs)
        )
    )
