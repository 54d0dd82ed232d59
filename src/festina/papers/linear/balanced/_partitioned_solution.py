r"""The exact learning of balanced networks, QQᵀ(t) with Q = (W₁ᵀ; W₂), square and funnel-shaped.

Inputs are white. The loss is ½⟨‖y − W₂W₁x‖²⟩, with τ Ẇ = −∂L/∂W, τ = 1 and W₂ᵀW₂ − W₁W₁ᵀ = λI. One
fixed network of each shape and several random ones are trained. The slide misprints the D term of
Eq. (15), and it does not define λ. The slide does not mention that half of all square networks with
λ = 0 are trapped at a saddle.
"""

import warnings

import jax
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from ....experiments._frame import Progress, Tables, make_run
from ....experiments._keys import Key
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments.claims import (
    ClaimCollector,
    Judgement,
    agree,
    claims_from_source,
    max_error_below,
)
from ....experiments.figures import draw_pair, label_axes, panels, shades, styled
from ....networks import DeepLinear
from ....tasks import from_moments
from ....theory.linear import ObstructionWarning, balanced_flow, balanced_gram
from . import _shapes as shapes
from ._shapes import SHAPES, Balances, Modes, generators, random_task, train, widths

_TIMES = np.linspace(0.0, 6.0, 41)
_LITERAL = 15.0
"""Largest S_λ t at which the exponentials of the printed form leave enough digits."""
_FLOOR, _SHOWN = 1e-15, ("trained", "theory")


class Parameters(BaseParameters):
    """Parameters of two-layer linear networks with balanced weights."""

    seeds: int = Field(default=4, ge=1)
    """Number of random tasks and networks for each shape and balance."""

    balances: Balances = (-5.0, -1.0, 0.0, 1.0, 5.0)
    """Balances λ, increasing."""

    singular_values: Modes = (1.5, 0.7)
    """Singular values of the random tasks, as many as hidden units."""

    wide: int = Field(default=3, ge=2, le=64)
    """Number of neurons on the wider side of random funnels."""

    scale: float = Field(default=0.4, gt=0, le=2)
    """Standard deviation of two Gaussian layers whose product is the initial map."""

    def _check(self) -> None:
        shapes.check_sizes(len(self.singular_values), self.wide)


