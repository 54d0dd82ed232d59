"""Regression tasks with Gaussian inputs: linear, quadratic and student–teacher."""

import warnings
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .._checks import number, real_array, whole_number
from .._precision import float64
from .._types import Array, ArrayLike
from ..networks import Layer
from ._cubature import gaussian_cubature_points, square_root
from ._task import Task

_TURNS = 8
_NOTICED = 1e-3  # relative error of averages that a user is told of


def linear_teacher(
    weights: ArrayLike,
    covariance: ArrayLike | None = None,
    *,
    nodes: int | None = None,
    samples: int | None = None,
    key: PRNGKeyArray | None = None,
) -> Task:
    """Return a task with targets y = W*x for inputs from N(0, covariance).

    **Arguments:**

    - `weights`: W*, one row per output.
    - `covariance`: of the inputs, any positive semi-definite matrix; identity by default.
    - `nodes`: Gauss–Hermite nodes a dimension, for population averages of networks that are not
      linear. By default the population is exact for linear networks.
    - `samples`, `key`: a finite data set of that many samples instead of the population.
    """
    weights, covariance = _checked(weights, covariance)
    return _gaussian_task(lambda x: x @ weights.T, covariance, 1, nodes, samples, key)


def figure_1c_teacher(
    *, nodes: int | None = None, samples: int | None = None, key: PRNGKeyArray | None = None
) -> Task:
    """Return the task of Figure 1C: w* = (1, 1, −1, 1)/√5, input variances (1, 1, 2, 1).

    A convolution with kernel and stride 2 learns its two halves with one kernel each.
    """
    weights = np.array([[1.0, 1.0, -1.0, 1.0]]) / np.sqrt(5)
    covariance = np.diag([1.0, 1.0, 2.0, 1.0])
    return linear_teacher(weights, covariance, nodes=nodes, samples=samples, key=key)


def quadratic_teacher(
    weights: ArrayLike,
    covariance: ArrayLike | None = None,
    *,
    target_scale: float = 1.0,
    nodes: int | None = None,
    samples: int | None = None,
    key: PRNGKeyArray | None = None,
) -> Task:
    """Return a task with targets y = c Σ_j (w_j·x)² of `weights` w_j, c = `target_scale`."""
    weights, covariance = _checked(weights, covariance)
    target_scale = number("target_scale", target_scale)

    def teach(x: np.ndarray) -> np.ndarray:
        return target_scale * np.sum((x @ weights.T) ** 2, axis=1, keepdims=True)

    return _gaussian_task(teach, covariance, 2, nodes, samples, key)


@float64
def student_teacher(
    teacher: Layer,
    covariance: ArrayLike,
    *,
    nodes: int | None = 40,
    samples: int | None = None,
    key: PRNGKeyArray | None = None,
) -> Task:
    """Return targets from any network of one layer, for vector inputs from N(0, covariance).

    Population averages use Gauss–Hermite quadrature with `nodes` nodes a dimension. Its error falls
    faster than any power of `nodes` for smooth units (tanh: e^{−c√nodes}); for kinked ones (ReLU)
    only slowly, and a warning says how large it is in the teacher's own gradient.
    """
    if not isinstance(teacher, Layer):
        raise ValueError(
            f"`teacher` must be a network of one layer, got {type(teacher).__name__}. For any "
            "other give its outputs as targets: festina.tasks.from_arrays(x, teacher.predict(x))."
        )
    if teacher.batch_shape:
        raise ValueError(f"`teacher` must be a single network, got a batch {teacher.batch_shape}.")
    covariance = real_array("covariance", covariance)
    expected = teacher.unit.weight_shape(covariance.shape[:1])
    reads = teacher.unit.read_shape(covariance.shape[:1])
    if teacher.u.shape[1:] != expected or teacher.v.shape[2:] != reads:
        raise ValueError(
            f"`teacher` does not fit inputs of dimension {len(covariance)}, that of `covariance`: "
            f"its unit weights are {teacher.u.shape[1:]} and read {teacher.v.shape[2:]} responses, "
            f"not {expected} and {reads}."
        )

    def teach(x: np.ndarray) -> np.ndarray:
        return np.asarray(jax.vmap(teacher)(jnp.asarray(x)))

    data = _gaussian_task(teach, covariance, teacher.unit.degree or 0, nodes, samples, key)
    if data.population and teacher.kinked:
        _warn_of_kinks(teacher, covariance, data)
    return data


def _warn_of_kinks(teacher: Layer, covariance: np.ndarray, data: Task) -> None:
    """Warn if a quadrature rule gives other averages when it is turned, as kinks make it.

    What is asked is ∂/∂θ of ½⟨|f|²⟩, whose integrand jumps as that of a student's gradient does.
    """
    rng, root = np.random.default_rng(0), square_root(covariance)
    back = np.linalg.pinv(root)
    turns = [np.linalg.qr(rng.normal(size=covariance.shape))[0] for _ in range(_TURNS)]
    found = _slopes(teacher, data.x, data.weight)
    others = [_slopes(teacher, data.x @ back @ turn @ root, data.weight) for turn in turns]
    expected = np.mean(others, axis=0)
    error = float(np.linalg.norm(found - expected) / np.linalg.norm(expected))
    if error > _NOTICED:
        warnings.warn(
            f"Averages over {len(data.x)} nodes are about {error:.1%} off in the gradient of "
            f"{teacher.unit}, which has a kink. The error falls only as one over `nodes`: give "
            "more, or a finite task (`samples=…, key=…`).",
            stacklevel=4,  # `float64` is one of them
        )


@jax.jit
def _slopes(
    teacher: Layer, x: Float[Array, "point input"], weight: Float[Array, " point"]
) -> Array:
    half_power = lambda layer: 0.5 * jnp.sum(weight[:, None] * jax.vmap(layer)(x) ** 2)
    return jnp.concatenate([jnp.ravel(part) for part in jax.grad(half_power)(teacher).parts])


def _checked(
    weights: ArrayLike, covariance: ArrayLike | None
) -> tuple[Float[np.ndarray, "row input"], Float[np.ndarray, "input input"]]:
    weights = np.atleast_2d(real_array("weights", weights))
    if weights.ndim != 2 or not weights.size or not np.isfinite(weights).all():
        raise ValueError(
            f"`weights` of the teacher must be a finite matrix, got shape {weights.shape} with "
            f"{np.sum(~np.isfinite(weights))} values that are not finite."
        )
    size = weights.shape[1]
    covariance = np.eye(size) if covariance is None else real_array("covariance", covariance)
    if covariance.shape != (size, size):
        raise ValueError(
            f"`covariance` must be {size} × {size} to fit `weights` of shape {weights.shape}, got "
            f"shape {covariance.shape}."
        )
    return weights, covariance


@float64
def _gaussian_task(
    teach: Callable[[np.ndarray], np.ndarray],
    covariance: np.ndarray,
    degree: int,
    nodes: int | None,
    samples: int | None,
    key: PRNGKeyArray | None,
) -> Task:
    if (samples is None) != (key is None):
        raise ValueError("A finite task needs both `samples` and `key`, a population neither.")
    if samples is not None and key is not None:
        samples = whole_number("samples", samples)
        noise = jax.random.normal(key, (samples, len(covariance)))
        x = np.asarray(noise) @ square_root(covariance)
        return Task(x, teach(x), np.full(samples, 1.0 / samples))
    x, weight = gaussian_cubature_points(covariance, degree=2 * degree, nodes=nodes)
    return Task(x, teach(x), weight, degree=degree if nodes is None else None, population=True)
