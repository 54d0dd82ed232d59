"""Test errors of codes for invalid input."""

import numpy as np
import pytest

from festina.tasks import from_arrays, linear_teacher
from festina.theory.coding import (
    classification_code,
    lazy_predictor,
    linear_code,
    linear_code_from_kernel,
    targets_per_class,
    temperature_sweep,
)

X = np.random.default_rng(0).normal(size=(6, 8))
Y = np.repeat(targets_per_class(3), 2, axis=0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: classification_code([5, 5], temperature=-0.1),
            "`temperature` must not be negative, got",
        ),
        (
            lambda: classification_code([5, 5], temperature=np.nan),
            "`temperature` must be a finite number",
        ),
        (lambda: classification_code([5, 0]), "Leave out classes without examples"),
        (lambda: classification_code([]), r"one whole number from 1 up for each class, got \[\]"),
        (lambda: classification_code([2.5, 3]), r"`sizes\[0\]` must be a whole number"),
        (lambda: classification_code([3, 1e40]), r"`sizes\[1\]` must be a whole number"),
        (
            lambda: classification_code([True, True]),
            r"`sizes\[0\]` must be a whole number.*got True",
        ),
        (lambda: classification_code(3), "`sizes` must be a list of whole numbers, got 3"),
        (
            lambda: classification_code([3, 3], "linear", targets=[[1, 0], [0, 1e40]]),
            "Targets of some outputs are so much larger.*same scale",
        ),
        (lambda: classification_code([5] * 4), "span 4 dimensions.*up to 3"),
        (lambda: classification_code([5, 5], targets=np.eye(3)), "one row for each of 2 classes"),
        (lambda: classification_code([5, 5], targets=np.zeros((2, 2))), "nothing to learn"),
        (
            lambda: classification_code([5, 5], readout_variance=0.0),
            "`readout_variance` must be positive",
        ),
        (
            lambda: classification_code([5, 5], "softplus"),
            "must be one of linear, erf, erf-sigmoid, relu",
        ),
        (lambda: classification_code([5, 5], np.sinh), "must be finite everywhere|grows to"),
        (lambda: classification_code([5, 5], lambda z: z**2), "grows to"),
        (lambda: classification_code([5, 5], "relu"), "costs 3.5 in entropy.*at least 18"),
        (
            lambda: classification_code([30, 30, 30], "relu", targets=[1, 1, -1]),
            "so alike that one outlier would serve both.*Make them one class",
        ),
        (lambda: temperature_sweep([5, 5], temperatures=[[0.1]]), "must be a list"),
        (lambda: linear_code(from_arrays(X, Y), temperature=-1.0), "must not be negative"),
        (
            lambda: linear_code(from_arrays(X, Y), depth=2, temperature=0.1),
            "two at `temperature=0`",
        ),
        (
            lambda: linear_code(linear_teacher(np.eye(2), np.eye(2))),
            "must have a finite number of samples",
        ),
        (lambda: linear_code(from_arrays(0 * X, Y)), "All inputs are zero"),
        (lambda: linear_code_from_kernel(np.eye(3), np.eye(2)), "must have shape"),
        (lambda: linear_code_from_kernel([[1, 0.5], [0, 1]], [1, 2]), "must be symmetric"),
        (lambda: linear_code_from_kernel([[1, 2], [2, 1]], [1, 2]), "negative eigenvalues"),
        (lambda: linear_code_from_kernel(np.eye(2), [1, 2]).mean(np.eye(2)), "stores the inputs"),
        (lambda: linear_code(from_arrays(X, Y)).mean(X[:, :3]), "must be \\(sample, 8\\)"),
        (
            lambda: linear_code(from_arrays(X, Y)).predictor(X, width=3).split(Y[:2]),
            "must have the shape",
        ),
        (
            lambda: lazy_predictor(from_arrays(X, Y), X[:, :2], readout_variance=1.0),
            r"must be \(sample, 8\)",
        ),
        (lambda: lazy_predictor(from_arrays(X, Y), X, readout_variance=-1.0), "must be positive"),
        (
            lambda: linear_code(from_arrays(X, Y, weight=[1, 2, 1, 1, 1, 1])),
            "must have equal weights for all samples",
        ),
    ],
)
def test_it_is_said_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_centred_inputs_cannot_fit_targets_that_are_not():
    """For K₀ 1 = 0, outputs of a linear network without bias sum to zero over the examples."""
    centred = X - X.mean(axis=0)
    with pytest.raises(ValueError, match=r"inputs are centred.*other=-1/\(m-1\)"):
        linear_code(from_arrays(centred, Y))
    code = linear_code(from_arrays(centred, Y), temperature=0.01)
    assert code.unfitted == pytest.approx(6 * 3 * (1 / 3) ** 2)
    assert "no linear network can fit 2 of |Y|²: inputs are centred" in str(code)
    scaled = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    with pytest.raises(ValueError, match="inputs are centred"):
        linear_code(from_arrays(scaled, Y))
    fits = np.repeat(targets_per_class(3, other=-0.5), 2, axis=0)
    np.testing.assert_allclose(linear_code(from_arrays(centred, fits)).outputs, fits, atol=1e-9)


def test_inputs_that_occur_twice_with_other_targets_are_named():
    x = np.concatenate([X, X[:1]])
    with pytest.raises(ValueError, match="some inputs occur twice"):
        linear_code(from_arrays(x, np.concatenate([Y, Y[-1:]])))
    with pytest.raises(ValueError, match="do inputs occur twice"):
        lazy_predictor(from_arrays(x, np.concatenate([Y, Y[-1:]])), X, readout_variance=1.0)


def test_more_examples_than_directions_are_named():
    with pytest.raises(ValueError, match="more examples than directions"):
        linear_code(from_arrays(X[:, :2], Y))