@make_run("linear/partitioned-solution")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train networks of each shape, and evaluate the solution at the same times."""
    random = lambda: generators(parameters.seeds, parameters.seed, key)
    seed = xr.Variable("seed", parameters.seed + np.arange(parameters.seeds))
    tables = {}
    for index, shape in enumerate(SHAPES):
        progress(f"training {shape} networks", index / 4)
        network, correlation = shapes.fixed_networks(shape, parameters.balances)
        tables[shape] = _solutions(network, correlation, parameters.balances, _TIMES)
        every = [_random(parameters, shape, rng) for rng in random()]
        tables[f"random_{shape}"] = xr.concat(every, seed)
    progress("training networks that are trapped at a saddle", 3 / 4)
    every = [_obstruction(parameters, rng) for rng in random()]
    return tables | {"obstruction": xr.concat(every, seed)}


def _random(parameters: Parameters, shape: str, rng: np.random.Generator) -> xr.Dataset:
    """Return the largest differences between solutions and training, for one random task."""
    s = parameters.singular_values
    sizes = widths(shape, len(s), parameters.wide)
    correlation = random_task(sizes, s, rng)
    network = shapes.random_networks(sizes, parameters.balances, parameters.scale, rng)
    # Leaving a saddle amplifies rounding errors by e^{st}, which limits the useful time.
    times = np.linspace(0.0, 8.0 / max(s), len(_TIMES))
    table = _solutions(network, correlation, parameters.balances, times)
    return abs(table.drop_vars("trained") - table["trained"]).max(("time", "row", "column"))


def _solutions(
    network: DeepLinear, correlation: np.ndarray, balances: tuple[float, ...], times: np.ndarray
) -> xr.Dataset:
    """Return QQᵀ from training, from the solution, and from printed and modified equations."""
    dims = ("balance", "time", "row", "column")
    first, second = (np.asarray(weight) for weight in network.weights)
    with warnings.catch_warnings():
        # Half of random square networks with balance 0 are trapped, which is a separate claim.
        warnings.simplefilter("ignore", ObstructionWarning)
        flow = balanced_flow(network, from_moments(correlation), balance=np.array(balances))
        exact = flow(times).factor
    inward, outward = (np.asarray(weight) for weight in train(network, correlation, times).weights)
    q = np.stack([np.concatenate([inward.swapaxes(-1, -2), outward], axis=-2), exact])
    trained, theory = q @ q.swapaxes(-1, -2)
    fastest = np.linalg.norm(correlation, 2)

    def literal(sign: float = 1.0, *, as_printed: bool = False) -> np.ndarray:
        table = np.full((len(balances), len(times), *[sum(correlation.shape)] * 2), np.nan)
        for at, lam in enumerate(balances):
            early = times * np.hypot(fastest, lam / 2) <= _LITERAL
            given = times[early], first[at], second[at], correlation
            table[at, early] = balanced_gram(*given, balance=sign * lam, as_printed=as_printed)
        return table

    return xr.Dataset(
        {
            "trained": (dims, trained),
            "theory": (dims, theory),
            "corrected": (dims, literal()),
            "printed": (dims, literal(as_printed=True)),
            "opposite": (dims, literal(-1.0)),
        },
        {"balance": list(balances), "time": times},
        {"inputs": correlation.shape[1]},
    )


def _obstruction(parameters: Parameters, rng: np.random.Generator) -> xr.Dataset:
    """Train a random square network with λ = 0, and its mirror image, to the end."""
    s = parameters.singular_values
    sizes = widths("square", len(s), parameters.wide)
    correlation = random_task(sizes, s, rng)
    network = shapes.random_networks(sizes, (0.0,), parameters.scale, rng)
    pair = jax.tree.map(lambda *w: np.concatenate(w), network, shapes.mirrored(network))
    # Long enough to learn, but shorter than 36/s, when rounding errors leave the saddle.
    times = np.linspace(0.0, 14.0 / min(s), 29)
    maps = np.asarray(train(pair, correlation, times).end_to_end())
    signs = np.sign(np.linalg.det(maps[:, 0])) * np.sign(np.linalg.det(correlation))
    loss = ((correlation - maps) ** 2).sum((-2, -1)) / 2
    order = np.argsort(-signs)  # the network that can learn comes first
    return xr.Dataset(
        {"loss": (("sign", "sample"), loss[order]), "time": ("sample", times)},
        {"sign": signs[order]},
        {"weakest": float(min(s))},
    )


@claims_from_source("Saxe, slides", "“Partitioned solution”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check the solution for each shape, the misprint, and the definitions that the slide lacks."""
    fixed, random = ([run[of + shape].ds for shape in SHAPES] for of in ("", "random_"))

    def exact(form: str, which: slice = slice(None)) -> Judgement:
        """Check training against a form of the solution, in fixed and random networks."""
        off = [abs(each[form] - each["trained"]).max() for each in fixed[which]]
        off.extend(np.ravel([each[form] for each in random[which]]))
        return max_error_below(off, within=1e-6)

    claim(
        "exact-solution",
        "training follows the exact solution QQᵀ(t) for every shape and balance λ",
        exact("theory"),
    )
    claim(
        "square-equations",
        "square networks follow Eqs. (13)–(15) as printed",
        exact("printed", slice(1)),
        note="square networks have no D term",
    )
    claim(
        "funnel-equations",
        "funnels and inverted funnels follow Eqs. (13)–(15)",
        exact("corrected", slice(1, None)),
        corrected="the D term of Eq. (15) is corrected, and only one of the D terms in Eqs. (13) "
        "and (14) exists, on the side with more neurons",
    )
    if (fixed[1]["balance"] != 0).any():
        for shape, each, drawn in zip(SHAPES[1:], fixed[1:], random[1:], strict=True):
            there = _furthest(each, "printed")
            claim(
                f"{shape}-misprint",
                f"{shape} network: Eq. (15) with the printed D term gives QQᵀ (the entry with the "
                "largest error)",
                agree(there["trained"], there["printed"], within=1e-6),
                wrong="the D term must be (e^{2λ_⊥t/τ} − 1)/(2λ_⊥)",
                instead=agree(there["trained"], there["theory"], within=1e-6),
                note=f"in random networks the error reaches {float(drawn['printed'].max()):.3g}",
            )
        there = _furthest(fixed[1], "opposite")
        claim(
            "sign-of-balance",
            "funnel: with balance W₂ᵀW₂ − W₁W₁ᵀ = λI the solution gives QQᵀ (the entry that "
            "depends most on the sign of λ)",
            agree(there["trained"], there["theory"], within=1e-6),
            corrected="the slide does not define the sign of λ: λ is second layer minus first "
            "layer",
            note=f"with the opposite sign of λ this entry is {float(there['opposite']):.4g}",
        )
    stuck, weakest = run["obstruction"].ds["loss"][..., -1], run["obstruction"].attrs["weakest"]
    levels = xr.DataArray([0.0, weakest**2 / 2], dims="sign")
    claim(
        "obstruction",
        "square networks with λ = 0 learn the task if det W₂W₁ has the sign of det Σ, and are "
        "otherwise trapped at the loss s_min²/2",
        agree(stuck, levels.broadcast_like(stuck), within=1e-3 * weakest**2),
        note="det W₂W₁ keeps its sign at λ = 0; half of random networks are trapped at this saddle",
    )


