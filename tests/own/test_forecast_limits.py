"""Test limits of forecasts: stability, noise of mini-batches, cost, and invalid input."""

import math
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from scipy.linalg import solve_discrete_lyapunov  # noqa: E402
from torch import nn  # noqa: E402

import festina  # noqa: E402
from festina.own import SGD, Adam  # noqa: E402
from festina.own.forecasting import _problem  # noqa: E402
from festina.own.forecasting._budget import ALWAYS, Budget, Exhausted  # noqa: E402
from festina.own.forecasting._curvature import ritz  # noqa: E402
from festina.own.forecasting._problem import problem_of  # noqa: E402
from festina.own.forecasting._reading import rule_of  # noqa: E402

MSE = nn.MSELoss()


def regression(n=160, d=4, noise=0.5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=generator, dtype=torch.float64)
    target = x @ torch.ones(d, 1, dtype=x.dtype)
    return x, target + noise * torch.randn(n, 1, generator=generator, dtype=x.dtype)


def linear(d=4, zero=False):
    torch.manual_seed(0)
    model = nn.Linear(d, 1).double()
    if zero:
        for weight in model.parameters():
            nn.init.zeros_(weight)
    return model


def set_up(rule, batch=None, model=None) -> tuple[Any, Any]:
    problem = problem_of(model or linear(), MSE, rule, regression(), samples=4096, batch=batch)
    return problem, rule_of(rule, problem)


def final(rule, curvature, steps=4000):
    """Return |w| after `steps` steps in a parabola, from w = 1."""
    w, v = 1.0, 0.0
    for _ in range(steps):
        g = curvature * w
        v = rule.momentum * v + (1.0 - rule.dampening if rule.momentum else 1.0) * g
        w -= rule.lr * (g + rule.momentum * v if rule.nesterov else v)
    return abs(w)


@pytest.mark.parametrize("rule", [
    SGD(0.1),
    SGD(0.1, momentum=0.9),
    SGD(0.1, momentum=0.5, nesterov=True),
    SGD(0.1, momentum=0.9, dampening=0.5),
])  # fmt: skip
def test_parabolas_diverge_beyond_the_bound_and_not_before(rule):
    limit = rule.bound / rule.pace
    assert final(rule, 0.99 * limit) < 1e-3
    assert final(rule, 1.01 * limit) > 1e3


def test_adam_with_steady_denominators_diverges_beyond_the_bound():
    beta, lr = 0.9, 0.01
    limit = Adam(lr, betas=(beta, 0.999)).bound / lr

    def end(curvature):
        w, m = 1.0, 0.0
        for _ in range(4000):
            m = beta * m + (1 - beta) * curvature * w
            w -= lr * m
        return abs(w)

    assert limit == pytest.approx(38 / lr)
    assert end(0.99 * limit) < 1e-3
    assert end(1.01 * limit) > 1e3


@pytest.mark.parametrize("zero", [False, True])
def test_curvature_is_that_of_the_hessian(zero):
    problem, rule = set_up(SGD(0.1), model=linear(zero=zero))
    x = torch.cat([regression()[0], torch.ones(160, 1, dtype=torch.float64)], 1)
    true = np.linalg.eigvalsh((2 * x.T @ x / len(x)).numpy())
    values = ritz(problem, problem.start, problem.random()).values
    assert values == pytest.approx(true, rel=1e-3)
    assert rule.load(problem, problem.start) == pytest.approx(0.05 * true[-1], rel=1e-3)


def test_rates_of_their_own_are_in_the_curvature():
    problem, rule = set_up(SGD((0.1, 0.4)))
    x = torch.cat([regression()[0], torch.ones(160, 1, dtype=torch.float64)], 1)
    rates = np.diag([0.1, 0.1, 0.1, 0.1, 0.4])
    true = np.linalg.eigvals(rates @ (2 * x.T @ x / len(x)).numpy()).real.max() / 2
    assert rule.load(problem, problem.start) == pytest.approx(true, rel=1e-3)


