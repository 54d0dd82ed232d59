"""Tables of architectures for generic tests. A new architecture joins these tests by adding a row.

Import as `from helpers import ARCHITECTURES`; `@each(ARCHITECTURES)` parametrises a test.
"""

import functools
import itertools
import math
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from festina.networks import (
    AbstractUnit,
    ConvolutionUnit,
    Layer,
    LinearAttentionUnit,
    NeuronUnit,
    SoftmaxAttentionUnit,
    activation,
    attention,
    convolutional_1d,
    fully_connected,
    leaky_relu,
    power,
)
from festina.networks._algebra import Algebra
from festina.tasks import (
    AbstractTask,
    Task,
    figure_1c_teacher,
    from_arrays,
    in_context_regression,
    linear_teacher,
    quadratic_teacher,
    student_teacher,
)
from festina.tasks._task import Statistics

COVARIANCE = np.array([[1.0, 0.4], [0.4, 2.0]])
TOKEN_COVARIANCE = np.array([[1.0, 0.3], [0.3, 0.5]])

LINEAR = Algebra(zero=True, homogeneous="real", linear=True, even=False, order=1, odd=True)
RECTIFIED = Algebra(zero=True, homogeneous="positive", linear=False, even=False, order=1)
FIRST = Algebra(zero=True, homogeneous=None, linear=False, even=False, order=1)
ODD = Algebra(zero=True, homogeneous=None, linear=False, even=False, order=1, odd=True)
EVEN = Algebra(zero=True, homogeneous=None, linear=False, even=True, order=2)
THIRD = Algebra(zero=True, homogeneous=None, linear=False, even=False, order=3, odd=True)
OFFSET = Algebra(zero=False, homogeneous=None, linear=False, even=False, order=0)
SOFTMAX = Algebra(zero=False, homogeneous=None, linear=False, even=True, order=0)


def untyped(argument: object) -> Any:
    """Return an argument whose type differs from the annotation on purpose."""
    return argument


