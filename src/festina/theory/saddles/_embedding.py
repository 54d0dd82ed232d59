r"""Embedded fixed points: a narrow network inside a wider one (Zhang, Saxe & Latham, Theorem 1).

All four constructions of Theorem 1 have the same form. Let the rows of $U^*$ and $V^*$ be the input
and output weights of the units of the narrow network. The input weights of the added units are
combinations of the rows of $U^*$, and the output weights of the added units are subtracted from
those of the original units:

$$U = \begin{bmatrix} U^* \\ \Gamma_u U^* \end{bmatrix},\qquad
  V = \begin{bmatrix} V^* - \Gamma_u^\top \Gamma_v V^* \\ \Gamma_v V^* \end{bmatrix},$$

with one row of $\Gamma_u$ and $\Gamma_v$ for each added unit. The rows of $\Gamma_u$ and $\Gamma_v$
are zero in Eq. (5), have a single entry, at the copied unit $i$, in Eqs. (4) and (6), and are
arbitrary in Eq. (7). Adding several units at once equals repeated application of Theorem 1
(Corollary 2).
"""

from collections.abc import Sequence

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from ..._checks import finite, whole_number, whole_numbers
from ..._precision import float64
from ..._types import Array, ArrayLike
from ...networks import AbstractUnit
from ...networks._algebra import Defects, measure_defects
from ...networks._generator import generator
from ...networks._network import Network
from ._hidden import combine, hidden_layers, with_hidden_layer
from ._kinds import EQUATION, SIMPLEST_FIRST, Kind, admissible

Mixing = Float[np.ndarray, "added unit"]

_TO_CHOOSE: dict[Kind, tuple[str, ...]] = {
    "zero": (),
    "equal": ("gamma_v", "parent"),
    "proportional": ("gamma_u", "gamma_v", "parent"),
    "linear": ("gamma_u", "gamma_v"),
}


@float64
def embed_units(
    network: Network,
    width: int | Sequence[int],
    kind: Kind = "equal",
    *,
    gamma_u: ArrayLike | None = None,
    gamma_v: ArrayLike | None = None,
    parent: int | Sequence[int] | None = None,
    key: PRNGKeyArray | None = None,
) -> Network:
    r"""Return a wider network that computes the same function and preserves fixed points.

    Theorem 1 of Zhang, Saxe & Latham: if the narrow network is at a fixed point of gradient flow,
    so is the wider network. The wider network keeps the units of the narrow network, with changed
    output weights v. An added unit $H$ has weights

    - `"equal"`, Eq. (4), for any φ: $u_H = u_i$, $v_H = \gamma_v v_i$;
    - `"zero"`, Eq. (5), for $\phi(z; 0) = 0$: $u_H = 0$, $v_H = 0$;
    - `"proportional"`, Eq. (6), for φ homogeneous of degree one: $u_H = \gamma_u u_i$,
      $v_H = \gamma_v v_i$;
    - `"linear"`, Eq. (7), for linear φ: $u_H = \sum_i \gamma_{u_i} u_i$,
      $v_H = \sum_i \gamma_{v_i} v_i$.

    The theorem holds for any loss, and for the units of every hidden layer of a deep network
    (Corollary 2).

    **Arguments:**

    - `network`: a network, or a batch of networks that all get the same γ.
    - `width`: number of units of the wider network; for several hidden layers, one number for each
      layer, first layer first.
    - `kind`: one of the four kinds.
    - `gamma_u`, `gamma_v`: the coefficients γ: one number for all added units, or one for each
      added unit; for `"linear"` of shape `(added, unit)`. Coefficients that are not given are drawn
      from N(0, 1) with `key`. A drawn `gamma_u` is made positive if φ is homogeneous for positive
      factors only.
    - `parent`: index (from 0) of the unit $i$ from which each added unit is made. By default the
      added units use all units in turn.
    - `key`: random key for the γ that are not given.

    **Returns:**

    The wider network.

    **Example:**

    >>> from festina.networks import layer_from
    >>> from festina.theory.saddles import embed_units
    >>> narrow = layer_from("tanh", [[1.0, -1.0]], [2.0])
    >>> wide = embed_units(narrow, 2, "equal", gamma_v=0.25)
    >>> wide.u, wide.v.ravel()
    (array([[ 1., -1.],
           [ 1., -1.]]), array([1.5, 0.5]))
    >>> narrow.predict([[0.3, 0.1]]), wide.predict([[0.3, 0.1]])
    (array([[0.3948]]), array([[0.3948]]))

    !!! note "When the result is not a fixed point"

        A rectifier has no derivative at u = 0. A silent rectified unit is at a fixed point only if
        the derivative at u = 0 counts as zero, as in JAX.
    """
    layers = hidden_layers(network)
    network.check_finite()
    widths = list(width) if isinstance(width, Sequence) else [width]
    if len(widths) != len(layers):
        raise ValueError(
            f"`width` needs one number for each of the {len(layers)} hidden layers, got {width}."
        )
    rng = None if key is None else generator(key)
    for layer, wide in enumerate(whole_number("width", each) for each in widths):
        unit, u, v = hidden_layers(network)[layer]
        axis = len(network.batch_shape)
        added = wide - u.shape[axis]
        if added < 0:
            raise ValueError(
                f"`width` {wide} is below the {u.shape[axis]} units of `network`: embedding only "
                "adds units. Give a larger `width`."
            )
        if added == 0:
            continue
        _check_kind(kind, unit, u.shape[axis + 1 :], v.shape[axis + 2 :])
        mixing = _mixing(kind, unit, added, u.shape[axis], gamma_u, gamma_v, parent, rng)
        if kind == "proportional" and unit.algebra.homogeneous == "positive":
            _check_sign(mixing[0], unit, u.shape[axis + 1 :], v.shape[axis + 2 :])
        network = with_hidden_layer(network, layer, *embed_weights(u, v, *mixing, axis=axis))
    return network


