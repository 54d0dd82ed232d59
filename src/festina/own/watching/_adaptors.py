"""Watching a run in a trainer that has its own loop: Lightning, Hugging Face."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ..._optional import required
from ._watch import Watch

if TYPE_CHECKING:
    from torch import Tensor

_Options: TypeAlias = Any
_Trainer: TypeAlias = Any
"""Lightning's, which need not be installed."""


def lightning_callback(**options: _Options) -> "_Lightning":
    """Return a Lightning callback that watches the run; `.watch` is the `Watch` once it trains.

    ```python
    seen = festina.own.lightning_callback(snapshots="1GB")
    lightning.Trainer(callbacks=[seen]).fit(model, batches)
    print(seen.watch.stairs((x, y)))
    ```

    Options are those of `festina.watch`. With several optimisers it is the first.
    """
    for name in ("lightning.pytorch", "pytorch_lightning"):
        try:
            base = importlib.import_module(name).Callback
        except ImportError:
            continue
        return type("WatchCallback", (_Lightning, base), {})(options)
    raise ValueError("This needs Lightning, which is not installed: pip install lightning.")


def hugging_face_callback(**options: _Options) -> "_HuggingFace":
    """Return a Hugging Face callback; `.watch` is the `Watch` once it trains.

    ```python
    seen = festina.own.hugging_face_callback()
    transformers.Trainer(model, arguments, train_dataset=data, callbacks=[seen]).train()
    print(seen.watch.plateaus())
    ```

    Options are those of `festina.watch`. That trainer tells the mean of the losses of every
    `logging_steps` steps, and no more: set `logging_steps=1` to see them all.
    """
    base = required("transformers", "transformers", "'transformers[torch]'").TrainerCallback
    return type("WatchCallback", (_HuggingFace, base), {})(options)


class _Adaptor:
    """Makes the watch when training begins. Both trainers step within closures or wrappers of their
    own and say when gradients are there: no hook is needed."""

    def __init__(self, options: dict[str, _Options]) -> None:
        self.options = options
        self.watch: Watch | None = None

    def _begin(self, model: object, optimizer: object) -> None:
        if self.watch is None:  # else it goes on
            self.watch = Watch(model, optimizer, hooked=False, **self.options)


class _Lightning(_Adaptor):
    def on_train_start(self, trainer: _Trainer, pl_module: object) -> None:
        self._optimizer = trainer.optimizers[0]
        self._begin(pl_module, self._optimizer)

    def on_before_backward(self, trainer: _Trainer, pl_module: object, loss: "Tensor") -> None:
        """The loss comes divided by the number of batches in a step."""
        if self.watch is not None:
            self.watch.log(loss.detach() * getattr(trainer, "accumulate_grad_batches", 1))

    def on_before_optimizer_step(
        self, trainer: _Trainer, pl_module: object, optimizer: object
    ) -> None:
        if self.watch is not None and optimizer is self._optimizer:
            self.watch.before_step()


class _HuggingFace(_Adaptor):
    def on_train_begin(self, *given: object, **kwargs: object) -> None:
        self._begin(kwargs["model"], kwargs["optimizer"])

    def on_pre_optimizer_step(self, *given: object, **kwargs: object) -> None:
        if self.watch is not None:
            self.watch.before_step()

    def on_log(
        self, *given: object, logs: Mapping[str, float] | None = None, **kwargs: object
    ) -> None:
        if self.watch is not None and logs is not None and "loss" in logs:
            self.watch.log(float(logs["loss"]))
