"""Measure and check the assumptions of the balanced solution: balanced weights, white inputs."""

import numpy as np
from jaxtyping import Bool, Float

from ..._types import Array, ArrayLike
from ...networks import AbstractNetwork, DeepLinear, Layer, NeuronUnit
from ...tasks import AbstractTask, MomentTask, from_moments
from .._statistics import moments
from ._balanced_solution import as_array

# Relative residual of weights that are balanced up to rounding.
_EXACT = 1e-10
_WHITE = 1e-8


class BalanceWarning(UserWarning):
    """Warns that the initial weights are only nearly balanced, so the solution is approximate.

    **Example:**

    >>> import warnings
    >>> from festina.networks import deep_linear_from
    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> network = deep_linear_from([[[0.1, 0.0], [0.0, 0.1]], [[0.1, 0.0], [0.0, 0.12]]])
    >>> with warnings.catch_warnings(action="ignore", category=linear.BalanceWarning):
    ...     flow = linear.balanced_flow(network, from_moments([[3.0, 0.0], [0.0, 1.0]]))
    >>> flow.error_estimate(2.0)
    array(0.00028)
    """


class ObstructionWarning(UserWarning):
    """Warns that gradient flow from these weights ends at a saddle, before the task is learned.

    **Example:**

    >>> import warnings
    >>> from festina.networks import deep_linear_from
    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> network = deep_linear_from([[[0.1, 0.0], [0.0, 0.1]], [[0.1, 0.0], [0.0, -0.1]]])
    >>> flow = linear.balanced_flow(network, from_moments([[3.0, 0.0], [0.0, 1.0]]))
    >>> with warnings.catch_warnings(action="ignore", category=linear.ObstructionWarning):
    ...     flow(50.0).loss()
    array(0.5)
    """


def measured_balance(
    network: AbstractNetwork,
) -> tuple[Float[np.ndarray, "*batch"], Float[np.ndarray, "*batch"]]:
    r"""Return the balance λ of a two-layer network, and the deviation from exact λ-balance.

    $$\lambda = \frac{1}{N_h}\mathrm{tr}\,(W_2^\top W_2 - W_1W_1^\top),\qquad
      \Delta = W_2^\top W_2 - W_1W_1^\top - \lambda I,$$

    where $N_i$, $N_h$ and $N_o$ are the numbers of inputs, hidden units and outputs. Gradient flow
    conserves λ and Δ for any loss that depends on the weights through $W_2W_1$. Weights with
    $\Delta = 0$ are λ-balanced (Dominé et al., 2025). λ-balanced weights exist only with
    $N_h \le N_o$ for $\lambda > 0$, and with $N_h \le N_i$ for $\lambda < 0$: the rank of
    $W_2^\top W_2$ is at most $N_o$, and the rank of $W_1W_1^\top$ at most $N_i$.

    **Arguments:**

    - `network`: a `Layer` of linear neurons or a `DeepLinear` of two layers; or a batch of them.
      To start from matrices, pass `festina.networks.deep_linear_from([first, second])`.

    **Returns:**

    λ, and the largest absolute eigenvalue of Δ.

    **Example:**

    >>> from festina.networks import deep_linear_from
    >>> from festina.theory import linear
    >>> network = deep_linear_from([[[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 2.0]]])
    >>> linear.measured_balance(network)
    (array(3.), array(0.))
    """
    first, second = (np.asarray(weight) for weight in two_layers(network))
    value = own_balance(first, second)
    return value, residual(first, second, value)


def own_balance(
    first: Float[np.ndarray, "*batch hidden input"],
    second: Float[np.ndarray, "*batch output hidden"],
) -> Float[np.ndarray, "*batch"]:
    """Return λ = tr(W₂ᵀW₂ − W₁W₁ᵀ)/N_h of any weights, balanced or not."""
    squares = (np.sum(weights**2, axis=(-2, -1)) for weights in (second, first))
    return np.asarray(np.subtract(*squares) / first.shape[-2])


def two_layers(
    network: AbstractNetwork,
) -> tuple[Float[Array, "*batch hidden input"], Float[Array, "*batch output hidden"]]:
    """Return both weights of a two-layer linear network; raise `ValueError` for other networks."""
    if isinstance(network, Layer) and network.unit == NeuronUnit():
        network = DeepLinear.from_layer(network)
    if isinstance(network, DeepLinear) and len(network.weights) == 2:
        first, second = (as_array(weight) for weight in network.weights)
        return first, second
    found = repr(network) if isinstance(network, AbstractNetwork) else type(network).__name__
    raise ValueError(
        f"`network` must be linear with two layers and no biases, got {found}. Other networks "
        "have no closed-form solution: use festina.gradient_flow(network, task). If you have "
        "matrices, pass `festina.networks.deep_linear_from([first, second])`."
    )


