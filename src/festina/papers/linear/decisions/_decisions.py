r"""Simulated mice learn on which side a stimulus is: from chance, via one side, to both sides.

The deep network of `festina.theory.decisions` is trained trial by trial and in the mean over
trials. The slides' three losses allow two readings. Under `total` teaching one error teaches all
weights; under `heterogeneous` teaching each part has its own error.
"""

from typing import Any

import jax
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from pydantic import Field

from ...._types import Keys
from ....experiments._frame import Progress, Tables, make_run, parameters_of_run
from ....experiments._keys import Key
from ....experiments.claims import (
    ClaimCollector,
    Judgement,
    agree,
    claims_from_source,
    max_error_below,
    most_seeds,
)
from ....experiments.figures import SIMULATION_STYLE, draw_pair, label_axes, panels, styled
from ....theory import decisions
from ....theory.decisions import AnimalWeights, ContrastChoiceLearner, StationaryPoint
from ....theory.decisions._learner import Teaching
from . import _animals as mice

TEACHINGS: dict[Teaching, str] = {
    "total": "one error\nteaches all weights",
    "heterogeneous": "each part is taught\nby its own error",
}
_TITLES = ("accuracy", "bias: choices without a stimulus", "an animal that learns left first")
_SYSTEMATIC = "“Learning trajectories are individually diverse but systematic”"
_MODEL = "“Model captures behavior”"
_RECORDS, _LUCK = 400, 1
_LARGEST_STEP = 0.7  # largest ηβ²; beyond it choices fluctuate too much for the mean field
_LEARNED = 0.8  # an animal that uses both stimuli by this fraction of the duration is an expert
_RATIO = 5.0  # ratio of gains above which chance does not reverse the order of the sides


class Parameters(mice.AnimalParameters):
    """Parameters of simulated animals that learn trial by trial, several times each."""

    runs: int = Field(default=8, ge=4)
    """Number of runs of each animal, with different random trials."""

    learning_rate: float = Field(default=0.01, ge=1e-3, le=0.02)
    """Learning rate η of a trial; n trials take a time ηn, in units of τ."""

    def _check(self) -> None:
        super()._check()
        most_of_it = _LARGEST_STEP / self.inverse_temperature**2
        if self.learning_rate > most_of_it:
            raise ValueError(
                f"`learning_rate` must not exceed {most_of_it:.2g} at an `inverse_temperature` of "
                f"{self.inverse_temperature:g}, got {self.learning_rate:g}: chance in a few "
                "trials would decide which side is learned, and the mean field would not hold."
            )


