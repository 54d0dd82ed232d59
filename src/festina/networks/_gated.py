"""Gated deep linear networks on any graph."""

import graphlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._checks import finite_array, whole_number, whole_numbers
from .._precision import float64
from .._pytree import pytree
from .._types import Array, ArrayLike, Keys
from ._build import random_parts
from ._gated_graph import GatedGraph, Plan, gated_graph
from ._gating import Gating, Rule, gating
from ._graph_figure import draw_gated
from ._network import AbstractGraphNetwork
from ._view import AbstractView, Shape

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..tasks import Task


@dataclass(frozen=True)
class GatedView(AbstractView):
    """Features of a gated network: the columns of x that its input nodes read, then its gates.

    For examples with equal gates the network is linear, so their moments are sufficient. A target
    of an output whose gate is closed does not enter the loss.
    """

    plan: Plan
    gating: Gating

    @property
    def fixed_features(self) -> bool:
        return True

    @property
    def gates(self) -> int:
        return len(self.gating.names)

    @property
    def output_gates(self) -> tuple[int, ...]:
        names = self.gating.names
        whole = set(self.plan.outputs) <= set(names)
        return tuple(names.index(name) - len(names) for name in self.plan.outputs if whole)

    @property
    def degree(self) -> int | None:
        return None if self.gates else 1

    def wanted(
        self, psi: Float[np.ndarray, "sample feature"], y: Float[np.ndarray, "sample output"]
    ) -> Float[np.ndarray, "sample output"]:
        """Return the targets, 0 where the gate of an output is closed; raise if a gate is NaN."""
        names = self.gating.names
        if not np.isfinite(gates := psi[:, len(psi.T) - self.gates :]).all():
            sample, gate = np.argwhere(~np.isfinite(gates))[0]
            raise ValueError(
                f"The gate of '{names[gate]}' is not known for sample {sample}: its input is not "
                "among the inputs `x` that the network was made with, or the gate's function "
                "returned no finite number. Make the network with the `x` of this task."
            )
        open_ = [
            np.repeat(gates[:, names.index(name), None] != 0, width, axis=1)
            if name in names
            else np.full((len(psi), width), True)
            for name, width in self.plan.nodes[-self.plan.ends :]
        ]
        return np.where(np.concatenate(open_, axis=1), y, 0.0)

    def features(self, x: Float[Array, " input"]) -> Float[Array, " feature"]:
        columns = np.array([column for _, columns in self.plan.inputs for column in columns])
        return jnp.concatenate((x[columns], self.gating(x)))

    def check_input(self, input_shape: Shape) -> None:
        least = 1 + max(column for _, columns in self.plan.inputs for column in columns)
        known = self.gating.examples.shape[1] or self.plan.columns
        if input_shape != (needed := known or max(least, *input_shape, 0),):
            raise ValueError(
                f"Network and inputs do not fit: the network takes vectors of {needed} numbers"
                f"{', as `x` of its gates' * bool(self.gates)}, got inputs of shape "
                f"{input_shape}. The argument `inputs` selects the columns that a node reads."
            )


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class Gated(AbstractGraphNetwork):
    r"""Gated deep linear network on a directed graph, with a gate at each node and edge.

    The activity of node v is $h_v = g_v \sum_e g_e W_e h_{s(e)}$, a sum over the edges e from nodes
    s(e) to v. The gates g are numbers that depend on the input. A target of an output whose gate is
    closed does not enter the loss. In training, samples with equal gates are replaced by their
    moments if that makes training cheaper.

    `weights` holds one matrix `(*batch, out, in)` for each edge. Make gated networks with `gated`
    or `gated_from`.

    **Example:**

    >>> from festina.networks import gated_from
    >>> x = [[1.0], [2.0]]
    >>> weights = {"x-a": [[1.0]], "a-y": [[3.0]], "x-y": [[1.0]]}
    >>> network = gated_from(weights, gates={"a": [0, 1]}, x=x)
    >>> network
    Gated(x 1, a 1, y 1; x-a, a-y, x-y, gates of a)
    >>> network.predict(x)
    array([[1.],
           [8.]])
    """

    weights: tuple[Float[Array, "..."], ...]
    plan: Plan = field(metadata={"static": True})
    gating: Gating = field(default_factory=Gating, metadata={"static": True})

    def _described(self) -> str:
        nodes = ", ".join(f"{name} {width}" for name, width in self.plan.widths.items())
        gated = f", gates of {', '.join(self.gating.names)}" if self.gating.names else ""
        return f"{nodes}; {', '.join(self.part_axes)}{gated}"

    def hidden(self, x: Float[Array, "..."]) -> tuple[Float[Array, "..."], ...]:
        """Return the activity of every node but the outputs: one network, one example."""
        widths = [width for _, width in self.plan.nodes[: -self.plan.ends]]
        together = jnp.concatenate((jnp.zeros(0), *super().hidden(x)))
        return tuple(jnp.split(together, np.cumsum(widths))[: len(widths)])

    def draw(
        self,
        ax: "Axes | None" = None,
        *,
        task: "Task | None" = None,
        label: str | None = None,
        **style: Any,
    ) -> "Axes":
        """Draw the graph from left to right, with its gates; return the axes.

        The thickness of an edge is proportional to the norm of its weights. Next to a gated node or
        edge stands one sign for each gate pattern: ● open, ◐ partly open, ○ closed.

        **Arguments:**

        - `ax`: axes to draw on, by default new ones.
        - `task`: task for whose inputs the gates are shown. Gates that are functions need a `task`.
        - `label`: label of the `task`. With a `label` the signs stand for the values of this label
          instead of the gate patterns.
        - `style`: options of `Axes.plot` for the edges.
        """
        return draw_gated(self, ax, task, label, style)

    @property
    def part_axes(self) -> dict[str, tuple[str, ...]]:
        return {f"{a}-{b}": (f"{b}_unit", f"{a}_unit") for a, b in self.plan.edges}

    def with_parts(self, *parts: Float[Array, "..."]) -> "Gated":
        return Gated(parts, self.plan, self.gating)._labelled_like(self)

    @property
    def structure(self) -> GatedGraph:
        return gated_graph(self.plan, self.gating.names)

    @property
    def view(self) -> GatedView:
        return GatedView(self.plan, self.gating)

    @property
    def attributes(self) -> dict[str, str | list]:
        return {
            **super().attributes,
            "graph": [self.plan.inputs, self.plan.nodes, self.plan.edges, self.plan.columns],
            "gates": list(self.gating.names),
            "gate_inputs": self.gating.examples.tolist(),
            "gate_table": self.gating.table.tolist(),
        }

    @float64
    def predict(self, x: ArrayLike) -> Float[np.ndarray, "*batch sample output"]:
        """Return outputs of every network of a batch for examples `(sample, ...)`, in float64."""
        outputs = super().predict(x)
        if np.isnan(outputs).any():  # `wanted` raises, with the name of the gate that is unknown
            psi = np.stack([self.features(each) for each in np.asarray(x, float)])
            self.view.wanted(psi, outputs.reshape(-1, *outputs.shape[-2:])[0])
        return outputs

    @property
    def outputs(self) -> int:
        return sum(self.plan.widths[name] for name in self.plan.outputs)

    def check_fit(self, input_shape: tuple[int, ...], outputs: int) -> None:
        self.view.check_input(input_shape)
        if outputs != self.outputs:
            raise ValueError(
                f"Network and task do not fit: the task has {outputs} outputs, but the network's "
                f"output nodes {', '.join(self.plan.outputs)} have {self.outputs}."
            )


