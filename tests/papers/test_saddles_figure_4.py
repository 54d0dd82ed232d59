"""Figure 4 of the saddle-to-saddle paper: what other activations do, on seeds of their own."""

import functools

import numpy as np
import pytest
from scipy import integrate, optimize

import festina
from experiments import altered, broken
from festina.networks import Neuron, layer
from festina.papers import load
from festina.papers.saddles._figure_4 import fixed_points, student, teacher_task
from festina.papers.saddles._figure_4_activations import named
from festina.papers.saddles._figure_4_population import population
from festina.papers.saddles._figure_4_width_one import width_one
from papers.test_figure_1 import is_legible

# Minutes of compilation; the functions themselves are tested in theory, diagnose and dynamics.
pytestmark = pytest.mark.slow

# What a run costs by default is compiling one program for each activation: three stand for all.
CHEAP = {"e": {"seeds": 3}, "g": {"seeds": 3, "max_steps": 100_000}}
DEAR = ("a", "b", "c", "d", "f", "h")


def panel(letter: str):
    return load(f"saddles/figure-4{letter}")


@functools.cache
def fresh(letter: str, preset: str = ""):
    """A run of the quick parameters with seeds 100, 101, …"""
    experiment = panel(letter)
    changes = {**experiment.quick, **CHEAP.get(letter, {}), **experiment.presets.get(preset, {})}
    run = experiment.run(experiment.parameters(seed=100, **changes))
    run.attrs["preset"] = preset
    return run


def found(letter: str, words: str, run=None):
    """The one claim that says these words."""
    claims = panel(letter).claims(fresh(letter) if run is None else run)
    (claim,) = (claim for claim in claims if words in claim.claim)
    return claim


# Every panel

each = pytest.mark.parametrize(
    "letter", [*CHEAP, *(pytest.param(letter, marks=pytest.mark.slow) for letter in DEAR)]
)


@each
def test_no_claim_is_broken_on_fresh_seeds(letter):
    assert broken(panel(letter), fresh(letter)) == []
    assert len(panel(letter).claims(fresh(letter))) >= 4


@each
def test_a_saved_run_gives_the_same_claims(letter, tmp_path):
    experiment, run = panel(letter), fresh(letter)
    festina.save(run, tmp_path / "run.zarr")
    again = experiment.claims(festina.load(tmp_path / "run.zarr"))
    assert [c.to_json() for c in again] == [c.to_json() for c in experiment.claims(run)]
    assert all(f"Figure 4{letter.upper()}" in c.source or "Figure 1" not in c.source for c in again)


@each
def test_the_figure_is_legible(letter):
    figure = panel(letter).draw(fresh(letter))
    assert is_legible(figure)
    assert [ax.get_title() for ax in figure.axes[1:]] == ["after the first drop", "at the end"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("letter", "preset"), [("e", "squared-relu"), ("h", "z2-tanh"), ("h", "z3-rational")]
)
def test_presets_are_unbroken(letter, preset):
    run = fresh(letter, preset)
    assert broken(panel(letter), run) == []
    assert is_legible(panel(letter).draw(run))


# Numbers of theory/saddles.md §4 and §7


def test_figure_4g_rests_at_10_8_and_ends_at_zero():
    assert found("g", "closed form").predicted == pytest.approx(10.8, abs=1e-12)
    levels = fresh("g")["plateaus"]["level"].values
    three = fresh("g")["plateaus"]["count"].values == 3
    assert three.any()
    np.testing.assert_allclose(levels[three][:, :3], [[30.0, 10.8, 0.0]] * sum(three), atol=1e-4)


def test_figure_4g_diverges_at_the_stated_learning_rate():
    claim = found("g", "stated learning rate")
    assert claim.verdict == claim.expected == "does not hold"
    assert claim.measured == 0.0
    assert float(fresh("g")["stated"]["sharpness"]) == pytest.approx(283, abs=0.5)
    assert "below 0.0071" in claim.note


def test_figure_4g_at_the_stated_learning_rate_fails_from_every_seed():
    experiment = panel("g")
    with pytest.raises(ValueError, match=r"failed from every seed.*0\.02 is above the stab"):
        experiment.run(experiment.parameters(seeds=3, seed=100, learning_rate=0.02))


def test_figure_4g_two_active_units_of_norm_1_325():
    run = fresh("g")
    for seed in np.flatnonzero(run["plateaus"]["count"].values == 3):
        u, v = (run["simulation"][name].values[seed, -1] for name in ("u", "v"))
        norms = np.sort(np.sqrt(np.sum(u**2, axis=1) + v[:, 0] ** 2))[::-1]
        np.testing.assert_allclose(norms[:2], 1.325, atol=1e-3)
        assert norms[2] < 0.1


def test_figure_4e_levels():
    levels = fresh("e")["theory"]["width_one_level"].values
    assert np.abs(levels - 0.8080).min() < 1e-4
    assert np.abs(levels - 0.2578).min() < 1e-4
    assert float(fresh("e")["theory"]["level"][0]) == pytest.approx(2.2645, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("letter", "levels"),
    [("b", (0.00529,)), ("c", (0.4171, 0.4412)), ("h", (0.99486,))],
)
def test_figure_4_levels_of_one_unit(letter, levels):
    known = fresh(letter)["theory"]["width_one_level"].values
    for level in levels:
        assert np.abs(known - level).min() < 1e-2 * level


