r"""Frames $R_l$, matrices with orthonormal columns, and deep linear networks made from them.

Random frames are uniformly distributed (Haar): the Q factor of a Gaussian matrix, each column
multiplied by the sign of R's diagonal entry. An array of keys draws a batch of frames.
"""

from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import Float, Key

from .._checks import real_array
from .._types import ArrayLike, Keys
from ._build import check_keys, normals
from ._deep_linear import DeepLinear

ORTHONORMAL = 1e-8  # largest accepted deviation from orthonormal columns


def check_frame(name: str, given: ArrayLike) -> Float[np.ndarray, "width mode"]:
    """Return a user's frame as an array; raise unless its columns are orthonormal."""
    frame = real_array(name, given)
    if frame.ndim != 2 or 0 in frame.shape:
        raise ValueError(f"`{name}` must be a matrix (width, mode), got shape {frame.shape}.")
    deviation = np.abs(frame.T @ frame - np.eye(frame.shape[1])).max()
    if not deviation < ORTHONORMAL:
        raise ValueError(
            f"The columns of `{name}` must be orthonormal, but their inner products deviate from "
            f"the identity by {deviation:.3g}. The modes are columns: np.linalg.svd returns U, S, "
            "Vh, of which U and Vh.T have the modes as columns."
        )
    return frame


def haar(key: Keys | None, shapes: Sequence[tuple[int, int]]) -> list[Float[np.ndarray, "..."]]:
    """Draw uniformly distributed frames of the given shapes for every key."""
    if not shapes:
        return []
    return [orthonormal(draw) for draw in normals(needed_key(key), tuple(shapes))]


def orthonormal(
    gaussian: Float[np.ndarray, "*batch width mode"],
) -> Float[np.ndarray, "*batch width mode"]:
    """Return the Q factor of a Gaussian matrix, which is uniformly distributed."""
    frame, triangle = np.linalg.qr(gaussian)
    # Without the signs the distribution would depend on the sign convention of the QR routine.
    return frame * np.sign(np.diagonal(triangle, axis1=-2, axis2=-1))[..., None, :]


def needed_key(key: Keys | None) -> Key[jax.Array, "..."]:
    """Return the key as a typed JAX key; raise if it is None."""
    if key is None:
        raise ValueError(
            "Random weights need a `key`, got None. Use jax.random.key(0), or festina.seeds(8) for "
            "a batch of eight networks."
        )
    return check_keys(key)


def joined(*weights: Float[np.ndarray, "..."]) -> DeepLinear:
    """Return the deep linear network with these weights, broadcast to a common batch shape."""
    batch = np.broadcast_shapes(*(weight.shape[:-2] for weight in weights))
    return DeepLinear(tuple(np.broadcast_to(w, (*batch, *w.shape[-2:])).copy() for w in weights))
