r"""One trunk for all pairs of domains against pathways of their own: sharing wins the race.

M input and M output domains, K trained outputs for each input. The mean over all MK pairs pulls at
a shared trunk with all of them, at its encoders and decoders with one in M, at a dedicated pathway
with one in MK. Loss ½⟨‖y − f‖²⟩, τ Ẇ = −∂L/∂W with τ = 1. From balanced weights
π̇ = 3 M^(−2/3) π^(4/3) E for the shared path and 3/(MK) π^(4/3) E for a dedicated one, E = S − Dπ:
the shared one is faster by K M^(1/3).
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
    """Domains with the features of a tree of four items. Only their rotations are random."""

    seeds: int = Field(default=1, ge=1)
    """Makes no difference: the rotations of the domains are those of the first seed."""

    domains: Annotated[tuple[int, ...], check_increasing(2, 12)] = (2, 4, 8)
    """Numbers M of domains."""

    trained: Annotated[tuple[int, ...], check_increasing(1, 12)] = (1, 2, 4)
    """Numbers K of outputs that are trained with each input, where there are so many."""

    strength: float = Field(default=0.05, gt=0, le=0.2)
    """Every number b at the start."""

    contest: tuple[int, int] = (4, 2)
    """M and K of the networks that are trained, and in which both kinds of pathways race."""

    starts: Annotated[tuple[float, ...], check_increasing(0.01, 1.5)] = (
        0.05,
        0.1,
        0.2,
        0.3,
        0.5,
        1.0,
    )
    """Every number b at the start of a race."""

    large: tuple[int, int] = (32, 8)
    """M and K of a large network with a shared trunk."""


QUICK: dict[str, Any] = {"domains": (2, 4), "trained": (1, 2), "large": (12, 3)}


@make_run("race/abstraction")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Half times by the reduction and by training, and races in one network."""
    first = keys_from_parameters(parameters, key)[0]
    progress("every M and K", 0.0)
    tables = {"half_times": _half_times(parameters, first)}
    progress("trained, and a race", 0.3)
    tables |= _contest(parameters, first)
    progress("large", 0.7)
    return tables | {"large": _large(parameters, first)}


def _half_times(parameters: Parameters, key: PRNGKeyArray) -> xr.Dataset:
    """Return half times of the first mode: theory, its reduction, and trained shared trunks."""
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
            # At K = 1 data leave it open how modes that are alike are turned in each domain, of
            # which the reduction would warn; the first mode has none that is like it.
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
    """Balanced: the half time of a chain of three on the clock of its rates."""
    how = {"depth": 3, "input_variance": 1 / len(s), "fraction": 0.5, "tau": tau}
    return float(linear.learning_time(s[0] / len(s), strength, **how))


