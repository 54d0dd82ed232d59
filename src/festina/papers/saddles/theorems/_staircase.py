r"""The staircase of a training run, predicted from data statistics and initial weights.

Four networks are trained. One linear network learns a power law of modes, with a correlation and a
covariance of the data that share their directions. In a second linear network (10–10–10)
correlation and covariance have different directions. A diagonal network learns correlated features.
Linear attention learns from tokens of unequal variance, as in Kunin et al. (2025). Times are those
of gradient flow on the loss ½⟨‖y − f‖²⟩.
"""

import warnings
from typing import Annotated, Any

import jax
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from pydantic import Field, PositiveFloat

from .... import networks
from ....diagnose import passage_time, plateaus
from ....dynamics import Trajectory, gradient_flow
from ....experiments._frame import Progress, Tables, make_run, parameters_of_run
from ....experiments._keys import Key, keys_from_parameters
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments._parameters import check_decreasing
from ....experiments.claims import (
    ClaimCollector,
    agree,
    all_below,
    claims_from_source,
    join_numbers,
    max_error_below,
    most_seeds,
)
from ....experiments.figures import SIMULATION_STYLE, THEORY_STYLE, panels, styled
from ....tasks import AbstractTask, in_context_regression, linear_teacher
from ....theory.saddles import Staircase, staircase

_AGF = ("Kunin et al. (2025)", "alternating gradient flows")
PANELS = {
    "power": ("linear network, power law", "Zhang, Saxe & Latham", "Lemma 6"),
    "mixed": ("linear network, mixed modes", "Zhang, Saxe & Latham", "Lemma 6"),
    "diagonal": (
        "diagonal network, correlated features",
        "Pesme & Flammarion (2023)",
        "Algorithm 1",
    ),
    "attention": ("linear attention, unequal token variances", *_AGF),
}
_CLEAN = 2.0  # decades of the squared gradient; weaker plateaus are far from their saddle
_APART = 0.1  # jumps within this fraction of their time have no plateau in between
_ACTIVE = 0.05  # a coordinate is active if it exceeds this fraction of the largest one
_DOUBTED = 0.4  # opacity of predictions for which the theory reports a doubt
_COMPUTED = 1e-4  # accuracy of jump times: jumps end when their gradient has decreased so far
# The theory neglects dormant weights below a hundredth, and correlations between features. The
# error of the latter is several times as large if the correlations are strong.
_PART_OF_AN_E_FOLDING = {"power": 1e-3, "mixed": 1e-3, "diagonal": 0.15}
_STRONGLY, _MORE = 0.5, 3
# From ε = 1e-3 to 1e-12 nine runs had error ratios of .05 to .55, a quarter on average.
_FAR, _JUMPS, _FALLEN = 0.3, 8, 0.45


class Parameters(BaseParameters):
    """Parameters of the staircase experiment; the seed also draws the data of three networks."""

    seeds: int = Field(default=16, ge=2)
    """Number of initialisations of attention; medians over them are compared for later jumps."""

    repeats: int = Field(default=4, ge=1)
    """Number of initialisations of each network other than attention."""

    scales: Annotated[tuple[PositiveFloat, ...], check_decreasing(1e-3)] = (1e-3, 1e-5, 1e-8, 1e-12)
    """Standard deviations ε of the initial weights of all networks but attention, decreasing."""

    dimension: int = Field(default=10, ge=3)
    """Numbers of inputs, hidden units and outputs of the linear networks."""

    modes: int = Field(default=4, ge=2)
    """Number of modes of the linear tasks."""

    decay: float = Field(default=1.5, gt=0)
    """Exponent of the power law of mode strengths."""

    features: int = Field(default=8, ge=4)
    """Number of inputs of the diagonal network."""

    correlated: float = Field(default=0.5, ge=0, lt=1)
    """Weight of random directions in the covariance of the features (0: uncorrelated)."""

    coefficients: tuple[float, ...] = (2.0, -1.2, 0.8, 0.5)
    """Nonzero target coefficients of the diagonal network."""

    token_dimension: int = Field(default=4, ge=1)
    """Dimension D of a token; the variances are proportional to 1/d and sum to 2."""

    context: int = Field(default=32, ge=1)
    """Number N of labelled tokens in a sequence."""

    heads: int = Field(default=5, ge=1)
    """Number of attention heads of rank one."""

    attention_scale: float = Field(default=1e-3, gt=0, le=1e-2)
    """Standard deviation of the initial weights of the attention heads."""

    def _check(self) -> None:
        if self.modes > self.dimension:
            raise ValueError(
                f"`modes` must not exceed `dimension`, got {self.modes} and {self.dimension}."
            )
        if not 1 <= len(self.coefficients) <= self.features or 0.0 in self.coefficients:
            raise ValueError(
                f"`coefficients` must contain 1 to {self.features} (`features`) nonzero numbers, "
                f"got {self.coefficients}."
            )

    @property
    def token_variances(self) -> np.ndarray:
        variances = 1.0 / np.arange(1, self.token_dimension + 1)
        return 2.0 * variances / variances.sum()