def printed(program: str, *arguments: str, **variables: str) -> str:
    """Run a program in a new process and return its output."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | variables,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def terminal(event: Any) -> Any:
    """Make `solve_ivp` stop at an event."""
    event.terminal = True
    return event


def one_minus_cos(a):
    return 1 - jnp.cos(a)


def z_tanh(a):
    return a * jnp.tanh(a)


def squared_relu(a):
    return jnp.maximum(a, 0.0) ** 2


@dataclass(frozen=True)
class Scalar:
    """Activation, the same function of plain Python numbers, and its expected algebra."""

    name: str
    choice: Any
    plain: Callable[[float], float]
    algebra: Algebra


SCALARS = [
    Scalar("linear", "linear", lambda a: a, LINEAR),
    Scalar("relu", "relu", lambda a: max(a, 0.0), RECTIFIED),
    Scalar("leaky-relu", leaky_relu(0.2), lambda a: a if a > 0 else 0.2 * a, RECTIFIED),
    Scalar("quadratic", "quadratic", lambda a: a * a, EVEN),
    Scalar("cubic", power(3), lambda a: a * a * a, THIRD),
    Scalar("tanh", "tanh", math.tanh, ODD),
    Scalar("sigmoid", "sigmoid", lambda a: 1 / (1 + math.exp(-a)), OFFSET),
    Scalar("erf", "erf", lambda a: math.erf(a / math.sqrt(2)), ODD),
    Scalar("sine", "sine", math.sin, ODD),
    Scalar("one-minus-cos", one_minus_cos, lambda a: 1 - math.cos(a), EVEN),
    Scalar("z-tanh", z_tanh, lambda a: a * math.tanh(a), EVEN),
    Scalar(
        "squared-relu",
        squared_relu,
        lambda a: max(a, 0.0) ** 2,
        Algebra(zero=True, homogeneous=None, linear=False, even=False, order=2),
    ),
]


@dataclass(frozen=True)
class Architecture:
    """Architecture with a task that it can learn.

    - `build(key, scale, width)`: function that returns the network.
    - `finite(samples, key)`: function that returns a matching task with finite data.
    - `population()`: function that returns a matching task with population averages, or None.
    - `unit`: unit of the network.
    - `input_shape`: shape of an input (the number of tokens may vary).
    - `algebra`: algebra that the unit must declare, and that measurement must find.
    - `plain(network, x)`: output of the network, computed by loops over plain numbers.
    """

    name: str
    build: Callable[..., Layer]
    finite: Callable[..., AbstractTask]
    population: Callable[[], AbstractTask] | None
    unit: AbstractUnit
    input_shape: tuple[int, ...]
    algebra: Algebra
    plain: Callable[[Layer, np.ndarray], np.ndarray] = field(repr=False)

    def network(self, seed: int = 0, *, scale: float = 0.6, width: int = 3) -> Layer:
        return _network(self, seed, scale, width)

    def samples(self, count: int = 7, seed: int = 1) -> AbstractTask:
        return self.finite(count, jax.random.key(seed))


@functools.cache
def _network(row: Architecture, seed: int, scale: float, width: int) -> Layer:
    return row.build(jax.random.key(seed), scale, width)


def plain_neurons(sigma: Callable[[float], float]) -> Callable[[Layer, np.ndarray], np.ndarray]:
    def value(network: Layer, x: np.ndarray) -> np.ndarray:
        u, v = np.asarray(network.u), np.asarray(network.v)
        x = np.append(x, 1.0) if network.unit.bias else x
        out = np.zeros(v.shape[1])
        for i, o in itertools.product(range(len(u)), range(len(out))):
            out[o] += v[i, o] * sigma(sum(float(a * b) for a, b in zip(u[i], x, strict=True)))
        return out

    return value


def plain_kernels(
    sigma: Callable[[float], float], size: int, stride: int
) -> Callable[[Layer, np.ndarray], np.ndarray]:
    def value(network: Layer, x: np.ndarray) -> np.ndarray:
        u, v = np.asarray(network.u), np.asarray(network.v)
        out = np.zeros(v.shape[1])
        for i, o in itertools.product(range(len(u)), range(len(out))):
            for position, start in enumerate(range(0, len(x) - size + 1, stride)):
                seen = sum(float(u[i, tap] * x[start + tap]) for tap in range(size))
                seen += float(u[i, size]) if network.unit.bias else 0.0
                out[o] += v[i, o, position] * sigma(seen)
        return out

    return value


def plain_heads(
    *, softmax: bool = False, per_token: bool = True, residual: bool = True
) -> Callable[[Layer, np.ndarray], np.ndarray]:
    """Return Eq. (69) token by token: each token attends to the query, score (K x_n)·(Q x_q)."""

    def value(network: Layer, x: np.ndarray) -> np.ndarray:
        v = np.asarray(network.v)
        query = x[:, -1]
        out = np.zeros(v.shape[1])
        for (keys, queries), values in zip(np.asarray(network.u), v, strict=True):
            scores = np.array([(keys @ token) @ (queries @ query) for token in x.T])
            if softmax:
                scores = np.exp(scores) / np.exp(scores).sum()
            elif per_token:
                scores = scores / (x.shape[1] - 1)
            for token, score in zip(x.T, scores, strict=True):
                out += values @ token * score
        return out + (query[len(query) - len(out) :] if residual else 0.0)

    return value


def _noise(shape: tuple[int, ...], outputs: int = 1) -> dict[str, Any]:
    def make(samples: int, key: Any) -> AbstractTask:
        seed = int(jax.random.randint(key, (), 0, 2**30))
        return unstructured(shape, outputs, samples, seed)

    return {"finite": make, "population": None}


def _pair(make: Callable[..., AbstractTask]) -> dict[str, Any]:
    def population() -> AbstractTask:
        with warnings.catch_warnings():  # few nodes warn of kinks
            warnings.simplefilter("ignore", UserWarning)
            return make()

    return {"finite": lambda samples, key: make(samples=samples, key=key), "population": population}


def _neurons(
    scalar: Scalar,
    data: dict[str, Any],
    *,
    name: str | None = None,
    outputs: int = 1,
    bias: bool = False,
) -> Architecture:
    return Architecture(
        name or scalar.name,
        lambda key, scale, width: fully_connected(
            2, width, outputs, activation=scalar.choice, bias=bias, scale=scale, key=key
        ),
        input_shape=(2,),
        unit=NeuronUnit(activation(scalar.choice), bias=bias),
        algebra=scalar.algebra,
        plain=plain_neurons(scalar.plain),
        **data,
    )


def _kernels(
    scalar: Scalar,
    data: dict[str, Any],
    *,
    size: int = 2,
    stride: int = 2,
    inputs: int = 4,
    outputs: int = 1,
    name: str | None = None,
    bias: bool = False,
) -> Architecture:
    return Architecture(
        name or f"conv-{scalar.name}-{size}/{stride}",
        lambda key, scale, width: convolutional_1d(
            inputs,
            width,
            outputs,
            kernel=size,
            stride=stride,
            activation=scalar.choice,
            bias=bias,
            scale=scale,
            key=key,
        ),
        input_shape=(inputs,),
        unit=ConvolutionUnit(activation(scalar.choice), bias=bias, size=size, stride=stride),
        algebra=scalar.algebra,
        plain=plain_kernels(scalar.plain, size, stride),
        **data,
    )


def _heads(
    name: str,
    data: dict[str, Any],
    unit: LinearAttentionUnit | SoftmaxAttentionUnit,
    *,
    outputs: int = 1,
) -> Architecture:
    how = {"softmax": isinstance(unit, SoftmaxAttentionUnit), "residual": unit.residual}
    if isinstance(unit, LinearAttentionUnit):
        how["per_token"] = unit.per_token
    return Architecture(
        name,
        lambda key, scale, width: attention(
            2, width, rank=unit.rank, outputs=outputs, scale=scale, key=key, **how
        ),
        input_shape=(3, 4),
        unit=unit,
        algebra=SOFTMAX if how["softmax"] else EVEN,
        plain=plain_heads(**how),
        **data,
    )


def _teacher(scalar: Scalar, outputs: int = 1) -> dict[str, Any]:
    @functools.cache
    def teacher() -> Layer:
        key = jax.random.key(77)
        return fully_connected(2, 2, outputs, activation=scalar.choice, scale=0.8, key=key)

    return _pair(lambda **how: student_teacher(teacher(), COVARIANCE, **how))


def _conv_teacher(
    scalar: Scalar, inputs: int, size: int, stride: int, outputs: int = 1
) -> dict[str, Any]:
    @functools.cache
    def teacher() -> Layer:
        return convolutional_1d(
            inputs,
            2,
            outputs,
            kernel=size,
            stride=stride,
            activation=scalar.choice,
            scale=0.8,
            key=jax.random.key(78),
        )

    covariance = np.eye(inputs) + 0.2
    return {
        "finite": lambda samples, key: student_teacher(
            teacher(), covariance, samples=samples, key=key
        ),
        # Few nodes, because the quadrature is a product over all inputs. For polynomials the
        # default number is exact.
        "population": _pair(
            lambda: student_teacher(
                teacher(), covariance, nodes=8 if teacher().unit.degree is None else None
            )
        )["population"],
    }


def _regression(context: int) -> dict[str, Any]:
    return _pair(
        lambda **how: in_context_regression(2, context, token_covariance=TOKEN_COVARIANCE, **how)
    )


_by_name = {scalar.name: scalar for scalar in SCALARS}
_linear = _pair(lambda **how: linear_teacher([[1.0, 0.5]], COVARIANCE, **how))
_linear_3 = _pair(
    lambda **how: linear_teacher([[1.0, 0.5], [-0.5, 0.25], [0.3, 0.0]], COVARIANCE, **how)
)
_quadratic = _pair(lambda **how: quadratic_teacher([[1.0, 0.2], [0.0, 0.7]], COVARIANCE, **how))
_softmax = {"finite": _regression(5)["finite"], "population": None}

ARCHITECTURES = [
    _neurons(_by_name["linear"], _linear),
    _neurons(_by_name["linear"], _linear_3, name="linear-3-outputs", outputs=3),
    _neurons(_by_name["quadratic"], _quadratic),
    *(
        _neurons(scalar, _teacher(scalar))
        for scalar in SCALARS
        if scalar.name not in ("linear", "quadratic")
    ),
    _neurons(
        _by_name["tanh"], _teacher(_by_name["tanh"], outputs=2), name="tanh-2-outputs", outputs=2
    ),
    _kernels(_by_name["linear"], _pair(figure_1c_teacher)),
    _kernels(
        _by_name["linear"],
        _conv_teacher(_by_name["linear"], 5, 3, 1, outputs=2),
        size=3,
        stride=1,
        inputs=5,
        outputs=2,
        name="conv-linear-3/1-2-outputs",
    ),
    _kernels(_by_name["relu"], _conv_teacher(_by_name["relu"], 4, 2, 2)),
    _kernels(
        _by_name["quadratic"],
        _conv_teacher(_by_name["quadratic"], 5, 2, 3),
        size=2,
        stride=3,
        inputs=5,
    ),
    _kernels(
        _by_name["tanh"], _conv_teacher(_by_name["tanh"], 4, 2, 1), size=2, stride=1, inputs=4
    ),
    _neurons(_by_name["linear"], _linear_3, name="linear-bias", outputs=3, bias=True),
    _neurons(_by_name["quadratic"], _quadratic, name="quadratic-bias", bias=True),
    _neurons(_by_name["relu"], _noise((2,)), name="relu-bias", bias=True),
    _kernels(_by_name["linear"], _pair(figure_1c_teacher), name="conv-bias", bias=True),
    _heads("attention", _regression(3), LinearAttentionUnit()),
    _heads("attention-raw", _regression(3), LinearAttentionUnit(per_token=False)),
    _heads("attention-rank-2", _regression(2), LinearAttentionUnit(rank=2)),
    _heads(
        "attention-rank-2-raw",
        _regression(5),
        LinearAttentionUnit(rank=2, per_token=False, residual=False),
    ),
    _heads("attention-2-outputs", _noise((3, 4), 2), LinearAttentionUnit(), outputs=2),
    _heads("attention-no-residual", _noise((3, 4)), LinearAttentionUnit(residual=False)),
    _heads("softmax", _softmax, SoftmaxAttentionUnit()),
    _heads("softmax-rank-2", _softmax, SoftmaxAttentionUnit(rank=2, residual=False)),
]
FIXED_FEATURES = [row for row in ARCHITECTURES if row.unit.fixed_features]
POPULATIONS = [row for row in ARCHITECTURES if row.population is not None]


def each(rows: Iterable[Any], name: str = "row") -> pytest.MarkDecorator:
    """Return `pytest.mark.parametrize` over a table; the name of a row names its test."""
    rows = list(rows)
    return pytest.mark.parametrize(name, rows, ids=[row.name for row in rows])


def inputs(row: Architecture, count: int = 3, seed: int = 5) -> np.ndarray:
    """Return random inputs of the right shape."""
    return np.random.default_rng(seed).standard_normal((count, *row.input_shape))


def unstructured(shape: tuple[int, ...], outputs: int, count: int, seed: int = 0) -> Task:
    """Return a task of independent random inputs and targets with unequal weights."""
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((count, *shape)), rng.standard_normal((count, outputs))
    return from_arrays(x, y, weight=rng.uniform(0.1, 1.0, count))


def raw_statistics(unit: AbstractUnit, data: Task) -> Statistics:
    """Return the statistics of a task as its samples, without compression."""
    skip = [np.broadcast_to(unit.skip(x, data.outputs), (data.outputs,)) for x in data.x]
    with jax.enable_x64(True):
        psi = np.stack([np.asarray(unit.features(x)) for x in data.x])
    return Statistics(psi, data.y - np.stack(skip), data.weight, 0.0)


def half_loss(network: Layer, statistics: Statistics) -> Any:
    """Return ½ Σ w ‖y − f‖² + floor for any kind of statistics, as a differentiable function."""
    u, v = (jnp.moveaxis(leaf, 0, -1) for leaf in (network.u, network.v))
    outputs = network.structure.outputs(jnp.asarray(statistics.psi), u, v)
    square = jnp.sum((statistics.y - outputs) ** 2, axis=1)
    return 0.5 * jnp.sum(statistics.weight * square) + statistics.floor


def isserlis(covariance: np.ndarray, indices: tuple[int, ...]) -> float:
    """Return ⟨x_i x_j …⟩ of N(0, covariance) by pairing the first factor with each other one."""
    if not indices:
        return 1.0
    if len(indices) % 2:
        return 0.0
    first, rest = indices[0], indices[1:]
    return sum(
        covariance[first, rest[i]] * isserlis(covariance, rest[:i] + rest[i + 1 :])
        for i in range(len(rest))
    )


def random_covariance(rng: np.random.Generator, size: int, rank: int | None = None) -> np.ndarray:
    factor = rng.standard_normal((size, size if rank is None else rank))
    return factor @ factor.T / np.sqrt(size)


def spoilt(network: Any, part: int) -> Any:
    """Return the network with a NaN weight in one of its parts."""
    parts = [np.array(each) for each in network.parts]
    parts[part].flat[0] = np.nan
    return network.with_parts(*parts)
