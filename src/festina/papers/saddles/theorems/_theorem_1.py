"""Theorem 1: fixed points of a narrow network are fixed points of every wider network.

For every architecture, targets are constructed such that a random network is an exact fixed point.
The random network is embedded in a wider network in each of the four ways. If φ does not allow one
of these embeddings, the same construction is a control that must fail. The width-1 minima of Figure
1's tasks are embedded by Eq. (5), and the loss can decrease from there. The loss is ½⟨‖y − f‖²⟩.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.figure import Figure
from pydantic import Field

from .... import networks, tasks
from ...._types import Array
from ....experiments._frame import Progress, Tables, make_run
from ....experiments._keys import Key, keys_from_parameters
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments.claims import (
    ClaimCollector,
    all_above,
    claims_from_source,
    equal_to,
    follows_power_law,
    max_error_below,
)
from ....experiments.figures import (
    SIMULATION_STYLE,
    label_axes,
    panels,
    power_law_guide,
    styled,
)
from ....networks import AbstractNetwork, Layer
from ....theory.saddles import embed_weights, narrow_minima, task_with_fixed_point
from ....theory.saddles._embedding import unit_defects
from ....theory.saddles._fixed_points import losses_and_gradients
from ....theory.saddles._hidden import hidden_layers, with_hidden_layer
from ....theory.saddles._kinds import admissible

CASES = {
    "equal": ("Eq. (4)", "", "C0", "o", "equal units"),
    "zero": ("Eq. (5)", "the property φ(z; 0) = 0", "C2", "s", "zero units"),
    "proportional": ("Eq. (6)", "positive homogeneity", "C1", "^", "proportional units"),
    "linear": ("Eq. (7)", "linearity", "C4", "D", "linear combinations"),
    "negative": ("Eq. (6)", "homogeneity over the reals", "0.35", "v", "proportional, $γ_u < 0$"),
}
"""Ways of embedding: equation, property of φ, and style; the last is Eq. (6) with γ_u < 0."""

_UNITS = {
    "B": "linear",
    "C": "linear convolution",
    "D": "ReLU",
    "E": "ReLU convolution",
    "F": "linear attention",
    "G": "quadratic",
}
"""Units of Figure 1's panels."""

_CLEARLY, _ROUNDINGS = 1e-2, 20.0
_RADII, _DIRECTIONS = (3e-2, 1e-2, 3e-3, 1e-3), 512


class Parameters(BaseParameters):
    """Parameters of Theorem 1: fixed points of random networks, embedded with random γ."""

    seeds: int = Field(default=8, ge=1)
    """Number of fixed points that are made and embedded for each architecture."""

    units: int = Field(default=2, ge=1, le=6)
    """Number of hidden units of the narrow network."""

    width: int = Field(default=6, ge=2, le=40)
    """Number of hidden units of the wide network."""

    samples: int = Field(default=80, ge=20, le=2000)
    """Number of inputs for which the fixed points are made."""

    scale: float = Field(default=0.6, ge=0.3, le=1)
    """Standard deviation of the weights of the narrow network."""

    def _check(self) -> None:
        if self.width <= self.units:
            raise ValueError(f"`width` must be above `units`, got {self.width} and {self.units}.")
        if self.samples < 16 * self.units:
            raise ValueError(
                f"`samples` must be at least {16 * self.units}, 16 for each of the `units`, "
                f"got {self.samples}: with fewer samples only a perfect fit is stationary."
            )


QUICK: dict[str, Any] = {"seeds": 2}


ARCHITECTURES = {  # shapes of the inputs
    **dict.fromkeys(("tanh", "sigmoid", "quadratic", "ReLU", "leaky ReLU", "linear"), (4,)),
    **dict.fromkeys(("conv ReLU", "conv linear"), (5,)),
    **dict.fromkeys(("linear attention", "softmax attention"), (3, 5)),
    "ReLU between tanh": (3,),
}