@make_run("linear/decisions")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train the same simulated animals with total and with heterogeneous teaching."""
    animals, keys = mice.herd(parameters, key)
    tables = {}
    for index, teaching in enumerate(TEACHINGS):
        progress(f"training {len(animals)} animals, {teaching}", index / len(TEACHINGS))
        model = ContrastChoiceLearner(
            inverse_temperature=parameters.inverse_temperature, teaching=teaching
        )
        tables[teaching] = _learn(parameters, model, animals, keys)
    return tables


def _learn(
    given: Parameters, model: ContrastChoiceLearner, animals: AnimalWeights, keys: Keys
) -> xr.Dataset:
    """Simulate trials and their mean field."""
    between = max(1, round(given.duration / (_RECORDS * given.learning_rate)))
    records = round(given.duration / (between * given.learning_rate))
    how = {"learning_rate": given.learning_rate, "key": jax.random.fold_in(keys[0], _LUCK)}
    trials = decisions.simulate_learning(
        model, animals.repeated(given.runs), records * between, save_every=between, **how
    )
    mean = decisions.mean_field_learning(model, animals, trials.time)
    points = {point.active: point for point in decisions.stationary_points(model)}
    luck = lambda values: values.reshape(len(animals), given.runs, *values.shape[1:])
    table: dict[str, Any] = {
        "gain": (("animal", "side"), animals.gains[:, :2]),
        "use": (("animal", "run", "side"), luck(decisions.stimulus_use_times(trials))),
        "use_theory": (("animal", "side"), decisions.stimulus_use_times(mean)),
        "stage_choices": (("stage", "contrast"), _stage_choices(model, points)),
    }
    for name, rest in {"accuracy": (), "bias": (), "right_probability": ("contrast",)}.items():
        over = ("animal", "time", *rest)
        table[name] = (over, luck(getattr(trials, name)).mean(axis=1))
        table[f"{name}_theory"] = (over, getattr(mean, name))
    time, contrast = ("time", trials.time, {"units": "τ"}), np.asarray(model.contrasts)
    coordinates = {"time": time, "contrast": contrast, "animal": np.arange(len(animals))}
    rate = points["constant",].escape_rates["left"]
    return xr.Dataset(table, coordinates, {"escape_rate": rate})


def _stage_choices(model: ContrastChoiceLearner, points: dict[Any, StationaryPoint]) -> np.ndarray:
    """Return predicted P(R | c) of the left-first animal when one-sided and when expert."""
    if model.teaching == "total":
        stages = (points["left", "constant"], points["left", "right", "constant"])
        return np.stack([point.right_probability for point in stages])
    # No stationary point has both a stimulus and the constant line active. For the first stage the
    # theory predicts only that the unused stimulus leaves choices at chance.
    one_sided = np.where(np.asarray(model.contrasts) < 0, np.nan, 0.5)
    w = decisions.asymptotic_weights(model).products
    expert = 0.5 * (1 + np.tanh(0.5 * model.inverse_temperature * model.stimuli @ (w[1] - w[0])))
    return np.stack([one_sided, expert])


def _stage_times(table: xr.Dataset) -> np.ndarray | None:
    """Return when the left-first animal is naive, one-sided and expert; None without all stages."""
    first, second = table["use_theory"].values[mice.LEFT_FIRST]
    time = table["time"].values
    if not (2.0 * first < second < _LEARNED * time[-1]):
        return None
    return np.array([0, np.searchsorted(time, 0.5 * (first + second)), len(time) - 1])


@claims_from_source(
    "Saxe, slides", "“Mice exhibit diverse learning trajectories”", note=mice.RECONSTRUCTED
)
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check the stages and their order, and that trials follow the mean field."""
    parameters = parameters_of_run(run, Parameters)
    # At η = 0.01 and β = 5 the mean P(R) of 16 runs stays within 0.1 of the mean field. Values
    # fluctuate with the root of the learning rate, and choices with β times that. More runs do not
    # help, because the mean itself differs by the order of the learning rate.
    noise = parameters.learning_rate / 0.01 * max(16 / parameters.runs, 1.0)
    allowed = round(0.1 * parameters.inverse_temperature / 5.0 * float(np.sqrt(noise)), 3)
    for teaching in TEACHINGS:
        table, who = run[teaching].ds, f"{teaching} teaching"
        for stage, words, judged in _stages(table, max(0.15, allowed)):
            claim(f"{teaching}-{stage}-stage", f"{who}: {words}", judged)
        drawn = table.isel(animal=slice(mice.DRAWN, None))
        distinct, larger = mice.told_apart(drawn, _RATIO), drawn["gain"].argmax("side")
        ahead = lambda use, larger=larger: use.isel(side=larger) <= use.isel(side=1 - larger)
        claim(
            f"{teaching}-larger-gain-first",
            f"{who}: animals learn to use the side with the larger initial gain first (mean field)",
            most_seeds(ahead(drawn["use_theory"]), of="animals"),
            at=_SYSTEMATIC,
        )
        if distinct.any():
            claim(
                f"{teaching}-larger-gain-first-in-trials",
                f"{who}: trial by trial, animals with gains at a ratio above {_RATIO:g} learn to "
                "use the side with the larger initial gain first (fraction of runs)",
                agree(ahead(drawn["use"])[distinct].mean(), 1.0, within=0.1),
                at=_SYSTEMATIC,
            )
        typical, theory = table["use"].median("run").values, table["use_theory"].values
        if np.isfinite(typical).any(axis=1).all():
            expected = -1.0 / table.attrs["escape_rate"]
            claim(
                f"{teaching}-slope-with-gain",
                f"{who}: the time of first use depends linearly on the logarithm of the larger "
                "initial gain (slope against the logarithm)",
                agree(mice.slope_with_gain(table, typical), expected, within=0.15, relative=True),
                at=_SYSTEMATIC,
                note="predicted: −1 over the escape rate at the saddle {0}, where only the "
                "constant line is active",
                headline=True,
            )
        claim(
            f"{teaching}-mean-field",
            f"{who}: choices of every animal, averaged over runs of trials, follow the mean field "
            "(probability of going right)",
            max_error_below(
                table["right_probability"], table["right_probability_theory"], within=allowed
            ),
            at=_MODEL,
            note=f"{parameters.runs} runs at learning rate {parameters.learning_rate:g}",
        )
        done = np.isfinite(typical) & (theory < _LEARNED * float(table["time"][-1]))
        if done.any():
            typical, theory = typical[done], theory[done]
            claim(
                f"{teaching}-use-times",
                f"{who}: each animal starts to use each stimulus at the time predicted by the mean "
                "field (relative error)",
                max_error_below(typical, theory, within=0.2, over=np.maximum(theory, 10.0)),
                at=_MODEL,
                note="median over runs; errors relative to the predicted time, or to 10 τ if that "
                f"is longer; latest time {theory.max():.1f} τ",
            )


