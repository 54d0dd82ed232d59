"""Balanced weights for tests, and their flow by an independent integration."""

import numpy as np
import scipy.integrate


def rotation(size, rng):
    """Return a random orthogonal matrix with either sign of the determinant."""
    q, r = np.linalg.qr(rng.standard_normal((size, size)))
    return q * np.sign(np.diagonal(r))


def frame(size, columns, rng):
    """Return as many orthonormal columns as fit; the remaining columns are zero."""
    kept = min(size, columns)
    return np.pad(rotation(size, rng)[:, :kept], ((0, 0), (0, columns - kept)))


def balanced_weights(inputs, hidden, outputs, balance, strengths, rng):
    """Return W₁, W₂ with W₂ᵀW₂ − W₁W₁ᵀ = λI and the given singular values of W₂W₁."""
    s = np.zeros(hidden)
    kept = min(inputs, hidden, outputs)
    s[:kept] = np.broadcast_to(strengths, hidden)[:kept]
    large = np.sqrt((np.hypot(balance, 2 * s) + abs(balance)) / 2)
    small = np.divide(s, large, out=np.zeros(hidden), where=large > 0)
    in_first, in_second = (small, large) if balance >= 0 else (large, small)
    turn = rotation(hidden, rng)
    first = turn @ (in_first[:, None] * frame(inputs, hidden, rng).T)
    return first, (frame(outputs, hidden, rng) * in_second) @ turn.T


def two_by_two(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


SQUARE = np.array([[1.2, 0.4], [-0.3, 0.8]])
FUNNEL = np.array([[1.2, 0.4, 0.5], [-0.3, 0.8, -0.6]])


def tabled(shape, balance):
    """Return W₁, W₂ and Σ of the table of reference values."""
    small = np.array([0.3, 0.2])
    large = np.sqrt(small**2 + abs(balance))
    p, q = (small, large) if balance >= 0 else (large, small)
    if shape == "square":
        return np.diag(p) @ two_by_two(0.3).T, two_by_two(1.1) @ np.diag(q), SQUARE
    if shape == "funnel":
        return np.diag(p) @ np.eye(2, 3), two_by_two(1.1) @ np.diag(q), FUNNEL
    return np.diag(p) @ two_by_two(1.1).T, np.eye(3, 2) @ np.diag(q), FUNNEL.T


def integrate(first, second, correlation, times, *, rtol=1e-12, atol=1e-14):
    """Integrate gradient flow of the weights; return M = QQᵀ at each time."""
    hidden, inputs = first.shape
    outputs = len(second)

    def split(y):
        return y[: first.size].reshape(first.shape), y[first.size :].reshape(second.shape)

    def slope(_, y):
        w1, w2 = split(y)
        error = correlation - w2 @ w1
        return np.concatenate([(w2.T @ error).ravel(), (error @ w1.T).ravel()])

    run = scipy.integrate.solve_ivp(
        slope,
        (0.0, max(times)),
        np.concatenate([first.ravel(), second.ravel()]),
        t_eval=times,
        method="DOP853",
        rtol=rtol,
        atol=atol,
    )
    stacked = [np.concatenate([w1.T, w2]) for w1, w2 in map(split, run.y.T)]
    assert stacked[0].shape == (inputs + outputs, hidden)
    return np.array([q @ q.T for q in stacked])


def gram(state):
    """Return M = QQᵀ of a state."""
    return state.factor @ state.factor.swapaxes(-1, -2)


def driving_matrix(correlation, balance):
    outputs, inputs = correlation.shape
    return np.block(
        [
            [-balance / 2 * np.eye(inputs), correlation.T],
            [correlation, balance / 2 * np.eye(outputs)],
        ]
    )


def generic_limit(correlation, balance, hidden):
    """Return 2PF, with P the projection on the `hidden` largest positive eigenvalues of F."""
    f, vectors = np.linalg.eigh(driving_matrix(correlation, balance))
    kept = np.argsort(f)[::-1][:hidden]
    kept = kept[f[kept] > 1e-12]
    return 2 * (vectors[:, kept] * f[kept]) @ vectors[:, kept].T
