"""Return the rule that moves the weights: given by the user, or read from a PyTorch optimiser."""

from dataclasses import replace
from typing import TYPE_CHECKING

import jax

from ..._narrowing._pytorch import is_module, is_optimizer
from ..._narrowing._trees import is_real
from ._adam import Adam
from ._own_steps import OwnSteps
from ._problem import Problem
from ._rules import parts
from ._sgd import SGD
from ._vectors import Vector

if TYPE_CHECKING:
    import torch

_KNOWN = "SGD (with momentum or Nesterov's), Adam and AdamW"


def rule_of(
    optimizer: object, problem: Problem, *, every_gradient: bool = False
) -> SGD | Adam | OwnSteps:
    """Return the rule that an optimiser, or its description, applies to the weights."""
    model = problem.model
    if is_module(model) and is_optimizer(optimizer):
        if every_gradient:
            return OwnSteps(model, optimizer)
        return _read(optimizer, model, problem)
    if every_gradient:
        raise ValueError(
            "`every_gradient` runs a PyTorch optimiser on a module: give both, or leave it out."
        )
    return _stated(optimizer, problem)


def _stated(rule: object, problem: Problem) -> SGD | Adam:
    """Return the user's rule with one rate, and one array of its state, for each array of weights.

    Raises `ValueError` if the number of rates or a shape does not fit.
    """
    if not isinstance(rule, SGD | Adam):
        raise ValueError(
            f"`optimizer` is a {type(rule).__name__}, expected {_KNOWN}. Describe it by "
            "`festina.own.SGD(lr=0.01)` or `festina.own.Adam(lr=1e-3)`."
        )
    count, found = len(problem.names), dict[str, object]()
    for name, rates in (("lr", rule.lr), ("weight_decay", rule.weight_decay)):
        found[name] = each = parts(rates, count)
        if len(each) != count:
            raise ValueError(
                f"`{name}` is {each}, expected one number, or one for each of the {count} "
                f"arrays of weights: {', '.join(problem.names)}."
            )
    if isinstance(rule, Adam) and rule.moments is not None:
        found["moments"] = tuple(_like(problem, "moments", each) for each in rule.moments)
    if isinstance(rule, SGD) and rule.velocity is not None:
        found["velocity"] = _like(problem, "velocity", rule.velocity)
    return replace(rule, **found)


def _like(problem: Problem, name: str, given: object) -> Vector:
    """Return a tree with the structure of the model as a vector like the weights."""
    leaves = [leaf for leaf in jax.tree.leaves(given) if is_real(leaf)]
    weights = problem.start.parts
    if [leaf.shape for leaf in leaves] != [w.shape for w in weights]:
        raise ValueError(
            f"`{name}` does not have the shapes of the weights: expected trees like this model, "
            "as Optax keeps them (`mu` and `nu` of `ScaleByAdamState`, `trace` of `TraceState`)."
        )
    return Vector(tuple(problem.array(a, w) for a, w in zip(leaves, weights, strict=True)))


def _read(
    optimizer: "torch.optim.Optimizer", model: "torch.nn.Module", problem: Problem
) -> SGD | Adam:
    """Return the rule and the state of a PyTorch optimiser."""
    kind = type(optimizer).__name__
    if kind not in ("SGD", "Adam", "AdamW"):
        raise ValueError(
            f"`optimizer` is {kind}, expected {_KNOWN}. With `every_gradient=True` any optimiser "
            "is run ahead itself, one gradient a step, unless its steps need a closure."
        )
    named = dict(model.named_parameters())
    moving = [named[name] for name in problem.names]
    group_of = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    groups = [group_of[id(p)] for p in moving]
    states = [optimizer.state.get(p, {}) for p in moving]
    first = groups[0]
    for key in ("maximize", "amsgrad"):
        if any(group.get(key) for group in groups):
            raise ValueError(
                f"`optimizer` has `{key}`, which the forecast does not model. Try "
                "`every_gradient=True`."
            )
    for key in ("momentum", "nesterov", "dampening", "betas", "eps"):
        if any(group.get(key) != first.get(key) for group in groups):
            raise ValueError(
                f"The groups of `optimizer` differ in `{key}`, but only learning rates and weight "
                "decay may differ. `every_gradient=True` runs the optimiser itself."
            )

    def kept(key: str) -> Vector:
        """Return one part of the optimiser's state, with zeros for missing arrays."""
        pairs = zip((state.get(key) for state in states), problem.start.parts, strict=True)
        return Vector(tuple(w * 0.0 if a is None else problem.array(a, w) for a, w in pairs))

    rates = {name: tuple(float(group[name]) for group in groups) for name in ("lr", "weight_decay")}
    if kind == "SGD":
        options = {key: float(first[key]) for key in ("momentum", "dampening")}
        begun = any(state.get("momentum_buffer") is not None for state in states)
        velocity = kept("momentum_buffer") if begun else None
        return SGD(**rates, **options, nesterov=bool(first["nesterov"]), velocity=velocity)
    one, two = first["betas"]
    return Adam(
        **rates,
        betas=(float(one), float(two)),
        eps=float(first["eps"]),
        decoupled=kind == "AdamW" or bool(first.get("decoupled_weight_decay")),
        moments=(kept("exp_avg"), kept("exp_avg_sq")),
        step=max(float(state.get("step", 0.0)) for state in states),
    )