def _stages(table: xr.Dataset, near: float) -> list[tuple[str, str, Judgement]]:
    """Return claims on the stages that the left-first animal passes."""
    if (places := _stage_times(table)) is None:
        return []
    _, seen, expert = table["right_probability"].values[mice.LEFT_FIRST, places]
    stage, end = table["stage_choices"].values
    known = np.isfinite(stage)  # NaN where theory makes no prediction for the stage
    other = "goes right without it" if known.all() else "is otherwise near chance"
    words = f"the left-first animal first uses the left stimulus and {other} (probability of right)"
    last = "the left-first animal becomes an expert on both sides (probability of going right)"
    return [
        ("one-sided", words, agree(seen[known], stage[known], within=near)),
        ("expert", last, agree(expert, end, within=near)),
    ]


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot total and heterogeneous teaching in rows; colours are the ratio of initial gains."""
    title = "Each animal learns on its own path, set by its initial gains"
    columns = {"sharex": "col", "sharey": "col", "width_ratios": (1, 1, 0.9)}
    figure, rows = panels(title, 3, 2, width=3.13, height=2.8, **columns)
    left, right = run["total"].ds["gain"].values.T
    ratio, widest = np.log10(right / left), np.abs(np.log10(right / left)).max()
    sides = ["#0072b2", "#8ab8d4", "#b8b8b8", "#e8ab84", "#d55e00"]
    colours = LinearSegmentedColormap.from_list("sides", sides)
    shades = ScalarMappable(Normalize(-widest, widest), colours)
    for (accuracy, bias, choices), (teaching, title) in zip(rows, TEACHINGS.items(), strict=True):
        table = run[teaching].ds
        for ax, name in ((accuracy, "accuracy"), (bias, "bias")):
            for one, color in zip(table["animal"], shades.to_rgba(ratio), strict=True):
                seen, theory = (table[each].sel(animal=one) for each in (name, f"{name}_theory"))
                draw_pair(ax, table["time"], seen, theory, color=color, alpha=0.7)
        _draw_stages(choices, table)
        label_axes(accuracy, "", f"{title}\n\nfraction correct", ylim=(0.45, 1.02))
        label_axes(bias, "", "$P(R\\,|\\,0) - ½$", ylim=(-0.5, 0.5))
        label_axes(choices, "", "$P(R)$", legend=None, ylim=(-0.05, 1.05))
    for ax, title in zip(rows[0], _TITLES, strict=True):
        ax.set_title(title)
    rows[1, 1].plot([], [], **SIMULATION_STYLE, color="0.6", label="trial by trial, mean of runs")
    end = float(run["total"].ds["time"][-1])
    label_axes(rows[1, 0], "time $t/τ$", xlim=(0, end))
    label_axes(rows[1, 1], "time $t/τ$", theory="mean field", legend="lower right", xlim=(0, end))
    rows[1, 2].set_xlabel("contrast in %")
    bar = figure.colorbar(shades, ax=rows, aspect=40, pad=0.02)
    bar.set_label("initial gains: $\\log_{10}(v_R / v_L)$")
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    return figure


def _draw_stages(ax: Axes, table: xr.Dataset) -> None:
    """Plot psychometric curves of the left-first animal at three times."""
    places, contrast = _stage_times(table), 100 * table["contrast"].values
    places = [0, table.sizes["time"] // 2, -1] if places is None else places
    looks = {"naive": "0.6", "one-sided": "#cc79a7", "expert": "#56b4e9"}
    for place, (stage, color) in zip(places, looks.items(), strict=True):
        one = table.isel(animal=mice.LEFT_FIRST, time=place)
        seen, theory = one["right_probability"], one["right_probability_theory"]
        label = f"{stage}, {float(one['time']):.0f} τ"
        draw_pair(ax, contrast, seen, theory, color=color, alpha=1.0, label=label)
    ax.set_xticks(contrast)
    ax.legend(loc="lower right", fontsize=7, handlelength=1.0)
