r"""One task after the other: the loss of every task along the way, and what is forgotten.

White inputs, loss ½⟨‖y − W₂W₁x‖²⟩, of which ½‖Σ_j − W₂W₁‖² is the part that can be learned;
τ Ẇ = −∂L/∂W with τ = 1; balance W₂ᵀW₂ − W₁W₁ᵀ = λI.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float, PRNGKeyArray
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field, model_validator

from ....dynamics import gradient_flow
from ....networks import DeepLinear, balanced, deep_linear
from ....tasks import linear_teacher
from ....theory.linear import continual, interference
from ..._frame import keys_of, parameters_of
from ..._old import compare, experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
from ...claims import Claim
from ...figures import PALE, THEORY, styled
from .._slides import sheet, slide

NAME = "linear/continual"
_SLIDE = slide("Exact continual learning dynamics")
_SAMPLES = 121
_LEARNED = 1e-7
"""Loss at the end of its stage, of the norm of the tasks, below which a task counts as learned."""

# Two tasks of two dimensions, with weights that have a balance of their own choice.
_PAIR = (((1.2, 0.4), (-0.3, 0.8)), ((0.2, -0.9), (1.1, 0.5)))
_PAIR_STAGES = (3.0, 2.0)
_PAIR_BALANCES = (-1.0, 0.0, 1.0)
_PAIR_STRENGTHS = (0.3, 0.2)


class Parameters(BaseParameters):
    """Random tasks, learned in turn by networks with balanced random weights."""

    seeds: int = Field(default=3, ge=1)
    """How many networks with random weights learn the tasks."""

    size: int = Field(default=5, ge=2, le=16)
    """Number of inputs, hidden units and outputs."""

    tasks: int = Field(default=4, ge=2, le=8)
    """How many tasks are learned, one after the other."""

    balance: float = 1.0
    """Balance λ of the networks in the figure."""

    other_balances: tuple[float, ...] = (-1.0, 0.5, 3.0)
    """Further balances at which the same tasks are learned; empty for none."""

    scale: float = Field(default=0.3, gt=0)
    """Standard deviation of the weights whose product is the initial map."""

    stage: float = Field(default=30.0, gt=0)
    """How long each task is learned, in units of τ."""

    @model_validator(mode="after")
    def _possible(self) -> "Parameters":
        if len(set(self.balances)) < len(self.balances):
            raise ValueError(
                f"`other_balances` must differ from each other and from `balance` "
                f"{self.balance:g}, got {self.other_balances}."
            )
        if not all(0.01 <= abs(value) <= 100 for value in self.balances):
            raise ValueError(
                "`balance` and `other_balances` must be between 0.01 and 100, of either sign: got "
                f"{self.balances}. Balanced at 0, half of all networks cannot learn a task that "
                "follows another: the sign of their determinant is conserved."
            )
        return self

    @property
    def balances(self) -> tuple[float, ...]:
        """All of them, that of the figure first."""
        return self.balance, *self.other_balances


PRESETS: dict[str, dict[str, Any]] = {}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Train on one task after the other, and evaluate the closed form at the same times."""
    keys = keys_of(parameters, key)
    tasks_key = jax.random.fold_in(keys[0], 1)
    n, count = parameters.size, parameters.tasks
    # Every layer of this network is a task: one draw, with singular values up to two.
    draws = deep_linear((n,) * (count + 1), scale=n**-0.5, key=tasks_key).weights
    sigmas = [np.asarray(draw) for draw in draws]
    # More often where it moves, at the beginning of a stage.
    times = parameters.stage * np.linspace(0.0, 1.0, _SAMPLES) ** 2
    networks = balanced(
        (n, n, n),
        balance=np.array(parameters.balances)[:, None],
        scale=parameters.scale,
        key=keys,
    )
    say("one task after the other", 0.1)
    coords = {"balance": list(parameters.balances), "seed": parameters.seed + np.arange(len(keys))}
    sequence = _learn(networks, sigmas, [times] * count).assign_coords(coords)
    say("two tasks of two dimensions", 0.7)
    pair = [np.array(sigma) for sigma in _PAIR]
    stages = [np.linspace(0.0, end, 31) for end in _PAIR_STAGES]
    two = _learn(_pair_networks(), pair, stages).assign_coords(balance=list(_PAIR_BALANCES))
    return run_tree(NAME, parameters, sequence=sequence, pair=two)


def _pair_networks() -> DeepLinear:
    """W₁ = diag(p) R(0.3)ᵀ and W₂ = R(1.1) diag(q), one of each balance."""
    turn = lambda angle: np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    small, lam = np.array(_PAIR_STRENGTHS), np.array(_PAIR_BALANCES)[:, None]
    large = np.sqrt(small**2 + np.abs(lam))
    p, q = np.where(lam >= 0, small, large), np.where(lam >= 0, large, small)
    return DeepLinear((p[:, :, None] * turn(0.3).T, turn(1.1) * q[:, None, :]))


