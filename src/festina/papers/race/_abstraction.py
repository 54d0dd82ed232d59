r"""Race between one trunk shared by all pairs of domains and dedicated pathways: the trunk wins.

The task has M input and M output domains, and each input domain is trained with K output domains.
The loss is ½⟨‖y − f‖²⟩, a mean over MK pairs, and τ Ẇ = −∂L/∂W with τ = 1. All pairs contribute to
the gradient of a shared trunk, a fraction 1/M of the pairs to the gradient of an encoder or
decoder, and a fraction 1/MK to the gradient of a dedicated pathway. From balanced weights the
strength π of a mode follows π̇ = 3 M^(−2/3) π^(4/3) E in the shared path and
π̇ = 3/(MK) π^(4/3) E in a dedicated path, with E = S − Dπ for correlation S and input variance D.
The shared path is faster by a factor of K M^(1/3).
"""

from typing import Annotated, Any

import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation
from pydantic import Field

from ...diagnose import passage_time
from ...dynamics import gradient_flow
from ...experiments._frame import Progress, Tables, make_run, parameters_of_run
from ...experiments._keys import Key, keys_from_parameters
from ...experiments._parameters import Parameters as BaseParameters
from ...experiments._parameters import check_increasing
from ...experiments.claims import (
    ClaimCollector,
    agree,
    all_above,
    all_below,
    claims_from_source,
    decreasing,
    join_numbers,
    max_error_below,
)
from ...experiments.figures import (
    GUIDE_STYLE,
    POINT_STYLE,
    SIMULATION_STYLE,
    THEORY_STYLE,
    draw_pair,
    label_axes,
    panels,
    shades,
    styled,
)
from ...networks import with_decoupled_weights
from ...tasks import Task, domain_routing
from ...theory import linear
from ...theory.gated import race_reduction
from ._translation import basis, chain, pairs_of, rates, strengths, three_numbers, translator

_WAYS = ("shared", "half", "dedicated")
_SAMPLES = 401
_FEW = 60


class Parameters(BaseParameters):
    """Domains with the features of a tree of four items; only rotations of domains are random."""

    seeds: int = Field(default=1, ge=1)
    """Number of seeds, without effect: the rotations of the domains come from the first seed."""

    domains: Annotated[tuple[int, ...], check_increasing(2, 12)] = (2, 4, 8)
    """Numbers M of input domains, and of output domains, increasing."""

    trained: Annotated[tuple[int, ...], check_increasing(1, 12)] = (1, 2, 4)
    """Numbers K of output domains trained with each input domain, increasing; only K ≤ M is run."""

    strength: float = Field(default=0.05, gt=0, le=0.2)
    """Initial strength b of every mode in every layer."""

    contest: tuple[int, int] = (4, 2)
    """Numbers M of domains and K of outputs per input, for networks that compare kinds of paths."""

    starts: Annotated[tuple[float, ...], check_increasing(0.01, 1.5)] = (
        0.05,
        0.1,
        0.2,
        0.3,
        0.5,
        1.0,
    )
    """Initial strengths b of every mode in every layer, increasing, one for each race."""

    large: tuple[int, int] = (32, 8)
    """Numbers M of domains and K of outputs per input, for a large network with a shared trunk."""


QUICK: dict[str, Any] = {"domains": (2, 4), "trained": (1, 2), "large": (12, 3)}


