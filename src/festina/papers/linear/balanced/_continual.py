r"""One task after the other: the loss of every task over time, and forgetting.

Inputs are white. The loss is ½⟨‖y − W₂W₁x‖²⟩, of which ½‖Σ_j − W₂W₁‖² can be reduced by learning
task j. The flow is τ Ẇ = −∂L/∂W with τ = 1, with balance W₂ᵀW₂ − W₁W₁ᵀ = λI.
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
"""Loss, relative to the norm of the tasks, below which a task counts as fully learned."""
_SECOND = np.array([[0.2, -0.9], [1.1, 0.5]])
"""Second of the two fixed tasks with two dimensions."""


class Parameters(BaseParameters):
    """Parameters of random tasks learned in turn by networks with balanced random weights."""

    seeds: int = Field(default=3, ge=1)
    """Number of networks with random weights that learn the tasks."""

    size: int = Field(default=5, ge=2, le=16)
    """Number of inputs, of hidden units and of outputs."""

    tasks: int = Field(default=4, ge=2, le=8)
    """Number of tasks that are learned, one after the other."""

    balance: float = 1.0
    """Balance λ of the networks that are drawn."""

    other_balances: tuple[float, ...] = (-1.0, 0.5, 3.0)
    """Further balances at which the same tasks are learned; empty for none."""

    scale: float = Field(default=0.3, gt=0)
    """Standard deviation of the weights whose product is the initial map."""

    stage: float = Field(default=30.0, gt=0)
    """Duration of training on each task, in units of τ."""

    def _check(self) -> None:
        if len(set(self.balances)) < len(self.balances):
            raise ValueError(
                f"`other_balances` must differ from each other and from `balance` "
                f"{self.balance:g}, got {self.other_balances}."
            )
        if not all(0.01 <= abs(value) <= 100 for value in self.balances):
            raise ValueError(
                "`balance` and `other_balances` must be between 0.01 and 100 in size, got "
                f"{self.balances}. At balance 0 half of all networks cannot learn a second task, "
                "because the sign of their determinant is conserved."
            )

    @property
    def balances(self) -> tuple[float, ...]:
        """All balances; the first is the one that is drawn."""
        return self.balance, *self.other_balances


@make_run("linear/continual")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train on one task after the other, and evaluate the closed form at the same times."""
    keys, lam = keys_from_parameters(parameters, key), np.array(parameters.balances)
    n, count = parameters.size, parameters.tasks
    # Each layer of this network is one task, with singular values up to two.
    tasks_key = jax.random.fold_in(keys[0], 1)
    draws = deep_linear((n,) * (count + 1), scale=n**-0.5, key=tasks_key).weights
    # Samples are denser at the beginning of a stage, where the loss changes fastest.
    times = parameters.stage * np.linspace(0.0, 1.0, _SAMPLES) ** 2
    networks = lambda_balanced((n, n, n), balance=lam[:, None], scale=parameters.scale, key=keys)
    progress("training on one task after the other", 0.1)
    sequence = _learn(networks, [np.asarray(draw) for draw in draws], [times] * count)
    progress("training on two tasks of two dimensions", 0.7)
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
    """Train a batch of networks on all tasks, and evaluate the closed form of each network."""
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
    """Return the loss of each task when learned, its rise by each later task, and the limit.

    The rise and its limit have one entry for each pair of a later and an earlier task.
    """
    ends = data[loss].groupby(data["stage"]).last().rename(stage="learned")
    each = xr.DataArray(np.arange(data.sizes["task"]), dims="task")
    own = ends.drop_vars("learned").isel(learned=each, task=each)
    later, earlier = (xr.DataArray(k, dims="pair") for k in np.tril_indices(len(each), -1))
    pairs = {"learned": later, "task": earlier}
    return own, (ends.drop_vars("learned") - own).isel(pairs), data["interference"].isel(pairs)


@claims_from_source("Saxe, slides", "“Exact continual learning dynamics”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check the closed form, and that forgetting does not depend on the balance."""
    data, two = run["sequence"].ds, run["pair"].ds
    rest, off = ("seed", "time", "task"), abs(data["loss"] - data["loss_theory"])
    balances = ", ".join(f"{value:g}" for value in data["balance"].values)
    claim(
        "closed-form",
        "the loss of every task follows the closed form in all stages and at every balance λ",
        max_error_below(off.max(rest) / data["loss"].max(rest), within=1e-6),
        note=f"error relative to the largest loss; balances {balances}",
    )
    (own, rise, limit), whole = _forgetting(data), float(data["interference"].max())
    if float(own.max()) <= _LEARNED * whole:  # all tasks were learned to the end
        claim(
            "cost-of-forgetting",
            "learning a task Σ_k to the end raises the loss of an earlier task Σ_i by exactly "
            "½‖Σ_i − Σ_k‖², at every balance λ",
            # A remaining loss ε leaves an error √ε of the map.
            max_error_below((rise - limit) / whole, within=4 * _LEARNED**0.5),
            note=f"relative to the largest rise; {limit.size} pairs of tasks, balances {balances}",
        )
    claim(
        "two-tasks-map",
        "the map W₂W₁ after two tasks in two dimensions follows the closed form, at balances −1, 0 "
        "and 1",
        agree(two["map"].isel(time=-1), two["map_theory"].isel(time=-1), within=1e-6),
    )
    (_, seen, limit), (_, theory, _) = _forgetting(two), _forgetting(two, "loss_theory")
    claim(
        "two-tasks-forgetting",
        "the second of two tasks in two dimensions raises the loss of the first as predicted, at "
        "balances −1, 0 and 1",
        agree(seen[..., 0], theory[..., 0], within=1e-6),
        note=f"after training to the end the rise would be {float(limit[0]):g} at each balance",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot the loss of every task over time, and forgetting against its prediction."""
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
    """Plot the loss of each task in every stage; all stages last as long as the slowest change."""
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
    words = "time $t/τ$ since the beginning of each task", "loss of each task"
    box = {"xlim": (0, tasks * width), "ylim": (0, None)}
    label_axes(ax, *words, theory="closed form", legend="beside", **box)
