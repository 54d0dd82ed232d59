"""Test forecasts of small runs against the continued runs."""

import copy
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import festina  # noqa: E402
from festina._narrowing._pytorch import check_pairs  # noqa: E402
from festina.own import SGD, Adam, AdamW, Forecast  # noqa: E402
from festina.own.forecasting._course import Course  # noqa: E402
from festina.own.forecasting._problem import problem_of  # noqa: E402
from festina.own.forecasting._reading import rule_of  # noqa: E402

MSE = nn.MSELoss()


@functools.cache
def task():
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(300, 5, generator=generator)
    u = torch.linalg.qr(torch.randn(5, 5, generator=generator))[0]
    return x, torch.relu(x @ u[:2].T) @ torch.tensor([[1.5], [-1.0]])


def network(scale: float | None = 1e-4, seed=0, hidden=12):
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Linear(5, hidden, bias=False), nn.ReLU(), nn.Linear(hidden, 1, bias=False)
    )
    if scale:
        for weight in model.parameters():
            nn.init.normal_(weight, std=scale)
    return model


def train(model, optimiser, steps):
    x, y = task()
    losses = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = MSE(model(x), y)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return np.array(losses)


def forecast(model=None, loss: Callable[..., Any] = MSE, optimiser=None, data=None, **rest):
    model = network() if model is None else model
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05) if optimiser is None else optimiser
    return festina.forecast(model, loss, optimiser, task() if data is None else data, **rest)


MAKERS = {
    "descent": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.005, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.005, momentum=0.9, nesterov=True),
    "dampening": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, dampening=0.5),
    "two rates": lambda p: torch.optim.SGD([{"params": [next(p)], "lr": 0.1}, {"params": p}], 0.03),
    "adam": lambda p: torch.optim.Adam(p, lr=5e-4),
}


def tensors(model, optimiser):
    states = optimiser.state_dict()["state"].values()
    kept = [each for state in states for each in state.values() if each is not None]
    return [*model.state_dict().values(), *kept]


@pytest.mark.parametrize(
    "name",
    [
        name
        if name in ("descent", "momentum", "adam")
        else pytest.param(name, marks=pytest.mark.slow)
        for name in MAKERS
    ],
)
def test_the_plateau_is_left_when_forecast(name):
    model = network()
    optimiser = MAKERS[name](model.parameters())
    train(model, optimiser, 25)
    before = copy.deepcopy(tensors(model, optimiser))
    seen = festina.forecast(model, MSE, optimiser, task())
    after = tensors(model, optimiser)
    assert len(before) == len(after)
    assert all(map(torch.equal, before, after))
    losses = train(model, optimiser, 1200)
    level = losses[0] - 0.1 * (losses[0] - seen.level)
    true = np.argmax(losses < level)
    assert seen.verdict == "plateau"
    assert seen.left is not None
    assert seen.half is not None
    assert seen.band is not None
    assert seen.left == pytest.approx(true, rel=0.06)
    assert seen.band[0] <= true <= seen.band[1]
    assert seen.left < seen.half
    assert "steps" in str(seen)


