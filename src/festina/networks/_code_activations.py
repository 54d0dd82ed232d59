"""Activation functions of Bayesian networks and of `festina.theory.coding`, by name."""

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
from typing_extensions import TypeAliasType

from .._checks import real_array
from .._types import Array
from ._activations import Activation, Scalar

CodeActivation = TypeAliasType("CodeActivation", str | Activation | Scalar)
"""One of the names "linear", "erf", "erf-sigmoid" and "relu", or a user's bounded function."""


def unit_slope_erf(z: Array) -> Array:
    r"""Return $\mathrm{erf}(\sqrt\pi z/2)$, which has slope 1 at zero.

    The activation "erf" of other networks is $\mathrm{erf}(a/\sqrt2)$ instead.

    **Example:**

    >>> import numpy as np
    >>> from festina.theory.coding import unit_slope_erf
    >>> unit_slope_erf(np.array([0.0, 0.01, 1.0])).tolist()
    [0.0, 0.01, 0.79]
    """
    z = z if isinstance(z, jax.Array) else real_array("z", z)
    return jsp.erf(jnp.sqrt(jnp.pi) / 2 * z)


def erf_sigmoid(z: Array) -> Array:
    r"""Return the sigmoid $\frac12[1 + \mathrm{erf}(\sqrt\pi z/2)]$, not the logistic function.

    **Example:**

    >>> import numpy as np
    >>> from festina.theory.coding import erf_sigmoid
    >>> erf_sigmoid(np.array([-1.0, 0.0, 1.0])).tolist()
    [0.105, 0.5, 0.895]
    """
    return (1 + unit_slope_erf(z)) / 2


def relu(z: Array) -> Array:
    return jnp.maximum(z, 0.0)


def linear(z: Array) -> Array:
    return z


NAMED: dict[str, Scalar] = {
    "linear": linear,
    "erf": unit_slope_erf,
    "erf-sigmoid": erf_sigmoid,
    "relu": relu,
}


def code_activation(given: CodeActivation) -> tuple[str, Scalar]:
    """Return the name and the function of an activation that is given by name or as a function."""
    if isinstance(given, str):
        if given not in NAMED:
            raise ValueError(
                f"`activation` must be one of {', '.join(NAMED)}, or your own bounded function, "
                f"got {given!r}."
            )
        return given, NAMED[given]
    if not callable(given):
        raise ValueError(f"`activation` must be a name or a function, got {given!r}.")
    return name_of(given), given


def name_of(function: Scalar) -> str:
    """Return a function's name, as "own NAME" if festina has a different function called NAME."""
    for name, known in NAMED.items():
        if function is known:
            return name
    name = getattr(function, "name", getattr(function, "__name__", "own"))
    return f"own {name}" if name in NAMED else name
