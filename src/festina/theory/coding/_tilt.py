r"""Cumulants of an activation φ(z) under a tilted Gaussian, and the codewords of its responses.

The theory of codes for classes depends on an activation only through
$g(h) = \log E_{z\sim N(0,1)}\,e^{h\phi(z)}$ and its derivatives. Under the Gaussian tilted by
$e^{h\phi(z)}$, $g'$ is the mean response of a neuron and $g''$ its variance.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicHermiteSpline
from scipy.special import erfcx

from ...networks._activations import Activation, Scalar
from ...networks._code_activations import CodeActivation, code_activation, linear, name_of, relu
from ._quadrature import evaluated, panels, rule

Cumulants = Callable[[np.ndarray], np.ndarray]

_REACH = 32.0  # largest |h| of the first table; each further table is four times as long
_LONGEST = 1e5  # largest |h| of any table
_FAR = 1e6  # |z| at which the growth of an activation is checked


@dataclass(frozen=True)
class Tilt:
    """Store an activation φ and the properties of φ that the theory uses.

    - `name`, `function`: name of φ, and φ itself.
    - `cumulants`: function h ↦ (g, g′, g″), stacked along a new first axis.
    - `mean`, `variance`: mean and variance of φ(z) under the prior z ~ N(0, 1).
    - `lowest`, `highest`: smallest and largest value of φ; infinite if φ is unbounded.
    """

    name: str
    function: Scalar
    cumulants: Cumulants
    mean: float
    variance: float
    lowest: float
    highest: float

    @property
    def size(self) -> float:
        return max(abs(self.lowest), abs(self.highest))

    def word(self, activity: Float[np.ndarray, " group"]) -> str:
        """Return the codeword of mean responses, one letter per class.

        The letters are 1 (high) and 0 (low), or + and − if φ has both signs. An intermediate
        response has the letter ·.
        """
        middle, half = (self.highest + self.lowest) / 2, (self.highest - self.lowest) / 2
        low, high = "-+" if self.lowest < -0.1 * half else "01"
        off = (activity - middle) / half
        return "".join("·" if abs(x) < 0.1 else high if x > 0 else low for x in off)


def tilt(activation: CodeActivation) -> Tilt:
    """Return the `Tilt` of an activation: a name, an `Activation` or a function."""
    name, function = code_activation(activation)
    name = activation.name if isinstance(activation, Activation) else name
    known = {"linear": _linear, "relu": _relu}
    return known[name]() if name in known else _bounded(function)


@functools.cache
def _linear() -> Tilt:
    cumulants = lambda h: np.stack([h**2 / 2, h, np.ones_like(h)])
    return Tilt("linear", linear, cumulants, 0.0, 1.0, -np.inf, np.inf)


@functools.cache
def _relu() -> Tilt:
    mean = 1 / np.sqrt(2 * np.pi)
    return Tilt("relu", relu, _rectified, mean, 0.5 - mean**2, 0.0, np.inf)


def _rectified(h: np.ndarray) -> np.ndarray:
    r"""Return g, g′ and g″ of ReLU, with $g(h) = \log[\frac12 + e^{h^2/2}\Phi(h)]$.

    For h > 30, g is the parabola $h^2/2$ to double precision.
    """
    near = np.minimum(h, 30.0)
    grown = erfcx(-near / np.sqrt(2)) / 2  # e^{h²/2} Φ(h)
    total = 0.5 + grown
    first = (near * grown + 1 / np.sqrt(2 * np.pi)) / total
    second = (grown * (1 + near**2) + near / np.sqrt(2 * np.pi)) / total - first**2
    far = h > near
    return np.stack(
        [
            np.where(far, h**2 / 2, np.log(total)),
            np.where(far, h, first),
            np.where(far, 1.0, second),
        ]
    )


@functools.lru_cache(maxsize=32)
def _bounded(function: Scalar) -> Tilt:
    name = name_of(function)
    far = evaluated(function, np.array([-_FAR, -1e3, 1e3, _FAR]))
    phi = evaluated(function, np.linspace(-14, 14, 2801))
    largest = np.abs(phi).max()
    if not (np.isfinite(phi).all() and np.isfinite(far).all() and np.ptp(phi) > 0):
        raise ValueError(
            f"`activation` must be finite everywhere and not constant, but {name} is constant or "
            "not finite. Use another function."
        )
    if np.abs(far).max() > 1.5 * largest:
        raise ValueError(
            f'`activation` must be a bounded function, "linear" or "relu", got {name}, which grows '
            f"to {np.abs(far).max():.3g} at |z| = {_FAR:g}."
        )
    z, weight = _nodes(function)
    phi = evaluated(function, z)
    mean = float(weight @ phi)
    return Tilt(
        name,
        function,
        lambda h: _spline(function, _reach(h))(h),
        mean,
        float(weight @ (phi - mean) ** 2),
        float(min(phi.min(), far.min())),
        float(max(phi.max(), far.max())),
    )


def _reach(h: np.ndarray) -> float:
    largest, reach = float(np.abs(h).max(initial=0.0)), _REACH
    while reach < largest:
        reach *= 4
    if reach > _LONGEST:
        raise RuntimeError(
            f"The theory needs the cumulant function g(h) at |h| = {largest:.3g}, but the table of "
            f"the activation ends at {_LONGEST:g}. Use smaller targets or a higher temperature."
        )
    return reach


@functools.lru_cache(maxsize=32)
def _nodes(function: Scalar) -> tuple[np.ndarray, np.ndarray]:
    return rule(panels(function, 1.0, 1.0))


@functools.lru_cache(maxsize=64)
def _spline(function: Scalar, reach: float) -> Cumulants:
    """Return a spline of (g, g′, g″) in h, through a table with exact derivatives at the nodes."""
    end = np.arcsinh(reach / 2)
    h = 2 * np.sinh(np.linspace(-end, end, 2 * int(end / 0.02) + 1))
    z, each = _nodes(function)
    phi = evaluated(function, z)
    exponent = h[:, None] * phi + np.log(np.maximum(each, 1e-300))
    top = exponent.max(axis=1, keepdims=True)
    weight = np.exp(exponent - top)
    total, *powers = (weight @ np.stack([phi**k for k in range(4)], axis=1)).T
    one, two, three = (power / total for power in powers)
    g = top[:, 0] + np.log(total)
    second = two - one**2
    third = three - 3 * two * one + 2 * one**3
    table = np.stack([g, one, second], axis=1)
    spline = CubicHermiteSpline(h, table, np.stack([one, second, third], axis=1))
    return lambda h: np.moveaxis(spline(h), -1, 0)
