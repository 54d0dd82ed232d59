"""Initial weights of two layers with a given balance between them."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from .._checks import real_array
from .._precision import float64
from .._types import ArrayLike, Keys
from ._build import check_batch, check_scale, normals
from ._deep_linear import DeepLinear, check_widths
from ._frames import haar, joined, needed_key, orthonormal
from ._labels import seed_labels


@float64
def lambda_balanced(
    widths: Sequence[int],
    *,
    balance: ArrayLike,
    scale: ArrayLike | None = None,
    singular_values: ArrayLike | None = None,
    product: ArrayLike | None = None,
    key: Keys | None = None,
) -> DeepLinear:
    r"""Return two-layer weights with $W_2^\top W_2 - W_1 W_1^\top = \lambda I$.

    Where the product $W_2W_1 = USV^\top$ has the singular value s, the layers have

    $$q,\, p = \sqrt{\tfrac12\left(\sqrt{\lambda^2 + 4s^2} \pm \lambda\right)}$$

    (second and first): $W_2 = U\,\mathrm{diag}(q)R^\top$ and $W_1 = R\,\mathrm{diag}(p)V^\top$,
    with a random rotation R of the hidden layer (Dominé et al., 2025). Gradient flow conserves λ.
    The identity has rank $N_h$, so that for λ > 0 the second layer needs this rank as well, hence
    $N_h \le N_o$; for λ < 0 the first does, $N_h \le N_i$; λ = 0 always exists.

    **Arguments:**

    - `widths`: $(N_i, N_h, N_o)$.
    - `balance`: λ, a number or an array of them for a batch.
    - `scale`: take the product of two Gaussian matrices of this standard deviation; or
    - `singular_values`: of the product, `(*batch, mode)` with at most $\min(N_i, N_h, N_o)$ modes
      and random singular vectors; or
    - `product`: the product itself, `(*batch, output, input)`, of rank at most $N_h$.
    - `key`: randomness. With a `product` it may be left out: R is then the identity.
    """
    n_i, n_h, n_o = widths = check_widths(widths, depth=2)
    λ = _check_balance(balance, widths)
    if sum(given is not None for given in (scale, singular_values, product)) != 1:
        raise ValueError("Give exactly one of `scale`, `singular_values` and `product`.")
    labels = {"balance": λ}
    if product is None or key is not None:
        key = needed_key(key)
        check_batch(λ, key, name="balance")

    if singular_values is not None:
        s = _check_singular_values(singular_values, widths)
        u, v, r = haar(key, [(n_o, n_o), (n_i, n_i), (n_h, n_h)])
    elif scale is not None:
        labels["scale"] = scales = check_scale(scale)
        key = needed_key(key)
        check_batch(scales, key)
        σ = scales[..., None, None]
        first, second, draw = normals(key, ((n_h, n_i), (n_o, n_h), (n_h, n_h)))
        u, s, v = _svd(σ**2 * (second @ first), widths)
        r = orthonormal(draw)
    else:
        assert product is not None, "one of the three is given"
        total = _check_product(product, widths)
        r = np.eye(n_h) if key is None else haar(key, [(n_h, n_h)])[0]
        u, s, v = _svd(total, widths)

    # Hidden directions beyond the product's modes carry none of it, but the balance all the same.
    s = np.concatenate((s, np.zeros((*s.shape[:-1], n_h - s.shape[-1]))), axis=-1)
    p, q = _layer_strengths(λ[..., None], s)
    inputs, outputs = min(n_i, n_h), min(n_o, n_h)
    r_t = r.swapaxes(-1, -2)
    network = joined(
        (r[..., :inputs] * p[..., None, :inputs]) @ v[..., :inputs].swapaxes(-1, -2),
        (u[..., :outputs] * q[..., None, :outputs]) @ r_t[..., :outputs, :],
    )
    return network.labelled(**labels, **seed_labels(key))


def _layer_strengths(
    λ: Float[np.ndarray, "..."], s: Float[np.ndarray, "*batch mode"]
) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """Return p and q of the first and of the second layer: q² − p² = λ and pq = s."""
    large = np.sqrt((np.hypot(λ, 2 * s) + np.abs(λ)) / 2)
    # s over the large one and not the formula with its minus sign, where digits cancel.
    small = s / np.where(large > 0, large, 1.0)
    return np.where(λ > 0, small, large), np.where(λ > 0, large, small)


def _svd(
    product: Float[np.ndarray, "*batch output input"], widths: tuple[int, ...]
) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "*batch mode"], Float[np.ndarray, "..."]]:
    """Return U, s and V, with as many modes as these widths let through."""
    modes = min(widths)
    u, s, vt = np.linalg.svd(product)
    if s.shape[-1] > modes and (s[..., modes] > 1e-10 * s[..., 0]).any():
        raise ValueError(
            f"`product` has a rank above the {widths[1]} hidden units of widths {widths}: no "
            "weights have this product. Use as many hidden units as its rank."
        )
    return u, s[..., :modes], vt.swapaxes(-1, -2)


def _check_balance(balance: ArrayLike, widths: tuple[int, ...]) -> Float[np.ndarray, "*batch"]:
    n_i, n_h, n_o = widths
    λ = real_array("balance", balance)
    if not λ.size or not np.isfinite(λ).all():
        raise ValueError(
            f"`balance` must be finite, one number or an array of them, got {balance}."
        )
    for wrong, name, limit in ((λ > 0, "outputs", n_o), (λ < 0, "inputs", n_i)):
        if wrong.any() and n_h > limit:
            sign, layer = (">", "second") if name == "outputs" else ("<", "first")
            raise ValueError(
                f"No weights of widths {widths} have `balance` {λ[wrong].flat[0]:g}: λ {sign} 0 "
                f"needs a {layer} layer of rank {n_h}, the number of hidden units, and there are "
                f"only {limit} {name}. Use at most {limit} hidden units, or λ = 0."
            )
    return λ


def _check_singular_values(
    singular_values: ArrayLike, widths: tuple[int, ...]
) -> Float[np.ndarray, "*batch mode"]:
    modes = min(widths)
    s = real_array("singular_values", singular_values)
    if s.ndim < 1 or not 1 <= s.shape[-1] <= modes or not (np.isfinite(s) & (s >= 0)).all():
        raise ValueError(
            f"`singular_values` must be up to {modes} finite numbers ≥ 0 for widths {widths}, "
            f"got {s.tolist()}."
        )
    return s


def _check_product(
    product: ArrayLike, widths: tuple[int, ...]
) -> Float[np.ndarray, "*batch output input"]:
    n_i, _, n_o = widths
    total = real_array("product", product)
    if total.shape[-2:] != (n_o, n_i) or not np.isfinite(total).all():
        raise ValueError(
            f"`product` must be finite and (*batch, {n_o}, {n_i}) for widths {widths}, got "
            f"shape {total.shape}."
        )
    return total
