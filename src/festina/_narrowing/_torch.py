"""Models in PyTorch: observed with hooks, and run with weights of any width."""

import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import nn
from torch.func import functional_call

from ._heads import Heads
from ._layers import AbstractModel, Hidden, Loss, Pull, Reads, Sloped, Tuning, Weights
from ._low_rank import Spectrum, factorised, rank_choices, spectra
from ._samples import Data, Samples, called, leaves, mapped, torch_samples
from ._torch_layers import before_calls, candidates, found_in_sums, order
from ._tuning import Projection, tuning

_BATCH = 1024  # inputs evaluated at once
_NOT_MERGED = (
    nn.modules.conv._ConvNd, nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention, nn.Bilinear
)  # fmt: skip


class TorchModel(AbstractModel):
    """A copy of a module in evaluation mode and double precision; the module is not changed.

    - `modules`: modules by name.
    - `flat`: axis of units, and sizes of the other axes, of arrays that are kept flat.
    - `wide`: for a network of low rank, the network from which it was made; otherwise itself.
    """

    takes_low_rank = True

    def __init__(self, model: nn.Module, x: Data, y: Data = None):
        tensors = [*model.parameters(), *model.buffers()]
        self._device = tensors[0].device if tensors else torch.device("cpu")
        self._own = next((each.dtype for each in tensors if each.is_floating_point()), None)
        self.real = torch.float32 if self._device.type == "mps" else torch.float64
        self.module = copy.deepcopy(model).eval()
        Heads.replace(self.module)
        self.module.to(self.real)
        self.samples = torch_samples(x, y, device=self._device, real=self.real)
        self.trained = frozenset(
            name for name, each in self.module.named_parameters() if each.requires_grad
        )
        self.module.requires_grad_(False)
        state = (*self.module.named_parameters(), *self.module.named_buffers())
        self.weights = {name: _array(each) for name, each in state if each.is_floating_point()}
        self.place(model, self.module)
        self.wide: TorchModel = self
        self._spectra: tuple[Samples, dict[str, Spectrum]] | None = None
        self.projections: dict[tuple[str, int], Projection] = {}
        self.flat: dict[str, tuple[int, tuple[int, ...]]] = {}
        self.notes = (*self.samples.notes, *_notes(model))

    def place(self, original: nn.Module, module: nn.Module) -> None:
        """Set the user's module and the module that is run."""
        self.original, self.module = original, module
        self.modules = dict(module.named_modules())

    def candidates(self) -> Iterator[Iterator[Hidden]]:
        return candidates(self)

    def layers(self) -> Iterator[Hidden]:
        yield from tuple(super().layers()) or found_in_sums(self)

    def left_alone(self) -> Iterator[str]:
        makers = {part.name for layer in self.hidden for part in layer.makers}
        readers = {layer.reader.name for layer in self.hidden}
        kept = []
        for name, module in self.modules.items():
            own = {
                f"{name}.{leaf}".removeprefix(".")
                for leaf, _ in module.named_parameters(recurse=False)
            }
            if isinstance(module, _NOT_MERGED) and own and not own & (makers | readers):
                kind = nn.MultiheadAttention if isinstance(module, Heads) else type(module)
                kept.append(f"{kind.__name__} '{name}'")
        if kept:
            yield (
                f"not merged: {', '.join(kept)}; only units of linear layers, channels of 1-d "
                "convolutions and heads of attention are merged"
            )

    # Outputs, activations and slopes.

    def batches(self, samples: Samples) -> list[Samples]:
        starts = range(0, len(samples), _BATCH)
        return [samples.part(slice(start, start + _BATCH)) for start in starts]

    def outputs(self, weights: Weights, samples: Samples) -> Float[np.ndarray, "sample number"]:
        with torch.no_grad():
            y = [self._seen(weights, some, ())[0] for some in self.batches(samples)]
        return np.concatenate([_plain(each) for each in y])

    def reads(self, weights: Weights, samples: Samples, layers: tuple[Hidden, ...]) -> Reads:
        if layers[0].summed:
            return {layer.name: self._factors(weights, samples, layer) for layer in layers}
        with torch.no_grad():
            reads = [self._seen(weights, some, layers)[1] for some in self.batches(samples)]
        return {h.name: np.concatenate([each[h.name] for each in reads]) for h in layers}

    def pull(self, samples: Samples) -> Pull:
        if self.hidden[0].summed:  # outputs are products: their slopes are the weights
            along = {layer.name: self.weights[layer.reader.name] for layer in self.hidden}
            return Pull(self.reads(self.weights, samples, self.hidden), 1, lambda _: along)
        with torch.enable_grad():
            y, reads, nothing = self._seen(self.weights, samples, self.hidden)

        def slopes(probe: np.ndarray) -> Reads:
            along = y @ torch.as_tensor(probe, dtype=y.dtype, device=y.device)
            found = torch.autograd.grad(along.sum(), list(nothing.values()), retain_graph=True)
            return dict(zip(nothing, map(_plain, found), strict=True))

        return Pull(reads, y.shape[1], slopes)

    def slope(self, weights: Weights, samples: Samples, loss: Loss | None = None) -> Sloped:
        given = (each for each in leaves(samples.x) if each.is_floating_point())
        tensors = self._tensors(weights, next((each.dtype for each in given), None))
        moved = {name: tensors[name].requires_grad_() for name in self.trained}
        with torch.enable_grad():
            y = self._run(tensors, samples.x)
            value = _squared(y, samples.y) if loss is None else self._valued(loss, y, samples.y)
            slopes = torch.autograd.grad(value, list(moved.values()), allow_unused=True)
        found = zip(moved, slopes, strict=True)
        return float(value.detach()), {name: _array(s) for name, s in found if s is not None}

    def tuning(self, samples: Samples, *, error: float) -> Tuning:
        return tuning(self, samples, error)

    def low_ranks(self, samples: Samples) -> Sequence[Callable[[], AbstractModel]]:
        found = self.spectra(samples)
        choices = rank_choices(found)
        made = [functools.partial(factorised, self, found, ranks) for ranks in choices]
        try:
            for first in made[:1]:
                other = first()
                other.computed(other.original, samples.part(slice(2)))
        except (AttributeError, TypeError, RuntimeError):  # it uses the weights of a layer directly
            self.notes = (*self.notes, "the model takes no layers of low rank")
            return ()
        return made

    def spectra(self, samples: Samples) -> dict[str, Spectrum]:
        if self._spectra is None or self._spectra[0] is not samples:
            self._spectra = samples, spectra(self, samples)
        return self._spectra[1]

    @functools.cached_property
    def linear(self) -> dict[str, nn.Linear]:
        """Return linear layers that are called once and share their weights with no other."""
        held = [id(each) for _, each in self.module.named_parameters(remove_duplicate=False)]
        return {
            name: module
            for name, module in order(self)
            if type(module) is nn.Linear and name and held.count(id(module.weight)) == 1
        }

    @functools.cached_property
    def steady(self) -> frozenset[str]:
        """Return linear layers whose inputs depend on no weights."""
        some, random = self.samples.part(slice(8)), np.random.default_rng(0)
        moved = {
            name: each * (1.0 + 0.1 * random.random(each.shape)) + 1e-3
            for name, each in self.weights.items()
        }
        before, after = (self.inputs(weights, some) for weights in (self.weights, moved))
        return frozenset(name for name in before if torch.equal(before[name], after[name]))

    def inputs(self, weights: Weights, samples: Samples) -> dict[str, torch.Tensor]:
        """Return the inputs of each of the `linear` layers."""
        found: dict[str, torch.Tensor] = {}
        keep = lambda _, given, name: found.__setitem__(name, given[0].detach().clone())
        calls = ((each, functools.partial(keep, name=name)) for name, each in self.linear.items())
        with torch.no_grad(), before_calls(calls):
            self.run(weights, samples)
        return found

    def built(self, weights: Weights) -> nn.Module:
        """Return a copy of the given module with narrower layers; tied weights stay tied."""
        model = copy.deepcopy(self.original)
        made: dict[torch.Tensor | None, torch.Tensor | None] = {}
        for path, module in model.named_modules():
            for held in (module._parameters, module._buffers):
                for leaf, was in held.items():
                    name = f"{path}.{leaf}".removeprefix(".")
                    if was is not None and name in weights:
                        made[was] = self._remade(name, weights[name], was)
                    held[leaf] = made.get(was, was)
            _sized(module)
        for layer in self.hidden:
            if layer.counted and (width := self._width(layer, weights)) != layer.units:
                Heads.replace(model, only=layer.name)
                setattr(model.get_submodule(layer.counted[0]), layer.counted[1], width)
        return model

    def computed(self, model: nn.Module, samples: Samples) -> Float[np.ndarray, "sample number"]:
        with torch.no_grad():
            y = _first(called(copy.deepcopy(model).eval(), mapped(samples.x, self._as_given)))
        return _plain(y.reshape(len(samples), -1))

    def _as_given(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor in the precision of the user's module."""
        return tensor.to(self._own) if tensor.is_floating_point() else tensor

    def _remade(self, name: str, array: np.ndarray, was: torch.Tensor) -> torch.Tensor:
        value = torch.as_tensor(array, dtype=was.dtype, device=was.device)
        value = self._shaped(name, value).contiguous()
        if isinstance(was, nn.Parameter):
            return nn.Parameter(value, requires_grad=was.requires_grad)
        return value

    # Evaluation.

    def run(self, weights: Weights, samples: Samples) -> torch.Tensor:
        return self._run(self._tensors(weights), samples.x)

    def _tensors(
        self, weights: Weights, real: torch.dtype | None = None
    ) -> dict[str, torch.Tensor]:
        return {
            name: torch.as_tensor(each, dtype=real or self.real, device=self._device)
            for name, each in weights.items()
        }

    def _run(self, tensors: dict[str, torch.Tensor], x: Data) -> torch.Tensor:
        shaped = {name: self._shaped(name, each) for name, each in tensors.items()}
        for layer in self.hidden:
            if layer.counted:  # set the number of heads of attention
                path, name = layer.counted
                setattr(self.modules[path], name, self._width(layer, tensors))
        return _first(called(lambda *a, **k: functional_call(self.module, shaped, a, k), x))

    def _width(self, layer: Hidden, weights: Mapping[str, np.ndarray | torch.Tensor]) -> int:
        return weights[layer.reader.name].shape[layer.reader.axis] // layer.block

    def _shaped(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Return a flat array in the shape of the module's parameter."""
        if name not in self.flat:
            return tensor
        axis, rest = self.flat[name]
        return tensor.reshape(-1, *rest).movedim(0, axis)

    def _valued(self, loss: Loss, y: torch.Tensor, target: Data) -> torch.Tensor:
        """Return the loss, if necessary in the precision of its tensors, such as class weights."""
        try:
            return loss(y, target)
        except RuntimeError:
            return loss(self._as_given(y), mapped(target, self._as_given))

    # Inputs of readers.

    def _seen(
        self, weights: Weights, samples: Samples, layers: tuple[Hidden, ...]
    ) -> tuple[torch.Tensor, Reads, dict[str, torch.Tensor]]:
        """Return outputs, inputs of readers, and zeros added to these inputs.

        Gradients with respect to the zeros are gradients with respect to the inputs of readers.
        """
        reads: Reads = {}
        nothing: dict[str, torch.Tensor] = {}

        def before(module: nn.Module, inputs: tuple[torch.Tensor, ...], name: str) -> torch.Tensor:
            turn = (lambda a: a.movedim(-2, -1)) if isinstance(module, nn.Conv1d) else (lambda a: a)
            read = turn(inputs[0])
            reads[name], nothing[name] = _plain(read), torch.zeros_like(read, requires_grad=True)
            return turn(read + nothing[name])

        reader = lambda layer: self.modules[layer.reader.name.rpartition(".")[0]]
        with before_calls((reader(h), functools.partial(before, name=h.name)) for h in layers):
            y = self.run(weights, samples)
        return y.reshape(len(samples), -1), reads, nothing

    def _factors(self, weights: Weights, samples: Samples, layer: Hidden) -> np.ndarray:
        """Return the factors of a flat array in the outputs, which are linear in the array."""
        name, size = layer.reader.name, weights[layer.reader.name].size
        at = lambda flat: self.outputs({**weights, name: flat}, samples).ravel()
        none = at(np.zeros(size))
        return np.column_stack([at(each) - none for each in np.eye(size)])


def _first(found: object) -> torch.Tensor:
    """Return the outputs, the first of several if a model returns more."""
    if isinstance(found, dict):
        found = found.get("logits", next(iter(found.values()), None))
    for name in ("logits", "last_hidden_state"):
        found = getattr(found, name, found)
    found = found[0] if isinstance(found, tuple | list) else found
    if not isinstance(found, torch.Tensor):
        raise ValueError(
            f"`model` must return a tensor, or a tensor first, got {type(found).__name__}."
        )
    return found


def _squared(outputs: torch.Tensor, targets: np.ndarray) -> torch.Tensor:
    wanted = torch.as_tensor(targets, dtype=outputs.dtype, device=outputs.device)
    return 0.5 * (outputs.reshape(wanted.shape) - wanted).square().sum() / len(wanted)


def _plain(rows: torch.Tensor) -> np.ndarray:
    return _array(rows.reshape(-1, rows.shape[-1]))


def _array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().cpu().to(torch.float64).numpy()


def _sized(module: nn.Module) -> None:
    """Set the attributes of a layer that state its width."""
    match module:
        case nn.Linear():
            module.out_features, module.in_features = module.weight.shape
        case nn.Conv1d() if module.groups == 1:
            module.out_channels, module.in_channels = module.weight.shape[:2]
        case nn.BatchNorm1d() if module.running_mean is not None:
            module.num_features = len(module.running_mean)


def _notes(model: nn.Module) -> Iterator[str]:
    kinds = {type(module).__name__ for module in model.modules()}
    drops = any(isinstance(module, nn.modules.dropout._DropoutNd) for module in model.modules())
    norms = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules())
    if model.training and (drops or norms):
        what = " and ".join(["dropout off"] * drops + ["batch norm with its running means"] * norms)
        yield f"judged in evaluation mode: {what}"
    if any("Norm" in kind and "BatchNorm" not in kind for kind in kinds):
        yield "units before a normalisation over units are not merged"
    if not all(each.requires_grad for each in model.parameters()):
        yield "frozen weights are merged, not tuned"
