"""Test errors of sampling, warnings, and input that is accepted."""

import sys

import jax
import numpy as np
import pytest

from festina.dynamics.posterior import continue_sampling, sample
from festina.networks import draw_from_prior
from festina.tasks import classification, from_arrays, linear_teacher, orthogonal_inputs
from helpers import untyped

KEY = jax.random.key(0)
TASK = orthogonal_inputs([2, 2])
SHORT = {"width": 4, "chains": 2, "anneal": 4, "burn": 4, "moves": 4, "thin": 1, "leapfrog": 2}


def short(given=TASK, **changed):
    return sample(given, **untyped({"temperature": 0.1, "key": KEY} | SHORT | changed))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"temperature": 0.0}, "must be positive and finite, got 0. As T → 0"),
        ({"temperature": -1.0}, "must be positive and finite, got -1"),
        ({"temperature": np.nan}, "`temperature` must be a number"),
        ({"temperature": np.inf}, "must be positive and finite"),
        ({"width": 0}, "`width` must be a whole number"),
        ({"depth": 0}, "`depth` must be a whole number"),
        ({"chains": 0}, "`chains` must be a whole number"),
        ({"moves": 5, "thin": 2}, "multiple of `thin`.*moves=4"),
        ({"moves": 0}, "`moves` must be a whole number from 1 up"),
        ({"method": "gibbs"}, '`method` must be "hmc" or "langevin"'),
        ({"scaling": "lazy"}, "has no default for a lazy network"),
        ({"scaling": "rich"}, '"non-lazy" or "lazy"'),
        ({"readout_variance": 0.0}, "`readout_variance` must be positive"),
        ({"activation": "softplus"}, "must be one of linear, erf, erf-sigmoid, relu"),
        ({"activation": 3.0}, "must be a name or a function"),
        ({"step": 0.0}, "`step` must lie between 0 and inf"),
        ({"jitter": 1.0}, "`jitter` must lie between 0 and 1"),
        ({"acceptance": 1.0}, "`acceptance` must lie between"),
        ({"precision": "half"}, '`precision` must be "double" or "single"'),
        ({"key": jax.random.split(KEY, 3)}, "one key for each of the 2 chains"),
        ({"key": 0}, "`key` must be a JAX random key"),
        ({"given": from_arrays(np.zeros((3, 2)), np.ones(3))}, "All inputs are zero"),
        (
            {"given": from_arrays(np.eye(2), np.ones(2), weight=[1, 2])},
            "equal weights for all samples",
        ),
        ({"given": linear_teacher(np.eye(2))}, "must have a finite number of samples"),
    ],
)
def test_what_is_refused(as_a_user, changed, message):
    with pytest.raises(ValueError, match=message):
        short(**changed)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: classification(np.eye(3), [0, 2, 2]), "no sample of class 1.*without gaps"),
        (lambda: classification(np.eye(3), [0, -1, 2]), "whole number from 0 up"),
        (lambda: classification(np.eye(3), [0, 0.5, 2]), "whole number from 0 up"),
        (lambda: orthogonal_inputs([3, 0]), "`sizes` must be a whole number from 1 up"),
        (lambda: orthogonal_inputs([]), "the number of samples of each class"),
        (lambda: continue_sampling(short(thin=2), moves=3), "multiple of `thin`, 2"),
        (lambda: continue_sampling(short().to_dataset().drop_attrs()), "must be a posterior"),
        (lambda: short().predict(np.eye(3), key=KEY), r"must be \(sample, 4\)"),
        (lambda: short(moves=2).diagnostics(), "at least 4 draws.*continue_sampling"),
        (lambda: draw_from_prior(3, 4, 1, readout_variance=-1.0, key=KEY), "must be positive"),
    ],
)
def test_what_else_is_refused(as_a_user, call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_duplicate_inputs_are_sampled_and_said():
    x = np.eye(3)[[0, 1, 1, 2]]
    alike = short(from_arrays(x, [1.0, 0.0, 0.0, 1.0]))
    assert "examples 1, 2): each example counts separately" in str(alike)
    apart = short(from_arrays(x, [1.0, 0.0, 1.0, 1.0]), activation="erf")
    assert "every network has a squared error of at least 0.5" in str(apart)
    assert (2 * apart.kept("loss") >= 0.5).all()


def test_a_class_without_examples_is_said():
    y = np.eye(3)[[0, 0, 1, 1]]
    assert "Output 2 has the same target for every example" in str(short(from_arrays(np.eye(4), y)))


def test_centred_inputs_are_said_of_linear_networks_alone():
    x = np.random.default_rng(0).normal(size=(6, 8))
    x -= x.mean(axis=0)
    given = classification(x, [0, 0, 1, 1, 2, 2])
    assert "inputs are centred" in str(short(given))
    assert "inputs are centred" not in str(short(given, activation="relu"))
    centred = classification(x, [0, 0, 1, 1, 2, 2], other=-0.5)
    assert short(centred).notes == ()


def test_a_langevin_chain_that_diverges_stays_where_it_was():
    drawn = short(method="langevin", step=50.0, anneal=0, burn=0, activation="relu")
    assert drawn.failed
    assert all(ending.reason == "diverged" for ending in drawn.endings)
    assert "Use a smaller `step`" in str(drawn)
    assert np.isfinite(drawn.readout).all()


def test_sampling_without_its_package_says_so_before_compiling(monkeypatch):
    from festina.dynamics.posterior import _sample

    monkeypatch.setattr(_sample, "advanced", None)
    monkeypatch.setitem(sys.modules, "blackjax.mcmc.hmc", None)
    with pytest.raises(ImportError, match=r"pip install 'festina\[posterior\]'") as caught:
        short()
    assert not getattr(caught.value, "__notes__", ())


def test_a_package_that_is_missing_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz_stats.base", None)
    with pytest.raises(ImportError, match=r"pip install 'festina\[posterior\]'"):
        short().diagnostics()


def test_a_chain_that_accepts_nothing_says_so():
    drawn = short(step=50.0, anneal=0, burn=0, temperature=0.001)
    assert drawn.failed
    assert "hardly moved" in str(drawn)
    assert np.isfinite(drawn.kept("potential")).all()
