"""Gates: which nodes and edges of a network are open for which inputs, and how far."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._checks import finite_array, finite_matrix
from .._types import Array, ArrayLike
from ._gated_graph import Plan

Rule = Callable[[Float[Array, " input"]], Float[Array, ""]]
"""A gate as a function of one input, by JAX's functions."""


@dataclass(frozen=True, eq=False)
class Gating:
    """The gates of every input, side by side: those of a table, then those of rules.

    A table holds the gates of given examples, which are found by their inputs; of any other input
    they are unknown, NaN.
    """

    names: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    examples: Float[np.ndarray, "example input"] = field(default_factory=lambda: np.zeros((0, 0)))
    table: Float[np.ndarray, "example gate"] = field(default_factory=lambda: np.zeros((0, 0)))

    def __call__(self, x: Float[Array, " input"]) -> Float[Array, " gate"]:
        """Return the gates of one input."""
        gates = [jnp.asarray(rule(x), dtype=float).reshape(1) for rule in self.rules]
        if self.table.size:
            same = jnp.all(jnp.asarray(self.examples) == x, axis=1)
            found = jnp.asarray(self.table)[jnp.argmax(same)]
            gates = [jnp.where(jnp.any(same), found, jnp.nan), *gates]
        return jnp.concatenate((jnp.zeros(0), *gates))


def gating(gates: Mapping[str, ArrayLike | Rule] | None, x: ArrayLike | None, plan: Plan) -> Gating:
    """Return the gates that were given for a graph, checked; None if all are open."""
    gates = {} if gates is None else gates
    if not isinstance(gates, Mapping):
        raise ValueError(f"`gates` must be by name of node or edge, got {gates!r}.")
    known = (*plan.widths, *(f"{source}-{target}" for source, target in plan.edges))
    if unknown := [name for name in gates if name not in known]:
        raise ValueError(
            f"`gates` has {unknown[0]!r}, which is no node or edge: there are {', '.join(known)}."
        )
    rules = {name: gate for name, gate in gates.items() if callable(gate)}
    given = {name: gate for name, gate in gates.items() if not callable(gate)}
    if not given:
        return Gating(tuple(rules), tuple(rules.values()))
    if x is None:
        raise ValueError(
            f"`gates` of {', '.join(map(repr, given))} are numbers: say which inputs they are for, "
            "`x=task.x`, or give a function of the input."
        )
    x = finite_matrix("x", x, "example", "input")
    for name, read in plan.inputs:
        if max(read) >= x.shape[1] or plan.columns not in (0, x.shape[1]):
            raise ValueError(
                f"`x` has {x.shape[1]} columns, of which '{name}' reads "
                f"{', '.join(map(str, read))}: they are whole inputs, and `inputs` says which "
                "columns are read."
            )
    columns = {name: finite_array(f"gates['{name}']", gate) for name, gate in given.items()}
    for name, column in columns.items():
        if column.shape != (len(x),):
            raise ValueError(
                f"`gates['{name}']` must be one number for each of the {len(x)} examples, got "
                f"shape {column.shape}."
            )
    table = np.stack(list(columns.values()), axis=1)
    x, first, inverse = np.unique(x, axis=0, return_index=True, return_inverse=True)
    if (differ := np.any(table[first][inverse.ravel()] != table, axis=1)).any():
        raise ValueError(
            f"`gates` differ between examples with the same input, such as example "
            f"{int(np.argmax(differ))}. Append what tells them apart to the inputs, and name the "
            "columns that the network reads in `inputs`."
        )
    _check_open(plan, columns)
    return Gating((*columns, *rules), tuple(rules.values()), x, table[first])


def _check_open(plan: Plan, columns: Mapping[str, Float[np.ndarray, " example"]]) -> None:
    """Raise if no path reaches an output for any example; rules may open anywhere."""
    gate = lambda name: columns[name] != 0 if name in columns else np.array(True)
    reached = {name: gate(name) for name, _ in plan.inputs}
    for node, _ in plan.nodes:
        ways = [reached[a] & gate(f"{a}-{b}") for a, b in plan.edges if b == node]
        reached[node] = gate(node) & functools.reduce(np.logical_or, ways)
    if closed := [node for node in plan.outputs if not reached[node].any()]:
        raise ValueError(
            f"No path reaches the output '{closed[0]}' for any of the examples: its gate is "
            "closed for all of them, or one on every way there."
        )
