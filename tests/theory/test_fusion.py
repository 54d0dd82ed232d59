"""Test early and late fusion and Lotka–Volterra systems against integrators and networks."""

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import festina
from festina.networks import fully_connected, gated_from
from festina.tasks import correlated_views, multi_view_classes
from festina.theory.gated import (
    capacity_limited_strengths,
    early_fusion_shares,
    late_fusion_strengths,
    latecomer_delay,
    view_contributions,
)
from festina.theory.linear import chain_strength

RATES = st.lists(st.floats(0.3, 3.0), min_size=1, max_size=4)
TIMES = np.concatenate(([0.0], np.geomspace(0.1, 40.0, 12)))


def integrated(velocity, start):
    """Integrate the logarithms of the strengths by SciPy."""
    speed = lambda _, logs: velocity(np.exp(logs)) / np.exp(logs)
    span, start = (0.0, TIMES[-1]), np.log(start)
    found = solve_ivp(speed, span, start, "LSODA", t_eval=TIMES, rtol=1e-12, atol=1e-12)
    return np.exp(found.y.T)


# Integrators


@settings(max_examples=5, deadline=None, phases=[Phase.generate])
@given(RATES, st.floats(1e-9, 3.0), st.integers(1, 6))
def test_late_fusion_is_the_solution_of_its_equation(a, initial, classes):
    a, start = np.array(a), initial * np.linspace(1.0, 2.0, len(a))
    found = late_fusion_strengths(TIMES, a, start, classes=classes)
    plain = integrated(lambda pi: 2 * a * pi * (1 - a @ pi) / classes, start)
    np.testing.assert_allclose(found, plain, rtol=1e-8)
    np.testing.assert_allclose(found[0], start, rtol=1e-14)
    end = late_fusion_strengths(None, a, start, classes=classes)
    np.testing.assert_allclose(a @ end, 1, rtol=1e-13)
    np.testing.assert_allclose(
        late_fusion_strengths(1e9, a, start, classes=classes), end, rtol=1e-12
    )
    clocks = np.log(end / start) / (2 * a)  # one clock for all views
    np.testing.assert_allclose(clocks, clocks[0], rtol=1e-9, atol=1e-12)


@settings(max_examples=5, deadline=None, phases=[Phase.generate])
@given(RATES, st.floats(1e-9, 3.0), st.floats(0.1, 9.0))
def test_a_shared_capacity_is_filled_by_its_equation(r, initial, capacity):
    r, start = np.array(r), initial * np.linspace(1.0, 2.0, len(r))
    found = capacity_limited_strengths(3 * TIMES, r, start, capacity=capacity, tau=3.0)
    plain = integrated(lambda s: r * s * (1 - s @ s / capacity), start)
    np.testing.assert_allclose(found, plain, rtol=1e-8)
    end = capacity_limited_strengths(None, r, start, capacity=capacity)
    np.testing.assert_allclose(end @ end, capacity, rtol=1e-13)


@settings(max_examples=5, deadline=None, phases=[Phase.generate])
@given(RATES, st.floats(1e-9, 3.0), st.sampled_from([0.0, 0.3, 0.95, 1.0]), st.floats(0.3, 2.0))
def test_contributions_are_the_solution_of_their_equation(a, initial, kappa, m):
    a, start = np.array(a), initial * np.linspace(1.0, 2.0, len(a))
    found = view_contributions(TIMES, a, start, overlap=kappa, target=m)
    meet = kappa + (1 - kappa) * np.eye(len(a))
    plain = integrated(lambda c: 2 * a * c * (m - meet @ c), start)
    np.testing.assert_allclose(found, plain, rtol=1e-7)
    end = view_contributions(None, a, start, overlap=kappa, target=m)
    np.testing.assert_allclose(meet @ end, m, rtol=1e-12)
    np.testing.assert_allclose(
        view_contributions(1e6, a, start, overlap=kappa, target=m), end, rtol=1e-8
    )


@pytest.mark.parametrize("time", [0.0, 1e-300, 1e-100])
def test_contributions_at_the_start_are_the_initial_ones(time):
    """On such short intervals LSODA would never return."""
    found = view_contributions([time, 0.0], [1.0, 0.5], [0.05, 0.1], overlap=0.5)
    np.testing.assert_allclose(found, [[0.05, 0.1]] * 2, rtol=1e-14)


def test_the_error_of_contributions_falls_with_rtol():
    found = [
        view_contributions(TIMES, [1.2, 1.0], 1e-3, overlap=0.9, rtol=rtol)
        for rtol in (1e-5, 1e-8, 1e-11)
    ]
    coarse, fine = (np.abs(each / found[-1] - 1).max() for each in found[:2])
    assert fine < 1e-6
    assert fine < 1e-2 * coarse < 1e-4
    with pytest.raises(ValueError, match="`rtol` must lie between"):
        view_contributions(TIMES, [1.2, 1.0], 1e-3, overlap=0.9, rtol=0.0)