QUICK: dict[str, Any] = {
    "seeds": 6,
    "repeats": 2,
    "scales": (1e-3, 1e-8),
    "token_dimension": 2,
    "heads": 4,
    "attention_scale": 5e-3,
}


@make_run("saddles/staircase")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train every network, and predict its staircase from its initial weights."""
    tables = {}
    for index, (name, (words, *_)) in enumerate(PANELS.items()):
        progress(words, index / len(PANELS))
        network, task = _setting(parameters, name, key)
        lanes = list(np.ndindex(*network.batch_shape))
        with warnings.catch_warnings():  # The table records these doubts, and claims use them.
            warnings.filterwarnings("ignore", r"\d+ of \d+ staircases may differ from training")
            predicted = staircase(network, task).lanes()
        how: dict[str, Any] = {"rtol": 1e-8}
        if name == "attention":  # the last head may take a hundred times as long
            ends = [each.times[-1] for each in predicted if each.times.size]
            how = {"rtol": 1e-6, "t_end": 2.0 * float(np.median(ends))}
        trained = gradient_flow(network, task, max_steps=1_000_000, **how)
        rows = [_lane(p, trained.lane(*lane)) for p, lane in zip(predicted, lanes, strict=True)]
        count = network.batch_shape[-1]
        nested = [rows[first : first + count] for first in range(0, len(rows), count)]
        table = xr.combine_nested(nested, ["scale", "seed"], join="outer", coords="minimal")
        table = table.assign_coords(seed=network.labels.get("seed", np.arange(count)))
        swept = table.sizes["scale"] > 1
        table = table.assign_coords(scale=list(parameters.scales)) if swept else table.isel(scale=0)
        axes = ("scale", "seed", "save")[-trained.time.ndim :]
        tables[name] = table.assign(
            time=(axes, trained.time), loss=(axes, trained.loss), floor=((), trained.floor)
        )
    lam, n = parameters.token_variances, parameters.context
    gains = np.cumsum(lam / (1 + (1 + lam.sum() / lam) / n))
    tables["attention"]["closed_form"] = ("learned", (lam.sum() - np.append(0.0, gains)) / 2)
    return tables


def _setting(
    parameters: Parameters, name: str, key: Key
) -> tuple[networks.AbstractNetwork, AbstractTask]:
    """Return the networks, by scale and seed or by seed, and their task."""
    if name == "attention":
        d, covariance = parameters.token_dimension, np.diag(parameters.token_variances)
        task = in_context_regression(d, parameters.context, token_covariance=covariance)
        keys = keys_from_parameters(parameters, key)
        how = {"scale": parameters.attention_scale, "key": keys}
        return networks.attention(d, parameters.heads, **how), task
    first = parameters.seed if key is None else np.asarray(jax.random.key_data(key)).ravel()
    rng = np.random.default_rng([*np.atleast_1d(first), list(PANELS).index(name)])
    keys = networks.seeds(parameters.repeats, first=parameters.seed)
    if key is not None:
        keys = jax.random.split(key, parameters.repeats)
    scale = np.array(parameters.scales)[:, None]
    if name == "diagonal":
        n = parameters.features
        directions = rng.normal(size=(n, n)) / np.sqrt(n)
        mixed = directions @ directions.T
        variances = np.sqrt(np.diag(mixed))
        c = parameters.correlated * mixed / np.outer(variances, variances)
        weights = np.zeros(n)
        weights[rng.permutation(n)[: len(parameters.coefficients)]] = parameters.coefficients
        task = linear_teacher(weights[None], c + (1 - parameters.correlated) * np.eye(n))
        return networks.diagonal_linear(n, scale=scale, key=keys), task
    n = parameters.dimension
    left, right, basis = (np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(3))
    rank = np.arange(1.0, n + 1.0)
    strength = np.where(rank <= parameters.modes, rank**-parameters.decay, 0.0)
    variance = rank**-0.5
    if name == "power":  # Σ_yx = Σ s q rᵀ and Σ_xx = Σ λ r rᵀ
        weights, covariance = (left * strength / variance) @ right.T, (right * variance) @ right.T
    else:
        weights, covariance = (left * strength) @ right.T, (basis * variance) @ basis.T
    task = linear_teacher(weights, covariance)
    return networks.fully_connected(n, n, n, scale=scale, key=keys), task


def _lane(predicted: Staircase, trained: Trajectory) -> xr.Dataset:
    """Return levels, times and active sets of one network, as predicted and as measured.

    `level`, `jump`, `uncertainty` and `active` are predicted; `doubted` says whether the theory
    reports doubts. `rest` and `strength` are measured on the plateaus of training; `matched` says
    whether training has as many plateaus as predicted. `passage` is the time at which training
    crosses the middle between two measured levels or, if their numbers differ, between two
    predicted levels.
    """
    slope = -trained.squared_gradient
    found = plateaus(trained.time, trained.loss, trained.squared_gradient, slope=slope)
    members, matched = len(predicted.joined), len(found) == len(predicted.levels)
    levels = found.level if matched else predicted.levels
    middles = (levels[1:] + levels[:-1]) / 2
    passage = passage_time(trained.time, trained.loss, middles, slope=slope)
    active = [np.isin(np.arange(members), each) for each in predicted.active]
    table: dict[str, Any] = {
        "level": ("stage", predicted.levels),
        "jump": ("fall", predicted.times),
        "uncertainty": ("fall", predicted.uncertainty),
        "doubted": ((), bool(predicted.doubts())),
        "matched": ((), matched),
        "passage": ("fall", passage),
        "active": (("stage", "member"), np.array(active, float)),
        "rest": ("plateau", found.level),
        "strength": ("plateau", found.strength),
        "end": ((), trained.time[-1]),
    }
    if isinstance(trained.network, networks.DiagonalLinear):
        size = np.abs(np.asarray(trained.network.coefficients())[found.index])
        # Before anything is learned, all coordinates are small: compare with the final maximum.
        grown = np.maximum(size.max(axis=1, keepdims=True), _ACTIVE * size.max())
        table["seen"] = (("plateau", "member"), (size > _ACTIVE * grown).astype(float))
    lengths = {"stage": len(predicted.levels), "fall": len(passage), "plateau": len(found)}
    return xr.Dataset(table, {name: np.arange(length) for name, length in lengths.items()})


@claims_from_source("Zhang, Saxe & Latham", "Lemma 6")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check levels, times and active sets in every setting, predicted against training."""
    parameters, attention = parameters_of_run(run, Parameters), run["attention"].ds
    for name in ("power", "mixed", "diagonal"):
        table, (words, *source), linear = run[name].ds, PANELS[name], name != "diagonal"
        told = ClaimCollector(claim.experiment, *source)
        here = table.isel(scale=int(np.abs(np.log(table["scale"].values / 1e-8)).argmin()))
        clean, away = (here["strength"] >= _CLEAN).values, abs(here["level"] - here["rest"])
        kept = clean & here["rest"].shift(plateau=-1).notnull().values  # excludes the last level
        if kept.any():
            off = (away / here["rest"]).min("stage").transpose("seed", "plateau").values[kept]
            what = f"{words}: the loss on the plateaus of training is at predicted levels"
            note = f"plateaus on which the squared gradient dips by {_CLEAN:g} decades or more"
            told(f"{name}-levels", what, max_error_below(off, within=0.01), note=note)
        if not linear and clean.any():
            active = here["active"].isel(stage=away.fillna(np.inf).argmin("stage"))
            right = (active == here["seen"]).all("member").transpose("seed", "plateau").values
            what = f"{words}: the active coordinates on the plateaus of training are as predicted"
            told(f"{name}-active-sets", what, most_seeds(right[clean], of="plateaus"))
        told(
            f"{name}-counts",
            f"{words}: the number of plateaus is as predicted, unless the theory reports a doubt",
            most_seeds((table["matched"] | table["doubted"]).values.ravel(), of="networks"),
            note=f"the theory reports a doubt for {int(table['doubted'].sum())} of "
            f"{table['doubted'].size} networks",
        )
        table = table.where(table["matched"])
        error, alone = _errors(table)
        if alone.any():
            beyond = (error - table["uncertainty"] / table["jump"]).values[alone.values]
            what = f"{words}: the drops occur within the stated uncertainty of the predicted times"
            judged = max_error_below(np.maximum(beyond, 0.0), within=_COMPUTED)
            told(
                f"{name}-within-uncertainty",
                what,
                judged,
                note="relative errors beyond the uncertainty",
            )
        deep = (table["strength"] >= _CLEAN).rename(plateau="fall")
        deep = (deep & deep.shift(fall=-1, fill_value=True)).reindex(fall=table["fall"])
        compared = table if linear else table.sel(scale=here["scale"])
        error, alone = _errors(compared.where(deep))
        if alone.any():
            what = f"{words}: the initial weights predict the times of the drops"
            within = max(parameters.scales[0], _COMPUTED) if linear else 0.05
            note = (
                f"relative error; between plateaus of {_CLEAN:g} decades or more, without drops "
                f"within {100 * _APART:g} % of another drop"
            )
            judged = max_error_below(error.values[alone.values], within=within)
            told(f"{name}-jump-times", what, judged, note=note)
        strongly = not linear and parameters.correlated > _STRONGLY
        growth(told, name, table, deep, _MORE if strongly else 1)
        claim += told
    (words, *source), closed = PANELS["attention"], attention["closed_form"][:-1]
    told = ClaimCollector(claim.experiment, *source)
    # Training may end before the loss reaches the last level.
    nearest = abs(attention["rest"] - closed).fillna(np.inf).argmin("plateau")
    seen = attention["rest"].isel(plateau=nearest).median("seed")
    what = "plateau losses are ½(tr Λ − Σ λ/(1 + (1 + tr Λ/λ)/N)), summed over learned variances λ"
    judged = agree(seen, closed, within=0.01, relative=True)
    told("attention-levels", f"{words}: {what} (medians over seeds)", judged)
    later(told, attention)
    claim += told
    what = f"{words}: the initial weights predict the first drop of every seed"
    error = _errors(attention)[0].isel(fall=0)
    bounce = "includes units that bounce and vector-valued readouts v"
    judged = max_error_below(error, within=0.05)
    claim("attention-first-jump", what, judged, at="Proposition 5", corrected=bounce)