def embed_weights(
    u: Float[Array, "..."],
    v: Float[Array, "..."],
    gamma_u: Mixing,
    gamma_v: Mixing,
    *,
    axis: int = 0,
) -> tuple[Float[np.ndarray, "..."], Float[np.ndarray, "..."]]:
    """Return (u, v) of a wider network from u, v and the coefficients Γ_u, Γ_v, for any φ.

    The added units have input weights Γ_u u and output weights Γ_v v. The original units lose the
    output weights Γ_uᵀ Γ_v v. `axis` is the axis of `u` and `v` along which units lie. Whether the
    result is a fixed point depends on φ and Γ. `embed_units` checks these conditions;
    `embed_weights` does not.

    **Example:**

    >>> import numpy as np
    >>> from festina.theory.saddles import embed_weights
    >>> u, v = np.array([[1.0, -1.0]]), np.array([[2.0]])
    >>> embed_weights(u, v, gamma_u=np.array([[3.0]]), gamma_v=np.array([[0.1]]))
    (array([[ 1., -1.],
           [ 3., -3.]]), array([[1.4],
           [0.2]]))
    """
    u, v = finite("u", u), finite("v", v)
    gamma_u, gamma_v = finite("gamma_u", gamma_u), finite("gamma_v", gamma_v)
    units = {array.shape[axis] if array.ndim > axis else 0 for array in (u, v)}
    if gamma_u.ndim != 2 or gamma_v.shape != gamma_u.shape or units != {gamma_u.shape[1]}:
        raise ValueError(
            "`gamma_u` and `gamma_v` must have shape (added, unit), with as many units as `u` and "
            f"`v` have along `axis` {axis}; got {gamma_u.shape} and {gamma_v.shape} for `u` and "
            f"`v` of shapes {u.shape} and {v.shape}."
        )
    new_v = combine(gamma_v, v, axis)
    return (
        np.concatenate((u, combine(gamma_u, u, axis)), axis=axis),
        np.concatenate((v - combine(gamma_u.T, new_v, axis), new_v), axis=axis),
    )


