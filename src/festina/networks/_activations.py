"""Scalar activations σ, each with the algebra that it gives to a unit."""

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np
from typing_extensions import TypeAliasType

from .._checks import whole_number
from .._precision import float64
from .._types import Array
from ._algebra import Algebra, Kink, measure_algebra
from ._kinks import POINTS, kinks

Scalar = Callable[[Array], Array]

_FAR = 1e3  # largest |a| at which a function of one's own is looked at
_AT_ZERO = 1e-5  # a kink closer to zero than this is there


@dataclass(frozen=True)
class Activation:
    r"""A scalar function σ applied to every pre-activation $u \cdot z$.

    `power` is the exponent where $\sigma(a) = a^p$ with integer $p$: such a unit is linear in the
    fixed features $z^{\otimes p}$, so that the data enter through moments alone.
    """

    name: str
    function: Scalar = field(repr=False)
    algebra: Algebra = field(repr=False)
    power: int | None = field(default=None, repr=False)

    def __call__(self, preactivation: Array) -> Array:
        return self.function(preactivation)


ActivationLike = TypeAliasType("ActivationLike", str | Activation | Scalar)
"""A name, an activation, or a scalar JAX function of one's own."""


def _identity(a: Array) -> Array:
    return a


@dataclass(frozen=True)
class _Power:
    """A function that equals another one by what it computes, as `functools.partial` does not."""

    exponent: int

    def __call__(self, a: Array) -> Array:
        return a**self.exponent


def _rectify(a: Array) -> Array:
    return jnp.where(a <= 0.0, 0.0, a)  # so that NaN stays NaN


@dataclass(frozen=True)
class _Leak:
    slope: float

    def __call__(self, a: Array) -> Array:
        return jnp.where(a > 0, a, self.slope * a)


def _error_function(a: Array) -> Array:
    return special.erf(a / jnp.sqrt(2.0))


@functools.cache
def power(exponent: int) -> Activation:
    """Return σ(a) = aᵖ for a whole number p ≥ 1: linear for p = 1, quadratic for p = 2."""
    p = whole_number("exponent", exponent)
    is_linear = p == 1
    return Activation(
        name={1: "linear", 2: "quadratic", 3: "cubic"}.get(p, f"power-{p}"),
        function=_identity if is_linear else _Power(p),
        algebra=Algebra(
            zero=True,
            homogeneous="real" if is_linear else None,
            linear=is_linear,
            even=p % 2 == 0,
            order=p,
            odd=p % 2 == 1,
        ),
        power=p,
    )


@functools.cache
def leaky_relu(slope: float = 0.1) -> Activation:
    """Return σ(a) = a for a > 0 and `slope`·a below, 0 < `slope` < 1; PyTorch has 0.01."""
    if not 0 < slope < 1:
        raise ValueError(f"`slope` must lie between 0 and 1, got {slope}. 0 is relu, 1 is linear.")
    return Activation(
        name=f"leaky-relu-{float(slope)!r}",
        function=_Leak(float(slope)),
        algebra=Algebra(zero=True, homogeneous="positive", linear=False, even=False, order=1),
    )


def _odd(order: int) -> Algebra:
    return Algebra(zero=True, homogeneous=None, linear=False, even=False, order=order, odd=True)


linear = power(1)
quadratic = power(2)
relu = Activation(
    name="relu",
    function=_rectify,
    algebra=Algebra(zero=True, homogeneous="positive", linear=False, even=False, order=1),
)
tanh = Activation("tanh", jnp.tanh, _odd(1))
erf = Activation("erf", _error_function, _odd(1))
sine = Activation("sine", jnp.sin, _odd(1))
sigmoid = Activation(
    name="sigmoid",
    function=jax.nn.sigmoid,
    algebra=Algebra(zero=False, homogeneous=None, linear=False, even=False, order=0),
)

_NAMED = {
    a.name: a for a in (linear, quadratic, power(3), relu, leaky_relu(), tanh, erf, sine, sigmoid)
} | {"leaky-relu": leaky_relu(), "leaky_relu": leaky_relu()}


def activation_named(name: str) -> Activation | None:
    """Return this library's activation of a name in a run on disk; None for a user's own."""
    for prefix, make in (("power-", lambda p: power(int(p))), ("leaky-relu-", _leaky)):
        if name not in _NAMED and name.startswith(prefix):
            with contextlib.suppress(ValueError):
                return make(name.removeprefix(prefix))
    return _NAMED.get(name)


