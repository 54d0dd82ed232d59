"""Test the experiments on Theorem 4 and Proposition 5."""

import numpy as np
import pytest
import scipy.stats

from festina.papers.saddles._units_flow import blow_up
from festina.papers.saddles.theorems import _proposition_5 as units
from festina.papers.saddles.theorems import _theorem_4 as directions
from festina.papers.saddles.theorems._proposition_5 import BOUNCING, QUANTILES, USUAL, WIDTH


def test_equation_56_is_imaginary_for_a_unit_that_bounces():
    s = np.array([1.0, 0.4, -0.7])
    # The output weight v opposes a strong drive, so it changes its sign.
    assert np.isnan(units._printed(np.array([2.0, 1.0, 0.1]), -0.5, s))
    assert np.isfinite(units._printed(np.array([2.0, 1.0, 0.1]), 0.5, s))


def test_how_many_units_bounce_by_quadrature():
    """Integrate over directions n of u: a unit bounces if v has one sign and v² < h(u).

    The height h of the hill is homogeneous of degree two, and v/|u| has Student's distribution: for
    three entries of u, P(v² < h | n) = P(|t₃| < √(3h(n))).
    """
    s, (nodes, weights) = np.array(USUAL), np.polynomial.legendre.leggauss(160)
    cosine, angle = (nodes[:, None] + 1) / 2, (nodes + 1) * np.pi / 4  # of one octant
    sine = np.sqrt(1 - cosine**2)
    n = np.stack(np.broadcast_arrays(sine * np.cos(angle), sine * np.sin(angle), cosine), axis=-1)
    top = np.zeros(n.shape[:2])
    # Newton's method, with steps of at most one, for the maximum, where Σ s a² e^{2sw} = 0
    for _ in range(100):
        there = n**2 / 2 * np.exp(2 * s * top[..., None])
        top -= np.clip((there @ s) / (there @ (2 * s**2)), -1, 1)
    h = -np.sum(n**2 / 2 * np.expm1(2 * s * top[..., None]), axis=-1)
    within = 2 * scipy.stats.t.cdf(np.sqrt(3 * np.maximum(h, 0)), 3) - 1
    assert 0.5 * weights @ within @ weights / 4 == pytest.approx(BOUNCING, abs=1e-5)


def second_largest(weights):
    """Return the size of the second-largest unit when the first diverges, for Σ_yZ = 4I, ε → 0.

    With a = |u|/√2 and τ = 8t, a unit has a' = va and v' = a² = v² − E, where E = v² − a² is
    constant.
    """
    a, v = np.linalg.norm(weights[..., :2], axis=-1) / np.sqrt(2), weights[..., 2]
    energy = v**2 - a**2
    k, turns = np.sqrt(np.abs(energy)), energy < 0
    with np.errstate(divide="ignore", invalid="ignore"):
        escape = np.where(
            turns,
            (np.pi / 2 - np.arctan(v / k)) / k,
            np.where(v > 0, np.arctanh(np.minimum(k / v, 1)) / k, np.inf),
        )
        order = np.argsort(escape, axis=-1)
        time = np.take_along_axis(escape, order[:, :1], axis=-1)
        turning = k * np.tan(k * time + np.arctan(v / k))
        then = np.where(
            turns, turning, k * (v - k * np.tanh(k * time)) / (k - v * np.tanh(k * time))
        )
    size = np.sqrt(2 * (then**2 - energy) + then**2)
    return np.take_along_axis(size, order[:, 1:], axis=-1).max(axis=-1)


def test_the_second_largest_unit_by_closed_form():
    draws = 20_000
    sizes = second_largest(np.random.default_rng(1).normal(size=(draws, WIDTH, 3)))
    for share, value in QUANTILES.items():
        scatter = np.sqrt(share * (1 - share) / draws)
        assert np.mean(sizes < value) == pytest.approx(share, abs=3 * scatter)
    # Integrated networks stop when the first unit has size 1/ε, which changes 1/x by ε.
    weights = np.random.default_rng(11).normal(size=(50, WIDTH, 3))
    found = units._rivals(weights, np.full(2, 4.0))["second"].isel(scale=-1)
    np.testing.assert_allclose(1 / found, 1 / second_largest(weights) + 1e-5, rtol=1e-3)


def test_a_single_number_blows_up_at_its_inverse():
    """For v' = v², t = 1/v; negative v never diverges."""
    times, _ = blow_up(lambda v: v**2, np.array([[0.5], [2.0], [-1.0]]))
    np.testing.assert_allclose(times[:2], (2.0, 0.5), rtol=1e-9)
    assert times[2] == np.inf


@pytest.mark.parametrize(
    ("experiment", "bad", "words"),
    [
        (directions, {"ratios": (1.0,), "multiplicities": (1,)}, "from 0.15"),
        (directions, {"multiplicities": (1,)}, "5 numbers ≥ 1, one for each entry of .ratios."),
        (directions, {"scales": (1e-6, 1e-8)}, "four decades"),
        (directions, {"scales": (1e-8, 1e-6)}, "decreasing"),
        (units, {"eigenvalues": (1.0, 0.5)}, "both signs"),
        (units, {"eigenvalues": (1.0, -0.01)}, "factor of ten"),
        (units, {"scales": (0.1, 0.01)}, "decreasing"),
    ],
)
def test_bad_parameters(experiment, bad, words):
    with pytest.raises(ValueError, match=words):
        experiment.Parameters(**bad)
