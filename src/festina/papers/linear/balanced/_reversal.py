r"""The task changes its sign after it was learned: how long a network clings to what it knew.

White inputs, loss ½⟨‖y − W₂W₁x‖²⟩, τ Ẇ = −∂L/∂W with τ = 1, balance W₂ᵀW₂ − W₁W₁ᵀ = λI. Networks
learn Σ to the end and are then given −Σ; those of balance 0 would sit on a saddle for ever, unless
they were stopped early.
"""

import itertools
from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float, PRNGKeyArray
from pydantic import Field, model_validator

from ...._types import Array
from ....diagnose import passage_time
from ....dynamics import gradient_flow
from ....networks import DeepLinear, balanced, orthogonal
from ....networks._seeds import Keys
from ....tasks import linear_teacher
from ....theory.linear import balanced_flow, reversal_time, unbalanced_strength
from ..._frame import keys_of
from ..._old import experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
from ._reversal_claims import claims as claims
from ._reversal_draw import draw as draw

NAME = "linear/reversal"
_SAMPLES = 301
_TRAPPED = 15.0
"""How long the trapped network is watched, in units of τ/s: later rounding sets it free."""


class Parameters(BaseParameters):
    """A linear map that is learned and then reversed, at several balances."""

    seeds: int = Field(default=3, ge=1)
    """How many networks with random weights are trained at each balance."""

    singular_values: tuple[float, ...] = (2.0, 1.3, 0.8)
    """Singular values of the map, the largest first."""

    balances: tuple[float, ...] = (0.01, 0.1, 1.0, 3.0, 10.0)
    """Balances λ of the networks, increasing."""

    stops: tuple[float, ...] = (3.0, 4.0, 5.0, 6.0)
    """When learning is stopped in networks of balance 0, in units of τ/s; increasing."""

    size: int = Field(default=4, ge=2, le=16)
    """Dimension of the map that is learned at balance 0, an even number."""

    @model_validator(mode="after")
    def _possible(self) -> "Parameters":
        s = self.singular_values
        if not s or min(s) <= 0 or any(a <= b for a, b in itertools.pairwise(s)):
            raise ValueError(f"`singular_values` must be positive and falling, got {s}.")
        if len(self.balances) < 2 or not _increases(self.balances, 1e-4):
            raise ValueError(
                "`balances` must be two or more increasing numbers from 1e-4 up, got "
                f"{self.balances}. At 0 a converged network is trapped, which is shown in any case."
            )
        if len(self.stops) < 2 or not _increases(self.stops, 2.0) or self.stops[-1] > 8:
            raise ValueError(
                f"`stops` must be two or more increasing numbers from 2 to 8, got {self.stops}: "
                "before that little is learned, and later rounding decides."
            )
        if self.size % 2:
            raise ValueError(
                f"`size` must be even, got {self.size}: in odd dimensions −Σ has a determinant of "
                "the other sign, and one mode is never relearned at balance 0."
            )
        return self


def _increases(values: tuple[float, ...], least: float) -> bool:
    return values[0] >= least and all(a < b for a, b in itertools.pairwise(values))


