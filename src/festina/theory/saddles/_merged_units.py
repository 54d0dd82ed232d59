"""Merged units: for each kind of saddle, the narrow networks that best approximate a layer.

For each kind the units are ranked, and the first h units form the narrow network of width h. Adding
one unit at a time gives the errors of all widths in one pass.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..._checks import acute, check_alone
from ..._precision import float64
from ...networks import Layer
from ...networks._algebra import Algebra
from ...tasks import AbstractTask
from ._clusters import clusters, rays_of
from ._kinds import Kind, admissible
from ._manifolds import unit_rows
from ._responses import OnData


class MergedNetwork(NamedTuple):
    """Result of `merged_networks` for one kind: units in order of importance, and errors.

    - `kind`: the kind of saddle.
    - `network`: the merged units, most important first.
    - `error`: `error[h]` is the root mean square of f − f_h divided by `scale`, where f are the
      outputs of the original network and f_h those of the first h units; h runs from 0 to all
      units.
    - `scale`: the root mean square by which all errors are divided.

    **Example:**

    >>> from festina.networks import layer_from
    >>> from festina.tasks import two_orthogonal_points
    >>> from festina.theory.saddles import merged_networks
    >>> network = layer_from("relu", [[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]], [1.0, 1.0, 0.1])
    >>> merged = merged_networks(network, two_orthogonal_points())[-1]
    >>> merged.kind, merged.error.round(2), merged.width(tolerance=0.2)
    ('proportional', array([2.16, 0.15, 0. ]), 1)
    >>> merged.narrow(1).u.round(2)
    array([[1.73, 0. ]])
    """

    kind: Kind
    network: Layer
    error: Float[np.ndarray, " width"]
    scale: float

    def width(self, tolerance: float) -> int | None:
        """Return the smallest width h with an error within the tolerance, or None."""
        fine = np.flatnonzero(self.error <= tolerance)
        return int(fine[0]) if fine.size else None

    def narrow(self, width: int) -> Layer:
        """Return the network of the first `width` units."""
        if not 1 <= width <= self.network.width:
            raise ValueError(f"`width` must be 1 to {self.network.width}, got {width}.")
        return self.network.with_parts(*(part[:width] for part in self.network.parts))


@float64
def merged_networks(
    network: Layer, task: AbstractTask, *, angle: float = 0.2, own_scale: bool = False
) -> tuple[MergedNetwork, ...]:
    r"""Return narrow approximations of a layer, one for each admissible kind of saddle.

    The simplest kind comes first. Each result is the reduced network (F.3 of Zhang, Saxe & Latham)
    for the nearest point on a manifold of Theorem 3:

    - `"zero"`: keep the units with the largest contributions, measured by the root mean square of
      $\phi(x; u_i)v_i$.
    - `"equal"`: merge units with responses that differ by less than `angle` times their size (up to
      the sign, if φ is odd). The merged unit has the sum of the v of all units of a group. The u of
      the merged unit is the mean u of the group, or the u of the unit nearest to the mean response
      if this u fits better: attention heads with different keys and queries may respond alike.
    - `"proportional"`: merge units with u within `angle` of one ray (of one line, if φ is even or
      homogeneous over the reals). Groups form around the units with the largest contributions. The
      merged u points along the contribution-weighted mean direction of its group. For a merged u of
      norm one, the merged $v = \sum_i |u_i| v_i$.
    - `"linear"`: take the leading singular vectors of the map $M = \sum_i v_i u_i^\top$ on the
      data, $M\langle zz^\top\rangle^{1/2}$. The singular vectors of $\Theta = [V, U]$ would also
      span components of u that no output weight reads (Lemma 6).

    **Arguments:**

    - `network`: one network.
    - `task`: the data on which errors are measured.
    - `angle`: largest angle in radians within which units are merged.
    - `own_scale`: if True, errors are in units of the root mean square of the outputs instead of
      the targets. If all targets are zero, errors are always in units of the outputs.

    **Example:** Two of three rectified units lie on one ray.

    >>> from festina.networks import layer_from
    >>> from festina.tasks import two_orthogonal_points
    >>> from festina.theory.saddles import merged_networks
    >>> network = layer_from("relu", [[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]], [1.0, 1.0, 0.1])
    >>> for merged in merged_networks(network, two_orthogonal_points()):
    ...     print(merged.kind, merged.error.round(2))
    zero [2.16 0.76 0.15 0. ]
    equal [2.16 0.76 0.15 0. ]
    proportional [2.16 0.15 0. ]
    """
    check_alone(network.batch_shape)
    angle = acute(angle)
    u, v = unit_rows(network)
    statistics = task.statistics(network.unit)
    seen = OnData(network, statistics)
    responses = seen.responses(u)
    outputs = seen.sum(responses, v)
    contribution = seen.contributions(responses, v)
    power = statistics.power
    scale = seen.size(outputs) if own_scale or not power else math.sqrt(power)

    def units(kind: Kind) -> tuple[np.ndarray, np.ndarray]:
        if kind == "zero":
            order = np.argsort(-contribution, kind="stable")
            return u[order], v[order]
        if kind == "linear":
            return _directions(u, v, seen.gram(seen.responses(np.eye(u.shape[1]))))
        if kind == "equal":
            return _copies(seen, u, v, responses, contribution, angle)
        return _rays(u, v, contribution, angle, network.unit.algebra)

    def ranked(kind: Kind) -> MergedNetwork:
        few_u, few_v = units(kind)
        few = seen.responses(few_u)
        if kind in ("equal", "proportional"):
            order = np.argsort(-seen.contributions(few, few_v), kind="stable")
            few_u, few_v, few = few_u[order], few_v[order], few[..., order]
        left = seen.left(outputs, few, few_v)
        front = (len(few_u),)
        structure = network.structure
        return MergedNetwork(
            kind,
            network.with_parts(
                few_u.reshape(*front, *structure.weight_shape),
                few_v.reshape(*front, *structure.value_shape),
            ),
            left / scale if scale > 0 else np.where(left > 0, np.inf, 0.0),
            scale,
        )

    return tuple(ranked(kind) for kind in admissible(network.unit.algebra))


def _rays(
    u: np.ndarray, v: np.ndarray, contribution: np.ndarray, angle: float, algebra: Algebra
) -> tuple[np.ndarray, np.ndarray]:
    """Return u and v of one unit for each ray of units."""
    lines = algebra.homogeneous == "real" or algebra.even
    size = np.linalg.norm(u, axis=1)
    few_u, few_v = [], []
    for members, along, side in rays_of(u, contribution, angle, lines=lines):
        # On a line, an even unit responds to −u as to u, and any other unit with the opposite sign.
        read = ((1.0 if algebra.even else side) * size[members]) @ v[members]
        # Any factor can be moved between u and v. Weights that have grown from small values have
        # equal norms of u and v.
        factor = math.sqrt(np.linalg.norm(read)) or 1.0
        few_u.append(factor * along)
        few_v.append(read / factor)
    return _stacked(few_u, u), _stacked(few_v, v)


def _copies(
    seen: OnData,
    u: np.ndarray,
    v: np.ndarray,
    responses: np.ndarray,
    contribution: np.ndarray,
    angle: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return u and v of one unit for each group of units that respond alike."""
    algebra, gram = seen.unit.algebra, seen.gram(responses)
    power = np.diag(gram)

    def alike(leader: int) -> np.ndarray:
        overlap = np.abs(gram[leader]) if algebra.odd else gram[leader]
        apart = power + power[leader] - 2 * overlap
        return apart <= (2 * math.sin(angle / 2)) ** 2 * np.maximum(power, power[leader])

    signs, flips, shares = [], [], []
    for leader, members in clusters(contribution, alike):
        # An odd unit responds to −u with the opposite sign, an even unit as to u.
        sign = np.where(algebra.odd & (gram[leader] < 0), -1.0, 1.0) * members
        signs.append(sign)
        flips.append(np.where(algebra.even & (u @ u[leader] < 0), -sign, sign))
        shares.append(members * contribution / contribution[members].sum())
    sign, flip, share = (_stacked(rows, gram) for rows in (signs, flips, shares))
    mean_u = (share * flip) @ u
    mean = responses @ (share * sign).T
    off = np.where(share > 0, power - 2 * sign * ((share * sign) @ gram), np.inf)
    nearest = np.argmin(off, axis=1)
    few = np.arange(len(nearest))
    own = sign[few, nearest] * responses[..., nearest]
    better = seen.powers(own - mean) < seen.powers(seen.responses(mean_u) - mean)
    own_u = flip[few, nearest, None] * u[nearest]
    return np.where(better[:, None], own_u, mean_u), sign @ v


def _directions(
    u: np.ndarray, v: np.ndarray, second_moment: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return u and v of units along the leading directions of the map M = Σ_i v_i u_iᵀ.

    With the left singular vectors a_k of M⟨zzᵀ⟩^½, the map is M = Σ_k a_k (Mᵀa_k)ᵀ.
    """
    m = v.T @ u
    power, axes = np.linalg.eigh(second_moment)
    a = np.linalg.svd(m @ (axes * np.sqrt(np.maximum(power, 0.0))), full_matrices=False)[0]
    read = (a.T @ m)[: len(u)]
    # Give u and v equal norms, as they have after growth from small weights.
    factor = np.sqrt(np.linalg.norm(read, axis=1, keepdims=True))
    return read / np.where(factor > 0, factor, 1.0), factor * a.T[: len(u)]


def _stacked(rows: list[np.ndarray], like: np.ndarray) -> np.ndarray:
    return np.array(rows).reshape(-1, like.shape[1])