def _mixing(
    kind: Kind,
    unit: AbstractUnit,
    added: int,
    units: int,
    gamma_u: ArrayLike | None,
    gamma_v: ArrayLike | None,
    parent: int | Sequence[int] | None,
    rng: np.random.Generator | None,
) -> tuple[Mixing, Mixing]:
    """Return the coefficients Γ_u and Γ_v of the added units."""
    given = {"gamma_u": gamma_u, "gamma_v": gamma_v, "parent": parent}
    for name, value in given.items():
        if value is not None and name not in _TO_CHOOSE[kind]:
            raise ValueError(f"Kind '{kind}', Eq. ({EQUATION[kind]}), takes no `{name}`.")
    if kind == "zero":
        return np.zeros((added, units)), np.zeros((added, units))
    missing = [name for name in _TO_CHOOSE[kind] if name != "parent" and given[name] is None]
    if missing and rng is None:
        raise ValueError(
            f"Kind '{kind}' needs coefficients γ: give `{'` and `'.join(missing)}`, or a `key` "
            "with which to draw them."
        )
    shape = (added, units) if kind == "linear" else (added,)
    factors = []
    for name in ("gamma_u", "gamma_v"):
        if rng is not None and name in missing:
            draw = rng.standard_normal(shape)
            positive = name == "gamma_u" and unit.algebra.homogeneous == "positive"
            factors.append(np.abs(draw) if positive else draw)
        else:
            factors.append(_factor(name, 1.0 if given[name] is None else given[name], shape))
    if kind == "linear":
        return factors[0], factors[1]
    chosen = np.eye(units)[_parents(parent, added, units)]
    return factors[0][:, None] * chosen, factors[1][:, None] * chosen


def _factor(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Float[np.ndarray, "..."]:
    factor = finite(name, value)
    try:
        return np.broadcast_to(factor, shape)
    except ValueError:
        raise ValueError(
            f"`{name}` must be one number or have shape {shape} (one entry for each added unit"
            f"{' and each unit of `network`' if len(shape) == 2 else ''}), got {factor.shape}."
        ) from None


def _parents(parent: int | Sequence[int] | None, added: int, units: int) -> np.ndarray:
    if parent is None:
        return np.arange(added) % units
    each = parent if isinstance(parent, Sequence | np.ndarray) and np.ndim(parent) else [parent]
    chosen = np.array(whole_numbers("parent", each, 0), dtype=int)
    if len(chosen) not in (1, added) or chosen.max() >= units:
        raise ValueError(
            f"`parent` must be one index from 0 to {units - 1}, or one for each of the {added} "
            f"added units, got {parent}."
        )
    return np.broadcast_to(chosen, (added,))


def _check_kind(
    kind: Kind, unit: AbstractUnit, weight_shape: tuple[int, ...], read_shape: tuple[int, ...]
) -> None:
    """Raise `ValueError`, with the violated property, if the unit does not admit the kind."""
    if kind not in EQUATION:
        raise ValueError(f"`kind` must be one of {', '.join(EQUATION)}, got '{kind}'.")
    allowed = admissible(unit.algebra)
    if kind in allowed:
        return
    defects = unit_defects(unit, weight_shape, read_shape)
    misses = {
        "zero": [("φ(z; 0) differs from 0", defects.zero)],
        "proportional": [("φ(z; αu) differs from α φ(z; u) at α = 0.37 or 2.6", defects.positive)],
        "linear": [
            ("φ(z; u + u′) differs from φ(z; u) + φ(z; u′)", defects.additive),
            ("φ(z; −1.3u) differs from −1.3 φ(z; u)", defects.negative),
        ],
    }
    words, size = max(misses[kind], key=lambda miss: miss[1])
    others = [f"'{other}' (Eq. {EQUATION[other]})" for other in SIMPLEST_FIRST if other in allowed]
    raise ValueError(
        f"{unit} does not admit the kind '{kind}', Eq. ({EQUATION[kind]}): {words} by "
        f"{100 * size:.3g} % of the largest response. Admissible kinds: {', '.join(others)}."
    )


def _check_sign(
    gamma_u: Mixing, unit: AbstractUnit, weight_shape: tuple[int, ...], read_shape: tuple[int, ...]
) -> None:
    if gamma_u.min() < 0:
        size = unit_defects(unit, weight_shape, read_shape).negative
        raise ValueError(
            f"`gamma_u` must not be negative for {unit}, got {gamma_u.min():.3g}: its response is "
            "homogeneous for positive factors only. φ(z; −1.3u) differs from −1.3 φ(z; u) by "
            f"{100 * size:.3g} % of the largest response."
        )


def unit_defects(
    unit: AbstractUnit, weight_shape: tuple[int, ...], read_shape: tuple[int, ...]
) -> Defects:
    """Return how strongly φ violates each property of its algebra, at random inputs and weights."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((32, *unit.input_shape(weight_shape, read_shape)))
    psi = jax.vmap(unit.features)(x)
    weights = rng.standard_normal((4, *weight_shape))
    return measure_defects(lambda u: np.asarray(unit.response(psi, u)), weights)
