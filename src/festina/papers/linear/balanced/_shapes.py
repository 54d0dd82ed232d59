r"""Balanced two-layer networks of three shapes, shared by several experiments.

The loss is ½⟨‖y − W₂W₁x‖²⟩ with white inputs, τ Ẇ = −∂L/∂W, τ = 1 and W₂ᵀW₂ − W₁W₁ᵀ = λI. The
number of hidden units equals the number of neurons on the narrower side.
"""

from collections.abc import Sequence
from typing import Annotated

import jax
import numpy as np
from jaxtyping import Float
from pydantic import AfterValidator

from ....dynamics import gradient_flow
from ....experiments._keys import Key
from ....experiments._parameters import check_increasing
from ....networks import DeepLinear, lambda_balanced
from ....tasks import linear_teacher

SHAPES = ("square", "funnel", "inverted")

WIDEST = 1000.0
"""Largest |λ| that is trained; explicit integration needs steps of size 1/|λ|."""


def _learnable(s: tuple[float, ...]) -> tuple[float, ...]:
    if not s or min(s) <= 0 or max(s) > 20 * min(s):
        raise ValueError(
            f"must be positive and within a factor of 20, got {s}: the weakest mode would "
            "take too long to learn"
        )
    return s


Balances = Annotated[tuple[float, ...], check_increasing(-WIDEST, WIDEST, count=1)]
Modes = Annotated[tuple[float, ...], AfterValidator(_learnable)]
"""Singular values of a task."""


def check_sizes(narrow: int, wide: int) -> None:
    if wide <= narrow:
        raise ValueError(
            f"`wide` must be above {narrow}, the number of singular values and of hidden units, "
            f"got {wide}: the funnel would be square."
        )


def widths(shape: str, narrow: int, wide: int) -> tuple[int, int, int]:
    """Return layer sizes from input to output; a funnel has more inputs than outputs."""
    return wide if shape == "funnel" else narrow, narrow, wide if shape == "inverted" else narrow


def generators(count: int, seed: int, key: Key) -> list[np.random.Generator]:
    """Return a random generator for each seed, which does not depend on the number of seeds.

    NumPy generators avoid compiling a JAX program for every shape of weights.
    """
    if key is None:
        return [np.random.default_rng(seed + index) for index in range(count)]
    words = np.asarray(jax.random.key_data(jax.random.split(key, count)))
    return [np.random.default_rng(each.tolist()) for each in words]


def random_frame(size: int, columns: int, rng: np.random.Generator) -> np.ndarray:
    """Return a matrix with orthonormal columns in uniformly distributed directions."""
    frame, triangle = np.linalg.qr(rng.standard_normal((size, columns)))
    return frame * np.sign(np.diagonal(triangle))


def random_task(
    sizes: tuple[int, int, int], singular_values: Sequence[float], rng: np.random.Generator
) -> Float[np.ndarray, "output input"]:
    """Return Σ with these singular values and random singular vectors."""
    u, v = (random_frame(size, len(singular_values), rng) for size in (sizes[2], sizes[0]))
    return (u * np.asarray(singular_values)) @ v.T


def random_networks(
    sizes: tuple[int, int, int],
    balances: Sequence[float],
    scale: float,
    rng: np.random.Generator,
    *,
    correlation: Float[np.ndarray, "output input"] | None = None,
) -> DeepLinear:
    """Return a network for each λ, all with the same random map W₂W₁ of two Gaussian layers.

    If `correlation` is square, a network is mirrored if it could not learn `correlation` at λ = 0,
    because the determinant of its map has the other sign.
    """
    inputs, hidden, outputs = sizes
    one, other = rng.standard_normal((hidden, inputs)), rng.standard_normal((outputs, hidden))
    product = scale**2 * other @ one
    network = rotated(
        lambda_balanced(sizes, balance=np.asarray(balances, dtype=float), product=product),
        random_frame(hidden, hidden, rng),
    )
    if correlation is None or inputs != outputs:
        return network
    wrong = np.linalg.det(product) * np.linalg.det(correlation) < 0
    return mirrored(network) if wrong else network


def stacked(networks: Sequence[DeepLinear]) -> DeepLinear:
    """Return the networks of several seeds as one batch, `(balance, seed)`."""
    return jax.tree.map(lambda *w: np.stack(w, axis=1), *networks)


def fixed_networks(shape: str, balances: Sequence[float]) -> tuple[DeepLinear, np.ndarray]:
    """Return a fixed task and networks with two hidden units, one network for each λ."""
    sigma = np.array([[1.2, 0.4, 0.5], [-0.3, 0.8, -0.6]])
    inward, outward, sigma = {
        "square": (_turn(0.3).T, _turn(1.1), sigma[:, :2]),
        "funnel": (np.eye(2, 3), _turn(1.1), sigma),
        "inverted": (_turn(1.1).T, np.eye(3, 2), sigma.T),
    }[shape]
    small, lam = np.array([0.3, 0.2]), np.asarray(balances)[:, None]
    large = np.sqrt(small**2 + np.abs(lam))
    p, q = np.where(lam >= 0, small, large), np.where(lam >= 0, large, small)
    return DeepLinear((p[:, :, None] * inward, outward * q[:, None, :])), sigma


def _turn(angle: float) -> np.ndarray:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def rotated(network: DeepLinear, turn: Float[np.ndarray, "*batch hidden hidden"]) -> DeepLinear:
    """Return networks with rotated hidden units and the same map."""
    first, second = network.weights
    return DeepLinear((turn @ first, second @ turn.swapaxes(-1, -2)))


def mirrored(network: DeepLinear) -> DeepLinear:
    """Flip the sign of the first output: the balance stays, det W₂W₁ changes sign."""
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
    """Train the networks of a batch; return networks at these times, `(*batch, time)`."""
    task = linear_teacher(correlation)
    return gradient_flow(network, task, times, rtol=rtol, max_steps=10_000_000).network
