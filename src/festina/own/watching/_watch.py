"""Watch a PyTorch run while it trains."""

import copy
import pickle
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._checks import whole_number
from ..._narrowing._pytorch import Function, is_module, is_optimizer, is_tensor, torch, unwrapped
from ._record import Curve, Record, numbers
from ._snapshots import Snapshots, bytes_of
from ._stairs import AbstractRun

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Module
    from torch.optim import Optimizer

_SPARSE = 128  # steps so far over steps to the next gradient norm, if `every` is not given


def watch(
    model: object,
    optimizer: object,
    *,
    every: int | None = None,
    snapshots: str | int | None = "256MB",
    epoch: int | None = None,
) -> "Watch":
    """Record losses, gradient norms and weights of a PyTorch run while it trains.

    Call `watch.log(loss)` before each step; `watch.stairs((x, y))` then finds the plateaus. The
    record uses a hook of the optimiser (`register_step_pre_hook`) and counts the optimiser's steps,
    however many batches a step takes. Steps do not wait for an accelerator: numbers stay on their
    device and are fetched in bunches.

    **Arguments:**

    - `model`: a `torch.nn.Module`, also inside the wrapper of a compiler or a distributor.
    - `optimizer`: the optimiser that trains the model. Weights outside the optimiser are assumed to
      be frozen.
    - `every`: number of steps between gradient norms, and between possible snapshots. By default
      every step at first; later the distance is less than a hundredth of the steps so far.
    - `snapshots`: memory for copies of the weights, on the device of the weights. If the memory is
      full, copies are thinned out. None records only losses and gradient norms.
    - `epoch`: number of steps in an epoch, if examples are seen again. Drops of the loss at epoch
      boundaries are then marked.

    **Returns:** the `Watch`.

    **Example:**

    >>> import torch
    >>> import festina
    >>> model, criterion = torch.nn.Linear(2, 1), torch.nn.MSELoss()
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> watch = festina.watch(model, optimizer)
    >>> for _ in range(10):
    ...     loss = criterion(model(torch.ones(8, 2)), torch.zeros(8, 1))
    ...     watch.log(loss)
    ...     optimizer.zero_grad()
    ...     loss.backward()
    ...     optimizer.step()
    >>> watch
    Watch(10 steps, 10 snapshots, 0.0 MB)
    """
    return Watch(model, optimizer, every=every, snapshots=snapshots, epoch=epoch)


class Watch(AbstractRun):
    """Result of `watch`: the record of a PyTorch run so far.

    - `log(loss)`: record the loss before each step. Several losses before one step (gradient
      accumulation) are averaged.
    - `plateaus()`, `stairs(data)`, `draw()`: analyse the run at any time, also during training.
    - `curve`, `gradient_norm`: steps and recorded values. Gradients are recorded as the optimiser
      receives them, after clipping or scaling.
    - `close()`: stop watching and keep the record; a `with` block does this at its end.

    **Example:**

    >>> import torch
    >>> import festina
    >>> model = torch.nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with festina.watch(model, optimizer) as watch:
    ...     for loss in (3.0, 1.0):
    ...         watch.log(loss)
    ...         optimizer.step()
    >>> watch.curve
    (array([0., 1.]), array([3., 1.]))
    """

    def __init__(
        self,
        model: object,
        optimizer: object,
        *,
        every: int | None = None,
        snapshots: str | int | None = "256MB",
        epoch: int | None = None,
        hooked: bool = True,
    ) -> None:
        model = unwrapped(model)
        if not is_module(model):
            raise ValueError(
                f"`model` must be a torch.nn.Module, got {type(model).__name__}. For JAX use "
                "`festina.own.from_checkpoints(checkpoints, losses)`."
            )
        if not is_optimizer(optimizer):
            raise ValueError(
                f"`optimizer` must be one of torch.optim, got {type(optimizer).__name__}."
            )
        self.model: Module = model
        self.every = None if every is None else whole_number("every", every)
        self.epoch = None if epoch is None else whole_number("epoch", epoch)
        self.steps = self._next = 0
        self._trained = _trained(model, optimizer)
        self._losses, self._norms = Record(), Record()
        self._pending = list["float | Tensor"]()
        moving = partial(_moving, model, self._trained)
        self._snapshots = None if snapshots is None else Snapshots(moving, bytes_of(snapshots))
        self._closed = False
        self._handle = optimizer.register_step_pre_hook(_hook_of(self)) if hooked else None

    def log(self, loss: object) -> None:
        """Record the loss of a batch, a tensor or a number, before the next optimiser step."""
        if self._closed:
            return
        if is_tensor(loss) and loss.numel() == 1 and not _unreal(loss):
            loss = loss.detach().clone()  # a compiled program may reuse the memory of the loss
        elif type(loss) is not float:
            loss = _one_number(loss)
        self._pending.append(loss)

    def before_step(self) -> None:
        """Record loss, gradient norm and weights; called by a hook or by a trainer's callback."""
        if self._pending:
            self._losses.add(self.steps, self._mean())
            self._pending.clear()
        if self.steps >= self._next:
            self._next = self.steps + (self.every or 1 + self.steps // _SPARSE)
            with torch().no_grad():
                grads = [p.grad for p in self._trained.values() if p.grad is not None]
                if grads:
                    self._norms.add(self.steps, _norm(grads))
                if self._snapshots is not None:
                    self._snapshots.offer(self.steps)
        self.steps += 1

    def _mean(self) -> "float | Tensor":
        """Return the mean of the losses logged since the last step."""
        first, *more = self._pending
        return (first + sum(more)) / len(self._pending) if more else first

    @property
    def curve(self) -> Curve:
        """Steps and losses, including losses logged since the last step."""
        steps, losses = self._losses.curve
        if not self._pending:
            return steps, losses
        return np.append(steps, self.steps), np.append(losses, numbers((self._mean(),)))

    @property
    def gradient_norm(self) -> Curve:
        """Steps, and the norm of the gradient at each step."""
        return self._norms.curve

    @property
    def snapshot_bytes(self) -> int:
        """Memory of all snapshots, in bytes."""
        return 0 if self._snapshots is None else self._snapshots.bytes

    @property
    def steps_with_weights(self) -> Sequence[float | int]:
        return [*(() if self._snapshots is None else self._snapshots.steps), self.steps]

    def network(self, step: float | int) -> "Module":
        """Return a copy of the model with the weights before a step, in evaluation mode."""
        if step not in self.steps_with_weights:
            raise ValueError(
                f"There are no weights of step {step}, expected one of `steps_with_weights`."
            )
        network = copy.deepcopy(self.model).eval()
        if step != self.steps and self._snapshots is not None:
            named = dict(network.named_parameters())
            places = _moving(network, {name: named[name] for name in self._trained})
            with torch().no_grad():
                torch()._foreach_copy_(places, self._snapshots[int(step)])
        return network

    def close(self) -> None:
        """Stop watching and keep the record."""
        self._closed = True
        if self._handle is not None:
            self._handle.remove()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, object]:
        """Return the whole record for pickling. An unpickled watch is closed."""
        try:
            pickle.dumps(self.model)
        except Exception as error:  # each library has its own
            reason = str(error).strip().partition("\n")[0]
            raise TypeError(
                f"This `Watch` cannot be pickled, because its model cannot be: {reason}. "
                "`watch.save(path)` saves losses and weights without pickle."
            ) from error
        for record in (self._losses, self._norms):
            record.curve  # noqa: B018, fetches numbers that are still on the device
        return {**self.__dict__, "_handle": None, "_closed": True}

    def __repr__(self) -> str:
        kept = len(self.steps_with_weights) - 1
        return f"Watch({self.steps} steps, {kept} snapshots, {self.snapshot_bytes / 1e6:.1f} MB)"


