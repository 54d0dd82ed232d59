"""What the six panels of Figure 1 share: train, find the plateaus, predict them, compare.

Convention of the paper: loss ⟨‖y − f‖²⟩ without ½ (Eq. 64), so that n steps of size η are time 2ηn
of the half loss in which Sections 5, G and H are written.
"""

import dataclasses
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray
from pydantic import Field

from ..._precision import float64
from ...diagnose import Plateaus, passage_time, plateaus
from ...dynamics import Trajectory, gradient_descent, gradient_flow, loss_factor
from ...networks import Layer, seeds
from ...networks._seeds import Keys
from ...tasks import AbstractTask
from ...theory.saddles import narrow_minima
from .._claim import Claim, compare
from .._parameters import Parameters

PAPER = "Zhang, Saxe & Latham"
_BROKEN_OFF = ("diverged", "step underflow")


class PanelParameters(Parameters):
    """Parameters that every panel of Figure 1 has."""

    width: int = Field(default=50, ge=2)
    """Number of units H: neurons, kernels or heads."""

    scale: float = Field(default=1e-6, gt=0)
    """Standard deviation ε of the initial weights."""

    learning_rate: float = Field(default=0.01, gt=0)
    """Learning rate η of gradient descent on the loss."""

    samples: int | None = Field(default=None, ge=1)
    """Size of a finite data set (the paper: 8192); 'none' for exact population averages."""

    loss: Literal["mean-square", "mean-over-outputs", "half"] = "mean-square"
    """Loss convention: as Eq. 64 is printed, averaged over outputs as well, or half the first."""

    method: Literal["descent", "flow"] = "descent"
    """Gradient descent at the learning rate, or gradient flow on the same axis of steps, t/η."""

    max_steps: int = Field(default=100_000, ge=1)
    """Most steps of training for each seed."""


@dataclass(frozen=True)
class Reference:
    """Numbers of a panel at one set of parameters, from an independent float64 implementation.

    Plain gradient descent on population averages, eight seeds; `parameters` are the ones they
    belong to, and at any other they say nothing. Mean drop steps are held to `drop_tolerance`
    (relative) or, where they scatter widely, to three standard errors from `drop_deviation`.
    """

    parameters: PanelParameters
    mean_drops: tuple[float, float] | None = None
    drop_tolerance: float | None = 0.02
    drop_deviation: tuple[float, float] = (0.0, 0.0)
    plateau: float | None = None
    plateau_tolerance: float = 2e-3

    def applies(self, parameters: PanelParameters) -> bool:
        varied = {"seeds", "seed", "max_steps"}
        return parameters.model_dump(exclude=varied) == self.parameters.model_dump(exclude=varied)


@dataclass(frozen=True)
class Panel:
    """One panel: what is trained on what, and what is known beforehand.

    - `predict`: `(parameters, task, network) → {name: array}`, from data and initial weights alone.
      `drop_step (seed, drop)` is drawn and held against the simulation, NaN where theory is silent.
    - `structure`: claims about the weights on the plateau and at the end.
    - `level_tolerance`: of the median plateau level, in units of the loss.
    - `seed_tolerance`, `level_fraction`: how close to the width-1 minimum the level lies in how
      many of the seeds with three plateaus; `count_fraction`: how many seeds have three.
    - `caveat`: why, at some parameters, plateaus are known not to show; empty where they do.
    """

    name: str
    title: str
    parameters: type[PanelParameters]
    task: Callable[[Any, PRNGKeyArray], AbstractTask]
    network: Callable[[Any, Keys], Layer]
    predict: Callable[[Any, AbstractTask, Layer], dict[str, Any]]
    structure: Callable[["Reading"], list[Claim]]
    references: tuple[Reference, ...] = ()
    level_tolerance: float = 1e-5
    seed_tolerance: float = 0.02
    level_fraction: float = 1.0
    count_fraction: float = 1.0
    caveat: Callable[[Any], str] = lambda parameters: ""

    @float64
    def run(
        self,
        parameters: PanelParameters,
        *,
        key: PRNGKeyArray | None = None,
        progress: Callable[[str, float], None] | None = None,
    ) -> xr.DataTree:
        """Train every seed, find its plateaus, and predict both from data and initial weights."""
        say = progress or (lambda words, fraction: None)
        say("setting up", 0.0)
        if key is None:
            # One key for each seed: seed 3 is the same network however many are trained with it.
            keys = seeds(parameters.seeds, first=parameters.seed)
            data_key = jax.random.fold_in(jax.random.key(parameters.seed), 2**31)
        else:
            data_key, network_key = jax.random.split(key)
            keys = jax.random.split(network_key, parameters.seeds)
        task = self.task(parameters, data_key)
        network = self.network(parameters, keys)

        say("predicting", 0.02)
        predicted = self.predict(parameters, task, network)
        narrow = narrow_minima(network.unit, task, loss=parameters.loss, seed=parameters.seed)
        trajectory = _train(
            parameters, network, task, lambda words, done: say(words, 0.1 + 0.85 * done)
        )
        found = [_plateaus(trajectory.lane(seed)) for seed in range(parameters.seeds)]
        say("done", 1.0)

        simulation = trajectory.to_dataset(("seed",))
        simulation = simulation.assign_coords(
            seed=parameters.seed + np.arange(parameters.seeds),
            # Flow and descent share the axis of steps.
            step=simulation["time"] / _steps_to_time(trajectory, parameters),
        )
        theory = _theory(
            predicted, narrow.loss, _power(task, network, parameters), trajectory.floor
        )
        return xr.DataTree.from_dict(
            {
                "/": xr.Dataset(
                    attrs={
                        "experiment": self.name,
                        "parameters": json.dumps(parameters.model_dump(mode="json")),
                        "loss_factor": loss_factor(parameters.loss, task),
                    }
                ),
                "/simulation": simulation,
                "/plateaus": _table(found, _steps_to_time(trajectory, parameters)),
                "/theory": theory,
                "/drops": _drops(trajectory, theory["level"].values, parameters),
            }
        )

    def claims(self, run: xr.DataTree) -> list[Claim]:
        """What the panel asserts, held against the run. Computes nothing that was not saved."""
        reading = Reading(self, run)
        claims = [
            _count_claim(reading),
            *_level_claims(reading),
            *_drop_claims(reading),
            *_reference_claims(reading),
            *self.structure(reading),
        ]
        if reading.staircases:
            return claims
        # Without a plateau nothing can be said of it: the count above has said that there is none.
        return [claim for claim in claims if "plateau" not in claim.claim] or claims[:1]

    def draw(self, run: xr.DataTree):
        """The paper's panel: loss on top, first-layer weights on the plateau and at the end."""
        from ._draw import draw_panel

        return draw_panel(Reading(self, run))