def test_the_noise_floor_is_that_of_the_stationary_distribution_as_the_rate_vanishes():
    """The covariance S of the weights is S = (1 − ηH) S (1 − ηH) + η²C; the excess is tr(HS)/2."""
    x, y = regression()
    x = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1)
    best = torch.linalg.lstsq(x, y).solution[:, 0]
    model = linear()
    model.weight.data, model.bias.data = best[None, :-1].clone(), best[-1:].clone()
    H = (2 * x.T @ x / len(x)).numpy()

    def error(lr):
        problem, rule = set_up(SGD(lr), batch=4, model=model)
        _, _, shares = problem.mini_batch(problem.start)
        noise = [np.concatenate([np.ravel(p) for p in each.parts]) for each in shares]
        C = sum(np.outer(each, each) for each in noise)
        shrink = np.eye(len(H)) - lr * H
        true = 0.5 * np.trace(H @ solve_discrete_lyapunov(shrink, lr**2 * C))
        return abs(rule.noise_floor(problem, problem.start) / true - 1)

    errors = [error(lr) for lr in (0.1, 0.01, 0.001)]
    assert errors[0] < 0.2
    assert errors[1] / errors[0] == pytest.approx(0.1, rel=0.2)
    assert errors[2] / errors[1] == pytest.approx(0.1, rel=0.2)


def test_momentum_raises_the_floor_as_a_larger_rate_does():
    floors = []
    for rule in (SGD(0.05), SGD(0.01, momentum=0.8), SGD(0.02, momentum=0.8, dampening=0.5)):
        problem, _ = set_up(rule, batch=4)
        floors.append(rule.noise_floor(problem, problem.start))
    assert floors == pytest.approx([floors[0]] * 3)


OWN = {
    "descent": lambda p: torch.optim.SGD(p, lr=0.3),
    "close to the limit": lambda p: torch.optim.SGD(p, lr=0.75),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.3, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.8, nesterov=True),
    "dampening": lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9, dampening=0.5),
    "decay, two rates": lambda p: torch.optim.SGD(
        [{"params": [next(p)], "lr": 0.4}, {"params": p}], 0.2, momentum=0.5, weight_decay=0.1
    ),
}


def run(model, optimizer, steps, schedule=lambda k: 1.0, data=None):
    """Return losses of `steps` steps of PyTorch's optimiser."""
    (x, y), losses, lr = data or regression(), [], [group["lr"] for group in optimizer.param_groups]
    for step in range(steps):
        for group, rate in zip(optimizer.param_groups, lr, strict=True):
            group["lr"] = rate * schedule(step)
        optimizer.zero_grad()
        loss = MSE(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("momentum", 3),
        ("decay, two rates", 0),
        *(
            pytest.param(name, 0, marks=pytest.mark.slow)
            for name in OWN
            if name != "decay, two rates"
        ),
    ],
)
def test_training_that_settles_in_a_few_steps_is_run_step_by_step(name, before):
    model = linear()
    optimizer = OWN[name](model.parameters())
    run(model, optimizer, before)
    schedule = (lambda k: 1.0 if k < 5 else 0.5) if name == "descent" else None
    seen = festina.forecast(model, MSE, optimizer, regression(), schedule=schedule)
    steps = next(k for k, t in enumerate([*seen.course.time, math.inf]) if t > k + 0.01)
    assert steps > 8, "steps of one"
    true = run(model, optimizer, math.ceil(seen.ahead) + 1, schedule or (lambda k: 1.0))
    assert seen.course.loss[:steps] == pytest.approx(true[:steps], rel=1e-6)
    about = np.interp(seen.course.time, np.arange(len(true)), true)
    assert seen.course.loss == pytest.approx(about, abs=0.02 * true[0])
    assert seen.end == pytest.approx(true[-1], rel=0.01)
    assert (seen.verdict, seen.left) == ("no staircase" if before == 0 else seen.verdict, None)


@pytest.mark.slow
@pytest.mark.parametrize("lr", [0.1, 1.0])
def test_adam_that_settles_in_a_few_steps_is_not_dilated_then(lr):
    model = linear()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    seen = festina.forecast(model, MSE, optimizer, regression())
    true = run(model, optimizer, math.ceil(seen.ahead) + 1)
    about = np.interp(seen.course.time, np.arange(len(true)), true)
    assert seen.course.loss == pytest.approx(about, abs=0.05 * true[0])
    assert seen.verdict == "no staircase"