def _trained(model: "Module", optimizer: "Optimizer") -> Mapping[str, "Tensor"]:
    """Return the parameters of the model that the optimiser has, by name."""
    has = {id(p) for group in optimizer.param_groups for p in group["params"]}
    found = {name: p for name, p in model.named_parameters() if id(p) in has}
    if not found:
        raise ValueError(
            "`optimizer` has none of the parameters of `model`. If the model was moved or copied "
            "after the optimiser was made, make the optimiser again from `model.parameters()`."
        )
    return found


def _moving(model: "Module", trained: Mapping[str, "Tensor"]) -> list["Tensor"]:
    """Return trained parameters, and running averages such as those of batch normalisation."""
    return [*trained.values(), *model.buffers()]


def _unreal(array: object) -> bool:
    kind = str(getattr(array, "dtype", ""))
    return "complex" in kind or "bool" in kind


def _one_number(loss: object) -> float:
    """Return a loss that is not a tensor as a number, or raise ValueError."""
    if isinstance(loss, Real) and not isinstance(loss, bool):
        return float(loss)
    shape, kind = getattr(loss, "shape", None), getattr(loss, "dtype", None)
    if shape is not None and kind is not None:
        if all(size == 1 for size in shape) and not _unreal(loss):
            return float(np.asarray(loss).reshape(()))
        got = f"the type {kind}" if _unreal(loss) else f"shape {tuple(shape)}: log its mean"
    elif hasattr(loss, "loss"):
        got = f"{type(loss).__name__}: log its `.loss`"
    else:
        got = f"{type(loss).__name__} {str(loss)[:40]!r}"
    raise ValueError(f"`loss` must be one number, got {got}.")


def _norm(tensors: list["Tensor"]) -> "Tensor":
    """Return the norm of all tensors, twice as fast as `torch.nn.utils.get_total_norm`."""
    each = torch()._foreach_norm(tensors)
    return torch().linalg.vector_norm(torch().stack([one.to(each[0].device) for one in each]))


def _hook_of(watch: Watch) -> Function:
    """Return a hook for the optimiser. The hook does not keep the watch alive."""
    found = weakref.ref(watch)

    def hook(optimizer: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
        watch = found()
        if watch is None:
            return None
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if closure is None:
            watch.before_step()
            return None
        watch._pending.clear()  # further losses of the closure in the last step
        first = True

        def closure_and_look() -> object:
            nonlocal first
            loss = closure()
            if first:
                first = False
                if not watch._pending and loss is not None:
                    watch.log(loss)
                watch.before_step()
            return loss

        rest = {name: value for name, value in kwargs.items() if name != "closure"}
        return (optimizer, closure_and_look), rest

    return hook
