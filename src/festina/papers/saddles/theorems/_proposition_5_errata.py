r"""Proposition 5: what Sections G.1, H.1 and Eq. (55) print, against integration and autodiff.

With $a_k = r_k^\top u/\sqrt2$ and $\pi_m = a_m/a_m(0)$ Eq. (55) has
$\dot\pi_m = v s_m\pi_m = \operatorname{sign}(v(0))\, s_m\pi_m\sqrt{v(0)^2 + \sum_k a_k(0)^2
(\pi_m^{2s_k/s_m} - 1)}$: the second equality keeps the sign of $v(0)$. For
$f = \sum_i v_i u_i^\top Z u_i$ and $L = \frac1P\sum_\mu\frac12(y_\mu - f_\mu)^2$, symmetric Z,

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

_PART, _MOMENTS = 0.95, 400  # of the way to infinity, by the clock
_SAMPLES, _UNITS, _SIZE = 7, 3, 4


def reduced_speeds(
    speed: Callable[[np.ndarray], np.ndarray], weights: np.ndarray, s: np.ndarray, ends: np.ndarray
) -> xr.Dataset:
    """How far v of Eq. (55) is from v, over the largest |v|: with the sign of v(0), and of v."""
    units, _ = weights.shape
    clock = np.linspace(0.0, _PART, _MOMENTS)  # on which every unit reaches infinity at one
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
    """What the equations are off by from automatic differentiation, over the largest gradient."""
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
        # ∂L/∂f_μ is ∂ℓ_μ/∂f divided by the number of samples.
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
    """What is printed, and what is right."""
    ways, g, samples = run["reduced"].ds, run["gradients"].ds, run["gradients"].attrs["samples"]
    none = lambda name: max_error_below(g[name], within=1e-12)
    right = ways["printed"] <= 1e-6  # units turn within half of their way: its end tells
    claim(
        "printed-way",
        "Eq. (55) as printed is v = π̇_m/(s_m π_m) along the way of every unit",
        most_seeds(right, of="units"),
        at="Eq. (55)",
        wrong="it keeps the sign of v(0), wrong for those units that bounce, and for no others",
        instead=most_seeds(right != run["both_signs"].ds["bounces"], of="units"),
    )
    claim(
        "corrected-way",
        "Eq. (55) with the sign of v is v = π̇_m/(s_m π_m), over the largest |v| of the way",
        max_error_below(ways["corrected"], within=1e-6),
        at="Eq. (55)",
        corrected="sign(v) in place of sign(v(0)): v changes sign where the radicand is zero",
    )
    claim("gradient-v", "Eq. (44a): v̇_i by automatic differentiation", none("v"), at="Eq. (44a)")
    column = "a column vector, and Z made symmetric"
    claim(
        "gradient-u",
        "Eq. (44b): u̇_i by automatic differentiation",
        none("u"),
        at="Eq. (44b)",
        corrected=column,
    )
    for id, words, name, at, wrong in (
        ("nonsymmetric-gradient", "Eq. (44b): u̇_i for a Z that is not symmetric",
         "nonsymmetric_u", "Eq. (44b)", "only (Z + Zᵀ)/2 enters f: put that in place of Z"),
        ("printed-gradient", "u̇_i as Section H.1 prints it first", "printed_u", "Section H.1",
         "the factor v_i is missing"),
    ):  # fmt: skip
        claim(id, words, none(name), at=at, wrong=wrong, instead=none("u"))
    claim(
        "printed-mean-gradient",
        "mean over samples of ∂L/∂f · ∂f/∂v, as printed, over the true gradient",
        agree(g["printed_mean"], 1.0, within=1e-12),
        at="Sections G.1 and H.1",
        wrong="∂ℓ_μ/∂f is meant, the loss of one sample",
        instead=agree(g["printed_mean"], 1 / samples, within=1e-12),
    )
