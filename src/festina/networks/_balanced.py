"""Initial weights of two-layer linear networks with a given balance between the layers."""

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
    r"""Return a two-layer linear network with $W_2^\top W_2 - W_1 W_1^\top = \lambda I$.

    Let s be a singular value of the product $W_2W_1 = USV^\top$. The corresponding singular values
    q of $W_2$ and p of $W_1$ are

    $$q,\, p = \sqrt{\tfrac12\left(\sqrt{\lambda^2 + 4s^2} \pm \lambda\right)}.$$

    The weights are $W_2 = U\,\mathrm{diag}(q)R^\top$ and $W_1 = R\,\mathrm{diag}(p)V^\top$ with a
    random rotation R of the hidden layer (Dominé et al., 2025). Gradient flow conserves λ.
    Weights with λ > 0 exist only for $N_h \le N_o$, weights with λ < 0 only for $N_h \le N_i$.

    **Arguments:**

    - `widths`: $(N_i, N_h, N_o)$, numbers of inputs, hidden units and outputs.
    - `balance`: λ, one number or an array for a batch of networks.
    - `scale`, `singular_values`, `product`: give exactly one of these three. `scale` is the
      standard deviation of two Gaussian matrices, whose product becomes $W_2W_1$. `singular_values`
      are the singular values of $W_2W_1$, `(*batch, mode)`, at most $\min(N_i, N_h, N_o)$; the
      singular vectors are then random. `product` is $W_2W_1$ itself, `(*batch, output, input)`, of
      rank at most $N_h$.
    - `key`: random key, or an array of keys for a batch. With a `product` the key may be left out;
      R is then the identity.

    **Example:**

    >>> import numpy as np
    >>> from festina.networks import lambda_balanced
    >>> w1, w2 = lambda_balanced((2, 2, 2), balance=1.5, product=np.diag([2.0, 1.0])).weights
    >>> (w2 @ w1).round(3)
    array([[2., 0.],
           [0., 1.]])
    >>> (w2.T @ w2 - w1 @ w1.T).round(3)
    array([[1.5, 0. ],
           [0. , 1.5]])
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

    # Hidden directions beyond the modes of the product have s = 0, and still satisfy the balance.
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
    """Return the singular values p (first layer) and q (second layer) with q² − p² = λ, pq = s."""
    large = np.sqrt((np.hypot(λ, 2 * s) + np.abs(λ)) / 2)
    # The smaller of p and q is s over the larger one, because the formula with a minus sign loses
    # digits.
    small = s / np.where(large > 0, large, 1.0)
    return np.where(λ > 0, small, large), np.where(λ > 0, large, small)


def _svd(
    product: Float[np.ndarray, "*batch output input"], widths: tuple[int, ...]
) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "*batch mode"], Float[np.ndarray, "..."]]:
    """Return U, s and V with as many modes as the narrowest layer; raise if the rank is larger."""
    modes = min(widths)
    u, s, vt = np.linalg.svd(product)
    if s.shape[-1] > modes and (s[..., modes] > 1e-10 * s[..., 0]).any():
        raise ValueError(
            f"`product` has a rank above the {widths[1]} hidden units of widths {widths}, so no "
            "weights have this product. Use at least as many hidden units as its rank."
        )
    return u, s[..., :modes], vt.swapaxes(-1, -2)


def _check_balance(balance: ArrayLike, widths: tuple[int, ...]) -> Float[np.ndarray, "*batch"]:
    n_i, n_h, n_o = widths
    λ = real_array("balance", balance)
    if not λ.size or not np.isfinite(λ).all():
        raise ValueError(
            f"`balance` must be finite, one number or a non-empty array, got {balance}."
        )
    for wrong, name, limit in ((λ > 0, "outputs", n_o), (λ < 0, "inputs", n_i)):
        if wrong.any() and n_h > limit:
            sign, layer = (">", "second") if name == "outputs" else ("<", "first")
            raise ValueError(
                f"No weights of widths {widths} have `balance` {λ[wrong].flat[0]:g}: a balance "
                f"{sign} 0 needs a {layer} layer of rank {n_h}, the number of hidden units, but "
                f"there are only {limit} {name}. Use at most {limit} hidden units, or `balance=0`."
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
