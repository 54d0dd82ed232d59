"""Gates: which nodes and edges of a network are open for which inputs, and how far."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._types import Array, ArrayLike
from ._given import real_array

Rule = Callable[[Float[Array, " input"]], Float[Array, ""]]
"""A gate as a function of one input, by JAX's functions."""


@dataclass(frozen=True, eq=False)
class Gating:
    """The gates of every input, side by side: those of a table, then those of rules.

    A table holds the gates of given examples, which are found by their inputs; of any other input
    they are unknown, NaN.
    """

    names: tuple[str, ...]
    rules: tuple[Rule, ...]
    examples: Float[np.ndarray, "example input"]
    table: Float[np.ndarray, "example gate"]

    def __call__(self, x: Float[Array, " input"]) -> Float[Array, " gate"]:
        """The gates of one input."""
        gates = [jnp.asarray(rule(x), dtype=float).reshape(1) for rule in self.rules]
        if self.table.size:
            same = jnp.all(jnp.asarray(self.examples) == x, axis=1)
            found = jnp.asarray(self.table)[jnp.argmax(same)]
            gates = [jnp.where(jnp.any(same), found, jnp.nan), *gates]
        return jnp.concatenate(gates)


def gating(gates: Mapping[str, ArrayLike | Rule], examples: ArrayLike | None) -> Gating | None:
    """Gates as they were given, checked; None where there are none."""
    if not gates:
        return None
    rules = {name: gate for name, gate in gates.items() if callable(gate)}
    given = {name: gate for name, gate in gates.items() if not callable(gate)}
    if given and examples is None:
        raise ValueError(
            f"`gates` of {', '.join(map(repr, given))} are numbers: say which inputs they are for, "
            "`examples=task.x`, or give a function of the input."
        )
    x = real_array("examples", () if examples is None else examples)
    if given and x.ndim != 2:
        raise ValueError(f"`examples` must be inputs (example, input), got shape {x.shape}.")
    columns = {name: real_array(f"gates['{name}']", gate) for name, gate in given.items()}
    for name, column in columns.items():
        if column.shape != (len(x),):
            raise ValueError(
                f"`gates['{name}']` must be one number for each of the {len(x)} examples, got "
                f"shape {column.shape}."
            )
        if not np.isfinite(column).all():
            raise ValueError(f"`gates['{name}']` must be finite.")
    if not given:
        return Gating(tuple(rules), tuple(rules.values()), np.zeros((0, 0)), np.zeros((0, 0)))
    table = np.stack(list(columns.values()), axis=1)
    x, first, inverse = np.unique(x, axis=0, return_index=True, return_inverse=True)
    if (differ := np.any(table[first][inverse.ravel()] != table, axis=1)).any():
        raise ValueError(
            f"`gates` differ between examples with the same input, such as example "
            f"{int(np.argmax(differ))}. Append what tells them apart to the inputs, and name the "
            "columns that the network reads in `inputs`."
        )
    return Gating((*columns, *rules), tuple(rules.values()), x, table[first])
