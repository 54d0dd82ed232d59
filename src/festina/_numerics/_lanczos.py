"""Find extreme eigenvalues of a symmetric matrix from its products with vectors."""

from collections.abc import Callable
from typing import Literal

import numpy as np
from jaxtyping import Float


def lanczos(
    product: Callable[[np.ndarray], np.ndarray],
    start: Float[np.ndarray, " n"],
    *,
    count: int = 1,
    which: Literal["largest", "absolute"] = "largest",
    rtol: float,
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "n k"]]:
    """Return the largest eigenvalues, or those largest in absolute value, and their eigenvectors.

    If the product with `start` is zero, Lanczos cannot begin. The function then returns the single
    eigenvalue 0 with the eigenvector `start`.
    """
    from scipy.sparse.linalg import LinearOperator, eigsh

    n = len(start)
    if not product(start).any():
        return np.zeros(1), start[:, None] / np.linalg.norm(start)
    return eigsh(
        LinearOperator((n, n), matvec=lambda x: product(x.ravel()), dtype=float),  # pyright: ignore
        k=count,
        which="LA" if which == "largest" else "LM",
        tol=rtol,  # pyright: ignore[reportArgumentType]
        v0=start,
        ncv=min(n, max(20, 6 * count)),
    )
