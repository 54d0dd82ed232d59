r"""Delayed rich learning: the loss drops at once, the features are learned long afterwards.

Loss ½⟨‖y − W₂W₁x‖²⟩, white inputs, τ Ẇ = −∂L/∂W with τ = 1 and W₂ᵀW₂ − W₁W₁ᵀ = λI. A funnel, with
more inputs than hidden units and outputs, whose first layer is the larger one: λ < 0. Its hidden
units see only a subspace of the inputs, with the projector P(0). Within 1/|λ| the second layer
learns what can be learned there, and the loss halts at ½‖Σ(1 − P)‖². The subspace turns as
P(t) = projector on e^{ΣᵀΣ t/|λ|} P(0), on the time scale |λ|/s².
"""

from typing import Any

import jax
import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray
from pydantic import Field, model_validator

from ....diagnose import kernel_distance, neural_tangent_kernel
from ....networks import DeepLinear
from ..._old import experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
from ._delayed_rich_claims import NAME as NAME
from ._delayed_rich_claims import claims as claims
from ._delayed_rich_draw import draw as draw
from ._shapes import check_balances, check_modes, flows, generators, random_networks, train

_SAMPLES = 161
_SLOW = np.geomspace(1e-4, 1e2, 601)
"""Times of the slow law, in units of |λ|/s² with the weakest s."""


class Parameters(BaseParameters):
    """Funnels whose first layer is larger than the second, by more and more."""

    seeds: int = Field(default=6, ge=1)
    """How many random networks are trained, for each balance."""

    balances: tuple[float, ...] = (5.0, 20.0, 80.0)
    """−λ: how much larger the first layer is, in increasing order."""

    singular_values: tuple[float, ...] = (1.4, 1.2, 1.0)
    """Singular values of the task; as many as there are hidden units and outputs."""

    inputs: int = Field(default=6, ge=2, le=32)
    """Number of inputs, more than there are singular values."""

    scale: float = Field(default=0.05, gt=0, le=0.3)
    """Two Gaussian layers of this standard deviation have the initial product."""

    @model_validator(mode="after")
    def _possible(self) -> "Parameters":
        check_balances(self.balances, least=2)
        check_modes(self.singular_values)
        if self.inputs <= len(self.singular_values):
            raise ValueError(
                f"`inputs` must be more than the {len(self.singular_values)} singular values, got "
                f"{self.inputs}: only a funnel is rich with a delay."
            )
        strongest, weakest = max(self.singular_values), min(self.singular_values)
        if self.balances[0] < strongest or self.balances[-2] < 10 * strongest:
            raise ValueError(
                f"`balances` must be positive, at least the largest singular value {strongest:g}, "
                f"and the two largest ten times that, got {self.balances}: there is no delay "
                "otherwise."
            )
        if self.balances[-1] < 2 * self.balances[-2]:
            raise ValueError(
                f"The largest of `balances` must be at least twice the one before, got "
                f"{self.balances[-2:]}: exponents are measured between them."
            )
        if self.balances[-1] > 150 * weakest:
            raise ValueError(
                f"`balances` beyond 150 times the smallest singular value {weakest:g} take too "
                f"long to train, got {self.balances[-1]:g}."
            )
        return self


PRESETS: dict[str, dict[str, Any]] = {}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Train at each balance from the same maps; loss and kernel by the exact solution as well."""
    s = np.asarray(parameters.singular_values)
    sizes = (parameters.inputs, len(s), len(s))
    correlation = np.eye(len(s), parameters.inputs) * s[:, None]
    lams = tuple(-balance for balance in parameters.balances)
    networks = [
        random_networks(sizes, lams, parameters.scale, rng)
        for rng in generators(parameters.seeds, parameters.seed, key)
    ]
    first, second = jax.tree.map(lambda *w: np.stack(w, axis=1), *networks).weights
    tables: list[xr.Dataset] = []
    for index, balance in enumerate(parameters.balances):
        say(f"λ = −{balance:g}", index / len(lams))
        network = DeepLinear((first[index], second[index]))
        tables.append(_one_balance(network, correlation, balance))
    directions = np.linalg.qr(first[-1].swapaxes(-1, -2))[0]
    start = np.linalg.norm(second[-1] @ first[-1], 2, axis=(-2, -1)).max()
    return run_tree(
        NAME,
        parameters,
        curves=xr.concat(tables, xr.Variable("balance", list(parameters.balances))),
        slow=_slow_law(directions, correlation).assign_attrs(unlearned=float(s.max() + start)),
    )


def _one_balance(network: DeepLinear, correlation: np.ndarray, balance: float) -> xr.Dataset:
    """Loss and kernel from the first moments to the end, on a logarithmic grid of times."""
    weakest = np.linalg.svd(correlation, compute_uv=False).min()
    end = 10 * balance / weakest**2
    times = np.concatenate([[0.0], np.geomspace(1e-2 / balance, end, _SAMPLES)])
    trained = train(network, correlation, times, rtol=1e-10)
    kernels = neural_tangent_kernel(trained, np.eye(correlation.shape[1]))
    states = [flow(times) for flow in flows(network, correlation, [-balance] * len(kernels))]
    error = correlation - np.asarray(trained.end_to_end())
    dims = ("seed", "sample")
    return xr.Dataset(
        {
            "time": ("sample", times, {"long_name": "time in units of τ"}),
            "loss": (dims, (error**2).sum((-2, -1)) / 2),
            "kernel_distance": (dims, np.asarray(kernel_distance(kernels[:, :1], kernels))),
            "loss_theory": (dims, np.stack([state.loss() for state in states])),
            "kernel_theory": (dims, np.stack([state.kernel_distance() for state in states])),
        }
    )


def _slow_law(directions: np.ndarray, correlation: np.ndarray) -> xr.Dataset:
    """Plateau and half-change time in the limit of large |λ|, in units of |λ|."""
    s = np.linalg.svd(correlation, compute_uv=False)
    times = _SLOW / s.min() ** 2
    rates, axes = np.linalg.eigh(correlation.T @ correlation)
    # Relative to the fastest direction, or the exponentials overflow.
    grown = np.exp((rates - rates.max()) * times[:, None])[:, :, None]
    turned = np.linalg.qr(axes @ (grown * (axes.T @ directions[:, None])))[0]
    overlap = ((directions[:, None].swapaxes(-1, -2) @ turned) ** 2).sum((-2, -1))
    distance = 1 - overlap / directions.shape[-1]
    start = directions @ directions.swapaxes(-1, -2)
    beyond = correlation @ (np.eye(len(rates)) - start)
    return xr.Dataset(
        {
            "kernel_distance": (("seed", "time"), distance),
            "plateau": ("seed", (beyond**2).sum((-2, -1)) / 2),
        },
        {"time": ("time", times, {"long_name": "time in units of |λ|τ"})},
    )