class Reading:
    """A saved panel, by the names that claims and figures use."""

    def __init__(self, panel: Panel, run: xr.DataTree):
        self.panel = panel
        self.simulation = run["simulation"].to_dataset()
        self.plateaus = run["plateaus"].to_dataset()
        self.theory = run["theory"].to_dataset()
        self.drops = run["drops"].to_dataset()
        self.parameters = panel.parameters(**json.loads(run.attrs["parameters"]))

    @property
    def source(self) -> str:
        return f"{PAPER}, Figure 1{self.panel.name[-1].upper()}"

    @property
    def seeds(self) -> int:
        return self.parameters.seeds

    @property
    def counts(self) -> np.ndarray:
        return self.plateaus["count"].values

    @property
    def staircases(self) -> list[int]:
        """Seeds with three plateaus: those for which there is *the* intermediate one."""
        return np.flatnonzero(self.counts == 3).tolist()

    @property
    def levels(self) -> np.ndarray:
        """Level of the intermediate plateau, one for each staircase."""
        return self.plateaus["level"].values[self.staircases, 1]

    @property
    def trained(self) -> np.ndarray:
        """Which seeds were trained to the end of their run."""
        return ~np.isin(self.simulation["ending"].values, _BROKEN_OFF)

    def weights(self, seed: int, plateau: int) -> tuple[np.ndarray, np.ndarray]:
        """u and v of one seed on one of its plateaus; −1 is the end of training."""
        if plateau < 0:
            save = int(self.simulation["saves"].values[seed]) - 1
        else:
            save = int(self.plateaus["save"].values[seed, plateau])
        return self.simulation["u"].values[seed, save], self.simulation["v"].values[seed, save]

    def compare(
        self, claim: str, predicted: Any, measured: Any, *, fragile: bool = False, **options: Any
    ) -> Claim:
        """A claim of this panel. A fragile one is known to fail where the panel has a caveat."""
        caveat = self.panel.caveat(self.parameters) if fragile else ""
        if caveat:
            options["expected"] = "does not hold"
            options["note"] = "; ".join(filter(None, (options.get("note"), caveat)))
        options.setdefault("source", self.source)
        return compare(
            experiment=self.panel.name,
            claim=claim,
            predicted=predicted,
            measured=measured,
            **options,
        )

    def at_least(self, claim: str, share: float, holds: np.ndarray, **options: Any) -> Claim:
        """A claim that a share of all seeds shows something, judged by the ones that were trained.

        It fails if so few would be seen with a probability below 5 % (one-sided binomial test).
        """
        seen, total = int(np.sum(holds)), len(holds)
        options["note"] = "; ".join(filter(None, (f"{seen} of {total} seeds", options.get("note"))))
        likely = _binomial_tail(seen, total, share) >= 0.05 if total else False
        claimed = self.compare(claim, 1, int(likely), **options)
        return dataclasses.replace(
            claimed,
            predicted=f"≥ {share:g} of seeds",
            measured=seen / total if total else float("nan"),
            tolerance="5 % test" if share < 1 else "all",
        )


