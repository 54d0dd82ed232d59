"""Whole networks of several depths: the time until the loss is down to two percent."""

from collections.abc import Sequence

import numpy as np
import xarray as xr
from jaxtyping import Float

from ....diagnose import passage_time
from ....dynamics import Trajectory, gradient_flow
from ....networks import DeepLinear, deep_linear, orthogonal
from ....networks._seeds import Keys
from ....tasks import linear_teacher
from ....theory.linear import mode_loss, mode_strengths, modes
from ..._registry import Progress

LEVEL = 0.02
"""Loss, of ½‖Σ‖², at which a network has learned."""
_LONGEST = 2e4
"""Time τ = D after which training is given up; the network counts as learning later than that."""


def _target(size: int) -> Float[np.ndarray, "size size"]:
    """Singular values from 3 to 1.5, along the axes."""
    return np.diag(np.linspace(3.0, 1.5, size))


def train_networks(
    size: int,
    orthogonal_depths: Sequence[int],
    gaussian_depths: Sequence[int],
    gain: float,
    keys: Keys,
    say: Progress,
) -> tuple[xr.Dataset, xr.Dataset]:
    """All kinds of matrices; those of one depth are trained together.

    Orthogonal layers with a product that is aligned with the task, orthogonal layers with a random
    product that is the same at every depth, and matrices of independent entries of variance g²/N.
    """
    target = _target(size)
    deepest = max(orthogonal_depths)
    rotations = [np.asarray(w) for w in orthogonal((size,) * (deepest + 1), key=keys).weights]
    widths = (size,) * (max(gaussian_depths) + 1)
    matrices = deep_linear(widths, scale=gain / size**0.5, key=keys).weights
    product = _proper(rotations[-1])
    times: dict[str, dict[int, np.ndarray]] = {"aligned": {}, "rotated": {}, "gaussian": {}}
    depths = sorted({*orthogonal_depths, *gaussian_depths})
    for index, depth in enumerate(depths):
        say(f"networks of depth {depth}", 0.1 + 0.9 * index / len(depths))
        batch = {}
        if depth in orthogonal_depths:
            inner = rotations[: depth - 1]
            batch["aligned"] = _with_product([w[:1] for w in inner], np.eye(size)[None])
            batch["rotated"] = _with_product(inner, product)
        if depth in gaussian_depths:
            batch["gaussian"] = [np.asarray(w) for w in matrices[:depth]]
        layers = zip(*batch.values(), strict=True)
        network = DeepLinear(tuple(np.concatenate(layer) for layer in layers))
        found = depth * _times(network, depth, target)
        ends = np.cumsum([len(weights[0]) for weights in batch.values()])
        for name, part in zip(batch, np.split(found, ends[:-1]), strict=True):
            times[name][depth] = part
    aligned = [float(times["aligned"][depth][0]) for depth in orthogonal_depths]
    theory = [
        _aligned_time(target, depth, guess)
        for depth, guess in zip(orthogonal_depths, aligned, strict=True)
    ]
    rotated = [times["rotated"][depth] for depth in orthogonal_depths]
    gaussian = [times["gaussian"][depth] for depth in gaussian_depths]
    return xr.Dataset(
        {
            "aligned": ("depth", aligned),
            "aligned_theory": ("depth", theory),
            "rotated": (("depth", "seed"), rotated),
        },
        {"depth": list(orthogonal_depths)},
    ), xr.Dataset({"time": (("depth", "seed"), gaussian)}, {"depth": list(gaussian_depths)})


def _with_product(
    inner: Sequence[Float[np.ndarray, "seed size size"]],
    product: Float[np.ndarray, "seed size size"],
) -> list[Float[np.ndarray, "seed size size"]]:
    """Given orthogonal layers, and a last one that makes their product what it shall be."""
    last = product
    for weight in inner:
        last = last @ weight.swapaxes(-1, -2)
    # P = W_D ⋯ W_1, so that W_D = P W_1ᵀ ⋯ W_{D−1}ᵀ.
    return [*inner, last]


def _proper(turns: Float[np.ndarray, "seed size size"]) -> Float[np.ndarray, "seed size size"]:
    """Rotations: a reflection could not be undone, because the determinant keeps its sign."""
    turns = turns.copy()
    turns[..., 0] *= np.sign(np.linalg.det(turns))[:, None]
    return turns


def _times(network: DeepLinear, depth: int, target: np.ndarray) -> Float[np.ndarray, " seed"]:
    """Time of the flow with τ = 1 until the loss is down to its level."""
    trained = gradient_flow(
        network,
        linear_teacher(target),
        t_end=_LONGEST / depth,
        rtol=1e-7,
        converged=LEVEL / 10,
        max_steps=200_000,
    )
    level = LEVEL * np.sum(target**2) / 2
    return np.array([_reached(trained.lane(k), level) for k in range(len(trained.saves))])


def _reached(lane: Trajectory[DeepLinear], level: float) -> float:
    """When the logarithm of the loss passes the level, with its slope from L̇ = −|∂L/∂θ|²."""
    slope = lane.slope / lane.loss
    when = passage_time(lane.time, np.log(lane.loss), np.log(level), slope=slope)
    return float("inf") if np.isnan(when) else when


def _aligned_time(target: np.ndarray, depth: int, guess: float) -> float:
    """In closed form: every mode is a chain that starts at one. The guess is only for the grid."""
    data = modes(target)
    times = np.linspace(0.0, 1.5 * guess, 2001)
    loss = mode_loss(mode_strengths(times, data, 1.0, depth=depth, tau=depth), data)
    level = LEVEL * np.sum(target**2) / 2
    return float(np.interp(-np.log(level), -np.log(np.asarray(loss)), times))
