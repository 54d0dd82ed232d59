"""By which rule somebody's weights move: stated, or read from an optimiser of PyTorch."""

import math
from dataclasses import dataclass
from typing import Any

from ._vectors import Vector

_KNOWN = "SGD (with momentum or Nesterov's), Adam and AdamW"

Rates = float | tuple[float, ...]
"""One number for all parts of the weights, or one for each."""


@dataclass(frozen=True)
class SGD:
    r"""Gradient descent, in mini-batches or not, with momentum or not.

    - `lr`: learning rate $\eta$.
    - `momentum`: $\mu$ of the heavy ball.
    - `nesterov`: whether the gradient is taken ahead of it.
    - `dampening`: of the gradient as it enters the momentum.
    - `weight_decay`: $\lambda$ of $\lambda w$, added to the gradient.
    """

    lr: Rates
    momentum: float = 0.0
    nesterov: bool = False
    dampening: float = 0.0
    weight_decay: Rates = 0.0

    def steps(self, growth: float, rate: float = 1.0) -> float:
        r"""Steps that a unit of flow time takes where the gradient grows at the rate `growth`.

        What grows as $e^{at}$ along the flow grows by $\zeta$ a step, the larger root of
        $\zeta^2 - (1 + \mu + \eta a)\zeta + \mu = 0$, so that the unit takes $a/\log\zeta$ steps:
        $(1 - \mu)/\eta$ for slow growth. With Nesterov's momentum the factor $1 + \eta a$ stands
        before $\mu$ as well. `rate` is by how much the learning rate is another one by now.
        """
        mu = self.momentum
        eta = rate * max(parts(self.lr, 1)) * (1.0 - self.dampening if mu else 1.0)
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
    - `moments`: the running means of the gradient and of its square, each a tree like the model's;
      without them both start anew.
    - `step`: how many steps they have seen.
    """

    lr: Rates
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: Rates = 0.0
    decoupled: bool = False
    moments: tuple[Any, Any] | None = None
    step: float = 0.0


def AdamW(lr: Rates, *, weight_decay: Rates = 0.01, **rest: Any) -> Adam:
    """`Adam` with decoupled weight decay."""
    return Adam(lr, weight_decay=weight_decay, decoupled=True, **rest)


def parts(value: Rates, count: int) -> tuple[float, ...]:
    """A number for each part."""
    return tuple(value) if isinstance(value, tuple) else (float(value),) * count


def stated(rule: Any, weights: Vector) -> SGD | Adam:
    """A rule that was stated for a tree of arrays, with its state in parts like the weights'."""
    if not isinstance(rule, (SGD, Adam)):
        raise ValueError(
            f"`optimizer` is a {type(rule).__name__}, which is not known; {_KNOWN} are. State it, "
            "as in `festina.own.SGD(lr=0.01)` or `festina.own.Adam(lr=1e-3)`."
        )
    if any(not lr > 0 for lr in parts(rule.lr, 1)):
        raise ValueError(f"The learning rate is {rule.lr}, expected a positive number.")
    if isinstance(rule, SGD) or rule.moments is None:
        return rule
    from jax import tree
    from jax.numpy import inexact, issubdtype

    moments = []
    for given in rule.moments:
        leaves = [
            a for a in tree.leaves(given) if hasattr(a, "dtype") and issubdtype(a.dtype, inexact)
        ]
        if [a.shape for a in leaves] != [w.shape for w in weights.parts]:
            raise ValueError(
                "`moments` have other shapes than the weights: expected those of this model, as "
                "two trees like it (`mu` and `nu` of Optax's `ScaleByAdamState`)."
            )
        moments.append(Vector(tuple(leaves)))
    return Adam(
        rule.lr,
        rule.betas,
        rule.eps,
        rule.weight_decay,
        rule.decoupled,
        (moments[0], moments[1]),
        rule.step,
    )


def read(optimizer: Any, model: Any, names: tuple[str, ...]) -> SGD | Adam:
    """The rule and the state of an optimiser of PyTorch, for the parameters of these names."""
    kind = type(optimizer).__name__
    if kind not in ("SGD", "Adam", "AdamW"):
        raise ValueError(
            f"`optimizer` is {kind}, which is not known; {_KNOWN} are. With `every_gradient=True` "
            "it is run ahead itself, one gradient a step."
        )
    named = dict(model.named_parameters())
    group_of = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    groups = [group_of[id(named[name])] for name in names]
    first = groups[0]
    for key, refused in (("maximize", True), ("amsgrad", True)):
        if any(group.get(key) is refused for group in groups):
            raise ValueError(
                f"`optimizer` has `{key}`, which is not known. Try every_gradient=True."
            )
    for key in ("momentum", "nesterov", "dampening", "betas", "eps"):
        if any(group.get(key) != first.get(key) for group in groups):
            raise ValueError(
                f"The groups of `optimizer` differ in `{key}`: only learning rates and weight "
                "decay may. `every_gradient=True` runs it ahead itself."
            )
    lr = tuple(float(group["lr"]) for group in groups)
    decay = tuple(float(group["weight_decay"]) for group in groups)
    if not max(lr) > 0:
        raise ValueError(f"The learning rate is {max(lr)}, expected a positive number.")
    if kind == "SGD":
        return SGD(
            lr,
            momentum=float(first["momentum"]),
            nesterov=first["nesterov"],
            dampening=float(first["dampening"]),
            weight_decay=decay,
        )
    states = [optimizer.state.get(named[name], {}) for name in names]
    moments, step = None, 0.0
    if any("exp_avg" in state for state in states):
        # What never had a gradient has no memories of one.
        moments = tuple(
            Vector(
                tuple(
                    state.get(key, 0.0 * named[name]).detach().clone()
                    for name, state in zip(names, states, strict=True)
                )
            )
            for key in ("exp_avg", "exp_avg_sq")
        )
        step = max(float(state.get("step", 0.0)) for state in states)
    decoupled = kind == "AdamW" or bool(first.get("decoupled_weight_decay"))
    betas = tuple(float(beta) for beta in first["betas"])
    return Adam(lr, betas, float(first["eps"]), decay, decoupled, moments, step)  # pyright: ignore
