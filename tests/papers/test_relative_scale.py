"""Test grokking and relative scale at small parameters."""

import functools
import json

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import festina
from experiments import written
from festina.papers.linear.balanced import _relative_scale as experiment
from festina.tasks import modular_addition

# Minutes of compilation; the solutions themselves are tested in theory.
pytestmark = pytest.mark.slow

WAYS = ["embedding", "both", "readout", "exchange"]
# With so few pairs networks do not generalise; the level of accuracy is lowered instead.
TINY = {
    "modulus": 5,
    "width": 10,
    "scale": 0.3,
    "train_fraction": 0.8,
    "grokked": 0.3,
    "t_end": 60.0,
    "seeds": 5,
}
SMALLEST = {"modulus": 3, "width": 3, "scale": 0.4, "train_fraction": 0.6, "t_end": 20.0}


@functools.cache
def tiny():
    parameters = experiment.Parameters(**TINY, factors=(1.0, 0.7, 0.5), seed=40)
    return experiment.run(parameters)


def verdicts(run):
    return {claim.id: claim.verdict for claim in experiment.claims(run)}


def altered(run, **times):
    """Return the run with early fit times, and the given times to grok at the smallest factor."""
    copy = run.copy(deep=True)
    copy["simulation"]["fit_time"][...] = 5.0
    for way, time in times.items():
        copy["simulation"]["grok_time"].loc[{"way": way, "factor": 0.5}] = time
    return copy


# The networks


def test_ways_differ_in_relative_scale_at_equal_function():
    parameters = experiment.Parameters(**json.loads(tiny().attrs["parameters"]))
    network = experiment._scaled(parameters, jax.random.key(3))
    x = modular_addition(5, 0.8, key=jax.random.key(0))[0].x
    f = network.predict(x).reshape(4, 3, len(x), 5)
    for way, power in zip(f, (2, 2, 2, 0), strict=True):
        for outputs, factor in zip(way, (1.0, 0.7, 0.5), strict=True):
            np.testing.assert_allclose(outputs, factor**power * f[0, 0], rtol=1e-10)
    u, v = (part.reshape(4, 3, *part.shape[1:]) for part in (network.u, network.v))
    sizes = [np.linalg.norm(part, axis=(2, 3)) for part in (u, v)]
    relative = (sizes[0] / sizes[1]) / (sizes[0] / sizes[1])[:, :1]
    np.testing.assert_allclose(relative, tiny()["simulation"]["relative_scale"], rtol=1e-12)
    np.testing.assert_allclose(relative[1], 1)


def test_the_flow_against_scipy():
    """Integrate one network of the batch from its initial weights by SciPy."""
    parameters = experiment.Parameters(**SMALLEST, factors=(1.0, 0.6), seeds=1, seed=7, rtol=1e-9)
    data = experiment.run(parameters)["simulation"].sel(seed=7, way="exchange", factor=0.6)
    pairs_key, weights_key = jax.random.split(festina.seeds(1, first=7)[0])
    train, test = modular_addition(3, 0.6, key=pairs_key)
    network = experiment._scaled(parameters, weights_key)
    u, v = network.u[-1], network.v[-1]

    def outputs(theta, x):
        return (x @ theta[: u.size].reshape(u.shape).T) ** 2 @ theta[u.size :].reshape(v.shape)

    def velocity(_, theta):
        a, b = theta[: u.size].reshape(u.shape), theta[u.size :].reshape(v.shape)
        z = train.x @ a.T
        error = (train.y - z**2 @ b) / train.samples
        back = 2 * z * (error @ b.T)
        return np.concatenate(((back.T @ train.x).ravel(), (z**2).T.dot(error).ravel()))

    times = data["time"].to_numpy()
    start = np.concatenate((u.ravel(), v.ravel()))
    flow = solve_ivp(velocity, (0, times[-1]), start, t_eval=times, rtol=1e-11, atol=1e-13)
    found = [outputs(theta, train.x) for theta in flow.y.T]
    loss = [0.5 * np.mean(np.sum((train.y - f) ** 2, axis=1)) for f in found]
    np.testing.assert_allclose(data["train_loss"].to_numpy(), loss, rtol=1e-5, atol=1e-9)
    for name, part in (("train", train), ("test", test)):
        right = [
            np.mean(outputs(theta, part.x).argmax(1) == part.y.argmax(1)) for theta in flow.y.T
        ]
        np.testing.assert_array_equal(data[f"{name}_accuracy"].to_numpy(), right)


