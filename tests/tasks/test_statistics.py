"""Test statistics of tasks: compression by fixed features, and populations as limits of samples."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import festina
from festina.networks import (
    ConvolutionUnit,
    Layer,
    LinearAttentionUnit,
    NeuronUnit,
    SoftmaxAttentionUnit,
    activation,
    fully_connected,
    power,
)
from festina.tasks import _task, from_arrays, linear_teacher
from festina.tasks._task import Statistics
from helpers import (
    ARCHITECTURES,
    FIXED_FEATURES,
    POPULATIONS,
    each,
    half_loss,
    raw_statistics,
    unstructured,
)

RELU = NeuronUnit(activation("relu"))


def moments(statistics):
    """Return ⟨ψψᵀ⟩, ⟨yψᵀ⟩ and ⟨y²⟩, which determine the loss of a unit with fixed features."""
    psi = np.reshape(statistics.psi, (len(statistics.psi), -1))
    weighted = statistics.weight[:, None] * psi
    power = np.sum(statistics.weight[:, None] * statistics.y**2) + 2 * statistics.floor
    return weighted.T @ psi, statistics.y.T @ weighted, power


def padded(statistics, count):
    """Return statistics padded by samples of zero weight, so that all share one program."""
    more = count - len(statistics.psi)
    fill = lambda array: np.concatenate((array, np.zeros((more, *array.shape[1:]))))
    psi, y, weight = map(fill, statistics[:3])
    return Statistics(psi, y, weight, statistics.floor)


@functools.cache
def program(unit):
    """Return loss and gradient by the weights, compiled once for each kind of unit."""
    loss = lambda weights, statistics: half_loss(Layer(weights[0], weights[1], unit), statistics)
    return jax.jit(jax.value_and_grad(loss))


@pytest.mark.usefixtures("double")
@each(FIXED_FEATURES)
def test_compression_keeps_loss_and_gradient_for_any_weights(row):
    count = 90
    network = row.network()
    data = unstructured(row.input_shape, network.outputs, count)
    raw = raw_statistics(row.unit, data)
    small = data.statistics(row.unit)
    assert len(small.psi) < count
    small = padded(small, count)
    for scale in (1e-6, 0.3, 1.0, 20.0):
        weights = (scale * network.u, scale * network.v)
        loss, gradient = program(row.unit)(weights, small)
        expected, slope = program(row.unit)(weights, raw)
        np.testing.assert_allclose(loss, expected, rtol=1e-10)
        for one, other in zip(gradient, slope, strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-10 * np.abs(other).max())


@each(FIXED_FEATURES)
def test_compression_keeps_the_moments_however_few_the_samples(row):
    """Moments are exact for fewer samples than features and for repeated features x_a x_b."""
    for count in (1, 2):
        data = unstructured(row.input_shape, row.network().outputs, count, seed=count)
        found = data.statistics(row.unit)
        assert len(found.psi) == count
        for one, other in zip(moments(found), moments(raw_statistics(row.unit, data)), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-12 * np.abs(other).max())


@each(FIXED_FEATURES)
def test_moments_are_averages_over_the_samples(row):
    data = unstructured(row.input_shape, row.network().outputs, 40)
    found, raw = data.statistics(row.unit), raw_statistics(row.unit, data)
    second, cross, power = moments(raw)
    assert found.correlation.shape == (data.outputs, *raw.psi.shape[1:])
    cross = cross.reshape(found.correlation.shape)
    for one, other in (
        (found.covariance, second),
        (found.correlation, cross),
        (found.power, power),
    ):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12 * np.abs(other).max())


@pytest.mark.parametrize("name", ["linear", "linear-3-outputs", "quadratic", "attention"])
def test_the_floor_is_the_loss_of_least_squares(name):
    row = next(row for row in ARCHITECTURES if row.name == name)
    rng = np.random.default_rng(0)
    outputs = row.network().outputs
    noisy = unstructured(row.input_shape, outputs, 60)
    raw = raw_statistics(row.unit, noisy)
    root = np.sqrt(noisy.weight)[:, None]
    psi, y = root * raw.psi.reshape(60, -1), root * raw.y
    best = np.linalg.lstsq(psi, y, rcond=None)[0]
    expected = 0.5 * np.sum((y - psi @ best) ** 2)
    np.testing.assert_allclose(noisy.statistics(row.unit).floor, expected, rtol=1e-11)
    # The floor is exactly zero if features explain the targets, and small if they nearly do.
    unit = (
        LinearAttentionUnit(residual=False)
        if isinstance(row.unit, LinearAttentionUnit)
        else row.unit
    )
    explained = raw.psi.reshape(60, -1) @ rng.standard_normal((psi.shape[1], outputs))
    assert from_arrays(noisy.x, explained).statistics(unit).floor == 0.0
    almost = from_arrays(noisy.x, explained + 1e-4 * raw.y, weight=noisy.weight).statistics(unit)
    np.testing.assert_allclose(almost.floor, 1e-8 * expected, rtol=1e-4)


@each(FIXED_FEATURES)
def test_cost_does_not_depend_on_the_number_of_samples(row):
    few, many = (
        unstructured(row.input_shape, row.network().outputs, count).statistics(row.unit)
        for count in (90, 3000)
    )
    assert few.psi.shape == many.psi.shape
    assert few.y.shape == many.y.shape
    assert len(many.psi) <= many.psi[0].size


@each(row for row in ARCHITECTURES if not row.unit.fixed_features)
def test_without_fixed_features_the_samples_are_kept(row):
    data = unstructured(row.input_shape, row.network().outputs, 90)
    found = data.statistics(row.unit)
    for one, other in zip(found[:4], raw_statistics(row.unit, data)[:4], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-15)


def test_the_residual_connection_is_part_of_the_targets():
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((50, 3, 4)), rng.standard_normal((50, 2))
    for make in (LinearAttentionUnit, SoftmaxAttentionUnit):
        plain = from_arrays(x, y - x[:, -2:, -1]).statistics(make(residual=False))
        skipped = from_arrays(x, y).statistics(make(residual=True))
        for one, other in zip(plain[:4], skipped[:4], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
        assert not np.allclose(skipped.y, from_arrays(x, y).statistics(make(residual=False)).y)


@pytest.mark.parametrize("size", [1e-3, 1e-5, 1e-8])
@pytest.mark.parametrize("count", [5, 200])
def test_compression_of_inputs_of_very_different_size(size, count):
    """A weak input keeps its regression coefficient.

    Moments contain its size squared, so they would determine it to 1e-16/size² at best.
    """
    rng = np.random.default_rng(2)
    x = rng.standard_normal((count, 3)) * np.array([1.0, 1.0, size])
    y = x @ np.array([1.0, -1.0, 1 / size])
    found = from_arrays(x, y).statistics(NeuronUnit())
    assert len(found.psi) == 3
    assert found.floor == 0.0
    best = np.linalg.lstsq(found.psi, found.y, rcond=1e-15)[0][:, 0]
    np.testing.assert_allclose(best * [1, 1, size], [1, -1, 1], rtol=1e-14 / size + 1e-13)


def test_a_weak_input_is_not_lost_among_many_samples():
    x = np.random.default_rng(6).standard_normal((40_000, 2)) * np.array([1.0, 1e-12])
    found = from_arrays(x, x @ np.array([1.0, 1e12])).statistics(NeuronUnit())
    assert len(found.psi) == 2
    assert found.floor == 0.0


def test_inputs_that_depend_on_each_other_do_so_among_many_samples():
    rng = np.random.default_rng(7)
    for count in (10, 1000, 1_000_000):
        x = rng.standard_normal((count, 1)) * np.array([1.0, np.pi])
        assert len(from_arrays(x, rng.standard_normal(count)).statistics(NeuronUnit()).psi) == 1


@pytest.mark.parametrize("most_work", [1e10, 0])
def test_inputs_that_are_all_zero_teach_nothing(most_work, monkeypatch):
    monkeypatch.setattr(_task, "_MOST_WORK", most_work)
    data = from_arrays(np.zeros((5, 2)), np.ones(5))
    psi, y, weight, floor, _ = data.statistics(NeuronUnit())
    np.testing.assert_array_equal(psi, [[0.0, 0.0]])
    np.testing.assert_array_equal(y, [[0.0]])
    np.testing.assert_array_equal(weight, [1.0])
    assert floor == pytest.approx(0.5, rel=1e-15)
    run = festina.gradient_flow(fully_connected(2, 3, key=jax.random.key(0)), data)
    assert run.loss[-1] == pytest.approx(0.5, rel=1e-15)
    assert run.endings[0].reason == "stationary"


def test_a_loss_far_below_rounding_of_the_targets_is_still_a_floor():
    rng = np.random.default_rng(4)
    x, noise = rng.standard_normal((50, 3)), rng.standard_normal(50)
    unexplained = noise - x @ np.linalg.lstsq(x, noise, rcond=None)[0]
    found = from_arrays(x, x @ np.ones(3) + 1e-9 * unexplained).statistics(NeuronUnit())
    np.testing.assert_allclose(found.floor, 0.5e-18 * np.mean(unexplained**2), rtol=1e-5)


@pytest.mark.parametrize("limits", [{"_CHUNK": 64}, {"_MOST_WORK": 0}, {"_CHUNK": 1}])
def test_samples_in_chunks_and_by_moments_are_the_same_statistics(limits, monkeypatch):
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((333, 4)), rng.standard_normal((333, 2))
    weight = rng.random(333)
    expected = moments(from_arrays(x, y, weight=weight).statistics(NeuronUnit(power(2))))
    for name, value in limits.items():
        monkeypatch.setattr(_task, name, value)
    found = from_arrays(x, y, weight=weight).statistics(NeuronUnit(power(2)))
    assert found.psi.shape == (10, 4, 4)
    for one, other in zip(moments(found), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-13 * np.abs(other).max())


def test_outputs_count_as_features_do(monkeypatch):
    """Outputs are columns like features, in the estimated work and in the size of chunks."""
    rng = np.random.default_rng(8)
    x, y = rng.standard_normal((333, 2)), rng.standard_normal((333, 18))
    sizes = []
    qr = np.linalg.qr
    monkeypatch.setattr(np.linalg, "qr", lambda a, mode: sizes.append(a.size) or qr(a, mode=mode))
    monkeypatch.setattr(_task, "_CHUNK", 1000)
    from_arrays(x, y).statistics(NeuronUnit())
    assert max(sizes) <= 1000 + 20 * 20
    sizes.clear()
    monkeypatch.setattr(_task, "_MOST_WORK", 333 * 20**2 - 1)
    from_arrays(x, y).statistics(NeuronUnit())
    assert not sizes  # moments are used instead of QR


def test_more_features_than_fit_are_refused_before_they_are_made():
    """Fifty samples of 300³ features would take 11 GB."""
    data = from_arrays(np.ones((50, 300)), np.ones(50))
    with pytest.raises(ValueError, match=r"27000000 features of each input.* numbers, too many"):
        data.statistics(NeuronUnit(power(3)))
    own = data.statistics(NeuronUnit(activation(lambda a: a**3)))
    assert own.psi.shape == (50, 300)


def test_weights_of_samples():
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((6, 2)), rng.standard_normal((6, 1))
    twice = from_arrays(np.concatenate((x, x[:2])), np.concatenate((y, y[:2])))
    weighted = from_arrays(x, y, weight=[2.0, 2, 1, 1, 1, 1])
    np.testing.assert_allclose(weighted.weight.sum(), 1)
    for unit in (NeuronUnit(), NeuronUnit(power(2))):
        for one, other in zip(
            moments(twice.statistics(unit)), moments(weighted.statistics(unit)), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
    silent = from_arrays(
        np.concatenate((x, 1e3 * x)), np.tile(y, (2, 1)), weight=[1.0] * 6 + [0.0] * 6
    )
    for one, other in zip(
        moments(silent.statistics(NeuronUnit())),
        moments(from_arrays(x, y).statistics(NeuronUnit())),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_statistics_are_computed_once_for_each_kind_of_unit():
    data = linear_teacher(np.eye(2), nodes=3)
    assert data.statistics(NeuronUnit()) is data.statistics(NeuronUnit())
    assert data.statistics(ConvolutionUnit(size=2)) is data.statistics(ConvolutionUnit(size=2))
    assert data.statistics(NeuronUnit()) is not data.statistics(NeuronUnit(power(2)))
    assert linear_teacher(np.eye(2)).statistics(NeuronUnit()) is not data.statistics(NeuronUnit())


SAMPLES = 2**16
LIMITS = [
    row
    for row in POPULATIONS
    # The omitted rows differ only in the activation, or have their own test by brute force.
    if row.name in ("linear-3-outputs", "quadratic", "relu", "tanh-2-outputs")
    or row.name in ("conv-linear-2/2", "conv-quadratic-2/3", "conv-tanh-2/1")
    or row.name in ("attention", "attention-rank-2-raw")
]


@pytest.mark.slow
@pytest.mark.usefixtures("double")
@each(LIMITS)
def test_a_population_is_the_limit_of_samples(row):
    """The mean over P samples has an error of order P^(-1/2) and no bias."""
    network = row.network(scale=0.5)
    population = row.population()
    assert population.samples is None
    exact = half_loss(network, population.statistics(row.unit))

    data = row.samples(SAMPLES, seed=4)
    assert (data.samples, data.input_shape[0]) == (SAMPLES, population.input_shape[0])
    outputs = np.asarray(jax.jit(lambda x: jax.vmap(network)(x))(jnp.asarray(data.x)))
    losses = 0.5 * np.sum((data.y - outputs) ** 2, axis=1)
    spread = losses.std()
    assert abs(losses.mean() - exact) < 4 * spread / np.sqrt(SAMPLES)

    def error(count):
        means = losses.reshape(-1, count).mean(axis=1)
        return np.sqrt(np.mean((means - exact) ** 2))

    # For 64 times as many samples the error is 8 times smaller.
    np.testing.assert_allclose(error(4) / error(256), 8.0, rtol=0.25)