def _binomial_tail(seen: int, total: int, share: float) -> float:
    """Probability of at most `seen` successes among `total`."""
    return sum(math.comb(total, k) * share**k * (1 - share) ** (total - k) for k in range(seen + 1))


def _train(
    parameters: PanelParameters,
    network: Layer,
    task: AbstractTask,
    progress: Callable[[str, float], None],
) -> Trajectory:
    if parameters.method == "flow":
        trajectory = gradient_flow(
            network,
            task,
            loss=parameters.loss,
            t_end=parameters.max_steps * parameters.learning_rate,
            progress=progress,
        )
    else:
        trajectory = gradient_descent(
            network,
            task,
            parameters.learning_rate,
            loss=parameters.loss,
            max_steps=parameters.max_steps,
            progress=progress,
        )
    # One seed of many that fails is part of the result; all of them are a wrong setting.
    if all(ending.reason in _BROKEN_OFF for ending in trajectory.endings):
        raise ValueError(f"Training failed from every seed. {trajectory.endings[0].message}")
    return trajectory


def _steps_to_time(trajectory: Trajectory, parameters: PanelParameters) -> float:
    """Units of the trajectory's clock that one step of gradient descent takes."""
    return parameters.learning_rate if trajectory.learning_rate is None else 1.0


def _plateaus(lane: Trajectory) -> Plateaus:
    slope = -lane.squared_gradient * lane.time_per_step
    return plateaus(lane.time, lane.loss, lane.squared_gradient, slope=slope)


def _table(found: list[Plateaus], step: float) -> xr.Dataset:
    """Plateaus of all seeds in one table, padded with NaN (−1 for indices)."""
    most = max(3, *(len(each) for each in found))

    def padded(name: str, length: int, scale: float = 1.0) -> np.ndarray:
        table = np.full((len(found), length), np.nan)
        for row, each in zip(table, found, strict=True):
            values = getattr(each, name)
            row[: len(values)] = values * scale
        return table

    saves = np.full((len(found), most), -1)
    for row, each in zip(saves, found, strict=True):
        row[: len(each)] = each.index
    over = ("seed", "plateau")
    return xr.Dataset(
        {
            "count": ("seed", np.array([len(each) for each in found])),
            "save": (over, saves),
            "level": (over, padded("level", most)),
            "strength": (over, padded("strength", most)),
            **{name: (over, padded(name, most, 1 / step)) for name in ("start", "end")},
            "drop_step": (("seed", "drop"), padded("drop_time", most - 1, 1 / step)),
        }
    )


def _power(task: AbstractTask, network: Layer, parameters: PanelParameters) -> float:
    """The loss of a network that does nothing, ⟨‖y‖²⟩ in the convention of the loss."""
    statistics = task.statistics(network.unit)
    half = 0.5 * float(statistics.weight @ (statistics.y**2).sum(axis=1)) + statistics.floor
    return loss_factor(parameters.loss, task) * half


def _theory(
    predicted: dict[str, Any], narrow: np.ndarray, initial: float, floor: float
) -> xr.Dataset:
    return xr.Dataset(
        {
            "level": ("plateau", [initial, float(narrow[0]), floor]),
            "narrow_minimum": ("minimum", narrow),
            **predicted,
        }
    )


def _drops(trajectory: Trajectory, levels: np.ndarray, parameters: PanelParameters) -> xr.Dataset:
    """When each seed passes the middle between two predicted levels, and where in the record.

    Unlike a detected plateau this exists for every seed, however weak its plateau is.
    """
    middles = (levels[:-1] + levels[1:]) / 2
    steps = np.full((parameters.seeds, len(middles)), np.nan)
    saves = np.zeros((parameters.seeds, len(middles)), int)
    for seed in range(parameters.seeds):
        lane = trajectory.lane(seed)
        slope = -lane.squared_gradient * lane.time_per_step
        for drop, middle in enumerate(middles):
            steps[seed, drop] = passage_time(lane.time, lane.loss, middle, slope=slope)
            saves[seed, drop] = int(np.argmax(lane.loss <= middle))
    over = ("seed", "drop")
    step = _steps_to_time(trajectory, parameters)
    return xr.Dataset({"step": (over, steps / step), "save": (over, saves)})


def _count_claim(reading: Reading) -> Claim:
    notes = [f"counts {', '.join(map(str, reading.counts))}"]
    if not reading.trained.all():
        notes.append(f"{int(np.sum(~reading.trained))} seeds broke off")
    return reading.at_least(
        "the loss shows three plateaus: initial, width one, final",
        reading.panel.count_fraction,
        (reading.counts == 3) & reading.trained,
        fragile=True,
        note="; ".join(notes),
    )


