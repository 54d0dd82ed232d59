"""Find cheap coordinates for tuning a PyTorch network to the outputs of a wider one.

If a layer reads the same inputs at every step of tuning, only the directions of its inputs that
affect the outputs of the wide network matter: the leading directions of its spectrum
(`_low_rank.py`). The inputs are projected onto these directions once. An image of 784 pixels
becomes about 64 numbers; a gradient then costs a tenth, and fewer weights overfit less.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from ._layers import Sloped, Tuning, Weights
from ._samples import Samples, mapped
from ._torch_layers import before_calls

if TYPE_CHECKING:
    from ._torch import TorchModel

_LEFT_OUT = 0.04  # change of the outputs by omitted directions, as a fraction of the error
_WORTH = 0.5  # with more directions, as a fraction of the inputs, projection does not pay
_SINGLE = 1e-3  # smallest relative error of the outputs for which single precision suffices


class Projection(NamedTuple):
    """Directions of the inputs of a layer, and the inputs projected onto them.

    `back` holds the least-squares coefficients of the inputs as functions of the projected inputs.
    """

    directions: Float[np.ndarray, "direction input"]
    back: Float[np.ndarray, "input direction"]
    inputs: torch.Tensor


def tuning(network: "TorchModel", samples: Samples, error: float) -> Tuning:
    """Return coordinates for tuning, accurate enough for outputs with this `error`."""
    size = float(np.sqrt(np.mean(np.sum(np.square(samples.y), axis=1))))
    single = error > _SINGLE * size
    real = torch.float32 if single else network.real
    few = lambda tensor: tensor.to(real) if tensor.is_floating_point() else tensor
    quick = replace(samples, x=mapped(samples.x, few))
    found = {
        f"{name}.0" if name in network.ranks else name: projection
        for name, projection in _projections(network, samples, error, real).items()
    }

    def changed(weights: Weights, how: str) -> Weights:
        moved = {
            f"{name}.weight": weights[f"{name}.weight"] @ getattr(each, how)
            for name, each in found.items()
        }
        return {**weights, **moved}

    def slope(weights: Weights) -> Sloped:
        calls = ((network.modules[name], lambda *_, x=p.inputs: x) for name, p in found.items())
        with before_calls(calls):
            return network.slope(weights, quick)

    inward = lambda weights: changed(weights, "back")
    return Tuning(slope, inward, lambda weights: changed(weights, "directions"))


def _projections(
    network: "TorchModel", samples: Samples, error: float, real: torch.dtype
) -> dict[str, Projection]:
    found, wide = {}, network.wide
    spectra = wide.spectra(samples)
    for name in wide.steady & spectra.keys():
        energy, into = spectra[name].energy, spectra[name].into
        left = np.sqrt(
            np.cumsum(energy[::-1])[::-1]
        )  # the change by omitting all directions from k on
        enough = 1 << max(0, int(np.sum(left > _LEFT_OUT * error)) - 1).bit_length()
        count = min(enough, int(np.sum(energy > 1e-14 * energy[0])))
        leaf = "0.weight" if name in network.ranks else "weight"
        if count < _WORTH * into.shape[1] and f"{name}.{leaf}" in network.trained:
            key = name, count
            if key not in wide.projections:
                rows = into[:count] / np.sqrt(energy[:count])[:, None]
                wide.projections[key] = _projected(wide.inputs(wide.weights, samples)[name], rows)
            known = wide.projections[key]
            found[name] = known._replace(inputs=known.inputs.to(real))
    return found


def _projected(inputs: torch.Tensor, rows: np.ndarray) -> Projection:
    x = inputs.cpu().double().numpy()
    near = x @ rows.T
    flat, few = x.reshape(-1, x.shape[-1]), near.reshape(-1, len(rows))
    back = np.linalg.lstsq(few.T @ few, few.T @ flat, rcond=1e-12)[0].T
    return Projection(rows, back, torch.as_tensor(near, dtype=inputs.dtype, device=inputs.device))