def _leaky(slope: str) -> Activation:
    return leaky_relu(float(slope))


def activation(choice: ActivationLike) -> Activation:
    """Return an activation by name, as it is, or from your own scalar function.

    The algebra of a function that is not ours is measured up to |a| = 1000, its kinks are looked
    for between −8 and 8.
    """
    if isinstance(choice, Activation):
        name = _own_name(choice.name, choice)
        return choice if name == choice.name else replace(choice, name=name)
    if isinstance(choice, str):
        if choice not in _NAMED:
            raise ValueError(
                f"Unknown activation '{choice}'. There are: {', '.join(_NAMED)}; "
                "or pass `power(p)`, `leaky_relu(slope)` or a scalar JAX function of your own."
            )
        return _NAMED[choice]
    if isinstance(choice, np.ufunc):
        raise ValueError(
            f"NumPy's {choice.__name__} cannot be differentiated: give JAX's, "
            f"jax.numpy.{choice.__name__}, or the name of an activation."
        )
    if type(choice).__module__.startswith("torch") or _module(choice).startswith("torch"):
        raise ValueError(
            "PyTorch's functions cannot be used here: give JAX's (jax.nn.gelu, with "
            "approximate=False for PyTorch's default), or the name of an activation."
        )
    if callable(choice):
        return _from_function(choice)
    raise ValueError(
        "Expected an activation (its name, or a scalar JAX function) or a unit, got "
        f"{type(choice).__name__}."
    )


@functools.lru_cache(maxsize=64)
@float64
def _from_function(function: Scalar) -> Activation:
    grid = jnp.linspace(-2.0, 2.0, POINTS)
    try:
        # By another name: JAX crashes at what it can keep no weak reference to.
        shape = jax.eval_shape(lambda a: function(a), grid).shape
    except jax.errors.TracerArrayConversionError as error:
        raise ValueError(
            "The activation is written in NumPy, which cannot be differentiated: use jax.numpy "
            "instead of numpy in it."
        ) from error
    except Exception as error:
        raise ValueError(f"The activation could not be applied to an array: {error}") from error
    if shape != grid.shape:
        raise ValueError(
            f"An activation maps each entry to one number: from {grid.shape} it made {shape}."
        )
    few = grid[:: POINTS // 4]
    alone = np.concatenate([np.asarray(function(entry[None])) for entry in few])
    if not np.allclose(alone, function(grid)[:: POINTS // 4], rtol=1e-6, atol=1e-9, equal_nan=True):
        raise ValueError(
            "An activation maps each entry by itself: what this one makes of an entry depends on "
            "the others (softmax and normalisation do)."
        )
    algebra = measure_algebra(
        lambda u: np.asarray(function(u * grid)), np.array([1.0, -0.7, 0.45, 1.3])
    )
    algebra = _far_out(function, replace(algebra, kink=_kink(function)))
    name = getattr(function, "__name__", "custom")
    return Activation(_own_name(name), function, algebra)


def _own_name(name: str, choice: Activation | None = None) -> str:
    """Return a name under which a run on disk is not taken for an activation of this library."""
    return name if activation_named(name) in (None, choice) else f"own {name}"


def _far_out(function: Scalar, near: Algebra) -> Algebra:
    """Return the algebra without what holds only near zero."""
    a = _FAR * np.linspace(-1.0, 1.0, POINTS) ** 3
    at = np.asarray(function(jnp.asarray(a)), dtype=float)
    same = lambda other: np.allclose(at, other, rtol=1e-9, atol=1e-9, equal_nan=True)
    one = np.asarray(function(jnp.asarray([-1.0, 1.0])), dtype=float)
    if near.homogeneous and not same(np.where(a < 0, -a * one[0], a * one[1])):
        # Of lines that end somewhere the end is a kink, or as good as one.
        near = replace(near, homogeneous=None, linear=False, kink=near.kink or "elsewhere")
    return replace(near, even=near.even and same(at[::-1]), odd=near.odd and same(-at[::-1]))


def _module(function: object) -> str:
    return getattr(function, "__module__", None) or ""


def _kink(function: Scalar) -> Kink | None:
    found = kinks(lambda a: np.asarray(function(jnp.asarray(a))))
    if not found.size:
        return None
    return "zero" if np.abs(found).min() < _AT_ZERO else "elsewhere"