@float64
def gated(
    nodes: Mapping[str, int],
    paths: Sequence[str],
    *,
    gates: Mapping[str, ArrayLike | Rule] | None = None,
    x: ArrayLike | None = None,
    inputs: Mapping[str, Sequence[int]] | None = None,
    scale: ArrayLike,
    key: Keys,
) -> Gated:
    """Draw a gated deep linear network with weights from N(0, scale²).

    **Arguments:**

    - `nodes`: name and width of every node, such as `{"x": 2, "h": 8, "y": 1}`. Nodes without an
      incoming edge are inputs. Nodes without an outgoing edge are outputs, in the order given.
    - `paths`: edges, as chains of node names. `["x-h-y"]` is a network with one hidden layer,
      `["x-a-y", "x-b-y"]` has two pathways. An edge that is named twice is shared by its pathways.
    - `gates`: gates of nodes (`"a"`) and edges (`"x-a"`). Each gate is an array with one real
      number for each row of `x`, or a function of one input. A comparison with a label makes a
      gate, such as `{"a": task.labels["context"] == 0}`. Nodes and edges without a gate are always
      open.
    - `x`: inputs for which array gates are given, usually `task.x`. For other inputs array gates
      are unknown: a call returns NaN and `predict` raises `ValueError`.
    - `inputs`: columns of the input that each input node reads, such as `{"x": range(2)}`. Columns
      that no node reads are allowed. By default the input nodes read consecutive columns, and the
      input has no further columns.
    - `scale`: standard deviation of the initial weights, or an array of standard deviations.
    - `key`: random key. An array of keys draws a batch of networks, one for each key. `scale` and
      `key` broadcast against each other.

    **Example:**

    >>> import jax
    >>> from festina.networks import gated
    >>> nodes, x = {"x": 2, "a": 3, "b": 3, "y": 1}, [[1.0, 0.0], [0.0, 1.0]]
    >>> gates = {"a": [1, 0], "b": [0, 1]}
    >>> paths = ["x-a-y", "x-b-y"]
    >>> gated(nodes, paths, gates=gates, x=x, scale=0.1, key=jax.random.key(0))
    Gated(x 2, a 3, b 3, y 1; x-a, a-y, x-b, b-y, gates of a, b)
    """
    plan = _plan(nodes, paths, inputs)
    rules = gating(gates, x, plan)
    weights, labels = random_parts(plan.shapes, scale, key)
    return Gated(weights, plan, rules).with_labels(labels)


