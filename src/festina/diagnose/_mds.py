"""Multidimensional scaling: embed items, such as the representations of examples, as points."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from .._axes import axes, styled
from .._checks import check_size, real_array, whole_number
from .._result import Result
from .._types import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class MdsResult(Result):
    """Result of `classical_mds`: coordinates of each item in a few dimensions.

    - `points`: coordinates of each item, `(*time, item, dimension)`.
    - `share`: fraction of the variance of all items (at all times) along each dimension.

    **Example:**

    >>> from festina.diagnose import classical_mds
    >>> found = classical_mds(distances=[[0, 3, 4], [3, 0, 5], [4, 5, 0]])
    >>> found.share.round(2)
    array([0.78, 0.22])
    """

    points: Float[np.ndarray, "*time item dimension"]
    share: Float[np.ndarray, " dimension"]

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Plot the items in the first two dimensions, each as a line over time.

        Keyword arguments in `style` are passed to `Axes.plot`.
        """
        ax, points = axes(ax), self.points.reshape(-1, *self.points.shape[-2:])
        names = [f"item {k}" for k in range(points.shape[1])]
        ax.plot(points[..., 0], points[..., 1], **styled(style, marker=".", label=names))
        ax.set(xlabel="dimension 0", ylabel="dimension 1")
        return ax


def classical_mds(
    similarity: ArrayLike | None = None,
    *,
    points: ArrayLike | None = None,
    distances: ArrayLike | None = None,
    dimensions: int = 2,
) -> MdsResult:
    r"""Embed items by classical multidimensional scaling, with the same axes at all times.

    Let $S$ be the inner products of the items, and $B = JSJ$ the centred inner products,
    $J = I - \frac1n 11^\top$. The rows of $B^{1/2}$ have the inner products $B$. The axes shown are
    the leading eigenvectors of $B$, or of its mean over time, so that

    $$X(t) = B(t)^{1/2} A,\qquad
      \langle B\rangle_t\,A = A\,\mathrm{diag}(\beta_1, \beta_2, \dots).$$

    For a single time this is the textbook result $A\,\mathrm{diag}(\sqrt\beta)$. Over time, the
    points $X(t)$ are continuous if $B(t)$ is. A separate scaling at each time would instead rotate,
    mirror and swap axes from frame to frame. The sign of each axis is chosen once for all times:
    the largest entry of each column of $A$ is positive.

    **Arguments:** give exactly one of the first three.

    - `similarity`: inner products between items, `(item, item)` or `(time, item, item)`.
    - `distances`: distances $d_{ij}$ between items (not squared), with the same shape. Distances
      are converted to $-\frac12 d_{ij}^2$, which equals the inner products after centring.
    - `points`: representations, `(item, unit)` or `(time, item, unit)`. For `points`, the axes are
      the principal axes of all items at all times.
    - `dimensions`: number of dimensions of the embedding.

    **Returns:** an `MdsResult`.

    **Example:**

    >>> import numpy as np
    >>> from festina.diagnose import classical_mds
    >>> points = classical_mds(distances=[[0, 3, 4], [3, 0, 5], [4, 5, 0]]).points
    >>> float(np.linalg.norm(points[1] - points[2]))
    5.0

    !!! note "When it is not exact"

        Distances are reproduced if `share` sums to one, and shrunk otherwise. Dissimilarities that
        are not Euclidean distances give negative eigenvalues of $B$, which count as zero. If items
        move into new directions over time, the common axes show less of the items' variance than
        separate axes at each time would.
    """
    ways = {"similarity": similarity, "points": points, "distances": distances}
    if sum(value is not None for value in ways.values()) != 1:
        raise ValueError(
            "Give either `similarity` between items, their `distances`, or their `points`."
        )
    name, given = next((name, value) for name, value in ways.items() if value is not None)
    z = real_array(name, given)
    if z.ndim not in (2, 3) or 0 in z.shape:
        wanted = "unit" if name == "points" else "item"
        raise ValueError(
            f"`{name}` must be (item, {wanted}) or (time, item, {wanted}), got shape {z.shape}."
        )
    check_size(name, z)
    z = z - z.mean(axis=-2, keepdims=True) if name == "points" else _rows(name, z)
    most = z.shape[-1]
    dimensions = whole_number("dimensions", dimensions)
    if dimensions > most:
        raise ValueError(f"`dimensions` must lie between 1 and {most} here, got {dimensions}.")

    # The principal axes of the rows pooled over time are the eigenvectors of ⟨B⟩ (or of the units'
    # covariance).
    _, s, axes = np.linalg.svd(z.reshape(-1, most), full_matrices=False)
    axes = np.concatenate([axes, np.zeros((max(dimensions - len(axes), 0), most))])[:dimensions].T
    beta = np.concatenate([s**2, np.zeros(dimensions)])
    peak = np.abs(axes).argmax(axis=0)
    axes = axes * np.where(axes[peak, np.arange(dimensions)] < 0, -1.0, 1.0)
    return MdsResult(z @ axes, beta[:dimensions] / max(beta.sum(), np.finfo(float).tiny))


def _rows(name: str, given: np.ndarray) -> Float[np.ndarray, "*time item item"]:
    """Return the rows of $B^{1/2}$, from similarities or distances."""
    items = given.shape[-1]
    if given.shape[-2] != items:
        raise ValueError(
            f"`{name}` must be square over items, got shape {given.shape}. For "
            "representations of items use `points`."
        )
    asymmetry = np.abs(given - given.swapaxes(-1, -2)).max()
    if asymmetry > 1e-8 * np.abs(given).max():
        raise ValueError(f"`{name}` must be symmetric, the largest asymmetry is {asymmetry:.3g}.")
    own = np.diagonal(given, axis1=-2, axis2=-1)
    if name == "distances":
        if (given < 0).any() or own.any():
            raise ValueError(
                "`distances` must be positive between items and zero from each item to itself. "
                "Give inner products as `similarity`."
            )
        similarity = -0.5 * given**2
    else:
        similarity = given
        if not own.any() and (given >= 0).all() and given.any():
            raise ValueError(
                "`similarity` must hold inner products, got zeros on the diagonal and positive "
                "numbers elsewhere. Give distances as `distances`; take roots of squared distances."
            )
    centring = np.eye(items) - 1.0 / items
    beta, modes = np.linalg.eigh(centring @ similarity @ centring)
    root = np.sqrt(np.maximum(beta, 0.0))
    return (modes * root[..., None, :]) @ modes.swapaxes(-1, -2)
