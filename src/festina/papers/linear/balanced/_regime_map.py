r"""A map of lazy and rich learning over balance λ and architecture, including bottlenecks.

Inputs are white. The loss is ½⟨‖y − W₂W₁x‖²⟩, with τ Ẇ = −∂L/∂W, τ = 1 and W₂ᵀW₂ − W₁W₁ᵀ = λI. For
small weights with λ > 0 the kernel starts as λP ⊗ I, where P projects on the N_h random directions
of the second layer in the N_o outputs. The kernel ends as I ⊗ V(S_λ − λ/2)Vᵀ + U(S_λ + λ/2)Uᵀ ⊗ I
with the N_h strongest modes of the task and S_λ = √(s² + λ²/4). The distance 1 − cos of the two
kernels is linear in P, and the mean of P is (N_h/N_o) I. The mean distance over draws and its
spread therefore have closed forms. For large λ the kernel distance is 1 − N_h/N_o, so that only
networks with N_h = N_o are lazy. For λ < 0 the same holds with N_i in place of N_o.
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
"""Largest kernel distance of a lazy network: far above (s/λ)⁴, far below 1/64."""
_BOTTLENECK, _BALANCES, _SEEDS = (4, 2, 7), (-40.0, -20.0, 20.0, 40.0), 4
"""Sizes, balances and number of seeds of the networks that are trained."""


class Parameters(BaseParameters):
    """Parameters of networks of many shapes, with small initial maps."""

    seeds: int = Field(default=16, ge=4, le=1024)
    """Number of random networks at each point of a map."""

    points: int = Field(default=64, ge=8, le=256)
    """Number of balances of a map, and of architectures; an even number."""

    narrow: int = Field(default=8, ge=2, le=32)
    """Number of neurons on the narrower side of funnels, and of their hidden units."""

    largest: float = Field(default=100.0, ge=30, le=1000)
    """Largest |λ| of the maps; the smallest is 0.03."""

    strongest: float = Field(default=2.0, ge=1.2, le=2.5)
    """Largest singular value of the task; all others decrease evenly to one."""

    start: float = Field(default=1e-6, gt=0, le=1e-4)
    """Singular values of the initial map W₂W₁."""

    def _check(self) -> None:
        if self.points % 2:
            raise ValueError(f"`points` must be even, got {self.points}.")


QUICK: dict[str, Any] = {"points": 24, "seeds": 8}


@make_run("linear/regime-map")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Compute kernel distances from closed forms, and train some networks for comparison."""
    half, narrow = parameters.points // 2, parameters.narrow
    positive = np.geomspace(0.03, parameters.largest, half)
    balances = np.concatenate((-positive[::-1], positive))
    wider = np.arange(-half, half)  # number of outputs minus number of inputs
    funnels = [(narrow + max(-k, 0), narrow, narrow + max(k, 0)) for k in wider.tolist()]
    through = np.arange(1, parameters.points + 1)
    bottlenecks = [(parameters.points, k, parameters.points) for k in through.tolist()]
    tables = {}
    for at, (name, axis, sizes) in enumerate(
        (("funnels", wider, funnels), ("bottlenecks", through, bottlenecks))
    ):
        progress(f"computing kernel distances of {name}", at / 10)
        rngs = shapes.generators(parameters.seeds, parameters.seed, key)
        rows = [_row(each, balances, parameters, rngs) for each in sizes]
        tables[name] = xr.concat(rows, xr.Variable("architecture", axis))
    progress("training bottlenecks", 0.2)
    return tables | {"trained": _trained(parameters, key)}


def _spectrum(parameters: Parameters, modes: int) -> np.ndarray:
    return np.linspace(parameters.strongest, 1.0, modes)


def _row(
    sizes: Sizes, balances: np.ndarray, parameters: Parameters, rngs: list[np.random.Generator]
) -> xr.Dataset:
    """Return the kernel distance of one architecture at each balance: draws, mean and spread."""
    inputs, hidden, outputs = sizes
    lam = balances[:, None]
    end = _strengths(_spectrum(parameters, min(inputs, outputs))[:hidden], lam)
    own, moved = _strengths(np.full(hidden, parameters.start), lam), []
    traces, size = [each.sum(axis=-1) for each in own], _inner(own, own, sizes)
    size = np.sqrt(size * _inner(end, end, sizes))
    for rng in rngs:
        # The modes of the task lie along the axes, so that only diagonals of the start count.
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
    """Return hidden units over inputs (λ < 0) or outputs (λ > 0), the layer of larger weights."""
    return sizes[1] / np.where(balances > 0, sizes[2], sizes[0])


