"""Test that an interrupted chain resumes as if it had not been interrupted."""

import jax
import numpy as np
import pytest
import xarray as xr

import festina
from festina.dynamics.posterior import _cores, continue_sampling, sample
from festina.tasks import orthogonal_inputs

KEY = jax.random.key(3)
SETTINGS = {
    "width": 6,
    "activation": "erf-sigmoid",
    "temperature": 0.1,
    "chains": 2,
    "anneal": 12,
    "burn": 8,
    "moves": 12,
    "thin": 3,
    "leapfrog": 4,
    "key": KEY,
}


def chains(**changed):
    return sample(orthogonal_inputs([2, 3]), **(SETTINGS | changed))


def same(one, other):
    for a, b in zip(jax.tree.leaves(one.chains), jax.tree.leaves(other.chains), strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip((*one.weights, one.readout), (*other.weights, other.readout), strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.log.keys() == other.log.keys()
    for name in one.log:
        np.testing.assert_array_equal(one.log[name], other.log[name])


@pytest.mark.parametrize(
    ("method", "precision"),
    [
        ("hmc", "double"),
        ("langevin", "single"),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (("hmc", "single"), ("langevin", "double"))
        ),
    ],
)
def test_more_moves_are_as_in_one_go(method, precision):
    whole = chains(method=method, precision=precision)
    half = chains(method=method, precision=precision, moves=6)
    same(continue_sampling(half, moves=6), whole)
    assert whole.readout.dtype == (np.float64 if precision == "double" else np.float32)


@pytest.mark.parametrize("stage", ["cooling", "settling", "sampling"])
def test_an_interrupted_chain_goes_on_from_disk(tmp_path, stage):
    def interrupt(words, fraction):
        if words.startswith(stage):
            raise KeyboardInterrupt

    path = tmp_path / "chains.zarr"
    with pytest.raises(KeyboardInterrupt) as raised:
        chains(checkpoint=path, progress=interrupt)
    assert "`continue_sampling` resumes them" in raised.value.__notes__[0]
    run = festina.load(path)["simulation"]
    assert set(run["ending"].to_numpy()) == {"interrupted"}
    assert "`continue_sampling` resumes it" in str(run["message"].to_numpy()[0])
    whole = chains()
    found = continue_sampling(path)
    same(found, whole)
    assert found.finished
    same(continue_sampling(path), whole)  # saved again, although no moves are left


def test_a_saved_posterior_says_what_it_is(tmp_path):
    drawn = chains(precision="single")
    path = festina.save(drawn, tmp_path / "run.zarr")
    run = festina.load(path)["simulation"]
    assert run.attrs["precision"] == "single"
    assert run["readout"].dims == ("chain", "draw", "output", "unit")
    assert run["weights_1"].dims == ("chain", "draw", "unit", "direction")
    assert run["move"].to_numpy().tolist() == drawn.plan.stops(0)
    more = continue_sampling(festina.load(path), moves=3)
    same(more, chains(precision="single", moves=15))


def test_others_chains_are_not_overwritten(tmp_path):
    path = tmp_path / "run.zarr"
    chains(checkpoint=path)
    with pytest.raises(FileExistsError, match="`continue_sampling` to resume its chains"):
        chains(checkpoint=path)


def test_a_function_of_ones_own_is_given_again(tmp_path):
    def own(z):
        return z / (1 + z**2)

    path = festina.save(chains(activation=own), tmp_path / "run.zarr")
    with pytest.raises(ValueError, match="Pass the function as `activation`"):
        continue_sampling(path, moves=3)
    same(continue_sampling(path, moves=3, activation=own), chains(activation=own, moves=15))


def test_a_function_that_has_the_name_of_another_is_itself(tmp_path):
    """A user's function called erf is not confused with the activation of that name."""

    def erf(z):
        return jax.nn.tanh(z)

    path = festina.save(chains(activation=erf), tmp_path / "run.zarr")
    with pytest.raises(ValueError, match="own erf"):
        continue_sampling(path, moves=3)


def test_nothing_is_overwritten_unasked(tmp_path):
    drawn = chains()
    path = festina.save(drawn, tmp_path / "run.zarr")
    with pytest.raises(FileExistsError, match="exists already"):
        continue_sampling(drawn, moves=3, checkpoint=path)
    tree = xr.DataTree.from_dict({"simulation": drawn.to_dataset(), "theory": xr.Dataset({"t": 1})})
    both = festina.save(tree, tmp_path / "both.zarr")
    with pytest.raises(ValueError, match="which saving the chains"):
        continue_sampling(both, moves=3)


@pytest.mark.parametrize("cores", [1, 4])
def test_draws_do_not_depend_on_the_cores(cores, monkeypatch):
    usual = chains(chains=4)
    monkeypatch.setattr(_cores, "cores", lambda: cores)
    same(chains(chains=4), usual)


def test_progress_is_in_words():
    said = []
    chains(progress=lambda words, fraction: said.append((words, fraction)))
    stages = [words.split(maxsplit=1)[0].rstrip(",") for words, _ in said]
    assert list(dict.fromkeys(stages)) == ["cooling", "settling", "sampling"]
    assert said[0][0].startswith("cooling at T = 0.825, move 1 of 32, squared error")
    assert said[-1][1] == 1.0


def test_seeds_are_chains_of_their_own():
    """The chain of a key does not depend on the chains run beside it."""
    keys = festina.seeds(3)
    three = chains(chains=3, key=keys)
    two = chains(chains=2, key=keys[1:])
    np.testing.assert_allclose(three.readout[1:], two.readout, rtol=1e-6)
