r"""Errata of Proposition 5: Eq. (55) and Sections G.1 and H.1 as printed, against numerics.

Let $a_k = r_k^\top u/\sqrt2$ and $\pi_m = a_m/a_m(0)$. Eq. (55) states

$$\dot\pi_m = v s_m\pi_m = \operatorname{sign}(v(0))\, s_m\pi_m
  \sqrt{v(0)^2 + \sum_k a_k(0)^2 (\pi_m^{2s_k/s_m} - 1)}.$$

The second equality of Eq. (55) assumes that v keeps the sign of $v(0)$. For
$f = \sum_i v_i u_i^\top Z u_i$, $L = \frac1P\sum_\mu\frac12(y_\mu - f_\mu)^2$ and symmetric Z, the
gradient flow is

$$\dot v_i = u_i^\top\Sigma_{yZ}u_i - \sum_j v_j u_j^\top\langle Z u_j u_i^\top Z\rangle u_i,\qquad
  \dot u_i = 2v_i\Big(\Sigma_{yZ}u_i - \sum_j v_j\langle Z u_i u_j^\top Z\rangle u_j\Big).$$
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ...._numerics._integrate import integrate
from ....experiments.claims import ClaimCollector, agree, max_error_below, most_seeds

_PART, _MOMENTS = 0.95, 400  # fraction of the escape time; samples
_SAMPLES, _UNITS, _SIZE = 7, 3, 4


def reduced_speeds(
    speed: Callable[[np.ndarray], np.ndarray], weights: np.ndarray, s: np.ndarray, ends: np.ndarray
) -> xr.Dataset:
    """Return the error of v from Eq. (55), over the largest |v|, with signs of v(0) and of v."""
    units, _ = weights.shape
    clock = np.linspace(0.0, _PART, _MOMENTS)  # in this clock every unit reaches infinity at one
    way = integrate(lambda _, x: ends[:, None] * speed(x), clock, weights, rtol=1e-13, atol=1e-20)
    way = np.moveaxis(way, 0, -1)
    u, v = way[:, :-1], way[:, -1]
    m, unit = np.argmax(np.sign(v[:, :1]) * s, axis=1), np.arange(units)
    powers = (2 * s / s[m, None])[:, :, None] * np.log(u[unit, m] / u[unit, m, :1])[:, None]
    radicand = v[:, :1] ** 2 + np.einsum("uk,ukt->ut", u[:, :, 0] ** 2 / 2, np.expm1(powers))
    root = np.sqrt(np.maximum(radicand, 0.0))
    off = lambda sign: np.max(np.abs(sign * root - v), axis=1) / np.max(np.abs(v), axis=1)
    signs = {"printed": np.sign(v[:, :1]), "corrected": np.sign(v)}
    return xr.Dataset({name: ("unit", off(sign)) for name, sign in signs.items()})


def gradients(seed: int) -> xr.Dataset:
    """Return the errors of the printed gradients, relative to the largest exact gradient."""
    draw = np.random.default_rng((seed, 14)).normal
    z, y = draw(size=(_SAMPLES, _SIZE, _SIZE)), draw(size=_SAMPLES)
    u, v = draw(size=(_UNITS, _SIZE)), draw(size=_UNITS)

    def loss(u: jax.Array, v: jax.Array) -> jax.Array:
        return 0.5 * jnp.mean((y - jnp.einsum("i,ia,pab,ib->p", v, u, z, u)) ** 2)

    u_true, v_true = (-np.asarray(g) for g in jax.grad(loss, (0, 1))(jnp.array(u), jnp.array(v)))
    v_dot, u_dot = _by_hand(u, v, (z + z.transpose(0, 2, 1)) / 2, y)
    off = lambda one, other: np.abs(one - other).max() / np.abs(other).max()
    numbers = {
        "v": off(v_dot, v_true),
        "u": off(u_dot, u_true),
        "printed_u": off(u_dot / v[:, None], u_true),
        "nonsymmetric_u": off(_by_hand(u, v, z, y)[1], u_true),
        # The printed ∂L/∂f_μ is ∂ℓ_μ/∂f divided by the number of samples.
        "printed_mean": np.median(v_dot / _SAMPLES / v_true),
    }
    return xr.Dataset(numbers, attrs={"samples": _SAMPLES})


def _by_hand(
    u: np.ndarray, v: np.ndarray, z: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    sigma = np.einsum("p,pab->ab", y, z) / len(y)
    pairs = np.einsum("pab,ib,jc,pcd->ijad", z, u, u, z) / len(y)  # ⟨Z u_i u_jᵀ Z⟩
    v_dot = np.einsum("ia,ab,ib->i", u, sigma, u) - np.einsum("j,ja,jiab,ib->i", v, u, pairs, u)
    return v_dot, 2 * v[:, None] * (u @ sigma.T - np.einsum("j,ijab,jb->ia", v, pairs, u))


def errata(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check the equations as printed, and their corrections."""
    ways, g, samples = run["reduced"].ds, run["gradients"].ds, run["gradients"].attrs["samples"]
    none = lambda name: max_error_below(g[name], within=1e-12)
    right = ways["printed"] <= 1e-6  # units bounce in the first half, so the end is decisive
    claim(
        "printed-way",
        "Eq. (55) as printed gives the readout v = π̇_m/(s_m π_m) of every unit at all times",
        most_seeds(right, of="units"),
        at="Eq. (55)",
        wrong="Eq. (55) keeps the sign of v(0), which fails for the units that bounce, and for no "
        "others",
        instead=most_seeds(right != run["both_signs"].ds["bounces"], of="units"),
    )
    claim(
        "corrected-way",
        "Eq. (55) with sign(v) gives the readout v = π̇_m/(s_m π_m) of every unit at all times "
        "(error over the largest |v|)",
        max_error_below(ways["corrected"], within=1e-6),
        at="Eq. (55)",
        corrected="sign(v) replaces sign(v(0)): v changes sign where the radicand is zero",
    )
    words = "Eq. (44a) for v̇_i agrees with automatic differentiation (relative error)"
    claim("gradient-v", words, none("v"), at="Eq. (44a)")
    column = "u̇_i must be a column vector, and Z must be made symmetric"
    claim(
        "gradient-u",
        "Eq. (44b) for u̇_i agrees with automatic differentiation (relative error)",
        none("u"),
        at="Eq. (44b)",
        corrected=column,
    )
    for id, words, name, at, wrong in (
        ("nonsymmetric-gradient", "Eq. (44b) for u̇_i holds if Z is not symmetric (relative error)",
         "nonsymmetric_u", "Eq. (44b)", "only (Z + Zᵀ)/2 enters f and must replace Z"),
        ("printed-gradient", "the first expression for u̇_i in Section H.1 holds (relative error)",
         "printed_u", "Section H.1", "the factor v_i is missing"),
    ):  # fmt: skip
        claim(id, words, none(name), at=at, wrong=wrong, instead=none("u"))
    claim(
        "printed-mean-gradient",
        "Sections G.1 and H.1: the mean over samples of ∂L/∂f · ∂f/∂v is the gradient (ratio of "
        "the two)",
        agree(g["printed_mean"], 1.0, within=1e-12),
        at="Sections G.1 and H.1",
        wrong="∂L/∂f must be ∂ℓ_μ/∂f, where ℓ_μ is the loss of one sample",
        instead=agree(g["printed_mean"], 1 / samples, within=1e-12),
    )
