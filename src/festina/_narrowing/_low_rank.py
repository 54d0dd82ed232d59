"""Low-rank linear layers in PyTorch: two linear layers without an activation between them.

The outputs $z = Wx + b$ of a layer are approximated within r directions. If a direction is dropped,
the outputs of the network change by $J\\,\\delta z$ to first order, where J is the Jacobian of the
outputs with respect to z. With $G = \\langle J^T J\\rangle$ and the covariance C of z, the best r
directions are the leading eigenvectors of $G^{1/2} C G^{1/2}$. Each eigenvalue is the mean squared
change of the outputs if its direction is dropped.
"""

import copy
import functools
from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import nn
from torch.nn.utils import skip_init

from ._layers import probes
from ._samples import Samples

if TYPE_CHECKING:
    from ._torch import TorchModel

_FLOOR = 1e-6  # smallest eigenvalue of G that counts, as a fraction of the largest


class Spectrum(NamedTuple):
    """Directions of the outputs of one linear layer, the most important first.

    - `energy`: mean squared change of the network's outputs if the direction is dropped.
    - `into`: weights that compute the coordinates, $U^T G^{1/2} W$; `back`: $U^T G^{1/2}$.
    - `out`: weights that compute z from the coordinates, $G^{-1/2} U$.
    - `mean`: mean of z, which the bias absorbs; None for a layer without bias.
    """

    energy: Float[np.ndarray, " direction"]
    into: Float[np.ndarray, "direction input"]
    back: Float[np.ndarray, "direction unit"]
    out: Float[np.ndarray, "unit direction"]
    mean: Float[np.ndarray, " unit"] | None

    def factors(self, rank: int, bias: np.ndarray | None) -> list[np.ndarray | None]:
        """Return the weights of both layers, and the bias of the second."""
        into, back, out = self.into[:rank], self.back[:rank], self.out[:, :rank]
        if bias is None or self.mean is None:
            return [into, out, None]
        return [into, out, self.mean + out @ (back @ (bias - self.mean))]

    @property
    def price(self) -> int:
        """Number of weights of one direction."""
        return self.into.shape[1] + len(self.out)


def spectra(network: "TorchModel", samples: Samples) -> dict[str, Spectrum]:
    """Return the directions of each linear layer that is called once and shares no weights."""
    layers = {name: each for name, each in network.linear.items() if min(each.weight.shape) > 1}
    moments = {name: _Moments(len(each.weight)) for name, each in layers.items()}
    for some in network.batches(samples) if layers else ():
        _add(network, some, layers, moments)
    found = {}
    for name in layers:
        weight, bias = (network.weights.get(f"{name}.{leaf}") for leaf in ("weight", "bias"))
        assert weight is not None
        spectrum = moments[name].spectrum(weight, centred=bias is not None)
        if spectrum is not None:
            found[name] = spectrum
    return found


class _Moments:
    """Sums of z, z zᵀ and JᵀJ over rows; a sample has several rows if a layer reads sequences."""

    def __init__(self, units: int):
        self.samples, self.rows, self.total = 0, 0, np.zeros(units)
        self.square, self.slopes = np.zeros((2, units, units))

    def spectrum(self, weight: np.ndarray, *, centred: bool) -> Spectrum | None:
        mean = self.total / self.rows
        covariance = self.square / self.rows - centred * np.outer(mean, mean)
        size, vectors = np.linalg.eigh(self.slopes / self.samples)
        if not size[-1] > 0:  # the outputs do not depend on this layer
            return None
        root = np.sqrt(np.maximum(size, _FLOOR * size[-1]))
        half, inverse = (vectors * root) @ vectors.T, (vectors / root) @ vectors.T
        energy, u = np.linalg.eigh(half @ covariance @ half)
        energy, u = np.maximum(energy[::-1], 0.0), u[:, ::-1]
        back = u.T @ half
        return Spectrum(energy, back @ weight, back, inverse @ u, mean if centred else None)


