"""Test timescales between units against integration, Eq. (56), closed forms and descent."""

from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

from festina.networks import layer_from
from festina.tasks import from_moments
from festina.theory.saddles import _unit_time, _unit_ways, blow_up_times, first_unit_to_escape

SPECTRUM = np.array([1.0, 0.4, -0.7])  # eigenvalues of both signs, so that units bounce


def rotation(size, rng):
    return np.linalg.qr(rng.standard_normal((size, size)))[0]


def integrated(s, u, v, *, rtol=1e-13, length=80.0):
    """Return t∞ by integrating Eq. (14), one unit per row, without w or the conservation law.

    The direction n on the sphere, the logarithm of the size ρ and the time t are integrated over σ
    with dσ = ρ dt, in which nothing diverges. The time t is then exact to e^{-ln ρ}, which is
    returned as well.
    """
    count, size = u.shape
    theta = np.concatenate([v[:, None], u], axis=1)
    rho = np.linalg.norm(theta, axis=1)
    start = np.concatenate([theta / rho[:, None], np.zeros((count, 2))], axis=1)

    def rhs(_, y):
        y = y.reshape(count, size + 3)
        n, log_size = y[:, : size + 1], y[:, size + 1]
        force = np.concatenate([n[:, 1:] ** 2 @ s[:, None], 2 * n[:, :1] * s * n[:, 1:]], axis=1)
        growth = np.sum(n * force, axis=1) / np.sum(n * n, axis=1)
        rest = np.stack([growth, np.exp(-log_size)], axis=1)
        return np.concatenate([force - growth[:, None] * n, rest], axis=1).ravel()

    run = scipy.integrate.solve_ivp(
        rhs, (0, length), start.ravel(), method="DOP853", rtol=rtol, atol=1e-15
    )
    end = run.y[:, -1].reshape(count, size + 3)
    return end[:, size + 2] / rho, end[:, size + 1]


def hill(s, u, v):
    """Return v² as a function of w = ∫v dτ, for one unit."""
    a2 = u**2 / 2
    return lambda w: v**2 + a2 @ np.expm1(2 * s * w)


def bounces(s, u, v):
    """Return whether v changes its sign: v² has a zero in the direction of v."""
    side = np.sign(v)
    far: Any = scipy.optimize.minimize_scalar(
        lambda w: hill(s, u, v)(side * w), bounds=(0, 30), method="bounded"
    )
    return far.fun < 0


def units(count, size, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, size)), rng.standard_normal(count)


# ---- independent computations -------------------------------------------------------------------


def test_200_units_agree_with_direct_integration_bouncing_or_not():
    u, v = units(200, 3, seed=0)
    turn = rotation(3, np.random.default_rng(1))
    times = blow_up_times(
        layer_from("quadratic", u @ turn.T, v), from_moments(np.array([turn * SPECTRUM @ turn.T]))
    )
    errors = {}
    for rtol in (1e-6, 1e-9, 1e-13):
        direct, log_size = integrated(SPECTRUM, u, v, rtol=rtol)
        errors[rtol] = np.abs(times / direct - 1).max()
    assert log_size.min() > 30  # all units have escaped
    assert errors[1e-9] < 1e-2 * errors[1e-6]  # the integrator approaches the quadrature
    assert errors[1e-13] < 1e-12
    turned = sum(bounces(SPECTRUM, u[i], v[i]) for i in range(200))
    assert 22 <= turned <= 55  # three standard errors about 200 times the probability, 0.192


def test_equation_56_on_units_that_do_not_bounce():
    """The time is half of Eq. (56), whose clock is τ = 2t; for bouncing units (56) is imaginary."""
    u, v = units(40, 3, seed=3)
    times = blow_up_times(
        layer_from("quadratic", u, v), from_moments([np.diag(SPECTRUM)]), tolerance=1e-12
    )
    seen = 0
    for i in range(40):
        m = np.argmax(np.sign(v[i]) * SPECTRUM)
        radicand = hill(SPECTRUM, u[i], v[i])
        if bounces(SPECTRUM, u[i], v[i]):
            continue
        seen += 1
        # π = eˣ: ∫₁^∞ dπ/(π √F) = ∫₀^∞ dx/√F
        integral = scipy.integrate.quad(
            lambda x, m=m, f=radicand: 1 / np.sqrt(f(x / SPECTRUM[m])),
            0.0,
            60.0,
            epsabs=0,
            epsrel=1e-12,
            limit=400,
        )[0]
        assert times[i] == pytest.approx(integral / abs(SPECTRUM[m]) / 2, rel=1e-12)
    assert seen > 25