def _level_claims(reading: Reading) -> list[Claim]:
    panel, theory = reading.panel, reading.theory
    minimum = float(theory["narrow_minimum"][0])
    tolerance = panel.level_tolerance
    levels = reading.levels
    final = reading.simulation["loss"].isel(save=-1).values[reading.trained]
    spread = f"from {levels.min():.6g} to {levels.max():.6g}" if len(levels) else "no plateau found"
    if panel.level_fraction < 1:
        # The level scatters from seed to seed, so that the median of few seeds does as well.
        median = reading.at_least(
            f"the plateau is within {tolerance:g} of the optimised minimum of a width-1 network, "
            "in the median",
            0.5,
            np.abs(levels - minimum) <= tolerance,
            source=f"{PAPER}, Theorem 1",
            note=spread,
            fragile=True,
        )
    else:
        median = reading.compare(
            "median level of the plateau is the optimised minimum of a width-1 network",
            minimum,
            float(np.median(levels)) if len(levels) else float("nan"),
            tolerance=tolerance,
            source=f"{PAPER}, Theorem 1",
            note=spread,
            fragile=True,
        )
    claims = [
        median,
        reading.at_least(
            f"the plateau is within {100 * panel.seed_tolerance:g} % of that minimum, seed by seed",
            panel.level_fraction,
            np.abs(levels / minimum - 1) <= panel.seed_tolerance,
            source=f"{PAPER}, Theorem 1",
            fragile=True,
        ),
        reading.compare(
            "training starts at the loss of no network at all",
            float(theory["level"][0]),
            float(reading.simulation["loss"].isel(save=0).mean()),
            tolerance=1e-4,
            relative=True,
        ),
        reading.compare(
            "training ends at the lowest loss that the architecture can reach",
            float(theory["level"][2]),
            float(np.max(final)),
            tolerance=1e-6,
        ),
    ]
    if "closed_form_final" in theory:
        claims.append(
            reading.compare(
                "the lowest loss has a closed form",
                float(theory["closed_form_final"]),
                float(theory["level"][2]),
                tolerance=1e-6,
            )
        )
    if "closed_form_minimum" in theory:
        claims.append(
            reading.compare(
                "the width-1 minimum has a closed form",
                float(theory["closed_form_minimum"]),
                minimum,
                tolerance=1e-6,
                source=f"{PAPER}, Lemma 6" if reading.panel.name[-1] == "b" else reading.source,
            )
        )
    return claims


def _drop_claims(reading: Reading) -> list[Claim]:
    """Drop steps from the initial weights alone, for every seed."""
    if "drop_step" not in reading.theory:
        return []
    prediction = reading.theory["drop_step"]
    claims = []
    for drop in np.flatnonzero(np.isfinite(prediction.values).any(axis=0)):
        measured = reading.drops["step"].values[:, drop]
        error = np.abs(measured / prediction.values[:, drop] - 1)
        claims.append(
            reading.compare(
                f"{('first', 'second')[drop]} drop predicted from the initial weights: "
                "largest relative error over seeds",
                0.0,
                float(np.max(error)),
                tolerance=float(prediction.attrs["tolerance"]),
                source=str(prediction.attrs["source"]),
                correction=str(prediction.attrs["correction"]),
                note=f"steps {measured.mean():.4g} ± {measured.std():.2g} in the mean",
            )
        )
    return claims


def _reference_claims(reading: Reading) -> list[Claim]:
    claims = []
    for reference in reading.panel.references:
        if not reference.applies(reading.parameters):
            continue
        seeds = reading.staircases
        source = f"{reading.source}; plain gradient descent, population averages, 8 seeds"
        if reference.mean_drops is not None:
            claims.extend(_mean_drops(reading, reference, source))
        if reference.plateau is not None and len(seeds):
            claims.append(
                reading.compare(
                    "mean level of the visited plateau",
                    reference.plateau,
                    float(reading.levels.mean()),
                    tolerance=reference.plateau_tolerance,
                    source=source,
                )
            )
    return claims


def _mean_drops(reading: Reading, reference: Reference, source: str) -> list[Claim]:
    drops = reading.drops["step"].values
    mean, spread = drops.mean(axis=0), drops.std(axis=0)
    claims = []
    for k, expected in enumerate(reference.mean_drops or ()):
        standard_error = reference.drop_deviation[k] * math.sqrt(1 / 8 + 1 / reading.seeds)
        relative = reference.drop_tolerance
        claims.append(
            reading.compare(
                f"mean step of the {('first', 'second')[k]} drop",
                expected,
                float(mean[k]),
                tolerance=3 * standard_error if relative is None else relative * expected,
                source=source,
                note=f"standard deviation over seeds {spread[k]:.3g}",
            )
        )
    return claims
