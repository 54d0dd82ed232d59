r"""Staircase of units that grow faster than exponentially: alternating gradient flow.

Units of order $p \ge 2$ in $u$ (quadratic neurons, heads of linear attention) do not interact while
they are small. Each unit climbs its *utility*
$\mathcal U(\theta_i) = \langle (y - f_A)\cdot\phi(x; u_i)v_i\rangle$, with the output $f_A$ of the
active units: $\dot\theta_i = \partial\mathcal U/\partial\theta_i$. The utility is homogeneous of
degree $\kappa = p + 1$. With $\theta = rn$, $|n| = 1$ and $d\sigma = r^{\kappa-2}dt$,

$$\frac{dn}{d\sigma} = \nabla\mathcal U(n) - \kappa\,\mathcal U(n)\,n,\qquad
  \frac{d\ln r}{d\sigma} = \kappa\,\mathcal U(n),\qquad \frac{dt}{d\sigma} = r^{2-\kappa}.$$

The direction $n$ climbs the utility on the sphere, and the time $t$ converges while the size $r$
diverges. The first unit to diverge becomes active, and the active units flow to their next saddle.
The dormant units then continue with the utility of the remaining error. Alternating gradient flow
thus alternates utility maximisation and cost minimisation (Kunin et al. 2025). Jumps take a time of
order one, and plateaus a time of order $\epsilon^{2-\kappa}$ for an initial scale $\epsilon$.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..._objective import Data, excess_loss, objective
from ..._types import Array
from ...networks import Layer
from ...networks._structure import AbstractStructure
from ...tasks import AbstractTask
from ._loss_function import velocity
from ._stairs import Staircase, joining_times, root, warn_unless_ended
from ._unit_race import ATOL, RTOL, Escape, Race

_JUMP_RTOL = 1e-7
_SEED = 1e-4  # fraction of the loss that a unit has removed when it becomes active
_NOTHING = 1e-7  # gains below this fraction of the initial loss count as zero


def has_growing_units(network: Layer) -> bool:
    """Return whether units near zero have a homogeneous utility of degree three or more."""
    order = network.unit.algebra.order
    return network.unit.fixed_features and order is not None and order >= 2


def unit_staircase(network: Layer, task: AbstractTask) -> Staircase:
    r"""Return the staircase of a layer of quadratic neurons or linear-attention heads.

    At each stage the first dormant unit to escape is computed from the weights at that time
    (Proposition 5 of Zhang, Saxe & Latham with its correction, for any shape of $v$). If $v$ is a
    single number, the times are those of `blow_up_times`. The active units then flow to their next
    saddle (alternating gradient flow, Kunin et al. 2025). The time of a drop is the time at which
    the loss passes the middle between two levels.

    **Arguments:**

    - `network`: the initial weights of one network.
    - `task`: what is learned.

    **Returns:**

    A `Staircase` of units, for $L = \frac12\langle\lVert y - f\rVert^2\rangle$. The staircase ends
    once the loss cannot fall further, or if no dormant unit escapes.

    !!! note "When it stops holding"

        The first drop has an error of $O(\epsilon\ln(1/\epsilon))$ for an initial scale $\epsilon$,
        if all units are much smaller at the start than a unit that becomes active. For later drops,
        dormant units are followed as if earlier jumps took no time. The times of later drops are
        sensitive to small errors: a unit that was about to escape before a jump escapes immediately
        after the jump. `uncertainty` compares predictions in which dormant units continue from
        before and from after the jump, and is often larger than the error.

        If the utility is nearly the same in two directions, active units continue to rotate while
        other units are dormant. The predictor neglects this rotation. A head of rank two or more
        learns its ranks one after the other. The plateaus between ranks last only $\ln(1/\epsilon)$
        and are counted as part of the jump.
    """
    problem = objective(network, task, "half")
    stage = _Stage(
        problem.structure,
        jax.device_put(problem.data),
        network.width,
        1 + (network.unit.algebra.order or 0),
    )
    weights = problem.structure.columns(*network.parts)[:, 0].reshape(-1, network.width)
    initial = stage.excess(weights)
    active = np.zeros_like(weights)
    dormant = list(range(network.width))

    now, levels, times, chosen = 0.0, [stage.excess(active)], list[float](), [tuple[int, ...]()]
    unknown, uncertainty, shifted = 0.0, list[float](), list[tuple[float, np.ndarray]]()
    while dormant and levels[-1] > _NOTHING * levels[0]:
        escape = stage.race(active, weights[:, dormant])
        if escape is None:
            break
        small = float(np.abs(stage.gain(active, weights[:, dormant])).sum()) / stage.large(active)
        others = ((shift, stage.race(active, w[:, dormant])) for shift, w in shifted)
        unknown += max((_apart(escape, other, shift) for shift, other in others), default=0.0)
        unit = dormant.pop(escape.which)
        settled, passage, width = stage.settle(active, unit, escape)
        level = stage.excess(settled)
        if levels[-1] - level <= _NOTHING * levels[0]:
            break
        uncertainty.append(unknown + width * (_SEED + small))
        # Dormant units are integrated as if the jump took no time. During the jump their utility is
        # between the utilities of the plateaus before and after the jump. The next race is
        # therefore run twice, with a start before and after the jump.
        took = min(abs(passage) + width, escape.time)
        unknown += abs(passage) + width * (1.0 + small)
        shifted = [
            (shift, stage.waited(active, weights, dormant, escape.time + shift))
            for shift in (-took, took)
        ]
        weights = stage.waited(active, weights, dormant, escape.time)
        times.append(max(now + escape.time + passage, 0.0))
        now += escape.time
        active = settled
        levels.append(level)
        chosen.append(tuple(sorted((*chosen[-1], unit))))
    return Staircase(
        levels=problem.floor + np.array(levels),
        times=np.array(times),
        active=tuple(chosen),
        joined=joining_times(chosen, times, network.width),
        members="units",
        uncertainty=np.array(uncertainty),
        initial=np.asarray(problem.floor + initial),
        fewest=np.asarray(len(levels)),
        most=np.asarray(len(levels)),
    )


class _Stage(NamedTuple):
    """A network and its data; weights have the shape `(weight, unit)`."""

    structure: AbstractStructure
    data: Data
    width: int
    degree: int

    def excess(self, weights: np.ndarray) -> float:
        """Return the loss above the least-squares loss."""
        return float(_excess(self.structure, weights.ravel(), self.data))

    def pull(self, active: np.ndarray, dormant: np.ndarray) -> Float[np.ndarray, "weight unit"]:
        """Return ∂U/∂θ_i for independent dormant units, given the error of the active units."""
        wide = np.zeros((len(dormant), self.width))
        wide[:, : dormant.shape[1]] = dormant
        pull = _pull(self.structure, wide.ravel(), active.ravel(), self.data)
        return np.asarray(pull).reshape(wide.shape)[:, : dormant.shape[1]]

    def race(self, active: np.ndarray, dormant: np.ndarray) -> Escape | None:
        """Return the first of the dormant units to escape; None if none does."""
        moves = np.flatnonzero(np.linalg.norm(dormant, axis=0))
        steepest = float(np.linalg.norm(self.correlation(active)))
        if not moves.size or not steepest > 0:
            return None
        large = self.large(active)
        race = Race(lambda n: self.pull(active, n), dormant[:, moves], self.degree, large)
        # By this time a unit has either found its direction or does not move.
        escape = race.first(latest=1e3 / steepest)
        return None if escape is None else escape._replace(which=int(moves[escape.which]))

    def gain(self, active: np.ndarray, dormant: np.ndarray) -> Float[np.ndarray, " unit"]:
        """Return the utility of each unit: its reduction of the loss, to first order."""
        return np.sum(dormant * self.pull(active, dormant), axis=0) / self.degree

    def large(self, active: np.ndarray) -> float:
        """Return the gain at which a unit becomes active."""
        return _SEED * self.excess(active)

    def correlation(self, active: np.ndarray) -> Float[np.ndarray, "..."]:
        """Return ⟨(y − f_A)ψ⟩, whose norm bounds the utility of unit-norm weights."""
        residual = np.asarray(_residual(self.structure, active.ravel(), self.data))
        psi = np.asarray(self.data.psi)
        return residual.T @ psi.reshape(len(psi), -1)

    def waited(
        self, active: np.ndarray, weights: np.ndarray, dormant: list[int], time: float
    ) -> Float[np.ndarray, "weight unit"]:
        """Return the weights of all units, with the dormant units integrated for a time.

        A unit that would also escape in this time is limited to the size at which units become
        active. Alone this unit would diverge, but the active units learn the same part of the
        error.
        """
        from scipy.integrate import solve_ivp

        small = weights[:, dormant]
        scale = float(np.abs(small).max(initial=0.0))
        if scale == 0.0:
            return weights
        solution = solve_ivp(
            lambda _, state: self.pull(active, state.reshape(small.shape)).ravel(),
            (0.0, time * scale ** (self.degree - 2)),
            (small / scale).ravel(),
            method="DOP853",
            rtol=RTOL,
            atol=ATOL,
        )
        grown = scale * solution.y[:, -1].reshape(small.shape)
        gain, large = self.gain(active, grown), self.large(active)
        later = weights.copy()
        later[:, dormant] = grown * np.where(gain > large, large / gain, 1.0) ** (1 / self.degree)
        return later

    def settle(
        self, active: np.ndarray, unit: int, escape: Escape
    ) -> tuple[Float[np.ndarray, "weight unit"], float, float]:
        """Return the saddle to which active units flow, the half time of the jump, and the lead.

        The half time is when half of the loss difference is learned, counted from the escape. The
        lead is the time from when the unit becomes active to its escape.
        """
        from scipy.integrate import solve_ivp

        kappa, before = self.degree, self.excess(active)
        radius = (_SEED * before / escape.utility) ** (1.0 / kappa)
        ahead = radius ** (2 - kappa) / ((kappa - 2) * kappa * escape.utility)
        start = active.copy()
        start[:, unit] = radius * escape.direction
        grown = np.flatnonzero(start.any(axis=0))

        def whole(state: np.ndarray) -> np.ndarray:
            weights = np.zeros_like(active)
            weights[:, grown] = state.reshape(-1, len(grown))
            return weights

        def flow(_: float, state: np.ndarray) -> np.ndarray:
            down = np.asarray(velocity(self.structure, whole(state).ravel(), self.data))
            return down.reshape(active.shape)[:, grown].ravel()

        def bend(_: float, state: np.ndarray) -> np.ndarray:
            # Use the exact Jacobian: in finite differences, rounding errors of stiff directions
            # hide slow directions.
            every = np.asarray(_curvature(self.structure, whole(state).ravel(), self.data))
            square = every.reshape(*active.shape, *active.shape)[:, grown][..., grown]
            return square.reshape(state.size, state.size)

        at_start = float(np.sum(flow(0.0, start[:, grown].ravel()) ** 2))

        def rests(_: float, state: np.ndarray) -> float:
            return float(np.sum(flow(0.0, state) ** 2)) / (1e-8 * at_start) - 1.0

        rests.terminal, rests.direction = True, -1  # pyright: ignore[reportFunctionMemberAccess]
        solution = solve_ivp(
            flow,
            (0.0, 1e4 * ahead),
            start[:, grown].ravel(),
            method="LSODA",
            rtol=_JUMP_RTOL,
            atol=_JUMP_RTOL * radius,
            events=rests,
            dense_output=True,
            jac=bend,
        )
        warn_unless_ended(solution)
        settled = whole(solution.y[:, -1])
        middle = 0.5 * (before + self.excess(settled))
        above = lambda t: self.excess(whole(solution.sol(t))) - middle
        # After a small drop, the loss has passed the middle before the unit becomes active.
        half = root(above, 0.0, float(solution.t[-1])) if above(0.0) > 0.0 else 0.0
        return settled, half - ahead, ahead


def _apart(escape: Escape, other: Escape | None, shift: float) -> float:
    """Return the difference of two predicted escape times; `other` began `shift` later."""
    if other is None:
        return np.inf
    return abs(escape.time - other.time - shift)


def _residual(
    structure: AbstractStructure, weights: Float[Array, " weight"], data: Data
) -> Float[Array, "sample output"]:
    """Return the error of every sample times its weight in the average."""
    return data.weight[:, None] * (data.y - structure.outputs(data.psi, *structure.split(weights)))


@functools.partial(jax.jit, static_argnums=0)
def _pull(
    structure: AbstractStructure,
    weights: Float[Array, " weight"],
    active: Float[Array, " weight"],
    data: Data,
) -> Float[Array, " weight"]:
    residual = _residual(structure, active, data)

    def utility(weights: Array) -> Array:
        return jnp.sum(residual * structure.outputs(data.psi, *structure.split(weights)))

    return jax.grad(utility)(weights)


_curvature = functools.partial(jax.jit, static_argnums=0)(jax.jacfwd(velocity, argnums=1))
_excess = functools.partial(jax.jit, static_argnums=0)(excess_loss)