@make_run("race/abstraction")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Compute half times by theory and by training; train networks with shared and own paths."""
    first = keys_from_parameters(parameters, key)[0]
    progress("half times", 0.0)
    tables = {"half_times": _half_times(parameters, first)}
    progress("training and race", 0.3)
    tables |= _contest(parameters, first)
    progress("large network", 0.7)
    return tables | {"large": _large(parameters, first)}


def _half_times(parameters: Parameters, key: PRNGKeyArray) -> xr.Dataset:
    """Return half times of mode 1 from three numbers per mode, the race reduction, and training."""
    sizes = [(m, k) for m in parameters.domains for k in parameters.trained if k <= m]
    found = {name: np.zeros((len(sizes), len(_WAYS))) for name in ("reduced", "theory")}
    seen = np.zeros(len(sizes))
    for row, (m, k) in enumerate(sizes):
        data, everything = domain_routing(m, k, key=key), domain_routing(m, key=key)
        frames, s = basis(everything)
        for column, way in enumerate(_WAYS):
            network, r = translator(data, everything, (way,)), np.array(rates(way, m, k))
            path, together = [chain(way, *pairs_of(data)[0])], np.prod(r) ** (1 / 3)
            expected = _chain_time(parameters.strength**3, s, tau=1 / together)
            times = np.linspace(0.0, 1.2 * expected, _SAMPLES)
            half = lambda curve, times=times, s=s: passage_time(times, -curve, -s[0] / 2)
            start = with_decoupled_weights(network, frames, initial_strength=parameters.strength)
            # At K = 1 the data do not determine the directions of degenerate modes, and the
            # reduction would warn. The first mode is not degenerate.
            reduced = race_reduction(start, data, tolerance=1.0)(times, rtol=1e-8).network
            found["reduced"][row, column] = half(strengths(reduced, frames, path)[0, :, 0])
            if way == "shared":
                flow = gradient_flow(start, data, times, rtol=1e-9)
                seen[row] = half(strengths(flow.network, frames, path)[0, :, 0])
            numbers = three_numbers(times, [tuple(r)], parameters.strength, s / len(s), 1 / len(s))
            found["theory"][row, column] = half(numbers[:, 0, :, 0].prod(axis=1))
    m, k = np.array(sizes).T
    coordinates = {"way": list(_WAYS), "domains": ("size", m), "trained": ("size", k)}
    table = {n: (("size", "way"), each) for n, each in found.items()}
    return xr.Dataset(table | {"shared_trained": ("size", seen)}, coordinates)


def _layer(edge: str) -> int:
    return 0 if edge[0] == "x" else 2 if "-y" in edge else 1


def _chain_time(strength: float, s: np.ndarray, *, tau: float) -> float:
    """Return the half time of mode 1 in a balanced chain of three layers with time constant tau."""
    how = {"depth": 3, "input_variance": 1 / len(s), "fraction": 0.5, "tau": tau}
    return float(linear.learning_time(s[0] / len(s), strength, **how))


def _contest(parameters: Parameters, key: PRNGKeyArray) -> dict[str, xr.Dataset]:
    """Train networks with one kind of path each, and networks with shared and dedicated paths."""
    m, k = parameters.contest
    data, everything = domain_routing(m, k, key=key), domain_routing(m, key=key)
    (frames, s), pair = basis(everything), pairs_of(data)[0]
    alone: list[xr.Dataset] = []
    for way in _WAYS:
        r = rates(way, m, k)
        tau = float(np.prod(r) ** (-1 / 3))
        times = np.linspace(0.0, 1.2 * _chain_time(parameters.strength**3, s, tau=tau), _SAMPLES)
        network = translator(data, everything, (way,))
        # Two starts with the same product b₁b₂b₃: equal strengths, and balanced ones, b² ∝ rates.
        balance = np.array([[1.0, 1.0, 1.0], np.sqrt(np.array(r) * tau)])
        b = {edge: parameters.strength * balance[:, [_layer(edge)]] for edge in network.part_axes}
        flow = gradient_flow(
            with_decoupled_weights(network, frames, initial_strength=b), data, times, rtol=1e-9
        )
        seen, balanced = strengths(flow.network, frames, [chain(way, *pair)])[0, ..., 0]
        theory = three_numbers(times, [r], parameters.strength, s / len(s), 1 / len(s))
        theory = theory[:, 0, :, 0].prod(axis=1)
        table = {"time": times, "strength": seen, "theory": theory}
        halves = passage_time(times, -np.stack((seen, theory, balanced)), -s[0] / 2)
        half = {
            "half_time": halves[0],
            "half_time_theory": halves[1],
            "half_time_balanced": halves[2],
            "half_time_chain": _chain_time(parameters.strength**3, s, tau=tau),
        }
        alone.append(xr.Dataset({n: ("sample", each) for n, each in table.items()}).assign(half))
    return {
        "alone": xr.concat(alone, xr.Variable("way", list(_WAYS))),
        "race": _race(parameters, data, everything),
    }


def _race(parameters: Parameters, data: Task, everything: Task) -> xr.Dataset:
    """Train networks with shared and dedicated paths from equal initial strengths."""
    (frames, s), starts, ways = basis(everything), np.array(parameters.starts), _WAYS[::2]
    slow = [rates(way, *parameters.contest) for way in ways]
    tau = float(np.prod(slow[0]) ** (-1 / 3)) * s[0] / s[-1]  # the weakest mode is learned last
    times = np.linspace(0.0, 1.5 * _chain_time(starts[0] ** 3, s, tau=tau), _SAMPLES)
    network = with_decoupled_weights(
        translator(data, everything, ways), frames, initial_strength=starts[:, None]
    )
    flow = gradient_flow(network, data, times, rtol=1e-9)
    pair = pairs_of(data)[0]
    seen = strengths(flow.network, frames, [chain(way, *pair) for way in ways])
    fine = np.geomspace(starts[0], starts[-1], _FEW)
    numbers = lambda b: three_numbers(times, slow, b, s / len(s), 1 / len(s)).prod(axis=2)
    share = lambda final: final[0] / final.sum(axis=0)
    return xr.Dataset(
        {
            "strength": (("way", "start", "time", "mode"), seen),
            "theory": (("start", "time", "way", "mode"), np.stack([numbers(b) for b in starts])),
            "share_curve": (("fine", "mode"), np.stack([share(numbers(b)[-1]) for b in fine])),
        },
        {
            "way": list(ways),
            "start": starts,
            "fine": fine,
            "time": ("time", times, {"long_name": "time in units of τ"}),
            "singular_value": ("mode", s),
        },
    )


def _large(parameters: Parameters, key: PRNGKeyArray) -> xr.Dataset:
    """Train a large network with a shared trunk."""
    m, k = parameters.large
    data = domain_routing(m, k, key=key)
    frames, s = basis(domain_routing(m, key=key))
    network = with_decoupled_weights(
        translator(data, data), frames, initial_strength=parameters.strength
    )
    expected = _chain_time(parameters.strength**3, s, tau=m ** (2 / 3))
    times = np.linspace(0.0, 1.2 * expected, _SAMPLES)
    # By symmetry the first trained pairs of a few domains stand for all pairs.
    pairs = pairs_of(data)[:: k * max(1, m // 8)]
    paths = [chain("shared", i, j) for i, j in pairs]
    flow = gradient_flow(network, data, times, rtol=1e-9)
    curves = strengths(flow.network, frames, paths)[..., 0]
    theory = three_numbers(times, [rates("shared", m, k)], parameters.strength, s / 4, 1 / 4)
    theory = theory[:, 0, :, 0].prod(axis=1)
    half = lambda curve: passage_time(times, -curve, -s[0] / 2)
    return xr.Dataset(
        {"half_time": ("pair", [half(c) for c in curves]), "half_time_theory": half(theory)}
    )


@claims_from_source("Saxe, slides", "“Race dynamics favor shared structure”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check the speed of each kind of path, and the winner of the race."""
    parameters = parameters_of_run(run, Parameters)
    table, alone, race = (run[name].ds for name in ("half_times", "alone", "race"))
    (m, k), large = parameters.contest, parameters.large
    shared, theory = table["shared_trained"], table["theory"].sel(way="shared", drop=True)
    claim(
        "shared-trunk-half-times",
        "the half time of a shared trunk does not depend on the number K of outputs trained with "
        "each input: trained networks follow the theory of three numbers per mode",
        max_error_below(shared, theory, within=1e-6, relative=True),
        note=f"M = {join_numbers(table['domains'].values)}, K = "
        f"{join_numbers(table['trained'].values)}: " + join_numbers(shared.values),
    )
    half = alone["half_time_balanced"]
    claim(
        "balanced-speed-ratio",
        "from balanced weights a shared path learns faster than a dedicated one by a factor of "
        f"K M^(1/3), for M = {m} domains and K = {k} outputs trained with each input",
        agree(
            half.sel(way="dedicated") / half.sel(way="shared"),
            k * m ** (1 / 3),
            within=1e-5,
            relative=True,
        ),
        at="“The neural race: edge sharing”",
    )
    claim(
        "balanced-half-times",
        "balanced networks have the half times of a linear chain of three layers",
        max_error_below(half, alone["half_time_chain"], within=1e-5, relative=True),
        at="“The neural race: edge sharing”",
    )
    claim(
        "half-times",
        "half times of networks with shared, half shared and dedicated paths follow the theory of "
        f"three numbers per mode, for M = {m} domains and K = {k} outputs trained with each input",
        agree(alone["half_time"], alone["half_time_theory"], within=1e-6, relative=True),
    )
    seen, theory = _shares(race["strength"]), _shares(race["theory"])
    claim(
        "shares-of-shared-path",
        "if shared and dedicated paths of one network start equally strong, the theory predicts "
        "the shared path's part of the final strength of each mode",
        max_error_below(seen, theory, within=1e-6),
        note=f"shares of the first mode: {join_numbers(seen[:, 0])}",
    )
    at = "“Initialization dependence: rich vs lazy learning”"
    claim(
        "share-against-initial-weights",
        "the shared path's part of the strength of the first mode falls from 1 to 1/2 as initial "
        "weights grow: in lazy networks neither shared nor dedicated paths win",
        decreasing(seen[:, 0]),
        at=at,
    )
    small, big = race["start"].values[[0, -1]]
    if small <= 0.05:
        law = all_above(seen[0], 0.99)
        claim(
            "winner-takes-all",
            f"from small initial strengths b = {small:g} the shared path learns all of every mode",
            law,
            headline=True,
        )
    if big >= 1:
        claim(
            "lazy-weights",
            f"from large initial strengths b = {big:g} neither shared nor dedicated paths win",
            all_below(seen[-1, 0], 0.6),
            at=at,
        )
    many = run["large"].ds
    claim(
        "large-half-time",
        "the theory of three numbers per mode gives the half time of a large network, "
        f"M = {large[0]} domains, with K = {large[1]} outputs trained with each input",
        agree(many["half_time"].mean(), many["half_time_theory"], within=1e-6, relative=True),
    )