def _contest(parameters: Parameters, key: PRNGKeyArray) -> dict[str, xr.Dataset]:
    """Networks of each kind alone, and of shared and dedicated pathways together, trained."""
    m, k = parameters.contest
    data, everything = domain_routing(m, k, key=key), domain_routing(m, key=key)
    (frames, s), pair = basis(everything), pairs_of(data)[0]
    alone: list[xr.Dataset] = []
    for way in _WAYS:
        r = rates(way, m, k)
        tau = float(np.prod(r) ** (-1 / 3))
        times = np.linspace(0.0, 1.2 * _chain_time(parameters.strength**3, s, tau=tau), _SAMPLES)
        network = translator(data, everything, (way,))
        # All numbers alike, and balanced ones with the same product: b² as the rates.
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
    """Shared and dedicated pathways in one network, from the same numbers."""
    (frames, s), starts, ways = basis(everything), np.array(parameters.starts), _WAYS[::2]
    slow = [rates(way, *parameters.contest) for way in ways]
    tau = float(np.prod(slow[0]) ** (-1 / 3)) * s[0] / s[-1]  # until the weakest is learned too
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
    """Many domains: a whole network with a shared trunk."""
    m, k = parameters.large
    data = domain_routing(m, k, key=key)
    frames, s = basis(domain_routing(m, key=key))
    network = with_decoupled_weights(
        translator(data, data), frames, initial_strength=parameters.strength
    )
    expected = _chain_time(parameters.strength**3, s, tau=m ** (2 / 3))
    times = np.linspace(0.0, 1.2 * expected, _SAMPLES)
    # The first trained pair of some domains in their order: all are alike.
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
    """How fast each kind of pathway is, and who wins."""
    parameters = parameters_of_run(run, Parameters)
    table, alone, race = (run[name].ds for name in ("half_times", "alone", "race"))
    (m, k), large = parameters.contest, parameters.large
    shared, theory = table["shared_trained"], table["theory"].sel(way="shared", drop=True)
    claim(
        "shared-trunk-half-times",
        "how fast a shared trunk learns does not depend on K: half times of trained networks are "
        "those of three numbers",
        max_error_below(shared, theory, within=1e-6, relative=True),
        note=f"M = {join_numbers(table['domains'].values)}, K = "
        f"{join_numbers(table['trained'].values)}: " + join_numbers(shared.values),
    )
    half = alone["half_time_balanced"]
    claim(
        "balanced-speed-ratio",
        f"M = {m}, K = {k}: from balanced weights a trained shared path is faster than a dedicated "
        "one by K M^(1/3)",
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
        "balanced: half times of trained networks are those of a chain of three",
        max_error_below(half, alone["half_time_chain"], within=1e-5, relative=True),
        at="“The neural race: edge sharing”",
    )
    claim(
        "half-times",
        f"M = {m}, K = {k}: half times of trained networks, shared, half shared and dedicated",
        agree(alone["half_time"], alone["half_time_theory"], within=1e-6, relative=True),
    )
    seen, theory = _shares(race["strength"]), _shares(race["theory"])
    claim(
        "shares-of-shared-path",
        "both in one network from equal weights: what the shared path ends with, of each mode",
        max_error_below(seen, theory, within=1e-6),
        note=f"of the first mode {join_numbers(seen[:, 0])}",
    )
    at = "“Initialization dependence: rich vs lazy learning”"
    claim(
        "share-against-initial-weights",
        "the winner's share falls from all to half as weights grow: lazy networks do not race",
        decreasing(seen[:, 0]),
        at=at,
    )
    small, big = race["start"].values[[0, -1]]
    if small <= 0.05:
        law = all_above(seen[0], 0.99)
        claim(
            "winner-takes-all",
            f"from b = {small:g} the shared path takes all of every mode",
            law,
            headline=True,
        )
    if big >= 1:
        claim("lazy-weights", f"from b = {big:g} nobody wins", all_below(seen[-1, 0], 0.6), at=at)
    many = run["large"].ds
    claim(
        "large-half-time",
        f"M = {large[0]}, K = {large[1]}: the half time of a whole trained network",
        agree(many["half_time"].mean(), many["half_time_theory"], within=1e-6, relative=True),
    )


def _shares(strength: xr.DataArray) -> xr.DataArray:
    """The shared path's part of what is learned in the end."""
    final = strength.isel(time=-1)
    return (final.sel(way="shared") / final.sum("way")).transpose("start", "mode")


@styled
def draw(run: xr.DataTree) -> Figure:
    """Half times, one race, and who wins from which weights."""
    parameters = parameters_of_run(run, Parameters)
    table, race = run["half_times"].ds, run["race"].ds
    m, k = parameters.contest
    title = "A trunk that all pairs of domains share learns faster, and wins"
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
    words = "number $M$ of domains", "half time of mode 1, in $τ$", "each alone"
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
    words = "time $t$ in units of $τ$", "mode strength $b_1b_2b_3$"
    words = *words, f"together, $M$ = {m}, $K$ = {k}, $b$ = {float(one['start']):g}"
    label_axes(curves, *words, legend="center right", xlim=(0, None))
    seen = _shares(race["strength"])
    for mode, (_, color, label) in enumerate(
        shades(np.round(race["singular_value"].values, 2), "$s$ =")
    ):
        if mode and np.isclose(*race["singular_value"].values[[mode, mode - 1]]):
            continue  # as the one before
        shares.plot(race["start"], seen[:, mode], **POINT_STYLE, color=color, label=label)
        shares.plot(race["fine"], race["share_curve"][:, mode], **THEORY_STYLE)
    shares.axhline(0.5, **GUIDE_STYLE)
    words = "initial numbers $b$", "the shared path's share", "who wins"
    label_axes(shares, *words, theory="theory", legend="lower left", xscale="log", ylim=(0, 1.05))
    return figure