def _network(name: str, units: int, **how: Any) -> tuple[AbstractNetwork, int]:
    """Return a network with this hidden width, and the index of the hidden layer to widen."""
    kind = name.lower().replace(" ", "-")
    if kind.endswith("attention"):
        return networks.attention(2, units, softmax=kind.startswith("softmax"), **how), 0
    if kind.startswith("conv"):
        kind = kind.removeprefix("conv-")
        return networks.convolutional_1d(5, units, 2, activation=kind, **how), 0
    if kind == "relu-between-tanh":
        layers = ("tanh", "relu", "tanh")
        return networks.deep_network((3, 3, units, 3, 2), activations=layers, **how), 1
    return networks.fully_connected(4, units, 3, activation=kind, **how), 0


@make_run("saddles/theorem-1")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Make fixed points, embed them in each way, allowed or not, and measure the gradient."""
    keys = keys_from_parameters(parameters, key)
    tables = list[xr.Dataset]()
    steps = len(ARCHITECTURES) + 2
    for index, name in enumerate(ARCHITECTURES):
        progress(f"embedding fixed points of {name} networks", index / steps)
        rows = [_embeddings(parameters, name, key, seed) for seed, key in enumerate(keys)]
        network, hidden = _network(name, parameters.units, scale=1.0, key=keys[0])
        algebra = hidden_layers(network)[hidden][0].algebra
        allowed = {*admissible(algebra), *(("negative",) * (algebra.homogeneous == "real"))}
        admitted = ("case", [case in allowed for case in CASES])
        tables.append(_table(rows, "seed", "case").assign(admitted=admitted))
    whole = xr.concat(tables, xr.Variable("architecture", list(ARCHITECTURES)))
    whole.attrs = {"units": parameters.units, "samples": parameters.samples}
    progress("embedding the width-1 minima of Figure 1's tasks", 1 - 2 / steps)
    return {
        "embeddings": whole.assign_coords(case=list(CASES)),
        "panels": _panels(parameters.seed),
        "section_e": _table([_section_e(parameters, key) for key in keys], "seed"),
    }


def _table(rows: list[dict[str, Any]], *dims: str) -> xr.Dataset:
    """Make a dataset from rows of numbers, or of arrays along a second dimension."""
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return xr.Dataset({name: (dims[: each.ndim], each) for name, each in columns.items()})


def _embeddings(parameters: Parameters, name: str, key: Any, seed: int) -> dict[str, Any]:
    """Return gradients of a fixed point after each embedding, and with signs of errors flipped."""
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    x = rng.standard_normal((parameters.samples, *ARCHITECTURES[name]))
    network, hidden = _network(name, parameters.units, scale=parameters.scale, key=key)
    # Residuals scale as √samples, so that gradients do not depend on the number of samples.
    y = task_with_fixed_point(network, x, residual=np.sqrt(parameters.samples) / 3, key=key).y
    f = network.predict(x)
    other = f + np.random.default_rng(seed).choice([-1.0, 1.0], y.shape) * (y - f)
    _, u, v = hidden_layers(network)[hidden]
    row: dict[str, Any] = {"after": [], "otherwise": []}
    for case in CASES:
        units = embed_weights(u, v, *_mixing(case, parameters, rng))
        wide = with_hidden_layer(network, hidden, *units)
        row["after"].append(_gradient(wide, x, y))
        row["otherwise"].append(_gradient(wide, x, other))
    # One more unit, with u_H = 0 and with v_H as large as that of the other units.
    u, v = np.asarray(u), np.asarray(v)
    way = rng.standard_normal((1, *v.shape[1:]))
    read = way * np.linalg.norm(v) / np.sqrt(len(v)) / np.linalg.norm(way)
    units = np.concatenate((u, 0 * u[:1])), np.concatenate((v, read))
    wide = with_hidden_layer(network, hidden, *units)
    return row | {"heard_after": _gradient(wide, x, y)}


def _mixing(
    case: str, parameters: Parameters, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return Γ_u and Γ_v of a case, drawn so that the case differs clearly from simpler ones."""
    added, units = parameters.width - parameters.units, parameters.units
    sizes = rng.uniform(0.4, 1.6, size=(2, added, units)) * rng.choice([-1, 1], (2, added, units))
    # Keep γ_u away from one, where a proportional unit would be an equal unit.
    sizes[0] += np.sign(sizes[0]) * (np.abs(sizes[0]) > 1) - 0.2 * np.sign(sizes[0])
    one = np.eye(units)[np.arange(added) % units]
    first, second = np.abs(sizes[0]) * one, sizes[1] * one
    return {
        "equal": (one, second),
        "zero": (0 * one, 0 * one),
        "proportional": (first, second),
        "linear": (sizes[0], sizes[1]),
        "negative": (-first, second),
    }[case]


