"""Run chains in groups on all CPU cores, or all chains in one program on an accelerator."""

from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np

from ..._lanes import accelerated, cores
from ._model import Data, Model
from ._moves import Chains, Settings, advance

_OF_A_CHAIN = ("position", "momentum", "log_step", "words")
_TOGETHER = 10_000  # weights in a group of chains; smaller groups would cost Python time


def advanced(
    model: Model, method: str, data: Data, settings: Settings, chains: Chains, stop: int
) -> tuple[Chains, dict]:
    """Return the state of all chains after move number `stop`, and the chains' log entries.

    The group size does not depend on the number of cores, because rounding depends on the group
    size.
    """
    # A new thread does not inherit JAX's default device.
    device = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]

    def group_of(first: int) -> Chains:
        return chains._replace(
            **{name: getattr(chains, name)[first : first + size] for name in _OF_A_CHAIN}
        )

    def move(group: Chains) -> tuple[Chains, dict]:
        double = data.y.dtype == np.float64
        # An accelerator would round matrix products to ten bits, which is too coarse for energies.
        exact = jax.default_matmul_precision("highest")
        with jax.default_device(device), jax.enable_x64(double), exact:
            found = advance(model, method, data, settings, group, np.asarray(stop))
            return jax.tree.map(np.asarray, found)

    count = len(chains.log_step)
    most = count if accelerated() else max(1, _TOGETHER // model.size)
    size = max(n for n in range(1, min(most, count) + 1) if count % n == 0)
    with ThreadPoolExecutor(cores()) as pool:
        found = list(pool.map(move, map(group_of, range(0, count, size))))
    moved, notes = zip(*found, strict=True)
    together = {n: np.concatenate([getattr(c, n) for c in moved]) for n in _OF_A_CHAIN}
    note = {name: np.concatenate([each[name] for each in notes]) for name in notes[0]}
    return Chains(**together, move=moved[0].move), note
