"""By which rule somebody's weights move: stated, or read from an optimiser of PyTorch."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax

from ..._checks import real_number
from .._trees import is_real
from ._problem import Problem
from ._vectors import Vector

_KNOWN = "SGD (with momentum or Nesterov's), Adam and AdamW"

Rates = float | tuple[float, ...]
"""One number for all parts of the weights, or one for each."""

Schedule = Callable[[float], float]
"""The learning rate so many steps from now, in units of the present one."""


@dataclass(frozen=True)
class SGD:
    r"""Gradient descent, in mini-batches or not, with momentum or not.

    - `lr`: learning rate $\eta$.
    - `momentum`: $\mu$ of the heavy ball.
    - `nesterov`: whether the gradient is taken ahead of it.
    - `dampening`: of the gradient as it enters the momentum.
    - `weight_decay`: $\lambda$ of $\lambda w$, added to the gradient.
    - `velocity`: the sum of past gradients that momentum keeps, a tree like the model's (`trace` of
      Optax); without it momentum starts anew.
    """

    lr: Rates
    momentum: float = 0.0
    nesterov: bool = False
    dampening: float = 0.0
    weight_decay: Rates = 0.0
    velocity: Any = None

    def __post_init__(self) -> None:
        _check(self, momentum=self.momentum, dampening=self.dampening)

    @property
    def pace(self) -> float:
        r"""Largest rate at which weights follow a steady gradient: $\eta/(1-\mu)$."""
        return max(parts(self.lr)) * self.enters / (1.0 - self.momentum)

    @property
    def enters(self) -> float:
        """Share of a gradient that enters the momentum."""
        return 1.0 - self.dampening if self.momentum else 1.0

    @property
    def bound(self) -> float:
        r"""`pace` times curvature at which descent turns unstable.

        $2(1+\mu)/(1-\mu)$, from a root $-1$ of $\zeta^2 - (1 + \mu - \eta\lambda)\zeta + \mu$;
        Nesterov's momentum divides it by $1 + 2\mu$.
        """
        mu = self.momentum
        return 2.0 * (1 + mu) / (1 - mu) / (1 + 2 * mu if self.nesterov else 1.0)

    def rates(self, square: Vector) -> Vector:
        """Return the rate of every weight, `pace` with each part's own learning rate."""
        lr = parts(self.lr, len(square.parts))
        relative = [self.pace * each / max(lr) for each in lr]
        return square.with_(lambda a: a * 0.0 + 1.0).scaled(relative)

    def steps(self, growth: float, rate: float = 1.0) -> float:
        r"""Steps that a unit of flow time takes where the gradient grows at the rate `growth`.

        What grows as $e^{at}$ along the flow grows by $\zeta$ a step, the larger root of
        $\zeta^2 - (1 + \mu + \eta a)\zeta + \mu = 0$, so that the unit takes $a/\log\zeta$ steps:
        $(1 - \mu)/\eta$ for slow growth. With Nesterov's momentum the factor $1 + \eta a$ stands
        before $\mu$ as well. `rate` is by how much the learning rate is another one by now.
        """
        mu = self.momentum
        eta = rate * max(parts(self.lr)) * self.enters
        slow = (1.0 - mu) / eta
        a = eta * growth
        b, c = ((1 + mu) * (1 + a), mu * (1 + a)) if self.nesterov else (1 + mu + a, mu)
        root = b * b - 4 * c
        if abs(a) < 1e-6 or growth < 0.0 or root <= 0.0:
            return slow
        return growth / math.log(0.5 * (b + math.sqrt(root)))


@dataclass(frozen=True)
class Adam:
    r"""Adam, with its state: what it remembers decides where it goes.

    - `lr`, `betas`, `eps`: as everywhere.
    - `weight_decay`: added to the gradient, or with `decoupled` taken off the weights (AdamW).
    - `moments`: the running means of the gradient and of its square, each a tree like the model's
      (`mu` and `nu` of Optax's `ScaleByAdamState`); without them both start anew.
    - `step`: how many steps they have seen.
    """

    lr: Rates
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: Rates = 0.0
    decoupled: bool = False
    moments: tuple[Any, Any] | None = None
    step: float = 0.0

    def __post_init__(self) -> None:
        for name, pair in (("betas", self.betas), ("moments", self.moments)):
            missing = pair is None and name == "moments"
            if not missing and (not isinstance(pair, tuple | list) or len(pair) != 2):
                raise ValueError(f"`{name}` must be a pair, got {pair!r}.")
        for name, value in (("eps", self.eps), ("step", self.step)):
            if not 0 <= real_number(name, value) < math.inf:
                raise ValueError(f"`{name}` is {value}, expected a finite number from 0 up.")
        _check(self, **{f"betas[{k}]": each for k, each in enumerate(self.betas)})

    @property
    def pace(self) -> float:
        """Largest learning rate."""
        return max(parts(self.lr))

    @property
    def bound(self) -> float:
        r"""`pace` times preconditioned curvature at which Adam turns unstable.

        $2(1+\beta_1)/(1-\beta_1)$, 38 for the usual $\beta_1 = 0.9$ (Cohen et al. 2022).
        """
        return 2.0 * (1 + self.betas[0]) / (1 - self.betas[0])

    def rates(self, square: Vector) -> Vector:
        r"""Return the rate of every weight, $\eta/(\sqrt v + \epsilon)$; v is `square` at first."""
        if self.moments is not None and self.step > 0:
            square = self.moments[1] * (1.0 / (1.0 - self.betas[1] ** self.step))
        lr = parts(self.lr, len(square.parts))
        return square.with_(lambda v: 1.0 / (v**0.5 + self.eps)).scaled(lr)


