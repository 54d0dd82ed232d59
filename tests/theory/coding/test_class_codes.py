"""Codes of classes: stored numbers, and routes that share nothing with the solver."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import erf as scipy_erf

from festina import networks
from festina.theory.coding import (
    class_code,
    class_targets,
    crossover_temperature,
    erf,
    temperature_sweep,
)
from festina.theory.coding._dual import Dual
from festina.theory.coding._law import Classes
from festina.theory.coding._tilt import tilt

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


def test_one_output_by_adaptive_quadrature():
    """E[a g′(a t)] with both integrals by SciPy, for classes of unlike size and target."""
    sizes, y = np.array([3, 5]), np.array([1.0, -0.4])
    code = class_code(sizes, "erf", temperature=0.1, targets=y)
    t, variance = code.dual[:, 0], code.readout_variance
    phi = lambda z: scipy_erf(np.sqrt(np.pi) / 2 * z)
    normal = lambda z: np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    mean = lambda h, k: quad(lambda z: phi(z) ** k * np.exp(h * phi(z)) * normal(z), -9, 9)[0]

    def weight(a):
        grown = np.prod([mean(a * t[c], 0) ** sizes[c] for c in range(2)])
        return np.exp(-(a**2) / (2 * variance)) * grown

    outer = lambda f: quad(lambda a: f(a) * weight(a), -5, 5, epsabs=1e-9, limit=200)[0]
    total = outer(lambda a: 1.0)
    for c in range(2):
        answer = lambda a, s: mean(a * s, 1) / mean(a * s, 0)
        output = outer(lambda a, answer=answer, s=t[c]: a * answer(a, s)) / total
        assert output == pytest.approx(code.outputs[c, 0], abs=1e-5)
        assert y[c] - output == pytest.approx(0.1 * t[c], abs=1e-5)


@pytest.mark.parametrize("activation", ["erf", "sigmoid", np.tanh])
def test_few_examples_by_weighted_draws_from_the_prior(activation):
    """Neurons (a, z) of the prior, weighted by exp Σ φ a·t: no cumulants, no lattice."""
    sizes, y = [2, 3], np.array([[1.0, 0.2], [-0.3, 0.8]])
    code = class_code(sizes, activation, temperature=0.2, targets=y)
    rng = np.random.default_rng(0)
    count, which = 400_000, np.repeat([0, 1], sizes)
    a = rng.normal(size=(count, 2)) * np.sqrt(code.readout_variance)
    z = rng.normal(size=(count, 5))
    phi = tilt(activation).function(z)
    weight = np.exp((phi * (a @ code.dual.T)[:, which]).sum(axis=1))

    def mean(values):
        """With its standard error."""
        average = np.average(values, weights=weight, axis=0)
        off = weight[:, None] * (values - average)
        return average, np.sqrt((off**2).sum(axis=0)) / weight.sum()

    for of, theory in (
        (phi[:, [0]] * a, code.outputs[0]),
        (phi[:, [4]] * a, code.outputs[1]),
        (a[:, [0]] * a, code.readout_moment[0]),
        (phi[:, [0]] * phi[:, 1:3], code.kernel[0]),
        (phi[:, [0, 4]] ** 2, code.kernel_diagonal),
    ):
        seen, error = mean(np.asarray(of))
        assert (np.abs(seen - theory) < 4.5 * error).all()
        assert error.max() < 0.01


def differences(function, x, step=1e-4):
    sides = [(function(x + e), function(x - e)) for e in step * np.eye(len(x))]
    return np.array([(right - left) / (2 * step) for right, left in sides])


@pytest.mark.parametrize("activation", ["erf", "sigmoid"])
def test_gradient_and_curvature_are_those_of_a_convex_function(activation):
    rng = np.random.default_rng(1)
    problem = Classes(
        np.array([4.0, 7.0]), rng.normal(size=(2, 2)), np.eye(2), 0.1, tilt(activation)
    )
    dual = Dual(problem, 0.05)
    for _ in range(3):
        x = 3 * rng.normal(size=4)
        slope = differences(dual.value, x)
        np.testing.assert_allclose(dual.gradient(x), slope, rtol=1e-6, atol=1e-6)
        curved = differences(dual.gradient, x)
        np.testing.assert_allclose(dual.curvature(x), curved, rtol=1e-6, atol=1e-6)
        assert np.linalg.eigvalsh(dual.curvature(x))[0] > 0


@settings(max_examples=15)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    temperature=st.floats(1e-3, 1.0),
    other=st.floats(-1.0, 0.5),
    activation=st.sampled_from(["erf", "sigmoid", "linear", np.tanh]),
)
def test_the_saddle_point_holds_and_classes_may_be_renamed(sizes, temperature, other, activation):
    targets = class_targets(len(sizes), other=other)[:, :2]
    code = class_code(sizes, activation, temperature=temperature, targets=targets)
    np.testing.assert_allclose(targets - code.outputs, temperature * code.dual, atol=1e-6)
    assert np.linalg.eigvalsh(code.kernel)[0] > -1e-9
    assert (code.kernel_diagonal > np.diag(code.kernel)).all()
    assert np.linalg.eigvalsh(code.readout_moment)[0] > 0
    assert sum(branch.population for branch in code.branches) == pytest.approx(1)
    turned = class_code(sizes[::-1], activation, temperature=temperature, targets=targets[::-1])
    np.testing.assert_allclose(turned.kernel, code.kernel[::-1, ::-1], atol=1e-5)
    np.testing.assert_allclose(turned.outputs, code.outputs[::-1], atol=1e-5)


def test_many_examples_approach_a_limit_as_one_over_their_number():
    codes = [class_code([n, n], "sigmoid", temperature=0.02) for n in (25, 100, 400, 1600)]
    found = np.array([[*code.outputs[0], *code.kernel[0]] for code in codes])
    steps = np.abs(np.diff(found, axis=0)).max(axis=1)
    assert steps[0] > 1e-4
    assert (steps[1:] < 0.4 * steps[:-1]).all()


@pytest.mark.parametrize("activation", ["linear", "erf", "sigmoid", "relu"])
def test_cold_networks_meet_their_targets(activation):
    targets = class_targets(2, other=-0.3)
    missing = []
    for temperature in (1e-2, 1e-3, 0.0):
        code = class_code([20, 30], activation, temperature=temperature, targets=targets)
        missing.append(np.abs(targets - code.outputs).max())
    assert missing[1] == pytest.approx(missing[0] / 10, rel=0.3)
    assert missing[2] < 1e-7


@pytest.mark.parametrize("activation", ["linear", "erf", "sigmoid"])
def test_hot_networks_are_lazy(activation):
    """To first order in 1/T the prior's kernel times the targets."""
    sizes, y, unit = np.array([6, 9]), np.array([[1.0, 0.0], [-0.5, 2.0]]), tilt(activation)
    errors = []
    for temperature in (1e2, 1e3):
        code = class_code(sizes, activation, temperature=temperature, targets=y)
        first = unit.mean**2 * (sizes @ y) + unit.variance * y
        first *= code.readout_variance / temperature
        errors.append(np.abs(code.outputs / first - 1).max())
    assert errors[1] < 2e-3
    assert errors[1] < 0.15 * errors[0]


def test_a_function_of_ones_own_is_as_good_as_a_name():
    given = class_code([10, 10], erf, temperature=0.05)
    named = class_code([10, 10], "erf", temperature=0.05)
    np.testing.assert_allclose(given.kernel, named.kernel)
    steeper = class_code([10, 10], networks.activation("erf"), temperature=0.05)
    assert np.abs(steeper.kernel - named.kernel).max() > 1e-3  # erf(z/√2) is less steep


def test_four_centred_classes_span_three_dimensions():
    code = class_code([8] * 4, "erf", temperature=0.1, targets=class_targets(4, other=-1 / 3))
    np.testing.assert_allclose(code.readout_moment.sum(), 4 * code.readout_variance, rtol=1e-9)
    np.testing.assert_allclose(code.outputs.sum(axis=1), 0, atol=1e-9)


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