def _add(
    network: "TorchModel",
    samples: Samples,
    layers: Mapping[str, nn.Module],
    moments: Mapping[str, _Moments],
) -> None:
    seen: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}

    def after(name: str, _: object, __: object, z: torch.Tensor) -> torch.Tensor:
        nothing = torch.zeros_like(z, requires_grad=True)
        seen[name] = z, nothing
        return z + nothing

    with ExitStack() as hooks, torch.enable_grad():
        for name, layer in layers.items():
            hooks.enter_context(layer.register_forward_hook(functools.partial(after, name)))
        y = network.run(network.weights, samples).reshape(len(samples), -1)
    rows = lambda tensor: tensor.detach().reshape(-1, tensor.shape[-1]).cpu().double().numpy()
    for name, (each, _) in seen.items():
        z, held = rows(each), moments[name]
        held.rows, held.total = held.rows + len(z), held.total + z.sum(0)
        held.square += z.T @ z
        held.samples += len(samples)
    zeros = [nothing for _, nothing in seen.values()]
    for probe in probes(y.shape[1]):
        along = (y @ torch.as_tensor(probe, dtype=y.dtype, device=y.device)).sum()
        slopes = torch.autograd.grad(along, zeros, retain_graph=True, allow_unused=True)
        for name, slope in zip(seen, slopes, strict=True):
            if slope is not None:
                moments[name].slopes += rows(slope).T @ rows(slope)


def rank_choices(found: Mapping[str, Spectrum]) -> list[dict[str, int]]:
    """Return ranks of all layers, from the largest network to the smallest.

    Directions are dropped in the order of energy per weight. A layer is included as soon as its two
    factors have fewer weights than the layer.
    """
    cuts = sorted({0.0, *(float(e) / each.price for each in found.values() for e in each.energy)})
    choices: list[dict[str, int]] = []
    for cut in cuts:
        ranks = {}
        for name, each in found.items():
            rank = max(1, int(np.sum(each.energy > cut * each.price)))
            if rank * each.price < each.into.shape[1] * len(each.out):
                ranks[name] = rank
        if ranks and ranks not in choices[-1:]:
            choices.append(ranks)
    return choices


def factorised(
    network: "TorchModel", found: Mapping[str, Spectrum], ranks: Mapping[str, int]
) -> "TorchModel":
    """Return a network whose layers in `ranks` are two linear layers of that rank."""
    other = copy.copy(network)
    other.hidden, other.ranks, other.wide = (), dict(ranks), network
    other.weights, trained = dict(network.weights), set(network.trained)
    for name, rank in ranks.items():
        bias = other.weights.pop(f"{name}.bias", None)
        del other.weights[f"{name}.weight"]
        made = zip(("0.weight", "1.weight", "1.bias"), found[name].factors(rank, bias), strict=True)
        other.weights |= {f"{name}.{leaf}": each for leaf, each in made if each is not None}
        leaves = {f"{name}.weight": ("0.weight", "1.weight"), f"{name}.bias": ("1.bias",)}
        for was, now in leaves.items():
            if was in trained:
                trained.remove(was)
                trained |= {f"{name}.{leaf}" for leaf in now}
    other.trained = frozenset(trained)
    other.place(*(_swapped(each, ranks) for each in (network.original, network.module)))
    return other


def _swapped(model: nn.Module, ranks: Mapping[str, int]) -> nn.Module:
    model = copy.deepcopy(model)
    for name, rank in ranks.items():
        layer = model.get_submodule(name)
        assert isinstance(layer, nn.Linear)
        kind = {"device": layer.weight.device, "dtype": layer.weight.dtype}
        biased = layer.bias is not None
        # `skip_init` draws no initial weights, which would change the user's random state.
        first = skip_init(nn.Linear, layer.in_features, rank, bias=False, **kind)
        second = skip_init(nn.Linear, rank, layer.out_features, bias=biased, **kind)
        for each in (first.weight, second.weight):
            each.requires_grad_(layer.weight.requires_grad)
        if biased:
            second.bias.requires_grad_(layer.bias.requires_grad)
        path, _, leaf = name.rpartition(".")
        pair = nn.Sequential(first, second).train(layer.training)
        model.get_submodule(path)._modules[leaf] = pair
    return model