def test_a_list_of_overlaps_gives_the_contributions_of_each():
    kappas, targets = np.array([0.0, 0.5, 0.9, 1.0]), np.array([1.0, 1.5, 1.9, 2.0])
    for times in (TIMES, 3.0, None):
        found = view_contributions(times, [1.2, 1.0], 1e-3, overlap=kappas, target=targets)
        each = [
            view_contributions(times, [1.2, 1.0], 1e-3, overlap=kappa, target=m)
            for kappa, m in zip(kappas, targets, strict=True)
        ]
        np.testing.assert_allclose(found, each, rtol=1e-8)
    with pytest.raises(ValueError, match="one for each overlap"):
        view_contributions(TIMES, [1.2, 1.0], 1e-3, overlap=kappas, target=targets[:2])


def test_one_view_is_a_chain_of_two_layers():
    chain = chain_strength(TIMES, 0.4, 1e-3, depth=2, input_variance=0.8)
    np.testing.assert_allclose(
        late_fusion_strengths(TIMES, [2.0], 1e-3, classes=5)[:, 0], chain, rtol=1e-10
    )
    overlapping = view_contributions(TIMES, [0.2], 2e-3, overlap=0.5)[:, 0]
    np.testing.assert_allclose(
        overlapping / 2,
        chain_strength(TIMES, 0.4 / 2, 1e-3, depth=2, input_variance=0.4),
        rtol=1e-9,
    )


# Reference numbers


def test_printed_limits():
    end = capacity_limited_strengths(None, [1, 0.9, 0.8], 1e-3, capacity=4)
    np.testing.assert_allclose(end, [1.77177, 0.83862, 0.39694], rtol=0, atol=1e-5)
    for start, share in ((1e-1, 0.518), (1e-3, 0.7848), (1e-6, 0.945), (1e-12, 0.9965)):
        end = capacity_limited_strengths(None, [1, 0.9, 0.8], start, capacity=4)
        np.testing.assert_allclose(end[0] ** 2 / 4, share, atol=5e-4)
    np.testing.assert_allclose(
        capacity_limited_strengths(None, [1, 1, 1], 1e-3, capacity=4), 1.1547, atol=5e-5
    )
    np.testing.assert_allclose(early_fusion_shares([1.105, 1, 1])[0], 0.3791, atol=5e-5)
    a = np.array([1.105, 1, 1])
    for start, share in ((1e-2, 0.440), (1e-4, 0.554), (1e-8, 0.754), (1e-16, 0.948)):
        np.testing.assert_allclose(
            a[0] * late_fusion_strengths(None, a, start)[0], share, atol=1e-3
        )
    np.testing.assert_allclose(
        2 * late_fusion_strengths(None, [2, 1, 1], 1e-5)[0], 0.9955, atol=1e-4
    )
    start = 1e-6 * np.array([1.2, 1.0])
    np.testing.assert_allclose(
        view_contributions(None, [1.2, 1.0], start, overlap=1), [0.920, 0.080], atol=5e-4
    )


def half_time(a, start, kappa, m):
    """Return the half-time of the second view, from a fine grid of its curve."""
    times = np.linspace(0, 3 * latecomer_delay(a, start, overlap=kappa, target=m), 4001)
    curve = view_contributions(times, a, start, overlap=kappa, target=m)[:, 1]
    return np.interp(m / (1 + kappa) / 2, curve, times)


@pytest.mark.parametrize(
    ("a", "m", "initial"),
    [pytest.param((1.2, 1.0), 1.0, 1e-6, marks=pytest.mark.slow), ((3.0, 2.0), 1.7, 1e-3)],
)
def test_the_slower_view_is_late_by_one_over_what_is_left_of_overlap(a, m, initial):
    """The law is a limit, whose error falls with 1 − κ."""
    a, errors = np.array(a), []
    for left in (1e-2, 1e-3, 1e-4):
        law = latecomer_delay(a, initial, overlap=1 - left, target=m)
        errors.append(abs(half_time(a, initial, 1 - left, m) / law - 1))
    assert errors[0] < 0.1
    assert (np.diff(np.log10(errors)) < -0.9).all()


def test_there_is_no_late_comer_where_views_are_alike():
    assert np.isnan(latecomer_delay([1.0, 1.0], 1e-3, overlap=0.9))


# Networks


def pathways(first, second, outputs=("y",)):
    """Return a two-layer pathway for each view, from weights `(view, …)` of both layers."""
    ends = outputs * len(first) if len(outputs) == 1 else outputs
    weights = {}
    for v, (one, two, end) in enumerate(zip(first, second, ends, strict=True)):
        weights |= {f"x{v}-h{v}": one, f"h{v}-{end}": two}
    return gated_from(weights)