def test_a_velocity_is_stated_as_it_is_read():
    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    run(model, optimizer, 4)
    ask = lambda rule: festina.forecast(model, MSE, rule, regression(), max_gradients=40)
    read = ask(optimizer).course.loss
    state = [optimizer.state[p]["momentum_buffer"].numpy() for p in model.parameters()]
    assert ask(SGD(0.05, momentum=0.9, velocity=state)).course.loss == read
    assert ask(SGD(0.05, momentum=0.9)).course.loss != pytest.approx(read)
    for wrong in (state[:1], [a[..., None] for a in state], "fast", [math.nan, 1.0]):
        with pytest.raises(ValueError, match="`velocity` does not have the shapes"):
            ask(SGD(0.05, momentum=0.9, velocity=wrong))


@pytest.mark.parametrize(("layers", "bias"), [(3, False), (4, True)])
def test_saddles_of_higher_order_are_no_minima(layers, bias):
    """With three layers or more, gradient and curvature vanish at zero weights."""
    (x, y), widths = regression(), [4, *[6] * (layers - 1), 1]
    model = nn.Sequential(*(nn.Linear(a, b, bias=bias) for a, b in pairwise(widths))).double()
    for weight in model.parameters():
        nn.init.zeros_(weight)
    ask = lambda rule: festina.forecast(model, MSE, rule, (x, y - y.mean()))
    seen = ask(SGD(0.05))
    assert seen.verdict == "plateau"
    assert "a saddle, not a minimum" in str(seen)
    assert "within 0 steps" not in str(seen)
    assert ask(SGD(0.05, weight_decay=0.1)).verdict == "minimum"


def test_nothing_to_learn_is_a_minimum():
    model, (x, y) = linear(zero=True), regression()
    assert festina.forecast(model, MSE, SGD(0.05), (x, 0 * y)).verdict == "minimum"


def test_a_budget_ends_where_training_on_would_be_cheaper():
    budget = Budget(insist=False, per_sample=0.1)
    for _ in range(10):
        budget.charge(100, 1.0)
    budget.begun = budget.steps  # costs before the first sample do not count
    for _ in range(int(ALWAYS / 10) + 1):
        budget.charge(100, 1.0)
    with pytest.raises(Exhausted):
        budget.charge(100, 1.0)
    with budget.unlimited():
        budget.charge(100, 1.0)
    budget.ahead = 2 * ALWAYS
    budget.charge(100, 1.0)


@pytest.fixture
def dear(monkeypatch):
    """Set the cost of a gradient to 0.6 ms, plus 0.03 ms per sample, on every machine."""
    monkeypatch.setattr(_problem, "_seconds", lambda problem, samples: 6e-4 + 3e-5 * samples)


def test_a_forecast_that_cannot_be_cheaper_is_refused_with_an_estimate(dear):
    torch.manual_seed(0)
    x = torch.randn(1024, 256)
    model = nn.Sequential(nn.Linear(256, 64), nn.Tanh(), nn.Linear(64, 1))
    ask = lambda **options: festina.forecast(
        model, MSE, Adam(1e-3), (x, x[:, :1]), batch=1, max_gradients=20, **options
    )
    refused = ask()
    assert refused.verdict == "undecided"
    assert refused.left is None
    assert refused.price == pytest.approx((6e-4 + 3e-5 * 1024) / (6e-4 + 3e-5))
    assert refused.gradients < 8
    assert "training on is cheaper" in str(refused)
    assert ask(insist=True).ahead > refused.ahead


@dataclass
class Output:
    logits: Any
    loss: Any = None


