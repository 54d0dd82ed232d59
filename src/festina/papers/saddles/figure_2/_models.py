r"""Shared code of the panels of Figure 2: two networks, a power-law spectrum, staircases of loss.

The data have singular values $s_n \propto n^{-\kappa}$ for n = 1, 2, 3, with sum one. For a linear
network (white inputs) $s_n$ are the singular values of Σ_yz. For linear attention (divided by the
context length, tokens of variances $\lambda_n = \sqrt{s_n}$) $s_n$ are the singular values of Σ_yZ.
The paper prints no initial scales and learning rates for Figure 2. Times are those of gradient flow
on ½⟨‖y − f‖²⟩: n steps on the paper's loss ⟨‖y − f‖²⟩ (Eq. 64) take a time t = 2ηn. Figures show
the paper's loss.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ....diagnose import plateaus_of_batch
from ....dynamics import gradient_flow
from ....experiments._frame import Progress, Tables, part_of
from ....experiments.claims import ClaimCollector, max_error_below, most_seeds
from ....experiments.figures import THEORY_STYLE, draw_staircase, label_axes, panels, shades
from ....networks import Layer, attention, fully_connected
from ....tasks import AbstractTask, from_moments, in_context_regression, linear_teacher
from ....theory.saddles import mode_drop_times
from .._units_flow import blow_up
from ..panels import SQUARED_AMPLITUDE

DIRECTIONS, CONTEXT = 3, 32
STAIRS = DIRECTIONS + 1
"""Number of plateaus of a full staircase, including the initial and the final plateau."""

_SAMPLES, _STRIDE, _RESTS = 4000, 10, 8

Settings: TypeAlias = Mapping[Any, tuple[np.ndarray, Layer]]
"""Map from a value of the swept parameter to the spectrum and the initial network."""


def spectrum(kappa: float) -> Float[np.ndarray, " mode"]:
    """Return singular values proportional to n^(−κ) with sum one."""
    s = np.arange(1.0, DIRECTIONS + 1) ** -kappa
    return s / s.sum()


@dataclass(frozen=True)
class Model:
    """One of the two networks of Figure 2: its task, its initial weights and its predictions.

    - `levels`: losses ⟨‖y − f‖²⟩ with no, one, two and three directions learned.
    - `strengths`: how far each direction is learned; one at the lowest loss.
    - `predict`: from the initial weights, `predicted_time` of every drop (NaN without prediction)
      and, if available, the predicted loss at its own times.
    - `level_within`, `time_within`: tolerances of levels and times; `level_from`, `time_from` name
      the statements of the paper that predict them.
    """

    name: str
    words: str
    task: Callable[[np.ndarray], AbstractTask]
    network: Callable[..., Layer]
    levels: Callable[[np.ndarray], np.ndarray]
    strengths: Callable[[Layer, np.ndarray], np.ndarray]
    predict: Callable[[Layer, np.ndarray], dict[str, Any]]
    level_from: str
    level_within: float
    time_from: str
    time_within: float
    corrected: str

    def sweep(
        self, axis: str, settings: Settings, first_seed: int, progress: Progress
    ) -> xr.Dataset:
        """Train every seed at every setting."""
        tables = []
        for index, (value, (s, network)) in enumerate(settings.items()):
            progress(f"{self.words}, {axis} {value:g}", index / len(settings))
            tables.append(_train(self, s, network))
        longest = max(each.sizes["save"] for each in tables)
        tables = [each.pad(save=(0, longest - each.sizes["save"]), mode="edge") for each in tables]
        whole = xr.concat(tables, xr.Variable(axis, list(settings)))
        return whole.assign_coords(seed=first_seed + np.arange(whole.sizes["seed"]))

    def rest_levels(self, claim: ClaimCollector, data: xr.Dataset, axis: str) -> None:
        """Check the plateau levels from seeds with a full staircase, if most seeds have it."""
        if self is LINEAR:  # for spectra flatter than κ = 1 drops overlap
            first, second, _ = data["singular_value"].transpose("mode", axis).values
            data = data.isel({axis: first > 1.99 * second})
        if not data.sizes[axis]:
            return
        full = (data["count"] == STAIRS) & data["in_order"]
        most_have = {axis: full.mean("seed").values > 0.5}
        seen = data["visited"].where(full).isel(most_have).isel(rest=slice(STAIRS)).median("seed")
        levels = data["level"].isel(most_have).transpose(axis, "plateau").values
        seen, within = seen.transpose(axis, "rest"), self.level_within
        claim(
            f"{self.name}-rest-levels",
            f"{self.words}: the loss rests at the levels with no, one, two and three directions "
            "learned",
            max_error_below(seen, levels, within=within, over=levels[:, :1]),
            at=self.level_from,
        )

    def fall_times(self, claim: ClaimCollector, data: xr.Dataset, axis: str) -> None:
        """Check the drop times predicted from the initial weights alone."""
        if not data.sizes[axis]:
            return
        error, linear = abs(data["drop_time"] / data["predicted_time"] - 1), self is LINEAR
        if not linear:  # two heads that grow together drop the loss a little earlier
            error = error.isel(fall=0).quantile(0.9)
        claim(
            f"{self.name}-drop-times",
            f"{self.words}: the initial weights alone predict the time of "
            f"{'every' if linear else 'the first'} drop",
            max_error_below(error, within=self.time_within),
            at=self.time_from,
            corrected=self.corrected,
            note="relative error" + ", 90 % quantile over seeds and settings" * (not linear),
        )

    def counted(
        self,
        claim: ClaimCollector,
        id: str,
        words: str,
        counts: xr.DataArray,
        holds: Any,
        share: float = 1.0,
    ) -> None:
        """Check a statement about the number of plateaus that holds in a share of seeds."""
        note = f"numbers of plateaus: {', '.join(f'{count:g}' for count in np.unique(counts))}"
        claim(f"{self.name}-{id}", f"{self.words}: {words}", most_seeds(holds, share), note=note)


def _linear_levels(s: np.ndarray) -> np.ndarray:
    """Return the levels of Lemma 6: each learned mode lowers the loss by μ_k = s_k² (white x)."""
    return np.append(np.cumsum((s**2)[::-1])[::-1], 0.0)


def _linear_theory(network: Layer, s: np.ndarray) -> dict[str, Any]:
    """Predict the logistic curve of each mode from its initial weights, for white inputs."""
    half = mode_drop_times(network, from_moments(np.diag(s)))
    times = np.linspace(0.0, 1.3 * half.max(), _SAMPLES)
    # Half of a mode's part of the loss is gone at a strength of 1 − 1/√2: logit ln(√2 − 1).
    logit = np.log(np.sqrt(2) - 1) + 2 * s * (times[:, None] - half[:, None])
    losses = (s**2 / (1 + np.exp(np.minimum(logit, 300.0))) ** 2).sum(axis=-1)
    middles = (_linear_levels(s)[1:] + _linear_levels(s)[:-1]) / 2
    passed = [np.interp(-middles, -loss, times, left=np.nan) for loss in losses]
    return {
        "predicted_time": (("seed", "fall"), passed),
        "theory_time": ("sample", times[::_STRIDE]),
        "theory_loss": (("seed", "sample"), losses[:, ::_STRIDE]),
    }


def _attention_gain(s: np.ndarray) -> np.ndarray:
    """Return the value of Σ v k qᵀ along each direction at the lowest loss."""
    variances = np.sqrt(s)
    return 1.0 / (variances + (variances + variances.sum()) / CONTEXT)


def _attention_levels(s: np.ndarray) -> np.ndarray:
    """Return the levels: each learned direction lowers tr Λ by λ/(1 + (1 + tr Λ/λ)/N)."""
    return np.sqrt(s).sum() - np.append(0.0, np.cumsum(s * _attention_gain(s)))


def _heads(network: Layer) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return keys, queries and values of rank-one heads, without the query's unused label entry."""
    u, v = np.asarray(network.u), np.asarray(network.v)
    return u[..., 0, 0, :], u[..., 1, 0, :-1], v[..., 0, :]