def contributions(network, a):
    maps = [np.asarray(b) @ np.asarray(w) for w, b in zip(*[iter(network.parts)] * 2, strict=True)]
    return a[:, None, None] * np.stack(maps, axis=-3)


@pytest.mark.parametrize("a", [pytest.param((2.0, 1.0, 1.0), marks=pytest.mark.slow), (1.1, 1.0)])
def test_pathways_of_views_follow_late_fusion(a):
    a, classes, start = np.array(a), 3, 1e-3
    weight = np.sqrt(start) * np.eye(classes)
    network = pathways([weight] * len(a), [weight] * len(a))
    times = np.linspace(0.0, 30.0, 31)
    exact = a * late_fusion_strengths(times, a, start, classes=classes)
    errors = []
    for rtol in (1e-5, 1e-9):
        run = festina.gradient_flow(network, multi_view_classes(a, classes), times, rtol=rtol)
        seen = contributions(run.network, a)
        expected = exact[:, :, None, None] * np.eye(classes)
        errors.append(np.abs(seen - expected).max())
    assert errors[1] < 1e-7
    assert errors[1] < 1e-2 * errors[0]


@pytest.mark.parametrize(
    "kappa", [0.5, *(pytest.param(kappa, marks=pytest.mark.slow) for kappa in (0.0, 0.95, 1.0))]
)
@pytest.mark.parametrize("target", ["sum", "common", "each"])
def test_what_overlaps_how_far_follows_from_the_task(target, kappa):
    if target == "common" and kappa == 0:
        return  # zero targets
    a, start, times = np.array([1.2, 1.0]), 1e-4, np.linspace(0.0, 20.0, 21)
    weight = np.full((2, 1, 1), np.sqrt(start))
    network = pathways(weight, weight, ("y", "z") if target == "each" else ("y",))
    task = correlated_views(a, kappa, target=target)
    run = festina.gradient_flow(network, task, times, rtol=1e-10)
    m, meets = {"sum": (1 + kappa, kappa), "common": (np.sqrt(kappa), kappa), "each": (1.0, 0.0)}[
        target
    ]
    exact = view_contributions(times, a, a * start, overlap=meets, target=m)
    np.testing.assert_allclose(contributions(run.network, a)[..., 0, 0], exact, atol=1e-8)


def test_one_dense_layer_shares_by_squares_up_to_its_initial_weights():
    a, classes = np.array([1.105, 1.0, 1.0]), 3
    data = multi_view_classes(a, classes)
    silent = np.repeat(np.eye(3), classes, axis=1)[:, None] * data.x  # (view, class, input)
    errors = []
    for scale in (1e-2, 1e-3, 1e-4):
        network = fully_connected(9, 20, classes, scale=scale, key=festina.seeds(4))
        final = festina.gradient_flow(network, data, rtol=1e-9).final
        said = np.stack([np.einsum("skk->s", final.predict(x)) for x in silent], axis=-1)
        share = said / said.sum(axis=-1, keepdims=True)
        errors.append(np.abs(share - early_fusion_shares(a)).max())
    assert errors[1] < 2e-3
    np.testing.assert_allclose(np.diff(np.log10(errors)), -1, atol=0.1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: early_fusion_shares([]), "`amplitudes` must have at least one entry"),
        (lambda: early_fusion_shares([[1.0]]), "must be a list of positive numbers"),
        (lambda: late_fusion_strengths(1.0, [1.0, -1.0], 0.1), "`amplitudes` must be positive"),
        (lambda: late_fusion_strengths(1.0, [1.0, 1.0], [0.1] * 3), "one for each of 2"),
        (lambda: late_fusion_strengths(-1.0, [1.0], 0.1), "`times` must not be negative"),
        (lambda: late_fusion_strengths(1.0, [1.0], 0.0), "`initial_strength` must be positive"),
        (
            lambda: capacity_limited_strengths(1.0, [1.0], 0.1, capacity=0.0),
            "`capacity` must be positive",
        ),
        (
            lambda: capacity_limited_strengths(1.0, [1.0], 0.1, tau=np.inf),
            "`tau` must be finite",
        ),
        (
            lambda: view_contributions(1.0, [1.0], 0.1, overlap=1.1),
            "`overlap` must lie between",
        ),
        (
            lambda: view_contributions(1.0, [1.0], 0.1, overlap=0.5, target=0),
            "`target` must be pos",
        ),
        (lambda: latecomer_delay([1.0] * 3, 0.1, overlap=0.5), "needs two `amplitudes`"),
        (lambda: latecomer_delay([1.0] * 2, 0.1, overlap=1.0), "below one"),
    ],
)
def test_views_that_cannot_race(make, message):
    with pytest.raises(ValueError, match=message):
        make()
