r"""Balanced two-layer networks of three shapes, which several experiments train.

Conventions: loss ½⟨‖y − W₂W₁x‖²⟩ with white inputs, τ Ẇ = −∂L/∂W, W₂ᵀW₂ − W₁W₁ᵀ = λI,
Q = (W₁ᵀ; W₂). There are as many hidden units as neurons on the smaller side.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from ....dynamics import gradient_flow
from ....networks import DeepLinear, balanced
from ....tasks import linear_teacher
from ....theory.linear import BalancedFlow, balanced_flow

Shape: TypeAlias = Literal["square", "funnel", "inverted"]
SHAPES: tuple[Shape, ...] = ("square", "funnel", "inverted")
COLOURS: dict[str, str] = {"square": "C0", "funnel": "C1", "inverted": "C2"}

WIDEST = 1000.0
"""Largest |λ| that is trained: an explicit method takes steps of 1/|λ|."""


def widths(shape: Shape, narrow: int, wide: int) -> tuple[int, int, int]:
    """Layer sizes from input to output; a funnel has more inputs than outputs."""
    inputs, outputs = {
        "square": (narrow, narrow),
        "funnel": (wide, narrow),
        "inverted": (narrow, wide),
    }[shape]
    return inputs, narrow, outputs


def generators(count: int, seed: int, key: PRNGKeyArray | None) -> list[np.random.Generator]:
    """Randomness of each seed: seed 3 is the same network however many are trained with it.

    NumPy's, because JAX would compile a program for every shape of weights.
    """
    if key is None:
        return [np.random.default_rng(seed + index) for index in range(count)]
    words = np.asarray(jax.random.key_data(jax.random.split(key, count)))
    return [np.random.default_rng(each.tolist()) for each in words]


def random_frame(size: int, columns: int, rng: np.random.Generator) -> np.ndarray:
    """Orthonormal columns in uniformly distributed directions."""
    frame, triangle = np.linalg.qr(rng.standard_normal((size, columns)))
    return frame * np.sign(np.diagonal(triangle))


def random_task(
    sizes: tuple[int, int, int], singular_values: Sequence[float], rng: np.random.Generator
) -> Float[np.ndarray, "output input"]:
    """Σ with these singular values and random singular vectors."""
    s = np.asarray(singular_values, dtype=float)
    u, v = (random_frame(size, len(s), rng) for size in (sizes[2], sizes[0]))
    return (u * s) @ v.T


def random_networks(
    sizes: tuple[int, int, int],
    balances: Sequence[float],
    scale: float,
    rng: np.random.Generator,
    *,
    correlation: Float[np.ndarray, "output input"] | None = None,
) -> DeepLinear:
    """A network for each λ, all with the same random map W₂W₁, of two Gaussian layers.

    With a square `correlation`, a network that could not learn it at λ = 0, because the
    determinant of its map has the other sign, is mirrored.
    """
    inputs, hidden, outputs = sizes
    one, other = rng.standard_normal((hidden, inputs)), rng.standard_normal((outputs, hidden))
    product = scale**2 * other @ one
    network = rotated(
        balanced(sizes, balance=np.asarray(balances, dtype=float), product=product),
        random_frame(hidden, hidden, rng),
    )
    if correlation is None or inputs != outputs:
        return network
    wrong = np.linalg.det(product) * np.linalg.det(correlation) < 0
    return mirrored(network) if wrong else network


def rotated(network: DeepLinear, turn: Float[np.ndarray, "hidden hidden"]) -> DeepLinear:
    """The same map with its hidden units rotated."""
    first, second = network.weights
    return DeepLinear((turn @ first, second @ turn.T))


def mirrored(network: DeepLinear) -> DeepLinear:
    """The first output with the other sign: as balanced as before, det W₂W₁ reversed."""
    first, second = (np.asarray(weight) for weight in network.weights)
    flip = np.ones((second.shape[-2], 1))
    flip[0] = -1
    return DeepLinear((first, flip * second))


def train(
    network: DeepLinear,
    correlation: Float[np.ndarray, "output input"],
    times: Float[np.ndarray, " time"],
    *,
    rtol: float = 1e-11,
) -> DeepLinear:
    """The networks of a batch at these times, `(*batch, time)`."""
    task = linear_teacher(correlation)
    return gradient_flow(network, task, times, rtol=rtol, max_steps=10_000_000).network


def stacked(network: DeepLinear) -> Float[np.ndarray, "*batch both both"]:
    """QQᵀ of every network of a batch."""
    first, second = (np.asarray(weight) for weight in network.weights)
    q = np.concatenate([first.swapaxes(-1, -2), second], axis=-2)
    return q @ q.swapaxes(-1, -2)


def flows(
    network: DeepLinear,
    correlation: Float[np.ndarray, "output input"],
    balances: Sequence[float],
) -> list[BalancedFlow]:
    """The exact solution for each network of a batch."""
    pairs = zip(*(np.asarray(weight) for weight in network.weights), strict=True)
    return [
        balanced_flow(first, second, correlation, balance=float(balance))
        for (first, second), balance in zip(pairs, balances, strict=True)
    ]


def check_balances(balances: Sequence[float], least: int) -> None:
    """Raises unless they increase and can be trained."""
    if len(balances) < least or list(balances) != sorted(set(balances)):
        raise ValueError(
            f"`balances` must be at least {least} increasing numbers, got {tuple(balances)}."
        )
    if max(map(abs, balances)) > WIDEST:
        raise ValueError(
            f"`balances` beyond ±{WIDEST:g} take too many steps to train, got {tuple(balances)}."
        )


def check_modes(singular_values: Sequence[float]) -> None:
    s = tuple(singular_values)
    if not s or min(s) <= 0 or max(s) > 20 * min(s):
        raise ValueError(
            f"`singular_values` must be positive and within a factor of 20, got {s}: the weakest "
            "would take too long to learn."
        )


def check_sizes(narrow: int, wide: int) -> None:
    if wide <= narrow:
        raise ValueError(
            f"`wide` must be above {narrow}, the number of singular values and of hidden units, "
            f"got {wide}: the funnel would be square."
        )
