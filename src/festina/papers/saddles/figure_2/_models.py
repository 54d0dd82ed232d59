r"""What the panels of Figure 2 share: two networks, a power-law spectrum, staircases of the loss.

Singular values $s_n \propto n^{-\kappa}$, n = 1, 2, 3, with sum one: of Σ_yz for a linear network
(white inputs), of Σ_yZ for linear attention (tokens of variances $\lambda_n = \sqrt{s_n}$, divided
by the context length). The paper does not print scales and rates for this figure. Times are those
of gradient flow on ½⟨‖y − f‖²⟩, t = 2ηn for n steps on the paper's loss ⟨‖y − f‖²⟩ (Eq. 64), which
is the one that is shown.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from ....diagnose import passage_time, plateaus
from ....dynamics import Trajectory, gradient_flow
from ....networks import Layer, attention, fully_connected
from ....networks._seeds import Keys
from ....tasks import AbstractTask, in_context_regression, linear_teacher
from ....theory.saddles import mode_drop_times
from ..._registry import Progress
from .._units_flow import blow_up

DIRECTIONS = 3
CONTEXT = 32
_MOST_PLATEAUS = 8
_THEORY_SAMPLES, _THEORY_STRIDE = 4000, 10
_RTOL, _CONVERGED = 1e-5, 1e-4


def spectrum(kappa: float) -> Float[np.ndarray, " mode"]:
    """Singular values n^(−κ), normalised to sum one."""
    s = np.arange(1.0, DIRECTIONS + 1) ** -kappa
    return s / s.sum()


@dataclass(frozen=True)
class Model:
    """A network of the figure: its task, its weights, and what theory knows beforehand.

    - `levels`: ⟨‖y − f‖²⟩ with none, one, two and three directions learned.
    - `predict`: drop times `(seed, drop)` from the initial weights, NaN where theory is silent.
    - `curve`: times and the loss that theory predicts at them for each seed, if it does.
    - `strengths`: how far each direction is learned, one at the lowest loss.
    """

    name: str
    task: Callable[[np.ndarray], AbstractTask]
    network: Callable[..., Layer]
    levels: Callable[[np.ndarray], np.ndarray]
    predict: Callable[[Layer, np.ndarray], np.ndarray]
    strengths: Callable[[Layer, np.ndarray], np.ndarray]
    curve: Callable[[Layer, np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None


def _linear_network(width: int, scale: Any, key: Keys) -> Layer:
    return fully_connected(DIRECTIONS, width, DIRECTIONS, scale=scale, key=key)


def _attention_network(width: int, scale: Any, key: Keys) -> Layer:
    return attention(DIRECTIONS, width, scale=scale, key=key)


def _linear_levels(s: np.ndarray) -> np.ndarray:
    """Lemma 6: each mode that is learned takes off μ_k, which is s_k² for white inputs."""
    return np.append(np.cumsum((s**2)[::-1])[::-1], 0.0)


def _attention_levels(s: np.ndarray) -> np.ndarray:
    """Each direction that is learned takes λ/(1 + (1 + tr Λ/λ)/N) off tr Λ."""
    variances = np.sqrt(s)
    return variances.sum() - np.append(0.0, np.cumsum(variances**2 * _attention_gain(s)))


def _attention_gain(s: np.ndarray) -> np.ndarray:
    """What Σ v k qᵀ is along each direction at the lowest loss."""
    variances = np.sqrt(s)
    return 1.0 / (variances + (variances + variances.sum()) / CONTEXT)


def _linear_theory(network: Layer, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Modes of white inputs are logistic curves, each from its own part of the initial weights."""
    half = mode_drop_times(network.u, network.v, np.diag(s), np.eye(DIRECTIONS))
    times = np.linspace(0.0, 1.3 * half.max(), _THEORY_SAMPLES)
    # Half of a mode's share of the loss is gone at a strength of 1 − 1/√2: logit ln(√2 − 1).
    logit = np.log(np.sqrt(2) - 1) + 2 * s * (times[:, None] - half[:, None])
    return times, (s**2 / (1 + np.exp(np.minimum(logit, 700.0))) ** 2).sum(axis=-1)


def _linear_times(network: Layer, s: np.ndarray) -> np.ndarray:
    """When the sum of all modes passes the middle between two levels."""
    times, losses = _linear_theory(network, s)
    return np.array([passages(times, loss, _linear_levels(s)) for loss in losses])


def _attention_times(network: Layer, s: np.ndarray) -> np.ndarray:
    """The first head that leaves zero makes the first drop; with it Σ_yZ changes for the others.

    A head is a rank-one tensor, (v_y k + k_y v)·diag(s) q, with the label's entries of value and
    key beside those of the tokens: more than the one value of Eq. (13), so that it is followed to
    infinity numerically, each head by itself.
    """
    heads = np.concatenate(_heads(network), axis=-1)
    escapes, _ = blow_up(
        lambda theta: _head_field(theta, s), heads.reshape(-1, heads.shape[-1]), rtol=1e-6
    )
    times = np.full((len(heads), DIRECTIONS), np.nan)
    times[:, 0] = escapes.reshape(heads.shape[:-1]).min(axis=-1)
    return times


