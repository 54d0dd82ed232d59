"""Test networks as chains, and training time against depth."""

import numpy as np
import pytest
import xarray as xr

import festina
from experiments import altered, at_small_parameters, broken
from festina.papers.linear.chains import _chains as chains
from festina.papers.linear.chains import _depth as depth
from festina.theory.linear import learning_time_by_depth
from small import SMALL

# Chains


@pytest.mark.slow
def test_random_weights_are_those_of_their_seed():
    small = {**SMALL["linear/chains"], "seed": 300, "depths": (2,), "scales": (0.1, 0.05)}
    alone, many = (
        chains.run(chains.Parameters(**{**small, "seeds": seeds}))["random"].sel(seed=300)
        for seeds in (1, 2)
    )
    # Frames and weights are the same; only the grid of the interpolation differs.
    np.testing.assert_allclose(alone["half_time_trained"], many["half_time_trained"], rtol=1e-3)


@pytest.mark.slow
def test_deep_networks_learn_in_stages():
    run = chains.run(chains.Parameters(**SMALL["linear/chains"]))
    overlap = run["decoupled"]["overlap"].sel(input="white").transpose("depth", "earlier").values
    # One half, up to the initial strength a₀
    np.testing.assert_allclose(overlap[0], 0.5, atol=5e-3)
    assert (overlap[1:] < 0.1).all()
    assert (np.diff(overlap, axis=0) < 0).all()  # deeper networks have less overlap
    late = altered(run, "random", "half_time_trained", lambda t: 1.2 * t, scale=0.01)
    assert len(broken(chains, late)) == 1


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"singular_values": (2.0, 1.9)}, "at least a fifth below"),
        ({"singular_values": (2.0,)}, "two or more"),
        ({"input_variances": (1.0, 1.0)}, "one for each singular value"),
        ({"width": 3}, "at least 4, the number of modes"),
        ({"initial_strength": 0.9}, "a quarter of the weakest target"),
        ({"depths": (1, 2)}, "from 2 up"),
        ({"scales": (0.01, 0.1)}, "decreasing"),
        ({"scales": (0.5, 0.1)}, "half contain the weakest mode"),
    ],
)
def test_bad_parameters_of_chains(bad, words):
    with pytest.raises(ValueError, match=words):
        chains.Parameters(**bad)


# Depth


def test_times_of_small_weights():
    """Times from b₀ = 0.5 to 0.9 s: depths 4, 6, …, 12 at s = 1, then s = 1, 2, 4, 8 at depth 8."""
    times = [9.0179, 26.4257, 88.7639, 324.3204, 1233.9599]
    np.testing.assert_allclose(depth._small(depth.Parameters())["time"], times, rtol=1e-4)
    for s, product in zip((1.0, 2.0, 4.0, 8.0), (88.764, 87.468, 86.650, 86.140), strict=True):
        seen = depth.integrate(0.5, 8, s, 0.9)
        assert s * seen == pytest.approx(product, rel=1e-4)
        assert seen == pytest.approx(learning_time_by_depth([8], 0.5, correlation=s)[0], rel=1e-5)


def test_times_of_modules():
    """Times from b₀ = 0.1, 0.05, 0.025 to 0.99."""
    time = depth._pretrained(depth.Parameters())["modules"]["time"]
    np.testing.assert_allclose(time.sel(module=2), [4.5951, 5.2920, 5.9861], rtol=1e-4)
    np.testing.assert_allclose(time.sel(module=4), [50.989, 200.993, 800.994], rtol=1e-4)


def test_times_of_orthogonal_layers():
    """Times for s = 2 to 0.99 s, at depths 2, 4, 8, 16, 64, 256 and infinity."""
    times = [2.2976, 1.7826, 1.5757, 1.4828, 1.4173, 1.4015, 1.3963]
    found = [depth.integrate(1.0, layers, 2.0, 0.99) for layers in depth._ORTHOGONAL]
    np.testing.assert_allclose(found, times, rtol=1e-4)


@pytest.mark.slow
def test_time_is_linear_in_depth_only_where_pretraining_takes_it():
    """Tuning to s = 0.3 takes as long as some modules, so no claim is made about the sum."""
    tuned = {**SMALL["linear/depth"], "correlation": 0.3, "layer_strength": 0.2}
    run = depth.run(depth.Parameters(**tuned))
    assert broken(depth, run) == []
    assert "pretraining-linear-in-depth" not in {claim.id for claim in depth.claims(run)}


@pytest.mark.slow
def test_claims_on_depth_are_the_same_at_every_layer_strength():
    _, run = at_small_parameters("linear/depth")
    other = depth.Parameters(**SMALL["linear/depth"], layer_strength=0.3)
    weaker = run.copy()
    weaker.attrs["parameters"] = other.model_dump_json()
    weaker["small"] = xr.DataTree(depth._small(other))
    words, weak = ({claim.id: claim.words for claim in depth.claims(r)} for r in (run, weaker))
    assert weak.keys() == words.keys()
    assert weak["small-weights-time"] != words["small-weights-time"]


def test_random_products_are_rotations_and_the_same_at_every_depth():
    rotations = festina.networks.orthogonal((3,) * 5, key=festina.seeds(6)).weights
    product = depth.proper(np.asarray(rotations[-1]))
    np.testing.assert_allclose(np.linalg.det(product), 1.0)
    for layers in (2, 4):
        weights = depth.with_product([np.asarray(w) for w in rotations[: layers - 1]], product)
        assert len(weights) == layers
        whole = festina.networks.DeepLinear(tuple(weights)).end_to_end()
        np.testing.assert_allclose(whole, product, atol=1e-12)


def test_a_chain_that_has_learned_takes_no_time():
    assert depth.integrate(0.99, 4, 1.0, 0.9) == 0.0
    assert depth.integrate(1.01, 4, 1.0, 0.9) == 0.0
    # One layer from above: a(t) = s + (a₀ − s) e^{−t}.
    assert depth.integrate(3.0, 1, 1.0, 0.9) == pytest.approx(np.log(2 / 0.1), rel=1e-8)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"layer_strength": 0.95}, "less than or equal to 0.9"),
        ({"correlation": 0.5}, "`layer_strength` must be below"),
        ({"depths": (2, 4)}, "2 or more increasing numbers from 3 up"),
        ({"depths": (4, 40)}, "use fewer layers"),
        ({"network_depths": (4,)}, "2 or more increasing numbers from 2 up"),
        ({"gaussian_depths": (3, 2)}, "2 or more increasing numbers from 2 up"),
        ({"gain": 1.5}, "less than 1"),
    ],
)
def test_bad_parameters_of_depth(bad, words):
    with pytest.raises(ValueError, match=words):
        depth.Parameters(**bad)
