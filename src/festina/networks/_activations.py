"""Scalar activation functions σ, each with the algebraic properties of a neuron that uses it."""

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

_FAR = 1e3  # largest |a| at which the algebra of a user's function is tested
_AT_ZERO = 1e-5  # a kink with a smaller |a| counts as a kink at zero


@dataclass(frozen=True)
class Activation:
    r"""Scalar function σ that a unit applies to its pre-activation $u \cdot z$.

    `power` is the exponent p of an activation $\sigma(a) = a^p$ with a whole number p, else None. A
    unit with a `power` is linear in the fixed features $z^{\otimes p}$, so its training depends on
    the data through moments alone.

    **Example:**

    >>> import jax.numpy as jnp
    >>> from festina.networks import activation
    >>> square = activation("quadratic")
    >>> square.name, square.power, square.algebra.even
    ('quadratic', 2, True)
    >>> square(jnp.array([3.0, -1.0]))
    Array([9., 1.], dtype=float32)
    """

    name: str
    function: Scalar = field(repr=False)
    algebra: Algebra = field(repr=False)
    power: int | None = field(default=None, repr=False)

    def __call__(self, preactivation: Array) -> Array:
        return self.function(preactivation)


ActivationLike = TypeAliasType("ActivationLike", str | Activation | Scalar)
"""Name of an activation, an `Activation`, or a user's scalar JAX function."""


def _identity(a: Array) -> Array:
    return a


@dataclass(frozen=True)
class _Power:
    """The function a ↦ aᵖ. Two functions a ↦ aᵖ are equal if their exponents are equal.

    Two `functools.partial` objects with the same exponent would differ.
    """

    exponent: int

    def __call__(self, a: Array) -> Array:
        return a**self.exponent


def _rectify(a: Array) -> Array:
    return jnp.where(a <= 0.0, 0.0, a)  # NaN ≤ 0 is false, so NaN stays NaN


@dataclass(frozen=True)
class _Leak:
    slope: float

    def __call__(self, a: Array) -> Array:
        return jnp.where(a > 0, a, self.slope * a)


def _error_function(a: Array) -> Array:
    return special.erf(a / jnp.sqrt(2.0))


@functools.cache
def power(exponent: int) -> Activation:
    """Return the activation σ(a) = aᵖ for a whole number p ≥ 1.

    The activation with p = 1 is called "linear", with p = 2 "quadratic" and with p = 3 "cubic".

    **Example:**

    >>> import jax.numpy as jnp
    >>> from festina.networks import power
    >>> power(3).name, float(power(3)(jnp.array(2.0)))
    ('cubic', 8.0)
    """
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
    """Return the leaky ReLU, σ(a) = a for a > 0 and σ(a) = `slope`·a for a ≤ 0.

    `slope` must lie strictly between 0 and 1. PyTorch's default slope is 0.01.

    **Example:**

    >>> import jax.numpy as jnp
    >>> from festina.networks import leaky_relu
    >>> leaky_relu(0.2)(jnp.array([-1.0, 1.0]))
    Array([-0.2,  1. ], dtype=float32)
    """
    if not 0 < slope < 1:
        raise ValueError(
            f'`slope` must lie between 0 and 1, got {slope}. Slope 0 is "relu", slope 1 "linear".'
        )
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
    """Return the library's activation with this name; None if the library has none.

    A run on disk stores each activation by its name.
    """
    for prefix, make in (("power-", lambda p: power(int(p))), ("leaky-relu-", _leaky)):
        if name not in _NAMED and name.startswith(prefix):
            with contextlib.suppress(ValueError):
                return make(name.removeprefix(prefix))
    return _NAMED.get(name)


def _leaky(slope: str) -> Activation:
    return leaky_relu(float(slope))


