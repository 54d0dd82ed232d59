r"""The gradients of Sections G.1 and H.1 against automatic differentiation.

For $f = \sum_i v_i u_i^\top Z u_i$ and $L = \frac1P\sum_\mu \frac12 (y_\mu - f_\mu)^2$

$$\dot v_i = u_i^\top\Sigma_{yZ}u_i - \sum_j v_j u_j^\top\langle Z u_j u_i^\top Z\rangle u_i,\qquad
  \dot u_i = 2v_i\Big(\Sigma_{yZ}u_i - \sum_j v_j\langle Z u_i u_j^\top Z\rangle u_j\Big)$$

for symmetric Z. Section H.1 prints $\dot u_i$ without its factor $v_i$, which Eq. (44b) has; and
the sums over samples have ∂L/∂f where ∂ℓ_μ/∂f is meant, P times as large.
"""

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

_SAMPLES, _UNITS, _SIZE = 7, 3, 4


def sign_table(seed: int) -> xr.Dataset:
    """Largest deviations from automatic differentiation, relative to the largest gradient."""
    draw = np.random.default_rng((seed, 14)).normal
    z, y = draw(size=(_SAMPLES, _SIZE, _SIZE)), draw(size=_SAMPLES)
    u, v = draw(size=(_UNITS, _SIZE)), draw(size=_UNITS)
    symmetric = (z + z.transpose(0, 2, 1)) / 2
    names = ("v", "u", "printed_u", "nonsymmetric_u", "printed_mean")
    v_dot, u_dot = _by_hand(u, v, symmetric, y)
    v_true, u_true = _automatic(u, v, symmetric, y)
    _, raw = _automatic(u, v, z, y)
    errors = (
        _apart(v_dot, v_true),
        _apart(u_dot, u_true),
        _apart(u_dot / v[:, None], u_true),
        _apart(_by_hand(u, v, z, y)[1], raw),
        # ∂L/∂f_μ is ∂ℓ_μ/∂f divided by the number of samples.
        float(np.median(v_dot / _SAMPLES / v_true)),
    )
    return xr.Dataset(
        {name: ((), error) for name, error in zip(names, errors, strict=True)},
        attrs={"samples": _SAMPLES},
    )


def _by_hand(
    u: np.ndarray, v: np.ndarray, z: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    sigma = np.einsum("p,pab->ab", y, z) / len(y)
    pairs = np.einsum("pab,ib,jc,pcd->ijad", z, u, u, z) / len(y)  # ⟨Z u_i u_jᵀ Z⟩
    v_dot = np.einsum("ia,ab,ib->i", u, sigma, u) - np.einsum("j,ja,jiab,ib->i", v, u, pairs, u)
    u_dot = 2 * v[:, None] * (u @ sigma.T - np.einsum("j,ijab,jb->ia", v, pairs, u))
    return v_dot, u_dot


def _automatic(
    u: np.ndarray, v: np.ndarray, z: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    def loss(u: jax.Array, v: jax.Array) -> jax.Array:
        f = jnp.einsum("i,ia,pab,ib->p", v, u, z, u)
        return 0.5 * jnp.mean((y - f) ** 2)

    u_grad, v_grad = jax.grad(loss, (0, 1))(jnp.asarray(u), jnp.asarray(v))
    return -np.asarray(v_grad), -np.asarray(u_grad)


def _apart(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max() / np.abs(other).max())