def test_trees_of_arrays_are_forecast_as_modules_are():
    import jax
    import jax.numpy as jnp

    model = network()
    seen = festina.forecast(model, MSE, torch.optim.SGD(model.parameters(), lr=0.05), task())
    data = tuple(a.numpy() for a in task())
    u, v = (p.detach().numpy() for p in model.parameters())
    rule = SGD(lr=0.05)

    def loss(tree, x, y):
        return jnp.mean((jax.nn.relu(x @ tree["u"].T) @ tree["v"].T - y) ** 2)

    plain = festina.forecast({"u": u, "v": v, "name": "mine"}, loss, rule, data)
    assert plain.left == pytest.approx(seen.left, rel=1e-3)
    assert plain.level == pytest.approx(seen.level, rel=1e-2)

    eqx = pytest.importorskip("equinox")
    tree = eqx.nn.MLP(5, 1, 12, 1, use_bias=False, use_final_bias=False, key=jax.random.key(0))
    tree = eqx.tree_at(
        lambda m: (m.layers[0].weight, m.layers[1].weight), tree, (jnp.asarray(u), jnp.asarray(v))
    )
    mean = lambda m, x, y: jnp.mean((jax.vmap(m)(x) - y) ** 2)
    module = festina.forecast(tree, mean, rule, data)
    assert module.left == pytest.approx(seen.left, rel=1e-3)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_adam_undilated_is_adam(kind):
    model = network(0.3)
    optimiser = kind(model.parameters(), lr=1e-2, weight_decay=0.1)
    train(model, optimiser, 7)
    problem = problem_of(model, MSE, optimiser, task())
    rule: Any = rule_of(optimiser, problem)
    course = [
        here.loss for here, _ in zip(rule.dilated(problem, lambda _: 1.0), range(20), strict=False)
    ]
    assert course == pytest.approx(train(model, optimiser, 20), rel=1e-4)


def test_dilation_costs_little_and_less_the_smaller_it_is():
    model = network(1e-3)
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-4)
    train(model, optimiser, 10)
    problem = problem_of(model, MSE, optimiser, task())
    rule: Any = rule_of(optimiser, problem)

    def halved(c):
        course = rule.dilated(problem, lambda _: c)
        first = next(course).loss
        return next(here.time for here in course if here.loss < 0.5 * first)

    exact = halved(1.0)
    assert abs(halved(4.0) / exact - 1) < 0.05
    assert abs(halved(2.0) / exact - 1) < 0.03


def test_any_optimiser_is_run_ahead_by_itself():
    model = network(0.05)
    optimiser = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    with pytest.raises(ValueError, match="every_gradient=True"):
        festina.forecast(model, MSE, optimiser, task())
    seen = festina.forecast(model, MSE, optimiser, task(), every_gradient=True, max_gradients=60)
    assert seen.course.loss == pytest.approx(
        train(model, optimiser, len(seen.course.loss)), rel=1e-4
    )


def test_where_no_drop_is_coming_none_is_forecast():
    model = network(None)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.02)
    assert festina.forecast(model, MSE, optimiser, task()).left is None
    train(model, optimiser, 600)
    seen = festina.forecast(model, MSE, optimiser, task())
    assert (seen.verdict, seen.left, seen.band) == ("minimum", None, None)
    assert "no further drop" in str(seen)


def test_who_runs_out_of_gradients_says_so():
    short, long = forecast(max_gradients=20), forecast()
    assert short.left is None
    assert any("`max_gradients` allows more" in note for note in short.notes)
    assert long.left is not None
    assert not any("allows more" in note for note in long.notes)


def test_adam_beyond_the_edge_of_stability_is_no_drop():
    model = nn.Sequential(nn.Linear(5, 20), nn.Tanh(), nn.Linear(20, 1))
    torch.manual_seed(1)
    for weight in model.parameters():
        nn.init.normal_(weight, std=0.4)
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    train(model, optimiser, 400)
    assert festina.forecast(model, MSE, optimiser, task(), max_gradients=400).left is None


def test_a_metric_is_forecast_in_its_own_right():
    model = network()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    x, y = task()
    explained = lambda m: 1 - (MSE(m(x), y) / y.var(correction=0)).item()
    seen = festina.forecast(model, MSE, optimiser, task(), metric=explained)
    losses = train(model, optimiser, 1500)
    made = 1 - losses / y.var(correction=0).item()
    assert seen.metric is not None
    way = (made - made[0]) / (seen.metric[1] - made[0])
    assert seen.half == pytest.approx(np.argmax(way > 0.5), rel=0.06)