class WithLoss(nn.Module):
    """A model that computes its loss from `labels`, as in Hugging Face transformers."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.read = nn.Linear(4, 1).double()

    def forward(self, inputs, labels=None):
        logits = self.read(inputs)
        return Output(logits, None if labels is None else MSE(logits, labels))


def test_a_model_with_its_own_loss_is_forecast_by_it():
    x, y = regression()
    model = WithLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    plain = festina.forecast(model.read, MSE, SGD(0.05), (x, y), max_gradients=40)
    data = {"inputs": x, "labels": y}
    for loss in (None, lambda output, y: output.loss, lambda output, y: MSE(output.logits, y)):
        seen = festina.forecast(model, loss, optimizer, data, max_gradients=40)
        assert seen.course.loss == pytest.approx(plain.course.loss)
    rows = [{"inputs": a, "labels": b} for a, b in zip(x, y, strict=True)]
    loader = torch.utils.data.DataLoader(rows, batch_size=len(rows))
    seen = festina.forecast(model, None, optimizer, loader, max_gradients=40)
    assert seen.course.loss == pytest.approx(plain.course.loss)
    with pytest.raises(ValueError, match="a Tensor, has no loss: give `loss`"):
        festina.forecast(model.read, None, optimizer, (x, y))


SCHEDULERS = {
    "exponential": lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.99),
    "steps": lambda o: torch.optim.lr_scheduler.StepLR(o, 7, 0.5),
    "warm-up": lambda o: torch.optim.lr_scheduler.SequentialLR(
        o,
        [
            torch.optim.lr_scheduler.LinearLR(o, 0.1, total_iters=10),
            torch.optim.lr_scheduler.CosineAnnealingLR(o, 40),
        ],
        milestones=[10],
    ),
}


# `SequentialLR` of PyTorch 2.4 calls other schedulers in a way that they warn about.
@pytest.mark.filterwarnings("ignore:The epoch parameter in:UserWarning")
@pytest.mark.parametrize("epoch", [1, 5])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_is_read_ahead_and_left_alone(name, epoch):
    from festina.own.forecasting._schedules import schedule_of

    model = linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    scheduler = SCHEDULERS[name](optimizer)
    for _ in range(3):
        optimizer.step()
        scheduler.step()
    now = optimizer.param_groups[0]["lr"]
    schedule = schedule_of(scheduler, optimizer, [], epoch)
    read = [schedule(float(k)) for k in range(30)]
    assert optimizer.param_groups[0]["lr"] == now
    true = []
    for k in range(30):
        if k and k % epoch == 0:
            optimizer.step()
            scheduler.step()
        true.append(optimizer.param_groups[0]["lr"] / now)
    assert read == pytest.approx(true)


def test_schedules_that_cannot_be_read_say_so():
    model, data = linear(), regression()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    ask = lambda schedule, optimizer=optimizer: festina.forecast(
        model, MSE, optimizer, data, schedule=schedule, max_gradients=20
    )
    waits = ask(torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer))
    assert any("constant" in note for note in waits.notes)
    with pytest.raises(ValueError, match="another optimiser"):
        ask(torch.optim.lr_scheduler.StepLR(torch.optim.SGD(model.parameters(), lr=0.1), 3))
    with pytest.raises(ValueError, match="`schedule` is a str"):
        ask("cosine")
    with pytest.raises(ValueError, match="`schedule` gives nan at 0 steps"):
        ask(lambda step: math.nan)


def test_the_verdict_on_a_metric_is_of_the_metric():
    model, (x, y) = linear(zero=True), regression()
    error = lambda shown: -MSE(shown(x), y).item()
    seen = festina.forecast(model, MSE, SGD(0.05), (x, y), metric=error)
    assert seen.verdict == "no staircase"
    assert "moves without a pause from" in str(seen)
    still = festina.forecast(
        model, MSE, SGD(0.05), (x, y), metric=lambda shown: 1.0, max_gradients=40
    )
    assert "the metric of 1 stays" in str(still)


def twisted():
    model = linear()
    model.phase = nn.Parameter(torch.ones(1, dtype=torch.complex64))
    return model


WRONG = {
    "has no samples": lambda x, y: (linear(), MSE, (x[:0], y[:0])),
    "is nan": lambda x, y: (linear(), MSE, (x, y * math.nan)),
    "is inf": lambda x, y: (linear(), MSE, (x, y * math.inf)),
    "do not take these data": lambda x, y: (linear(), MSE, (x.to(torch.complex128), y)),
    "do not take these": lambda x, y: (linear(), MSE, (x.long(), y)),
    "must be arrays": lambda x, y: (linear(), MSE, ("abc", y)),
    "`loss` is a str": lambda x, y: (linear(), "mse", (x, y)),
    "complex weights": lambda x, y: (twisted(), MSE, (x, y)),
    "complex weights, expected": lambda x, y: (
        {"w": np.ones(4) + 0j, "b": np.ones(1)},
        lambda tree, x, y: abs(x @ tree["w"]).mean(),
        (x.numpy(), y.numpy()),
    ),
    "without arrays of real numbers": lambda x, y: (object(), MSE, (x.numpy(), y.numpy())),
    "complex number": lambda x, y: (linear(), lambda a, b: MSE(a, b) * (1 + 0j), (x, y)),
}


@pytest.mark.parametrize("words", WRONG)
def test_bad_input_is_refused_in_a_line(words):
    model, loss, data = WRONG[words](*regression())
    with pytest.raises(ValueError, match=words) as complaint:
        festina.forecast(model, loss, SGD(0.1), data)
    assert "\n" not in str(complaint.value)


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("`betas` must be a pair", {"betas": None}),
        ("`betas` must be a pair", {"betas": (0.9,)}),
        (r"`betas\[1\]` is 1", {"betas": (0.9, 1.0)}),
        ("`eps` is -1", {"eps": -1.0}),
        ("`step` is -1", {"step": -1}),
        ("`moments` must be a pair", {"moments": 3.0}),
        ("`lr` is ", {"lr": ()}),
    ],
)
def test_bad_settings_of_adam_are_named(words, given, as_a_user):
    with pytest.raises(ValueError, match=words):
        Adam(**{"lr": 0.1, **given})


def test_weights_in_numpy_stay_so_and_nothing_is_warned_of():
    x = np.linspace(-1, 1, 8)[:, None]
    loss = lambda model, x, y: ((x @ model["w"] - y) ** 2).mean()
    model = {"w": np.full((1, 1), 1 / 3)}
    seen = festina.forecast(model, loss, SGD(0.1), (x, 2 * x), max_gradients=40)
    assert type(seen.after["w"]) is np.ndarray
    assert seen.after["w"].dtype == np.float64
    with pytest.raises(ValueError, match="do not take these data"):
        festina.forecast({"v": x[:1]}, loss, SGD(0.1), (x, x))


def test_one_sample_is_enough():
    x, y = regression(1)
    seen = festina.forecast(linear(), MSE, SGD(0.05), (x, y), batch=1)
    assert seen.verdict in ("no staircase", "settling")


ENDING = {
    "cosine": lambda k: 0.5 * (1 + math.cos(math.pi * min(k, 20) / 20)),
    "linear": lambda k: max(0.0, 1 - k / 40),
    "steps": lambda k: 0.1 ** (k // 10),
    "exponential": lambda k: 0.9**k,
    "off": lambda k: float(k < 10),
    "off and on": lambda k: float(k < 10 or 300 <= k < 310),
}


TRAINED = {
    "fast": lambda p: torch.optim.SGD(p, lr=0.03),
    "slow": lambda p: torch.optim.SGD(p, lr=0.003),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.003, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.05),
}
# Adam's rescaled clock steps over short bursts of the learning rate.
PAIRS = [pair for pair in product(ENDING, TRAINED) if pair != ("off and on", "Adam")]


@pytest.mark.parametrize(("name", "optimiser"), PAIRS)
def test_training_ends_with_its_schedule(name, optimiser):
    model = linear(zero=True)
    own = TRAINED[optimiser](model.parameters())
    seen = festina.forecast(model, MSE, own, regression(), schedule=ENDING[name], insist=True)
    assert "the learning rate is almost zero" in str(seen)
    assert 10 <= seen.ahead < 400
    end = run(model, own, 400, ENDING[name])[-1]
    assert abs(seen.end - end) < 0.1 * (seen.loss - end)


def test_a_schedule_that_ends_on_a_plateau_leaves_it_one():
    torch.manual_seed(0)
    x = torch.randn(100, 4)
    model = nn.Sequential(nn.Linear(4, 10, bias=False), nn.Linear(10, 1, bias=False))
    for weight in model.parameters():
        weight.data *= 1e-4
    own = torch.optim.SGD(model.parameters(), lr=0.01)
    seen = festina.forecast(model, MSE, own, (x, x[:, :1]), schedule=lambda k: float(k < 100))
    assert seen.verdict == "plateau"
    assert seen.band == (100.0, math.inf)


def test_a_scheduler_without_more_steps_ends_training():
    model = linear()
    own = torch.optim.SGD(model.parameters(), lr=0.001)
    cycle = lambda **given: torch.optim.lr_scheduler.OneCycleLR(own, 0.05, total_steps=30, **given)
    ask = lambda scheduler: festina.forecast(
        model, MSE, own, regression(), schedule=scheduler, insist=True
    )
    seen = ask(cycle(cycle_momentum=False))
    assert "the learning rate is almost zero after 31 steps" in str(seen)
    assert seen.ahead == 31
    assert "momentum" not in str(seen)
    assert "the scheduler also changes the momentum, which is assumed constant" in str(ask(cycle()))


def test_instability_behind_a_drop_is_noted():
    """At the larger rate, training reaches the next level and oscillates above half of the drop."""
    torch.manual_seed(0)
    x = torch.randn(200, 6)
    y = torch.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3] + 2 * x[:, 3:4]
    for lr, unstable in ((0.02, False), (0.5, True)):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 1))
        for weight in model.parameters():
            weight.data *= 0.01
        own = torch.optim.SGD(model.parameters(), lr=lr)
        seen = festina.forecast(model, MSE, own, (x, y))
        assert seen.verdict == "plateau"
        assert ("after the drop the learning rate is too large" in str(seen)) == unstable
        losses = run(model, own, int(seen.ahead) + 40, data=(x, y))
        assert seen.plateau is not None
        assert seen.level is not None
        assert seen.half is not None
        half = 0.5 * (seen.plateau + seen.level)
        assert (max(losses[math.ceil(seen.half) + 1 :]) > half) == unstable


def test_slow_falls_below_a_thousandth_are_no_rest():
    """The loss halves in some thousand steps: too little for a drop, too much for a plateau."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 2, generator=generator, dtype=torch.float64) * torch.tensor([1.0, 0.04])
    y = x.sum(1, keepdim=True) + 0.0265 * torch.randn(400, 1, generator=generator, dtype=x.dtype)
    model = nn.Linear(2, 1, bias=False).double()
    for second, words in ((0.3, "still falls to 0.0008"), (0.9, "less than a thousandth of")):
        model.weight.data[:] = torch.tensor([1.0, second])
        own = torch.optim.SGD(model.parameters(), lr=0.05)
        assert words in str(festina.forecast(model, MSE, own, (x, y)))


def test_dear_gradients_of_a_slow_run_are_worth_their_cost(dear):
    """A gradient costs as much as fifty steps, but the forecast sees thousands of steps ahead."""
    torch.manual_seed(0)
    x = torch.randn(1024, 16)
    model = nn.Linear(16, 1)
    seen = festina.forecast(model, MSE, SGD(1e-6), (x, x[:, :1]), batch=1)
    assert seen.price == pytest.approx(50, abs=1)
    assert seen.verdict in ("no staircase", "settling")
    assert seen.ahead > seen.cost


def test_a_noise_floor_is_not_read_from_a_few_steps():
    """Gradients are noisiest at the start of a run; this loss falls thirtyfold in 2,000 steps."""
    torch.manual_seed(0)
    x = torch.randn(1024, 256)
    model = nn.Sequential(nn.Linear(256, 64), nn.Tanh(), nn.Linear(64, 1))
    how = {"batch": 1, "max_gradients": 20, "insist": True}
    seen = festina.forecast(model, MSE, Adam(1e-3), (x, x[:, :1]), **how)
    assert seen.noise > 0.1 * seen.loss
    assert seen.verdict == "undecided"
