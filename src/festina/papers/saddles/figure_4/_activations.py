"""Activation functions of Figure 4, by the name that a parameter gives them."""

import functools

import jax.numpy as jnp

from ...._types import Array
from ....networks._activations import Activation, activation


def _one_minus_cosine(z: Array) -> Array:
    return 2 * jnp.sin(z / 2) ** 2  # without cancellation


def _squared_relu(z: Array) -> Array:
    return jnp.where(z > 0, z, 0.0) ** 2


def _z_tanh(z: Array) -> Array:
    return z * jnp.tanh(z)


def _z_squared_tanh(z: Array) -> Array:
    return z**2 * jnp.tanh(z)


def _z_squared_sine(z: Array) -> Array:
    return z**2 * jnp.sin(z)


def _rational(z: Array) -> Array:
    return z**3 / (1 + z**2)


_FUNCTIONS = {
    "1-cos": (_one_minus_cosine, "1 − cos z"),
    "squared-relu": (_squared_relu, "ReLU(z)²"),
    "z-tanh": (_z_tanh, "z tanh z"),
    "z2-tanh": (_z_squared_tanh, "z² tanh z"),
    "z2-sin": (_z_squared_sine, "z² sin z"),
    "z3-rational": (_rational, "z³/(1 + z²)"),
}


@functools.cache
def named(name: str) -> Activation:
    """The activation itself; the algebra of one that the library does not name is measured."""
    return activation(_FUNCTIONS[name][0] if name in _FUNCTIONS else name)


def formula(name: str) -> str:
    """How it is written."""
    return _FUNCTIONS[name][1] if name in _FUNCTIONS else name
