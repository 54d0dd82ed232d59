"""Deep linear networks with random orthogonal initial weights."""

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
    r"""Draw a deep linear network whose layers are random orthogonal matrices times `gain`.

    The rows or columns of each $W_l/g$, whichever are fewer, are orthonormal. With equal widths all
    singular values of $W_D\cdots W_1$ are then $g^D$ (Saxe, McClelland & Ganguli 2014). The speed
    of learning also depends on the alignment of $W_D\cdots W_1$ with the modes of the task. To
    compare depths, use the same `product` for all of them. With the `product` $UV^\top$ of the
    task's singular vectors, the weights have the form that `festina.networks.decoupled` returns.

    **Arguments:**

    - `widths`: layer sizes from input to output.
    - `gain`: g, one number or an array for a batch of networks.
    - `product`: value of $W_D\cdots W_1/g^D$, a matrix `(output, input)` with orthonormal rows or
      columns. No hidden layer may be narrower than both the input and the output. By default the
      layers are drawn independently.
    - `key`: random key, or an array of keys for a batch.

    **Example:**

    >>> import jax
    >>> import numpy as np
    >>> from festina.networks import orthogonal
    >>> network = orthogonal((3, 3, 3), gain=0.5, key=jax.random.key(0))
    >>> np.linalg.svd(network.end_to_end(), compute_uv=False)
    array([0.25, 0.25, 0.25])
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
            f"For widths {widths} `product` must have the shape ({widths[-1]}, {widths[0]}) and no "
            f"hidden layer may be narrower than {modes}, got a `product` of shape {total.shape}."
        )
    u, s, vt = np.linalg.svd(total)
    if not np.abs(s - 1).max() < ORTHONORMAL:
        raise ValueError(
            "`product` must have orthonormal rows or columns, but its singular values are "
            f"{s.tolist()}. The singular vectors U and V of a task give such a product, U @ V.T."
        )
    frames = (vt.T, *haar(key, [(width, width) for width in widths[1:-1]]), u)
    layers = (
        after[..., : min(shape)] @ before[..., : min(shape)].swapaxes(-1, -2)
        for before, after, shape in zip(frames[:-1], frames[1:], shapes, strict=True)
    )
    return joined(*(g * layer for layer in layers)).with_labels(labels)