class Noisy(nn.Module):
    """A model that differs in training: three kinds of dropout, and batch normalisation."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.encoder = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
        self.recurrent = nn.LSTM(4, 4, 2, dropout=0.5, batch_first=True)
        self.norm, self.read = nn.BatchNorm1d(4), nn.Linear(4, 1)

    def forward(self, x):
        seen, _ = self.recurrent(self.encoder(x.unfold(1, 4, 1)))
        return self.read(nn.functional.dropout(self.norm(seen[:, -1]), training=self.training))


def test_a_model_in_training_is_looked_ahead_of_without_its_noise():
    model = Noisy()
    notes = " ".join(forecast(model, max_gradients=20).notes)
    assert "dropout is off" in notes
    assert "batch normalisation" in notes
    assert all(module.training for module in model.modules())
    problem = problem_of(model, MSE, SGD(0.1), task())
    # Samples are shuffled, and batch normalisation averages over all of them.
    still = copy.deepcopy(model).eval()
    still.norm.train()
    assert problem.loss == pytest.approx(MSE(still(task()[0]), task()[1]).item(), rel=1e-5)
    assert any("eval mode" in note for note in forecast(model.eval(), max_gradients=20).notes)


def test_a_metric_is_given_a_model_as_it_is_and_may_do_to_it_what_it_likes():
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
    modes = []

    def rude(shown):
        modes.append([module.training for module in shown.modules()])
        shown.eval().requires_grad_(False)
        for weight in shown.parameters():
            weight.zero_()
        return 0.0

    quiet = forecast(model, max_gradients=40, metric=lambda shown: 0.0)
    assert forecast(model, max_gradients=40, metric=rude).course.loss == quiet.course.loss
    assert all(map(all, modes))


def test_weights_that_are_tied_stay_tied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.up, self.down, self.read = nn.Linear(5, 3), nn.Linear(3, 5), nn.Linear(5, 1)
            self.back = nn.Linear(5, 3)
            self.back.weight = self.up.weight

        def forward(self, x):
            return self.read(self.down(torch.tanh(self.back(self.down(torch.tanh(self.up(x)))))))

    model = Tied()
    optimiser = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    seen = forecast(model, optimiser=optimiser, every_gradient=True, max_gradients=30)
    assert seen.course.loss == pytest.approx(
        train(model, optimiser, len(seen.course.loss)), rel=1e-4
    )
    problem = problem_of(model, MSE, SGD(0.1), task())
    assert "up.weight" in problem.names
    assert "back.weight" not in problem.names
    moved = copy.deepcopy(model)
    with torch.no_grad():
        moved.up.weight.mul_(2.0)
    factors = [2.0 if name == "up.weight" else 1.0 for name in problem.names]
    loss, _ = problem(problem.start.scaled(factors))
    assert loss == pytest.approx(MSE(moved(task()[0]), task()[1]).item(), rel=1e-5)


def test_weights_that_are_frozen_are_used_and_stay():
    last = nn.Linear(1, 1)
    model = nn.Sequential(*network(), last)
    nn.init.constant_(last.weight, -2.0).requires_grad_(False)
    nn.init.zeros_(last.bias).requires_grad_(False)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    seen = forecast(model, optimiser=optimiser)
    losses = train(model, optimiser, 1200)
    true = np.argmax(losses < losses[0] - 0.1 * (losses[0] - seen.level))
    assert seen.left == pytest.approx(true, rel=0.06)
    assert seen.notes == ("2 parameters are frozen (3.weight, 3.bias …)",)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_next_level_is_that_of_a_network_of_so_few_units(seed):
    import jax
    import jax.numpy as jnp

    model = network(seed=seed)
    seen = forecast(model)
    level, widths = seen.next_level(*task(), MSE)
    (few,) = widths.values()
    alone = network(0.3, hidden=few)
    optimiser = torch.optim.SGD(alone.parameters(), lr=0.05)
    trained = train(alone, optimiser, 2000)[-1]
    assert few == 1
    assert level == pytest.approx(trained, rel=1e-3)
    assert abs(seen.level - trained) > 3 * abs(level - trained)

    x, y = (a.numpy() for a in task())
    tree = {name: p.detach().numpy() for name, p in zip("uv", model.parameters(), strict=True)}
    apply = lambda tree, x: jax.nn.relu(x @ tree["u"].T) @ tree["v"].T
    mean = lambda outputs, y: jnp.mean((outputs - y) ** 2)
    whole = lambda tree, x, y: mean(apply(tree, x), y)
    plain = festina.forecast(tree, whole, SGD(0.05), (x, y))
    assert plain.next_level(x, y, mean, apply=apply)[0] == pytest.approx(level, rel=1e-4)


def test_there_is_no_next_level_without_a_drop():
    with pytest.raises(ValueError, match="No drop"):
        forecast(network(None), max_gradients=20).next_level(*task(), MSE)


def test_a_schedule_is_followed():
    model = network()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    steady = festina.forecast(model, MSE, optimiser, task())
    slower = festina.forecast(model, MSE, optimiser, task(), schedule=lambda k: 0.5)
    assert steady.left is not None
    assert slower.left == pytest.approx(2 * steady.left, rel=0.05)
    stopped = festina.forecast(model, MSE, optimiser, task(), schedule=lambda k: float(k < 10))
    assert stopped.left is None or not math.isfinite(stopped.left)


def test_a_loader_says_its_batch_and_its_random_numbers_are_left_alone():
    data = torch.utils.data.TensorDataset(*task())
    loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True)
    model = network()
    state = torch.get_rng_state()
    problem = problem_of(model, MSE, SGD(0.05), loader, samples=200)
    assert (problem.batch, problem.samples) == (32, 200)
    assert problem.notes == ["200 of 300 samples were used"]
    assert torch.equal(state, torch.get_rng_state())


class Named(torch.utils.data.Dataset):
    """Samples as dictionaries, as trainers of language models use them."""

    def __init__(self, *names):
        self.names = names

    def __len__(self):
        return len(task()[0])

    def __getitem__(self, k):
        x, y = task()
        return {name: (y if name == "labels" else x)[k].double() for name in self.names}


def test_samples_of_any_kind_are_the_same_samples():
    class ByName(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = network()

        def forward(self, tokens):
            return self.inner(tokens)

    plain = problem_of(network(), MSE, SGD(0.1), task())
    longer = tuple(a.numpy().astype(float) for a in task())
    numbers = problem_of(network(), MSE, SGD(0.1), longer, samples=300)
    by_name = Named("tokens", "labels")
    named = problem_of(ByName(), MSE, SGD(0.1), by_name, samples=300)
    assert plain.check() == numbers.check() == named.check()
    with pytest.raises(ValueError, match="no targets"):
        forecast(ByName(), data=Named("tokens"))
    with pytest.raises(ValueError, match="no targets"):
        forecast(data=task()[0])


def test_the_samples_are_those_that_a_loader_draws():
    x, y = task()
    data = torch.utils.data.TensorDataset(x, y)
    sampler = torch.utils.data.SubsetRandomSampler(range(40))
    loader = torch.utils.data.DataLoader(data, batch_size=8, sampler=sampler)
    problem = problem_of(network(0.3), MSE, SGD(0.1), loader, samples=300)
    assert (problem.samples, problem.batch) == (40, 8)
    some = MSE(network(0.3)(x[:40]), y[:40]).item()
    assert problem.loss == pytest.approx(some, rel=1e-5)


def test_losses_that_differ_by_rounding_are_the_same_loss():
    jitter = lambda a, b: MSE(a, b) * (1 + 1e-6 * torch.rand(()))
    assert forecast(loss=jitter, max_gradients=20).loss > 0
    x, _ = task()
    model = network(0.3)
    y = model(x).detach()  # the loss is zero up to rounding
    rounded = lambda a, b: MSE(a, b) + 1e-9 * torch.rand(())
    assert forecast(model, rounded, data=(x, y), max_gradients=20).left is None


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_short_weights_are_looked_ahead_of_in_float32(kind):
    model = network(0.3).to(kind)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-4)
    errors = model(task()[0].to(kind)) - task()[1].to(kind)
    (errors**2).mean().backward()  # PyTorch 2.4 cannot compute `MSE` of short numbers
    optimiser.step()
    long = copy.deepcopy(model).float()
    seen = forecast(model, optimiser=optimiser, max_gradients=20)
    assert seen.loss == pytest.approx(MSE(long(task()[0]), task()[1]).item(), rel=1e-5)
    assert any("float32" in note for note in seen.notes)
    tree = {"w": np.ones(5, np.float16)}
    mean = lambda tree, x, y: ((x @ tree["w"] - y[:, 0]) ** 2).mean()
    data = tuple(a.numpy() for a in task())
    assert "float16" in festina.forecast(tree, mean, SGD(0.1), data, max_gradients=20).notes[0]


WRONG = {
    "`momentum` is 1": lambda: SGD(0.1, momentum=1.0),
    "`momentum` is -0.5": lambda: SGD(0.1, momentum=-0.5),
    "`dampening` is 1": lambda: SGD(0.1, momentum=0.9, dampening=1.0),
    r"`betas\[1\]` is 1": lambda: Adam(0.1, betas=(0.9, 1.0)),
    r"`betas\[0\]` is -0.1": lambda: AdamW(0.1, betas=(-0.1, 0.9)),
    "`lr` must be a number": lambda: SGD(math.nan),
    r"`lr` is \(1.0, -1.0\)": lambda: SGD((1.0, -1.0)),
    "`lr` is 0.0, expected a positive": lambda: Adam(0.0),
    "`weight_decay` is -1": lambda: SGD(0.1, weight_decay=-1.0),
    r"`lr` is \(0.1, 0.1, 0.1\), expected one number, or one for each of the 2 arrays": (
        lambda: forecast(optimiser=SGD((0.1, 0.1, 0.1)))
    ),
    r"`weight_decay` is \(0.1,\)": lambda: forecast(optimiser=Adam(0.1, weight_decay=(0.1,))),
    "`every_gradient` runs a PyTorch optimiser": (
        lambda: forecast(optimiser=SGD(0.1), every_gradient=True)
    ),
    "LBFGS, whose steps need a closure": lambda: forecast(
        model := network(),
        optimiser=torch.optim.LBFGS(model.parameters()),
        every_gradient=True,
    ),
    "does not depend on the weights": lambda: forecast(loss=lambda a, b: MSE(a, b).detach()),
    "gave float": lambda: forecast(loss=lambda a, b: MSE(a, b).item()),
    "expected inputs and targets": lambda: forecast(data=(*task(), task()[1])),
    "`batch` must be a whole number": lambda: forecast(batch=0),
    "do not take these data: mat1 and mat2": lambda: forecast(data=(task()[0][:, :3], task()[1])),
    "`metric` must give one number, got None": lambda: forecast(metric=lambda model: None),
}


@pytest.mark.parametrize("words", WRONG)
def test_what_is_wrong_is_said_in_a_line(words):
    with pytest.raises(ValueError, match=words) as complaint:
        WRONG[words]()
    assert "\n" not in str(complaint.value)


def test_what_cannot_be_forecast_is_said_in_a_line():
    x, y = task()
    with pytest.raises(ValueError, match="is nan"):
        forecast(data=(x * math.nan, y))
    with pytest.raises(ValueError, match="draws at random"):
        forecast(loss=lambda a, b: MSE(a + torch.randn_like(a), b))
    with pytest.raises(ValueError, match="mean over samples"):
        forecast(loss=nn.MSELoss(reduction="sum"))
    with pytest.raises(ValueError, match="expected one"):
        forecast(loss=nn.MSELoss(reduction="none"))
    with pytest.raises(ValueError, match="300 inputs and 299 targets"):
        forecast(data=(x, y[:-1]))
    with pytest.raises(ValueError, match="another model"):
        forecast(optimiser=torch.optim.SGD(network().parameters(), lr=0.1))
    with pytest.raises(ValueError, match=r"festina\.own\.SGD"):
        forecast(optimiser=0.1)
    model = network()
    with pytest.raises(ValueError, match="amsgrad"):
        forecast(model, optimiser=torch.optim.Adam(model.parameters(), amsgrad=True))
    with pytest.raises(ValueError, match="max_gradients"):
        forecast(max_gradients=0)
    with pytest.raises(ValueError, match="without arrays"):
        festina.forecast({}, lambda m, x, y: 0.0, Adam(0.1), (x.numpy(), y.numpy()))


def test_targets_that_would_broadcast_are_refused():
    (x, y), model = task(), network(0.1)
    pairs = lambda out, y: ((out - y) ** 2).mean()
    words = r"outputs have shape \(300, 1\) and targets \(300,\).*y.reshape\(\(300, 1\)\)"
    with pytest.raises(ValueError, match=words):
        forecast(model, pairs, data=(x, y[:, 0]))
    with pytest.raises(ValueError, match=words):
        festina.diagnose.effective_width(model, x, y=y[:, 0], loss=pairs)
    # This loss depends on the shapes of its arguments
    own = lambda out, y: ((out[:, 0] - y) ** 2).mean()
    assert forecast(model, own, data=(x, y[:, 0])).loss == pytest.approx(forecast(model).loss)


@pytest.mark.parametrize("samples", [2, 3, 8, 40])
@pytest.mark.parametrize("rule", [torch.optim.SGD, torch.optim.Adam])
def test_losses_that_mind_the_shapes_are_never_refused(samples, rule):
    """Losses are absolute differences, and all outputs are below their targets."""
    torch.manual_seed(samples)
    x = torch.randn(samples, 3)
    y = x[:, 0].abs() + 3
    model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
    loss = lambda outputs, y: (outputs[:, 0] - y).abs().mean()
    calls = []
    counted = lambda outputs, y: calls.append(len(y)) or loss(outputs, y)
    optimiser = rule(model.parameters(), lr=0.01)
    for _ in range(3):
        optimiser.zero_grad()
        loss(model(x), y).backward()
        optimiser.step()
    found = festina.forecast(model, counted, optimiser, (x, y), batch=2, max_gradients=30)
    assert found.loss == pytest.approx(loss(model(x), y).item())
    passes = sum(calls) / samples
    assert passes < found.gradients + 10, "few calls besides gradients"
    narrow = festina.diagnose.effective_width(model, x, y=y, loss=loss, tune=False)
    assert narrow.loss == pytest.approx(found.loss)


@pytest.mark.parametrize("samples", [2, 3, 8, 4096])
def test_losses_that_mind_no_shapes_are_refused(samples):
    torch.manual_seed(samples)
    y = torch.randn(samples)
    for loss in (nn.MSELoss(), nn.L1Loss(), nn.SmoothL1Loss()):
        with pytest.raises(ValueError, match="every output with every target"):
            check_pairs(loss, torch.zeros(samples, 1), y)
        check_pairs(
            lambda outputs, y, loss=loss: loss(outputs[:, 0], y), torch.zeros(samples, 1), y
        )
    hinge = lambda outputs, y: (1 - outputs[:, 0] * y).clamp(min=0).mean()
    check_pairs(hinge, torch.zeros(samples, 1), y.abs() + 2)


def test_who_waits_is_told():
    told = list[tuple[str, float]]()
    forecast(progress=lambda *each: told.append(each))
    words, shares = zip(*told, strict=True)
    assert words[0] == "a gradient takes as long as 1 steps of the run"
    assert words[-1].endswith("steps ahead")
    assert 0.0 == shares[0] < shares[1] < shares[-1] < 1.0


def test_a_schedule_that_is_not_known_is_warned_of():
    model = network()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.optim.lr_scheduler.StepLR(optimiser, 10)
    with pytest.warns(UserWarning, match="schedule"):
        forecast(model, optimiser=optimiser, max_gradients=20)


def test_it_draws_itself():
    import matplotlib.pyplot as plt

    ax = forecast().draw()
    assert ax.get_xlabel() == "steps from now"
    plt.close("all")


def test_weights_that_are_never_used_leave_adam_its_memory():
    model = network(1e-3)
    model.unused = torch.nn.Parameter(torch.ones(3))
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-4)
    train(model, optimiser, 10)
    rule: Any = rule_of(optimiser, problem_of(model, MSE, optimiser, task()))
    assert rule.step == 10
    assert [float(each.square) > 0 for each in rule.moments] == [True, True]


@pytest.mark.slow
def test_a_long_slide_along_kinks_is_a_plateau():
    """A sample stays on the kink of a ReLU unit, so no step is short enough.

    The forecast takes 5 gradients for 8 steps. Actual training rests at 0.134 from step 300 to
    3,900, also at half or twice the learning rate.
    """
    torch.manual_seed(3)
    x, teacher = torch.randn(200, 5), torch.randn(5, 3)
    y = torch.relu(x @ teacher) @ torch.tensor([[2.0], [-1.0], [0.5]])
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 20), nn.ReLU(), nn.Linear(20, 1))
    for p in model.parameters():
        p.data *= 1e-3
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    watch = festina.watch(model, optimizer, snapshots=None)
    for _ in range(1500):
        loss = nn.functional.mse_loss(model(x), y)
        watch.log(loss)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ask = lambda **options: festina.forecast(
        model, nn.functional.mse_loss, optimizer, (x, y), watch=watch, **options
    )
    whole = ask()
    assert whole.verdict == "plateau"
    assert whole.left is not None
    assert abs(whole.left - 2400) < 0.2 * 2400
    assert whole.gradients < 2400
    short = ask(max_gradients=400)
    assert short.verdict == "plateau"
    assert short.left is None
    assert short.band is not None
    assert 500 < short.band[0] < 2400
    assert short.band[1] == math.inf
    assert "does not drop within" in str(short)
    assert "which costs as much as training" in str(short)


def test_while_it_settles_the_level_ahead_is_what_is_left():
    course = Course(1.0, [0.0, 10.0], [0.5, 0.1], [1.0, 1.0])
    seen = lambda verdict, band: Forecast(
        verdict, 20.0, 30.0, band, 0.5, 0.2, 0.1, None, 40.0, 9.0, (), course, None
    )
    words = str(seen("settling", (15.0, 25.0)))
    assert "the loss of 0.5 falls to 0.2, and leaves that plateau in 20 steps (15 to 25)" in words
    assert "within 45 steps, perhaps in 20" in str(seen("settling", (0.0, 45.0)))
    assert "the loss leaves 0.5 in 20" in str(seen("plateau", (15.0, 25.0)))


def test_what_a_fall_that_is_not_over_says_of_when_it_began():
    slow = Course(1.0, [0.0, 50.0, 100.0], [1.0, 0.8, 0.7], [1.0, 0.5, 0.2])
    fast = Course(1.0, [0.0, 50.0, 100.0], [1.0, 0.99, 0.5], [1.0, 1.0, 1.0])
    bound = fast.bound()
    assert slow.bound() is None
    assert bound is not None
    assert 50.0 < bound < 60.0
    assert Course(1.0, [0.0, 50.0, 100.0], [1.0, 0.999, 0.99], [1.0] * 3).bound() == 100.0


def test_it_is_a_data_set_and_a_table_with_a_row_for_each_sample():
    seen = forecast()
    data, table = seen.to_dataset(), seen.to_dataframe()
    assert data["course_loss"].dims == ("course_time",)
    assert data["course_loss"].values.tolist() == seen.course.loss
    assert data["left"] == seen.left
    assert seen.band is not None
    assert data.attrs["band"] == list(seen.band)
    assert table["course_speed"].tolist() == seen.course.speed
    assert f"verdict={seen.verdict}" in repr(seen)
    assert "course" in seen._repr_html_()
