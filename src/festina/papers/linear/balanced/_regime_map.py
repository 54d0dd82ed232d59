r"""The map of lazy and rich learning: balance λ against architecture, bottlenecks included.

Loss ½⟨‖y − W₂W₁x‖²⟩, white inputs, τ Ẇ = −∂L/∂W with τ = 1 and W₂ᵀW₂ − W₁W₁ᵀ = λI. From small
weights with λ > 0 the kernel starts as λP ⊗ I, with P on the N_h random directions of the second
layer among N_o, and ends as I ⊗ V(S_λ − λ/2)Vᵀ + U(S_λ + λ/2)Uᵀ ⊗ I, with the N_h strongest modes
of the task and S_λ = √(s² + λ²/4). Its distance 1 − cos is linear in P, whose mean is N_h/N_o: the
mean over draws and their spread have closed forms, and for large λ the kernel turns by 1 − N_h/N_o.
Only N_h = N_o is lazy. λ < 0 is the mirror image, with N_i.
"""

from typing import Any, TypeAlias

import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from ....diagnose import passage_time, tangent_kernel_distance
from ....dynamics import gradient_flow
from ....experiments._frame import Progress, Tables, make_run
from ....experiments._keys import Key
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments.claims import (
    ClaimCollector,
    claims_from_source,
    follows_power_law,
    join_numbers,
    max_error_below,
    mean_agrees,
    most_seeds,
)
from ....experiments.figures import (
    POINT_STYLE,
    THEORY_STYLE,
    draw_collapse,
    label_axes,
    panels,
    phase_diagram,
    styled,
)
from ....tasks import from_moments, linear_teacher
from ....theory.linear import balanced_flow
from . import _shapes as shapes

Sizes: TypeAlias = tuple[int, int, int]

_STILL = 1e-3
"""A kernel is lazy that moves by less: (s/λ)⁴ is far below, 1/64 of a layer far above."""
_BOTTLENECK, _BALANCES, _SEEDS = (4, 2, 7), (-40.0, -20.0, 20.0, 40.0), 4
"""What is trained."""


class Parameters(BaseParameters):
    """Networks of many shapes, small but for their balance."""

    seeds: int = Field(default=16, ge=4, le=1024)
    """How many random networks there are at each point of a map."""

    points: int = Field(default=64, ge=8, le=256)
    """Balances of a map, and architectures; both are even numbers."""

    narrow: int = Field(default=8, ge=2, le=32)
    """Neurons of the narrower side of funnels, and their hidden units."""

    largest: float = Field(default=100.0, ge=30, le=1000)
    """Largest |λ| of the maps; the smallest is 0.03."""

    strongest: float = Field(default=2.0, ge=1.2, le=2.5)
    """Largest singular value of the task; the others fall evenly to one."""

    start: float = Field(default=1e-6, gt=0, le=1e-4)
    """Singular values of the map W₂W₁ that a network starts from."""

    def _check(self) -> None:
        if self.points % 2:
            raise ValueError(f"`points` must be even, half of them for λ < 0, got {self.points}.")


QUICK: dict[str, Any] = {"points": 24, "seeds": 8}