@pytest.mark.parametrize(
    "s",
    [
        (4.0, 4.0),
        (-4.0, -4.0),
        (1.0, -1.0),
        (1.0, 0.05, 0.0),
        (10.0, 0.3, -0.2, 0.1),
        (1.0, 0.02, -0.02),
    ],
)
def test_other_spectra_agree_with_direct_integration(s):
    s = np.array(s)
    u, v = units(30, s.size, seed=11)
    times = blow_up_times(layer_from("quadratic", u, v), from_moments(np.array([np.diag(s)])))
    direct, log_size = integrated(s / np.abs(s).max(), u, v, length=160.0)
    escaped = log_size > 30
    assert escaped.sum() >= 15
    assert np.allclose(times[escaped], direct[escaped] / np.abs(s).max(), rtol=1e-11)
    if np.all(s >= 0) or np.all(s <= 0):
        never = (np.sign(s.sum()) * v < 0) & (v**2 >= np.sum(u[:, s != 0] ** 2, axis=1) / 2)
        assert np.array_equal(np.isinf(times), never)
        assert never.any()
    else:
        assert np.isfinite(times).all()


def test_isotropic_correlation_has_a_closed_form():
    """For Σ = sI, v̇ = s(v² − E) in τ with E = v₀² − |u|²/2: arctanh, arctan or infinity."""
    s = 4.0
    u, v = units(200, 2, seed=5)
    energy = v**2 - np.sum(u**2, axis=1) / 2
    root = np.sqrt(np.abs(energy))
    with np.errstate(divide="ignore", invalid="ignore"):
        tau = np.where(
            energy > 0,
            np.where(v > 0, np.arctanh(root / v), np.inf),
            np.pi / 2 - np.arctan(v / root),
        ) / (s * root)
    times = blow_up_times(layer_from("quadratic", u, v), from_moments(np.array([s * np.eye(2)])))
    assert np.isinf(times).any()
    assert np.allclose(times, tau / 2, rtol=1e-12)


def test_near_the_top_of_the_hill_time_is_logarithmic():
    """For s = ±1 and a = (1, ½), v² touches zero at v₀ = −½, and T ∝ −ln|v₀ + ½| on both sides."""
    u = np.sqrt(2) * np.array([1.0, 0.5])
    offsets = np.array([1e-3, 1e-4, 1e-5, 1e-6])
    for side in (1, -1):  # units that pass the top, and units that turn back
        v = -0.5 - side * offsets
        times = blow_up_times(
            layer_from("quadratic", np.tile(u, (4, 1)), v),
            from_moments(np.array([np.diag([1.0, -1.0])])),
        )
        # κ² = Σ 2 s² B = 2 with B = ½ each; passing takes τ = ln(1/|F_min|)/κ + const.
        slope = np.diff(2 * times) / np.diff(-np.log(np.abs(v**2 - 0.25)))
        assert np.allclose(slope, 1 / np.sqrt(2), rtol=1e-2)
        direct, _ = integrated(np.array([1.0, -1.0]), np.tile(u, (4, 1)), v)
        assert np.allclose(times, direct, rtol=1e-9)
    assert (
        blow_up_times(
            layer_from("quadratic", [u], [-0.5]), from_moments(np.array([np.diag([1.0, -1.0])]))
        )[0]
        == np.inf
    )
    assert np.isfinite(
        blow_up_times(
            layer_from("quadratic", [u], [0.5]), from_moments(np.array([np.diag([1.0, -1.0])]))
        )
    )[0]


def test_error_falls_with_the_number_of_nodes():
    """Uniform panels of 16 points converge spectrally for every kind of path."""
    u, v = units(100, 3, seed=2)
    a = np.abs(u) / np.sqrt(2)
    seen = set()
    for s in (SPECTRUM, np.array([1.0, 0.6, 0.3])):
        for way in _unit_ways.ways(s, a, v):
            seen.add(way.kind)

            def time(panels, way=way):
                n = way.unit.size
                row, low = np.repeat(np.arange(n), panels), np.tile(np.arange(panels) / panels, n)
                parts = _unit_time.panel_time(way, row, low, np.full(n * panels, 1 / panels))
                return np.bincount(row, parts)

            exact = time(64)
            errors = [np.abs(time(panels) / exact - 1).max() for panels in (2, 4, 8, 16)]
            assert errors[1] < 5e-2 * errors[0]
            assert errors[2] < max(1e-3 * errors[1], 1e-13)
            assert errors[3] < 1e-13
    assert seen == {"through", "bounce", "wall", "slope"}


def test_the_tolerance_bounds_the_error():
    u, v = units(300, 4, seed=9)
    s = np.diag([1.0, 0.03, -0.02, -0.5])
    best = blow_up_times(
        layer_from("quadratic", u, v), from_moments(np.array([s])), tolerance=1e-13
    )
    for tolerance in (1e-3, 1e-6, 1e-9):
        assert np.all(
            np.abs(
                blow_up_times(
                    layer_from("quadratic", u, v), from_moments(np.array([s])), tolerance=tolerance
                )
                / best
                - 1
            )
            < tolerance
        )