PRESETS: dict[str, dict[str, Any]] = {}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Train, reverse and train again, at each balance and for learning that was stopped early."""
    keys = keys_of(parameters, key)
    shared = jax.random.fold_in(keys[0], 1)
    say("learned to the end, then reversed", 0.0)
    converged = _converged(parameters, shared, keys)
    say("balance 0, and a shallow network", 0.5)
    trapped, shallow = _trapped(parameters), _shallow(parameters)
    say("balance 0, stopped early", 0.7)
    early = _stopped_early(parameters, keys)
    return run_tree(
        NAME, parameters, converged=converged, trapped=trapped, shallow=shallow, early=early
    )


def _converged(parameters: Parameters, shared: Keys, keys: Keys) -> xr.Dataset:
    """From random weights to Σ, from there to −Σ: when does each mode pass through zero?"""
    s, lam = np.array(parameters.singular_values), np.array(parameters.balances)
    n = len(s)
    left, right = orthogonal((n, n, n), key=shared).weights
    sigma = np.asarray((left * s) @ right.T)
    # Rotations of both ends may oppose Σ, from which a network frees itself in time ln(1/λ)/s.
    enough = (40.0 + 2.0 * np.log(1.0 / min(lam[0], 1.0))) / s[-1]
    start = balanced(
        (n, n, n), balance=lam[:, None], singular_values=np.full(n, 0.1 * s[-1]), key=keys
    )
    learned = gradient_flow(start, linear_teacher(sigma), np.array([enough]), rtol=1e-10).final
    crossing = reversal_time(s, lam[:, None])
    # Strong balances are fast: more often at the beginning.
    times = 2.5 * float(crossing.max()) * np.linspace(0.0, 1.0, _SAMPLES) ** 2
    relearned = gradient_flow(learned, linear_teacher(-sigma), times, rtol=1e-11)
    product = np.asarray(relearned.network.end_to_end())
    strength = np.einsum("om,...oi,im->...m", left, product, right)
    # Where Σ is learned, w₁ and w₂ of a mode have the product s and the balance λ.
    first = np.sqrt((np.hypot(lam[:, None], 2 * s) - lam[:, None]) / 2)
    theory = unbalanced_strength(times, first, s / first, np.broadcast_to(-s, first.shape))
    fine = np.geomspace(lam[0], lam[-1], 61)
    return xr.Dataset(
        {
            "strength": (("balance", "seed", "time", "mode"), strength),
            "theory": (("time", "balance", "mode"), theory),
            "crossing": (
                ("balance", "seed", "mode"),
                np.apply_along_axis(lambda a: passage_time(times, a, 0.0), 2, strength),
            ),
            "crossing_theory": (("balance", "mode"), crossing),
            "crossing_curve": (("fine_balance", "mode"), reversal_time(s, fine[:, None])),
            "left_to_learn": (
                ("balance", "seed"),
                np.linalg.norm(product[:, :, 0] - sigma, axis=(-2, -1)),
            ),
        },
        {
            "time": ("time", times, {"long_name": "time since the reversal, in units of τ"}),
            "balance": lam,
            "fine_balance": fine,
            "mode": s,
            "seed": parameters.seed + np.arange(len(keys)),
        },
    )


def _trapped(parameters: Parameters) -> xr.Dataset:
    """One mode of balance 0 at its target, then reversed: it creeps to the saddle at zero."""
    s = _typical(parameters)
    times = np.linspace(0.0, _TRAPPED / s, _SAMPLES)
    weight = np.full((1, 1), s**0.5)
    task = linear_teacher(np.array([[-s]]))
    trained = gradient_flow(DeepLinear((weight, weight)), task, times, rtol=1e-12)
    return xr.Dataset(
        {
            "strength": ("time", np.asarray(trained.network.end_to_end())[:, 0, 0]),
            "theory": ("time", unbalanced_strength(times, s**0.5, s**0.5, -s)),
            "singular_value": ((), s),
        },
        {"time": times},
    )


def _shallow(parameters: Parameters) -> xr.Dataset:
    """One layer that has learned Σ, then reversed: all modes at once."""
    s = np.array(parameters.singular_values)
    times = np.linspace(0.0, 3.0, _SAMPLES)
    trained = gradient_flow(
        DeepLinear((np.diag(s),)), linear_teacher(-np.diag(s)), times, rtol=1e-10
    )
    strength = np.diagonal(np.asarray(trained.network.end_to_end()), axis1=-2, axis2=-1)
    return xr.Dataset(
        {
            "strength": (("time", "mode"), strength),
            "crossing": ("mode", [passage_time(times, a, 0.0) for a in strength.T]),
        },
        {"time": times, "mode": s},
    )


def _stopped_early(parameters: Parameters, keys: Keys) -> xr.Dataset:
    """Balance 0, all singular values alike, stopped at several times before the reversal."""
    s, n = _typical(parameters), parameters.size
    stops = np.array(parameters.stops) / s
    sigma = s * np.eye(n)
    ahead = 3.0 * stops[-1] + 6.0 / s
    times = np.linspace(0.0, ahead, 2 * _SAMPLES)
    tables: list[xr.Dataset] = []
    for key in keys:
        first, second = _rotated(n, 0.1 * s, key)
        start = DeepLinear((first, second))
        learned = gradient_flow(start, linear_teacher(sigma), stops, rtol=1e-12).network
        # One network for each stop, which is the time axis of the first training.
        course = gradient_flow(learned, linear_teacher(-sigma), times, rtol=1e-12)
        trained = _reversed_part(np.asarray(course.network.end_to_end()), sigma)
        there = balanced_flow(first, second, sigma, balance=0.0)(stops)
        theory = np.stack(
            [
                _reversed_part(
                    balanced_flow(
                        there.inward[..., k].T, there.outward[..., k], -sigma, balance=0.0
                    )(times).map,
                    sigma,
                )
                for k in range(len(stops))
            ]
        )
        tables.append(
            xr.Dataset(
                {
                    "part": (("stop", "sample"), trained),
                    "part_theory": (("stop", "sample"), theory),
                    "crossing": ("stop", [passage_time(times, -part, 0.0) for part in trained]),
                    "relearned": ("stop", [passage_time(times, -part, -0.5) for part in trained]),
                },
                {"stop": stops, "time": ("sample", times)},
            )
        )
    return xr.concat(tables, xr.Variable("seed", parameters.seed + np.arange(len(keys))))


def _typical(parameters: Parameters) -> float:
    """The singular value in the middle, for what is shown of one mode."""
    return float(sorted(parameters.singular_values)[len(parameters.singular_values) // 2])


def _rotated(n: int, strength: float, key: Keys) -> tuple[np.ndarray, np.ndarray]:
    """Balanced at 0 with a random rotation for a map, none of whose angles is nearly half a turn.

    Near half a turn learning Σ takes much longer, and reversing it much less.
    """
    # Which planes are turned makes no difference to a Σ that is the same in all directions.
    angles = np.pi * np.asarray(jax.random.uniform(key, (n // 2,), minval=0.1, maxval=0.7))
    turn = np.kron(np.diag(np.cos(angles)), np.eye(2)) + np.kron(
        np.diag(np.sin(angles)), np.array([[0.0, -1.0], [1.0, 0.0]])
    )
    return strength**0.5 * np.eye(n), strength**0.5 * turn


def _reversed_part(
    product: Float[Array, "*batch output input"], sigma: Float[np.ndarray, "output input"]
) -> Float[np.ndarray, "*batch"]:
    """How much of −Σ is in the map: −1 at Σ, 1 at −Σ."""
    return -np.sum(np.asarray(product) * sigma, axis=(-2, -1)) / np.sum(sigma**2)
