"""Evaluate the user's loss on the user's data: value, gradient, and their cost."""

import contextlib
import copy
import inspect
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._checks import whole_number
from ..._narrowing._pytorch import Function, check_pairs, is_module, is_optimizer, unwrapped
from ..._narrowing._samples import TARGETS, Samples, arrays, called, pair, torch_samples
from ..._narrowing._trees import Tree, is_real
from ._budget import Budget
from ._vectors import Array, Vector, combination

if TYPE_CHECKING:
    from torch.nn import Module

Evaluate = Callable[[tuple[Array, ...], Samples], tuple[float, tuple[Array, ...]]]
"""A function that returns the loss, and its gradient with respect to each part of the weights."""

_SAME = 1e-4  # relative difference of equal losses: accelerators add in varying order
_TIMED = 3  # timed gradients, of which the fastest counts, because the first compiles
_PIECES = 8  # shares of the samples whose gradients give the variance of mini-batches
_NOTHING = 1e-3  # share of the loss at zero weights below which losses count as equal
_MANY = 4096  # samples for a run on all of its data
_FEW = 1024  # samples for a run in mini-batches: 256 misjudge the end of a plateau by a fifth


@dataclass
class Problem:
    """Loss and gradient of weights on some of the samples.

    - `model`: the user's model.
    - `evaluate`: function that returns loss and gradient.
    - `start`: present weights.
    - `data`: samples on which the loss is evaluated.
    - `samples`: number of samples in `data`.
    - `batch`: size of mini-batches; None for all samples at once.
    - `budget`: counter of gradients, shared by parts of the problem. The budget raises `Exhausted`
      when it is spent, even in the middle of a step.
    - `share`: fraction of all samples that are in `data`.
    - `restore`: function that returns the model with other weights.
    - `array`: function that converts numbers to an array like a given array.
    - `names`: the user's names of the parts of the weights.
    - `notes`: assumptions to report.
    - `loss`: loss at `start`.
    - `scale`: loss at zero weights, a unit for other losses; zero if it is not finite.
    """

    model: object
    evaluate: Evaluate
    start: Vector
    data: Samples
    restore: Callable[[Vector], object]
    names: tuple[str, ...]
    array: Callable[[object, Array], Array]
    batch: int | None = None
    notes: list[str] = field(default_factory=list)
    budget: Budget = field(default_factory=Budget)
    share: float = 1.0
    loss: float = math.nan
    scale: float = 0.0

    @property
    def samples(self) -> int:
        return len(self.data)

    def __call__(self, w: Vector) -> tuple[float, Vector]:
        self.budget.charge(self.samples, self.share)
        loss, parts = self.evaluate(w.parts, self.data)
        return loss, Vector(parts)

    def pieces(self, count: int) -> Iterator["Problem"]:
        """Yield the problem on `count` nearly equal shares of the samples."""
        bounds = np.linspace(0, self.samples, min(count, self.samples) + 1).astype(int)
        for a, b in itertools.pairwise(bounds):
            share = self.share * (b - a) / self.samples
            yield replace(self, data=self.data.part(slice(a, b)), share=share)

    def mini_batch(self, w: Vector) -> tuple[float, Vector, list[Vector]]:
        """Return loss, gradient, and vectors whose outer products sum to a batch's covariance."""
        n, batch = self.samples, self.batch
        if batch is None or batch >= n:
            return *self(w), []
        shares = [(piece.samples / n, *piece(w)) for piece in self.pieces(_PIECES)]
        loss = sum(p * value for p, value, _ in shares)
        g = combination(*((p, each) for p, _, each in shares))
        scale = (n / len(shares) / batch / (len(shares) - 1)) ** 0.5
        return loss, g, [(each - g) * scale for _, _, each in shares]

    def appraise(self) -> None:
        """Measure the price of a gradient in steps of the run; without mini-batches it is 1.

        For mini-batches, a gradient on a batch and one on all samples are timed. The price is an
        affine function of the number of samples, because a gradient of a small model on ten times
        the samples takes less than ten times as long.
        """
        n, batch, budget = self.samples, self.batch, self.budget
        if batch is None or batch >= n:
            budget.fixed, budget.per_sample = 0.0, 1.0 / n
            budget.steps = budget.gradients
            return
        step, whole = (_seconds(self, m) for m in (batch, n))
        per_sample = max(whole - step, 0.0) / (n - batch)
        budget.per_sample = per_sample / step
        budget.fixed = max(1.0 - batch * budget.per_sample, 0.0)
        budget.steps = budget.gradients * budget.price(n)

    def random(self) -> Vector:
        """Return a random direction, the same at each call, on the device of the weights."""
        rng = np.random.default_rng(0)
        draw = lambda w: self.array(rng.normal(size=tuple(w.shape)).astype(np.float32), w)
        return Vector(tuple(draw(w) for w in self.start.parts))

    def check(self) -> None:
        """Set `loss` and `scale`; raise `ValueError` if the loss does not allow a forecast."""
        try:
            (first, g), (again, _), (scale, _) = (
                self(w) for w in (self.start, self.start, self.start * 0.0)
            )
        except (RuntimeError, TypeError, LookupError, AttributeError) as error:
            what = (str(error).splitlines() or [type(error).__name__])[0]
            raise ValueError(f"`model` and `loss` do not take these data: {what}") from error
        scale = abs(scale) if math.isfinite(scale) else 0.0
        if not (math.isfinite(first) and math.isfinite(g.square)):
            parts = zip(self.names, g.parts, strict=True)
            bad = [f" by {n}" for n, p in parts if not math.isfinite(float(p.sum()))]
            raise ValueError(
                f"The loss at these weights is {first}, with a gradient{''.join(bad[:1])} of "
                f"squared norm {g.square:.3g}, expected finite numbers. Give weights from before "
                "training diverged, and data without NaN."
            )
        if abs(first - again) > _SAME * max(abs(first), abs(again), _NOTHING * scale):
            raise ValueError(
                f"The loss of the same weights on the same samples was {first:.6g} and then "
                f"{again:.6g}: `loss` or the model draws at random, so the loss would differ at "
                "every step of the forecast. Switch the noise off, or draw it once and keep it "
                "with the data."
            )
        if self.samples >= 2 and first:
            halves = [half(self.start)[0] for half in self.pieces(2)]
            if abs(sum(halves) - first) < 1e-3 * abs(first) < abs(first - sum(halves) / 2):
                raise ValueError(
                    f"`loss` sums over samples: {first:.4g} on all, {halves[0]:.4g} and "
                    f"{halves[1]:.4g} on the halves. The effect of the learning rate would then "
                    "depend on the size of a batch. Give the mean over samples."
                )
        self.loss, self.scale = first, scale


