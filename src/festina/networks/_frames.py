r"""Frames $R_l$, whose columns are orthonormal, and deep linear networks made from them.

Random frames are uniformly distributed (Haar): the Q factor of a Gaussian matrix, its columns given
the signs of R's diagonal. Of keys an array makes a batch of frames.
"""

from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import Float, Key

from .._checks import real_array
from .._types import ArrayLike, Keys
from ._build import check_keys, normals
from ._deep_linear import DeepLinear

ORTHONORMAL = 1e-8  # deviation from orthonormal columns at which a frame is refused


def check_frame(name: str, given: ArrayLike) -> Float[np.ndarray, "width mode"]:
    """Return a frame that was given; modes are columns. Raises unless these are orthonormal."""
    frame = real_array(name, given)
    if frame.ndim != 2 or 0 in frame.shape:
        raise ValueError(f"`{name}` must be a matrix (width, mode), got shape {frame.shape}.")
    deviation = np.abs(frame.T @ frame - np.eye(frame.shape[1])).max()
    if not deviation < ORTHONORMAL:
        raise ValueError(
            f"The columns of `{name}` must be orthonormal, their products deviate from that by "
            f"{deviation:.3g}. The modes are columns: U and V of np.linalg.svd are U and Vh.T."
        )
    return frame


def haar(key: Keys | None, shapes: Sequence[tuple[int, int]]) -> list[Float[np.ndarray, "..."]]:
    """Draw uniformly distributed frames for every key."""
    if not shapes:
        return []
    return [orthonormal(draw) for draw in normals(needed_key(key), tuple(shapes))]


def orthonormal(
    gaussian: Float[np.ndarray, "*batch width mode"],
) -> Float[np.ndarray, "*batch width mode"]:
    """Return the frame of a Gaussian matrix."""
    frame, triangle = np.linalg.qr(gaussian)
    # Without the signs a library's convention for them would decide on the distribution.
    return frame * np.sign(np.diagonal(triangle, axis1=-2, axis2=-1))[..., None, :]


def needed_key(key: Keys | None) -> Key[jax.Array, "..."]:
    """Return the key; raises if there is none."""
    if key is None:
        raise ValueError("Random weights need a `key`: jax.random.key(0), or festina.seeds(8).")
    return check_keys(key)


def joined(*weights: Float[np.ndarray, "..."]) -> DeepLinear:
    """Return a network of these layers, each with the axes of the whole batch."""
    batch = np.broadcast_shapes(*(weight.shape[:-2] for weight in weights))
    return DeepLinear(tuple(np.broadcast_to(w, (*batch, *w.shape[-2:])).copy() for w in weights))
