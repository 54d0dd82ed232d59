"""Gradient descent in NumPy with derivatives by hand, as an independent check of drop times.

From the same initial weights, this loop and festina's training must reach each drop at the same
step. The loop shares no code with the training: no automatic differentiation, no compression of
samples, and no trajectory.
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
    """Return the steps at which ⟨‖y − f‖²⟩ falls below each of `middles`, NaN if it does not.

    All layers must be linear or all must be ReLU, and kernels must not overlap.
    """
    x, y = _points(network, task)
    weights = [np.array(weight, float) for weight in network.weights]
    weights[1] = weights[1].reshape(*weights[1].shape[:2], -1)  # flatten units and positions
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
    """Return the largest difference of two tables of drops, ∞ if only one has a drop."""
    neither = np.isnan(steps) & np.isnan(others)
    apart = np.nan_to_num(np.abs(steps - others), nan=np.inf)
    return float(np.max(np.where(neither, 0.0, apart)))


def _points(network: DeepNetwork, task: AbstractTask) -> tuple[np.ndarray, np.ndarray]:
    """Return the samples, or for a population as many points as inputs with the same moments."""
    if isinstance(task, Task) and not task.population:
        return task.x, task.y
    statistics = task.statistics(network.unit)
    sigma_xx, sigma_yx = statistics.covariance, statistics.correlation
    x = np.sqrt(len(sigma_xx)) * np.linalg.cholesky(sigma_xx).T
    return x, x @ np.linalg.solve(sigma_xx, sigma_yx.reshape(len(sigma_yx), -1).T)


def loss_and_gradients(
    network: DeepNetwork, weights: list[np.ndarray], patches: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return losses and gradients of every seed.

    Layers compute a_l = σ(z_l) + Σ a_k over the skips (k, l), with z_l = W_l a_(l−1).
    """
    depth, relu = len(weights), network.unit.algebra.homogeneous == "positive"
    first = np.einsum("ptk,sik->spti", patches, weights[0])
    z, a = [patches, first.reshape(*first.shape[:2], -1)], [patches]  # layer numbers of the paper
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
