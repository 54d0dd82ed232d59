"""The weights of all units side by side."""

from functools import cached_property

import numpy as np
from jaxtyping import Float

MANY = 1000  # units, from which Householder's reflections take longer than training does
_SHORT = 48  # weights of a unit, up to which pieces are faster than everything at once
_PIECE = 2**19  # multiplications, few enough for BLAS to do without packing and threads


class Rows:
    """θ_i = (v_i, u_i) for each unit, in one array, which is locked.

    It is what initial weights are drawn into, and what a layer's `u` and `v` look into; so what has
    been found out about it once holds ever after.
    """

    def __init__(self, array: Float[np.ndarray, "... unit weight"]):
        self.array, owner = array, array
        while isinstance(owner, np.ndarray):
            owner.flags.writeable = False
            owner = owner.base

    @property
    def many_and_short(self) -> bool:
        """Whether `gram` will be asked for, and takes less time than writing the weights did."""
        return self.array.shape[-2] > MANY and self.array.shape[-1] <= _SHORT

    @cached_property
    def gram(self) -> Float[np.ndarray, "... weight weight"]:
        """ΘᵀΘ, to be read only."""
        *batch, width, columns = self.array.shape
        if columns > _SHORT:
            return self.array.mT @ self.array
        # Of a matrix and itself NumPy asks BLAS for one half only, which for few columns takes
        # longer than the whole; and weights of a unit that lie apart would be read twice.
        from scipy.linalg.blas import dgemm  # pyright: ignore[reportAttributeAccessIssue]

        piece = _PIECE // columns**2
        gram = np.zeros((*batch, columns, columns))
        for lane in np.ndindex(*batch):
            for first in range(0, width, piece):
                part = self.array[(*lane, slice(first, first + piece))].T
                gram[lane] += dgemm(1.0, part, part, trans_b=True)
        gram.flags.writeable = False
        return gram
