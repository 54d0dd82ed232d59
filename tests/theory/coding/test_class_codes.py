"""Test codes of classes against reference numbers of the toy task."""

import numpy as np
import pytest

from festina import diagnose
from festina.theory.coding import (
    classification_code,
    crossover_temperature,
    targets_per_class,
    temperature_sweep,
)
from planted_codes import labels_of, pull_of, pulled

# P = 60, three equal classes, σ_a² = 1/60, T = 0.01. Columns: K within a class, between classes, of
# one example; U; f.
TOY = {
    ("linear", 0.0): (1.6777, 0, 2.6777, 0.5759, 0, 0.9829, 0),
    ("linear", -0.5): (1.6957, -0.8478, 2.6957, 0.5819, -0.2826, 0.9886, -0.4943),
    ("erf", 0.0): (0.7073, 0, 0.7455, 1.3146, 0, 0.9594, 0),
    ("erf", -0.5): (0.7034, -0.2708, 0.7471, 1.4627, -0.723, 0.9702, -0.4851),
    ("erf-sigmoid", 0.0): (0.5844, 0.3152, 0.5892, 2.2811, -0.740, 0.9252, 0.0254),
    ("erf-sigmoid", -0.5): (0.4714, 0.1725, 0.4728, 4.160, -2.072, 0.9088, -0.4544),
    ("relu", 0.0): (1.7798, 0.2744, 2.2371, 0.5745, -0.0716, 0.9830, 0.0022),
    ("relu", -0.5): (2.2406, 0.1670, 2.5961, 0.7137, -0.349, 0.9859, -0.4929),
}
# Values of the mean readouts of branches, and the number of branches
BRANCHES = {
    ("erf", 0.0): ([-1.1373, 1.1373], 8),
    ("erf", -0.5): ([-1.698, -0.849, 0.849, 1.698], 6),
    ("erf-sigmoid", 0.0): ([-1.489, 1.511], 3),
    ("erf-sigmoid", -0.5): ([-2.878, -1.439, 1.439, 2.878], 6),
}


@pytest.fixture(scope="module")
def toy():
    known = {}

    def solved(activation, other):
        if (activation, other) not in known:
            targets = targets_per_class(3, other=other)
            known[activation, other] = classification_code([20] * 3, activation, targets=targets)
        return known[activation, other]

    return solved


@pytest.mark.parametrize(("activation", "other"), TOY)
def test_the_toy_task_has_the_stored_numbers(toy, activation, other):
    code = toy(activation, other)
    found = [*code.kernel[0, :2], code.kernel_diagonal[0], *code.readout_moment[0, :2]]
    np.testing.assert_allclose(
        [*found, *code.outputs[0, :2]], TOY[activation, other], rtol=0, atol=6e-4
    )
    same = np.linalg.eigvalsh(code.gram())  # the P × P matrix is a positive definite kernel
    assert len(same) == 60
    assert same[0] > 0
    assert code.scheme == {"linear": "analog", "relu": "sparse"}.get(activation, "redundant")
    assert f"{code.scheme} code" in str(code)


@pytest.mark.parametrize(("activation", "other"), BRANCHES)
def test_branches_of_the_toy_task(toy, activation, other):
    code, (values, count) = toy(activation, other), BRANCHES[activation, other]
    full = [group for group in code.populations if group.share > 1e-3]
    np.testing.assert_allclose([b.share for b in full], 1 / count, atol=1e-3)
    readouts = np.stack([group.readout for group in full])
    apart = np.abs(readouts[:, :, None] - np.array(values)).min(axis=2)
    assert apart.max() < 1e-3
    assert len({group.word for group in full}) == count


def test_words_of_a_sigmoid_are_all_but_one_class(toy):
    full = [b for b in toy("erf-sigmoid", 0.0).populations if b.share > 1e-3]
    assert {b.word for b in full} == {"110", "101", "011"}
    for group in full:
        on = np.array([letter == "1" for letter in group.word])
        np.testing.assert_allclose(group.activity, np.where(on, 0.936, 0.037), atol=1e-3)
        np.testing.assert_allclose(group.readout, np.where(on, 1.511, -1.489), atol=1e-3)


@pytest.mark.parametrize(
    ("activation", "column", "rows"),
    [
        (
            "erf-sigmoid",
            lambda code: code.kernel[0, 0] - code.kernel[0, 1],
            {0.003: 0.2758, 0.03: 0.2488, 0.06: 0.2128, 0.1: 0.1537, 0.15: 0.0649, 0.2: 0.0144}
            | {0.3: 0.0029, 0.5: 0.0008},
        ),
        (
            "relu",
            lambda code: code.kernel[0, 0],
            {0.003: 1.8008, 0.03: 1.7198, 0.1: 1.5098, 0.2: 1.2098, 0.3: 0.9098},
        ),
        (
            "linear",
            lambda code: code.outputs[0, 0],
            {0.1: 0.8298, 0.2: 0.6611, 0.3: 0.4953, 0.5: 0.1955},
        ),
    ],
)
def test_rows_of_temperature(activation, column, rows):
    sweep = temperature_sweep([20] * 3, activation, temperatures=list(rows))
    found = [column(code) for code in sweep.codes]
    np.testing.assert_allclose(found, list(rows.values()), atol=2e-4)
    if activation == "erf-sigmoid":
        full = dict(zip(rows, sweep.populated, strict=True))
        assert [full[t] for t in (0.003, 0.15, 0.2, 0.5)] == [3, 3, 1, 1]


