"""Registry of fuzzed functions: valid arguments of each function and a check of its result."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np

from festina import networks, tasks

ROWS: dict[str, "Row"] = {}

Drawn = Callable[[np.random.Generator], Any] | tuple
"""A function that draws an argument with a random generator, or a tuple of choices."""


@dataclass(frozen=True)
class Row:
    """A function to fuzz.

    - `arguments`: valid arguments by name.

    - `check(result, given)`: raises for a wrong result; returns "right" if another route gives the
    same number, "kept" if only general properties were checked.

    - `cost`: of one input, relative to a closed form; expensive functions get fewer inputs.
    """

    function: Callable[..., Any]
    arguments: Callable[[np.random.Generator], dict[str, Any]]
    check: Callable[[Any, "Given"], str]
    cost: float


def rows(module: str, **good: Drawn):
    """Return a decorator that registers checks of functions in `festina.module`."""

    def row(name: str, joint: Drawn = ({},), /, *, cost: float = 1.0, **other: Drawn):
        """Return a decorator for the check of one function.

        A check may serve several functions. Arguments drawn together come first, in `joint`.
        """
        function = getattr(import_module(f"festina.{module}"), name)
        known = signature(function).parameters
        each = {key: of for key, of in good.items() if key in known} | other

        def register(check):
            assert f"{module}.{name}" not in ROWS
            ROWS[f"{module}.{name}"] = Row(
                function, lambda rng: draw(rng, joint, each), check, cost
            )
            return check

        return register

    return row


def draw(rng: np.random.Generator, joint: Drawn, each: dict[str, Drawn]) -> dict[str, Any]:
    one = lambda of: of[rng.integers(len(of))] if isinstance(of, tuple) else of(rng)
    return {**{name: one(of) for name, of in each.items()}, **one(joint)}


@dataclass(frozen=True)
class Made:
    """An object as the call that makes it, so it can be printed and its arguments corrupted."""

    maker: Callable[..., Any]
    arguments: dict[str, Any]

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.maker.__qualname__}({inner})"


def made(
    maker: Callable[..., Any], joint: Drawn = ({},), /, **each: Drawn
) -> Callable[[np.random.Generator], Made]:
    return lambda rng: Made(maker, draw(rng, joint, each))


def build(value: Any) -> Any:
    """Return the object of an expression. Arrays are copied, so that changes can be detected."""
    if isinstance(value, Made):
        return value.maker(**build(value.arguments))
    if type(value) in (list, tuple):
        return type(value)(map(build, value))
    if type(value) is dict:
        return {name: build(each) for name, each in value.items()}
    return value.copy() if type(value) is np.ndarray and value.flags.owndata else value


class Given(dict):
    """Arguments as attributes, with numbers in float64.

    Arguments that were not given are taken from the network and the task.
    """

    def __getattr__(self, name: str) -> Any:
        return plain(self[name] if name in self else _held(**self).get(name))


def _held(network: Any = None, task: Any = None, **_: Any) -> dict[str, Any]:
    """Return weights of the network and averages of the task."""
    held = {}
    if isinstance(network, networks.Layer):
        held = {"u": network.u, "v": network.v}
    elif isinstance(network, networks.DeepLinear):
        held = {"weights": network.weights}
        held |= dict(zip(("first", "second"), network.weights, strict=False))
    if isinstance(task, tasks.MomentTask):
        held["correlation"], held["covariance"] = task.correlation, task.covariance
        inverse = np.linalg.pinv(task.covariance, hermitian=True, rcond=1e-12)
        explained = np.sum((task.correlation @ inverse) * task.correlation)
        held["target_power"] = explained + 2 * task.floor
    elif task is not None:
        x, wy = task.x.reshape(len(task.x), -1), task.weight[:, None] * task.y
        held["correlation"], held["covariance"] = wy.T @ x, (task.weight[:, None] * x).T @ x
        held["target_power"] = np.sum(wy * task.y)
        unit = network.unit if isinstance(network, networks.Layer) else None
        activated = isinstance(unit, networks.NeuronUnit | networks.ConvolutionUnit)
        if activated and unit.activation.name == "quadratic":
            held["correlation"] = np.einsum("so,si,sj->ij", wy, x, x)
    return held


def plain(value: Any) -> Any:
    if isinstance(value, list | tuple) or hasattr(value, "dtype"):
        try:
            array = np.asarray(value)
            return array.astype(float) if array.dtype.kind in "biufO" else value
        except (ValueError, TypeError):  # matrices of different shapes, or objects
            return [plain(each) for each in value] if isinstance(value, list | tuple) else value
    return value
