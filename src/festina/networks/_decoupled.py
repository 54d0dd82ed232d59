"""Initial weights under which the modes of a task are learned independently."""

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
    r"""Return weights under which every mode of the task is learned by a chain of its own.

    $$W_l = R_l\,\mathrm{diag}(b_l)\,R_{l-1}^\top, \qquad R_0 = V,\ R_D = U,$$

    with any orthonormal frames $R_l$ in the hidden layers. For a task with
    $\Sigma^{yx} = USV^\top$ and $\Sigma^{xx} = V\Lambda V^\top$ (white or not) the flow keeps this
    form, and each mode follows the scalar chain of its own $s_\alpha$ and $\Lambda_\alpha$: Saxe,
    McClelland & Ganguli (2014). Rounding that couples the modes grows along the flow.

    **Arguments:**

    - `output_modes`, `input_modes`: U `(output, mode)` and V `(input, mode)`.
    - `hidden`: widths of the hidden layers, none narrower than there are modes; the depth is one
      more than there are.
    - `initial_strength`: $a_0 = \prod_l b_l$, shared evenly by the layers (balanced): a number, or
      `(*batch, mode)`. Not negative.
    - `layer_strengths`: $b_l$ instead, `(*batch, layer, mode)`.
    - `frames`: of the hidden layers, each `(hidden, mode)`.
    - `key`: for random frames instead. With neither the hidden units are the modes, in order.
    """
    u, v = check_frame("output_modes", output_modes), check_frame("input_modes", input_modes)
    modes = u.shape[1]
    if v.shape[1] != modes:
        raise ValueError(
            f"`output_modes` and `input_modes` must have one column for each mode, got {modes} "
            f"and {v.shape[1]}."
        )
    widths = check_widths((len(v), *hidden, len(u)))
    if min(widths) < modes:
        raise ValueError(
            f"`hidden` layers must be at least as wide as the {modes} modes, got {tuple(hidden)}. "
            "Give fewer modes: those left out are not learned."
        )
    b = _layer_strengths(initial_strength, layer_strengths, len(widths) - 1, modes)
    if frames is not None:
        if key is not None or len(frames) != len(hidden):
            raise ValueError(
                f"Give one of the `frames` for each of the {len(hidden)} hidden layers and no "
                f"`key`, or a `key`: got {len(frames)} frames."
            )
        inner = [check_frame("frames", frame) for frame in frames]
        shapes = [(width, modes) for width in widths[1:-1]]
        if [frame.shape for frame in inner] != shapes:
            raise ValueError(f"`frames` must be {shapes}, got {[f.shape for f in inner]}.")
    elif key is None:
        inner = [np.eye(width, modes) for width in widths[1:-1]]
    else:
        inner = haar(key, [(width, modes) for width in widths[1:-1]])
    labels = seed_labels(None if key is None or not inner else check_keys(key))
    if initial_strength is not None and (b == b[..., :1]).all():  # one for all modes
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
    r"""Return a gated network with weights under which modes are learned independently.

    $W_e = R_{t(e)}\,\mathrm{diag}(b_e)\,R_{s(e)}^\top$ of every edge, with the directions of the
    task, V and U, at inputs and outputs and any orthonormal frames at hidden nodes: where what
    paths see of the data is diagonal in these directions, the flow keeps this form, and the race
    reduction is exact (Saxe, Sodhani & Lewallen 2022).

    **Arguments:**

    - `network`: its graph and gates.
    - `directions`: of every input and output node, `(width, mode)`: orthonormal columns, zero for
      a mode that is not there. Where pathways have directions of their own at the same node, by
      the edge there, `{"x-a": …}`, instead.
    - `initial_strength`: $b_e$, one number, `(*batch, mode)`, or such by edge.
    - `key`: for random frames of hidden nodes; without it their units are the modes, in order.
    """
    frames = {name: _columns(name, given) for name, given in directions.items()}
    modes = {frame.shape[1] for frame in frames.values()}
    plan, parts = network.plan, []
    hidden = dict(plan.nodes[: -plan.ends])
    edges = list(network.part_axes)
    ends = {*plan.widths} - {*hidden}
    if surplus := [name for name in frames if name not in (*ends, *edges)]:
        raise ValueError(
            f"`directions` has {surplus[0]!r}, which is no input, no output and no edge there: "
            f"hidden nodes have frames of their own, random with a `key`. There are "
            f"{', '.join(sorted(ends))}."
        )
    by_edge: Mapping[str, ArrayLike] = (
        initial_strength
        if isinstance(initial_strength, Mapping)
        else dict.fromkeys(edges, initial_strength)
    )
    if missing := [edge for edge in edges if edge not in by_edge]:
        raise ValueError(
            f"`initial_strength` has no {missing[0]!r}, it needs all of {', '.join(edges)}."
        )
    if len(modes) != 1 or min(hidden.values(), default=min(modes)) < min(modes):
        raise ValueError(
            "`directions` must all have the same number of columns, and no hidden node fewer units "
            f"than that: got {sorted(modes)} columns and {hidden}."
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
                    f"`directions` must have '{node}' or '{edge}', ({plan.widths[node]}, mode), "
                    f"got {'none' if frame is None else frame.shape}."
                )
            ends.append(frame)
        b = finite_array("initial_strength", by_edge[edge])
        if b.shape[-1:] not in ((), (1,), (count,)):
            raise ValueError(
                f"`initial_strength` must be a number or {count} modes, got shape {b.shape}."
            )
        b = np.broadcast_to(b, (*b.shape[:-1], count))
        parts.append((ends[1] * b[..., None, :]) @ ends[0].swapaxes(-1, -2))
    batch = np.broadcast_shapes(*(part.shape[:-2] for part in parts))
    parts = (np.broadcast_to(part, (*batch, *part.shape[-2:])).copy() for part in parts)
    return Gated(tuple(parts), plan, network.gating).with_labels(
        seed_labels(None if key is None or not hidden else check_keys(key))
    )


def _columns(name: str, given: ArrayLike) -> Float[np.ndarray, "width mode"]:
    """Return a frame in which some columns may be zero."""
    frame = real_array(f"directions['{name}']", given)
    if frame.ndim == 2 and (there := frame.any(axis=0)).any():
        check_frame(f"directions['{name}']", frame[:, there])
        return frame
    return check_frame(f"directions['{name}']", frame)


def _layer_strengths(
    whole: ArrayLike | None, each: ArrayLike | None, depth: int, modes: int
) -> Float[np.ndarray, "*batch layer mode"]:
    if (whole is None) == (each is None):
        raise ValueError("Give either `initial_strength` or `layer_strengths`.")
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
            f"{a.tolist()}. For signs give `layer_strengths`."
        )
    a = np.broadcast_to(a, (*a.shape[:-1], modes))
    return np.repeat(a[..., None, :] ** (1 / depth), depth, axis=-2)


def _in_frames(
    frames: Sequence[Float[np.ndarray, "..."]], b: Float[np.ndarray, "*batch layer mode"]
) -> DeepLinear:
    """Return R_l diag(b_l) R_{l−1}ᵀ in every layer."""
    pairs = itertools.pairwise(frames)
    return joined(
        *(
            (after * b[..., layer, None, :]) @ before.swapaxes(-1, -2)
            for layer, (before, after) in enumerate(pairs)
        )
    )