def _shares(strength: xr.DataArray) -> xr.DataArray:
    """Return the shared path's share of the final mode strengths."""
    final = strength.isel(time=-1)
    return (final.sel(way="shared") / final.sum("way")).transpose("start", "mode")


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot half times, one race, and the winner's share against initial strengths."""
    parameters = parameters_of_run(run, Parameters)
    table, race = run["half_times"].ds, run["race"].ds
    m, k = parameters.contest
    title = "A trunk shared by all pairs of domains learns faster and wins"
    figure, (times, curves, shares) = panels(title, 3, width=3.2, height=3.2)
    for trained, color, label in shades(np.unique(table["trained"].values), "dedicated, K ="):
        one = table.isel(size=table["trained"].values == trained)
        where = one["domains"].values
        times.plot(
            where, one["reduced"].sel(way="dedicated"), **POINT_STYLE, color=color, label=label
        )
        times.plot(where, one["theory"].sel(way="dedicated"), **THEORY_STYLE)
    one = table.isel(size=table["trained"].values == table["trained"].values.min())
    how = {**POINT_STYLE, "marker": "s", "color": "C3"}
    times.plot(one["domains"], one["reduced"].sel(way="shared"), **how, label="shared, any K")
    times.plot(one["domains"], one["theory"].sel(way="shared"), **THEORY_STYLE)
    words = "number $M$ of domains", "half time $t/τ$ of mode 1", "one kind of path"
    times.set_ylim(top=3 * float(table["theory"].max()))  # room for the legend
    label_axes(times, *words, theory="theory", xscale="log", yscale="log")
    times.set_xticks(parameters.domains, [f"{each}" for each in parameters.domains])
    times.xaxis.minorticks_off()
    times.yaxis.set_minor_formatter(LogFormatterSciNotation(minor_thresholds=(2, 0.5)))
    one = race.isel(start=0)
    for way, colors in (("shared", "C3"), ("dedicated", "C0")):
        for mode in range(len(one["mode"])):
            curve = one.sel(way=way).isel(mode=mode)
            draw_pair(curves, one["time"], curve["strength"], curve["theory"], color=colors)
        curves.plot([], [], **SIMULATION_STYLE, color=colors, alpha=0.6, label=way)
    words = "time $t/τ$", "mode strength $b_1b_2b_3$"
    words = (
        *words,
        f"shared and dedicated, $M$ = {m}, $K$ = {k}, $b$ = {float(one['start']):g}",
    )
    label_axes(curves, *words, legend="center right", xlim=(0, None))
    seen = _shares(race["strength"])
    for mode, (_, color, label) in enumerate(
        shades(np.round(race["singular_value"].values, 2), "$s$ =")
    ):
        if mode and np.isclose(*race["singular_value"].values[[mode, mode - 1]]):
            continue  # degenerate modes have equal curves
        shares.plot(race["start"], seen[:, mode], **POINT_STYLE, color=color, label=label)
        shares.plot(race["fine"], race["share_curve"][:, mode], **THEORY_STYLE)
    shares.axhline(0.5, **GUIDE_STYLE)
    words = "initial strength $b$", "share of the shared path", "share of the winner"
    label_axes(shares, *words, theory="theory", legend="lower left", xscale="log", ylim=(0, 1.05))
    return figure
