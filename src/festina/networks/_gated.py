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
    """The columns of x that the inputs read, and the gates behind them.

    Where gates are equal the network is linear, so that the moments of every pattern of gates
    suffice. What an output should say while its gate is closed does not count.
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
        """Return targets, 0 where the gate of an output is closed; raises for unknown gates."""
        names = self.gating.names
        if not np.isfinite(gates := psi[:, len(psi.T) - self.gates :]).all():
            sample, gate = np.argwhere(~np.isfinite(gates))[0]
            raise ValueError(
                f"The gate of '{names[gate]}' is not known for sample {sample}: `x` of the "
                "network does not have this input, or its rule gives no number."
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
                f"{input_shape}. Which of them are read is said by `inputs`."
            )


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class Gated(AbstractGraphNetwork):
    r"""Gated deep linear network: $h_v = g_v \sum_e g_e W_e h_{s(e)}$ over the edges to v.

    Gates are numbers of each input: see `gated`. `weights` are those of the edges, each
    `(out, in)`; axes in front make a batch of networks. Examples that have all their gates in
    common enter training by their moments alone, and targets of an output whose gate is closed do
    not count.
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
        """Draw the graph from left to right, edges as thick as they are strong, and its gates.

        Gates have a sign for each of their patterns, or with `task` and `label` for each value of
        that label. Gates that are functions need a `task`. `style` goes to `Axes.plot`, for the
        edges.
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
        if np.isnan(outputs).any():  # of gates, of which it says which
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
                f"Network and task do not fit: the task has {outputs} outputs, the network's "
                f"nodes {', '.join(self.plan.outputs)} are {self.outputs}."
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

    - `nodes`: name and width of every node, `{"x": 2, "h": 8, "y": 1}`. Nodes that no edge enters
      read the input, those that none leaves are the output, in this order.
    - `paths`: the edges, as chains of names: `["x-h-y"]` is a network with one hidden layer,
      `["x-a-y", "x-b-y"]` one with two pathways. An edge that is named twice is shared.
    - `gates`: of nodes (`"a"`) and edges (`"x-a"`); what has none is open, 1. Either numbers, one
      for each row of `x`, or a function of one input. Labels make a gate by comparison:
      `{"a": task.labels["context"] == 0}`. Any real number will do.
    - `x`: the inputs that such numbers are for, `task.x`. Of others they are unknown: the
      network says NaN, and `predict` which gate is missing.
    - `inputs`: columns of the input that each input node reads, `{"x": range(2)}`; others, such as
      a context that gates know, need no reader. By default they follow each other, and there are
      no more columns than that.
    - `scale`: standard deviation of the initial weights, or an array of them.
    - `key`: randomness. An array of keys makes a batch of networks, one each; `scale` and `key`
      broadcast against each other.
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
    """Return a gated network from given weights of its edges, `{"x-h": …, "h-y": …}`, checked.

    Each is `(*batch, out, in)`, from which nodes have their widths; inputs and outputs are in the
    order in which edges name them. The rest as in `gated`.
    """
    arrays = {edge: finite_array(f"weights['{edge}']", each) for edge, each in weights.items()}
    nodes: dict[str, int] = {}
    for edge, array in arrays.items():
        if array.ndim < 2 or edge.count("-") != 1:
            raise ValueError(
                '`weights` are matrices (*batch, out, in) of edges, named like "x-h", got '
                f"{edge!r} of shape {array.shape}."
            )
        for name, width in zip(edge.split("-"), array.shape[:-3:-1], strict=True):
            if nodes.setdefault(name, width) != width:
                raise ValueError(
                    f"`weights['{edge}']` has {width} for the width of '{name}', others have "
                    f"{nodes[name]}."
                )
    if len({array.shape[:-2] for array in arrays.values()}) > 1:
        raise ValueError("`weights` must have the same batch axes for every edge.")
    plan = _plan(nodes, list(arrays), inputs)
    return Gated(tuple(arrays.values()), plan, gating(gates, x, plan))


def _plan(
    nodes: Mapping[str, int], paths: Sequence[str], inputs: Mapping[str, Sequence[int]] | None
) -> Plan:
    """Return the graph by names, its nodes along the edges."""
    widths = {name: whole_number(f"nodes['{name}']", width) for name, width in nodes.items()}
    if bad := [name for name in widths if not name or "-" in name or name != name.strip()]:
        raise ValueError(
            f"A node cannot be called {bad[0]!r}: names have no '-' and no space around them."
        )
    if isinstance(paths, str) or not all(isinstance(path, str) for path in paths):
        raise ValueError(f'`paths` must be a list of chains like ["x-h-y"], got {paths!r}.')
    chains = [[name.strip() for name in path.split("-")] for path in paths]
    edges = list(dict.fromkeys(pair for chain in chains for pair in itertools.pairwise(chain)))
    if not edges:
        raise ValueError('`paths` has no edge. One hidden layer is ["x-h-y"].')
    if missing := sorted({name for edge in edges for name in edge} - widths.keys()):
        raise ValueError(
            f"`paths` leads through {', '.join(map(repr, missing))}, which `nodes` does not have: "
            f"there are {', '.join(widths)}."
        )
    if alone := [name for name in widths if not any(name in edge for edge in edges)]:
        raise ValueError(f"`nodes` has {', '.join(map(repr, alone))}, which no path leads through.")
    targets, sources = {target for _, target in edges}, {source for source, _ in edges}
    sorter = graphlib.TopologicalSorter({name: [] for name in widths})
    for source, target in edges:
        sorter.add(target, source)
    try:
        ordered = list(sorter.static_order())
    except graphlib.CycleError as error:
        raise ValueError(f"`paths` leads in a circle: {'-'.join(error.args[1])}.") from None
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
            f"`inputs` must name the columns of {', '.join(entries)}, which no edge enters, got "
            f"{', '.join(inputs)}."
        )
    columns = {name: whole_numbers(f"inputs['{name}']", inputs[name], 0) for name in entries}
    for name, found in columns.items():
        if len(found) != widths[name] or len(set(found)) < len(found):
            raise ValueError(
                f"`inputs['{name}']` must be {widths[name]} different columns from 0 up, got "
                f"{found}."
            )
    return columns