def _errors(table: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray]:
    """Return relative errors of jump times, and a mask of jumps far in time from other jumps."""
    jump, far = table["jump"], 1 + _APART
    near = (jump < far * jump.shift(fall=1)) | (jump.shift(fall=-1) < far * jump)
    return abs(jump / table["passage"] - 1), jump.notnull() & ~near


def growth(
    claim: ClaimCollector,
    name: str,
    table: xr.Dataset,
    deep: xr.DataArray | bool = True,
    more: int = 1,
) -> None:
    """Check that relative errors are proportional to 1/ln(1/ε), between clear plateaus.

    The time of a jump is ln(1/ε) e-folding times of the weights. The predicted time of a jump is
    off by a fraction of one e-folding time, of either sign. The error of a single jump therefore
    need not decrease steadily.
    """
    error, alone = _errors(table)
    error, words, jumps = error.where(alone), PANELS[name][0], ("seed", "fall")
    if not error.count():
        return
    mean = lambda each: ((each**2).mean(jumps) ** 0.5).dropna("scale")
    clean, size, scales = mean(error.where(deep)), mean(error), table["scale"].values
    if clean.size:
        claim(
            f"{name}-part-of-an-e-folding",
            f"{words}: the times of drops are off by a small fraction of the e-folding time of the "
            "weights (root mean square of the relative error, times ln(1/ε))",
            max_error_below(
                clean * np.log(1 / clean["scale"]), within=_PART_OF_AN_E_FOLDING[name] * more
            ),
            note=join_numbers(clean, 2),
        )
    fall = float(np.log(scales[0]) / np.log(scales[-1]))
    if fall <= _FAR and error.count(jumps).min() >= _JUMPS:
        ratio = all_below(size[-1] / size[0], fall + _FALLEN)
        what = (
            f"{words}: the error of drop times decreases with ε (ratio at smallest and largest ε)"
        )
        note = f"an error proportional to 1/ln(1/ε) would decrease to {fall:.2g}"
        claim(f"{name}-error-falls", what, ratio, note=note)