def test_what_units_conserve_drifts_by_the_error_of_the_integrator():
    drift = [
        float(
            experiment.run(experiment.Parameters(**SMALLEST, seeds=1, rtol=rtol))["simulation"][
                "balance_drift"
            ]
            .to_numpy()
            .max()
        )
        for rtol in (1e-3, 1e-5, 1e-7)
    ]
    assert drift[0] > 10 * drift[1] > 100 * drift[2]
    assert drift[2] < 1e-5


# The run


def test_axes_and_ranges():
    data = tiny()["simulation"]
    assert dict(data.sizes) == {"seed": 5, "way": 4, "factor": 3, "time": len(data["time"])}
    assert data["way"].to_numpy().tolist() == WAYS
    assert data["seed"].to_numpy().tolist() == [40, 41, 42, 43, 44]
    for name in ("train_accuracy", "test_accuracy"):
        assert ((data[name] >= 0) & (data[name] <= 1)).all()
    for each in data.data_vars.values():
        start = each.sel(factor=1.0)
        np.testing.assert_array_equal(start, start.sel(way=["embedding"] * 4))
    made = experiment.Parameters(**json.loads(tiny().attrs["parameters"]))
    assert made.seed == 40
    assert tiny().attrs["experiment"] == "linear/relative-scale"


def test_times_are_the_first_at_which_the_level_is_reached():
    data = tiny()["simulation"]
    for time, accuracy, level in (
        ("fit_time", "train_accuracy", 0.99),
        ("grok_time", "test_accuracy", 0.3),
    ):
        reached = data[time].notnull()
        assert reached.any()
        before = data[accuracy].where(data["time"] < data[time])
        assert not (before >= level).any()
        then = data[accuracy].where(data["time"] == data[time]).max("time")
        assert ((then >= level) == reached).all()
        never = data[accuracy].max("time").where(~reached, 0.0)
        assert (never < level).all()


def test_a_seed_does_not_depend_on_how_many_are_trained():
    parameters = experiment.Parameters(**TINY | {"seeds": 1}, factors=(1.0, 0.7, 0.5), seed=41)
    alone = experiment.run(parameters)["simulation"]
    together = tiny()["simulation"].sel(seed=[41])
    np.testing.assert_allclose(alone["train_loss"], together["train_loss"], rtol=1e-6)
    np.testing.assert_array_equal(alone["grok_time"], together["grok_time"])


@pytest.mark.parametrize("factors", [(1.0,), (0.5, 1.0), (1.0, 1.0), (1.0, 0.0), (2.0, 1.0)])
def test_factors_that_cannot_be(factors):
    with pytest.raises(ValueError, match="`factors` must decrease from 1"):
        experiment.Parameters(factors=factors)


# Claims


@pytest.mark.slow
@pytest.mark.parametrize("seed", [100, 200])
def test_no_claim_is_broken_on_fresh_seeds(seed):
    """The default verdicts do not depend on the seed."""
    run = experiment.run(experiment.Parameters(seed=seed))
    assert run["simulation"]["fit_time"].notnull().all()
    claims = experiment.claims(run)
    assert [claim.id for claim in claims if claim.broken] == []
    unexpected = [claim for claim in claims if claim.expected == "does not hold"]
    assert len(unexpected) == 2
    assert {claim.verdict for claim in unexpected} == {"does not hold"}


def test_claims_are_json_and_follow_from_the_numbers():
    assert written(experiment, tiny())
    names = alone, versus, _ = "relative-scale-alone", "embedding-or-readout", "embedding-or-both"
    apart = np.array([0.9, 1.0, 1.0, 1.0, 1.1])
    slow = altered(tiny(), embedding=10.0, both=10 * apart, readout=np.nan, exchange=np.nan)
    slow["simulation"]["grok_time"].loc[{"factor": 1.0}] = 20.0
    found = verdicts(slow)
    assert [found[name] for name in names] == ["does not hold", "holds", "does not hold"]
    fast = altered(slow, both=30 * apart, readout=5.0, exchange=5.0)
    found = verdicts(fast)
    assert [found[name] for name in names] == ["holds", "does not hold", "holds"]
    # Seeds that did not grok count with the end of training, 60.
    measured = {claim.id: claim.measured for claim in experiment.claims(slow)}
    assert measured[alone] == pytest.approx(20 / 60)
    assert measured[versus] == pytest.approx(60 / 10)


def test_nothing_is_compared_where_runs_cannot_tell():
    id = "smaller-embedding-sooner"
    assert id in verdicts(altered(tiny(), embedding=10.0))
    assert id not in verdicts(altered(tiny(), embedding=np.nan))
    assert id not in verdicts(altered(tiny(), embedding=10.0).isel(seed=slice(4)))
    late = tiny().copy(deep=True)
    late["simulation"]["fit_time"].to_numpy()[...] = 30.0
    assert len(verdicts(late)) == 1
