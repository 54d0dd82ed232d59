"""Watch a run in a trainer with its own loop: Lightning or Hugging Face."""

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from ..._optional import required
from ._watch import Watch

if TYPE_CHECKING:
    from torch import Tensor

_Options: TypeAlias = Any
_Trainer: TypeAlias = Any
"""A trainer of Lightning, which need not be installed."""


def lightning_callback(**options: _Options) -> "_Lightning":
    """Return a Lightning callback that watches the run; needs Lightning.

    The attribute `watch` of the callback is the `Watch` as soon as training begins. Options are
    those of `festina.watch`. If the model has several optimisers, the first one is watched.

    **Example:**

    >>> import festina
    >>> import lightning  # doctest: +SKIP
    >>> callback = festina.own.lightning_callback(snapshots="1GB")  # doctest: +SKIP
    >>> lightning.Trainer(callbacks=[callback]).fit(model, batches)  # doctest: +SKIP
    >>> print(callback.watch.stairs((x, y)))  # doctest: +SKIP
    """
    for name in ("lightning.pytorch", "pytorch_lightning"):
        try:
            base = importlib.import_module(name).Callback
        except ImportError:
            continue
        return type("WatchCallback", (_Lightning, base), {})(options)
    raise ValueError("This needs Lightning, which is not installed: pip install lightning.")


def hugging_face_callback(**options: _Options) -> "_HuggingFace":
    """Return a callback for a Hugging Face trainer that watches the run; needs `transformers`.

    The attribute `watch` of the callback is the `Watch` as soon as training begins. Options are
    those of `festina.watch`. The trainer reports only the mean loss of every `logging_steps` steps:
    set `logging_steps=1` to record every loss.

    **Example:**

    >>> import festina
    >>> from transformers import Trainer  # doctest: +SKIP
    >>> callback = festina.own.hugging_face_callback()  # doctest: +SKIP
    >>> Trainer(model, arguments, callbacks=[callback]).train()  # doctest: +SKIP
    >>> print(callback.watch.plateaus())  # doctest: +SKIP
    """
    base = required("transformers", "transformers", "'transformers[torch]'").TrainerCallback
    return type("WatchCallback", (_HuggingFace, base), {})(options)


class _Adaptor:
    """A callback that makes the watch when training begins.

    Both trainers step within closures or wrappers of their own and call back when gradients are
    ready, so the optimiser needs no hook.
    """

    def __init__(self, options: dict[str, _Options]) -> None:
        self.options = options
        self.watch: Watch | None = None

    def _begin(self, model: object, optimizer: object) -> None:
        if self.watch is None:  # a resumed training keeps its watch
            self.watch = Watch(model, optimizer, hooked=False, **self.options)


class _Lightning(_Adaptor):
    def on_train_start(self, trainer: _Trainer, pl_module: object) -> None:
        self._optimizer = trainer.optimizers[0]
        self._begin(pl_module, self._optimizer)

    def on_before_backward(self, trainer: _Trainer, pl_module: object, loss: "Tensor") -> None:
        """Record the loss, which Lightning has divided by the number of batches in a step."""
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
