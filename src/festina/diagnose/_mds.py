"""Multidimensional scaling: representations as points, moving while they are learned."""

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
    """Result of `classical_mds`: where each item lies in a few dimensions.

    - `points`: coordinates; time comes first for a trajectory.
    - `share`: of the variance of all items (at all times) that each dimension shows.
    """

    points: Float[np.ndarray, "*time item dimension"]
    share: Float[np.ndarray, " dimension"]

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Draw items in the first two dimensions, over time as lines. `style` goes to `plot`."""
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

    Inner products $S$ of items, freed of their mean ($B = JSJ$, $J = I - \frac1n 11^\top$), are
    those of the rows of $B^{1/2}$. The axes shown are the leading eigenvectors of $B$, or of its
    mean over time, so that

    $$X(t) = B(t)^{1/2} A,\qquad
      \langle B\rangle_t\,A = A\,\mathrm{diag}(\beta_1, \beta_2, \dots).$$

    For one moment this is the textbook's $A\,\mathrm{diag}(\sqrt\beta)$. Over time it moves
    without jumps if $B(t)$ does, where a scaling of each moment by itself would turn, mirror and
    swap its axes from one frame to the next. The sign of an axis is a choice, made for all times:
    the largest entry of each column of $A$ is positive.

    **Arguments:**

    - `similarity`: inner products between items, `(item, item)` or `(time, item, item)`.
    - `distances`: instead of it, distances $d_{ij}$ themselves, not their squares:
      $-\frac12 d_{ij}^2$ is the same as inner products after centring.
    - `points`: instead of it, representations, `(item, unit)` or `(time, item, unit)`. Their
      common axes are the principal ones of all items at all times.
    - `dimensions`: how many axes to show.

    **Returns:**

    A `MdsResult`.

    !!! note "When it is not exact"

        Distances are those given where `dimensions` axes hold everything (`share` sums to one), and
        shrunk otherwise. Negative eigenvalues of $B$, of dissimilarities that are no distances in
        any space, are taken as zero. Items that change which directions they span show less of
        themselves than a scaling of that moment would.
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

    # Pooled over time the rows are one cloud, and its principal axes those of ⟨B⟩ or of the units.
    _, s, axes = np.linalg.svd(z.reshape(-1, most), full_matrices=False)
    axes = np.concatenate([axes, np.zeros((max(dimensions - len(axes), 0), most))])[:dimensions].T
    beta = np.concatenate([s**2, np.zeros(dimensions)])
    peak = np.abs(axes).argmax(axis=0)
    axes = axes * np.where(axes[peak, np.arange(dimensions)] < 0, -1.0, 1.0)
    return MdsResult(z @ axes, beta[:dimensions] / max(beta.sum(), np.finfo(float).tiny))


def _rows(name: str, given: np.ndarray) -> Float[np.ndarray, "*time item item"]:
    """B^{1/2} of centred inner products."""
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
                "`distances` must be positive between items and zero from each to itself. Inner "
                "products are `similarity`."
            )
        similarity = -0.5 * given**2
    else:
        similarity = given
        if not own.any() and (given >= 0).all() and given.any():
            raise ValueError(
                "`similarity` is zero between each item and itself, and positive between others: "
                "these are no inner products. Distances are `distances`; of squared ones give "
                "the root."
            )
    centring = np.eye(items) - 1.0 / items
    beta, modes = np.linalg.eigh(centring @ similarity @ centring)
    root = np.sqrt(np.maximum(beta, 0.0))
    return (modes * root[..., None, :]) @ modes.swapaxes(-1, -2)