@jax.jit
def _gradient(
    network: AbstractNetwork, x: Float[Array, "sample ..."], y: Float[Array, "sample output"]
) -> Float[Array, ""]:
    """Return |∂L/∂θ| over the given samples."""
    loss = lambda network: 0.5 * jnp.mean(jnp.sum((y - jax.vmap(network)(x)) ** 2, axis=1))
    return jnp.sqrt(sum(jnp.sum(slope**2) for slope in jax.tree.leaves(jax.grad(loss)(network))))


def _panels(seed: int) -> xr.Dataset:
    """Embed the lowest minimum of one unit by Eq. (5); return the gain by the added unit."""
    rng, rows = np.random.default_rng(seed), list[dict[str, Any]]()
    relu, quadratic = (networks.activation(name) for name in ("relu", "quadratic"))
    kernel: dict[str, Any] = {"size": 2, "stride": 2}
    teacher = tasks.linear_teacher(np.eye(2), np.array([[1.0, 1.0], [1.0, 4.0]]))
    minima: dict[str, tuple[Any, Any, tuple[int, ...]]] = {  # unit, task, shape of v's input
        "B": (networks.NeuronUnit(), teacher, ()),
        "C": (networks.ConvolutionUnit(**kernel), tasks.figure_1c_teacher(), (2,)),
        "D": (networks.NeuronUnit(relu), tasks.two_orthogonal_points(), ()),
        "E": (networks.ConvolutionUnit(relu, **kernel), tasks.figure_1e_points(), (2,)),
        "F": (networks.LinearAttentionUnit(), tasks.in_context_regression(2, 32), (3,)),
        "G": (networks.NeuronUnit(quadratic), tasks.quadratic_teacher(np.eye(2)), ()),
    }
    for unit, task, read_shape in minima.values():
        found = narrow_minima(unit, task, width=1, starts=12)
        u, v = found.network.lane(0).parts
        wide = networks.layer_from(unit, *embed_weights(u, v, np.zeros((1, 1)), np.zeros((1, 1))))
        row = {"gain": _gains(wide, task, rng), "order": unit.algebra.order}
        row["gradient"] = np.linalg.norm(losses_and_gradients(wide, task)[1])
        row["homogeneity_defect"] = unit_defects(unit, u.shape[1:], read_shape).positive
        rows.append(row)
    coords = {"panel": list(minima), "radius": list(_RADII)}
    return _table(rows, "panel", "radius").assign_coords(coords)


def _gains(wide: Layer, task: tasks.AbstractTask, rng: np.random.Generator) -> np.ndarray:
    """Return the largest decrease of the loss when only the added unit moves, by distance."""
    ways = [rng.standard_normal((_DIRECTIONS, *part[1].shape)) for part in wide.parts]
    size = np.linalg.norm(np.hstack([way.reshape(_DIRECTIONS, -1) for way in ways]), axis=1)
    parts = []
    for part, way in zip(wide.parts, ways, strict=True):
        unit = way / size.reshape(-1, *(1,) * (way.ndim - 1))
        moved = np.concatenate([radius * unit for radius in (*_RADII, 0.0)])
        parts.append(np.repeat(np.asarray(part)[None], len(moved), axis=0))
        parts[-1][:, 1] = moved
    losses = losses_and_gradients(wide.with_parts(*parts), task)[0].reshape(-1, _DIRECTIONS)
    return losses[-1, 0] - losses[:-1].min(axis=1)


