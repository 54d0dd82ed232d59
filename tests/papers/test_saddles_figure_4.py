"""Test Figure 4 of the saddle-to-saddle paper by independent computations."""

import functools
import itertools

import numpy as np
import pytest
from scipy import integrate, optimize

import festina
from experiments import broken
from festina.experiments import load_experiment
from festina.networks import NeuronUnit, layer_from
from festina.papers.saddles.figure_4 import _g as cubic
from festina.papers.saddles.figure_4._one_unit import population, width_one
from festina.papers.saddles.figure_4._panel import fixed_points, named, student, teacher_task
from helpers import terminal
from small import SMALL

# Minutes of compilation; the functions themselves are tested in theory, diagnose and dynamics.
pytestmark = pytest.mark.slow


def panel(letter: str):
    return load_experiment(f"saddles/figure-4{letter}")


@functools.cache
def small(letter: str):
    return panel(letter).run(panel(letter).parameters(**SMALL[f"saddles/figure-4{letter}"]))


@pytest.mark.parametrize("letter", "cdefgh")
def test_training_starts_without_a_network_and_ends_where_the_task_is_learned(letter):
    loss = small(letter)["simulation"]["loss"].to_numpy()
    np.testing.assert_allclose(
        loss[:, 0], small(letter)["theory"]["level"].to_numpy()[0], rtol=1e-3
    )
    assert (loss[:, -1] < 1e-2 * loss[:, 0]).all()


@pytest.mark.parametrize(
    ("letter", "levels", "precision"),
    [
        # The precision is that of the grid; a sine has no poles, so its averages are more precise.
        ("b", (0.005286,), 1e-3),
        ("c", (0.41713, 0.44122), 1e-5),
        ("d", (0.10372,), 1e-3),
        ("e", (0.8080, 0.2578), 2e-4),
        ("g", (10.8,), 1e-12),
        ("h", (0.99486,), 1e-5),
    ],
)
def test_figure_4_levels_of_one_unit(letter, levels, precision):
    names = {"b": "sigmoid", "c": "sine", "d": "tanh", "e": "1-cos", "g": "cubic", "h": "z2-sin"}
    phi = named(names[letter])
    task = teacher_task(phi, panel(letter).parameters(), None)
    _, known = width_one(NeuronUnit(phi), task)["fixed_point"]
    for level in levels:
        assert np.abs(known - level).min() < precision * level


def test_figure_4g_solution_is_too_sharp_for_the_stated_learning_rate():
    """The sharpness of the solution is 283, by Gaussian moments and by differences of the slope."""
    assert cubic._sharpness(panel("g").parameters()) == pytest.approx(283, abs=0.5)
    experiment = panel("g")
    with pytest.raises(ValueError, match=r"failed from every seed.*0\.02 is above the stab"):
        experiment.run(experiment.parameters(seeds=2, scale=0.02, learning_rate=0.02))


def test_figure_4g_a_stated_learning_rate_that_works_would_be_noticed():
    run = small("g").copy(deep=True)
    run["theory"]["stated"].to_numpy()[0] = "finished"  # one seed
    assert "stated-learning-rate" in broken(panel("g"), run)


def test_figure_4f_one_unit_does_best_with_infinite_weights():
    """The excess over the loss of |z| falls as 1/|u|², by averages along an axis."""
    phi = PHI["z-tanh"]
    short, long = (lambda x: phi(x)), (lambda x: phi(2 * x))
    power = average(lambda x: short(x) ** 2 + long(x) ** 2) + 2 * average(short) * average(long)

    def left(unit):
        explained = average(short) * average(unit) + average(lambda x: long(x) * unit(x))
        return power - explained**2 / average(lambda x: unit(x) ** 2)

    infimum = left(np.abs)
    assert float(small("f")["theory"]["infimum"].to_numpy()) == pytest.approx(infimum, rel=1e-6)
    above = [left(lambda x, a=a: phi(a * x)) - infimum for a in (64, 128)]
    assert np.log2(above[1] / above[0]) == pytest.approx(-2, abs=0.05)


# Population averages and fixed points, by independent computations


PHI = {
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "sine": np.sin,
    "tanh": np.tanh,
    "1-cos": lambda z: 1 - np.cos(z),
    "squared-relu": lambda z: np.maximum(z, 0) ** 2,
    "z-tanh": lambda z: z * np.tanh(z),
    "cubic": lambda z: z**3,
    "z2-sin": lambda z: z**2 * np.sin(z),
}


