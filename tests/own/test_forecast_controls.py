"""Test verdicts of `festina.forecast` on runs without a coming drop, against the continued runs."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import festina  # noqa: E402

MSE = nn.MSELoss()


@dataclass
class Control:
    """A run up to its forecast, with the verdicts that are correct for it.

    - `make`: draw a model and its data `(model, x, y)`.

    - `optimiser`: make the optimiser of the parameters.

    - `before`: steps of training before the forecast.

    - `after`: steps of training after the forecast.
    """

    name: str
    make: Callable[[], tuple[nn.Module, Any, Any]]
    optimiser: Callable[[Any], Any]
    before: int
    after: int
    right: tuple[str, ...]
    batch: int | None = None
    later: dict | None = None
    loss: Callable = MSE


def train(control, model, optimiser, x, y, steps, seed):
    """Train, and return at most 400 losses on all samples."""
    generator, losses = torch.Generator().manual_seed(seed), []
    for step in range(steps):
        rows = slice(None)
        if control.batch is not None:
            rows = torch.randint(len(x), (control.batch,), generator=generator)
        optimiser.zero_grad()
        loss = control.loss(model(x[rows]), y[rows])
        loss.backward()
        optimiser.step()
        if step % max(1, steps // 400) == 0:
            with torch.no_grad():
                losses.append(control.loss(model(x), y).item())
    return np.array(losses)


def asked(control, seed, **options):
    """Return the forecast of a run and the losses that follow."""
    torch.manual_seed(seed)
    model, x, y = control.make()
    optimiser = control.optimiser(model.parameters())
    train(control, model, optimiser, x, y, control.before, seed)
    for group in optimiser.param_groups:
        group.update(control.later or {})
    seen = festina.forecast(model, control.loss, optimiser, (x, y), batch=control.batch, **options)
    return seen, train(control, model, optimiser, x, y, control.after, seed + 1)


def kept(seen, losses: np.ndarray) -> bool:
    """Return whether a predicted drop has come within these steps."""
    if seen.left is None or seen.level is None:
        return True
    fall = seen.plateau - seen.level
    return bool(np.nanmin(losses) < seen.plateau - 0.5 * fall)


def regression(noise: float = 0.3, n: int = 200, d: int = 6):
    x = torch.randn(n, d)
    return x, x @ torch.randn(d, 1) + noise * torch.randn(n, 1)


def wiggly(n: int = 200, d: int = 6, noise: float = 0.0):
    x = torch.randn(n, d)
    y = torch.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
    return x, y + noise * torch.randn(n, 1)


def mlp(*widths: int, unit: type[nn.Module] = nn.Tanh, scale: float | None = None) -> nn.Sequential:
    layers = []
    for a, b in itertools.pairwise(widths):
        layers += [nn.Linear(a, b), unit()]
    model = nn.Sequential(*layers[:-1])
    if scale is not None:
        for weight in model.parameters():
            weight.data *= scale
    return model


def of(model: Callable[[], nn.Module], data: Callable[[], tuple]) -> Callable[[], tuple]:
    return lambda: (model(), *data())


def centred():
    x, y = wiggly()
    return x, y - y.mean()


def saturated():
    x, y = regression(0.0)
    model = mlp(6, 12, 1)
    model.get_parameter("0.weight").data *= 200
    model[2].requires_grad_(False)
    return model, x, y


def dead():
    x, y = wiggly()
    model = mlp(6, 12, 1, unit=nn.ReLU)
    model.get_parameter("0.bias").data -= 100
    model.get_parameter("2.bias").data[:] = y.mean()
    return model, x, y


def labels():
    x, y = regression(1.0)
    return x, (y > 0).float()


def sgd(lr, **rest):
    return lambda p: torch.optim.SGD(p, lr=lr, **rest)


def adam(lr, **rest):
    return lambda p: torch.optim.Adam(p, lr=lr, **rest)


LINEAR = lambda: nn.Linear(6, 1)
ZERO = lambda: mlp(6, 1, scale=0.0)
FALLS, RESTS = ("no staircase", "settling"), ("minimum", "noise floor")
FLOOR, UNSTABLE = ("noise floor",), ("unstable",)
CONTROLS = (
    Control("zero, linear", of(ZERO, regression), sgd(0.05), 0, 200, FALLS),
    Control("zero, momentum", of(ZERO, regression), sgd(0.01, momentum=0.9), 0, 200, FALLS),
    Control("zero, Adam", of(ZERO, regression), adam(0.02), 0, 600, FALLS),
    Control(
        "zero, saddle",
        of(lambda: mlp(6, 9, 1, scale=0.0), centred),
        sgd(0.05),
        0,
        300,
        ("plateau",),
    ),
    Control(
        "zero, three layers",
        of(lambda: mlp(6, 9, 9, 1, scale=0.0), centred),
        sgd(0.05),
        0,
        300,
        ("plateau",),
    ),
    Control(
        "zero, bias alone",
        of(lambda: mlp(6, 9, 1, scale=0.0), lambda: (lambda x, y: (x, y + 2))(*centred())),
        sgd(0.05),
        0,
        300,
        FALLS,
    ),
    Control("rate too large, linear", of(LINEAR, regression), sgd(1.5), 0, 100, UNSTABLE),
    Control(
        "rate too large, momentum", of(LINEAR, regression), sgd(2.6, momentum=0.5), 0, 100, UNSTABLE
    ),
    Control(
        "rate raised at rest",
        of(LINEAR, regression),
        sgd(0.1),
        500,
        200,
        UNSTABLE,
        later={"lr": 1.4},
    ),
    Control(
        "edge of stability, tanh", of(lambda: mlp(6, 40, 1), wiggly), sgd(0.2), 2000, 1000, UNSTABLE
    ),
    Control(
        "edge of stability, ReLU",
        of(lambda: mlp(6, 40, 1, unit=nn.ReLU), wiggly),
        sgd(0.3),
        2000,
        1000,
        UNSTABLE,
    ),
    Control(
        "edge of stability, momentum",
        of(lambda: mlp(6, 12, 1), wiggly),
        sgd(0.2, momentum=0.8),
        1000,
        1000,
        UNSTABLE,
    ),
    Control(
        "noise of 4, linear",
        of(LINEAR, lambda: regression(1.0, 400)),
        sgd(0.05),
        500,
        1000,
        FLOOR,
        4,
    ),
    Control(
        "noise of 8, linear, momentum",
        of(LINEAR, lambda: regression(1.0, 400)),
        sgd(0.02, momentum=0.8),
        1500,
        3000,
        FLOOR,
        8,
    ),
    Control(
        "noise of 8, tanh",
        of(lambda: mlp(6, 10, 1), lambda: wiggly(400, noise=1.0)),
        sgd(0.1),
        5000,
        3000,
        FLOOR,
        8,
    ),
    Control(
        "noise of 4, classes",
        of(LINEAR, labels),
        sgd(0.5),
        1500,
        3000,
        FLOOR,
        4,
        loss=nn.BCEWithLogitsLoss(),
    ),
    Control(
        "noise of 8, Adam, linear",
        of(LINEAR, lambda: regression(1.0, 400)),
        adam(0.02),
        1500,
        3000,
        FLOOR,
        8,
    ),
    Control(
        "noise of 8, Adam, tanh",
        of(lambda: mlp(6, 10, 1), lambda: wiggly(400, noise=1.0)),
        adam(0.02),
        5000,
        3000,
        FLOOR,
        8,
    ),
    Control("saturated", saturated, sgd(0.01), 0, 500, (*RESTS, "settling")),
    Control("dead", dead, sgd(0.05), 0, 500, RESTS),
    Control("converged, linear", of(LINEAR, regression), sgd(0.1), 500, 200, RESTS),
    Control(
        "converged, decay",
        of(lambda: mlp(6, 10, 1), wiggly),
        sgd(0.05, momentum=0.9, weight_decay=0.02),
        1500,
        500,
        RESTS,
    ),
    Control("converged, Adam", of(LINEAR, regression), adam(0.01), 3000, 500, RESTS),
    Control(
        "edge of stability, Adam",
        of(lambda: mlp(6, 12, 1), lambda: wiggly(400, noise=0.5)),
        adam(0.1),
        2000,
        600,
        UNSTABLE,
    ),
    Control("falls", of(lambda: mlp(6, 40, 1), wiggly), sgd(0.02), 1000, 1000, FALLS),
)


def cases():
    for control, seed in itertools.product(CONTROLS, (0, 1, 2)):
        if seed > 1 and not control.name.startswith("edge"):
            continue
        slow = control.before + control.after > 1500 or control.name == "zero, Adam" or seed > 0
        marks = [pytest.mark.slow] if slow else []
        yield pytest.param(control, seed, marks=marks, id=f"{control.name}, {seed}")


@pytest.mark.parametrize(("control", "seed"), list(cases()))
def test_no_drop_is_promised_where_none_comes(control, seed):
    seen, losses = asked(control, seed)
    assert seen.verdict in control.right, str(seen)
    assert str(seen).startswith(f"{seen.verdict}: the loss of ")
    assert kept(seen, losses), str(seen)
    rest = losses[len(losses) // 2 :]
    if seen.verdict == "noise floor":
        assert abs(seen.end - rest.mean()) < 3 * seen.noise
        assert rest.min() > seen.end - 3 * seen.noise
        assert rest.mean() < 2 * seen.end
    if seen.verdict == "minimum":
        assert abs(rest - seen.loss).max() < 0.03 * seen.loss
    if seen.verdict == "unstable":
        diverges = not np.isfinite(losses).all() or losses[-1] > 3 * losses[0]
        assert ("diverges" in str(seen)) == diverges or seen.ahead > 0
    if seen.verdict == "no staircase":
        assert losses[-1] < 0.7 * seen.loss


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_floor_of_a_network_that_could_fit_is_that_of_its_noise(seed):
    """Without noise the network would fit, and its gradients would not be noisy either."""
    make = of(lambda: mlp(6, 40, 1, unit=nn.ReLU), lambda: wiggly(noise=0.3))
    control = Control("", make, sgd(0.05), 1500, 6000, FLOOR, 4)
    seen, losses = asked(control, seed, insist=True)
    assert seen.verdict in control.right, str(seen)
    assert 0.5 < losses[len(losses) // 2 :].mean() / seen.end < 2.0
