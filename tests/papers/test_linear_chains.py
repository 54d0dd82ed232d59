"""Whole networks as chains, and training time against depth."""

import numpy as np
import pytest

import festina
from experiments import altered, broken, is_labelled, is_whole, once, reloaded
from festina.papers.linear.chains import _chains as chains
from festina.papers.linear.chains import _chains_claims
from festina.papers.linear.chains import _depth as depth

SMALL = {
    chains: {
        "singular_values": (4.0, 1.5),
        "input_variances": (0.6, 1.8),
        "width": 3,
        "depths": (2, 3),
        "initial_strength": 0.01,
        "scales": (0.1, 0.01),
        "seeds": 4,
        "seed": 300,
    },
    depth: {
        "depths": (4, 7),
        "layer_strength": 0.6,
        "correlation": 1.4,
        "module_strength": 0.15,
        "orthogonal_correlation": 3.0,
        "size": 3,
        "network_depths": (2, 4),
        "gaussian_depths": (2, 4),
        "gain": 0.6,
        "seeds": 9,
        "seed": 300,
    },
}

each = pytest.mark.parametrize("experiment", [chains, depth], ids=["chains", "depth"])
# A minute of compilation; chains and times themselves are tested in theory/linear.
pytestmark = pytest.mark.slow


small = once(SMALL)


# Both


@pytest.mark.slow
@each
def test_no_claim_is_broken_by_default(experiment):
    assert broken(experiment, experiment.run(experiment.Parameters())) == []


@each
def test_no_claim_is_broken(experiment):
    assert len(experiment.claims(small(experiment))) > 10
    assert broken(experiment, small(experiment)) == []


@each
def test_a_saved_run_gives_the_same_claims(experiment, tmp_path):
    again = reloaded(experiment, small(experiment), tmp_path)
    assert len(experiment.draw(again).axes) == 3


@each
def test_the_figure_is_legible(experiment):
    figure = experiment.draw(small(experiment))
    assert is_whole(figure)
    assert is_labelled(figure, "xlabel", "title")
    for ax in figure.axes:
        assert ax.get_legend() is not None or ax is figure.axes[1]


# Chains


def test_shallow_learns_at_once_and_deep_in_stages():
    data = small(chains)["decoupled"].to_dataset().sel(input="white")
    overlap = data["overlap"].transpose("depth", "earlier").values
    np.testing.assert_allclose(overlap[0], 0.5, atol=5e-3)  # a₀ is there from the start
    assert (overlap[1:] < 0.1).all()
    assert (np.diff(overlap, axis=0) < 0).all()  # the deeper, the sharper


def test_random_weights_are_those_of_their_seed():
    few = {"seeds": 1, "scales": (0.1, 0.05), "depths": (2,)}
    alone = chains.run(chains.Parameters(**SMALL[chains] | few))
    one = alone["random"]["half_time_trained"].sel(scale=0.1, seed=300)
    many = small(chains)["random"]["half_time_trained"].sel(scale=0.1, seed=300)
    # Frames and weights are the same; only the grid of the interpolation is another.
    np.testing.assert_allclose(one, many, rtol=1e-3)


@pytest.mark.parametrize(
    ("group", "name", "change", "where", "words"),
    [
        ("decoupled", "strength", lambda a: a * (1 + 1e-6), {"depth": 3}, "depth 3, decoupled"),
        ("decoupled", "leak", lambda a: a + 1e-6, {}, "stay decoupled"),
        ("random", "half_time_trained", lambda t: 1.2 * t, {"scale": 0.01}, "come later"),
        ("random", "balanced_error", lambda e: 5 * e, {"scale": 0.01}, "power of the scale"),
        ("random", "balanced_error", lambda e: 1e3 * e, {}, "which is nearer"),
    ],
)
def test_data_that_differ_break_the_claim(group, name, change, where, words):
    found = broken(chains, altered(small(chains), group, name, change, **where))
    assert len(found) == 1
    assert words in found[0]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"singular_values": (2.0, 1.9)}, "each a fifth below"),
        ({"singular_values": (2.0,)}, "two or more"),
        ({"input_variances": (1.0, 1.0)}, "one for each singular value"),
        ({"width": 3}, "at least 4, the number of modes"),
        ({"initial_strength": 0.9}, "a quarter of the weakest target"),
        ({"depths": (1, 2)}, "from 2 up"),
        ({"scales": (0.01, 0.1)}, "falling"),
        ({"scales": (0.5, 0.1)}, "half learned by chance"),
    ],
)
def test_bad_parameters_of_chains(bad, words):
    with pytest.raises(ValueError, match=words):
        chains.Parameters(**bad)


