"""What the balanced solution needs, measured: balance of the weights and white inputs."""

import numpy as np
from jaxtyping import Bool, Float

from ..._types import Array, ArrayLike
from ...networks import AbstractNetwork, DeepLinear, Layer, NeuronUnit
from ...tasks import AbstractTask, MomentTask, from_moments
from .._statistics import moments
from ._balanced_solution import as_array

# Weights made to be balanced are so to rounding, which products of them amplify a little.
_EXACT = 1e-10
_WHITE = 1e-8


class BalanceWarning(UserWarning):
    """Warns that the weights are only nearly balanced, so that the solution has an error."""


class ObstructionWarning(UserWarning):
    """Warns that the weights cannot reach the task: the flow ends at a saddle."""


def measured_balance(
    network: AbstractNetwork,
) -> tuple[Float[np.ndarray, "*batch"], Float[np.ndarray, "*batch"]]:
    r"""Return the λ of a two-layer network, and how far it is from being λ-balanced.

    $$\lambda = \frac{1}{N_h}\mathrm{tr}\,(W_2^\top W_2 - W_1W_1^\top),\qquad
      \Delta = W_2^\top W_2 - W_1W_1^\top - \lambda I,$$

    both conserved by gradient flow on any loss of $W_2W_1$. $\Delta = 0$ is λ-balance (Dominé et
    al., 2025); it needs $N_h \le N_o$ for $\lambda > 0$ and $N_h \le N_i$ for $\lambda < 0$, as
    $W_1W_1^\top$ and $W_2^\top W_2$ cannot have more than that many positive eigenvalues.

    **Arguments:**

    - `network`: a `Layer` of linear neurons or a `DeepLinear` of two layers; or a batch of them.
      Of matrices: `festina.networks.deep_linear_from([first, second])`.

    **Returns:**

    λ and the largest eigenvalue of Δ in size.
    """
    first, second = (np.asarray(weight) for weight in two_layers(network))
    value = own_balance(first, second)
    return value, residual(first, second, value)


def own_balance(
    first: Float[np.ndarray, "*batch hidden input"],
    second: Float[np.ndarray, "*batch output hidden"],
) -> Float[np.ndarray, "*batch"]:
    """Return λ of weights that may not be balanced."""
    squares = (np.sum(weights**2, axis=(-2, -1)) for weights in (second, first))
    return np.asarray(np.subtract(*squares) / first.shape[-2])


def two_layers(
    network: AbstractNetwork,
) -> tuple[Float[Array, "*batch hidden input"], Float[Array, "*batch output hidden"]]:
    """Return the weights of a two-layer linear network; raises for any other."""
    if isinstance(network, Layer) and network.unit == NeuronUnit():
        network = DeepLinear.from_layer(network)
    if isinstance(network, DeepLinear) and len(network.weights) == 2:
        first, second = (as_array(weight) for weight in network.weights)
        return first, second
    found = repr(network) if isinstance(network, AbstractNetwork) else type(network).__name__
    raise ValueError(
        f"`network` must be linear with two layers and no biases, got {found}. Others "
        "have no such solution: festina.gradient_flow(network, task). Matrices: "
        "`festina.networks.deep_linear_from([first, second])`."
    )


def residual(
    first: Float[np.ndarray, "*batch hidden input"],
    second: Float[np.ndarray, "*batch output hidden"],
    value: ArrayLike,
) -> Float[np.ndarray, "*batch"]:
    r"""$\lVert W_2^\top W_2 - W_1W_1^\top - \lambda I\rVert_2$."""
    difference = second.swapaxes(-1, -2) @ second - first @ first.swapaxes(-1, -2)
    shift = np.asarray(value)[..., None, None] * np.eye(first.shape[-2])
    return np.asarray(np.linalg.norm(difference - shift, 2, axis=(-2, -1)))


def is_exact(
    first: Float[np.ndarray, "*batch hidden input"],
    second: Float[np.ndarray, "*batch output hidden"],
    found: Float[np.ndarray, "*batch"],
) -> Bool[np.ndarray, "*batch"]:
    """Whether a residual is no more than rounding."""
    size = np.sum(first**2, axis=(-2, -1)) + np.sum(second**2, axis=(-2, -1))
    return np.asarray(found <= _EXACT * size)


def in_white_coordinates(
    network: AbstractNetwork, task: AbstractTask
) -> tuple[DeepLinear, MomentTask]:
    r"""Return the same network and task in coordinates where the inputs are white.

    With $\tilde x = \Sigma_{xx}^{-1/2}x$ the map $Wx$ is $\tilde W\tilde x$, $\tilde W_1 =
    W_1\Sigma_{xx}^{1/2}$, and the task has $\tilde\Sigma_{yx} = \Sigma_{yx}\Sigma_{xx}^{-1/2}$.
    The loss of a network is the same in both. **The flow is not**: gradients follow the coordinates
    of the weights, so that this is the learning of a network that is given whitened inputs. For the
    flow in the original coordinates use `festina.gradient_flow`.

    **Arguments:**

    - `network`: a `Layer` of linear neurons or a `DeepLinear` of two layers; or a batch of them.
    - `task`: what it learns. Inputs must vary in all directions.

    **Returns:**

    A network and a task, for `balanced_flow`.
    """
    first, second = two_layers(network)
    correlation, covariance, floor = moments(task)
    network.check_fit(task.input_shape, task.outputs)
    variances, axes = np.linalg.eigh(covariance)
    if variances[0] <= 1e-12 * variances[-1]:
        raise ValueError(
            f"The inputs have variances from {variances[0]:.3g} to {variances[-1]:.3g}: those that "
            "do not vary in some direction cannot be whitened. Drop that direction first."
        )
    root = (axes * np.sqrt(variances)) @ axes.T
    white = np.asarray(correlation) @ ((axes / np.sqrt(variances)) @ axes.T)
    power = float(np.sum(white**2)) + 2 * floor
    return DeepLinear((first @ root, second)), from_moments(white, target_power=power)


def check_white(covariance: Float[np.ndarray, "input input"]) -> None:
    """Raise unless the inputs are white, with ways to whiten them."""
    found = float(np.linalg.norm(covariance - np.eye(len(covariance)), 2))
    if found > _WHITE:
        raise ValueError(
            f"The balanced solution needs white inputs, ⟨xxᵀ⟩ = I; this task's differ from that by "
            f"{found:.3g}. Give the network whitened inputs (`in_white_coordinates`, another "
            "flow), or integrate this one: festina.gradient_flow(network, task)."
        )
