"""Gates of a network's nodes and edges, as functions of the input."""

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
"""JAX function that returns a gate for one input."""


@dataclass(frozen=True, eq=False)
class Gating:
    """All gates of a network: first the gates from a table, then those from functions (`rules`).

    Row i of the `table` has the gates for the input in row i of `examples`. For an input that is
    not in `examples`, the gates from the table are NaN.
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
    """Return the gates of a graph from a user's arrays and functions; raise for unfit gates."""
    gates = {} if gates is None else gates
    if not isinstance(gates, Mapping):
        raise ValueError(
            f"`gates` must be a mapping from names of nodes or edges to gates, got {gates!r}."
        )
    known = (*plan.widths, *(f"{source}-{target}" for source, target in plan.edges))
    if unknown := [name for name in gates if name not in known]:
        raise ValueError(
            f"`gates` has {unknown[0]!r}, which is neither a node nor an edge. The nodes and edges "
            f"are {', '.join(known)}."
        )
    rules = {name: gate for name, gate in gates.items() if callable(gate)}
    given = {name: gate for name, gate in gates.items() if not callable(gate)}
    if not given:
        return Gating(tuple(rules), tuple(rules.values()))
    if x is None:
        raise ValueError(
            f"`gates` of {', '.join(map(repr, given))} are arrays, but the inputs of their entries "
            "are unknown: give `x=task.x`, or gates that are functions of the input."
        )
    x = finite_matrix("x", x, "example", "input")
    for name, read in plan.inputs:
        if max(read) >= x.shape[1] or plan.columns not in (0, x.shape[1]):
            raise ValueError(
                f"`x` has {x.shape[1]} columns, but node '{name}' reads the columns "
                f"{', '.join(map(str, read))}. Give complete inputs as `x`, and as `inputs` the "
                "columns that each node reads."
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
            f"{int(np.argmax(differ))}. Append columns to the inputs that tell these examples "
            "apart, and name the columns that the network reads in `inputs`."
        )
    _check_open(plan, columns)
    return Gating((*columns, *rules), tuple(rules.values()), x, table[first])


def _check_open(plan: Plan, columns: Mapping[str, Float[np.ndarray, " example"]]) -> None:
    """Raise if an output has no open path for any example; functions count as open gates."""
    gate = lambda name: columns[name] != 0 if name in columns else np.array(True)
    reached = {name: gate(name) for name, _ in plan.inputs}
    for node, _ in plan.nodes:
        ways = [reached[a] & gate(f"{a}-{b}") for a, b in plan.edges if b == node]
        reached[node] = gate(node) & functools.reduce(np.logical_or, ways)
    if closed := [node for node in plan.outputs if not reached[node].any()]:
        raise ValueError(
            f"No path reaches the output '{closed[0]}' for any of the examples: its own gate is "
            "closed for all examples, or every path to it has a closed gate. Open a gate for some "
            "example."
        )