def test_the_module_of_claims_has_the_name_of_the_experiment():
    assert _chains_claims.NAME == chains.NAME == small(chains).attrs["experiment"]


# Depth


def test_times_of_small_weights():
    """s = 1, b₀ = 0.5, to 0.9 s, at depths 4, 6, …, 12; then at depth 8 for s = 1, 2, 4, 8."""
    data = depth._small(depth.Parameters())
    times = [9.0179, 26.4257, 88.7639, 324.3204, 1233.9599]
    np.testing.assert_allclose(data["time"], times, rtol=1e-4)
    product = data["time_at_eight"] * data["correlation"]
    np.testing.assert_allclose(product, [88.764, 87.468, 86.650, 86.140], rtol=1e-4)


def test_times_of_modules():
    """From b₀ = 0.1, 0.05, 0.025 to 0.99."""
    data = depth._modules(depth.Parameters())
    np.testing.assert_allclose(data["time"].sel(module=2), [4.5951, 5.2920, 5.9861], rtol=1e-4)
    np.testing.assert_allclose(data["time"].sel(module=4), [50.989, 200.993, 800.994], rtol=1e-4)


def test_times_of_orthogonal_layers():
    """s = 2 to 0.99 s, at depths 2, 4, 8, 16, 64, 256 and infinity."""
    times = [2.2976, 1.7826, 1.5757, 1.4828, 1.4173, 1.4015, 1.3963]
    data = depth._orthogonal(depth.Parameters())
    np.testing.assert_allclose(data["time"], times, rtol=1e-4)


@pytest.mark.parametrize(
    ("group", "name", "change", "words"),
    [
        ("small", "time", lambda t: 1.001 * t, "small weights: time to learn"),
        ("small", "far_time_stronger", lambda t: 1.1 * t, "as a power of s"),
        ("networks", "aligned", lambda t: 1.01 * t, "aligned with the task"),
        ("networks", "rotated", lambda t: t * t["depth"], "with depth the time"),
        ("gaussian", "time", lambda t: t / t["depth"] ** 9, "Gaussian"),
    ],
)
def test_times_that_differ_break_the_claim(group, name, change, words):
    found = broken(depth, altered(small(depth), group, name, change))
    assert len(found) == 1
    assert words in found[0]


def test_random_products_are_rotations_and_the_same_at_every_depth():
    from festina.papers.linear.chains import _depth_networks as networks

    rotations = festina.networks.orthogonal((3,) * 5, key=festina.seeds(6)).weights
    product = networks._proper(np.asarray(rotations[-1]))
    np.testing.assert_allclose(np.linalg.det(product), 1.0)
    for layers in (2, 4):
        weights = networks._with_product([np.asarray(w) for w in rotations[: layers - 1]], product)
        assert len(weights) == layers
        whole = festina.networks.DeepLinear(tuple(weights)).end_to_end()
        np.testing.assert_allclose(whole, product, atol=1e-12)


def test_a_chain_that_has_learned_takes_no_time():
    assert depth.integrate(0.99, 4, 1.0, 0.9) == 0.0
    assert depth.integrate(1.01, 4, 1.0, 0.9) == 0.0
    # From above: one layer, a(t) = s + (a₀ − s) e^{−t}.
    assert depth.integrate(3.0, 1, 1.0, 0.9) == pytest.approx(np.log(2 / 0.1), rel=1e-8)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"layer_strength": 0.95}, "less than or equal to 0.9"),
        ({"correlation": 0.5}, "`layer_strength` must lie below"),
        ({"depths": (2, 4)}, "`depths` must be two or more increasing numbers from 3"),
        ({"network_depths": (4,)}, "`network_depths`"),
        ({"gaussian_depths": (3, 2)}, "`gaussian_depths`"),
        ({"gain": 1.5}, "less than 1"),
    ],
)
def test_bad_parameters_of_depth(bad, words):
    with pytest.raises(ValueError, match=words):
        depth.Parameters(**bad)