# ---- symmetries and limits ----------------------------------------------------------------------


def test_scaling_and_symmetries():
    rng = np.random.default_rng(4)
    u, v = units(50, 4, seed=6)
    root = rng.standard_normal((4, 4))
    correlation = root + root.T
    times = blow_up_times(layer_from("quadratic", u, v), from_moments(correlation[None]))
    for factor in (1e-3, 7.0, 1e-150):
        assert np.allclose(
            blow_up_times(
                layer_from("quadratic", factor * u, factor * v),
                from_moments(correlation[None]),
            )
            * factor,
            times,
        )
        assert np.allclose(
            blow_up_times(
                layer_from("quadratic", u, v), from_moments(np.array([factor * correlation]))
            )
            * factor,
            times,
        )
    assert np.allclose(
        blow_up_times(layer_from("quadratic", u, -v), from_moments(np.array([-correlation]))),
        times,
        rtol=1e-12,
    )
    assert np.allclose(
        blow_up_times(layer_from("quadratic", -u, v), from_moments(correlation[None])),
        times,
        rtol=1e-12,
    )
    turn = rotation(4, rng)
    turned = blow_up_times(
        layer_from("quadratic", u @ turn.T, v),
        from_moments(np.array([turn @ correlation @ turn.T])),
    )
    assert np.allclose(turned, times, rtol=1e-11)


def test_batch_axes():
    u, v = units(24, 3, seed=0)
    times = blow_up_times(layer_from("quadratic", u, v), from_moments([np.diag(SPECTRUM)]))
    batched = blow_up_times(
        layer_from("quadratic", u.reshape(2, 3, 4, 3), v.reshape(2, 3, 4)),
        from_moments([np.diag(SPECTRUM)]),
    )
    assert np.allclose(batched.ravel(), times, rtol=1e-14)
    index, first = first_unit_to_escape(
        layer_from("quadratic", u.reshape(2, 3, 4, 3), v.reshape(2, 3, 4)),
        from_moments([np.diag(SPECTRUM)]),
    )
    assert index.shape == first.shape == (2, 3)
    assert np.array_equal(index, batched.argmin(axis=-1))
    assert np.array_equal(first, batched.min(axis=-1))


@pytest.mark.parametrize(
    ("s", "a", "v", "time"),
    [
        ((1.0, 2.0), (0.0, 0.0), 1.0, np.inf),  # u = 0: v is constant
        ((0.0, 0.0), (1.0, 1.0), 1.0, np.inf),
        ((0.0, 1.0), (1.0, 0.0), 1.0, np.inf),  # Σu = 0
        ((1.0, 1.0), (0.6, 0.8), -1.0, np.inf),  # v₀² = Σ a²: slowly approaches the origin
        ((-1.0, -1.0), (0.6, 0.8), 1.0, np.inf),
        ((1.0, 0.0), (0.6, 0.8), -0.6, np.inf),  # components with s = 0 do not contribute
        ((1.0, -1.0), (1.0, 1.0), 0.0, np.inf),  # at rest on the top
        ((1.0, -1.0), (0.0, 1.0), 1.0, np.inf),  # approaches v = 0 for ever
        ((1.0,), (1.0,), 1.0, 0.5),  # v̇ = v² in τ
        ((1.0, -1.0), (1.0, 0.0), 1.0, 0.5),
        ((2.0,), (0.5,), 0.0, np.pi / 4),  # τ = π/(2 s a)
        ((-2.0,), (0.5,), 0.0, np.pi / 4),
        ((0.0, 2.0), (9.0, 0.5), 0.0, np.pi / 4),
    ],
)
def test_edges(s, a, v, time):
    result = blow_up_times(
        layer_from("quadratic", np.sqrt(2) * np.array([a]), [v]),
        from_moments(np.array([np.diag(s)])),
    )
    assert result[0] == pytest.approx(time, rel=1e-13)


def test_no_winner():
    index, time = first_unit_to_escape(
        layer_from("quadratic", np.zeros((2, 3, 2)), np.ones((2, 3))),
        from_moments([np.eye(2)]),
    )
    assert np.array_equal(index, [-1, -1])
    assert np.all(time == np.inf)


def test_one_dominating_eigenvalue_decides():
    """As s₂/s₁ → 0, the second direction only shifts v₀² − Σa², to first order in the ratio."""
    u, v = units(20, 2, seed=8)
    v = np.abs(v)
    alone = blow_up_times(layer_from("quadratic", u[:, :1], v), from_moments(np.array([[[1.0]]])))
    shift = [
        np.abs(
            blow_up_times(
                layer_from("quadratic", u, v), from_moments(np.array([np.diag([1.0, ratio])]))
            )
            / alone
            - 1
        ).max()
        for ratio in (1e-4, 1e-5, 1e-6)
    ]
    assert np.allclose(np.diff(np.log10(shift)), -1.0, atol=0.05)


