"""Gradient descent written out by hand: another way from the same weights to the same drops.

When a network drops depends on its initial weights, which another implementation draws
differently. From the same weights nothing is left to chance, so that a loop over NumPy arrays with
hand-written derivatives must come to each drop at the same step. It shares nothing with the
training: neither automatic differentiation, nor compression, nor the record of a trajectory.
"""

import numpy as np
from jaxtyping import Float

from festina.networks import DeepNetwork
from festina.tasks import AbstractTask, Task


def plain_drops(
    network: DeepNetwork,
    task: AbstractTask,
    learning_rate: float,
    middles: Float[np.ndarray, " drop"],
    max_steps: int,
) -> Float[np.ndarray, "seed drop"]:
    """Steps at which ⟨‖y − f‖²⟩ falls below each of these values, NaN where it does not.

    For stacks that are linear throughout or ReLU throughout, with kernels that do not overlap.
    """
    x, y = _points(network, task)
    weights = [np.array(weight, float) for weight in network.weights]
    weights[1] = weights[1].reshape(*weights[1].shape[:2], -1)  # reads all positions of all units
    patches = x.reshape(len(x), -1, weights[0].shape[-1])
    drops = np.full((len(weights[0]), len(middles)), np.nan)
    before = np.full(len(drops), np.inf)
    for step in range(max_steps + 1):
        loss, gradients = loss_and_gradients(network, weights, patches, y)
        for seed, drop in zip(*np.nonzero((loss[:, None] <= middles) & ~(drops >= 0)), strict=True):
            missed = (middles[drop] - loss[seed]) / (before[seed] - loss[seed])
            drops[seed, drop] = step - missed
        if np.isfinite(drops).all():
            break
        before = loss
        for weight, gradient in zip(weights, gradients, strict=True):
            weight -= learning_rate * gradient
    return drops


def furthest(steps: np.ndarray, others: np.ndarray) -> float:
    """Largest difference of two tables of drops, ∞ where a drop has come in one of them alone."""
    neither = np.isnan(steps) & np.isnan(others)
    apart = np.nan_to_num(np.abs(steps - others), nan=np.inf)
    return float(np.max(np.where(neither, 0.0, apart)))


def _points(network: DeepNetwork, task: AbstractTask) -> tuple[np.ndarray, np.ndarray]:
    """The samples, or as few points as there are inputs that have the population's averages."""
    if isinstance(task, Task) and not task.population:
        return task.x, task.y
    statistics = task.statistics(network.unit)
    sigma_xx, sigma_yx = statistics.covariance, statistics.correlation
    x = np.sqrt(len(sigma_xx)) * np.linalg.cholesky(sigma_xx).T
    return x, x @ np.linalg.solve(sigma_xx, sigma_yx.reshape(len(sigma_yx), -1).T)


def loss_and_gradients(
    network: DeepNetwork, weights: list[np.ndarray], patches: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Of every seed: a_l = σ(z_l) + Σ a_k over the skips (k, l), z_l = W_l a_(l−1), and back."""
    depth, relu = len(weights), network.unit.algebra.homogeneous == "positive"
    first = np.einsum("ptk,sik->spti", patches, weights[0])
    z, a = [patches, first.reshape(*first.shape[:2], -1)], [patches]  # counted as in the paper
    for layer in range(1, depth + 1):
        if layer > 1:
            z.append(a[-1] @ weights[layer - 1].transpose(0, 2, 1))
        passed = np.maximum(z[layer], 0.0) if relu and layer < depth else z[layer]
        a.append(passed + sum(a[k] for k, end in network.skips if end == layer))

    error = a[depth] - y
    by_a = [np.zeros_like(each) for each in a[:-1]] + [2 * error / len(y)]  # ∂L/∂a_l
    gradients = []
    for layer in range(depth, 0, -1):
        for k, end in network.skips:
            if end == layer:
                by_a[k] += by_a[layer]
        by_z = by_a[layer] * (z[layer] > 0) if relu and layer < depth else by_a[layer]
        if layer > 1:
            gradients.append(by_z.transpose(0, 2, 1) @ a[layer - 1])
            by_a[layer - 1] += by_z @ weights[layer - 1]
        else:
            gradients.append(np.einsum("spti,ptk->sik", by_z.reshape(first.shape), patches))
    return np.sum(error**2, axis=(1, 2)) / len(y), gradients[::-1]