def average(function):
    """Return the average over a standard normal variable, by quadrature on both sides of zero."""
    density = lambda x: function(x) * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
    return sum(
        integrate.quad(density, *part, epsabs=1e-13, epsrel=1e-12)[0]
        for part in ((-12, 0), (0, 12))
    )


@pytest.mark.parametrize(
    ("letter", "name", "power"),
    [
        ("b", "sigmoid", 1.14195),
        ("c", "sine", 0.932165),
        ("d", "tanh", 1.029556),
        ("e", "1-cos", 2.264542),
        ("e", "squared-relu", 27.5),
        ("f", "z-tanh", 6.294291),
        ("g", "cubic", 30.0),
        ("h", "z2-sin", 3.676676),
    ],
)
def test_figure_4_losses_of_no_network(letter, name, power):
    """The power ⟨y²⟩ = ⟨φ₁²⟩ + ⟨φ₂²⟩ + 2⟨φ₁⟩⟨φ₂⟩ matches reference digits and the panel's grid."""
    parameters, phi = panel(letter).parameters(), PHI[name]
    one, two = parameters.teacher
    exact = sum(average(lambda x, a=a: phi(a * x) ** 2) for a in (one, two))
    exact += 2 * average(lambda x: phi(one * x)) * average(lambda x: phi(two * x))
    assert exact == pytest.approx(power, rel=5e-6)
    task = teacher_task(named(name), parameters, None)
    _, y, weight, floor, _ = task.statistics(NeuronUnit(named(name)))
    assert weight @ y[:, 0] ** 2 + 2 * floor == pytest.approx(exact, rel=2e-4)


def _arc_cosine(angle):
    """Return ⟨ReLU(a·x)² ReLU(b·x)²⟩ for unit vectors at this angle."""
    cosine = np.cos(angle)
    return (3 * np.sin(angle) * cosine + (np.pi - angle) * (1 + 2 * cosine**2)) / (2 * np.pi)