def residual(
    first: Float[np.ndarray, "*batch hidden input"],
    second: Float[np.ndarray, "*batch output hidden"],
    value: ArrayLike,
) -> Float[np.ndarray, "*batch"]:
    r"""Return $\lVert W_2^\top W_2 - W_1W_1^\top - \lambda I\rVert_2$."""
    difference = second.swapaxes(-1, -2) @ second - first @ first.swapaxes(-1, -2)
    shift = np.asarray(value)[..., None, None] * np.eye(first.shape[-2])
    return np.asarray(np.linalg.norm(difference - shift, 2, axis=(-2, -1)))


def is_exact(
    first: Float[np.ndarray, "*batch hidden input"],
    second: Float[np.ndarray, "*batch output hidden"],
    found: Float[np.ndarray, "*batch"],
) -> Bool[np.ndarray, "*batch"]:
    """Return whether the deviation `found` of weights from balance is only rounding error."""
    size = np.sum(first**2, axis=(-2, -1)) + np.sum(second**2, axis=(-2, -1))
    return np.asarray(found <= _EXACT * size)


def in_white_coordinates(
    network: AbstractNetwork, task: AbstractTask
) -> tuple[DeepLinear, MomentTask]:
    r"""Return the network and the task after whitening the inputs.

    Whitened inputs are $\tilde x = \Sigma_{xx}^{-1/2}x$. The network computes the same outputs with
    $\tilde W_1 = W_1\Sigma_{xx}^{1/2}$, and the correlation of the task is $\tilde\Sigma_{yx} =
    \Sigma_{yx}\Sigma_{xx}^{-1/2}$. Whitening leaves the loss of every network unchanged, but **not
    the gradient flow**, because gradients depend on the coordinates of the weights. The result
    describes the training of a network that receives whitened inputs. For the flow with the
    original inputs, use `festina.gradient_flow`.

    **Arguments:**

    - `network`: a `Layer` of linear neurons or a `DeepLinear` of two layers; or a batch of them.
    - `task`: the task that the network learns. Inputs must vary in all directions.

    **Returns:**

    The network with $\tilde W_1$ and the task with $\tilde\Sigma_{yx}$, ready for `balanced_flow`.

    **Example:**

    >>> from festina.networks import deep_linear_from
    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> task = from_moments([[2.0, 1.0]], covariance=[[4.0, 0.0], [0.0, 1.0]])
    >>> network, white = linear.in_white_coordinates(
    ...     deep_linear_from([[[1.0, 1.0]], [[1.0]]]), task
    ... )
    >>> network.weights[0], white.correlation
    (array([[2., 1.]]), array([[1., 1.]]))
    """
    first, second = two_layers(network)
    correlation, covariance, floor = moments(task)
    network.check_fit(task.input_shape, task.outputs)
    variances, axes = np.linalg.eigh(covariance)
    if variances[0] <= 1e-12 * variances[-1]:
        raise ValueError(
            f"The inputs have variances from {variances[0]:.3g} to {variances[-1]:.3g} along their "
            "principal axes. Inputs that do not vary in some direction cannot be whitened: remove "
            "that direction first."
        )
    root = (axes * np.sqrt(variances)) @ axes.T
    white = np.asarray(correlation) @ ((axes / np.sqrt(variances)) @ axes.T)
    power = float(np.sum(white**2)) + 2 * floor
    return DeepLinear((first @ root, second)), from_moments(white, target_power=power)


def check_white(covariance: Float[np.ndarray, "input input"]) -> None:
    """Raise `ValueError` unless the inputs are white; the message names ways to whiten them."""
    found = float(np.linalg.norm(covariance - np.eye(len(covariance)), 2))
    if found > _WHITE:
        raise ValueError(
            "The balanced solution needs white inputs, ⟨xxᵀ⟩ = I; the inputs of this task differ "
            f"from that by {found:.3g}. Give the network whitened inputs (`in_white_coordinates`, "
            "which changes the flow), or integrate the original flow: "
            "festina.gradient_flow(network, task)."
        )