def _section_e(parameters: Parameters, key: Any) -> dict[str, float]:
    """Return gradients after embedding by Eq. (7) away from a fixed point, to check signs."""
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    units, added = parameters.units, parameters.width - parameters.units
    network = networks.fully_connected(4, units, 3, scale=parameters.scale, key=key)
    x = rng.standard_normal((parameters.samples, 4))
    data = tasks.from_arrays(x, rng.standard_normal((parameters.samples, 3)))
    gamma = rng.standard_normal((2, 1, units))
    mixing = np.pad(gamma, ((0, 0), (0, added - 1), (0, 0)))
    wide = networks.layer_from(network.unit, *embed_weights(network.u, network.v, *mixing))
    speeds = lambda net: net.structure.arrays(-losses_and_gradients(net, data)[1][0])
    (u_before, v_before), (u_after, v_after) = speeds(network), speeds(wide)
    u_after = u_after[:units]
    # u̇_i = u̇*_i ∓ γ_ui Σ_j γ_vj u̇*_j, and −⟨φ(z; u_H)ᵀ ∂ℓ/∂ζ⟩ = Σ_i γ_ui v̇*_i
    term, drive = gamma[0, 0][:, None] * (gamma[1, 0] @ u_before), gamma[0, 0] @ v_before
    numbers = {
        "printed": u_after - (u_before + term),
        "corrected": u_after - (u_before - term),
        "size": u_after,
        "printed_v": wide.v[units] - drive,
        "corrected_v": v_after[units] - drive,
        "size_v": drive,
    }
    return {name: float(np.abs(each).max()) for name, each in numbers.items()}