def gated_from(
    weights: Mapping[str, ArrayLike],
    *,
    gates: Mapping[str, ArrayLike | Rule] | None = None,
    x: ArrayLike | None = None,
    inputs: Mapping[str, Sequence[int]] | None = None,
) -> Gated:
    """Return a gated network with given weights, such as `{"x-h": …, "h-y": …}`.

    **Arguments:**

    - `weights`: mapping from each edge to its weights `(*batch, out, in)`, which determine the
      widths of the nodes. Inputs and outputs are in the order in which the edges name them.
    - `gates`, `x`, `inputs`: gates of nodes and edges, inputs for which array gates are given, and
      columns that each input node reads.

    Raises `ValueError` if the shapes do not match.

    **Example:**

    >>> from festina.networks import gated_from
    >>> weights = {"x-h": [[1.0, 1.0]], "h-y": [[2.0]]}
    >>> network = gated_from(weights, gates={"h": lambda x: x[0] > 0})
    >>> network.predict([[1.0, 3.0], [-1.0, 3.0]])
    array([[8.],
           [0.]])
    """
    arrays = {edge: finite_array(f"weights['{edge}']", each) for edge, each in weights.items()}
    nodes: dict[str, int] = {}
    for edge, array in arrays.items():
        if array.ndim < 2 or edge.count("-") != 1:
            raise ValueError(
                '`weights` must be matrices (*batch, out, in) of edges, named like "x-h", got '
                f"{edge!r} of shape {array.shape}."
            )
        for name, width in zip(edge.split("-"), array.shape[:-3:-1], strict=True):
            if nodes.setdefault(name, width) != width:
                raise ValueError(
                    f"`weights['{edge}']` has width {width} at '{name}', other weights have width "
                    f"{nodes[name]}. All weights at a node must agree on its width."
                )
    if len({array.shape[:-2] for array in arrays.values()}) > 1:
        found = sorted({array.shape[:-2] for array in arrays.values()})
        raise ValueError(f"`weights` must have the same batch axes for every edge, got {found}.")
    plan = _plan(nodes, list(arrays), inputs)
    return Gated(tuple(arrays.values()), plan, gating(gates, x, plan))