def test_linear_attention_head_as_a_quadratic_unit():
    """Compare v kᵀMq with u = [k, q] with integration of v̇ = kᵀMq, k̇ = vMq, q̇ = vMᵀk."""
    rng = np.random.default_rng(12)
    m = rng.standard_normal((2, 3))
    k, q, v = rng.standard_normal((6, 2)), rng.standard_normal((6, 3)), rng.standard_normal(6)
    block = np.block([[np.zeros((2, 2)), m / 2], [m.T / 2, np.zeros((3, 3))]])
    lam = np.array([1.3, 0.4])
    eigenvalues = np.linalg.eigvalsh(
        np.block([[np.zeros((2, 2)), np.diag(lam**2) / 2], [np.diag(lam**2) / 2, np.zeros((2, 2))]])
    )
    assert np.allclose(eigenvalues, np.sort([*(-(lam**2) / 2), *(lam**2 / 2)]))
    times = blow_up_times(
        layer_from("quadratic", np.concatenate([k, q], axis=-1), v), from_moments(np.array([block]))
    )
    for i in range(6):

        def rhs(_, y):
            v, k, q = y[0], y[1:3], y[3:]
            return np.concatenate([[k @ m @ q], v * m @ q, v * m.T @ k])

        large: Any = lambda _, y: np.abs(y).max() - 1e7
        large.terminal = True
        run = scipy.integrate.solve_ivp(
            rhs, (0, 1e3), [v[i], *k[i], *q[i]], events=large, method="DOP853",
            rtol=1e-12, atol=1e-14,
        )  # fmt: skip
        assert times[i] == pytest.approx(run.t_events[0][0], rel=1e-6)


# ---- the quadratic network of Figure 1G ---------------------------------------------------------


def figure_1G(scale, seeds, *, eta=0.04, width=10):
    """Return the first drop of descent on ⟨(y − f)²⟩ in population, and the unit that has grown.

    For y = |x|², x ~ N(0, I₂) and f = xᵀ(Σ vuuᵀ)x, L = (tr M)² + 2 tr M² with M = I − Σ vuuᵀ.
    """
    rng = np.random.default_rng(seeds[0])
    u = scale * rng.standard_normal((len(seeds), width, 2))
    v = scale * rng.standard_normal((len(seeds), width))
    u0, v0 = u, v
    drop, grown = np.full(len(seeds), np.nan), np.zeros(len(seeds), int)
    before, middle = np.full(len(seeds), 8.0), (8 + 8 / 3) / 2
    step = 0
    while np.isnan(drop).any():
        m = np.eye(2) - np.einsum("si,sia,sib->sab", v, u, u)
        trace = np.trace(m, axis1=1, axis2=2)
        loss = trace**2 + 2 * np.sum(m * m, axis=(1, 2))
        new = np.isnan(drop) & (loss < middle)
        drop[new] = step - (middle - loss[new]) / (before - loss)[new]
        grown[new] = np.argmax(np.abs(v) * np.sum(u * u, axis=-1), axis=-1)[new]
        before = loss
        force = trace[:, None, None] * u + 2 * u @ m  # (tr M + 2M) u
        u, v = u + eta * 4 * v[..., None] * force, v + eta * 2 * np.sum(u * force, axis=-1)
        step += 1
        assert step < 20_000
    return u0, v0, drop, grown


def test_figure_1G_first_drop_and_winner_from_the_initial_weights():
    correlation, eta = 4 * np.eye(2), 0.04
    late, errors = [], []
    for scale in (5e-3, 5e-4):
        u, v, drop, grown = figure_1G(scale, range(100, 112), eta=eta)
        index, time = first_unit_to_escape(
            layer_from("quadratic", u, v), from_moments(correlation[None])
        )
        assert np.array_equal(index, grown)
        predicted = time / (2 * eta)  # = τ_H2/(4η): n steps of size η on 2L are t = 2ηn
        late.append(drop - predicted)
        errors.append(drop / predicted - 1)
    assert np.all(np.abs(errors[0]) < 0.015)
    assert np.all(np.abs(errors[1]) < 0.0025)
    # r ← r + hr² is late by one step for each factor e of growth, plus a constant.
    assert np.allclose((late[1] - late[0]) / np.log(10), 1.0, atol=0.05)


# ---- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", [0.0, 1e-16, np.nan, 1.0])
def test_unreachable_tolerance(tolerance):
    with pytest.raises(ValueError, match="`tolerance` must be"):
        blow_up_times(
            layer_from("quadratic", np.ones((2, 2)), np.ones(2)),
            from_moments([np.eye(2)]),
            tolerance=tolerance,
        )