def test_figure_4e_squared_relu_in_closed_form():
    """One unit has the loss 1.21587 and is stable for rates below 2/(9|u|⁴) = 0.02075."""
    explained = lambda angle: _arc_cosine(angle) + 4 * _arc_cosine(np.pi / 2 - angle)
    best = optimize.minimize_scalar(
        lambda angle: 27.5 - explained(angle) ** 2 / 1.5,
        bounds=(1.0, 1.57),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert best.fun == pytest.approx(1.21587, abs=5e-6)
    # Balanced weights have v² = |u|²/2, with v|u|² = ⟨yφ⟩/⟨φ²⟩.
    length = (np.sqrt(2) * explained(best.x) / 1.5) ** (1 / 3)
    u, v = length * np.array([np.cos(best.x), np.sin(best.x)]), length / np.sqrt(2)
    teacher = layer_from(NeuronUnit(named("squared-relu")), np.diag([1.0, 2.0]), np.ones(2))
    errors = []
    for spacing in (0.5, 0.1):
        task = population(teacher, spacing)
        x, y, w = task.x, task.y[:, 0], task.weight
        r = np.maximum(x @ u, 0)
        errors.append(abs(w @ (y - v * r**2) ** 2 / best.fun - 1))
        # By Gauss–Newton: at the fixed point, residuals are orthogonal to the steepest direction.
        slopes = np.column_stack((r**2, 2 * v * r[:, None] * x))
        sharpness = np.linalg.eigvalsh(2 * slopes.T @ (w[:, None] * slopes))[-1]
        assert sharpness == pytest.approx(9 * length**4, rel=5e-3)
    assert errors[0] < 3e-3
    assert errors[1] < 1e-4
    assert 2 / (9 * length**4) == pytest.approx(0.02075, abs=5e-6)


def test_figure_4h_z2_tanh_at_the_edge_of_stability():
    """Descent at η = 0.02 stops |u| at sharpness 2/η, where one unit has the loss 1.01."""
    phi = lambda z: z**2 * np.tanh(z)
    task = population(layer_from(NeuronUnit(named("z2-tanh")), np.eye(2), np.ones(2)), 0.2)
    x, y, w = task.x, task.y[:, 0], task.weight

    def best(size):
        """Return loss and sharpness of one unit on the diagonal with the best v, by differences."""
        r = phi(x @ np.full(2, size / np.sqrt(2)))
        theta = np.array([*np.full(2, size / np.sqrt(2)), (w * y) @ r / (w @ r**2)])
        loss = lambda theta: w @ (y - theta[2] * phi(x @ theta[:2])) ** 2
        slope = lambda theta: np.asarray(optimize.approx_fprime(theta, loss, 1e-5))
        steps = 1e-3 * np.eye(3)
        curvature = [(slope(theta + step) - slope(theta - step)) / 2e-3 for step in steps]
        return loss(theta), np.linalg.eigvalsh(curvature)[-1]

    size = optimize.brentq(lambda size: best(size)[1] - 2 / 0.02, 1.5, 2.5, xtol=1e-3)
    assert best(size)[0] == pytest.approx(1.007, rel=5e-3)


def escape_steps(parameters, teacher, coefficient):
    """Return the steps at which the first unit of each seed escapes, for φ ≈ `coefficient` z³.

    ⟨y(u·x)³⟩ = A(u₁³ + u₂³) + 3B u₁u₂(u₁ + u₂) with A = ⟨x³φ⟩ and B = ⟨xφ⟩. Fields are cubic, so
    weights of size ε take 1/ε² times as long as weights of size one.
    """
    a, b = average(lambda x: x**3 * teacher(x)), average(lambda x: x * teacher(x))
    network = student(
        named("cubic"), parameters, festina.seeds(parameters.seeds, first=parameters.seed)
    )

    def field(_, state):
        p, q, v = state.reshape(-1, 3).T
        grows = v * (3 * a * p**2 + 3 * b * (q**2 + 2 * p * q))
        turns = v * (3 * a * q**2 + 3 * b * (p**2 + 2 * p * q))
        reads = a * (p**3 + q**3) + 3 * b * p * q * (p + q)
        return 2 * coefficient * np.column_stack((grows, turns, reads)).ravel()

    away = terminal(lambda _, state: np.abs(state).max() - 50.0)
    steps = []
    for u, v in zip(network.u, network.v, strict=True):
        theta = np.column_stack((u, v[:, 0]))
        size = np.linalg.norm(theta, axis=1).max()
        end = integrate.solve_ivp(
            field, (0, 1e5), (theta / size).ravel(), events=away, rtol=1e-6, atol=1e-9
        )
        steps.append(end.t[-1] / size**2 / parameters.learning_rate)
    return np.array(steps)


def test_figure_4h_activations_that_hardly_leave_zero():
    """In 60,000 steps z² sin z always escapes, z − sin z never, tanh³ and z − tanh z sometimes."""
    parameters = panel("h").parameters(seeds=8)
    steps = {
        name: escape_steps(parameters, teacher, coefficient)
        for name, teacher, coefficient in (
            ("z2-sin", PHI["z2-sin"], 1),
            ("tanh3", lambda z: np.tanh(z) ** 3, 1),
            ("z-tanh", lambda z: z - np.tanh(z), 1 / 3),
            ("z-sin", lambda z: z - np.sin(z), 1 / 6),
        )
    }
    assert (steps["z2-sin"] < 60_000).all()
    assert (steps["z-sin"] > 60_000).all()
    for name in ("tanh3", "z-tanh"):
        assert 0 < np.sum(steps[name] > 60_000) < 8
    medians = [np.median(each) for each in steps.values()]
    assert medians == sorted(medians)


def test_figure_4h_leaves_zero_when_the_cubic_term_does():
    measured = small("h")["plateaus"]["drop_step"].to_numpy()[:, 0]
    parameters = panel("h").parameters(**SMALL["saddles/figure-4h"])
    np.testing.assert_allclose(measured, escape_steps(parameters, PHI["z2-sin"], 1), rtol=0.01)


@pytest.mark.parametrize("name", ["tanh", "z-tanh", "sigmoid"])
def test_population_averages_converge_to_the_integral(name):
    """Compare ⟨y²⟩ = ⟨φ₁²⟩ + ⟨φ₂²⟩ + 2⟨φ₁⟩⟨φ₂⟩ for u* along the axes with SciPy's quadrature."""
    mean = lambda length, power: average(lambda x: PHI[name](length * x) ** power)
    exact = mean(1, 2) + mean(2, 2) + 2 * mean(1, 1) * mean(2, 1)
    teacher = layer_from(NeuronUnit(named(name)), np.diag([1.0, 2.0]), np.ones(2))
    errors = []
    for spacing in (0.8, 0.4, 0.2):
        task = population(teacher, spacing)
        assert task.weight.sum() == pytest.approx(1.0)
        errors.append(abs(task.weight @ task.y[:, 0] ** 2 / exact - 1))
    assert errors[1] < 2e-3
    assert errors[2] < 2e-6
    assert errors[2] < 0.1 * errors[0]


def test_half_of_the_grid_stands_for_all_of_it_where_phi_is_even_or_odd():
    def task(name):
        teacher = layer_from(NeuronUnit(named(name)), np.diag([1.0, 2.0]), np.ones(2))
        return population(teacher, 0.5)

    half, whole = task("tanh").x, task("sigmoid").x
    assert 0.48 < len(half) / len(whole) < 0.52
    np.testing.assert_allclose(whole, -whole[::-1])
    assert not {tuple(x) for x in half[:-1]} & {tuple(-x) for x in half}


def test_fixed_points_of_one_unit_are_those_found_in_u_and_v():
    """Fixed points match roots of the gradient in u and v, found from a grid of starts."""
    teacher = layer_from(NeuronUnit(named("sine")), np.diag([1.0, 2.0]), np.ones(2))
    task = population(teacher, 0.6)
    (_, levels), (_, minima) = width_one(teacher.unit, task).values()
    x, y, w = task.x, task.y[:, 0], task.weight

    def slope(theta):
        z, v = x @ theta[:2], theta[2]
        error = 2 * w * (v * np.sin(z) - y)
        return np.array([*(v * (error * np.cos(z)) @ x), error @ np.sin(z)])

    found = {}
    axis = np.linspace(-4.9, 4.9, 14)
    for u in itertools.product(axis, axis[7:]):  # −u with −v is the same unit
        phi = np.sin(x @ u)
        end = optimize.root(slope, [*u, (w * y) @ phi / (w @ phi**2)], tol=1e-12)
        if end.success and np.linalg.norm(end.x[:2]) < 5 and abs(end.x[2]) > 1e-3:
            curvature = np.asarray(optimize.approx_fprime(end.x, slope, 1e-7))
            level = w @ (y - end.x[2] * np.sin(x @ end.x[:2])) ** 2
            found[round(level, 7)] = level, np.linalg.eigvalsh(curvature)[0] > 0
    expected = [found[level] for level in sorted(found)]
    np.testing.assert_allclose(levels, [level for level, _ in expected], rtol=1e-10)
    assert minima.tolist() == [minimum for _, minimum in expected] == [True, True, False]


@pytest.mark.parametrize(
    ("letter", "parameters", "words"),
    [
        ("a", {"samples": None}, "valid integer"),
        ("e", {"activation": "tanh"}, "1-cos"),
        ("g", {"method": "newton"}, "descent"),
        ("d", {"spacing": 2.0}, "spacing"),
        ("d", {"teacher": (1.0, -2.0)}, "greater than 0"),
    ],
)
def test_bad_parameters_are_refused(letter, parameters, words):
    with pytest.raises(ValueError, match=words):
        panel(letter).parameters(**parameters)


def test_one_unit_without_a_fixed_point_is_said_so():
    """One z² tanh z unit has its lowest loss at infinite weights."""
    parameters = panel("h").parameters(activation="z2-tanh")
    task = teacher_task(named("z2-tanh"), parameters, None)
    network = student(named("z2-tanh"), parameters, festina.seeds(1))
    with pytest.raises(ValueError, match="no fixed point with weights up to 5"):
        fixed_points(parameters, task, network)


def test_figure_4b_spread_of_units_right_after_the_drop_and_where_the_loss_rests():
    run = small("b")
    loss, u, v = (run["simulation"].ds[name].values[0] for name in ("loss", "u", "v"))
    begins, level = (run["plateaus"].ds[name].values[0, 1] for name in ("save", "level"))
    rests = np.argmin(np.abs(loss - level))
    assert begins < rests
    assert loss[begins] > 5 * level

    def spread(save):
        weighted = np.repeat(u[save], np.round(1e3 * v[save, :, 0] / v[save].max()).astype(int), 0)
        return np.sqrt(weighted.var(axis=0).sum()) / np.linalg.norm(weighted.mean(axis=0))

    assert spread(begins) < 0.02
    claims = {claim.id: claim for claim in panel("b").claims(run)}
    measured, note = claims["equal-units"].measured, claims["equal-units"].note
    np.testing.assert_allclose(measured, spread(begins), rtol=0.1)
    np.testing.assert_allclose(float(note.split("rests: ")[1]), spread(rests), rtol=0.1)
