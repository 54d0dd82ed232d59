r"""Mice learn which side a stimulus is on: from chance by way of one side to both.

The deep network of `festina.theory.decisions`, trial by trial and in the mean over trials, with
each of two readings of the slides' three losses: one error for all weights (`total`), or for each
part its own (`heterogeneous`).
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
_LARGEST_STEP = 0.7  # of ηβ²: choices fluctuate by its root, and beyond leave the mean field
_LEARNED = 0.8  # an animal that uses both stimuli by this fraction of the time is an expert
_RATIO = 5.0  # of gains, from which on luck does not turn the order around


class Parameters(mice.AnimalParameters):
    """Animals that learn trial by trial, each of them several times over."""

    runs: int = Field(default=8, ge=4)
    """How often each animal learns, with different luck."""

    learning_rate: float = Field(default=0.01, ge=1e-3, le=0.02)
    """Learning rate η of a trial; n trials are the time ηn in units of τ."""

    def _check(self) -> None:
        super()._check()
        most_of_it = _LARGEST_STEP / self.inverse_temperature**2
        if self.learning_rate > most_of_it:
            raise ValueError(
                f"`learning_rate` must not exceed {most_of_it:.2g} at an `inverse_temperature` of "
                f"{self.inverse_temperature:g}, got {self.learning_rate:g}: the luck of a few "
                "trials would decide which side is learned, and no mean field describe it."
            )


@make_run("linear/decisions")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Let the same animals learn under both kinds of teaching."""
    animals, keys = mice.herd(parameters, key)
    tables = {}
    for index, teaching in enumerate(TEACHINGS):
        progress(f"{len(animals)} animals, {teaching} teaching", index / len(TEACHINGS))
        model = ContrastChoiceLearner(
            inverse_temperature=parameters.inverse_temperature, teaching=teaching
        )
        tables[teaching] = _learn(parameters, model, animals, keys)
    return tables


def _learn(
    given: Parameters, model: ContrastChoiceLearner, animals: AnimalWeights, keys: Keys
) -> xr.Dataset:
    """Trials and their mean field, side by side."""
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
    """P(R | c) at which theory sees the left-first animal: one-sided, then expert."""
    if model.teaching == "total":
        stages = (points["left", "constant"], points["left", "right", "constant"])
        return np.stack([point.right_probability for point in stages])
    # Nothing rests with both a stimulus and the constant line. Of the first stage theory only says
    # that what the animal does not use yet leaves it at chance.
    one_sided = np.where(np.asarray(model.contrasts) < 0, np.nan, 0.5)
    w = decisions.asymptotic_weights(model).products
    expert = 0.5 * (1 + np.tanh(0.5 * model.inverse_temperature * model.stimuli @ (w[1] - w[0])))
    return np.stack([one_sided, expert])


def _stage_times(table: xr.Dataset) -> np.ndarray | None:
    """When the left-first animal is naive, half way between its two sides, and expert, if it is."""
    first, second = table["use_theory"].values[mice.LEFT_FIRST]
    time = table["time"].values
    if not (2.0 * first < second < _LEARNED * time[-1]):
        return None
    return np.array([0, np.searchsorted(time, 0.5 * (first + second)), len(time) - 1])


@claims_from_source(
    "Saxe, slides", "“Mice exhibit diverse learning trajectories”", note=mice.RECONSTRUCTED
)
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """The stages, their order, and trials against the mean over trials."""
    parameters = parameters_of_run(run, Parameters)
    # P(R) in the mean of 16 runs at a learning rate of 0.01 and β = 5 stays within 0.1 of the mean
    # field. Values fluctuate with the root of the learning rate and choices with β times that; more
    # runs do not help, since their mean itself is off by the order of the learning rate.
    noise = parameters.learning_rate / 0.01 * max(16 / parameters.runs, 1.0)
    allowed = round(0.1 * parameters.inverse_temperature / 5.0 * float(np.sqrt(noise)), 3)
    for teaching in TEACHINGS:
        table, who = run[teaching].ds, f"{teaching} teaching"
        for stage, words, judged in _stages(table, max(0.15, allowed)):
            claim(f"{teaching}-{stage}-stage", f"{who}, left-first animal: {words}", judged)
        drawn = table.isel(animal=slice(mice.DRAWN, None))
        distinct, larger = mice.told_apart(drawn, _RATIO), drawn["gain"].argmax("side")
        ahead = lambda use, larger=larger: use.isel(side=larger) <= use.isel(side=1 - larger)
        claim(
            f"{teaching}-larger-gain-first",
            f"{who}: drawn animals use the side of the larger gain no later (mean field)",
            most_seeds(ahead(drawn["use_theory"]), of="animals"),
            at=_SYSTEMATIC,
        )
        if distinct.any():
            claim(
                f"{teaching}-larger-gain-first-in-trials",
                f"{who}: the same trial by trial, fraction of runs of animals with gains at a "
                f"ratio above {_RATIO:g}",
                agree(ahead(drawn["use"])[distinct].mean(), 1.0, within=0.1),
                at=_SYSTEMATIC,
            )
        typical, theory = table["use"].median("run").values, table["use_theory"].values
        if np.isfinite(typical).any(axis=1).all():
            expected = -1.0 / table.attrs["escape_rate"]
            claim(
                f"{teaching}-slope-with-gain",
                f"{who}: slope of the time of first use with the logarithm of the larger gain",
                agree(mice.slope_with_gain(table, typical), expected, within=0.15, relative=True),
                at=_SYSTEMATIC,
                note="predicted: −1 over the escape rate where the constant line alone is in use",
                headline=True,
            )
        claim(
            f"{teaching}-mean-field",
            f"{who}: every animal trial by trial follows the mean field (mean P(R))",
            max_error_below(
                table["right_probability"], table["right_probability_theory"], within=allowed
            ),
            at=_MODEL,
            note=f"{parameters.runs} runs at a learning rate of {parameters.learning_rate:g}",
        )
        done = np.isfinite(typical) & (theory < _LEARNED * float(table["time"][-1]))
        if done.any():
            typical, theory = typical[done], theory[done]
            claim(
                f"{teaching}-use-times",
                f"{who}: each animal uses each stimulus when the mean field says (relative error)",
                max_error_below(typical, theory, within=0.2, over=np.maximum(theory, 10.0)),
                at=_MODEL,
                note="median over runs; errors in units of the prediction, or of 10 τ if that is "
                f"more; the latest at {theory.max():.1f}",
            )


def _stages(table: xr.Dataset, near: float) -> list[tuple[str, str, Judgement]]:
    """What the left-first animal is on its way, if it comes so far."""
    if (places := _stage_times(table)) is None:
        return []
    _, seen, expert = table["right_probability"].values[mice.LEFT_FIRST, places]
    stage, end = table["stage_choices"].values
    known = np.isfinite(stage)  # all, unless nothing rests at that stage
    other = "takes its absence for the right one" if known.all() else "else stays near chance"
    words, last = f"it uses the left stimulus and {other}", "at last an expert on both sides"
    return [
        ("one-sided", words, agree(seen[known], stage[known], within=near)),
        ("expert", last, agree(expert, end, within=near)),
    ]


@styled
def draw(run: xr.DataTree) -> Figure:
    """A row for each kind of teaching; colour says which side an animal starts out with."""
    title = "Every animal learns in its own way, and by one rule"
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
    """Psychometric curves of the left-first animal at three times, which the legend gives."""
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