@claims_from_source("Zhang, Saxe & Latham", "Theorem 1")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check that fixed points stay fixed points, that controls do not, and the corrected text."""
    table, minima, section_e = (run[name].ds for name in ("embeddings", "panels", "section_e"))
    for case, (equation, needs, *_) in CASES.items():
        kind = {"linear": "linear combinations", "negative": "proportional units with γ_u < 0"}
        one, words = table.sel(case=case), f"{equation} ({kind.get(case, f'{case} units')})"
        chosen, others = (one.isel(architecture=one["admitted"].values == a) for a in (True, False))
        # The gradient is not exactly zero, because the sum over samples is rounded.
        size = float(chosen["otherwise"].max())
        rounding = np.finfo(float).eps * np.sqrt(table.attrs["samples"]) * size
        within = max(1e-12, float(f"{_ROUNDINGS * rounding:.1e}"))
        note = f"with random signs of the errors the gradient is {size:.2g}; "
        note += ", ".join(chosen["architecture"].values)
        what = f"fixed points embedded by {words} stay fixed points in the wider network (|∂L/∂θ|)"
        fixed = max_error_below(chosen["after"], within=within)
        claim(f"{case}-embeddings", what, fixed, at=equation, note=note)
        if not needs or (case == "linear" and table.attrs["units"] == 1):
            continue  # always allowed; or a single unit, for which Eq. (7) is Eq. (6)
        # Small weights give small gradients. The gradients of an added zero unit are the mean
        # residuals of the outputs, which may be small by chance in one network.
        sizes = others["after"] / np.minimum(1.0, others["otherwise"])
        sizes = sizes.median("seed") if case == "zero" else sizes
        what = f"embedding by {words} gives no fixed point if φ lacks {needs} (|∂L/∂θ|)"
        note = ", ".join(others["architecture"].values)
        claim(f"{case}-needs", what, all_above(sizes, _CLEARLY), at=equation, note=note)
    # A unit with u_H = 0 adds φ(z; 0)v_H to the output of every sample. Its effect on the readout
    # v_i of the other units is ⟨φ(z; u_i)ᵀφ(z; 0)⟩v_H, which is not a mean of residuals.
    silent = table["admitted"].sel(case="zero").values
    words = (
        "if φ(z; 0) ≠ 0, an added unit with u_H = 0 and v_H as large as the others gives no fixed "
        "point (|∂L/∂θ|)"
    )
    heard = all_above(table["heard_after"].isel(architecture=~silent), _CLEARLY)
    claim("silent-unit-heard", words, heard, at="Eq. (5)")
    words = "width-1 minima of Figure 1's panels are fixed points of a wider network (|∂L/∂θ|)"
    fixed = max_error_below(minima["gradient"], within=1e-9)
    claim("narrow-minima", words, fixed, at="Section 3 and Eq. (5)")
    last = minima.isel(radius=slice(-2, None))
    claim(
        "saddles",
        f"the width-1 minima of Figure 1's panels {', '.join(minima['panel'].values)} are saddles "
        "of a wider network: a zero unit that moves by δ lowers the loss by δ^(1 + order of φ)",
        follows_power_law(last["radius"], last["gain"].T, 1.0 + minima["order"], within=0.01),
        at="Section 3",
        note="the best of random directions",
    )
    claim(
        "panels-of-few-units",
        "in Figure 1 only the units of panels F and G admit neither Eq. (6) nor Eq. (7); the "
        "saddles of these panels are those of Eq. (5), with few large units",
        equal_to(", ".join(minima["panel"].values[minima["homogeneity_defect"] > 1e-9]), "F, G"),
        at="Section 3",
        corrected="the text has 'panels (E,F)', but panel E also admits Eq. (6)",
    )
    for id, name, size, words, corrected in (
        ("printed-u", "", "size", "u̇_i is u̇*_i − γ_ui Σ_j γ_vj u̇*_j, where u̇*_i belongs to the "
         "narrow network", "the last line has a plus instead of the minus"),
        ("printed-v", "_v", "size_v", "the new unit has v̇_H = −⟨φ(z; u_H)ᵀ ∂ℓ/∂ζ⟩ = Σ_i γ_ui v̇*_i",
         "the text has v_H instead of v̇_H"),
    ):  # fmt: skip
        off = 100 * float((section_e[f"printed{name}"] / section_e[size]).median())
        claim(
            id,
            f"after embedding by Eq. (7) away from a fixed point, {words}",
            max_error_below(section_e[f"corrected{name}"], within=1e-12),
            at="Section E (iv)",
            corrected=corrected,
            note=f"the printed equation is off by {off:.3g} % in the median",
        )


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot the gradient for every architecture and embedding, and the way down from each saddle."""
    title = "Fixed points of a narrow network are saddles of a wider one"
    figure, (left, right) = panels(title, 2, width=5, height=4.8, width_ratios=(1.7, 1))
    table, minima = run["embeddings"].ds, run["panels"].ds
    rows, names = np.arange(table.sizes["architecture"]), table["architecture"].values
    offsets = np.linspace(-0.28, 0.28, len(CASES))
    for offset, (case, (*_, color, marker, label)) in zip(offsets, CASES.items(), strict=True):
        one = table.sel(case=case).transpose("architecture", ...)
        x = np.maximum(one["after"].values, 1e-17)
        y = np.broadcast_to(rows[:, None] + offset, x.shape)
        look: dict[str, Any] = {"marker": marker, "ls": "none", "color": color, "alpha": 0.7}
        for chosen, fill in ((one["admitted"].values, color), (~one["admitted"].values, "none")):
            left.plot(x[chosen].ravel(), y[chosen].ravel(), **look, ms=4, mfc=fill)
        left.plot([], [], **look, ms=4, label=label)
    left.axvspan(1e-18, 1e-12, color="0.93", zorder=0, label="zero up to rounding")
    left.hlines(rows[1:] - 0.5, 0, 1, transform=left.get_yaxis_transform(), color="0.9", lw=0.6)
    left.set_yticks(rows, names)
    left.tick_params(axis="y", length=0)
    left.set(xscale="log", xlim=(3e-18, 3e4), ylim=(len(names) - 0.5, -0.5))
    title = "filled: the architecture allows this embedding; open: it does not"
    xlabel = r"gradient $|\partial L/\partial\theta|$ in the wide network"
    label_axes(left, xlabel, "architecture", title, legend=None)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=6)
    radius = minima["radius"].values
    for index, gain in enumerate(minima["gain"].values):
        slope = np.diff(np.log(gain[-2:])) / np.diff(np.log(radius[-2:]))
        words = f"{_UNITS[minima['panel'].values[index]]}: {slope[0]:.2f}"
        right.loglog(radius, gain, **SIMULATION_STYLE, color=f"C{index}", alpha=0.5, label=words)
        power_law_guide(right, radius, gain[-1], 1 + int(minima["order"][index]))
    words = "distance $δ$ of the added unit from zero", "largest decrease of the loss"
    title, heading = "minima of one unit, with one unit added", "unit: exponent of $δ$"
    place: dict[str, Any] = {"legend": "beside", "legend_title": heading}
    label_axes(right, *words, title, theory="predicted power", **place)
    return figure