def _head_field(theta: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Gradient of (v_y k + k_y v)·diag(s) q."""
    k, q, v = np.split(theta, (DIRECTIONS + 1, 2 * DIRECTIONS + 1), axis=1)
    k, k_y, v, v_y = k[:, :-1], k[:, -1:], v[:, :-1], v[:, -1:]
    driven = s * q
    return np.concatenate(
        (
            v_y * driven,
            np.sum(v * driven, axis=1, keepdims=True),
            s * (v_y * k + k_y * v),
            k_y * driven,
            np.sum(k * driven, axis=1, keepdims=True),
        ),
        axis=1,
    )


def _linear_strengths(network: Layer, s: np.ndarray) -> np.ndarray:
    return np.einsum("...id,...id->...d", network.v, network.u) / s


def _attention_strengths(network: Layer, s: np.ndarray) -> np.ndarray:
    k, q, v = _heads(network)
    read = v[..., -1:] * k[..., :-1] + k[..., -1:] * v[..., :-1]
    return np.sum(read * q, axis=-2) / _attention_gain(s)


def _heads(network: Layer) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Keys, queries and values of heads of rank one; the query's label is zero and never read."""
    u, v = np.asarray(network.u), np.asarray(network.v)
    return u[..., 0, 0, :], u[..., 1, 0, :-1], v[..., 0, :]


LINEAR = Model(
    "linear",
    lambda s: linear_teacher(np.diag(s)),
    _linear_network,
    _linear_levels,
    _linear_times,
    _linear_strengths,
    _linear_theory,
)
ATTENTION = Model(
    "attention",
    lambda s: in_context_regression(DIRECTIONS, CONTEXT, token_covariance=np.diag(np.sqrt(s))),
    _attention_network,
    _attention_levels,
    _attention_times,
    _attention_strengths,
)


@dataclass(frozen=True)
class Setting:
    """One curve of the figure: where it stands on the axis that is swept, spectrum and weights."""

    value: float | int
    singular_values: np.ndarray
    network: Layer


def sweep(
    model: Model, axis: str, settings: Sequence[Setting], first_seed: int, progress: Progress
) -> xr.Dataset:
    """Train every seed of every setting; curves, plateaus and predictions side by side."""
    tables = []
    for index, setting in enumerate(settings):
        progress(f"{model.name}, {axis} {setting.value:g}", index / len(settings))
        tables.append(_staircases(model, setting))
    longest = max(table.sizes["save"] for table in tables)
    padded = [table.pad(save=(0, longest - table.sizes["save"]), mode="edge") for table in tables]
    data = xr.concat(padded, xr.Variable(axis, [setting.value for setting in settings]))
    return data.assign_coords(seed=first_seed + np.arange(data.sizes["seed"]))


def _staircases(model: Model, setting: Setting) -> xr.Dataset:
    s, network = setting.singular_values, setting.network
    trajectory = gradient_flow(
        network, model.task(s), loss="half", rtol=_RTOL, converged=_CONVERGED
    )
    levels = model.levels(s)
    lanes = [trajectory.lane(seed) for seed in range(len(trajectory.saves))]
    found = [
        plateaus(lane.time, lane.loss, lane.squared_gradient, slope=lane.slope) for lane in lanes
    ]
    drops = np.array([passages(lane.time, 2 * lane.loss, levels, 2 * lane.slope) for lane in lanes])
    theory = {}
    if model.curve is not None:
        times, losses = model.curve(network, s)
        theory["theory_time"] = ("sample", times[::_THEORY_STRIDE])
        theory["theory_loss"] = (("seed", "sample"), losses[:, ::_THEORY_STRIDE])
    in_order = np.array([_in_order(model, lane, s) for lane in lanes])
    return xr.Dataset(
        {
            **theory,
            "time": (("seed", "save"), trajectory.time, {"long_name": "time t = 2ηn"}),
            "loss": (("seed", "save"), 2 * trajectory.loss, {"long_name": "loss ⟨‖y − f‖²⟩"}),
            "singular_value": ("mode", s),
            "level": ("plateau", levels),
            "drop_time": (("seed", "drop"), drops),
            "predicted_time": (("seed", "drop"), model.predict(network, s)),
            "in_order": ("seed", in_order),
            "initial_rate": (
                "seed",
                [lane.squared_gradient[0] / lane.squared_gradient.max() for lane in lanes],
            ),
            "final_rank": ("seed", [_rank(lane.final) for lane in lanes]),
            "count": ("seed", [len(each) for each in found]),
            "visited": (("seed", "rest"), [_padded(2 * each.level) for each in found]),
            "strength": (("seed", "rest"), [_padded(each.strength) for each in found]),
        }
    )


def passages(
    time: np.ndarray, loss: np.ndarray, levels: np.ndarray, slope: np.ndarray | None = None
) -> list[float]:
    """When the loss passes the middle between two levels."""
    middles = (levels[:-1] + levels[1:]) / 2
    return [passage_time(time, loss, middle, slope=slope) for middle in middles]


def _in_order(model: Model, lane: Trajectory, s: np.ndarray) -> bool:
    """Whether stronger directions are learned by half before weaker ones."""
    learned = model.strengths(lane.network, s) >= 0.5
    first = np.where(learned.any(axis=0), learned.argmax(axis=0), len(learned))
    return bool((np.diff(first) >= 0)[np.diff(s) < 0].all())


def _rank(network: Layer) -> int:
    """Number of directions in which units differ, from one per cent of the strongest on."""
    theta = np.concatenate(
        [np.asarray(part).reshape(network.width, -1) for part in network.parts], axis=1
    )
    size = np.linalg.svd(theta, compute_uv=False)
    return int(np.sum(size > 0.01 * size[0]))


def _padded(values: np.ndarray) -> np.ndarray:
    table = np.full(_MOST_PLATEAUS, np.nan)
    kept = values[:_MOST_PLATEAUS]
    table[: len(kept)] = kept
    return table
