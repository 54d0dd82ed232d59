"""Tests that every public result converts to a dataset and a table, prints and draws."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated

import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest
from jaxtyping import Float
from matplotlib.colors import to_hex

import festina
from festina import diagnose, networks, tasks
from festina._result import Result, _words
from festina.dynamics.posterior import infinite_width_limit, sample
from festina.theory import coding, decisions, gated, linear, saddles

TIMES = np.linspace(0.0, 5.0, 6)
RNG = np.random.default_rng(0)
X = np.linalg.qr(RNG.standard_normal((6, 2)))[0] * np.sqrt(6)
TASK = tasks.from_arrays(X, X @ np.diag([2.0, 1.0]))
LINEAR = networks.layer_from("linear", np.eye(3, 2) * 0.1, np.eye(3, 2) * 0.1)
SMALL = networks.layer_from("linear", *np.full((2, 2, 1, 1), 1e-3) * np.eye(3, 2))
GATED = networks.gated_from({"x-h": 0.1 * np.eye(2), "h-y": 0.1 * np.eye(2)})

CONTEXTS = np.repeat([0, 1], 4)
ACTIVITIES = np.eye(3)[np.arange(8) % 3] + 0.5 * CONTEXTS[:, None]

SHORT = {"anneal": 4, "burn": 4, "leapfrog": 2, "temperature": 0.1, "key": jax.random.key(0)}


def posterior():
    return sample(TASK, activation="relu", width=4, chains=2, moves=8, thin=1, **SHORT)


def two_layers(weights, x):
    return jax.nn.relu(x @ weights["w"]) @ weights["v"]


def stairs():
    steps = np.arange(3000.0)
    losses = 0.1 + sum(h / (1 + np.exp(0.04 * (steps - at))) for h, at in ((0.6, 800), (0.3, 2000)))
    return festina.own.from_checkpoints([0], losses, at=[0]).stairs()


def rectified(function="relu"):
    return networks.layer_from(function, np.eye(3, 2) + 0.1, np.eye(3, 2))


def trained(function="linear"):
    return festina.gradient_flow(rectified(function), TASK, TIMES)


def code():
    return coding.classification_code([4, 4, 4], temperature=0.01)


def learning():
    return decisions.mean_field_learning(
        decisions.ContrastChoiceLearner(), decisions.naive_animals(0.1, 0.01), TIMES
    )


def reduction():
    return gated.race_reduction(GATED, TASK)


def flow():
    return linear.balanced_flow(LINEAR, TASK)


def saddle():
    return networks.layer_from("linear", np.zeros((3, 2)), np.zeros((3, 2)))


EXAMPLES: dict[str, tuple[Callable[[], Result], dict[str, int], int | str]] = {
    "Modes": (lambda: linear.modes(TASK), {"output": 2, "mode": 2, "input": 2}, 4),
    "BalancedFlow": (flow, {"hidden": 3, "input": 2, "output": 2}, 6),
    "BalancedSolution": (lambda: flow()(TIMES), {"time": 6, "output": 2, "input": 2}, 6),
    "Curriculum": (
        lambda: linear.continual_learning(LINEAR, [TASK, TASK], [TIMES, TIMES]),
        {"time": 12, "task": 2, "trained": 2, "output": 2, "states_1_time": 6},
        12,
    ),
    "LearningRegime": (lambda: linear.learning_regime(flow()), {}, 1),
    "SaddleSequence": (
        lambda: linear.saddle_sequence(linear.modes(TASK), 1e-3),
        {"learned": 2, "stage": 3},
        2,
    ),
    "LinearSaddle": (
        lambda: saddles.linear_saddle(TASK, [0]),
        {"output": 2, "input": 2, "rate": 1},
        4,
    ),
    "Mechanism": (lambda: saddles.mechanism_of_unit("tanh"), {}, 1),
    "LowestOrderDrive": (lambda: saddles.lowest_order_drive("linear", TASK), {}, 1),
    "NarrowMinima": (lambda: saddles.narrow_minima("linear", TASK, starts=2), {"minimum": 1}, 1),
    "Staircase": (
        lambda: saddles.staircase(SMALL, TASK),
        {"batch": 2, "stage": 3, "jump": 2, "member": 2},
        6,
    ),
    "NeuronPopulation": (lambda: code().populations[0], {"output": 3, "group": 3}, 3),
    "ClassificationCode": (code, {"group": 3, "output": 3, "populations_0_output": 3}, 3),
    "LinearCode": (
        lambda: coding.linear_code(TASK),
        {"sample": 6, "input": 2, "output": 2},
        12,
    ),
    "Predictor": (
        lambda: coding.linear_code(TASK).predictor(X[:3], width=10),
        {"sample": 3, "output": 2},
        6,
    ),
    "BiasVariance": (
        lambda: coding.linear_code(TASK).predictor(X[:3], width=10).split(TASK.y[:3]),
        {},
        1,
    ),
    "TemperatureSweep": (
        lambda: coding.temperature_sweep([4, 4], "erf-sigmoid", temperatures=[0.1, 0.2]),
        {"temperature": 2, "codes_1_group": 2},
        2,
    ),
    "AnimalWeights": (
        lambda: decisions.naive_animals(0.1, 0.01),
        {"animal": 1, "line": 3, "action": 2},
        3,
    ),
    "DecisionLearning": (learning, {"animal": 1, "time": 6, "line": 3, "contrast": 5}, 18),
    "AsymptoticWeights": (
        lambda: decisions.asymptotic_weights(
            decisions.ContrastChoiceLearner(teaching="heterogeneous")
        ),
        {"action": 2, "line": 3},
        6,
    ),
    "StationaryPoint": (
        lambda: decisions.stationary_points(decisions.ContrastChoiceLearner())[0],
        {"action": 2, "line": 3, "contrast": 5},
        6,
    ),
    "SaddleVisits": (
        lambda: decisions.visited_saddles(
            learning(), decisions.stationary_points(decisions.ContrastChoiceLearner())
        ),
        {"animal": 1, "time": 6},
        6,
    ),
    "CommonModes": (
        lambda: reduction().groups[0],
        {"path": 1, "mode": 2},
        4,
    ),
    "ContextSpectrum": (lambda: gated.context_spectrum(4, 3, 2), {"mode": 4}, 4),
    "PathStatistics": (
        lambda: gated.path_statistics(GATED, TASK),
        {"sample": 2, "path": 1, "output": 2, "input": 2},
        2,
    ),
    "PathStrengths": (lambda: reduction()(TIMES), {"time": 6, "mode": 2}, 12),
    "Race": (
        lambda: gated.race_of_gatings(TASK, {"all": np.ones(6)}, only_self_consistent=False),
        {"gating": 1},
        1,
    ),
    "RaceReduction": (reduction, {"mode": 2}, 2),
    "CodingScheme": (
        lambda: diagnose.coding_scheme(np.tile(ACTIVITIES, 3), CONTEXTS, resamples=2),
        {"group": 2, "unit": 9},
        2,
    ),
    "Gating": (
        lambda: diagnose.gating(ACTIVITIES),
        {"unit": 3, "example": 8},
        24,
    ),
    "GateChanges": (
        lambda: diagnose.gate_changes(trained("relu"), TASK),
        {"save": 6, "example": 6, "unit": 3},
        6,
    ),
    "MdsResult": (
        lambda: diagnose.classical_mds(points=RNG.standard_normal((5, 4, 3))),
        {"time": 5, "item": 4, "dimension": 2},
        40,
    ),
    "Plateaus": (lambda: diagnose.plateaus(trained()), {"plateau": 2, "fall": 1, "rise": 0}, 2),
    "UnitClusters": (
        lambda: diagnose.unit_clusters_from(SMALL.u[0], SMALL.v[0]),
        {"ray": 2, "input": 2},
        4,
    ),
    "Selectivity": (
        lambda: diagnose.selectivity(
            ACTIVITIES, objects=np.arange(8) % 2, contexts=CONTEXTS, random=10
        ),
        {"contexts_and_none": 3, "random_contexts_and_none": 3},
        3,
    ),
    "LayerNonlinearity": (
        lambda: diagnose.layer_nonlinearity(rectified(), TASK),
        {"layer": 1},
        1,
    ),
    "Trajectory": (trained, {"time": 6, "unit": 3, "input": 2, "output": 2}, 6),
    "Posterior": (posterior, {"chain": 2, "draw": 8, "sample": 6, "output": 2}, 16),
    "Populations": (lambda: posterior().populations, {"chain": 2}, 4),
    "Diagnostics": (lambda: posterior().diagnostics(), {"populations_chain": 2}, 4),
    "InfiniteWidthLimit": (
        lambda: infinite_width_limit(TASK, widths=(3, 4), chains=2, **SHORT),
        {"sample": 6, "output": 2, "drawn_1_chain": 2},
        12,
    ),
    "ShrinkResult": (
        lambda: festina.shrink(
            {"w": np.eye(2), "v": np.eye(2)}, np.tile(X, (9, 1)), apply=two_layers, tune=False
        ),
        {},
        1,
    ),
    "Forecast": (
        lambda: festina.forecast(
            {"w": 0.1 * np.eye(2), "v": 0.1 * np.eye(2)},
            lambda weights, x, y: ((two_layers(weights, x) - y) ** 2).mean(),
            festina.own.SGD(lr=0.05),
            (X, TASK.y),
        ),
        {},
        "course_time",
    ),
    "Stairs": (stairs, {"stair": 3}, 3),
    "EffectiveWidth": (lambda: diagnose.effective_width(LINEAR, TASK), {"units": 4}, 4),
    "World": (lambda: tasks.worlds.ring(5), {"item": 5, "item_too": 5, "side": 2}, 25),
    "EscapeDirections": (lambda: saddles.escape_directions(saddle(), TASK), {"direction": 6}, 6),
}
"""By class name: a function that makes a result, the sizes of its dataset, and the number of rows
of its table (or the dimension that counts them)."""

PACKAGES = "diagnose", "dynamics", "own", "tasks", "theory"
IMAGES = ("CodingScheme", "Gating")
LABELS = {
    "TemperatureSweep": ("theory", "crossover"),
    "Plateaus": ("plateaus", "drops"),
    "Selectivity": ("units", "random features"),
}
"""Labels of the two kinds of lines in one figure, by class name."""


@pytest.fixture(params=EXAMPLES, scope="module")
def row(request):
    make, sizes, rows = EXAMPLES[request.param]
    found = make()
    assert type(found).__name__ == request.param
    return found, sizes, rows


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_a_data_set_has_named_dimensions(row):
    found, sizes, _ = row
    data = found.to_dataset()
    assert sizes.items() <= dict(data.sizes).items()
    assert data.variables
    assert all(str(dim).isidentifier() for dim in data.dims)


def test_a_table_has_a_row_for_each_place(row):
    found, _, rows = row
    table = found.to_dataframe()
    assert len(table) == (found.to_dataset().sizes[rows] if isinstance(rows, str) else rows)
    assert len(table.columns) > 0


def test_it_is_shown_in_one_line(row):
    found, *_ = row
    said = repr(found)
    assert said.startswith(f"{type(found).__name__}(")
    assert "\n" not in said
    assert len(said) < 250


def test_a_notebook_shows_a_table(row):
    found, *_ = row
    shown = found._repr_html_()
    assert shown.startswith("<table>")
    assert shown.endswith("</table>")
    assert shown.count("<tr>") == len([*found._parts()])


def test_it_is_drawn_where_and_as_asked(row, ax):
    found, *_ = row
    if type(found).__name__ in IMAGES:
        assert found.draw(ax, alpha=0.5) is ax
        assert ax.images[0].get_alpha() == 0.5
        return
    assert found.draw(ax, color="red") is ax
    colours = [line.get_color() for line in ax.lines]
    colours += [patch.get_facecolor() for patch in ax.patches]
    colours += [patch.get_edgecolor() for patch in ax.patches]
    for each in ax.collections:
        colours += [*each.get_facecolor(), *each.get_edgecolor()]
    assert to_hex("red") in map(to_hex, colours)
    labels = ax.get_legend_handles_labels()[1]
    assert labels
    assert {*LABELS.get(type(found).__name__, ())} <= {*labels}
    assert ax.get_xlabel() or not found.to_dataset().sizes


def test_it_makes_axes_of_its_own(row):
    found, *_ = row
    ax = found.draw()
    assert ax.lines or ax.patches or ax.collections or ax.images
    plt.close(ax.figure)


@dataclass(frozen=True, eq=False, repr=False)
class Odd(Result):
    """Result with dimensions written in every possible way."""

    level: Float[np.ndarray, "*batch level"]
    spread: Float[np.ndarray, "*batch #level"]
    square: Float[np.ndarray, "level level"] = field(
        metadata={"units": "s", "long_name": "squares", "static": True}
    )
    sums: Float[np.ndarray, "level level+1 2 _ _hidden rows=4"]
    rest: Float[np.ndarray, "level ..."]
    names: Annotated[tuple[str, ...], "rank"]
    parts: tuple[Float[np.ndarray, "_row level"], ...]
    method: str
    inner: "Odd | None" = None
    missing: Float[np.ndarray, " level"] | None = None
    _own: int = 0


def public_classes():
    for module in pkgutil.walk_packages(festina.__path__, "festina."):
        hidden = any(part.startswith("_") for part in module.name.split("."))
        if not hidden and module.name.split(".")[1] in PACKAGES:
            package = importlib.import_module(module.name)
            yield from (getattr(package, name) for name in dir(package) if name[0] != "_")


def test_no_public_result_is_missing():
    classes = {each for each in public_classes() if inspect.isclass(each)}
    given = networks.AbstractNetwork, networks.WidthScaledNetwork, tasks.AbstractTask
    results = {each for each in classes if issubclass(each, Result)}
    assert {each.__name__ for each in results} == {*EXAMPLES}
    for each in classes - results:
        if is_dataclass(each) and not issubclass(each, given):
            assert not any(_words(field.type) for field in fields(each)), each


def odd(*batch: int, inner: Odd | None = None) -> Odd:
    return Odd(
        level=np.zeros((*batch, 3)),
        spread=np.zeros((*batch, 1)),
        square=np.zeros((3, 3)),
        sums=np.zeros((3, 4, 2, 5, 6, 4)),
        rest=np.zeros((3, 7, 8)),
        names=("a", "b", "c"),
        parts=(np.zeros((2, 3)), np.zeros((4, 3))),
        method="by hand",
        inner=inner,
    )


def test_dimensions_are_those_of_annotations():
    data = odd(9).to_dataset()
    assert {name: each.dims for name, each in data.variables.items()} == {
        "level": ("batch", "level"),
        "spread": ("batch", "spread_level"),
        "square": ("level", "level_too"),
        "sums": ("level", "sums_1", "sums_2", "sums_3", "hidden", "rows"),
        "rest": ("level", "rest_1", "rest_2"),
        "rank": ("rank",),
        "parts_0": ("row", "level"),
        "parts_1": ("parts_1_row", "level"),
    }
    assert data.attrs == {"method": "by hand"}
    assert data["square"].attrs == {"units": "s", "long_name": "squares"}
    assert odd().to_dataset()["level"].dims == ("level",)
    assert odd(2, 9).to_dataset()["level"].dims == ("batch_0", "batch_1", "level")


def test_what_is_nested_has_the_name_of_its_field():
    data = odd(9, inner=odd(2)).to_dataset()
    assert data["inner_level"].dims == ("inner_batch", "inner_level")
    assert data.attrs == {"method": "by hand", "inner_method": "by hand"}


def test_a_table_is_long_along_dimensions_that_are_asked_for():
    table = odd(2).to_dataframe("level", "level_too")
    assert [*table.columns] == ["level", "level_too", "square"]
    assert len(table) == 9


@pytest.mark.parametrize("array", [np.ndarray, Float[np.ndarray, "_ _"], Float[np.ndarray, "..."]])
def test_an_array_without_names_is_refused(array):
    with pytest.raises(TypeError, match=r"`Bare\.values` is an array without named dimensions"):
        type("Bare", (Result,), {"__annotations__": {"values": dict[str, array] | None}})
