"""Chains on all cores: a group of them on each of a processor's."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import jax
import numpy as np

from .._drive import cores
from ._model import Data, Model
from ._moves import Chains, Settings, advance

_OF_A_CHAIN = ("position", "momentum", "log_step", "words")


@dataclass(frozen=True)
class Cores:
    """Moves chains on, in groups of one size, so that one program serves all of them."""

    model: Model
    method: str
    data: Data
    settings: Settings

    def advance(self, chains: Chains, stop: int) -> tuple[Chains, dict]:
        """All chains up to the move `stop`, and what to note of them."""
        size = _group(len(chains.log_step))
        groups = [
            chains._replace(**{name: getattr(chains, name)[k : k + size] for name in _OF_A_CHAIN})
            for k in range(0, len(chains.log_step), size)
        ]
        compiles = int(chains.move == 0)  # once: the others wait for it
        found = [self._advance(group, stop) for group in groups[:compiles]]
        with ThreadPoolExecutor(cores()) as pool:
            found += pool.map(lambda group: self._advance(group, stop), groups[compiles:])
        moved, notes = zip(*found, strict=True)
        together = {n: np.concatenate([getattr(c, n) for c in moved]) for n in _OF_A_CHAIN}
        note = {name: np.concatenate([each[name] for each in notes]) for name in notes[0]}
        return Chains(**together, move=moved[0].move), note

    def _advance(self, chains: Chains, stop: int) -> tuple[Chains, dict]:
        # An accelerator would round products to ten bits, which energies do not forgive.
        double = self.data.y.dtype == np.float64
        with jax.enable_x64(double), jax.default_matmul_precision("highest"):
            found = advance(
                self.model, self.method, self.data, self.settings, chains, np.asarray(stop)
            )
            return jax.tree.map(np.asarray, found)


def _group(chains: int) -> int:
    """How many chains one program moves: on an accelerator all of them."""
    if jax.default_backend() != "cpu":
        return chains
    return max(n for n in range(1, -(-chains // cores()) + 1) if chains % n == 0)
