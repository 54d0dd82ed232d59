"""Test that the declared algebra of a unit is the measured one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from festina.networks import (
    Activation,
    ConvolutionUnit,
    Layer,
    NeuronUnit,
    activation,
    leaky_relu,
    power,
)
from festina.networks._activations import activation_named
from festina.networks._algebra import Algebra, measure_algebra, measure_defects
from festina.networks._kinks import kinks
from helpers import ARCHITECTURES, FIRST, SCALARS, THIRD, each, inputs

pytestmark = pytest.mark.usefixtures("double")


@each(ARCHITECTURES)
def test_the_declared_algebra_is_the_measured_one(row):
    network = row.network()
    unit = network.unit
    assert unit == row.unit
    assert unit.algebra == row.algebra
    rng = np.random.default_rng(3)
    psi = jax.vmap(unit.features)(jnp.asarray(inputs(row, 6)))
    response = jax.jit(unit.response)
    weights = rng.standard_normal((4, *network.u.shape[1:]))
    assert measure_algebra(lambda u: np.asarray(response(psi, u)), weights) == row.algebra


@each(SCALARS)
def test_a_scalar_is_measured_as_it_is_declared(row):
    """Measurement of a built-in function finds the algebra that festina declares for it."""
    ours = activation(row.choice)
    assert ours.algebra == row.algebra
    measured = activation(lambda a: ours.function(a))
    assert measured.algebra == row.algebra
    grid = np.linspace(-2, 2, 9)
    plain = np.array([row.plain(float(a)) for a in grid])
    np.testing.assert_allclose(ours(jnp.asarray(grid)), plain, rtol=1e-14, atol=1e-15)


BENT = Algebra(True, None, False, False, 1, kink="elsewhere")
OWN = {
    "abs": (jnp.abs, Algebra(True, "positive", False, True, 1)),
    "softplus": (jax.nn.softplus, Algebra(False, None, False, False, 0)),
    "cosine": (jnp.cos, Algebra(False, None, False, True, 0)),
    "affine": (lambda a: 1 + a, Algebra(False, None, False, False, 0)),
    "gelu": (jax.nn.gelu, FIRST),
    "z sin z": (lambda a: a * jnp.sin(a), Algebra(True, None, False, True, 2)),
    "z|z|": (lambda a: a * jnp.abs(a), Algebra(True, None, False, False, 2, odd=True)),
    "z − sin z": (lambda a: a - jnp.sin(a), THIRD),
    "z² tanh z": (lambda a: a**2 * jnp.tanh(a), THIRD),
    "tanh⁴": (lambda a: jnp.tanh(a) ** 4, Algebra(True, None, False, True, 4)),
    "sinh⁶": (lambda a: jnp.sinh(a) ** 6, Algebra(True, None, False, True, 6)),
    "cosh − 1 − z²/2": (
        lambda a: jnp.cosh(a) - 1 - a**2 / 2,
        Algebra(True, None, False, True, 4),
    ),
    "steep": (lambda a: a + 1000 * a**2, FIRST),
    # The order is not a whole number: zero around the origin, or a fractional power.
    "threshold": (
        lambda a: jnp.maximum(a - 0.5, 0),
        Algebra(True, None, False, False, None, kink="elsewhere"),
    ),
    # These functions stop being linear or symmetric only for large inputs.
    "bent at 9": (lambda a: a + jnp.maximum(a - 9, 0), BENT),
    "clipped at 10": (
        lambda a: jnp.clip(a, 0, 10),
        Algebra(True, None, False, False, 1, kink="zero"),
    ),
    "clipped unevenly": (lambda a: jnp.clip(a, -10, 12), BENT),
    "z² up to 20": (lambda a: a**2 + jnp.maximum(a - 20, 0), Algebra(True, None, False, False, 2)),
    "z^3/2": (lambda a: jnp.maximum(a, 0) ** 1.5, Algebra(True, None, False, False, None)),
}


@pytest.mark.parametrize("name", OWN)
def test_algebra_of_a_function_of_your_own(name):
    function, algebra = OWN[name]
    assert activation(function).algebra == algebra


KINKS = {
    "zero": {
        "tanh of relu": lambda a: jnp.tanh(jax.nn.relu(a)),
        "relu + z²": lambda a: jax.nn.relu(a) + a**2,
        "offset": lambda a: 1 + jax.nn.relu(a),
        "selu": jax.nn.selu,
        "relu6": jax.nn.relu6,
    },
    "elsewhere": {
        "hard tanh": jax.nn.hard_tanh,
        "hard swish": jax.nn.hard_swish,
        "clipped": lambda a: jnp.clip(a, -1 / 3, np.pi / 2),
        "beside a bend": lambda a: 0.1 * jax.nn.relu(a - 0.7) + jnp.tanh(5 * a),
    },
    None: {
        "steep": lambda a: jnp.tanh(20 * a),
        "steeper": lambda a: jnp.tanh(1000 * a),
        "gelu, whose tail cancels": jax.nn.gelu,
        "elu": jax.nn.elu,
        "kink of the slope": lambda a: jax.nn.relu(a) ** 2,
        "on both sides": jax.nn.soft_sign,
        "only to −3": lambda a: jnp.log(3 + a) - jnp.log(3.0),
    },
}


@pytest.mark.parametrize(("kink", "name"), [(k, name) for k in KINKS for name in KINKS[k]])
def test_kinks_of_a_function_of_your_own(kink, name):
    algebra = activation(KINKS[kink][name]).algebra
    assert algebra.kink == kink
    network = Layer(np.ones((2, 3)), np.ones((2, 1)), NeuronUnit(KINKS[kink][name]))
    assert network.kinked == (kink is not None)  # decides which solver is used


def test_kinks_are_found_where_they_are():
    places = np.random.default_rng(0).uniform(-7.5, 7.5, 20).round(1) + np.pi / 1000
    for place in places:
        found = kinks(lambda a, place=place: np.sin(3 * a) + 0.1 * np.maximum(a - place, 0.0))
        np.testing.assert_allclose(found, place, atol=3e-6)
        assert found.size


@pytest.mark.parametrize("threshold", [0.02, 0.1, 0.2, 0.25, 0.3])
def test_a_unit_that_is_silent_around_zero_has_no_order(threshold):
    one_sided = activation(lambda a: jax.nn.relu(a - threshold)).algebra
    soft = activation(lambda a: jnp.sign(a) * jax.nn.relu(jnp.abs(a) - threshold)).algebra
    assert (one_sided.order, soft.order) == (None, None)


def test_flatter_than_any_power_has_no_order():
    flat = lambda a: jnp.where(a == 0, 0.0, jnp.exp(-1 / jnp.where(a == 0, 1.0, a) ** 2))
    assert activation(flat).algebra.order is None


# Orders are measured at weights of 1e-5, so terms below 1e-13 are ignored.
ALMOST = {
    "homogeneous": (lambda a, e: jnp.where(a > 0, a + e * a**2, 0.0), "homogeneous", None),
    "linear": (lambda a, e: a + e * jnp.sin(a), "linear", False),
    "real": (lambda a, e: jnp.where(a > 0, (1 + e) * a, a), "homogeneous", "positive"),
    "even": (lambda a, e: a**2 + e * a**3, "even", False),
    "odd": (lambda a, e: jnp.tanh(a) + e * a**2, "odd", False),
    "zero": (lambda a, e: jnp.tanh(a) + e, "zero", False),
    "second order": (lambda a, e: a**2 + e * a, "order", 1),
    "third order": (lambda a, e: a**3 + e * a**2, "order", 2),
}


@pytest.mark.parametrize("departure", [1e-1, 1e-4, 1e-6])
@pytest.mark.parametrize("name", ALMOST)
def test_almost_is_not_taken_for_exactly(name, departure):
    function, what, truth = ALMOST[name]
    if what == "order":
        departure = max(departure, 1e-2)
    assert getattr(activation(lambda a: function(a, departure)).algebra, what) == truth
    exact = getattr(activation(lambda a: function(a, 0.0)).algebra, what)
    assert exact != truth


@given(
    scale=st.floats(-20, 6).map(lambda e: 10.0**e),
    sign=st.sampled_from((-1, 1)),
    row=st.sampled_from(SCALARS),
)
@settings(max_examples=25)
def test_algebra_does_not_depend_on_the_size_of_the_response(scale, sign, row):
    function = activation(row.choice).function
    assert activation(lambda a: sign * scale * function(a)).algebra == row.algebra


@given(st.lists(st.sampled_from((0.0, 0.5, -1.0, 2.0)), min_size=1, max_size=6).filter(any))
@settings(max_examples=40)
def test_algebra_of_a_polynomial_follows_from_its_coefficients(coefficients):
    """The coefficients of a polynomial tell all properties of its algebra."""
    c = np.array(coefficients)
    lowest = int(np.flatnonzero(c)[0])
    only_linear = bool(np.flatnonzero(c).tolist() == [1])
    expected = Algebra(
        zero=lowest > 0,
        homogeneous="real" if only_linear else None,
        linear=only_linear,
        even=not any(coefficients[1::2]),
        order=lowest,
        odd=not any(coefficients[0::2]),
    )
    found = measure_algebra(
        lambda u: np.polynomial.polynomial.polyval(u * np.linspace(-1.5, 1.5, 31), c),
        np.array([1.0, -0.7, 0.45, 1.3]),
    )
    assert found == expected


@pytest.mark.parametrize("p", [1, 2, 3, 4, 5])
def test_powers(p):
    a = power(p)
    assert a is power(p)
    assert a.power == a.algebra.order == p
    assert activation(lambda x: x**p).algebra == a.algebra
    u, x = np.array([0.3, -1.2]), np.array([0.7, 0.4])
    psi = NeuronUnit(a).features(jnp.asarray(x))
    assert psi.shape == (2,) * p
    np.testing.assert_allclose(NeuronUnit(a).response(psi[None], u), [(u @ x) ** p], rtol=1e-13)


def test_defects_are_the_departure_in_units_of_the_response():
    """Defects of σ(a) = a² at |u| ≤ 1 follow from α² − α and (u + u′)² − u² − u′²."""
    draws, two = np.array([1.0, -0.7, 0.45]), np.ones(2)
    found = measure_defects(lambda u: (u * np.linspace(-1, 1, 5)) ** 2, draws)
    assert found.zero == found.even == 0
    assert found.odd == pytest.approx(2)
    assert found.positive == pytest.approx(2.6**2 - 2.6)
    assert found.negative == pytest.approx(1.3**2 + 1.3)
    assert found.additive == pytest.approx(2 * 0.7)  # for u = 1 and u′ = −0.7
    offset = measure_defects(lambda u: 1 + 0 * u * two, draws)
    assert (offset.zero, offset.additive, offset.even) == (1, 1, 0)
    linear = measure_defects(lambda u: 3 * u * two, draws)
    assert linear.even == pytest.approx(2)
    assert linear.odd == 0
    # An infinite response beyond the sampled weights is an infinite defect.
    far = measure_defects(lambda u: np.where(np.abs(u * two) > 2, np.inf, u), draws)
    assert far.positive == np.inf


@each(ARCHITECTURES)
def test_inputs_for_given_weights(row):
    network = row.network()
    weight, read = network.u.shape[1:], network.v.shape[2:]
    shape = row.unit.input_shape(weight, read)
    assert (row.unit.weight_shape(shape), row.unit.read_shape(shape)) == (weight, read)


def test_a_function_is_measured_once_and_known_again():
    def mine(a):
        return jnp.arctan(a)

    assert activation(mine) is activation(mine)
    assert NeuronUnit(activation(mine)) == NeuronUnit(activation(mine))
    assert activation(mine).name == "mine"
    assert isinstance(activation(activation(mine)), Activation)


def test_a_unit_takes_its_activation_by_name_or_as_a_function():
    assert NeuronUnit("relu") == NeuronUnit(activation("relu"))
    assert NeuronUnit(jnp.arctan) == NeuronUnit(activation(jnp.arctan))
    assert hash(ConvolutionUnit("tanh", size=3)) == hash(
        ConvolutionUnit(activation("tanh"), size=3)
    )
    for unit in (NeuronUnit, ConvolutionUnit):
        with pytest.raises(ValueError, match="Unknown activation 'rleu'"):
            unit("rleu")


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("rleu", r"Unknown activation 'rleu'\. The names are: .*relu"),
        (jnp.log, "must be finite at weights of order one"),
        (jnp.sum, r"each entry to one number\. .* shape \(2025,\) has shape \(\)"),
        (jax.nn.softmax, "each entry by itself"),
        (lambda a: a - a.mean(), "each entry by itself"),
        (lambda a: "text", "could not be applied to an array"),
        (lambda a: np.maximum(a, 0.0) ** 2, "^The activation is written in NumPy.*use jax.numpy"),
    ],
)
def test_an_activation_that_is_none(choice, message):
    with pytest.raises(ValueError, match=message):
        activation(choice)


def test_a_function_of_pytorch_is_none():
    torch = pytest.importorskip("torch")
    for choice in (torch.relu, torch.nn.functional.gelu, torch.nn.GELU()):
        with pytest.raises(ValueError, match="PyTorch's functions"):
            activation(choice)


def test_bad_parameters_of_activations():
    from festina.networks import leaky_relu

    for exponent in (0, -1):
        with pytest.raises(ValueError, match=rf"whole number from 1 up, got {exponent}"):
            power(exponent)
    for slope in (0.0, 1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match="`slope` must lie between 0 and 1, got"):
            leaky_relu(slope)
    with pytest.raises(ValueError, match="at least three draws, got 2"):
        measure_algebra(np.sin, np.ones(2))


def test_single_precision_is_no_kink():
    assert not NeuronUnit(lambda a: jnp.tanh(a.astype(jnp.float32))).algebra.kinked


@pytest.mark.parametrize("name", ["relu", "tanh", "leaky-relu-0.1", "power-5"])
def test_a_function_under_a_name_of_ours_is_called_ones_own(name):
    """A user's function with a built-in name is renamed, so that saved networks load correctly."""
    ours = activation_named(name)
    mine = Activation(name, lambda a: jnp.sin(3 * a), activation(jnp.sin).algebra)
    assert ours is not None
    assert NeuronUnit(ours).activation.name == name
    assert NeuronUnit(mine).activation.name == f"own {name}"
    assert NeuronUnit(mine).activation.function is mine.function
    assert activation_named(f"own {name}") is None
    assert NeuronUnit(NeuronUnit(mine).activation) == NeuronUnit(mine)


def test_our_activations_are_the_same_however_they_are_asked_for():
    assert leaky_relu() == leaky_relu(0.1) == leaky_relu(slope=0.1) == activation("leaky-relu")
    assert power(2) == power(exponent=2) == activation("quadratic")
    assert leaky_relu(0.1) != leaky_relu(0.2)
    for made in (leaky_relu(slope=0.3), power(exponent=7)):
        assert NeuronUnit(made).activation.name == made.name
