"""Where a network comes to rest with as few units as it uses."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._pytorch import is_module
from ..shrinking._descent import descend
from ..shrinking._layers import Weights
from ..shrinking._model import model_of
from ..shrinking._narrow import Narrowest

_STEPS = 500  # of the descent, at most


def settled(
    model: Any,
    x: Any,
    y: Any,
    loss: Callable[..., Any],
    tolerance: float,
    apply: Callable[..., Any] | None,
) -> tuple[float, dict[str, int]]:
    """The loss to which so few units descend from where they are, and how many they are."""
    network = model_of(model, x, apply)
    targets = network.targets(y)
    found = Narrowest(network).search(tolerance)
    frozen = dict(model.named_parameters()) if is_module(model) else {}
    free = {n: w for n, w in found.weights.items() if n not in frozen or frozen[n].requires_grad}

    def slope(moved: Weights) -> tuple[float, dict[str, np.ndarray]]:
        return network.slope({**found.weights, **moved}, slice(None), targets, loss)

    return slope(descend(slope, free, steps=_STEPS))[0], found.widths