def _furthest(fixed: xr.Dataset, form: str) -> xr.Dataset:
    """Return the entry of QQᵀ at which a form of the equations differs most from the solution."""
    off = abs(fixed[form] - fixed["theory"])
    return fixed.isel(off.argmax(off.dims))  # pyright: ignore[reportArgumentType]


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot every entry of W₂W₁ over time for each shape, and the error of Eq. (15)."""
    title = "Balanced weights: the exact solution for every entry of the map"
    figure, (*maps, errors) = panels(title, 4, width=2.9, height=3.2)
    for ax, shape in zip(maps, SHAPES, strict=True):
        table = run[shape].ds.isel(balance=0)
        inputs, balance = table.attrs["inputs"], float(table["balance"])
        block = table.isel(row=slice(inputs, None), column=slice(None, inputs))
        seen, theory = (block[name].values.reshape(len(block["time"]), -1) for name in _SHOWN)
        for k in range(seen.shape[1]):
            draw_pair(ax, table["time"], seen[:, k], theory[:, k], color=f"C{k}")
        title = f"{shape}, {inputs}-2-{block.sizes['row']}, $λ = {balance:g}$"
        label_axes(ax, "time $t/τ$", title=title, xlim=(0, None))
        if ax is not maps[0]:
            ax.sharey(maps[0])
            ax.tick_params(labelleft=False)
    maps[0].autoscale(axis="y")
    draw_pair(maps[0], [], [], color="0.6", alpha=0.5, label="training")
    label_axes(maps[0], ylabel="entries of $W_2W_1$", theory="solution", legend=None)
    maps[0].legend(loc="center right", bbox_to_anchor=(1.0, 0.38))
    funnel, both_sides = run["funnel"].ds, ("row", "column")
    off = abs(funnel[["printed", "corrected"]] - funnel["trained"]).max(both_sides, skipna=False)
    off = off.clip(min=_FLOOR).isel(time=slice(1, None))
    for balance, shade, label in shades([b for b in funnel["balance"].values if b != 0]):
        errors.semilogy(off["time"], off["printed"].sel(balance=balance), color=shade, label=label)
    errors.semilogy(off["time"], off["corrected"].max("balance"), color="0.5", ls=":")
    inside = errors.transAxes
    errors.text(0.97, 0.03, "corrected, every $λ$", transform=inside, ha="right", color="0.4")
    words = "time $t/τ$", "largest error in $QQ^⊤$", "funnel: error of Eq. (15) as printed"
    limits = {"xlim": (0, None), "ylim": (_FLOOR, None)}
    label_axes(errors, *words, legend="beside", legend_title="$λ$", **limits)
    return figure
