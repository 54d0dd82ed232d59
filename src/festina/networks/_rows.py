"""The weights of a layer as one array with a row for each unit."""

from functools import cached_property

import numpy as np
from jaxtyping import Float

MANY = 1000  # number of units above which a QR decomposition takes longer than training
_SHORT = 48  # largest number of weights per unit for which ΘᵀΘ is faster in pieces
_PIECE = 2**19  # multiplications per piece, few enough for BLAS not to pack data or start threads


class Rows:
    """The weights θ_i = (v_i, u_i) of all units as rows of one read-only array.

    The `u` and `v` of a layer are views of this array. Because the array cannot change, `gram` is
    computed once and cached.
    """

    def __init__(self, array: Float[np.ndarray, "... unit weight"]):
        self.array, owner = array, array
        while isinstance(owner, np.ndarray):
            owner.flags.writeable = False
            owner = owner.base

    @property
    def many_and_short(self) -> bool:
        """Whether training will use `gram` and can compute it faster than weights are drawn."""
        return self.array.shape[-2] > MANY and self.array.shape[-1] <= _SHORT

    @cached_property
    def gram(self) -> Float[np.ndarray, "... weight weight"]:
        """ΘᵀΘ, the sum over units of θ_i θ_iᵀ, as a read-only array."""
        *batch, width, columns = self.array.shape
        if columns > _SHORT:
            return self.array.mT @ self.array
        # For a product of a matrix with itself NumPy lets BLAS compute one triangle only, which is
        # slower than the full product if there are few columns. `dgemm` computes the full product.
        from scipy.linalg.blas import dgemm  # pyright: ignore[reportAttributeAccessIssue]

        piece = _PIECE // columns**2
        gram = np.zeros((*batch, columns, columns))
        for lane in np.ndindex(*batch):
            for first in range(0, width, piece):
                part = self.array[(*lane, slice(first, first + piece))].T
                gram[lane] += dgemm(1.0, part, part, trans_b=True)
        gram.flags.writeable = False
        return gram