def _attention_strengths(network: Layer, s: np.ndarray) -> np.ndarray:
    k, q, v = _heads(network)
    read = v[..., -1:] * k[..., :-1] + k[..., -1:] * v[..., :-1]
    return np.sum(read * q, axis=-2) / _attention_gain(s)


def _head_field(theta: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Return the gradient of (v_y k + k_y v)·diag(s) q."""
    k, q, v = np.split(theta, (DIRECTIONS + 1, 2 * DIRECTIONS + 1), axis=1)
    k, k_y, v, v_y = k[:, :-1], k[:, -1:], v[:, :-1], v[:, -1:]
    read = lambda w: np.sum(w * s * q, axis=1, keepdims=True)
    return np.hstack((v_y * s * q, read(v), s * (v_y * k + k_y * v), k_y * s * q, read(k)))


def _attention_theory(network: Layer, s: np.ndarray) -> dict[str, Any]:
    """Predict the first drop: the first head that leaves zero causes it.

    The first head changes Σ_yZ for all other heads, so later drops are not predicted. A head has
    label entries of value and key in addition to the token entries, more than the single value of
    Eq. (13). Each head is therefore integrated numerically until it diverges, independently of all
    other heads.
    """
    heads = np.concatenate(_heads(network), axis=-1)
    each = heads.reshape(-1, heads.shape[-1])
    escapes, _ = blow_up(lambda theta: _head_field(theta, s), each, rtol=1e-6)
    times = np.full((len(heads), DIRECTIONS), np.nan)
    times[:, 0] = escapes.reshape(heads.shape[:-1]).min(axis=-1)
    return {"predicted_time": (("seed", "fall"), times)}


LINEAR = Model(
    "linear",
    "linear network",
    task=lambda s: linear_teacher(np.diag(s)),
    network=lambda width, scale, key: fully_connected(
        DIRECTIONS, width, DIRECTIONS, scale=scale, key=key
    ),
    levels=_linear_levels,
    strengths=lambda network, s: np.einsum("...id,...id->...d", network.v, network.u) / s,
    predict=_linear_theory,
    level_from="Lemma 6",
    level_within=5e-3,
    time_from="Theorem 4",
    time_within=0.01,
    corrected=SQUARED_AMPLITUDE,
)
ATTENTION = Model(
    "attention",
    "linear attention",
    task=lambda s: in_context_regression(DIRECTIONS, CONTEXT, token_covariance=np.diag(s**0.5)),
    network=lambda width, scale, key: attention(DIRECTIONS, width, scale=scale, key=key),
    levels=_attention_levels,
    strengths=_attention_strengths,
    predict=_attention_theory,
    level_from="Theorem 1",
    level_within=0.02,
    time_from="Proposition 5",
    time_within=0.05,
    corrected="includes all entries of a head's key and value",
)
MODELS = (LINEAR, ATTENTION)


def _train(model: Model, s: np.ndarray, network: Layer) -> xr.Dataset:
    """Train all seeds of one setting; return curves, plateaus and predictions."""
    flow = gradient_flow(network, model.task(s), loss="half", rtol=1e-5, converged=1e-4)
    levels, speed = model.levels(s), flow.squared_gradient
    found = plateaus_of_batch(flow, levels / 2, dims=("seed",)).reset_coords(drop=True)
    found = found[["count", "level", "passage"]]
    found = found.rename(level="visited", plateau="rest", passage="drop_time", middle="fall")
    found = found.reindex(rest=range(_RESTS))
    learned = model.strengths(flow.network, s) >= 0.5  # (seed, save, mode)
    first = np.where(learned.any(axis=1), learned.argmax(axis=1), learned.shape[1])
    theta = [np.asarray(w).reshape(*w.shape[:2], -1) for w in flow.final.parts]
    size = np.linalg.svd(np.concatenate(theta, axis=-1), compute_uv=False)
    return found.assign(
        time=(("seed", "save"), flow.time, {"long_name": "time t = 2ηn"}),
        loss=(("seed", "save"), 2 * flow.loss, {"long_name": "loss ⟨‖y − f‖²⟩"}),
        singular_value=("mode", s),
        level=("plateau", levels),
        visited=2 * found["visited"],
        in_order=("seed", (np.diff(first) >= 0)[:, np.diff(s) < 0].all(axis=1)),
        initial_rate=("seed", speed[:, 0] / speed.max(axis=1)),
        final_rank=("seed", np.sum(size > 0.01 * size[:, :1], axis=1)),
        **model.predict(network, s),
    )


def sweep(
    axis: str, linear: Settings, attention: Settings, first_seed: int, progress: Progress
) -> Tables:
    """Train both networks, each at its own settings."""
    found = {}
    for start, model, settings in zip((0.0, 0.5), MODELS, (linear, attention), strict=True):
        found[model.name] = model.sweep(axis, settings, first_seed, part_of(progress, start, 0.5))
    return found


def stay(data: xr.Dataset) -> xr.DataArray:
    """Return the median time between the first and the last drop, over seeds."""
    drops = data["drop_time"]
    return (drops.isel(fall=-1) - drops.isel(fall=0)).median("seed")


def draw_pair(
    title: str, run: xr.DataTree, axis: str, symbol: str, theory: str, headings: tuple[str, str]
) -> Figure:
    """Plot the linear network and linear attention side by side, with a curve for each setting.

    `theory` is the legend entry of the theory lines in the panel of attention, and `headings` are
    the titles of both legends.
    """
    figure, axes = panels(title, 2)
    for ax, model, drawn, heading in zip(axes, MODELS, ("theory", theory), headings, strict=True):
        how = {"title": model.words, "theory": drawn, "legend_title": heading}
        draw_sweep(ax, run[model.name].ds, axis, symbol, **how)
    return figure


def draw_sweep(
    ax: Axes, data: xr.Dataset, axis: str, symbol: str, xlabel: str = "time $t = 2ηn$", **how: str
) -> None:
    """Plot one seed of every setting, with the predicted loss if available, else the drops."""
    one = data.isel(seed=0)
    start = one["level"].isel(plateau=0)
    levels, loss = one["level"] / start, one["loss"] / start
    right = 1.12 * float(one["drop_time"].max())
    for value, shade, label in shades(data[axis].values, symbol):
        row, at = one.sel({axis: value}), {axis: value}
        curve = "theory_loss" in row and bool(row["theory_loss"].notnull().all())
        falls = () if curve else row["predicted_time"].values
        drawn = (row["time"].values, loss.sel(at).values, levels.sel(at).values, falls)
        draw_staircase(ax, *drawn, right=right, color=shade, label=label)
        if curve:
            ax.plot(row["theory_time"], row["theory_loss"] / start.sel(at), **THEORY_STYLE)
    if np.allclose(levels, levels.isel({axis: 0})):  # draw levels only if all settings share them
        for level in levels.isel({axis: 0}).values:
            ax.axhline(level, **{**THEORY_STYLE, "lw": 0.6}, zorder=0)
    top = max(1.0, float(loss.max()))  # large weights may start above the loss of zero weights
    limits: dict[str, Any] = {"xlim": (0, right), "ylim": (-0.04 * top, 1.08 * top)}
    label_axes(ax, xlabel, "loss / loss of zero weights", legend="beside", **how, **limits)
