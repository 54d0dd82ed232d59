"""Codes of classes: the numbers of the toy task."""

import numpy as np
import pytest

from festina.theory.coding import (
    class_code,
    class_targets,
    crossover_temperature,
    temperature_sweep,
)

# P = 60, three equal classes, σ_a² = 1/60, T = 0.01: K within, between, of one; U; f.
TOY = {
    ("linear", 0.0): (1.6777, 0, 2.6777, 0.5759, 0, 0.9829, 0),
    ("linear", -0.5): (1.6957, -0.8478, 2.6957, 0.5819, -0.2826, 0.9886, -0.4943),
    ("erf", 0.0): (0.7073, 0, 0.7455, 1.3146, 0, 0.9594, 0),
    ("erf", -0.5): (0.7034, -0.2708, 0.7471, 1.4627, -0.723, 0.9702, -0.4851),
    ("sigmoid", 0.0): (0.5844, 0.3152, 0.5892, 2.2811, -0.740, 0.9252, 0.0254),
    ("sigmoid", -0.5): (0.4714, 0.1725, 0.4728, 4.160, -2.072, 0.9088, -0.4544),
    ("relu", 0.0): (1.7798, 0.2744, 2.2371, 0.5745, -0.0716, 0.9830, 0.0022),
    ("relu", -0.5): (2.2406, 0.1670, 2.5961, 0.7137, -0.349, 0.9859, -0.4929),
}
# Values that mean readouts of branches take, and how many branches there are.
BRANCHES = {
    ("erf", 0.0): ([-1.1373, 1.1373], 8),
    ("erf", -0.5): ([-1.698, -0.849, 0.849, 1.698], 6),
    ("sigmoid", 0.0): ([-1.489, 1.511], 3),
    ("sigmoid", -0.5): ([-2.878, -1.439, 1.439, 2.878], 6),
}


@pytest.fixture(scope="module")
def toy():
    known = {}

    def solved(activation, other):
        if (activation, other) not in known:
            targets = class_targets(3, other=other)
            known[activation, other] = class_code([20] * 3, activation, targets=targets)
        return known[activation, other]

    return solved


@pytest.mark.parametrize(("activation", "other"), TOY)
def test_the_toy_task_has_the_stored_numbers(toy, activation, other):
    code = toy(activation, other)
    found = [*code.kernel[0, :2], code.kernel_diagonal[0], *code.readout_moment[0, :2]]
    np.testing.assert_allclose(
        [*found, *code.outputs[0, :2]], TOY[activation, other], rtol=0, atol=6e-4
    )
    same = np.linalg.eigvalsh(code.gram())  # P × P, and a kernel
    assert len(same) == 60
    assert same[0] > 0
    assert code.scheme == {"linear": "analog", "relu": "sparse"}.get(activation, "redundant")
    assert f"{code.scheme} code" in str(code)


@pytest.mark.parametrize(("activation", "other"), BRANCHES)
def test_branches_of_the_toy_task(toy, activation, other):
    code, (values, count) = toy(activation, other), BRANCHES[activation, other]
    full = [branch for branch in code.branches if branch.population > 1e-3]
    np.testing.assert_allclose([b.population for b in full], 1 / count, atol=1e-3)
    readouts = np.stack([branch.readout for branch in full])
    apart = np.abs(readouts[:, :, None] - np.array(values)).min(axis=2)
    assert apart.max() < 1e-3
    assert len({branch.word for branch in full}) == count


def test_words_of_a_sigmoid_are_all_but_one_class(toy):
    full = [b for b in toy("sigmoid", 0.0).branches if b.population > 1e-3]
    assert {b.word for b in full} == {"110", "101", "011"}
    for branch in full:
        on = np.array([letter == "1" for letter in branch.word])
        np.testing.assert_allclose(branch.activity, np.where(on, 0.936, 0.037), atol=1e-3)
        np.testing.assert_allclose(branch.readout, np.where(on, 1.511, -1.489), atol=1e-3)


@pytest.mark.parametrize(
    ("activation", "column", "rows"),
    [
        (
            "sigmoid",
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
    if activation == "sigmoid":
        full = dict(zip(rows, sweep.populated, strict=True))
        assert [full[t] for t in (0.003, 0.15, 0.2, 0.5)] == [3, 3, 1, 1]


@pytest.mark.parametrize(
    ("activation", "near"), [("linear", 0.577), ("erf", 0.374), ("sigmoid", 0.187)]
)
def test_crossovers(activation, near):
    assert crossover_temperature([20] * 3, activation) == pytest.approx(near, abs=1e-3)
    wider = crossover_temperature([20] * 3, activation, targets=class_targets(3, other=-0.5))
    assert wider == pytest.approx(1.5 * near, abs=2e-3)


def test_erf_has_eight_branches_below_its_crossover_and_one_above():
    sweep = temperature_sweep([20] * 3, "erf", temperatures=[0.3, 0.5])
    assert sweep.populated.tolist() == [8, 1]
    assert sweep.codes[1].scheme == "none"


def test_uneven_classes():
    code = class_code([50, 25, 25], "sigmoid")
    share = {branch.word: branch.population for branch in code.branches}
    wanted = {"011": 0.319, "100": 0.030, "101": 0.326, "110": 0.326}
    assert {word: share[word] for word in wanted} == pytest.approx(wanted, abs=1e-3)
    assert code.outputs[0, 0] == pytest.approx(0.948, abs=1e-3)


@pytest.mark.parametrize("other", [0.0, -0.5])
@pytest.mark.parametrize("activation", ["linear", "sigmoid", "relu"])
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