@pytest.mark.slow
def test_figure_4c_levels_that_are_visited():
    np.testing.assert_allclose(fresh("c")["plateaus"]["level"].values[:, 1], 0.487, rtol=0.01)


# A claim fails where the run does not show it


def test_claims_fail_on_a_run_that_does_not_show_them():
    experiment, run = panel("e"), fresh("e")
    assert (
        "within 2 %"
        in broken(experiment, altered(run, "plateaus", "level", lambda level: 1.3 * level))[0]
    )
    alike = altered(run, "simulation", "u", np.ones_like)
    alike = altered(alike, "simulation", "v", np.ones_like)
    assert any("one unit is active" in claim for claim in broken(experiment, alike))
    assert any("order" in claim for claim in broken(experiment, _order(run, 1)))


def test_a_stated_learning_rate_that_works_would_be_noticed():
    run = fresh("g").copy(deep=True)
    run["stated"]["ending"].values[:] = "converged"
    assert found("g", "stated learning rate", run).verdict == "holds"


@pytest.mark.slow
@pytest.mark.parametrize("letter", ["c", "d"])
def test_rank_one_is_measured(letter):
    run = fresh(letter)
    rng = np.random.default_rng(0)
    mixed = altered(run, "simulation", "u", lambda u: u + rng.normal(scale=0.02, size=u.shape))
    assert any("rank one: second" in claim for claim in broken(panel(letter), mixed))
    level = float(run["theory"]["width_one_level"][0])
    visited = altered(run, "plateaus", "level", lambda values: 0 * values + level)
    assert any("no width-1" in claim for claim in broken(panel(letter), visited))


@pytest.mark.slow
def test_figure_4a_second_plateau_is_measured():
    run = altered(fresh("a"), "plateaus", "level", lambda level: 1.001 * level)
    assert any("uniform attention" in claim for claim in broken(panel("a"), run))


def _order(run, order):
    copy = run.copy(deep=True)
    copy["theory"]["order"] = copy["theory"]["order"] * 0 + order
    return copy


# Population averages and fixed points, by other routes


@pytest.mark.parametrize("name", ["tanh", "z-tanh", "sigmoid"])
def test_population_averages_converge_to_the_integral(name):
    """⟨y²⟩ = ⟨φ₁²⟩ + ⟨φ₂²⟩ + 2⟨φ₁⟩⟨φ₂⟩ for u* along the axes, each by SciPy's quadrature."""
    phi = {
        "tanh": np.tanh,
        "z-tanh": lambda z: z * np.tanh(z),
        "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    }[name]

    def mean(length, power):
        density = lambda x: phi(length * x) ** power * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
        return sum(
            integrate.quad(density, *part, epsabs=1e-13, epsrel=1e-12)[0]
            for part in ((-12, 0), (0, 12))
        )

    exact = mean(1, 2) + mean(2, 2) + 2 * mean(1, 1) * mean(2, 1)
    teacher = layer(Neuron(named(name)), np.diag([1.0, 2.0]), np.ones(2))
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
        teacher = layer(Neuron(named(name)), np.diag([1.0, 2.0]), np.ones(2))
        return population(teacher, 0.5)

    half, whole = task("tanh").x, task("sigmoid").x
    assert 0.48 < len(half) / len(whole) < 0.52
    np.testing.assert_allclose(whole, -whole[::-1])
    assert not {tuple(x) for x in half[:-1]} & {tuple(-x) for x in half}


def test_fixed_points_of_one_unit_are_stationary_in_u_and_v():
    teacher = layer(Neuron(named("sine")), np.diag([1.0, 2.0]), np.ones(2))
    task = population(teacher, 0.6)
    points = width_one(teacher.unit, task)
    x, y, w = task.x, task.y[:, 0], task.weight
    loss = lambda theta: w @ (y - theta[2] * np.sin(x @ theta[:2])) ** 2
    assert points.minimum.any()
    assert not points.minimum.all()
    for level, u, minimum in zip(points.level, points.u, points.minimum, strict=True):
        phi = np.sin(x @ u)
        theta = np.array([*u, (w * y) @ phi / (w @ phi**2)])
        assert loss(theta) == pytest.approx(level, rel=1e-12)
        np.testing.assert_allclose(optimize.approx_fprime(theta, loss, 1e-7), 0, atol=1e-6)
        ends = optimize.minimize(loss, theta + 0.03, tol=1e-12).fun, level
        assert (ends[0] == pytest.approx(ends[1], rel=1e-6)) == minimum


@pytest.mark.parametrize(
    ("letter", "parameters", "words"),
    [
        ("a", {"samples": None}, "number of sequences"),
        ("e", {"activation": "tanh"}, "1-cos"),
        ("g", {"method": "newton"}, "descent"),
        ("d", {"spacing": 2.0}, "spacing"),
        ("d", {"teacher": (1.0, -2.0)}, "greater than 0"),
    ],
)
def test_bad_parameters_are_refused(letter, parameters, words):
    with pytest.raises(ValueError, match=words):
        panel(letter).parameters(**parameters)


@pytest.mark.slow
def test_one_unit_without_a_fixed_point_is_said_so():
    """z² tanh z does best with infinite weights."""
    parameters = panel("h").parameters(activation="z2-tanh")
    task = teacher_task(named("z2-tanh"), parameters, None)
    network = student(named("z2-tanh"), parameters, festina.seeds(1))
    with pytest.raises(ValueError, match="no fixed point with weights up to 5"):
        fixed_points(parameters, task, network)
