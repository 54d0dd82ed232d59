"""Theorem 3: relations between units that training conserves, and equivalent narrower networks.

Networks of every kind start on an invariant manifold and are trained by gradient descent. At every
recorded step the networks are reduced to fewer units (F.3). Control networks start with relations
that their activation φ does not conserve. Two conserved manifolds are not listed in the theorem:
mirrored units of even φ, and opposite units of odd φ.
"""

from typing import Any, Literal, NamedTuple, get_args

import jax
import numpy as np
import xarray as xr
from matplotlib.figure import Figure
from pydantic import Field

from ...._types import Keys
from ....dynamics import gradient_descent
from ....experiments._frame import Progress, Tables, make_run
from ....experiments._keys import Key, keys_from_parameters
from ....experiments._parameters import Parameters as BaseParameters
from ....experiments.claims import ClaimCollector, all_above, claims_from_source, max_error_below
from ....experiments.figures import (
    POINT_STYLE,
    SIMULATION_STYLE,
    THEORY_STYLE,
    label_axes,
    panels,
    styled,
)
from ....networks import Layer, attention, convolutional_1d, fully_connected
from ....tasks import Task, from_arrays
from ....theory import saddles
from ....theory.saddles import ManifoldConstraint, manifold_distance, reduce_width

Architecture = Literal[
    "tanh", "relu", "convolutional relu", "linear", "quadratic", "linear attention",
    "softmax attention",
]  # fmt: skip
ARCHITECTURES: tuple[Architecture, ...] = get_args(Architecture)


class Case(NamedTuple):
    """Relation between the units of one architecture.

    `group` is one of: the condition of Theorem 3; the parity of φ, for a manifold that the theorem
    does not list; `"control"`, for a relation that training does not conserve. `learns_alike` says
    whether the reduced network is trained as well.
    """

    architecture: Architecture
    words: str
    constraint: ManifoldConstraint
    group: str
    learns_alike: bool = False

    @property
    def name(self) -> str:
        return f"{self.architecture}: {self.words}"


_EQUAL, _ZERO = ManifoldConstraint("equal", 1, (0,)), ManifoldConstraint("zero", 3)
_MIRRORED = ManifoldConstraint("mirrored", 1, (0,))
_AHEAD, _BACK, _OPPOSITE = (
    ManifoldConstraint("proportional", 1, (0,), (g,)) for g in (1.7, -0.8, -1.0)
)
_COMBINED = ManifoldConstraint("linear", 2, (0, 1, 3), (0.5, -1.2, 0.3))
CASES = (
    Case("tanh", "equal", _EQUAL, "(i)"),
    Case("tanh", "zero", _ZERO, "(ii)"),
    Case("tanh", "opposite", _OPPOSITE, "odd"),
    Case("tanh", "proportional", _AHEAD, "control"),
    Case("relu", "equal", _EQUAL, "(i)"),
    Case("relu", "proportional", _AHEAD, "(iii)", learns_alike=True),
    Case("relu", "γ < 0", _BACK, "control"),
    Case("relu", "combination", _COMBINED, "control"),
    Case("convolutional relu", "proportional", _AHEAD, "(iii)"),
    Case("linear", "proportional", _BACK, "(iii)"),
    Case("linear", "combination", _COMBINED, "(iv)", learns_alike=True),
    Case("quadratic", "zero", _ZERO, "(ii)"),
    Case("quadratic", "mirrored", _MIRRORED, "even"),
    Case("quadratic", "proportional", _AHEAD, "control"),
    Case("linear attention", "zero", _ZERO, "(ii)"),
    Case("linear attention", "mirrored", _MIRRORED, "even"),
    Case("softmax attention", "equal", _EQUAL, "(i)"),
    Case("softmax attention", "mirrored", _MIRRORED, "even"),
)
_KEPT = {
    "(i)": ("equal-units", "equal units stay equal"),
    "(ii)": ("silent-units", "units with zero weights keep zero weights"),
    "(iii)": ("proportional-units", "proportional units of homogeneous φ stay proportional"),
    "(iv)": ("dependent-units", "linearly dependent units of linear φ stay linearly dependent"),
    "even": ("mirrored-units", "mirrored units, u_i = −u_j and v_i = v_j, of even φ stay mirrored"),
    "odd": ("opposite-units", "opposite units, θ_i = −θ_j, of odd φ stay opposite"),
}
_MOMENTS = 50  # number of records of distances and errors during training
_ROUNDING, _CLEARLY = 1e-10, 1e-2


