r"""Initial weights of deep linear networks that theories start from.

Frames $R_l$ have orthonormal columns. Random ones are uniformly distributed (Haar): the Q factor of
a Gaussian matrix, its columns given the signs of R's diagonal. Everything here is made from a
`key`, of which an array makes a batch of networks, and from strengths that broadcast against it.
"""

import itertools
from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import Float, Key
from numpy.typing import ArrayLike

from .._precision import float64
from ._build import Scale, check_keys, check_scale, normals
from ._deep import DeepLinear, DeepStructure, check_widths
from ._seeds import Keys

_ORTHONORMAL = 1e-8  # deviation from orthonormal columns at which a frame is refused


@float64
def decoupled(
    output_modes: ArrayLike,
    input_modes: ArrayLike,
    hidden: Sequence[int] = (),
    *,
    initial_strength: Scale | None = None,
    layer_strengths: ArrayLike | None = None,
    frames: Sequence[ArrayLike] | None = None,
    key: Keys | None = None,
) -> DeepLinear:
    r"""Weights under which every mode of the task is learned by a chain of its own.

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
    u, v = _frame("output_modes", output_modes), _frame("input_modes", input_modes)
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
        inner = [_frame("frames", frame) for frame in frames]
        shapes = [(width, modes) for width in widths[1:-1]]
        if [frame.shape for frame in inner] != shapes:
            raise ValueError(f"`frames` must be {shapes}, got {[f.shape for f in inner]}.")
    elif key is None:
        inner = [np.eye(width, modes) for width in widths[1:-1]]
    else:
        inner = _haar(key, [(width, modes) for width in widths[1:-1]])
    return _in_frames((v, *inner, u), b)


@float64
def balanced(
    widths: Sequence[int],
    *,
    balance: Scale,
    scale: Scale | None = None,
    singular_values: ArrayLike | None = None,
    product: ArrayLike | None = None,
    key: Keys | None = None,
) -> DeepLinear:
    r"""Two-layer weights with $W_2^\top W_2 - W_1 W_1^\top = \lambda I$.

    Where the product $W_2W_1 = USV^\top$ has the singular value s, the layers have

    $$q,\, p = \sqrt{\tfrac12\left(\sqrt{\lambda^2 + 4s^2} \pm \lambda\right)}$$

    (second and first): $W_2 = U\,\mathrm{diag}(q)R^\top$ and $W_1 = R\,\mathrm{diag}(p)V^\top$,
    with a random rotation R of the hidden layer (Dominé et al., 2025). Gradient flow conserves λ.
    The identity has rank $N_h$, so that for λ > 0 the second layer needs this rank as well, hence
    $N_h \le N_o$; for λ < 0 the first does, $N_h \le N_i$; λ = 0 always exists.

    **Arguments:**

    - `widths`: $(N_i, N_h, N_o)$.
    - `balance`: λ, a number or an array of them for a batch.
    - `scale`: take the product of two Gaussian matrices of this standard deviation; or
    - `singular_values`: of the product, `(*batch, mode)` with at most $\min(N_i, N_h, N_o)$ modes
      and random singular vectors; or
    - `product`: the product itself, `(*batch, output, input)`, of rank at most $N_h$.
    - `key`: randomness. With a `product` it may be left out: R is then the identity.
    """
    n_i, n_h, n_o = widths = check_widths(widths, depth=2)
    λ = np.asarray(balance, dtype=float)
    if not np.isfinite(λ).all():
        raise ValueError(f"`balance` must be finite, got {balance}.")
    for wrong, name, limit in ((λ > 0, "outputs", n_o), (λ < 0, "inputs", n_i)):
        if wrong.any() and n_h > limit:
            sign, layer = (">", "second") if name == "outputs" else ("<", "first")
            raise ValueError(
                f"No weights of widths {widths} have `balance` {λ[wrong].flat[0]:g}: λ {sign} 0 "
                f"needs a {layer} layer of rank {n_h}, the number of hidden units, and there are "
                f"only {limit} {name}. Use at most {limit} hidden units, or λ = 0."
            )
    if sum(given is not None for given in (scale, singular_values, product)) != 1:
        raise ValueError("Give exactly one of `scale`, `singular_values` and `product`.")
    if product is None:
        key = _needed(key)

    modes = min(widths)
    if singular_values is not None:
        s = np.asarray(singular_values, dtype=float)
        if s.ndim < 1 or not 1 <= s.shape[-1] <= modes or not (np.isfinite(s) & (s >= 0)).all():
            raise ValueError(
                f"`singular_values` must be up to {modes} finite numbers ≥ 0 for widths {widths}, "
                f"got {s.tolist()}."
            )
        s = np.concatenate((s, np.zeros((*s.shape[:-1], modes - s.shape[-1]))), axis=-1)
        u, v, r = _haar(key, [(n_o, n_o), (n_i, n_i), (n_h, n_h)])
    else:
        if scale is not None:
            σ = check_scale(scale)[..., None, None]
            first, second, draw = map(
                np.asarray, normals(_needed(key), ((n_h, n_i), (n_o, n_h), (n_h, n_h)))
            )
            total, r = σ**2 * (second @ first), _orthonormal(draw)
        else:
            total = np.asarray(product, dtype=float)
            if total.shape[-2:] != (n_o, n_i) or not np.isfinite(total).all():
                raise ValueError(
                    f"`product` must be finite and (*batch, {n_o}, {n_i}) for widths {widths}, got "
                    f"shape {total.shape}."
                )
            r = np.eye(n_h) if key is None else _haar(key, [(n_h, n_h)])[0]
        u, s, vt = np.linalg.svd(total)
        v = vt.swapaxes(-1, -2)
        if s.shape[-1] > modes and (s[..., modes] > 1e-10 * s[..., 0]).any():
            raise ValueError(
                f"`product` has a rank above the {n_h} hidden units of widths {widths}: no weights "
                "have this product."
            )
        s = s[..., :modes]

    # Hidden directions beyond the product's modes carry none of it, but the balance all the same.
    s = np.concatenate((s, np.zeros((*s.shape[:-1], n_h - modes))), axis=-1)
    λ = λ[..., None]
    large = np.sqrt((np.hypot(λ, 2 * s) + np.abs(λ)) / 2)
    # s over the large one and not the formula with its minus sign, where digits cancel.
    small = s / np.where(large > 0, large, 1.0)
    p, q = np.where(λ > 0, small, large), np.where(λ > 0, large, small)
    inputs, outputs = min(n_i, n_h), min(n_o, n_h)
    r_t = r.swapaxes(-1, -2)
    return _joined(
        (r[..., :inputs] * p[..., None, :inputs]) @ v[..., :inputs].swapaxes(-1, -2),
        (u[..., :outputs] * q[..., None, :outputs]) @ r_t[..., :outputs, :],
    )


@float64
def orthogonal(
    widths: Sequence[int], *, gain: Scale = 1.0, product: ArrayLike | None = None, key: Keys
) -> DeepLinear:
    r"""Every layer a random (semi-)orthogonal matrix times `gain`.

    The rows or the columns of each $W_l$, whichever are fewer, are orthonormal, so that for equal
    widths all singular values of the network are $g^D$ at every depth: Saxe, McClelland & Ganguli
    (2014). How fast it learns still depends on how the product lies to the task's modes; compare
    depths with the same `product`. With $UV^\top$ of the task's singular vectors the layers are
    aligned with the task: they are those of `decoupled`, with all strengths equal to the gain.

    **Arguments:**

    - `widths`: layer sizes from input to output.
    - `gain`: g, a number or an array of them for a batch.
    - `product`: what $W_D\cdots W_1/g^D$ shall be, a (semi-)orthogonal matrix `(output, input)`;
      by default the layers are independent. No hidden layer may then be narrower than both ends.
    - `key`: randomness.
    """
    widths = check_widths(widths)
    g = check_scale(gain)[..., None, None]
    shapes = DeepStructure(widths).shapes
    if product is None:
        tall = _haar(key, [(max(shape), min(shape)) for shape in shapes])
        layers = (
            frame if n_out >= n_in else frame.swapaxes(-1, -2)
            for frame, (n_out, n_in) in zip(tall, shapes, strict=True)
        )
        return _joined(*(g * layer for layer in layers))
    total = np.asarray(product, dtype=float)
    modes = min(widths[0], widths[-1])
    if total.shape != (widths[-1], widths[0]) or min(widths) < modes:
        raise ValueError(
            f"`product` must be ({widths[-1]}, {widths[0]}) and no hidden layer narrower than "
            f"{modes} for widths {widths}, got shape {total.shape}."
        )
    u, s, vt = np.linalg.svd(total)
    if not np.abs(s - 1).max() < _ORTHONORMAL:
        raise ValueError(
            "`product` must have orthonormal rows or columns, its singular values are "
            f"{s.tolist()}. From singular vectors of a task: U @ V.T."
        )
    frames = (vt.T, *_haar(key, [(width, width) for width in widths[1:-1]]), u)
    layers = (
        after[..., : min(shape)] @ before[..., : min(shape)].swapaxes(-1, -2)
        for before, after, shape in zip(frames[:-1], frames[1:], shapes, strict=True)
    )
    return _joined(*(g * layer for layer in layers))


@float64
def greedy_pretrained(
    widths: Sequence[int],
    *,
    fraction: float = 0.99,
    module_depth: int = 2,
    readout_scale: Scale = 1e-3,
    input_modes: ArrayLike | None = None,
    key: Keys,
) -> DeepLinear:
    r"""Layers pretrained one after the other as autoencoders, and a small random readout.

    Greedy pretraining (Saxe, McClelland & Ganguli, 2014) trains each hidden layer as the first of a
    linear autoencoder of what the layer below hands on, and then drops the rest of that module.
    From small weights that are aligned with the modes V of the input, the autoencoder's product
    grows towards the identity in every mode: its correlation equals its input's variance, so that
    the target is one whatever the variance. Balanced, a module of m layers that is stopped where
    its product is the fraction a of the identity leaves

    $$W_l = a^{1/m}\,R_l R_{l-1}^\top, \qquad R_0 = V,$$

    with random frames $R_l$: nearly orthogonal, and in the form of `decoupled`. The readout has
    seen no target yet and is drawn from N(0, scale²). How long the modules take is
    that of a scalar chain of their depth from its initial strength to a; it is paid once per
    hidden layer.

    **Arguments:**

    - `widths`: layer sizes from input to output. No hidden layer may be wider than the one before:
      an autoencoder of k numbers brings only k hidden directions to life.
    - `fraction`: a, of the identity at which pretraining stops, above 0 and at most 1.
    - `module_depth`: m, weight matrices of one autoencoder, two or more.
    - `readout_scale`: standard deviation of the last layer.
    - `input_modes`: V `(input, mode)`, all of them or, in a narrow network, those that the first
      layer keeps; the coordinate axes by default, which for white inputs are as good as any.
    - `key`: randomness.
    """
    widths = check_widths(widths)
    *hidden, readout = DeepStructure(widths).shapes
    if any(n_out > n_in for n_out, n_in in hidden):
        raise ValueError(
            "`widths` of hidden layers must not grow, because an autoencoder brings only as many "
            f"hidden directions to life as it has inputs: got {widths}."
        )
    if not 0 < fraction <= 1:
        raise ValueError(f"`fraction` must lie above 0 and be at most 1, got {fraction}.")
    if module_depth < 2 or module_depth != int(module_depth):
        raise ValueError(f"`module_depth` must be a whole number from 2 up, got {module_depth}.")
    σ, key = check_scale(readout_scale)[..., None, None], check_keys(key)
    modes = np.eye(widths[0]) if input_modes is None else _frame("input_modes", input_modes)
    kept = widths[1] if hidden else widths[0]
    if len(modes) != widths[0] or modes.shape[1] < kept:
        raise ValueError(
            f"`input_modes` must be ({widths[0]}, mode) with at least {kept} modes for widths "
            f"{widths}, got {modes.shape}."
        )
    *draws, last = map(np.asarray, normals(key, (*((n, n) for n, _ in hidden), readout)))
    frames = [modes, *map(_orthonormal, draws)]
    layers = (
        fraction ** (1 / module_depth) * after @ before[..., : len(after.T)].swapaxes(-1, -2)
        for before, after in itertools.pairwise(frames)
    )
    return _joined(*layers, σ * last)


def _layer_strengths(
    whole: Scale | None, each: ArrayLike | None, depth: int, modes: int
) -> Float[np.ndarray, "*batch layer mode"]:
    if (whole is None) == (each is None):
        raise ValueError("Give either `initial_strength` or `layer_strengths`.")
    if each is not None:
        b = np.asarray(each, dtype=float)
        if b.shape[-2:] != (depth, modes) or not np.isfinite(b).all():
            raise ValueError(
                f"`layer_strengths` must be finite and (*batch, layer, mode) with {depth} layers "
                f"and {modes} modes, got shape {b.shape}."
            )
        return b
    a = np.asarray(whole, dtype=float)
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
    """R_l diag(b_l) R_{l−1}ᵀ in every layer."""
    pairs = itertools.pairwise(frames)
    return _joined(
        *(
            (after * b[..., layer, None, :]) @ before.swapaxes(-1, -2)
            for layer, (before, after) in enumerate(pairs)
        )
    )


def _joined(*weights: Float[np.ndarray, "..."]) -> DeepLinear:
    """A network of these layers, each with the axes of the whole batch."""
    batch = np.broadcast_shapes(*(weight.shape[:-2] for weight in weights))
    return DeepLinear(tuple(np.broadcast_to(w, (*batch, *w.shape[-2:])).copy() for w in weights))


def _haar(key: Keys | None, shapes: Sequence[tuple[int, int]]) -> list[Float[np.ndarray, "..."]]:
    """Uniformly distributed frames for every key."""
    if not shapes:
        return []
    return [_orthonormal(np.asarray(draw)) for draw in normals(_needed(key), tuple(shapes))]


def _needed(key: Keys | None) -> Key[jax.Array, "..."]:
    if key is None:
        raise ValueError("Random weights need a `key`: jax.random.key(0), or festina.seeds(8).")
    return check_keys(key)


def _orthonormal(
    gaussian: Float[np.ndarray, "*batch width mode"],
) -> Float[np.ndarray, "*batch width mode"]:
    frame, triangle = np.linalg.qr(gaussian)
    # Without the signs a library's convention for them would decide on the distribution.
    return frame * np.sign(np.diagonal(triangle, axis1=-2, axis2=-1))[..., None, :]


def _frame(name: str, given: ArrayLike) -> Float[np.ndarray, "width mode"]:
    frame = np.asarray(given, dtype=float)
    if frame.ndim != 2 or 0 in frame.shape:
        raise ValueError(f"`{name}` must be a matrix (width, mode), got shape {frame.shape}.")
    deviation = np.abs(frame.T @ frame - np.eye(frame.shape[1])).max()
    if not deviation < _ORTHONORMAL:
        raise ValueError(
            f"The columns of `{name}` must be orthonormal, their products deviate from that by "
            f"{deviation:.3g}. The modes are columns: U and V of np.linalg.svd are U and Vh.T."
        )
    return frame
