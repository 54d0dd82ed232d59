"""Regression tasks with Gaussian inputs: linear teachers, quadratic teachers and networks."""

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

_TURNS = 8  # number of random rotations of a quadrature rule that estimate its error
_NOTICED = 1e-3  # relative error of averages above which the user is warned


def linear_teacher(
    weights: ArrayLike,
    covariance: ArrayLike | None = None,
    *,
    nodes: int | None = None,
    samples: int | None = None,
    key: PRNGKeyArray | None = None,
) -> Task:
    """Return a task with the targets y = W*x of a linear teacher, for inputs from N(0, covariance).

    **Arguments:**

    - `weights`: W*, `(output, input)`.
    - `covariance`: covariance of the inputs, positive semi-definite; the identity by default.
    - `nodes`: number of Gauss–Hermite nodes per dimension, for population averages of networks that
      are not linear. Without `nodes` the population task is for linear networks only.
    - `samples`, `key`: number of samples and random key, for a finite data set instead of the
      population.

    **Example:**

    >>> from festina.tasks import linear_teacher
    >>> task = linear_teacher([[1.0, 2.0]])
    >>> task
    Task(4 points of a population, inputs (2,), 1 outputs)
    >>> (task.weight * task.y[:, 0]) @ task.x  # ⟨yxᵀ⟩ = W*
    array([1., 2.])
    """
    weights, covariance = _checked(weights, covariance)
    return _gaussian_task(lambda x: x @ weights.T, covariance, 1, nodes, samples, key)


def figure_1c_teacher(
    *, nodes: int | None = None, samples: int | None = None, key: PRNGKeyArray | None = None
) -> Task:
    """Return the task of Figure 1C of Zhang, Saxe & Latham, with a linear teacher of four inputs.

    The teacher is w* = (1, 1, −1, 1)/√5, and the variances of the inputs are (1, 1, 2, 1). A
    convolutional network with kernel size and stride 2 learns each half of w* with one kernel.
    `nodes`, `samples` and `key` are passed to `linear_teacher`.

    **Example:**

    >>> from festina.tasks import figure_1c_teacher
    >>> task = figure_1c_teacher()
    >>> (task.weight * task.y[:, 0]) @ task.x  # ⟨yxᵀ⟩
    array([ 0.4472136 ,  0.4472136 , -0.89442719,  0.4472136 ])
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
    """Return a task with targets y = c Σ_j (w_j·x)² of a quadratic teacher, for Gaussian inputs.

    **Arguments:**

    - `weights`: w_j as rows.
    - `covariance`: covariance of the inputs, which have mean zero; the identity by default.
    - `target_scale`: c.
    - `nodes`: number of Gauss–Hermite nodes per dimension, for population averages of networks that
      are not polynomials of degree 1 or 2. Without `nodes` the task is for polynomial networks of
      degree 1 or 2 only.
    - `samples`, `key`: number of samples and random key, for a finite data set instead of the
      population.

    **Example:**

    >>> import numpy as np
    >>> from festina.tasks import quadratic_teacher
    >>> task = quadratic_teacher(np.eye(2))
    >>> round(float(task.weight @ task.y[:, 0]), 3)  # ⟨x₁² + x₂²⟩
    2.0
    """
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
    """Return a task with the targets of a teacher network, for inputs from N(0, covariance).

    **Arguments:**

    - `teacher`: a single `festina.networks.Layer`.
    - `covariance`: covariance of the inputs, which are vectors.
    - `nodes`: number of Gauss–Hermite nodes per dimension, for population averages. Without `nodes`
      the averages are exact, but only for polynomial teachers, and for students whose degree is not
      higher than the teacher's.
    - `samples`, `key`: number of samples and random key, for a finite data set instead of the
      population.

    !!! note "When it stops being exact"

        The quadrature error of smooth units falls faster than any power of `nodes` (for tanh like
        e^{−c√nodes}). For units with a kink, such as ReLU, the error falls as one over `nodes`; a
        warning then gives the relative error of the teacher's own gradient.

    **Example:**

    >>> import numpy as np
    >>> from festina.networks import layer_from
    >>> from festina.tasks import student_teacher
    >>> student_teacher(layer_from("tanh", np.eye(2), np.ones(2)), np.eye(2), nodes=10)
    Task(100 points of a population, inputs (2,), 1 outputs)
    """
    if not isinstance(teacher, Layer):
        raise ValueError(
            f"`teacher` must be a network of one layer, got {type(teacher).__name__}. For another "
            "network make a data set: festina.tasks.from_arrays(x, teacher.predict(x))."
        )
    if teacher.batch_shape:
        raise ValueError(
            f"`teacher` must be a single network, got a batch {teacher.batch_shape}. Take one of "
            "them with `teacher.lane(0)`, one index for each batch axis."
        )
    covariance = real_array("covariance", covariance)
    expected = teacher.unit.weight_shape(covariance.shape[:1])
    reads = teacher.unit.read_shape(covariance.shape[:1])
    if teacher.u.shape[1:] != expected or teacher.v.shape[2:] != reads:
        raise ValueError(
            f"`teacher` does not fit inputs of dimension {len(covariance)}, the size of "
            f"`covariance`: the weights of a unit have the shapes {teacher.u.shape[1:]} for u and "
            f"{teacher.v.shape[2:]} for v, not {expected} and {reads}."
        )

    def teach(x: np.ndarray) -> np.ndarray:
        return np.asarray(jax.vmap(teacher)(jnp.asarray(x)))

    data = _gaussian_task(teach, covariance, teacher.unit.degree or 0, nodes, samples, key)
    if data.population and teacher.kinked:
        _warn_of_kinks(teacher, covariance, data)
    return data


def _warn_of_kinks(teacher: Layer, covariance: np.ndarray, data: Task) -> None:
    """Warn if rotating the quadrature rule changes averages, as for kinked units.

    The compared averages are the gradient of ½⟨|f|²⟩ with respect to the teacher's weights. The
    integrand of this gradient has jumps, like the integrand of a student's gradient.
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
            f"The gradient averaged over {len(data.x)} quadrature points has an error of about "
            f"{error:.1%}, because {teacher.unit} has a kink. The error falls only as one over "
            "`nodes`: give more nodes, or make a data set (`samples=…, key=…`).",
            stacklevel=4,  # one of the four frames is the wrapper `float64`
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
        raise ValueError(
            "Give both `samples` and `key` for a data set, neither for a population; got only "
            f"`{'key' if samples is None else 'samples'}`."
        )
    if samples is not None and key is not None:
        samples = whole_number("samples", samples)
        noise = jax.random.normal(key, (samples, len(covariance)))
        x = np.asarray(noise) @ square_root(covariance)
        return Task(x, teach(x), np.full(samples, 1.0 / samples))
    x, weight = gaussian_cubature_points(covariance, degree=2 * degree, nodes=nodes)
    return Task(x, teach(x), weight, degree=degree if nodes is None else None, population=True)