class Parameters(BaseParameters):
    """Parameters of Theorem 3 (paper: Section 4 and Appendix F, without simulations)."""

    seeds: int = Field(default=4, ge=1)
    """Number of networks that are trained from each relation."""

    width: int = Field(default=4, ge=4)
    """Number H of hidden units."""

    samples: int = Field(default=20, ge=8)
    """Number of samples in the data set of random inputs and targets."""

    scale: float = Field(default=0.7, ge=0.3, le=2)
    """Standard deviation of the initial weights."""

    architectures: tuple[Architecture, ...] = Field(default=ARCHITECTURES, min_length=1)
    """Architectures that are trained."""

    learning_rate: float = Field(default=0.02, gt=0, le=0.05)
    """Learning rate of gradient descent on ½⟨|y − f|²⟩."""

    steps: int = Field(default=2000, ge=100)
    """Number of training steps."""

    def _check(self) -> None:
        if self.steps * self.learning_rate < 5:
            raise ValueError(
                "`steps` times `learning_rate` must be at least 5, because control networks need "
                "time to leave the relation from which they start, got "
                f"{self.steps * self.learning_rate:g}."
            )


QUICK: dict[str, Any] = {"seeds": 2, "steps": 500}


@make_run("saddles/theorem-3")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Train networks that start with each relation between units, and measure the drift."""
    keys, rng = keys_from_parameters(parameters, key), np.random.default_rng(parameters.seed)
    tables, kinds = list[xr.Dataset](), parameters.architectures
    for index, kind in enumerate(kinds):
        progress(f"training {kind}", index / len(kinds))
        cases = [case for case in CASES if case.architecture == kind]
        tables.append(_train(parameters, *_setting(parameters, kind, keys, rng), cases))
    drift = xr.concat(tables, "case", join="outer")
    drift.coords["seed"] = (0 if key is not None else parameters.seed) + np.arange(parameters.seeds)
    network, _ = _setting(parameters, "linear", keys, rng)
    return {"drift": drift, "embedding": _embedding(network, rng)}


def _setting(
    parameters: Parameters, kind: Architecture, keys: Keys, rng: np.random.Generator
) -> tuple[Layer, Task]:
    """Return networks of one architecture, and random data."""
    size: dict[str, Any] = {"scale": parameters.scale, "key": keys}
    if kind in ("linear attention", "softmax attention"):
        network = attention(2, parameters.width, softmax=kind == "softmax attention", **size)
        x = rng.normal(size=(parameters.samples, 3, 4))
    elif kind == "convolutional relu":
        network = convolutional_1d(4, parameters.width, activation="relu", **size)
        x = rng.normal(size=(parameters.samples, 4))
    else:
        network = fully_connected(2, parameters.width, activation=kind, **size)
        x = rng.normal(size=(parameters.samples, 2))
    return network, from_arrays(x, rng.normal(size=parameters.samples))


def _train(parameters: Parameters, network: Layer, data: Task, cases: list[Case]) -> xr.Dataset:
    """Return the distance from the relation, and errors of the reduced networks."""
    count, relations = len(cases), [case.constraint for case in cases]
    start = [saddles.project_on_manifold(network, relation) for relation in relations]
    alike = [index for index, case in enumerate(cases) if case.learns_alike]
    # Padding a narrow network with zero units, which stay zero, avoids compiling a new program.
    narrow = [
        _padded(reduce_width(start[index], relations[index], same_flow=even), network)
        for index in alike
        for even in (False, True)
    ]
    networks = _stacked([*start, *narrow])
    # Mini-batches of all samples: training then takes every step, even after convergence.
    rate, steps, every = parameters.learning_rate, parameters.steps, parameters.steps // _MOMENTS
    shuffle, whole = jax.random.key(parameters.seed), parameters.samples
    trained = gradient_descent(
        networks, data, rate, steps, batch_size=whole, save_every=every, key=shuffle
    )
    if any(ending.reason == "diverged" for ending in trained.endings):
        raise ValueError(
            f"Training of {cases[0].architecture} diverged at `learning_rate` {rate:g}: use a "
            "smaller `learning_rate` or a smaller `scale`."
        )
    # Networks of every case, with axes (seed, moment).
    lanes = [network.with_parts(*parts) for parts in zip(*trained.network.parts, strict=True)]
    wide = list(zip(lanes[:count], relations, strict=True))
    distance = np.array([manifold_distance(*each) / _size(each[0]) for each in wide])
    reduced = [_padded(reduce_width(*each), each[0]) for each in wide]
    f = _stacked([*lanes, *reduced]).predict(data.x)[..., 0]
    rms = lambda f: np.sqrt(np.mean(f**2, axis=-1)) / np.sqrt(np.mean(data.y**2))
    flow = np.full((count, 2, parameters.seeds), np.nan)
    ends = f[count:-count, :, -1].reshape(len(alike), 2, *f[0, :, -1].shape)
    flow[alike] = rms(ends - f[alike][:, None, :, -1])
    table: dict[str, Any] = {
        "distance": (("case", "seed", "moment"), distance),
        "reduction_error": (("case", "seed", "moment"), rms(f[-count:] - f[:count])),
        "flow_error": (("case", "form", "seed"), flow),
    }
    coords = {"step": ("moment", trained.time[0, 0]), "form": ["F.3", "even"]}
    return xr.Dataset(table, coords | {"case": [case.name for case in cases]})


def _size(network: Layer) -> np.ndarray:
    """Return |θ| of every network of a batch."""
    axes = lambda part: tuple(range(len(network.batch_shape), part.ndim))
    return np.sqrt(sum(np.sum(np.square(part), axis=axes(part)) for part in network.parts))


def _embedding(network: Layer, rng: np.random.Generator) -> xr.Dataset:
    """Return the distance of embeddings by Eqs. (6) and (7) from a manifold (F.4), by γ_v."""
    width, factors = network.width, np.linspace(0.0, 2.0, 21)
    one, several = rng.normal(), rng.normal(size=(1, width)) / np.sqrt(width)
    units = tuple(range(width))
    kinds: dict[Any, Any] = {
        "proportional": (one, 0, ManifoldConstraint("proportional", width, (0,), (one,))),
        "linear": (
            several,
            None,
            ManifoldConstraint("linear", width, units, tuple(several[0].tolist())),
        ),
    }
    distance = np.empty((len(kinds), len(factors)))
    for row, (kind, (gamma, parent, constraint)) in zip(distance, kinds.items(), strict=True):
        for index, factor in enumerate(factors):
            readout = factor * saddles.gamma_v_on_manifold(gamma)
            wider = saddles.embed_units(
                network, width + 1, kind, gamma_u=gamma, gamma_v=readout, parent=parent
            )
            row[index] = manifold_distance(wider, constraint).max()
    coords = {"kind": list(kinds), "factor": factors}
    return xr.Dataset({"distance": (("kind", "factor"), distance)}, coords)


def _padded(narrow: Layer, like: Layer) -> Layer:
    """Pad a network with zero units to the width of another network."""
    batch, missing = len(narrow.batch_shape), (0, like.width - narrow.width)
    pad = lambda part: [missing if axis == batch else (0, 0) for axis in range(part.ndim)]
    return narrow.with_parts(*(np.pad(part, pad(part)) for part in narrow.parts))


def _stacked(networks: list[Layer]) -> Layer:
    parts = zip(*(network.parts for network in networks), strict=True)
    return networks[0].with_parts(*(np.stack(part) for part in parts))


@claims_from_source("Zhang, Saxe & Latham", "Theorem 3")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check conserved relations, controls, and the outputs and learning of narrower networks."""
    drift, embedding, at = run["drift"].ds, run["embedding"].ds, "F.4, Eqs. (29) to (31)"
    furthest, error = drift["distance"].max("moment"), drift["reduction_error"].max("moment")
    cases = _cases(drift)
    for group, (id, words) in _KEPT.items():
        if names := [case.name for case in cases if case.group == group]:
            listed = group.startswith("(")
            new = "" if listed else "the statement holds on a manifold that Theorem 3 does not list"
            away, off = (
                max_error_below(each.sel(case=names), within=_ROUNDING)
                for each in (furthest, error)
            )
            where, note = f"Theorem 3{group * listed}", ", ".join(names)
            what = f"{words} during training (distance from the relation over |θ|)"
            claim(f"{id}-stay", what, away, at=where, corrected=new, note=note)
            what = f"{words}: one unit less can compute the same function (error over ⟨y²⟩^½)"
            claim(f"{id}-reduce", what, off, at=f"F.3{group * listed}", corrected=new)
    for case in cases:
        if case.group == "control":
            far = all_above(furthest.sel(case=case.name).median(), _CLEARLY)
            id = f"control-{case.architecture}-{case.constraint.kind}"
            words = (
                f"control: training does not conserve the relation '{case.words}' between units of "
                f"{case.architecture} networks (median distance)"
            )
            claim(id, words, far, at="F.2")
    if names := [case.name for case in cases if case.learns_alike]:
        final = drift["flow_error"].sel(case=names)
        claim(
            "learns-alike",
            "a reduced network, trained further, learns the same function at the same speed",
            max_error_below(final.sel(form="even"), within=1e-8),
            at="F.3",
            corrected="the statement holds if the factor is split evenly between both layers",
            note="with the whole factor in v, as in F.3, the error is "
            f"{float(final.sel(form='F.3').max()):.2g}",
        )
    here = np.isclose(embedding["factor"], 1)
    for kind, distance in zip(embedding["kind"].values, embedding["distance"].values, strict=True):
        words = f"{kind} embeddings with γ_v = γ_u/(1 + |γ_u|²) lie on the invariant manifold"
        claim(f"{kind}-embeddings", words, max_error_below(distance[here], within=_ROUNDING), at=at)
        words = (
            f"{kind} embeddings with another multiple of γ_v = γ_u/(1 + |γ_u|²) lie off the "
            "invariant manifold (distance)"
        )
        claim(f"{kind}-other-embeddings", words, all_above(distance[~here], 0.1 * _CLEARLY), at=at)