def _plan(
    nodes: Mapping[str, int], paths: Sequence[str], inputs: Mapping[str, Sequence[int]] | None
) -> Plan:
    """Return the graph of named nodes, sorted so that every edge leads to a later node."""
    widths = {name: whole_number(f"nodes['{name}']", width) for name, width in nodes.items()}
    if bad := [name for name in widths if not name or "-" in name or name != name.strip()]:
        raise ValueError(
            f"A node cannot be called {bad[0]!r}: names must not be empty, contain '-', or start "
            "or end with a space."
        )
    if isinstance(paths, str) or not all(isinstance(path, str) for path in paths):
        raise ValueError(f'`paths` must be a list of chains like ["x-h-y"], got {paths!r}.')
    chains = [[name.strip() for name in path.split("-")] for path in paths]
    edges = list(dict.fromkeys(pair for chain in chains for pair in itertools.pairwise(chain)))
    if not edges:
        raise ValueError('`paths` has no edge. One hidden layer is ["x-h-y"].')
    if missing := sorted({name for edge in edges for name in edge} - widths.keys()):
        raise ValueError(
            f"`paths` leads through {', '.join(map(repr, missing))}, which `nodes` does not have. "
            f"The nodes are {', '.join(widths)}."
        )
    if alone := [name for name in widths if not any(name in edge for edge in edges)]:
        raise ValueError(
            f"`nodes` has {', '.join(map(repr, alone))}, which no path leads through. Remove "
            f"{'it' if len(alone) == 1 else 'them'}, or add a path."
        )
    targets, sources = {target for _, target in edges}, {source for source, _ in edges}
    sorter = graphlib.TopologicalSorter({name: [] for name in widths})
    for source, target in edges:
        sorter.add(target, source)
    try:
        ordered = list(sorter.static_order())
    except graphlib.CycleError as error:
        raise ValueError(
            f"`paths` has the cycle {'-'.join(error.args[1])}. The graph must have no cycles."
        ) from None
    entries = [name for name in widths if name not in targets]
    ends = [name for name in widths if name not in sources]
    hidden = [name for name in ordered if name not in (*entries, *ends)]
    columns = _columns(entries, widths, inputs)
    layers = tuple((name, widths[name]) for name in (*hidden, *ends))
    known = sum(map(len, columns.values())) if inputs is None else 0
    return Plan(tuple(columns.items()), layers, tuple(edges), known)


def _columns(
    entries: Sequence[str], widths: Mapping[str, int], inputs: Mapping[str, Sequence[int]] | None
) -> dict[str, tuple[int, ...]]:
    if inputs is None:
        borders = np.cumsum([0, *(widths[name] for name in entries)])
        inputs = {name: range(*borders[i : i + 2]) for i, name in enumerate(entries)}
    if set(inputs) != set(entries):
        raise ValueError(
            f"`inputs` must name the columns of {', '.join(entries)}, the nodes without incoming "
            f"edges, got {', '.join(inputs)}."
        )
    columns = {name: whole_numbers(f"inputs['{name}']", inputs[name], 0) for name in entries}
    for name, found in columns.items():
        if len(found) != widths[name] or len(set(found)) < len(found):
            raise ValueError(
                f"`inputs['{name}']` must be {widths[name]} different columns from 0 up, the width "
                f"of the node, got {found}."
            )
    return columns