@pytest.mark.parametrize(
    ("activation", "near"), [("linear", 0.577), ("erf", 0.374), ("erf-sigmoid", 0.187)]
)
def test_crossovers(activation, near):
    assert crossover_temperature([20] * 3, activation) == pytest.approx(near, abs=1e-3)
    wider = crossover_temperature([20] * 3, activation, targets=targets_per_class(3, other=-0.5))
    assert wider == pytest.approx(1.5 * near, abs=2e-3)


def test_erf_has_eight_branches_below_its_crossover_and_one_above():
    sweep = temperature_sweep([20] * 3, "erf", temperatures=[0.3, 0.5])
    assert sweep.populated.tolist() == [8, 1]
    assert sweep.codes[1].scheme == "none"


# Sizes, activation, temperature, targets; the last two classes of a row may share a target
CASES = [
    ([20, 20], "erf", 0.01, [[1.0], [0.0]]),
    ([20, 20, 20], "erf-sigmoid", 0.01, [[1.0], [0.5], [0.0]]),
    ([60, 9], "erf", 0.02, [[0.0], [1.0]]),
    ([12] * 8, "erf", 0.02, [[1.0]] + 7 * [[0.0]]),
    ([15, 15, 15], "erf-sigmoid", 0.02, [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]]),
    ([20, 20, 20], "linear", 50.0, None),
    ([20, 20, 20], "linear", 0.3, None),
    ([25, 25], "linear", 0.05, [[1.0], [0.0]]),
    ([20, 20, 20], "relu", 0.02, None),
    ([20, 20, 20], "erf", 0.8, None),
    ([20, 20], "erf", 0.01, [[1.0], [1.0]]),
    ([20, 20], "erf-sigmoid", 0.01, [[1.0], [1.0]]),
]


@pytest.mark.parametrize(("sizes", "activation", "temperature", "targets"), CASES)
def test_the_scheme_is_the_code_of_neurons_drawn_from_the_law(
    sizes, activation, temperature, targets
):
    """`diagnose.coding_scheme` sees only responses of drawn neurons and their labels."""
    rng = np.random.default_rng(0)
    code = classification_code(sizes, activation, temperature=temperature, targets=targets)
    which, width = labels_of(sizes), 600
    if activation == "linear":
        a = rng.multivariate_normal(np.zeros(len(code.readout_moment)), code.readout_moment, width)
        h = (a @ code.dual.T).T[which] + rng.standard_normal((sum(sizes), width))
    else:
        h = pulled(activation, pull_of(code, width, rng), sizes, rng)
    for c in np.flatnonzero(code.condensed):
        own = np.sqrt(width * code.condensed[c]) + rng.standard_normal(sum(sizes))
        h[:, c] = np.maximum(own, 0) * (which == c)
    assert diagnose.coding_scheme(h, which, resamples=1).verdict == code.scheme
    # Separation of pairs of classes by drawn neurons
    means = np.stack([h[which == c].mean(axis=0) for c in range(len(sizes))])
    noise = np.array([h[which == c].var(axis=0, ddof=1).mean() for c in range(len(sizes))])
    apart = ((means[:, None] - means) ** 2).mean(axis=2)
    apart -= noise[:, None] / np.array(sizes)[:, None] + noise / np.array(sizes)
    np.fill_diagonal(apart, 0.0)
    seen = (apart / (apart + noise[:, None] + noise)).max()
    assert code.separation == pytest.approx(seen, abs=0.05)


@pytest.mark.parametrize("activation", ["linear", "erf", "relu"])
def test_one_class_is_told_from_nothing(activation):
    code = classification_code([20], activation, temperature=2.0 if activation == "relu" else 0.01)
    assert (code.scheme, code.separation) == ("none", 0.0)
    assert "no code" in str(code)


def test_a_sweep_melts_from_words_to_degrees_to_nothing():
    temperatures = [0.05, 0.15, 0.2, 0.5]
    sweep = temperature_sweep([20, 20], "erf", temperatures=temperatures, targets=[1.0, 0.0])
    assert [code.scheme for code in sweep.codes] == ["redundant"] * 3 + ["none"]
    separations = [code.separation for code in sweep.codes]
    assert (np.diff(separations) < 0).all()


@pytest.mark.parametrize("width", [-3, 0])
def test_outliers_need_a_width(toy, width):
    with pytest.raises(ValueError, match="`width` must be a whole number from 1 up"):
        toy("relu", 0.0).outliers(width)


def test_a_density_needs_values_and_an_output_that_exist(toy):
    for values, output in (([0.0], 3), ([[0.0]], 0), ([np.nan], 0), ([0.0], -1)):
        with pytest.raises(ValueError, match=r"`values`|`output`"):
            toy("linear", 0.0).marginal(values, output)


def test_uneven_classes():
    code = classification_code([50, 25, 25], "erf-sigmoid")
    share = {group.word: group.share for group in code.populations}
    wanted = {"011": 0.319, "100": 0.030, "101": 0.326, "110": 0.326}
    assert {word: share[word] for word in wanted} == pytest.approx(wanted, abs=1e-3)
    assert code.outputs[0, 0] == pytest.approx(0.948, abs=1e-3)


@pytest.mark.parametrize("other", [0.0, -0.5])
@pytest.mark.parametrize("activation", ["linear", "erf-sigmoid", "relu"])
def test_the_density_of_a_readout_is_one(toy, activation, other):
    code = toy(activation, other)
    values = np.linspace(-6, 6, 4001)
    density = code.marginal(values)
    assert np.trapezoid(density, values) == pytest.approx(1, abs=0.02)
    mean = np.trapezoid(values * density, values)
    assert mean == pytest.approx(code.readout_mean[0], abs=0.02)
    drawn = code.draw()
    assert drawn.lines
    drawn.figure.clear()
