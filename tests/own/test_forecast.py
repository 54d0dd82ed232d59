"""Forecasts of small runs, held against the runs as they go on."""

import copy
import functools
import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import festina  # noqa: E402
from festina.own import SGD, Adam  # noqa: E402
from festina.own.forecasting._dilated import dilate  # noqa: E402
from festina.own.forecasting._forecast import _set_up  # noqa: E402

MSE = nn.MSELoss()


@functools.cache
def task():
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(300, 5, generator=generator)
    u = torch.linalg.qr(torch.randn(5, 5, generator=generator))[0]
    return x, torch.relu(x @ u[:2].T) @ torch.tensor([[1.5], [-1.0]])


def network(scale=1e-4, seed=0, hidden=12):
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


MAKERS = {
    "descent": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.005, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.005, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=5e-4),
}


@pytest.mark.parametrize("name", MAKERS)
def test_the_plateau_is_left_when_forecast(name):
    model = network()
    optimiser = MAKERS[name](model.parameters())
    train(model, optimiser, 25)
    before = copy.deepcopy((model.state_dict(), optimiser.state_dict()["state"]))
    seen = festina.forecast(model, MSE, optimiser, task())
    assert str(before) == str((model.state_dict(), optimiser.state_dict()["state"]))
    losses = train(model, optimiser, 1200)
    level = losses[0] - 0.1 * (losses[0] - seen.level)
    true = np.argmax(losses < level)
    assert seen.verdict == "plateau"
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
    problem, rule = _set_up(model, MSE, optimiser, task(), 300, None, every_gradient=False)
    course = [
        here.loss
        for here, _ in zip(dilate(rule, problem, lambda _: 1.0, None), range(20), strict=False)
    ]
    assert course == pytest.approx(train(model, optimiser, 20), rel=1e-4)


def test_dilation_costs_little_and_less_the_smaller_it_is():
    model = network(1e-3)
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-4)
    train(model, optimiser, 10)
    problem, rule = _set_up(model, MSE, optimiser, task(), 300, None, every_gradient=False)

    def halved(c):
        course = dilate(rule, problem, lambda _: c, None)
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
    assert "no drop" in str(seen)


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
    way = (made - made[0]) / (seen.metric[1] - made[0])
    assert seen.half == pytest.approx(np.argmax(way > 0.5), rel=0.06)


def test_a_schedule_is_followed():
    model = network()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    steady = festina.forecast(model, MSE, optimiser, task())
    slower = festina.forecast(model, MSE, optimiser, task(), schedule=lambda k: 0.5)
    assert slower.left == pytest.approx(2 * steady.left, rel=0.05)
    stopped = festina.forecast(model, MSE, optimiser, task(), schedule=lambda k: float(k < 10))
    assert stopped.left is None or not math.isfinite(stopped.left)


def test_a_loader_says_its_batch_and_its_random_numbers_are_left_alone():
    data = torch.utils.data.TensorDataset(*task())
    loader = torch.utils.data.DataLoader(data, batch_size=32, shuffle=True)
    model = network()
    state = torch.get_rng_state()
    problem, _ = _set_up(model, MSE, SGD(0.05), loader, 200, None, every_gradient=False)
    assert (problem.batch, problem.samples) == (32, 200)
    assert problem.notes == ["200 of 300 samples stand for all"]
    assert torch.equal(state, torch.get_rng_state())


def forecast(model=None, loss=MSE, optimiser=None, data=None, **rest):
    model = network() if model is None else model
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05) if optimiser is None else optimiser
    return festina.forecast(model, loss, optimiser, data or task(), **rest)


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


def test_what_is_assumed_is_said():
    frozen = network()
    frozen[0].weight.requires_grad_(False)
    assert any("frozen" in note for note in forecast(frozen, max_gradients=20).notes)
    noisy = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
    notes = " ".join(forecast(noisy, max_gradients=20).notes)
    assert "dropout is off" in notes
    assert "batch normalisation" in notes
    assert noisy[2].training
    assert any("eval mode" in note for note in forecast(noisy.eval(), max_gradients=20).notes)
    model = network()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.optim.lr_scheduler.StepLR(optimiser, 10)
    with pytest.warns(UserWarning, match="schedule"):
        forecast(model, optimiser=optimiser, max_gradients=20)


def test_it_draws_itself():
    import matplotlib.pyplot as plt

    ax = forecast().draw()
    assert ax.get_xlabel() == "steps from now"
    plt.close(ax.figure)


def test_weights_that_are_never_used_leave_adam_its_memory():
    model = network(1e-3)
    model.unused = torch.nn.Parameter(torch.ones(3))
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-4)
    train(model, optimiser, 10)
    _, rule = _set_up(model, MSE, optimiser, task(), 300, None, every_gradient=False)
    assert rule.step == 10
    assert [float(each.square) > 0 for each in rule.moments] == [True, True]
