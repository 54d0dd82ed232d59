"""Fixed points of any architecture: how to make one, and how to recognise one."""

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
    r"""Return a task for which the given weights are a fixed point, though not a solution.

    Gradient flow stands still where $J^\top R = 0$, with $J$ the derivative of all outputs at all
    samples by the weights and $R$ the errors $y - f$. So draw $R$ at random, project it on
    $\ker J^\top$ and take $y = f + R$ for the targets: an exact fixed point of any architecture,
    to hold statements about fixed points against (Definition 1 of Zhang, Saxe & Latham).

    **Arguments:**

    - `network`: one network, with any weights.
    - `x`: inputs, `(sample, ...)`. There must be more numbers to predict (samples times outputs)
      than directions in which the weights can move them.
    - `residual`: root mean square error of each output that is left at the fixed point.
    - `key`: randomness of the errors.

    **Returns:**

    The task, of which `network` is a fixed point to rounding.
    """
    check_alone(network.batch_shape)
    if not (np.isfinite(residual) and residual > 0):
        raise ValueError(f"`residual` must be a positive number, got {residual}.")
    x = np.asarray(x, dtype=float)
    f, jacobian = map(np.asarray, _outputs_and_jacobian(network, x))
    if not (np.isfinite(f).all() and np.isfinite(jacobian).all()):
        raise ValueError("The outputs, or their slopes, are not finite for all `x`.")
    left, s, _ = np.linalg.svd(jacobian, full_matrices=False)
    # Rounding counts as a direction rather than a weak direction as rounding.
    moved = left[:, s > np.finfo(float).eps * s[0]]
    if moved.shape[1] >= f.size:
        raise ValueError(
            f"`x` are too few: the {jacobian.shape[1]} weights move the {f.size} outputs "
            f"({len(x)} samples of {f.shape[1]}) in all directions, so that only a perfect fit is "
            f"stationary. More than {jacobian.shape[1] // f.shape[1]} samples are always enough."
        )
    errors = generator(key).standard_normal(f.size)
    for _ in range(2):  # the second time for what rounding left
        errors = errors - moved @ (moved.T @ errors)
    errors *= residual / np.sqrt(np.mean(errors**2))
    return from_arrays(x, f + errors.reshape(f.shape))


class Stationarity(NamedTuple):
    """Result of `stationarity`: how far each network of a batch is from a fixed point.

    `gradient` is $|\\partial L/\\partial\\theta|$. `relative` is $|\\partial L/\\partial\\theta|
    \\,|\\theta|/L(0)$: to first order no relative change of the weights changes the loss by more
    than that fraction of what it is without a network. Where zero weights are not at rest (sigmoid,
    softmax) they set no scale; weights then count as no smaller than those that would, to first
    order from zero, remove all of the loss.
    """

    gradient: Float[np.ndarray, "*batch"]
    relative: Float[np.ndarray, "*batch"]


@float64
def stationarity(
    network: AbstractNetwork, task: AbstractTask, *, loss: LossConvention = "half"
) -> Stationarity:
    """Return the gradient at a point, bare and relative to the weights and the loss.

    **Arguments:**

    - `network`: a network or a batch of them.
    - `task`, `loss`: the data and the loss convention.

    **Returns:**

    `gradient` and `relative`, each of the shape of the batch. At a manufactured or embedded fixed
    point both are of the order of rounding; on a plateau of training they fall with the initial
    scale.
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
    """Raise unless the network is at a fixed point, which statements about it assume."""
    found = stationarity(network, task, loss=loss)
    if not found.relative <= tolerance:
        raise ValueError(
            f"`network` is not at a fixed point: |∂L/∂θ| is {float(found.gradient):.3g}, and "
            f"|∂L/∂θ||θ| is {float(found.relative):.3g} of the loss without a network, above "
            f"`stationary` {tolerance:g}. Minimise or embed first, or allow for more."
        )


@float64
def losses_and_gradients(
    network: AbstractNetwork, task: AbstractTask, *, loss: LossConvention = "half"
) -> tuple[Float[np.ndarray, " lane"], Float[np.ndarray, "lane weight"]]:
    """Return losses and ∂L/∂θ of every network of a batch, as columns of its structure."""
    problem = objective(network, task, loss)
    columns = problem.structure.columns(*network.parts)
    losses, slopes = _excess(problem.structure, columns, problem.data)
    return np.asarray(losses) + problem.floor, np.asarray(slopes)


@functools.partial(jax.jit, static_argnums=0)
def _excess(
    structure: AbstractStructure, columns: Float[Array, "weight lane"], data: Data
) -> tuple[Float[Array, " lane"], Float[Array, "lane weight"]]:
    """Each column on its own, which compiles faster than as lanes."""
    each = jax.value_and_grad(lambda weights: excess_loss(structure, weights, data))
    return jax.vmap(each, in_axes=1)(columns)


@jax.jit
def _outputs_and_jacobian(
    network: AbstractNetwork, x: Float[Array, "sample ..."]
) -> tuple[Float[Array, "sample output"], Float[Array, "number weight"]]:
    """Return f at every sample, and its derivative by all weights."""
    outputs = lambda network: jax.vmap(network)(x)
    f = outputs(network)
    slopes = jax.tree.leaves(jax.jacfwd(outputs)(network))
    return f, jnp.concatenate([slope.reshape(f.size, -1) for slope in slopes], axis=1)