def activation(choice: ActivationLike) -> Activation:
    """Return an `Activation` for a name or for your own scalar JAX function.

    An `Activation` is returned unchanged. The algebraic properties of your own function σ(a), such
    as homogeneity and symmetry, are measured numerically for arguments |a| ≤ 1000. Kinks of σ are
    searched for between a = −8 and a = 8.

    **Example:**

    >>> import jax.numpy as jnp
    >>> from festina.networks import activation
    >>> arctan = activation(jnp.arctan)
    >>> arctan.name, arctan.algebra.order, arctan.algebra.kinked
    ('arctan', 1, False)
    >>> activation("relu").algebra.kinked
    True
    """
    if isinstance(choice, Activation):
        name = _own_name(choice.name, choice)
        return choice if name == choice.name else replace(choice, name=name)
    if isinstance(choice, str):
        if choice not in _NAMED:
            raise ValueError(
                f"Unknown activation '{choice}'. The names are: {', '.join(_NAMED)}. "
                "`power(p)`, `leaky_relu(slope)` and your own scalar JAX functions work as well."
            )
        return _NAMED[choice]
    if isinstance(choice, np.ufunc):
        raise ValueError(
            f"The activation is NumPy's {choice.__name__}, which JAX cannot differentiate. Use "
            f"jax.numpy.{choice.__name__}, or the name of an activation."
        )
    if type(choice).__module__.startswith("torch") or _module(choice).startswith("torch"):
        raise ValueError(
            "PyTorch's functions cannot be activations, because JAX cannot differentiate them. Use "
            "the JAX function (for PyTorch's default GELU: jax.nn.gelu with approximate=False), or "
            "the name of an activation."
        )
    if callable(choice):
        return _from_function(choice)
    raise ValueError(
        "An activation must be a name, an `Activation` or a scalar JAX function, got "
        f"{type(choice).__name__}."
    )


@functools.lru_cache(maxsize=64)
@float64
def _from_function(function: Scalar) -> Activation:
    grid = jnp.linspace(-2.0, 2.0, POINTS)
    try:
        # The lambda is needed because JAX fails for objects without weak references.
        shape = jax.eval_shape(lambda a: function(a), grid).shape
    except jax.errors.TracerArrayConversionError as error:
        raise ValueError(
            "The activation is written in NumPy, which JAX cannot differentiate: use jax.numpy "
            "instead of numpy inside the function."
        ) from error
    except Exception as error:
        raise ValueError(f"The activation could not be applied to an array: {error}") from error
    if shape != grid.shape:
        raise ValueError(
            "An activation must map each entry to one number. The output of this function for an "
            f"array of shape {grid.shape} has shape {shape}."
        )
    few = grid[:: POINTS // 4]
    alone = np.concatenate([np.asarray(function(entry[None])) for entry in few])
    if not np.allclose(alone, function(grid)[:: POINTS // 4], rtol=1e-6, atol=1e-9, equal_nan=True):
        raise ValueError(
            "An activation must map each entry by itself. The output of this function for one "
            "entry depends on the other entries, as in softmax or a normalisation."
        )
    algebra = measure_algebra(
        lambda u: np.asarray(function(u * grid)), np.array([1.0, -0.7, 0.45, 1.3])
    )
    algebra = _far_out(function, replace(algebra, kink=_kink(function)))
    name = getattr(function, "__name__", "custom")
    return Activation(_own_name(name), function, algebra)


def _own_name(name: str, choice: Activation | None = None) -> str:
    """Return the name of a user's function, as "own NAME" if the library has one called NAME."""
    return name if activation_named(name) in (None, choice) else f"own {name}"


def _far_out(function: Scalar, near: Algebra) -> Algebra:
    """Return the algebra without the properties that fail for large |a|."""
    a = _FAR * np.linspace(-1.0, 1.0, POINTS) ** 3
    at = np.asarray(function(jnp.asarray(a)), dtype=float)
    same = lambda other: np.allclose(at, other, rtol=1e-9, atol=1e-9, equal_nan=True)
    one = np.asarray(function(jnp.asarray([-1.0, 1.0])), dtype=float)
    if near.homogeneous and not same(np.where(a < 0, -a * one[0], a * one[1])):
        # The function bends away from its straight lines somewhere; this point counts as a kink.
        near = replace(near, homogeneous=None, linear=False, kink=near.kink or "elsewhere")
    return replace(near, even=near.even and same(at[::-1]), odd=near.odd and same(-at[::-1]))


def _module(function: object) -> str:
    return getattr(function, "__module__", None) or ""


def _kink(function: Scalar) -> Kink | None:
    found = kinks(lambda a: np.asarray(function(jnp.asarray(a))))
    if not found.size:
        return None
    return "zero" if np.abs(found).min() < _AT_ZERO else "elsewhere"