@make_run("linear/regime-map")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Kernels of random networks before and after learning by closed forms, and by training."""
    half, narrow = parameters.points // 2, parameters.narrow
    positive = np.geomspace(0.03, parameters.largest, half)
    balances = np.concatenate((-positive[::-1], positive))
    wider = np.arange(-half, half)  # outputs that there are more than inputs
    funnels = [(narrow + max(-k, 0), narrow, narrow + max(k, 0)) for k in wider.tolist()]
    through = np.arange(1, parameters.points + 1)
    bottlenecks = [(parameters.points, k, parameters.points) for k in through.tolist()]
    tables = {}
    for at, (name, axis, sizes) in enumerate(
        (("funnels", wider, funnels), ("bottlenecks", through, bottlenecks))
    ):
        progress(name, at / 10)
        rngs = shapes.generators(parameters.seeds, parameters.seed, key)
        rows = [_row(each, balances, parameters, rngs) for each in sizes]
        tables[name] = xr.concat(rows, xr.Variable("architecture", axis))
    progress("training", 0.2)
    return tables | {"trained": _trained(parameters, key)}


def _spectrum(parameters: Parameters, modes: int) -> np.ndarray:
    return np.linspace(parameters.strongest, 1.0, modes)


def _row(
    sizes: Sizes, balances: np.ndarray, parameters: Parameters, rngs: list[np.random.Generator]
) -> xr.Dataset:
    """How far kernels of one architecture move at each balance: every draw, mean and spread."""
    inputs, hidden, outputs = sizes
    lam = balances[:, None]
    end = _strengths(_spectrum(parameters, min(inputs, outputs))[:hidden], lam)
    own, moved = _strengths(np.full(hidden, parameters.start), lam), []
    traces, size = [each.sum(axis=-1) for each in own], _inner(own, own, sizes)
    size = np.sqrt(size * _inner(end, end, sizes))
    for rng in rngs:
        # The modes of the task lie along the axes: of a start only its diagonal counts there.
        frames = [shapes.random_frame(n, hidden, rng)[:hidden] ** 2 for n in sizes[::2]]
        along = [part @ frame.T for part, frame in zip(own, frames, strict=True)]
        moved.append(1 - _inner(along, end, sizes, traces) / size)
    expected, spread = _theory(sizes, balances, end)
    columns = {"expected": expected, "spread": spread, "filled": _filled(sizes, balances)}
    return xr.Dataset(
        {name: ("balance", each) for name, each in columns.items()}
        | {"distance": (("balance", "seed"), np.transpose(moved))},
        {"balance": balances},
    )


def _filled(sizes: Sizes, balances: np.ndarray) -> np.ndarray:
    """Hidden units over neurons on the side of the larger layer."""
    return sizes[1] / np.where(balances > 0, sizes[2], sizes[0])


def _strengths(s: np.ndarray, lam: np.ndarray) -> list[np.ndarray]:
    """S_λ ∓ λ/2, squares of what first and second layer hold of modes of this strength."""
    large = np.hypot(s, lam / 2) + np.abs(lam) / 2
    small = s**2 / large
    return [np.where(lam > 0, small, large), np.where(lam > 0, large, small)]


def _inner(one: Any, other: Any, sizes: Sizes, traces: Any = None) -> np.ndarray:
    """⟨K, K'⟩ of kernels I ⊗ G + H ⊗ I, given by diagonals of G and H in common directions.

    `traces` are those of the first kernel, where its diagonals are not whole.
    """
    (g, h), (g_, h_) = one, other
    total = lambda each: np.sum(each, axis=-1)
    traced = (total(g), total(h)) if traces is None else traces
    both = sizes[2] * total(g * g_) + sizes[0] * total(h * h_)
    return both + traced[0] * total(h_) + traced[1] * total(g_)


def _theory(sizes: Sizes, balances: np.ndarray, end: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the distance over draws, in the limit of small weights.

    With A the end of the large layer, N its side and P a random projector of rank N_h, tr PA has
    the mean N_h/N tr A and the variance 2N_h(N − N_h)/(N(N − 1)(N + 2)) (tr A² − (tr A)²/N).
    """
    hidden, up = sizes[1], balances > 0
    side, across = np.where(up, sizes[2], sizes[0]), np.where(up, sizes[0], sizes[2])
    total = lambda each: np.sum(each, axis=-1)
    large, small = (np.where(up[:, None], *pair) for pair in (end[::-1], end))
    size = np.sqrt(hidden * across * _inner(end, end, sizes))
    cosine = hidden * (total(small) + across / side * total(large)) / size
    share = 2 * hidden * (side - hidden) / (side * np.maximum(side - 1, 1) * (side + 2))
    variance = share * (total(large**2) - total(large) ** 2 / side)
    return 1 - cosine, across * np.sqrt(np.maximum(variance, 0.0)) / size


def _trained(parameters: Parameters, key: Key) -> xr.Dataset:
    """Bottlenecks trained to the end: how far and when their kernels move, and the exact course."""
    inputs, hidden, outputs = _BOTTLENECK
    s = _spectrum(parameters, inputs)
    correlation = np.eye(outputs, inputs) * s
    # The weakest mode that is learned competes with the strongest that is not.
    slowest = (s[hidden - 1] ** 2 - s[hidden] ** 2) / _BALANCES[-1]
    times = np.append(0.0, np.geomspace(1e-3, 20 / slowest, 160))
    rngs = shapes.generators(_SEEDS, parameters.seed, key)
    scale = float(np.sqrt(parameters.start))
    drawn = [shapes.random_networks(_BOTTLENECK, _BALANCES, scale, rng) for rng in rngs]
    network = shapes.stacked(drawn)
    lam = np.repeat(np.array(_BALANCES)[:, None], _SEEDS, axis=1)
    exact = balanced_flow(network, from_moments(correlation), balance=lam)(times)
    task = linear_teacher(correlation)
    moved = tangent_kernel_distance(gradient_flow(network, task, times, rtol=1e-8), np.eye(inputs))
    half = passage_time(times, -moved, -moved[..., -1] / 2)
    over = "balance", "seed"
    return xr.Dataset(
        {
            "distance": ((*over, "time"), moved),
            "exact": ((*over, "time"), exact.kernel_distance()),
            "turned": (over, half),
        },
        {"balance": list(_BALANCES), "time": times},
    )


