"""Test predictions of Figure 1 in their limits and at parameters not used for tuning."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from festina.experiments import load_experiment

B, G = load_experiment("saddles/figure-1b"), load_experiment("saddles/figure-1g")


def drops(experiment, **options) -> tuple[np.ndarray, np.ndarray]:
    """Return measured and predicted drop steps `(seed, drop)`."""
    run = experiment.run(experiment.parameters(**options))
    return run["drops"]["step"].to_numpy(), run["theory"]["drop_step"].to_numpy()


@pytest.mark.slow
@pytest.mark.parametrize("experiment", [B, G], ids=["1B", "1G"])
def test_descent_becomes_the_flow_at_first_order_in_the_learning_rate(experiment):
    paper = experiment.parameters().learning_rate
    flow = drops(experiment, seeds=4, seed=300, method="flow")[0] * paper

    def deviation(rate: float) -> np.ndarray:
        steps, _ = drops(experiment, seeds=4, seed=300, learning_rate=rate)
        return steps[:, 0] * rate / flow[:, 0] - 1

    deviations = np.array([deviation(paper / n) for n in (1, 2, 4, 8)])
    assert (deviations > 0).all()  # 1 + ηs is less than e^{ηs}, so descent is late
    np.testing.assert_allclose(deviations[:-1] / deviations[1:], 2.0, atol=0.06)


@pytest.mark.slow
def test_figure_1b_descent_and_flow_each_have_their_own_formula():
    for method in ("descent", "flow"):
        measured, predicted = drops(B, seeds=4, seed=300, method=method)
        np.testing.assert_allclose(measured, predicted, rtol=1e-4)


@pytest.mark.slow
@settings(max_examples=8)
@given(
    width=st.sampled_from((2, 20)),
    scale=st.floats(-9.0, -5.0).map(lambda exponent: 10.0**exponent),
    first=st.floats(0.3, 5.0),
    ratio=st.floats(0.1, 0.6),
    angle=st.floats(0.0, np.pi),
    method=st.sampled_from(("descent", "flow")),
    seed=st.integers(0, 10_000),
)
def test_figure_1b_drops_follow_from_the_initial_weights_whatever_the_data(
    width, scale, first, ratio, angle, method, seed
):
    """Input covariances have any orientation, with eigenvalues at ratios of 0.1 to 0.6."""
    axes = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    sigma = (axes * np.array([first, ratio * first])) @ axes.T
    measured, predicted = drops(
        B,
        seeds=2,
        seed=seed,
        width=width,
        scale=scale,
        input_covariance=(sigma[0, 0], sigma[0, 1], sigma[1, 1]),
        learning_rate=0.02 / first,
        method=method,
    )
    np.testing.assert_allclose(measured, predicted, rtol=5e-3)


@pytest.mark.slow
def test_figure_1b_drop_times_grow_with_the_logarithm_of_the_scale():
    """The slope d t_k / d ln(1/ε) is 1/s_k, with the eigenvalues s_k of Σ."""
    scales = (1e-5, 1e-7, 1e-9)
    steps = np.array([drops(B, seeds=4, scale=scale, method="flow")[0] for scale in scales])
    times = 2 * B.parameters().learning_rate * steps
    slope = np.diff(times, axis=0) / np.log(100)
    rates = np.linalg.eigvalsh([[1.0, 1.0], [1.0, 4.0]])[::-1]
    np.testing.assert_allclose(slope, np.broadcast_to(1 / rates, slope.shape), rtol=1e-3)


@pytest.mark.slow
def test_figure_1g_error_of_the_prediction_falls_with_the_scale():
    """Escape takes a time of order 1/ε, the remaining time is at most of order ln(1/ε)."""

    def error(scale: float) -> float:
        measured, predicted = drops(G, seeds=4, seed=300, scale=scale)
        return float(np.abs(measured[:, 0] / predicted[:, 0] - 1).max())

    errors = np.array([error(scale) for scale in (8e-3, 4e-3, 2e-3, 1e-3, 5e-4)])
    assert (np.diff(errors) < 0).all()
    assert errors[0] < 0.015
    assert errors[-1] < 3e-3
    # The order of the error approaches one from below, because of the logarithm.
    order = -np.diff(np.log2(errors))
    assert order[-1] > 0.5
    assert (np.diff(order) > 0).all()


@pytest.mark.slow
def test_figure_1g_drop_times_grow_as_one_over_the_scale():
    """For one draw, weights ten times smaller take ten times as long, as t∞ ∝ 1/ε."""
    (_, large), (_, small) = (drops(G, seeds=4, seed=300, scale=s) for s in (5e-3, 5e-4))
    np.testing.assert_allclose(small[:, 0] / large[:, 0], 10.0, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["half", "mean-square"])
def test_figure_1g_prediction_knows_the_loss_convention(loss):
    measured, predicted = drops(G, seeds=4, seed=300, loss=loss)
    np.testing.assert_allclose(measured[:, 0], predicted[:, 0], rtol=0.015)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["mean-over-outputs", "mean-square", "half"])
def test_figure_1b_prediction_knows_the_loss_convention(loss):
    measured, predicted = drops(B, seeds=4, seed=300, loss=loss)
    np.testing.assert_allclose(measured, predicted, rtol=5e-3)


def test_figure_1b_of_a_finite_data_set_is_close_to_the_population():
    """With 8,192 samples the level of the plateau differs by one or two per cent."""
    run = B.run(B.parameters(seeds=4, samples=8192))
    levels = run["plateaus"]["level"].to_numpy()[:, 1]
    np.testing.assert_allclose(levels, (5 - np.sqrt(13)) / 2, rtol=0.03)
    # The width-1 minimum of these samples is met as exactly as that of the population.
    np.testing.assert_allclose(levels, run["theory"]["level"].to_numpy()[1], atol=1e-5)


@pytest.mark.slow
def test_figure_1b_of_a_whitened_sample_rests_between_the_levels_of_its_modes():
    run = B.run(B.parameters(seeds=2, samples=512, seed=3, **B.presets["printed"]))
    low, high = run["theory"]["fixed_point"].to_numpy()
    levels = run["plateaus"]["level"].to_numpy()[:, 1]
    assert (low + 0.1 * (high - low) < levels).all()
    assert (levels < high).all()
    assert [claim for claim in B.claims(run) if claim.broken] == []


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("experiment", "options", "message"),
    [
        (B, {"input_covariance": (1.0, 3.0, 1.0)}, "`covariance` must be positive semi-definite"),
        (B, {"teacher": "whitening", "input_covariance": (1.0, 1.0, 1.0)}, "positive definite"),
        (B, {"learning_rate": 2.0}, "`learning_rate` 2 is unstable.*Use less than 0.116"),
        (
            G,
            {"learning_rate": 0.5},
            "failed from every seed.*learning rate 0.5 is above the stability",
        ),
        (load_experiment("saddles/figure-1d"), {"samples": 8192}, "`samples` must be none"),
        (load_experiment("saddles/figure-1e"), {"samples": 8192}, "`samples` must be none"),
    ],
)
def test_bad_parameters_are_one_clear_line(experiment, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        experiment.run(experiment.parameters(seeds=4, **options))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"width": 1},
        {"width": -3},
        {"scale": 0.0},
        {"scale": -1e-6},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"seeds": 0},
        {"seed": -1},
        {"loss": "mse"},
        {"method": "adam"},
        {"colour": "red"},
    ],
)
@pytest.mark.parametrize("letter", ["b", "c", "d", "e", "f", "g"])
def test_parameters_are_checked_before_anything_runs(letter, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        load_experiment(f"saddles/figure-1{letter}").parameters(**options)