def problem_of(
    model: object,
    loss: object,
    optimizer: object,
    data: object,
    *,
    samples: int | None = None,
    batch: int | None = None,
    budget: Budget | None = None,
) -> Problem:
    """Return the problem that an optimiser solves, after checks, with the price of its gradients.

    The arguments are those of `festina.forecast`. Without a `budget` gradients are not limited.
    """
    batch = None if batch is None else whole_number("batch", batch)
    if samples is None:
        whole = batch is None and getattr(data, "batch_size", None) is None
        samples = _MANY if whole else _FEW
    model, most = unwrapped(model), whole_number("samples", samples)
    if is_module(model):
        problem = _of_module(model, loss, optimizer, data, most, batch)
    else:
        problem = _of_tree(model, loss, data, most, batch)
    problem.budget = budget or problem.budget
    with problem.budget.unlimited():
        problem.check()
    problem.appraise()
    return problem


def _seconds(problem: Problem, samples: int) -> float:
    """Return the shortest of several measured times of a gradient on so many samples."""
    data, times = problem.data.part(slice(0, samples)), []
    for _ in range(_TIMED):
        start = time.perf_counter()
        _, parts = problem.evaluate(problem.start.parts, data)
        float(parts[0].sum())  # waits until an accelerator has computed the gradient
        times.append(time.perf_counter() - start)
    return min(times)


