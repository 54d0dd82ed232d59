"""The trained networks at the end of a run."""

import ast
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ._activations import Activation, ActivationLike, activation_named
from ._deep_linear import deep_linear_from
from ._deep_network import deep_network_from
from ._diagonal import diagonal_linear_from
from ._gated import Gated
from ._gated_graph import Plan
from ._gating import Gating, Rule
from ._labels import labels_from
from ._layer import layer_from
from ._network import AbstractNetwork
from ._units import (
    AbstractUnit,
    ConvolutionUnit,
    LinearAttentionUnit,
    NeuronUnit,
    SoftmaxAttentionUnit,
)

if TYPE_CHECKING:
    import xarray as xr

FINAL = "final_"
"""Prefix of weights in a dataset that holds weights at the end of the run only."""

_SWEPT = ("time", "learning_rate", "momentum")  # coordinates that are no labels of networks
_UNITS: dict[str, Any] = {
    each.__name__: each
    for each in (NeuronUnit, ConvolutionUnit, LinearAttentionUnit, SoftmaxAttentionUnit)
}


def final_networks(
    run: "xr.Dataset | xr.DataTree | str | os.PathLike[str]",
    *,
    node: str = "simulation",
    unit: AbstractUnit | None = None,
    activations: "ActivationLike | list[ActivationLike] | None" = None,
    gates: Mapping[str, Rule] | None = None,
) -> AbstractNetwork:
    """Return the trained networks at the end of a run, with their labels.

    Training the returned networks starts a new run. To continue a run use the method `extend` of
    its trajectory.

    **Arguments:**

    - `run`: dataset made by `trajectory.to_dataset()`, a tree with such a dataset, or the folder of
      a saved run.
    - `node`: name of the dataset in a tree or folder.
    - `unit`, `activations`: needed if the network uses your own activation functions, of which a
      run stores the names only. Give `unit` as for `layer_from`, and `activations` as for
      `deep_network_from`.
    - `gates`: gates of a gated network that are functions, by the names of their nodes and edges. A
      run stores array gates, but no functions.

    **Example:**

    >>> import festina
    >>> from festina.networks import deep_linear_from, final_networks
    >>> from festina.tasks import from_arrays
    >>> task = from_arrays([[1.0], [-1.0]], [[2.0], [-2.0]])
    >>> network = deep_linear_from([[[0.5]], [[0.5]]])
    >>> run = festina.gradient_descent(network, task, 0.1, 100)
    >>> final_networks(run.to_dataset()).end_to_end().round(3)
    array([[2.]])
    """
    data = _dataset(run, node)
    kind = data.attrs.get("network")
    if kind not in _BUILD:
        raise ValueError(
            f"`run` must hold networks of `festina.networks` ({', '.join(_BUILD)}), but its "
            f"attribute `network` is {kind!r}. For other networks give the arrays to `layer_from` "
            "or `deep_network_from`."
        )
    dims = tuple(map(str, data["saves"].dims))
    last = data.isel(time=-1) if "time" in data["loss"].dims else data.isel(save=-1)
    edges = {"-".join(edge) for edge in data.attrs.get("graph", [(), (), ()])[2]}
    is_part = lambda name: _is_part(name) or name in edges
    names = [str(name) for name in data.variables]
    at_end = {
        name.removeprefix(FINAL): name
        for name in names
        if name.startswith(FINAL) and name not in edges and is_part(name.removeprefix(FINAL))
    }
    # If the dataset has final weights, a variable with the name of a part can be any observable.
    called = at_end or {name: name for name in filter(is_part, names)}
    parts = {part: np.asarray(last[name].values, float) for part, name in called.items()}
    if not parts:
        raise ValueError(
            f"`run` holds no weights, neither over time (u, v, …) nor at its end ({FINAL}u, …). "
            "Keep all variables that `to_dataset` returns."
        )
    given = gates if kind == "Gated" else activations
    network = _BUILD[kind](data.attrs, parts, unit, given)
    coords = {
        str(name): (tuple(map(str, each.dims)), np.asarray(each.values))
        for name, each in data.coords.items()
        if set(each.dims) <= set(dims) and name not in _SWEPT
    }
    return network.with_labels(labels_from(coords, dims))


