r"""One task after the other: the loss of every task along the way, and what is forgotten.

White inputs, loss ½⟨‖y − W₂W₁x‖²⟩, of which ½‖Σ_j − W₂W₁‖² is the part that can be learned;
τ Ẇ = −∂L/∂W with τ = 1; balance W₂ᵀW₂ − W₁W₁ᵀ = λI.
"""

from collections.abc import Sequence

import jax
import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from ....dynamics import gradient_flow
from ....experiments._frame import Progress, Tables, make_run, parameters_of_run
from ....experiments._keys import Key, keys_from_parameters
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments.claims import ClaimCollector, agree, claims_from_source, max_error_below
from ....experiments.figures import GUIDE_STYLE, THEORY_STYLE, draw_pair, label_axes, panels, styled
from ....networks import DeepLinear, deep_linear, lambda_balanced
from ....tasks import from_moments, linear_teacher
from ....theory.linear import continual_learning, interference
from ._shapes import fixed_networks

_SAMPLES = 121
_LEARNED = 1e-7
"""Loss at the end of its stage, of the norm of the tasks, below which a task counts as learned."""
_SECOND = np.array([[0.2, -0.9], [1.1, 0.5]])
"""What networks learn after the task of two dimensions that is fixed."""


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

    def _check(self) -> None:
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

    @property
    def balances(self) -> tuple[float, ...]:
        """All of them, that of the figure first."""
        return self.balance, *self.other_balances


