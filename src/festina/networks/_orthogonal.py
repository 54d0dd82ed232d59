"""Initial weights that are orthogonal matrices."""

from collections.abc import Sequence

import numpy as np

from .._checks import real_array
from .._precision import float64
from .._types import ArrayLike, Keys
from ._build import check_batch, check_scale
from ._deep_linear import DeepLinear, check_widths, layer_shapes
from ._frames import ORTHONORMAL, haar, joined, needed_key
from ._labels import seed_labels


@float64
def orthogonal(
    widths: Sequence[int], *, gain: ArrayLike = 1.0, product: ArrayLike | None = None, key: Keys
) -> DeepLinear:
    r"""Draw every layer as a random (semi-)orthogonal matrix times `gain`.

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
    gains, key = check_scale(gain, name="gain"), needed_key(key)
    check_batch(gains, key, name="gain")
    g, labels = gains[..., None, None], {"gain": gains, **seed_labels(key)}
    shapes = layer_shapes(widths)
    if product is None:
        tall = haar(key, [(max(shape), min(shape)) for shape in shapes])
        layers = (
            frame if n_out >= n_in else frame.swapaxes(-1, -2)
            for frame, (n_out, n_in) in zip(tall, shapes, strict=True)
        )
        return joined(*(g * layer for layer in layers)).with_labels(labels)
    total = real_array("product", product)
    modes = min(widths[0], widths[-1])
    if total.shape != (widths[-1], widths[0]) or min(widths) < modes:
        raise ValueError(
            f"`product` must be ({widths[-1]}, {widths[0]}) and no hidden layer narrower than "
            f"{modes} for widths {widths}, got shape {total.shape}."
        )
    u, s, vt = np.linalg.svd(total)
    if not np.abs(s - 1).max() < ORTHONORMAL:
        raise ValueError(
            "`product` must have orthonormal rows or columns, its singular values are "
            f"{s.tolist()}. From singular vectors of a task: U @ V.T."
        )
    frames = (vt.T, *haar(key, [(width, width) for width in widths[1:-1]]), u)
    layers = (
        after[..., : min(shape)] @ before[..., : min(shape)].swapaxes(-1, -2)
        for before, after, shape in zip(frames[:-1], frames[1:], shapes, strict=True)
    )
    return joined(*(g * layer for layer in layers)).with_labels(labels)
