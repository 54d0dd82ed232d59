r"""Training time against depth: small weights, greedy pretraining, orthogonal layers.

Loss ½⟨‖y − W_D ⋯ W_1 x‖²⟩ on white inputs, learning rate 1/D, that is τ Ẇ = −∂L/∂W with τ = D.
Chains of scalar weights are integrated weight by weight, whole networks by gradient flow.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float, PRNGKeyArray
from pydantic import Field, model_validator

from ....theory.linear import greedy_training_time, learning_time, training_time
from ..._frame import keys_of
from ..._old import experiment, run_tree
from ..._parameters import Parameters as BaseParameters
from ..._registry import Progress
from ._depth_claims import claims as claims
from ._depth_draw import draw as draw
from ._depth_networks import train_networks

NAME = "linear/depth"
_MODULES = (2, 4)
"""Layers of an autoencoder."""
_MODULE_FRACTION = 0.99
_ORTHOGONAL = (2, 4, 8, 16, 64, 256)
_ORTHOGONAL_FRACTION = 0.99
_LONGEST_WAIT = 1e8
_STRONGER = (1, 2, 4, 8)
"""Factors of the correlation at which the dependence on s is measured, at depth eight."""


class Parameters(BaseParameters):
    """Chains and whole networks from several kinds of initial weights."""

    seeds: int = Field(default=8, ge=1)
    """How many networks with random matrices are trained at each depth."""

    depths: tuple[int, ...] = (4, 6, 8, 10, 12)
    """Depths of the chains, in increasing order."""

    layer_strength: float = Field(default=0.5, ge=0.1, le=0.9)
    """Initial weight b₀ of each layer of a chain with small weights."""

    correlation: float = Field(default=1.0, gt=0)
    """Input-output correlation s of chains with small weights."""

    fraction: float = Field(default=0.9, gt=0, lt=1)
    """How much of its target such a chain is to learn."""

    module_strength: float = Field(default=0.1, gt=0, le=0.3)
    """Initial weight b₀ of pretrained layers; half and a quarter of it as well."""

    orthogonal_correlation: float = Field(default=2.0, ge=1.2, le=20)
    """Input-output correlation s of chains with orthogonal layers, b₀ = 1."""

    size: int = Field(default=6, ge=2, le=16)
    """Number of inputs, outputs and units of every hidden layer of a whole network."""

    network_depths: tuple[int, ...] = (2, 4, 8)
    """Depths of networks with orthogonal matrices."""

    gaussian_depths: tuple[int, ...] = (2, 3, 4)
    """Depths of networks with small Gaussian matrices."""

    gain: float = Field(default=0.7, gt=0, lt=1)
    """Standard deviation of those matrices, times the root of their size."""

    @model_validator(mode="after")
    def _possible(self) -> "Parameters":
        if self.layer_strength >= self.fraction * self.correlation:
            raise ValueError(
                f"`layer_strength` must lie below `fraction` times `correlation`, "
                f"{self.fraction * self.correlation:g}, got {self.layer_strength:g}."
            )
        for name in ("depths", "network_depths", "gaussian_depths"):
            depths, least = list(getattr(self, name)), 3 if name == "depths" else 2
            if len(depths) < 2 or depths != sorted(set(depths)) or depths[0] < least:
                raise ValueError(
                    f"`{name}` must be two or more increasing numbers from {least} up, got "
                    f"{tuple(depths)}."
                )
        wait = self.layer_strength ** (2 - self.depths[-1]) / self.correlation
        if wait > _LONGEST_WAIT:
            raise ValueError(
                f"`depths` reach {self.depths[-1]}, where weights of {self.layer_strength:g} take "
                f"a time of about {wait:.1g}: use fewer layers or a larger `layer_strength`."
            )
        return self


PRESETS: dict[str, dict[str, Any]] = {}


@experiment
def run(parameters: Parameters, key: PRNGKeyArray | None, say: Progress) -> xr.DataTree:
    """Times by integration beside times in closed form, for each kind of initial weights."""
    keys = keys_of(parameters, key)
    say("chains", 0.0)
    chains = {
        "small": _small(parameters),
        "pretrained": _pretrained(parameters),
        "modules": _modules(parameters),
        "orthogonal": _orthogonal(parameters),
    }
    numbers = parameters.seed + np.arange(parameters.seeds)
    networks, gaussian = train_networks(
        parameters.size,
        parameters.network_depths,
        parameters.gaussian_depths,
        parameters.gain,
        keys,
        say,
    )
    return run_tree(
        NAME,
        parameters,
        **chains,
        networks=networks.assign_coords(seed=numbers),
        gaussian=gaussian.assign_coords(seed=numbers),
    )


def _small(parameters: Parameters) -> xr.Dataset:
    """From b₀ < 1: the given depths, and those where the law for small weights has set in."""
    b0, s, fraction = parameters.layer_strength, parameters.correlation, parameters.fraction
    depths = list(parameters.depths)
    # The law neglects a constant beside 1/b₀^(D−2), here a thousandth.
    far = max(4, math.ceil(2 + math.log(1000 * max(1.0, 1 / s)) / math.log(1 / b0)))
    deep = [far, far + 2]
    measure = lambda depth, s: integrate(b0, depth, s, fraction)
    predict = lambda depths, s: training_time(depths, b0, correlation=s, fraction=fraction)
    stronger = [factor * s for factor in _STRONGER]
    return xr.Dataset(
        {
            "time": ("depth", [measure(depth, s) for depth in depths]),
            "theory": ("depth", predict(depths, s)),
            "far_time": ("far", [measure(depth, s) for depth in deep]),
            "far_time_stronger": ((), measure(far, _STRONGER[-1] * s)),
            "time_at_eight": ("correlation", [measure(8, each) for each in stronger]),
            "theory_at_eight": ("correlation", [predict([8], each)[0] for each in stronger]),
        },
        {"depth": depths, "far": deep, "correlation": stronger},
    )


def _pretrained(parameters: Parameters) -> xr.Dataset:
    """A module for each layer, then the stack of what they leave: time against depth."""
    b0, s, fraction = parameters.module_strength, parameters.correlation, parameters.fraction
    depths = list(parameters.depths)
    measured, theory = [], []
    for module in _MODULES:
        each = _module_time(b0, module)
        kept = _MODULE_FRACTION ** (1 / module)
        measured.append([d * each + integrate(kept, d, s, fraction) for d in depths])
        theory.append(
            greedy_training_time(
                depths,
                b0,
                module_depth=module,
                module_fraction=_MODULE_FRACTION,
                correlation=s,
                fraction=fraction,
            )
        )
    return xr.Dataset(
        {"time": (("module", "depth"), measured), "theory": (("module", "depth"), theory)},
        {"module": list(_MODULES), "depth": depths},
    )


def _modules(parameters: Parameters) -> xr.Dataset:
    """What one module costs, against its initial weights."""
    strengths = [parameters.module_strength / factor for factor in (1, 2, 4)]
    theory = [
        [
            float(learning_time(1.0, b0**module, depth=module, fraction=_MODULE_FRACTION))
            for b0 in strengths
        ]
        for module in _MODULES
    ]
    measured = [[_module_time(b0, module) for b0 in strengths] for module in _MODULES]
    return xr.Dataset(
        {"time": (("module", "strength"), measured), "theory": (("module", "strength"), theory)},
        {"module": list(_MODULES), "strength": strengths},
    )


def _module_time(b0: float, module: int) -> float:
    """An autoencoder learns the identity, at τ = 1."""
    return integrate(b0, module, 1.0, _MODULE_FRACTION) / module


def _orthogonal(parameters: Parameters) -> xr.Dataset:
    """From b₀ = 1, up to infinite depth."""
    s, fraction = parameters.orthogonal_correlation, _ORTHOGONAL_FRACTION
    depths = [*_ORTHOGONAL, math.inf]
    return xr.Dataset(
        {
            "time": ("depth", [integrate(1.0, depth, s, fraction) for depth in depths]),
            "theory": ("depth", training_time(depths, 1.0, correlation=s, fraction=fraction)),
        },
        {"depth": depths},
    )


def integrate(b0: float, depth: int | float, s: float, fraction: float) -> float:
    """Time until a chain is within `1 − fraction` of s, by integration of all its weights, τ = D.

    No chain is infinitely deep: there it is the equation of its product, ȧ = a²(s − a).
    """
    infinite = math.isinf(depth)
    start = np.array([1.0]) if infinite else np.full(int(depth), b0)
    product: Callable[[np.ndarray], float] = lambda b: float(np.prod(b))
    level = (fraction if product(start) <= s else 2 - fraction) * s
    if abs(product(start) - s) <= abs(level - s):
        return 0.0

    def slope(_: float, b: Float[np.ndarray, " layer"]) -> Float[np.ndarray, " layer"]:
        a = product(b)
        return a**2 * (s - b) if infinite else a / b * (s - a) / depth

    def learned(_: float, b: Float[np.ndarray, " layer"]) -> float:
        return product(b) - level

    from scipy.integrate import solve_ivp

    learned.terminal = True  # pyright: ignore[reportFunctionMemberAccess]
    course = solve_ivp(
        slope,
        (0.0, 1e9 / s),
        start,
        method="DOP853",
        events=learned,
        rtol=1e-10,
        atol=1e-13,
    )
    return float(course.t_events[0][0])