def _cases(drift: xr.Dataset) -> list[Case]:
    """Return the cases that a run contains, in their order."""
    return [case for case in CASES if case.name in drift["case"].values]


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot the distance from the manifold over training, and errors with one unit less."""
    drift, floor = run["drift"].ds, 1e-17  # the value at which exact zeros are drawn
    title = "Related units stay related, and one of them can be removed"
    figure, (left, right) = panels(title, 2, width=4.5, height=4.2, width_ratios=(1, 1.15))
    colours = {"(": "#0072B2", "e": "#009E73", "o": "#009E73", "c": "#D55E00"}
    for group, words in (
        ("c", "controls: not conserved"),
        ("e", "also conserved: even or odd φ"),
        ("(", "conserved according to Theorem 3"),
    ):
        left.plot([], [], **SIMULATION_STYLE, color=colours[group], alpha=0.6, label=words)
    cases = _cases(drift)[::-1]
    for row, case in enumerate(cases):
        one, color = drift.sel(case=case.name), colours[case.group[0]]
        lines = np.maximum(one["distance"].max("seed"), floor)
        left.plot(drift["step"], lines, **SIMULATION_STYLE, color=color, alpha=0.45)
        dots = np.maximum(one["reduction_error"].max("moment"), floor)
        right.plot(dots, np.full(dots.size, row), **POINT_STYLE | {"ms": 6}, color=color, alpha=0.5)
    left.axhline(_ROUNDING, **THEORY_STYLE, label="below: counts as zero")
    right.axvline(_ROUNDING, **THEORY_STYLE)
    end = drift["step"].values[-1]
    left.text(end, 1.6 * floor, "exactly zero", ha="right", size=8, color="0.3")
    left.set(yscale="log", ylim=(0.3 * floor, 30))
    right.set(xscale="log", xlim=(0.3 * floor, 30))
    left.legend(loc="center right", bbox_to_anchor=(1.0, 0.66))
    right.set_yticks(range(len(cases)), [case.name.replace("relu", "ReLU") for case in cases])
    right.tick_params(axis="y", labelsize=7.5, length=0)
    right.grid(axis="y", color="0.93", lw=0.8)
    right.set_axisbelow(True)
    words = "gradient descent step", "distance from the manifold / |θ|"
    label_axes(left, *words, "distance while training (largest over seeds)", legend=None)
    words = "error after one unit is removed / ⟨y²⟩$^{1/2}$", "architecture: relation"
    label_axes(right, *words, "error with one unit less\n(dots: seeds, largest over steps)")
    return figure