def _strengths(s: np.ndarray, lam: np.ndarray) -> list[np.ndarray]:
    """Return S_λ ∓ λ/2, the squared singular values of both layers for map strengths s."""
    large = np.hypot(s, lam / 2) + np.abs(lam) / 2
    small = s**2 / large
    return [np.where(lam > 0, small, large), np.where(lam > 0, large, small)]


def _inner(one: Any, other: Any, sizes: Sizes, traces: Any = None) -> np.ndarray:
    """Return ⟨K, K'⟩ of kernels I ⊗ G + H ⊗ I, for diagonals of G and H in common directions.

    `traces` are the traces of the first kernel's parts, needed if its diagonals are incomplete.
    """
    (g, h), (g_, h_) = one, other
    total = lambda each: np.sum(each, axis=-1)
    traced = (total(g), total(h)) if traces is None else traces
    both = sizes[2] * total(g * g_) + sizes[0] * total(h * h_)
    return both + traced[0] * total(h_) + traced[1] * total(g_)


def _theory(sizes: Sizes, balances: np.ndarray, end: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of the distance over draws, for small weights.

    For the final large layer A, N neurons on its side and a random projector P of rank N_h, tr PA
    has mean N_h/N tr A and variance 2N_h(N − N_h)/(N(N − 1)(N + 2)) (tr A² − (tr A)²/N).
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
    """Train bottlenecks to the end; return kernel distances over time, and the exact solution."""
    inputs, hidden, outputs = _BOTTLENECK
    s = _spectrum(parameters, inputs)
    correlation = np.eye(outputs, inputs) * s
    # The weakest learned mode competes with the strongest mode that is not learned.
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
    """Check the map and its limits of large |λ|, the lazy architectures, and the delay."""
    trained, words = run["trained"].ds, "–".join(map(str, _BOTTLENECK))
    claim(
        "bottleneck-kernel-distance",
        f"bottlenecks of widths {words}: the kernel's distance from its start follows the exact "
        "solution throughout training",
        max_error_below(trained["distance"], trained["exact"], within=1e-5),
        note=f"λ = {join_numbers(_BALANCES)}; kernels of trained networks by differentiation",
    )
    maps = {name: run[name].ds for name in ("funnels", "bottlenecks")}
    for name, table in maps.items():
        draws = table["distance"].transpose("seed", ...).values
        known, spread = table["expected"].values, table["spread"].values
        chance = spread > 0
        claim(
            f"{name}-mean-distance",
            f"{name}: the mean kernel distance 1 − cos(K(0), K(∞)) over draws is as predicted, "
            "everywhere on the map of balances and architectures",
            mean_agrees(draws[:, chance], known[chance], spread[chance]),
            headline=name == "bottlenecks",
            note="in the limit of small weights; the spread over draws is predicted as well",
        )
    ends = [table.isel(balance=[0, -1]) for table in maps.values()]
    edge = xr.concat([each.stack(end=("architecture", "balance")) for each in ends], "end")
    some = edge["filled"].values < 1
    claim(
        "large-balance-distance",
        "for large |λ| the kernel distance is 1 − N_h/N, with N_h hidden units and N outputs "
        "(λ > 0) or inputs (λ < 0)",
        mean_agrees(
            edge["distance"].transpose("seed", "end").values[:, some],
            1 - edge["filled"].values[some],
            edge["spread"].values[some],
        ),
        corrected="the slides' delayed rich regime depends continuously on the architecture: in "
        "nearly square networks the kernel hardly changes",
    )
    lazy = edge["distance"].max("seed").values < _STILL
    claim(
        "lazy-architectures",
        "for large |λ| a network is lazy if the layer with larger weights has as many hidden units "
        "as inputs or outputs on its other side",
        most_seeds(lazy == (edge["filled"].values == 1), of="architectures and signs"),
        corrected="a network is lazy only if both numbers are equal; a bottleneck is lazy for "
        "neither sign of λ",
        note=f"{int(lazy.sum())} combinations are lazy: the kernel distance is below {_STILL:g} in "
        "every draw",
    )
    turned = trained["turned"]
    claim(
        "delay-with-balance",
        f"bottlenecks of widths {words}: the kernel changes after a time proportional to |λ| "
        "(exponent of |λ|)",
        follows_power_law(
            _BALANCES[2:], np.stack((turned[2:], turned[1::-1]), axis=-1), 1.0, within=0.05
        ),
        note="the delay is |λ|/s², up to a fraction (s/λ)², which is 1 % at the smaller |λ|",
    )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot both maps, kernel distances at the largest λ, and the delay in bottlenecks."""
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