def AdamW(lr: Rates, *, weight_decay: Rates = 0.01, **rest: Any) -> Adam:
    """`Adam` with decoupled weight decay."""
    return Adam(lr, weight_decay=weight_decay, decoupled=True, **rest)


def _check(rule: SGD | Adam, **shares: float) -> None:
    for name, value in shares.items():
        if not 0 <= real_number(name, value) < 1:
            raise ValueError(f"`{name}` is {value}, expected a number from 0 to below 1.")
    for name, value in (("lr", rule.lr), ("weight_decay", rule.weight_decay)):
        if not all(0 <= real_number(name, each) < math.inf for each in parts(value)):
            raise ValueError(f"`{name}` is {value}, expected no negative number.")
    if not any(parts(rule.lr)):
        raise ValueError(f"`lr` is {rule.lr}, expected a positive learning rate.")


def parts(value: Rates, count: int = 1) -> tuple[float, ...]:
    """A number for each part; as they are, where there are many."""
    return tuple(value) if isinstance(value, tuple | list) else (value,) * count


def stated(rule: Any, problem: Problem) -> SGD | Adam:
    """A rule that was stated, with its rates and its state in parts like the weights'."""
    if not isinstance(rule, SGD | Adam):
        raise ValueError(
            f"`optimizer` is a {type(rule).__name__}, which is not known; {_KNOWN} are. State it, "
            "as in `festina.own.SGD(lr=0.01)` or `festina.own.Adam(lr=1e-3)`."
        )
    count, found = len(problem.names), {}
    for name in ("lr", "weight_decay"):
        found[name] = parts(getattr(rule, name), count)
        if len(found[name]) != count:
            raise ValueError(
                f"`{name}` is {found[name]}, expected one number, or one for each of the {count} "
                f"arrays of weights: {', '.join(problem.names)}."
            )
    if isinstance(rule, Adam) and rule.moments is not None:
        found["moments"] = tuple(_like(problem, "moments", each) for each in rule.moments)
    if isinstance(rule, SGD) and rule.velocity is not None:
        found["velocity"] = _like(problem, "velocity", rule.velocity)
    return replace(rule, **found)


def _like(problem: Problem, name: str, given: Any) -> Vector:
    """A tree like the model's, as a vector like the weights."""
    leaves = [leaf for leaf in jax.tree.leaves(given) if is_real(leaf)]
    weights = problem.start.parts
    if [leaf.shape for leaf in leaves] != [w.shape for w in weights]:
        raise ValueError(
            f"`{name}` does not have the shapes of the weights: expected trees like this model, "
            "as Optax keeps them (`mu` and `nu` of `ScaleByAdamState`, `trace` of `TraceState`)."
        )
    return Vector(tuple(problem.array(a, w) for a, w in zip(leaves, weights, strict=True)))


def read(optimizer: Any, model: Any, problem: Problem) -> SGD | Adam:
    """The rule and the state of an optimiser of PyTorch."""
    kind = type(optimizer).__name__
    if kind not in ("SGD", "Adam", "AdamW"):
        raise ValueError(
            f"`optimizer` is {kind}, which is not known; {_KNOWN} are. With `every_gradient=True` "
            "it is run ahead itself, one gradient a step, unless its steps need a closure."
        )
    named = dict(model.named_parameters())
    moving = [named[name] for name in problem.names]
    group_of = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    groups = [group_of[id(p)] for p in moving]
    first = groups[0]
    for key in ("maximize", "amsgrad"):
        if any(group.get(key) for group in groups):
            raise ValueError(
                f"`optimizer` has `{key}`, which is not known. Try every_gradient=True."
            )
    for key in ("momentum", "nesterov", "dampening", "betas", "eps"):
        if any(group.get(key) != first.get(key) for group in groups):
            raise ValueError(
                f"The groups of `optimizer` differ in `{key}`: only learning rates and weight "
                "decay may. `every_gradient=True` runs it ahead itself."
            )

    def kept(key: str) -> Vector:
        """What never had a gradient has no memories of one."""
        found = (optimizer.state.get(p, {}).get(key) for p in moving)
        pairs = zip(found, problem.start.parts, strict=True)
        return Vector(tuple(w * 0.0 if a is None else problem.array(a, w) for a, w in pairs))

    rates = {name: tuple(float(group[name]) for group in groups) for name in ("lr", "weight_decay")}
    if kind == "SGD":
        options = {key: float(first[key]) for key in ("momentum", "dampening")}
        begun = any(optimizer.state.get(p, {}).get("momentum_buffer") is not None for p in moving)
        velocity = kept("momentum_buffer") if begun else None
        return SGD(**rates, **options, nesterov=bool(first["nesterov"]), velocity=velocity)
    one, two = first["betas"]
    return Adam(
        **rates,
        betas=(float(one), float(two)),
        eps=float(first["eps"]),
        decoupled=kind == "AdamW" or bool(first.get("decoupled_weight_decay")),
        moments=(kept("exp_avg"), kept("exp_avg_sq")),
        step=max(float(optimizer.state.get(p, {}).get("step", 0.0)) for p in moving),
    )
