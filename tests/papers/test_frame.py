"""Test the code around the run of every experiment: parameters, seeds and precision."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from jaxtyping import PRNGKeyArray

from festina import seeds
from festina.experiments import Progress
from festina.experiments._frame import make_run, parameters_of_run, part_of
from festina.experiments._keys import keys_from_parameters
from festina.experiments._parameters import Parameters
from helpers import untyped


@make_run("toy")
def run(
    parameters: Parameters, key: PRNGKeyArray | None, progress: Progress
) -> dict[str, xr.Dataset]:
    """Draw a number for each seed."""
    progress("drawing", 0.5)
    draws = [float(jax.random.normal(one)) for one in keys_from_parameters(parameters, key)]
    precise = jnp.ones(()).dtype == jnp.float64
    attrs = {"precise": int(precise)}
    return {"/": xr.Dataset(attrs=attrs), "draws": xr.Dataset({"draw": ("seed", draws)})}


def test_a_run_computes_in_float64_and_leaves_the_flag():
    before = jnp.ones(()).dtype
    assert run(Parameters(seeds=2)).attrs["precise"]
    assert jnp.ones(()).dtype == before


def test_a_run_says_what_it_does_and_when_it_is_done():
    said = []
    run(Parameters(seeds=1), progress=lambda words, done: said.append((words, done)))
    assert said == [("drawing", 0.5), ("done", 1.0)]
    later = part_of(lambda words, done: said.append((words, done)), 0.25, 0.5)
    later("half of it", 0.5)
    assert said[-1] == ("half of it", 0.5)


def test_a_run_shows_its_own_arguments_and_the_words_of_its_body():
    assert list(inspect.signature(run).parameters) == ["parameters", "key", "progress"]
    assert run.__doc__ == "Draw a number for each seed."
    with pytest.raises(TypeError):
        untyped(run)(Parameters(seeds=1), None)


def test_a_seed_does_not_depend_on_how_many_there_are():
    many = run(Parameters(seeds=5, seed=3))["draws"]["draw"].to_numpy()
    np.testing.assert_array_equal(run(Parameters(seeds=1, seed=6))["draws"]["draw"], many[3:4])
    assert (keys_from_parameters(Parameters(seeds=5, seed=3), None) == seeds(5, first=3)).all()


def test_a_key_gives_other_draws():
    key = jax.random.key(7)
    parameters = Parameters(seeds=4)
    assert (keys_from_parameters(parameters, key) == jax.random.split(key, 4)).all()
    assert not np.isin(
        run(parameters, key=key)["draws"]["draw"], run(parameters)["draws"]["draw"]
    ).any()


def test_a_tree_carries_its_parameters():
    tree = run(Parameters(seeds=2, seed=9))
    assert tree.attrs["experiment"] == "toy"
    assert parameters_of_run(tree, Parameters) == Parameters(seeds=2, seed=9)