def later(claim: ClaimCollector, table: xr.Dataset) -> None:
    """Check jumps after the first in the median over seeds; a missing jump counts as infinity."""
    jump, passage = (table[name].transpose("seed", "fall")[:, 1:] for name in ("jump", "passage"))
    jump = jump.where(jump <= float(table["end"].max()), np.inf).values
    passage = passage.fillna(np.inf).values
    half = np.isfinite(np.median(jump, axis=0)) & np.isfinite(np.median(passage, axis=0))
    if not half.any():  # a single direction, or no jump in most seeds
        return
    ratio = lambda draw: np.median(jump[draw], axis=-2) / np.median(passage[draw], axis=-2)
    jump, passage, seeds = jump[:, half], passage[:, half], len(jump)
    # The standard error of the ratio by bootstrap over seeds; the largest over jumps.
    with np.errstate(invalid="ignore"):  # samples in which most seeds have no jump
        drawn = ratio(np.random.default_rng(0).integers(seeds, size=(1000, seeds)))
    known = np.where(np.isfinite(drawn) & (drawn > 0), drawn, np.nan)
    error = float(np.nanstd(known, axis=0).max())
    what = f"{PANELS['attention'][0]}: predicted over measured times of later drops (medians)"
    judged = agree(ratio(np.arange(seeds)), 1.0, within=round(0.05 + 2 * error, 3))
    note = f"tolerance: 5 % plus twice the standard error {error:.2g} of the ratio"
    claim("attention-later-jumps", what, judged, note=note)


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot losses (wide), predicted levels and jumps (dashed), and their uncertainty (bars)."""
    title = "Staircases predicted from data statistics and initial weights (of size ε)"
    figure, axes = panels(title, 2, 2, width=4.2, height=3.0, sharey=True)
    colours, bottom, doubted = ("#0072B2", "#E69F00", "#009E73"), 1e-3, False
    for ax, (name, (words, *_)) in zip(axes.ravel(), PANELS.items(), strict=True):
        table, latest = run[name].ds, 0.0
        if swept := "scale" in table.dims:  # show the smallest weights with the longest plateaus
            table = table.isel(seed=0, scale=slice(-len(colours), None))
        for index, color in enumerate(colours[: table.sizes["scale" if swept else "seed"]]):
            row = table.isel({"scale" if swept else "seed": index})
            label = f"ε = {float(row['scale']):.0e}" if swept else f"seed {int(row['seed'])}"
            floor, first = float(row["floor"]), float(row["loss"][0])
            above = lambda loss, a=floor, b=first: np.maximum((loss - a) / (b - a), 1e-9)
            jumps = row["jump"].dropna("fall").values
            levels, end = row["level"].values[: len(jumps) + 1], 1.25 * float(row["passage"].max())
            how = {**SIMULATION_STYLE, "color": color, "alpha": 0.45}
            ax.plot(row["time"], above(row["loss"].values), **how, label=label)
            steps = above(np.append(levels, levels[-1]))
            doubt = bool(row["doubted"])
            doubted |= doubt
            alpha = _DOUBTED if doubt else 1.0
            dashed = {**THEORY_STYLE, "color": color, "lw": 1.4, "alpha": alpha}
            ax.step([0.0, *jumps, 10 * end], steps, where="post", **dashed)
            unsure = row["uncertainty"].dropna("fall").values
            middle = np.sqrt(steps[:-2] * np.maximum(steps[1:-1], bottom))
            ax.hlines(middle, jumps - unsure, jumps + unsure, color=color, lw=2.5, alpha=alpha)
            latest = max(latest, end)
        ax.set(yscale="log", xlim=(0, latest), ylim=(bottom, 1.6))
        ax.set_xlabel("time $t/τ$")
        ax.set_title(words, pad=20)
        # The legend stands above the axes, because the free corner depends on the seed.
        place: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 0.99), "ncols": 4}
        ax.legend(**place, handlelength=1.6, columnspacing=1.0)
    for ax in axes[:, 0]:
        ax.set_ylabel("loss above minimum, relative")
    marks = [
        Line2D([], [], **THEORY_STYLE, label="predicted"),
        Line2D([], [], color="black", lw=2.5, label="uncertainty of predicted time"),
        Line2D([], [], **THEORY_STYLE, alpha=_DOUBTED, label="predicted, theory doubts"),
    ][: 2 + doubted]
    figure.legend(handles=marks, loc="outside lower center", ncols=3)
    return figure