def _of_module(
    model: "Module", loss: object, optimizer: object, data: object, most: int, batch: int | None
) -> Problem:
    """Return the problem of a module: `loss(model(x), y)`, or its own loss if `loss` is `None`.

    Only the parameters in the optimiser move; with a rule such as `SGD(lr=…)` all parameters move.
    """
    import torch
    from torch.func import functional_call

    every, trained = dict(model.named_parameters()), {id(p) for p in model.parameters()}
    if is_optimizer(optimizer):
        trained = {id(p) for group in optimizer.param_groups for p in group["params"]}
    moving = {n: p for n, p in every.items() if p.requires_grad and id(p) in trained}
    if not moving:
        raise ValueError(
            "No parameter of `model` is trained by `optimizer`: all parameters are frozen, or the "
            "optimiser holds the parameters of another model. Make the optimiser of "
            "`model.parameters()`."
        )
    first = next(iter(moving.values()))
    if any(p.is_complex() for p in every.values()):
        raise ValueError("`model` has complex weights, expected real weights.")
    short = {p.dtype for p in every.values()} & {torch.float16, torch.bfloat16}
    real = torch.float32 if short else first.dtype
    samples = _with_targets(torch_samples, data, most=most, device=first.device, real=real)
    samples = _with_labels(samples, model, own=loss is None)
    value_of = _own_loss if loss is None else _callable(loss)
    notes = list(samples.notes)
    frozen = [n for n in every if n not in moving]
    if frozen:
        notes.append(f"{len(frozen)} parameters are frozen ({', '.join(frozen[:3])} …)")
    twin = copy.deepcopy(model)
    _still(twin, notes)
    if short:
        notes.append(_longer(str(short.pop()).removeprefix("torch.")))
        twin.float()
    # Other errors are reported when the loss is checked.
    with contextlib.suppress(RuntimeError, TypeError, IndexError), torch.no_grad():
        check_pairs(value_of, called(twin, samples.x), samples.y)

    def evaluate(parts: tuple[Array, ...], data: Samples) -> tuple[float, tuple[Array, ...]]:
        own = tuple(torch.as_tensor(p).detach().requires_grad_() for p in parts)
        run = lambda *a, **k: functional_call(twin, dict(zip(moving, own, strict=True)), a, k)
        with torch.enable_grad():
            value = _one_number(value_of(called(run, data.x), data.y))
            if not getattr(value, "requires_grad", False):
                raise ValueError("`loss` does not depend on the weights: is it detached?")
            g = torch.autograd.grad(value, own, allow_unused=True, materialize_grads=True)
        return value.item(), g

    def restore(w: Vector) -> object:
        shown = copy.deepcopy(model)
        shown.load_state_dict(dict(zip(moving, w.parts, strict=True)), strict=False)
        return shown

    start = Vector(tuple(p.detach().to(real, copy=True) for p in moving.values()))
    array = lambda a, like: torch.as_tensor(a).to(like)
    batch = samples.batch if batch is None else batch
    return Problem(model, evaluate, start, samples, restore, tuple(moving), array, batch, notes)


def _of_tree(model: object, loss: object, data: object, most: int, batch: int | None) -> Problem:
    """Return the problem `loss(model, x, y)` of a tree with arrays of real numbers as leaves."""
    value_of = _callable(loss)
    samples = _with_targets(arrays, data, most=most, place=jnp.asarray)
    tree = Tree(model)
    real = {name: leaf for name, leaf in tree.leaves.items() if is_real(leaf)}
    if not real:
        raise ValueError(
            f"`model` is a {type(model).__name__} without arrays of real numbers, expected a "
            "PyTorch module, or a tree (dict, Equinox, Flax) with the weights as its leaves."
        )
    if any(
        getattr(getattr(leaf, "dtype", None), "kind", "") == "c" for leaf in tree.leaves.values()
    ):
        raise ValueError("`model` has complex weights, expected real weights.")
    short = {str(leaf.dtype) for leaf in real.values() if leaf.dtype.itemsize < 4}
    at_least = lambda kind: jax.dtypes.canonicalize_dtype(jnp.promote_types(kind, jnp.float32))
    longer = lambda leaf: jnp.asarray(leaf, at_least(leaf.dtype))
    like = lambda part, leaf: (np if isinstance(leaf, np.ndarray) else jnp).asarray(
        part, leaf.dtype
    )
    whole = lambda parts: tree.replaced(dict(zip(real, parts, strict=True)))
    graded = jax.jit(jax.value_and_grad(lambda w, x, y: _one_number(value_of(whole(w), x, y))))

    def evaluate(parts: tuple[Array, ...], data: Samples) -> tuple[float, tuple[Array, ...]]:
        value, g = graded(parts, data.x, data.y)
        return float(value), tuple(g)

    def restore(w: Vector) -> object:
        pairs = zip(w.parts, real.values(), strict=True)
        return whole([like(part, leaf) for part, leaf in pairs])

    start = Vector(tuple(longer(leaf) for leaf in real.values()))
    array = lambda a, like: jnp.asarray(a, like.dtype)
    notes = [*samples.notes, *map(_longer, short)]
    return Problem(model, evaluate, start, samples, restore, tuple(real), array, batch, notes)