def _learn(
    networks: DeepLinear, sigmas: Sequence[np.ndarray], stages: Sequence[np.ndarray]
) -> xr.Dataset:
    """A batch of networks through all tasks: training beside the closed form of each network."""
    batch = networks.weights[0].shape[:-2]
    over = ("balance", "seed")[: len(batch)]
    maps, trained = [], networks
    for sigma, times in zip(sigmas, stages, strict=True):
        course = gradient_flow(trained, linear_teacher(sigma), times, rtol=1e-10)
        maps.append(np.asarray(course.network.end_to_end()))
        trained = course.final
    first, second = (np.asarray(w).reshape(-1, *w.shape[-2:]) for w in networks.weights)
    exact = [continual(*w, sigmas, stages) for w in zip(first, second, strict=True)]
    product = np.concatenate(maps, axis=len(batch))
    theory = np.stack([course.map for course in exact]).reshape(product.shape)
    return xr.Dataset(
        {
            "map": ((*over, "time", "output", "input"), product),
            "map_theory": ((*over, "time", "output", "input"), theory),
            "loss": ((*over, "time", "task"), _losses(product, sigmas)),
            "loss_theory": (
                (*over, "time", "task"),
                np.stack([course.losses for course in exact]).reshape(*product.shape[:-2], -1),
            ),
            "correlation": (("task", "output", "input"), np.stack(sigmas)),
            "interference": (("learned", "task"), interference(np.stack(sigmas))),
            "stage": ("time", exact[0].stage),
        },
        {"time": ("time", exact[0].times, {"long_name": "time in units of τ"})},
    )


def _losses(
    product: Float[np.ndarray, "*batch time output input"], sigmas: Sequence[np.ndarray]
) -> Float[np.ndarray, "*batch time task"]:
    """½‖Σ_j − W₂W₁‖² for every task."""
    return np.stack([np.sum((product - s) ** 2, axis=(-2, -1)) / 2 for s in sigmas], axis=-1)


def claims(run: xr.DataTree) -> list[Claim]:
    """The closed form against training, and forgetting that no balance changes."""
    sequence, pair = run["sequence"].to_dataset(), run["pair"].to_dataset()
    return [
        *(_follows(sequence.sel(balance=[value])) for value in sequence["balance"].values),
        *_forgetting(sequence),
        *(_pair_map(pair.sel(balance=value)) for value in pair["balance"].values),
        _pair_forgetting(pair),
    ]


def _follows(data: xr.Dataset) -> Claim:
    apart = abs(data["loss"] - data["loss_theory"]).max()
    return compare(
        experiment=NAME,
        claim=f"balance {float(data['balance'][0]):g}: the loss of every task follows the closed "
        "form in all stages (error over the largest loss)",
        source=_SLIDE,
        predicted=0.0,
        measured=float(apart / data["loss"].max()),
        tolerance=1e-6,
    )


def _at_ends(data: xr.Dataset) -> xr.DataArray:
    """Loss of every task at the end of every stage."""
    stage = data["stage"].values
    last = [int(np.flatnonzero(stage == k)[-1]) for k in range(stage.max() + 1)]
    return data["loss"].isel(time=last).rename(time="learned").drop_vars("learned", errors="ignore")


def _forgetting(data: xr.Dataset) -> list[Claim]:
    """Of every task by every later one; claimed only where all were learned to the end."""
    ends = _at_ends(data)
    tasks = data.sizes["task"]
    own = xr.concat([ends.isel(learned=k, task=k) for k in range(tasks)], "task")
    whole = float(data["interference"].max())
    if float(own.max()) > _LEARNED * whole:
        return []
    later = np.tri(tasks, k=-1, dtype=bool)
    rise = (ends - own).transpose("learned", "task", ...).values[later]
    predicted = data["interference"].values[later]
    apart = np.abs(rise - predicted[:, None, None]).max()
    return [
        compare(
            experiment=NAME,
            claim="learning Σ_k to the end costs task i exactly ½‖Σ_i − Σ_k‖², at every balance "
            "(error over the largest)",
            source=_SLIDE,
            predicted=0.0,
            measured=float(apart / whole),
            # Of a loss that is left, √ is left of the map.
            tolerance=4 * _LEARNED**0.5,
            note=f"{len(predicted)} pairs of tasks, balances "
            + ", ".join(f"{value:g}" for value in data["balance"].values),
        )
    ]


