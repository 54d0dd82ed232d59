"""Fixed points of any architecture: construct one, and measure how far a network is from one."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from ..._checks import check_alone
from ..._objective import Data, LossConvention, excess_loss, objective
from ..._precision import float64
from ..._types import Array, ArrayLike
from ...networks import AbstractNetwork
from ...networks._generator import generator
from ...networks._structure import AbstractStructure
from ...tasks import AbstractTask, Task, from_arrays
from ._loss_function import natural_size


@float64
def task_with_fixed_point(
    network: AbstractNetwork, x: ArrayLike, *, residual: float = 1.0, key: PRNGKeyArray
) -> Task:
    r"""Return a task for which the given weights are a fixed point with nonzero error.

    Gradient flow stands still where $J^\top R = 0$. $J$ is the derivative of all outputs at all
    samples with respect to the weights, and $R$ are the errors $y - f$. The function draws $R$ at
    random, projects $R$ on $\ker J^\top$, and returns the targets $y = f + R$. The given weights
    are then an exact fixed point (Definition 1 of Zhang, Saxe & Latham), for any architecture.
    Statements about fixed points can be tested on such tasks.

    **Arguments:**

    - `network`: one network, with any weights.
    - `x`: inputs, `(sample, ...)`. The number of targets (samples times outputs) must exceed the
      number of directions in which the weights can move the outputs.
    - `residual`: root mean square error of the outputs at the fixed point.
    - `key`: random key of the errors.

    **Returns:**

    The task. `network` is at a fixed point of gradient flow on this task, to rounding.

    **Example:**

    >>> import jax
    >>> import numpy as np
    >>> from festina.networks import layer_from
    >>> from festina.theory.saddles import stationarity, task_with_fixed_point
    >>> network = layer_from("tanh", [[1.0, -0.5]], [2.0])
    >>> x = np.random.default_rng(0).normal(size=(8, 2))
    >>> task = task_with_fixed_point(network, x, key=jax.random.key(0))
    >>> bool(stationarity(network, task).relative < 1e-12)
    True
    >>> round(float(np.mean((task.y - network.predict(x)) ** 2)), 6)  # not a solution
    1.0
    """
    check_alone(network.batch_shape)
    if not (np.isfinite(residual) and residual > 0):
        raise ValueError(f"`residual` must be a positive number, got {residual}.")
    x = np.asarray(x, dtype=float)
    f, jacobian = map(np.asarray, _outputs_and_jacobian(network, x))
    if not (np.isfinite(f).all() and np.isfinite(jacobian).all()):
        raise ValueError("The outputs, or their derivatives, are not finite for all `x`.")
    left, s, _ = np.linalg.svd(jacobian, full_matrices=False)
    # The threshold is low: `moved` contains all weak directions, and may also contain rounding.
    moved = left[:, s > np.finfo(float).eps * s[0]]
    if moved.shape[1] >= f.size:
        raise ValueError(
            f"`x` has too few samples: the {jacobian.shape[1]} weights move the {f.size} outputs "
            f"({len(x)} samples of {f.shape[1]}) in all directions. Only a perfect fit is then a "
            f"fixed point. Give more than {jacobian.shape[1] // f.shape[1]} samples."
        )
    errors = generator(key).standard_normal(f.size)
    for _ in range(2):  # the second pass removes rounding errors of the first
        errors = errors - moved @ (moved.T @ errors)
    errors *= residual / np.sqrt(np.mean(errors**2))
    return from_arrays(x, f + errors.reshape(f.shape))


class Stationarity(NamedTuple):
    r"""Result of `stationarity`: how far each network of a batch is from a fixed point.

    - `gradient`: the norm $|\partial L/\partial\theta|$.
    - `relative`: $|\partial L/\partial\theta|\,|\theta|/L(0)$, with the loss $L(0)$ at zero
      weights. To first order, changing all weights by a relative amount δ changes the loss by at
      most `relative` · δ · $L(0)$. If the gradient is nonzero at zero weights (sigmoid, softmax),
      $|\theta|$ is at least the size of weights that would remove all of the loss, to first order
      from zero weights.

    **Example:**

    >>> from festina.networks import layer_from
    >>> from festina.tasks import linear_teacher
    >>> from festina.theory.saddles import stationarity
    >>> stationarity(layer_from("linear", [[1.0, 0.0]], [1.0]), linear_teacher([[2.0, 0.0]]))
    Stationarity(gradient=array(1.414), relative=array(1.))
    """

    gradient: Float[np.ndarray, "*batch"]
    relative: Float[np.ndarray, "*batch"]


@float64
def stationarity(
    network: AbstractNetwork, task: AbstractTask, *, loss: LossConvention = "half"
) -> Stationarity:
    """Return the size of the gradient, absolute and relative to the weights and the loss.

    **Arguments:**

    - `network`: a network or a batch of them.
    - `task`, `loss`: the data and the loss convention.

    **Returns:**

    `gradient` and `relative`, each with the shape of the batch. At a constructed or embedded fixed
    point, `gradient` and `relative` are of the order of rounding; on a plateau of training, they
    decrease with the initial scale.

    **Example:**

    >>> from festina.networks import layer_from
    >>> from festina.tasks import linear_teacher
    >>> from festina.theory.saddles import stationarity
    >>> task = linear_teacher([[4.0, 0.0]])
    >>> solution = layer_from("linear", [[2.0, 0.0]], [2.0])
    >>> bool(stationarity(solution, task).gradient < 1e-12)
    True
    >>> halfway = layer_from("linear", [[1.0, 0.0]], [1.0])
    >>> float(stationarity(halfway, task).relative)
    0.75
    """
    _, slopes = losses_and_gradients(network, task, loss=loss)
    none = network.with_parts(*(np.zeros(part.shape) for part in network.parts))
    losses, at_zero = losses_and_gradients(none, task, loss=loss)
    gradient = np.linalg.norm(slopes, axis=1)
    size = np.linalg.norm(network.structure.columns(*network.parts), axis=0)
    batch, scale = network.batch_shape, losses[0] or 1.0
    size = np.maximum(size, natural_size(float(scale), float(np.linalg.norm(at_zero[0]))))
    return Stationarity(gradient.reshape(batch), (gradient * size / scale).reshape(batch))


def check_stationary(
    network: AbstractNetwork, task: AbstractTask, tolerance: float, loss: LossConvention
) -> None:
    """Raise `ValueError` unless the network is at a fixed point to within `tolerance`."""
    found = stationarity(network, task, loss=loss)
    if not found.relative <= tolerance:
        raise ValueError(
            f"`network` is not at a fixed point: |∂L/∂θ| is {float(found.gradient):.3g}, and "
            f"|∂L/∂θ||θ| is {float(found.relative):.3g} of the loss at zero weights, above "
            f"`stationary` {tolerance:g}. Minimise the loss first, or give a larger `stationary`."
        )


@float64
def losses_and_gradients(
    network: AbstractNetwork, task: AbstractTask, *, loss: LossConvention = "half"
) -> tuple[Float[np.ndarray, " lane"], Float[np.ndarray, "lane weight"]]:
    """Return the loss and the flattened gradient ∂L/∂θ of every network of a batch."""
    problem = objective(network, task, loss)
    columns = problem.structure.columns(*network.parts)
    losses, slopes = _excess(problem.structure, columns, problem.data)
    return np.asarray(losses) + problem.floor, np.asarray(slopes)


@functools.partial(jax.jit, static_argnums=0)
def _excess(
    structure: AbstractStructure, columns: Float[Array, "weight lane"], data: Data
) -> tuple[Float[Array, " lane"], Float[Array, "lane weight"]]:
    """Return the loss and the gradient at each column of weights."""
    each = jax.value_and_grad(lambda weights: excess_loss(structure, weights, data))
    return jax.vmap(each, in_axes=1)(columns)


@jax.jit
def _outputs_and_jacobian(
    network: AbstractNetwork, x: Float[Array, "sample ..."]
) -> tuple[Float[Array, "sample output"], Float[Array, "number weight"]]:
    """Return the outputs f at every sample, and their derivatives with respect to all weights."""
    outputs = lambda network: jax.vmap(network)(x)
    f = outputs(network)
    slopes = jax.tree.leaves(jax.jacfwd(outputs)(network))
    return f, jnp.concatenate([slope.reshape(f.size, -1) for slope in slopes], axis=1)