@make_run("linear/continual")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train on one task after the other, and evaluate the closed form at the same times."""
    keys, lam = keys_from_parameters(parameters, key), np.array(parameters.balances)
    n, count = parameters.size, parameters.tasks
    # Every layer of this network is a task: one draw, with singular values up to two.
    tasks_key = jax.random.fold_in(keys[0], 1)
    draws = deep_linear((n,) * (count + 1), scale=n**-0.5, key=tasks_key).weights
    # More often where it moves, at the beginning of a stage.
    times = parameters.stage * np.linspace(0.0, 1.0, _SAMPLES) ** 2
    networks = lambda_balanced((n, n, n), balance=lam[:, None], scale=parameters.scale, key=keys)
    progress("one task after the other", 0.1)
    sequence = _learn(networks, [np.asarray(draw) for draw in draws], [times] * count)
    progress("two tasks of two dimensions", 0.7)
    two = [-1.0, 0.0, 1.0]
    networks, first = fixed_networks("square", two)
    stages = [np.linspace(0.0, end, 31) for end in (3.0, 2.0)]
    seed = parameters.seed + np.arange(len(keys))
    return {
        "sequence": sequence.assign_coords(balance=lam, seed=seed),
        "pair": _learn(networks, [first, _SECOND], stages).assign_coords(balance=two),
    }


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
    lanes, tasks = np.ndindex(batch), [from_moments(sigma) for sigma in sigmas]
    exact = [continual_learning(networks.lane(*lane), tasks, stages) for lane in lanes]
    product = np.concatenate(maps, axis=len(batch))
    losses = np.stack([np.sum((product - s) ** 2, axis=(-2, -1)) / 2 for s in sigmas], axis=-1)
    theory = np.stack([course.map for course in exact]).reshape(product.shape)
    loss_theory = np.stack([course.losses for course in exact]).reshape(losses.shape)
    return xr.Dataset(
        {
            "map": ((*over, "time", "output", "input"), product),
            "map_theory": ((*over, "time", "output", "input"), theory),
            "loss": ((*over, "time", "task"), losses),
            "loss_theory": ((*over, "time", "task"), loss_theory),
            "correlation": (("task", "output", "input"), np.stack(sigmas)),
            "interference": (("learned", "task"), interference(np.stack(sigmas))),
            "stage": ("time", exact[0].stage),
        },
        {"time": ("time", exact[0].time, {"long_name": "time in units of τ"})},
    )


def _forgetting(data: xr.Dataset, loss: str = "loss") -> tuple[xr.DataArray, ...]:
    """Loss of each task when it was learned, its rise by each later task, and its limit.

    The latter two for all pairs of tasks, the earlier of which is forgotten.
    """
    ends = data[loss].groupby(data["stage"]).last().rename(stage="learned")
    each = xr.DataArray(np.arange(data.sizes["task"]), dims="task")
    own = ends.drop_vars("learned").isel(learned=each, task=each)
    later, earlier = (xr.DataArray(k, dims="pair") for k in np.tril_indices(len(each), -1))
    pairs = {"learned": later, "task": earlier}
    return own, (ends.drop_vars("learned") - own).isel(pairs), data["interference"].isel(pairs)


@claims_from_source("Saxe, slides", "“Exact continual learning dynamics”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """The closed form against training, and forgetting that no balance changes."""
    data, two = run["sequence"].ds, run["pair"].ds
    rest, off = ("seed", "time", "task"), abs(data["loss"] - data["loss_theory"])
    balances = ", ".join(f"{value:g}" for value in data["balance"].values)
    claim(
        "closed-form",
        "the loss of every task follows the closed form in all stages, at every balance",
        max_error_below(off.max(rest) / data["loss"].max(rest), within=1e-6),
        note=f"of the largest loss; balances {balances}",
    )
    (own, rise, limit), whole = _forgetting(data), float(data["interference"].max())
    if float(own.max()) <= _LEARNED * whole:  # all were learned to the end
        claim(
            "cost-of-forgetting",
            "learning Σ_k to the end costs task i exactly ½‖Σ_i − Σ_k‖², at every balance",
            # Of a loss that is left, √ is left of the map.
            max_error_below((rise - limit) / whole, within=4 * _LEARNED**0.5),
            note=f"of the largest; {limit.size} pairs of tasks, balances {balances}",
        )
    claim(
        "two-tasks-map",
        "two tasks in two dimensions, balances −1, 0, 1: W₂W₁ after the second",
        agree(two["map"].isel(time=-1), two["map_theory"].isel(time=-1), within=1e-6),
    )
    (_, seen, limit), (_, theory, _) = _forgetting(two), _forgetting(two, "loss_theory")
    claim(
        "two-tasks-forgetting",
        "two tasks in two dimensions, balances −1, 0, 1: rise of the loss of the first",
        agree(seen[..., 0], theory[..., 0], within=1e-6),
        note=f"at the end it would be {float(limit[0]):g} at each of them",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """The loss of every task over time, and forgetting against what it should be."""
    parameters, data = parameters_of_run(run, Parameters), run["sequence"].ds
    title = f"{parameters.tasks} tasks in turn, a network of balance {parameters.balance:g}"
    figure, (course, forgotten) = panels(title, 2, width=4.5, height=3.2, width_ratios=(2.2, 1))
    _draw_course(course, data.isel(balance=0, seed=0), parameters.stage)
    _, rise, limit = _forgetting(data)
    limit = limit.broadcast_like(rise.isel(balance=0))
    for index, value in enumerate(data["balance"].values):
        how = {"color": f"C{index + 4}", "ms": 13 - 3 * (index % 4), "mfc": "none", "mew": 1.5}
        marker, label = "osD^vP*X"[index % 8], f"$λ$ = {value:g}"
        seen = rise.sel(balance=value).transpose(*limit.dims)
        places = limit.values.ravel(), seen.values.ravel()
        forgotten.plot(*places, marker, alpha=0.6, label=label, **how)
    ends = 0.85 * float(limit.min()), 1.1 * float(limit.max())
    forgotten.plot(ends, ends, **THEORY_STYLE)
    words = "$½‖Σ_i - Σ_k‖^2$", "rise of the loss of task $i$", "task $i$, after learning $k$"
    label_axes(forgotten, *words, legend="upper left", xlim=ends, ylim=ends)
    return figure


def _draw_course(ax: Axes, data: xr.Dataset, length: float) -> None:
    """Stages are drawn for as long as anything happens in the slowest of them."""
    stage, tasks = data["stage"].values, data.sizes["task"]
    time = data["time"].values - stage * length
    moves = abs(data["loss"] - data["loss"].groupby(data["stage"]).last().sel(stage=data["stage"]))
    moves = moves.max("task")
    most = moves.groupby(data["stage"]).max().sel(stage=data["stage"])
    width = float(time[(moves > 0.01 * most).values].max())
    place = np.where(time <= width, stage * width + time, np.nan)
    for task in range(tasks):
        color, one = f"C{task}", data.isel(task=task)
        draw_pair(ax, place, one["loss"], one["loss_theory"], color=color, label=f"task {task + 1}")
        words = f"learns {task + 1}" if tasks < 6 else f"{task + 1}"
        above = {"ha": "center", "transform": ax.get_xaxis_transform()}
        ax.text((task + 0.5) * width, 1.02, words, color=color, **above)
        ax.axvline(task * width, **GUIDE_STYLE)
    starts = width * np.arange(tasks)
    labels = [*["0"] * tasks, *[f"{width / 2:.2g}"] * tasks]
    ax.set_xticks(np.concatenate([starts, starts + width / 2]), labels)
    words = "time $t$ since the beginning of each task, in units of $τ$", "loss of each task"
    box = {"xlim": (0, tasks * width), "ylim": (0, None)}
    label_axes(ax, *words, theory="closed form", legend="beside", **box)