def _pair_map(data: xr.Dataset) -> Claim:
    return compare(
        experiment=NAME,
        claim=f"two tasks in two dimensions, balance {float(data['balance']):g}: W₂W₁ after the "
        "second",
        source=_SLIDE,
        predicted=data["map_theory"].isel(time=-1).values.ravel(),
        measured=data["map"].isel(time=-1).values.ravel(),
        tolerance=1e-6,
    )


def _pair_forgetting(data: xr.Dataset) -> Claim:
    theory = data.drop_vars("loss").rename(loss_theory="loss")
    forgotten = [
        _at_ends(kind).isel(task=0).diff("learned").isel(learned=0).values
        for kind in (theory, data)
    ]
    limit = float(data["interference"].isel(learned=1, task=0))
    return compare(
        experiment=NAME,
        claim="two tasks in two dimensions, balances "
        + ", ".join(f"{value:g}" for value in data["balance"].values)
        + ": rise of the loss of the first",
        source=_SLIDE,
        predicted=forgotten[0],
        measured=forgotten[1],
        tolerance=1e-6,
        note=f"at the end it would be {limit:g} at each of them",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """The loss of every task over time, and forgetting against what it should be."""
    parameters = parameters_of(run, Parameters)
    data = run["sequence"].to_dataset()
    figure = sheet(f"{parameters.tasks} tasks in turn, a network of balance {parameters.balance:g}")
    course, forgotten = figure.subplots(1, 2, width_ratios=(2.2, 1))
    _draw_course(course, data.isel(balance=0, seed=0), parameters)
    _draw_forgetting(forgotten, data)
    return figure


def _draw_course(ax: Axes, data: xr.Dataset, parameters: Parameters) -> None:
    # Stages are drawn for as long as anything happens in them.
    width = _settled(data)
    time = data["time"].values - data["stage"].values * parameters.stage
    place = np.where(time <= width, data["stage"].values * width + time, np.nan)
    for task in range(data.sizes["task"]):
        ax.plot(place, data["loss"].isel(task=task), **PALE, color=f"C{task}", alpha=0.5)
        ax.plot(place, data["loss_theory"].isel(task=task), **THEORY)
        ax.text(
            (task + 0.5) * width,
            1.02,
            f"learns {task + 1}" if parameters.tasks < 6 else f"{task + 1}",
            color=f"C{task}",
            ha="center",
            transform=ax.get_xaxis_transform(),
        )
        if task:
            ax.axvline(task * width, color="0.85", lw=1, zorder=0)
    for task in range(data.sizes["task"]):
        ax.plot([], [], **PALE, color=f"C{task}", alpha=0.5, label=f"task {task + 1}")
    ax.plot([], [], **THEORY, label="closed form")
    stages = np.arange(data.sizes["task"])
    ax.set_xticks(
        np.concatenate([stages * width, stages * width + width / 2]),
        [*["0"] * len(stages), *[f"{width / 2:.2g}"] * len(stages)],
    )
    ax.set(
        xlabel="time $t$ since the beginning of each task, in units of $τ$",
        ylabel="loss of each task",
        xlim=(0, len(stages) * width),
    )
    ax.set_ylim(bottom=0)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _settled(data: xr.Dataset) -> float:
    """The time into a stage after which no loss moves by a hundredth, in the slowest stage."""
    longest = 0.0
    for _, part in data.groupby("stage"):
        moves = abs(part["loss"] - part["loss"].isel(time=-1)).max("task").values
        after = part["time"].values - part["time"].values[0]
        longest = max(longest, after[np.flatnonzero(moves > 0.01 * moves.max())[-1]])
    return float(longest)


def _draw_forgetting(ax: Axes, data: xr.Dataset) -> None:
    ends = _at_ends(data)
    tasks = data.sizes["task"]
    later = np.tri(tasks, k=-1, dtype=bool)
    limit = data["interference"].values[later]
    low, high = 0.85 * limit.min(), 1.1 * limit.max()
    markers = "osD^vP*X"
    for index, value in enumerate(data["balance"].values):
        loss = ends.sel(balance=value).transpose("learned", "task", "seed").values
        own = np.diagonal(loss, axis1=0, axis2=1).T
        rise = (loss - own)[later]
        ax.plot(
            np.repeat(limit, rise.shape[1]),
            rise.ravel(),
            markers[index % len(markers)],
            color=f"C{index + 4}",
            ms=13 - 3 * (index % 4),
            mfc="none",
            mew=1.5,
            alpha=0.6,
            label=f"$λ$ = {value:g}",
        )
    ax.plot([low, high], [low, high], **THEORY)
    ax.set(
        xlabel="$½‖Σ_i - Σ_k‖^2$",
        ylabel="rise of the loss of task $i$",
        title="task $i$, after learning $k$",
        xlim=(low, high),
        ylim=(low, high),
    )
    ax.legend(loc="upper left")