def _with_targets(take: Callable[..., Samples], data: object, **options: object) -> Samples:
    given = data if isinstance(data, tuple | list) else (data,)
    if isinstance(data, Mapping):
        given = pair(dict(data))
    if len(given) not in (1, 2):
        raise ValueError(f"`data` has {len(given)} parts, expected inputs and targets `(x, y)`.")
    samples = take(*given, **options)
    if not len(samples):
        raise ValueError("`data` has no samples, expected at least one row.")
    if samples.y is None:
        raise ValueError(
            "`data` has no targets, which `loss` needs: expected inputs and targets `(x, y)`, or a "
            "PyTorch Dataset or DataLoader with both. If inputs are their own targets, give them "
            "twice: `(x, x)`."
        )
    return samples


def _with_labels(samples: Samples, model: "Module", *, own: bool) -> Samples:
    """Return named samples, together with the targets if the module takes them as an argument.

    A model with its `own` loss computes the loss from these targets.
    """
    taken = inspect.signature(model.forward).parameters
    name = next((name for name in TARGETS if name in taken), TARGETS[0] if own else None)
    if name is None or not isinstance(samples.x, dict):
        return samples
    return replace(samples, x={**samples.x, name: samples.y})


def _own_loss(outputs: object, _: object) -> object:
    found = outputs.get("loss") if isinstance(outputs, Mapping) else getattr(outputs, "loss", None)
    if found is None:
        raise ValueError(
            f"`loss` is None, and the output of `model`, a {type(outputs).__name__}, has no loss: "
            "give `loss`, or `data` as a dict with the `labels` that the model needs."
        )
    return found


def _callable(loss: object) -> Function:
    if not callable(loss):
        raise ValueError(f"`loss` is a {type(loss).__name__}, expected a function of arrays.")

    def asked(*given: object) -> object:
        try:
            return loss(*given)
        except ValueError as error:  # NumPy raises it if shapes do not fit
            raise TypeError(str(error)) from error

    return asked


def _longer(kind: str) -> str:
    return f"weights of {kind} are moved in float32, so small steps are not lost to rounding"


def _one_number(value: Any) -> Any:
    shape = getattr(value, "shape", None)
    if "complex" in str(getattr(value, "dtype", "")):
        raise ValueError("`loss` gave a complex number, expected a real number.")
    if shape is None or len(shape):
        what = type(value).__name__ if shape is None else f"numbers of shape {tuple(shape)}"
        raise ValueError(f"`loss` gave {what}, expected one number in an array: take the mean.")
    return value


def _still(model: "Module", notes: list[str]) -> None:
    """Set evaluation mode, except for batch normalisation in training mode; append notes."""
    from torch import nn
    from torch.nn.modules import batchnorm, dropout

    modules = list(model.modules())
    share = lambda m: getattr(m, "p" if isinstance(m, dropout._DropoutNd) else "dropout", 0.0)
    drops = [m for m in modules if isinstance(share(m), int | float) and share(m) > 0]
    norms = [m for m in modules if isinstance(m, batchnorm._BatchNorm)]
    training: list[nn.Module] = [m for m in norms if m.training]
    if not model.training and (drops or norms):
        notes.append("the model is in eval mode, and is assumed to be trained in eval mode")
    if any(m.training for m in drops):
        notes.append("dropout is off in the forecast")
    if training:
        notes.append("batch normalisation uses the statistics of all samples, not of a batch")
    model.eval()
    for module in modules:
        if isinstance(module, nn.RNNBase):  # cuDNN computes their gradients only in training mode
            module.dropout = 0.0
            training.append(module)
    for module in training:
        module.training = True
