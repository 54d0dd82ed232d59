"""Test one huge weight: errors stay relative, and only the network with that weight may fail."""

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import festina
from festina import gradient_descent, gradient_flow
from festina.networks import Layer, fully_connected
from festina.tasks import from_arrays

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 2))
DATA = from_arrays(X, RNG.normal(size=(8, 2)))
TIMES = np.array([0.0, 1.0, 4.0])


def spoilt(network: Layer, name: str, value: float) -> Layer:
    """Return a copy with another value for one weight of the first network."""
    weights = {"u": np.array(network.u), "v": np.array(network.v)}
    weights[name].flat[3] = value
    return Layer(**weights, unit=network.unit)


def drawn(activation: str, key=None) -> Layer:
    key = jax.random.key(0) if key is None else key
    return fully_connected(2, 4, 2, activation=activation, scale=0.3, key=key)


@pytest.mark.parametrize("value", [1e4, 1e8, 1e200])
def test_a_saturated_unit_leaves_others_their_accuracy(value):
    """The weights of the saturated unit hardly move, so SciPy's integrator gives a reference."""
    network = spoilt(drawn("tanh"), "u", value)
    u, v = network.u, network.v

    def velocity(_, weights):
        u, v = weights[:8].reshape(4, 2), weights[8:].reshape(4, 2)
        a = np.tanh(X @ u.T)
        e = (DATA.y - a @ v) / len(X)
        back = (e @ v.T) * (1 - a**2)
        return np.concatenate(((back.T @ X).ravel(), (a.T @ e).ravel()))

    start = np.concatenate((u.ravel(), v.ravel()))
    exact = solve_ivp(velocity, (0, 4.0), start, t_eval=TIMES, rtol=1e-11, atol=1e-12).y
    found = gradient_flow(network, DATA, TIMES).network
    np.testing.assert_allclose(found.v.reshape(3, -1), exact[8:].T, rtol=0, atol=1e-6)


@pytest.mark.parametrize("value", [1e4, 1e6, 1e8])
def test_the_loss_of_a_stiff_flow_never_rises(value):
    flow = gradient_flow(spoilt(drawn("linear"), "u", value), DATA, max_steps=2000)
    rises = np.diff(flow.loss)
    assert rises.max() < 1e-7 * (flow.loss[-1] + 1.0)
    assert flow.loss[-1] < 2.0 < flow.loss[0]
    (ending,) = flow.endings
    assert ending.reason == "out of steps"
    assert "`solver='implicit'`" in ending.message


@pytest.mark.parametrize("name", ["u", "v"])
@pytest.mark.parametrize("value", [1e200, 1e300])
def test_only_the_lane_with_the_huge_weight_fails(name, value):
    networks = drawn("linear", festina.seeds(3))
    for train in (
        lambda batch: gradient_flow(batch, DATA, t_end=1.0),
        lambda batch: gradient_descent(batch, DATA, 0.1, 10),
    ):
        run, whole = train(spoilt(networks, name, value)), train(networks)
        assert [ending.reason for ending in run.endings] == ["diverged", "finished", "finished"]
        assert "so large that the loss overflows" in run.endings[0].message
        for lane in (1, 2):
            assert run.lane(lane).loss[-1] == pytest.approx(whole.lane(lane).loss[-1], rel=1e-7)


def test_networks_that_do_not_fit_into_memory_are_refused():
    with pytest.raises(ValueError, match=r"4e\+12 weights and need .* GiB"):
        fully_connected(3, 10**12, key=jax.random.key(0))


def test_an_empty_batch_is_refused():
    keys = festina.seeds(3)
    with pytest.raises(ValueError, match="at least one network or key, got an empty batch"):
        fully_connected(2, 3, key=keys[:0])
    none = jax.tree.map(lambda leaf: leaf[:0], drawn("linear", keys))
    for train in (
        lambda: gradient_flow(none, DATA),
        lambda: gradient_descent(none, DATA, 0.1),
        lambda: none.predict(X),
    ):
        with pytest.raises(ValueError, match="got an empty batch"):
            train()