@claims_from_source("Saxe, slides", "“Architecture and learning regime”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """The map and its edges by closed forms, which architectures are lazy, and how late."""
    trained, words = run["trained"].ds, "–".join(map(str, _BOTTLENECK))
    claim(
        "bottleneck-kernel-distance",
        f"bottlenecks {words}: how far the kernel has moved, all along training",
        max_error_below(trained["distance"], trained["exact"], within=1e-5),
        note=f"λ = {join_numbers(_BALANCES)}; by differentiation, against the exact solution",
    )
    maps = {name: run[name].ds for name in ("funnels", "bottlenecks")}
    for name, table in maps.items():
        draws = table["distance"].transpose("seed", ...).values
        known, spread = table["expected"].values, table["spread"].values
        chance = spread > 0
        claim(
            f"{name}-mean-distance",
            f"{name}: the mean of 1 − cos(K(0), K(∞)) over draws, everywhere on the map",
            mean_agrees(draws[:, chance], known[chance], spread[chance]),
            headline=name == "bottlenecks",
            note="in the limit of small weights; the spread has a closed form too",
        )
    ends = [table.isel(balance=[0, -1]) for table in maps.values()]
    edge = xr.concat([each.stack(end=("architecture", "balance")) for each in ends], "end")
    some = edge["filled"].values < 1
    claim(
        "large-balance-distance",
        "large |λ|: the kernel turns by 1 − N_h/N, with N outputs for λ > 0, inputs for λ < 0",
        mean_agrees(
            edge["distance"].transpose("seed", "end").values[:, some],
            1 - edge["filled"].values[some],
            edge["spread"].values[some],
        ),
        corrected="the slides' delayed rich regime is continuous in the architecture: next to a "
        "square network the kernel hardly moves",
    )
    lazy = edge["distance"].max("seed").values < _STILL
    claim(
        "lazy-architectures",
        "large |λ| is lazy where the larger layer has as many hidden units as neurons on its side",
        most_seeds(lazy == (edge["filled"].values == 1), of="architectures and signs"),
        corrected="and only there: a bottleneck is lazy for neither sign",
        note=f"{int(lazy.sum())} are lazy: the kernel of no draw moves by {_STILL:g}",
    )
    turned = trained["turned"]
    claim(
        "delay-with-balance",
        f"bottlenecks {words}: the kernel turns after a time that grows as |λ|",
        follows_power_law(
            _BALANCES[2:], np.stack((turned[2:], turned[1::-1]), axis=-1), 1.0, within=0.05
        ),
        note="the delay is |λ|/s², up to a fraction (s/λ)²: 1 % at the smaller one",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Both maps, their edges on one line, and bottlenecks that turn late."""
    figure, (funnels, through, edge, late) = panels("Lazy or rich: balance and architecture", 4)
    axes = {"funnels": (funnels, "outputs − inputs"), "bottlenecks": (through, "hidden units")}
    moved = "1 − cos(K(0), K(∞))"
    for index, (name, (ax, words)) in enumerate(axes.items()):
        table = run[name].ds
        distance = table["distance"].mean("seed").assign_attrs(long_name=moved)
        distance["balance"].attrs["long_name"] = "balance λ"
        distance["architecture"].attrs["long_name"] = words
        phase_diagram(ax, distance, table["expected"], x="balance", level=0.1, vmin=0, vmax=1)
        ax.set_title(f"{name}, {table.sizes['seed']} draws; theory at 0.1")
        end, dots = table.isel(balance=-1), {**POINT_STYLE, "color": f"C{index}"}
        edge.plot(end["filled"], end["distance"].mean("seed"), **dots, label=name)
    edge.plot([0, 1], [1, 0], **THEORY_STYLE, label="$1 − N_h/N_o$")
    largest = float(run["funnels"].ds["balance"][-1])
    label_axes(edge, "hidden units over outputs", moved, f"λ = {largest:g}")
    one = run["trained"].ds.isel(seed=0, time=slice(1, None)).sel(balance=list(_BALANCES[2:]))
    time = (one["time"] / one["balance"]).assign_attrs(long_name="time over balance, $t/τλ$")
    theory = one["exact"].isel(balance=-1)
    theory = theory.assign_coords(time=time.isel(balance=-1).values)
    draw_collapse(late, one["distance"], time, theory, over="balance", symbol="λ =")
    title = f"trained bottleneck {'–'.join(map(str, _BOTTLENECK))}"
    label_axes(late, ylabel="1 − cos(K(0), K(t))", title=title, theory="exact", xscale="log")
    return figure