def _dataset(run: Any, node: str) -> "xr.Dataset":
    import xarray as xr

    if isinstance(run, str | os.PathLike):
        from .._run import load

        run = load(run)
    if isinstance(run, xr.DataTree):
        if node not in run.children:
            raise ValueError(
                f"`run` has no node '{node}'. Its nodes are: {', '.join(map(str, run.children))}."
            )
        run = run[node].to_dataset()
    if not isinstance(run, xr.Dataset):
        raise ValueError(
            "`run` must be a dataset, a tree or the folder of a saved run, got "
            f"{type(run).__name__}. The final networks of a trajectory are its attribute `final`."
        )
    return run


def _is_matrix(name: str) -> bool:
    return name[:1] == "w" and name[1:].isdigit()


def _is_part(name: str) -> bool:
    return name in ("u", "v") or _is_matrix(name)


def _layer(attributes: Any, parts: Any, unit: AbstractUnit | None, _: Any) -> AbstractNetwork:
    return layer_from(unit or _unit(attributes["unit"]), parts["u"], parts["v"])


def _deep_network(
    attributes: Any, parts: Any, unit: AbstractUnit | None, activations: Any
) -> AbstractNetwork:
    if activations is None:
        activations = [_known(name) for name in attributes["activations"]]
    return deep_network_from(
        unit or _unit(attributes["unit"]),
        [parts["u"], *_matrices(parts)],
        activations=activations,
        skips=[(source, target) for source, target in attributes["skips"]],
    )


def _gated(attributes: Any, parts: Any, _: Any, gates: Mapping[str, Rule] | None) -> Gated:
    plan = Plan(*_tuples(attributes["graph"]))
    names = tuple(attributes["gates"])
    examples, table = (
        np.array(attributes[each], ndmin=2) for each in ("gate_inputs", "gate_table")
    )
    rules = names[table.shape[1] :]
    if surplus := [name for name in gates or {} if name not in rules]:
        raise ValueError(
            f"`gates` has {surplus[0]!r}, but the gates of the run that are functions are: "
            f"{', '.join(map(repr, rules)) or 'none'}. Remove {surplus[0]!r}."
        )
    if missing := [name for name in rules if name not in (gates or {})]:
        raise ValueError(
            f"`run` was made with gates that are functions, of {', '.join(map(repr, missing))}. A "
            "run does not store functions: give them in `gates`."
        )
    found = Gating(names, tuple((gates or {})[name] for name in rules), examples, table)
    weights = tuple(parts[f"{source}-{target}"] for source, target in plan.edges)
    return Gated(weights, plan, found)


def _tuples(given: Any) -> Any:
    """Return nested lists as nested tuples, because Zarr stores tuples as lists."""
    return tuple(map(_tuples, given)) if isinstance(given, list | tuple) else given


def _matrices(parts: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return W₁, W₂, … in numerical order; in alphabetical order w10 would come before w2."""
    return [parts[name] for name in sorted(filter(_is_matrix, parts), key=lambda n: int(n[1:]))]


_BUILD: dict[str, Any] = {
    "Layer": _layer,
    "DeepNetwork": _deep_network,
    "Gated": _gated,
    "DeepLinear": lambda _, parts, *__: deep_linear_from(_matrices(parts)),
    "DiagonalLinear": lambda _, parts, *__: diagonal_linear_from(parts["u"], parts["v"]),
}


def _unit(text: str) -> AbstractUnit:
    """Return the unit that a `repr` describes, without executing any code."""
    try:
        call = ast.parse(text, mode="eval").body
        assert isinstance(call, ast.Call), "the repr of a unit is a call"
        options = {}
        for keyword in call.keywords:
            value = keyword.value
            if keyword.arg == "activation":  # Activation(name='…')
                assert isinstance(value, ast.Call), "the repr of an activation is a call"
                options["activation"] = _known(ast.literal_eval(value.keywords[0].value))
            else:
                options[keyword.arg] = ast.literal_eval(value)
        return _UNITS[ast.unparse(call.func)](**options)
    except (SyntaxError, AssertionError, KeyError, IndexError, TypeError):
        raise ValueError(
            f"`run` was made with units {text}, which are not units of `festina.networks`. Give "
            "the unit as `unit`."
        ) from None


def _known(name: str) -> Activation:
    found = activation_named(name)
    if found is None:
        raise ValueError(
            f"`run` was made with the activation '{name}', which is not one of the library's. "
            "Give your function, as `unit` (for example NeuronUnit(function)) or in `activations`."
        )
    return found
