"""Test watching a PyTorch run: training is not changed or delayed, and memory does not grow."""

import copy
import gc
import math
import re
import weakref
from typing import Any

import numpy as np
import pytest

import festina
from festina.own.watching._record import Record
from festina.own.watching._snapshots import Snapshots, bytes_of
from festina.own.watching._stairs import at_epochs

torch = pytest.importorskip("torch")

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
}


def problem(dtype=torch.float32, seed=0):
    """Return two linear layers, with targets that have two directions of different strength."""
    torch.manual_seed(seed)
    x = torch.randn(64, 4, dtype=torch.float64)
    x = torch.linalg.qr(x)[0] * 8.0  # white inputs
    y = x @ torch.diag(torch.tensor([3.0, 0.6], dtype=torch.float64).repeat(2)[:4])[:, :2]
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8, bias=False), torch.nn.Linear(8, 2, bias=False)
    ).double()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1e-2)
    return model.to(dtype), x.to(dtype), y.to(dtype)


def train(model, optimizer, x, y, steps, watch=None, pieces=1):
    for _ in range(steps):
        optimizer.zero_grad()
        for part, target in zip(x.chunk(pieces), y.chunk(pieces), strict=True):
            loss = torch.nn.functional.mse_loss(model(part), target)
            if watch is not None:
                watch.log(loss)
            (loss / pieces).backward()
        optimizer.step()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_watching_changes_nothing_and_keeps_the_weights_of_each_step(name):
    model, x, y = problem()
    alone = copy.deepcopy(model)
    train(alone, OPTIMIZERS[name](alone.parameters()), x, y, 20)

    optimizer = OPTIMIZERS[name](model.parameters())
    watch = festina.watch(model, optimizer)
    course = []
    for _ in range(20):
        course.append(copy.deepcopy(model.state_dict()))
        train(model, optimizer, x, y, 1, watch)
    for p, q in zip(model.parameters(), alone.parameters(), strict=True):
        assert torch.equal(p, q)
    assert watch.steps_with_weights == list(range(21))
    for step in (0, 7, 19):
        kept = watch.network(step).state_dict()
        assert all(torch.equal(kept[key], course[step][key]) for key in kept)
    # Losses and norms belong to the same step as weights.
    for step in (0, 7, 19):
        network = watch.network(step)
        loss = torch.nn.functional.mse_loss(network(x), y)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(network.parameters(), math.inf)
        assert watch.curve[1][step] == pytest.approx(loss.item(), rel=1e-6)
        assert watch.gradient_norm[1][step] == pytest.approx(norm.item(), rel=5e-5)


def test_a_closure_is_looked_at_after_it_was_called_first():
    model, x, y = problem(torch.float64)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    watch = festina.watch(model, optimizer)

    def closure():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    steps, losses = watch.curve
    assert steps.tolist() == [0, 1, 2]
    for step in range(3):
        exact = torch.nn.functional.mse_loss(watch.network(step)(x), y).item()
        assert losses[step] == pytest.approx(exact, rel=1e-12)
    assert len(watch.gradient_norm[0]) == 3


def test_accumulated_gradients_are_one_step():
    runs = []
    for pieces in (1, 4):
        model, x, y = problem(torch.float64)
        optimizer = OPTIMIZERS["sgd"](model.parameters())
        watch = festina.watch(model, optimizer)
        train(model, optimizer, x, y, 30, watch, pieces)
        runs.append((*watch.curve, watch.gradient_norm[1]))
    for one, four in zip(*runs, strict=True):
        np.testing.assert_allclose(one, four, rtol=1e-10)


def test_looking_between_two_batches_of_a_step_changes_nothing():
    model, *_ = problem()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    watch = festina.watch(model, optimizer)
    for loss, seen in ((1.0, 1.0), (2.0, 1.5), (6.0, 3.0)):
        watch.log(loss)
        assert [each.tolist() for each in watch.curve] == [[0], [seen]]
    optimizer.step()
    assert [each.tolist() for each in watch.curve] == [[0], [3.0]]


def test_single_and_double_precision_see_the_same_staircase():
    found = []
    for dtype in (torch.float32, torch.float64):
        model, x, y = problem(dtype)
        optimizer = OPTIMIZERS["sgd"](model.parameters())
        watch = festina.watch(model, optimizer, snapshots="40KB")
        train(model, optimizer, x, y, 300, watch)
        found.append(watch.plateaus())
        assert watch.stairs()[1].step is not None
    single, double = found
    assert len(single) == len(double) == 3
    np.testing.assert_allclose(single.level[:2], double.level[:2], rtol=1e-4)
    np.testing.assert_allclose(single.drop_time, double.drop_time, rtol=1e-3)
    assert double.level[1] == pytest.approx(double.level[0] * 0.36 / 9.36, rel=0.02)


def test_no_step_waits_for_a_number(monkeypatch):
    model, x, y = problem()
    optimizer = OPTIMIZERS["adam"](model.parameters())
    watch = festina.watch(model, optimizer)

    def waits(*_, **__):
        raise AssertionError("a number was fetched within a step")

    with monkeypatch.context() as patched:
        for name in ("item", "cpu", "numpy", "tolist", "__float__", "__bool__"):
            patched.setattr(torch.Tensor, name, waits)
        for _ in range(100):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            watch.log(loss)
            loss.backward()
            watch.before_step()
    assert len(watch.curve[0]) == 100


@pytest.mark.slow
def test_memory_stays_within_its_budget_and_does_not_grow():
    model, x, y = problem()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    watch = festina.watch(model, optimizer, snapshots=10_000)
    counts = []
    for _ in range(3):
        train(model, optimizer, x, y, 600, watch)
        assert watch.snapshot_bytes <= 10_000
        _ = watch.curve, watch.gradient_norm  # fetches pending values
        gc.collect()
        counts.append(sum(issubclass(type(each), torch.Tensor) for each in gc.get_objects()))
    assert counts[0] == counts[1] == counts[2]


@pytest.mark.parametrize(("capacity", "steps"), [(4, 300), (9, 1000), (64, 20_000)])
def test_snapshots_cover_all_of_a_run_and_its_beginning(capacity, steps):
    weights = torch.zeros(10)
    kept = Snapshots(lambda: [weights], capacity * 40)
    for step in range(steps):
        weights.fill_(step)
        kept.offer(step)
    found = np.array(kept.steps)
    assert kept.bytes <= capacity * 40
    assert found[0] == 0
    assert all(kept[step][0].eq(step).all() for step in found.tolist())
    assert np.diff([*found, steps]).max() <= 4 * steps / capacity + 1  # evenly in time
    if capacity == 64:  # and evenly in the logarithm of time
        assert np.diff(np.log(found[1:])).max() < 2 * np.log(steps) / (capacity // 4)


def test_a_record_of_any_length_is_as_long_and_keeps_its_mean():
    record, values = Record(most=100), np.random.default_rng(0).normal(size=12_800)
    for step, value in enumerate(values):
        record.add(step, value)
    steps, found = record.curve
    assert 50 <= len(steps) <= 100
    assert found.mean() == pytest.approx(values.mean(), abs=1e-12)
    assert np.ptp(np.diff(steps)) < 1e-9  # every sample averages the same number of steps


def test_losses_that_are_not_finite_are_passed_over():
    model, x, y = problem()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    watch = festina.watch(model, optimizer)
    train(model, optimizer, x, y, 50, watch)
    for _ in range(5):
        watch.log(torch.tensor(np.nan))
        optimizer.step()
    with pytest.warns(UserWarning, match=r"5 of 55 losses are .*, from step 50: they are left out"):
        assert watch.plateaus().end[-1] <= 49
    empty = festina.watch(model, optimizer)
    with pytest.raises(ValueError, match="no loss yet"):
        empty.plateaus()


def seen(losses, **options):
    return festina.own.from_checkpoints([0], losses, at=[0], **options)


def test_what_leads_to_infinity_is_no_plateau():
    losses = [1.0, 0.9, 0.8, 2.0, 90.0, 1e7, 1e20, 2.9e30, np.inf, np.nan]
    with pytest.warns(UserWarning, match=r"6 of 10 losses are infinite, NaN or diverging"):
        stairs = seen(losses).stairs()
    assert all(stair.level < 2.0 for stair in stairs)
    assert "nan" not in str(stairs)
    # The first loss is low, but the run does not diverge
    late = np.concatenate([[1e-9], np.linspace(1.0, 0.5, 50)])
    assert seen(late).plateaus().end[-1] == 50


def test_a_record_that_begins_or_ends_within_a_drop_has_no_stair_there():
    time = np.arange(400.0)
    inside = 2.0 - np.tanh((time - 10) / 30) - np.tanh((time - 400) / 30)
    stairs = seen(inside).stairs()
    assert len(stairs) == 1
    assert stairs[0].level == pytest.approx(2.0, abs=0.01)
    assert "the record begins within a drop" in stairs.remarks
    assert len(seen(np.linspace(1.0, 0.5, 50)).stairs()) == 0
    assert seen(inside).rests_since is None
    assert seen(inside[:300]).rests_since == pytest.approx(60, abs=20)


def test_an_earlier_network_does_not_rest_since_a_later_step():
    time = np.arange(400.0)
    run = seen(1.0 + 2.0 / (1.0 + np.exp(time - 50)) + 1.0 / (1.0 + np.exp(time - 200)))
    assert run.rests_since == pytest.approx(210, abs=20)
    for loss, rests in ((4.0, False), (2.0, False), (1.6, False), (1.4, True), (1.0, True)):
        assert run.rests_since_at(loss) == (run.rests_since if rests else None)
    first = seen(1.0 + np.exp(-time / 2))  # one plateau
    assert first.rests_since_at(1.9) is None
    assert first.rests_since_at(1.1) == first.rests_since is not None


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_a_loss_that_goes_to_zero_falls_and_does_not_rest(noise):
    time = np.arange(3000.0)
    loss = 1.0 / (1.0 + np.exp((time - 200) / 20)) + 0.02 * np.exp(-time / 500)
    loss *= 1.0 + noise * np.random.default_rng(0).normal(size=time.size)
    stairs = seen(loss).stairs()
    assert [stair.falls for stair in stairs] == [False, True]
    assert "falling" in str(stairs).splitlines()[2]
    assert seen(loss).rests_since is None


def test_a_watch_that_is_closed_or_forgotten_sees_no_more():
    model, x, y = problem()
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    with festina.watch(model, optimizer) as watch:
        train(model, optimizer, x, y, 3, watch)
    train(model, optimizer, x, y, 3)
    assert watch.steps == 3
    assert repr(watch) == "Watch(3 steps, 3 snapshots, 0.0 MB)"
    there = weakref.ref(festina.watch(model, optimizer))
    assert there() is None  # the deleted watch keeps no snapshots
    train(model, optimizer, x, y, 1)


def stepped(epoch, at, noise, steps=4000):
    """Return a loss with drops at some moments, and their times."""
    time = np.arange(steps)
    loss = 1.0 - 0.125 * sum(1 + np.tanh((time - moment) / 8) for moment in at)
    return time, loss * (1 + noise * np.random.default_rng(1).normal(size=steps))


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_drops_where_epochs_end_are_told_apart(noise):
    moments = (1000, 1500, 3000)
    found = festina.diagnose.plateaus(*stepped(1000, moments, noise))
    assert len(found) == 4
    assert at_epochs(found, 1000).tolist() == [True, False, True]
    assert at_epochs(found, None).tolist() == [False] * 3
    steps, losses = stepped(1000, moments, noise)
    run = festina.own.from_checkpoints([0], losses, at=[0], steps=steps, epoch=1000)
    assert [stair.epoch for stair in run.stairs()] == [True, False, False, True]
    assert "2 of 3 drops happen where epochs end" in str(run.stairs())


def test_a_slow_drop_across_the_end_of_an_epoch_is_none_of_its():
    time = np.arange(4000)
    loss = 1 / (1 + np.exp((time - 2000) / 150)) + 0.1
    found = festina.diagnose.plateaus(time, loss)
    assert at_epochs(found, 1000).tolist() == [False]
    assert at_epochs(found, 20).tolist() == [False]  # every step is near the end of an epoch


def test_two_ends_of_epochs_may_be_one_drop():
    """The loss rises in the epoch between two drops, so it is not a plateau."""
    time = np.arange(1000)
    loss = np.array([2.0, 1.8, 1.5, 1.3])[time // 250] + np.where(time // 250 == 1, time / 2500, 0)
    found = festina.diagnose.plateaus(time, loss)
    assert at_epochs(found, 250).all()


@pytest.mark.parametrize("kind", [pytest.param("arrays", marks=pytest.mark.slow), "loader"])
def test_stairs_have_the_widths_of_the_weights_on_each_plateau(kind):
    model, x, y = problem(torch.float64)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1e-2)
    optimizer = OPTIMIZERS["sgd"](model.parameters())
    watch = festina.watch(model, optimizer, snapshots="100KB")
    train(model, optimizer, x, y, 400, watch)
    criterion = torch.nn.functional.mse_loss
    pairs = torch.utils.data.TensorDataset(x, y)
    loader = torch.utils.data.DataLoader(pairs, batch_size=16, shuffle=True)
    stairs = watch.stairs((x, y) if kind == "arrays" else loader, loss=criterion)
    assert model.training
    for stair in stairs:
        assert stair.step is not None
        assert stair.start <= stair.step <= stair.end
        here = festina.diagnose.effective_width(watch.network(stair.step), x, y=y, loss=criterion)
        assert here.loss == pytest.approx(stair.level, rel=0.05, abs=1e-3)
        assert (here.layers, here.kind or "") == (stair.layers, stair.kind)
        assert here.slope == pytest.approx(stair.slope, rel=1e-6)
    assert [stair.layers[0][2] for stair in stairs] == [0, 1, 2]
    assert [stair.confirmed for stair in stairs][:2] == [True, True]
    head, *rows = str(stairs).splitlines()
    assert " ".join(head.split()) == "level from to strength layer 0 (8) type confirmed slope"
    assert rows[1].split()[4:7] == ["1", stairs[1].kind, "yes"]
    with pytest.raises(ValueError, match="`data` must be inputs and targets, got 3"):
        watch.stairs((x, x, y))


def test_running_averages_are_kept_and_frozen_weights_are_not():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 64), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 1)
    )
    optimizer = OPTIMIZERS["sgd"](model[2].parameters())
    watch = festina.watch(model, optimizer, snapshots="8KB")
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    train(model, optimizer, x, y, 1, watch)
    after_one = model[1].running_mean.clone()
    train(model, optimizer, x, y, 5, watch)
    first: Any = watch.network(0)
    assert torch.equal(first[1].running_mean, after_one)
    assert not torch.equal(first[1].running_mean, model[1].running_mean)
    assert torch.equal(first[0].weight, model[0].weight)
    copies = watch.snapshot_bytes / len(watch.steps_with_weights[:-1])
    assert copies == 4 * (64 + 1 + 64 + 64) + 8  # without the frozen first layer


BAD = {
    "`model` must be a torch.nn.Module, got dict. For JAX": lambda m, o: ({}, o, {}),
    "`optimizer` must be one of torch.optim, got float": lambda m, o: (m, 0.1, {}),
    "`optimizer` has none of the parameters": lambda m, o: (copy.deepcopy(m), o, {}),
    "`snapshots` must be a size such as '256MB'": lambda m, o: (m, o, {"snapshots": "many"}),
    "one copy of these weights takes 0.000192 MB": lambda m, o: (m, o, {"snapshots": "500B"}),
    "`every` must be a whole number": lambda m, o: (m, o, {"every": 0}),
    "`epoch` must be a whole number": lambda m, o: (m, o, {"epoch": 0}),
}


@pytest.mark.parametrize("words", BAD)
def test_bad_input(words, as_a_user):
    model, *_ = problem()
    given = BAD[words](model, OPTIMIZERS["sgd"](model.parameters()))
    with pytest.raises(ValueError, match=re.escape(words)):
        festina.watch(*given[:2], **given[2])


def test_a_loss_is_one_number():
    model, *_ = problem()
    watch = festina.watch(model, OPTIMIZERS["sgd"](model.parameters()))
    with pytest.raises(ValueError, match=r"one number, got shape \(3,\)"):
        watch.log(torch.zeros(3))


@pytest.mark.parametrize(
    ("size", "bytes_"),
    [("256MB", 256_000_000), ("1.5 gb", 1_500_000_000), (4096, 4096), ("10K", None)],
)
def test_sizes(size, bytes_):
    if bytes_ is None:
        with pytest.raises(ValueError, match="got '10K'"):
            bytes_of(size)
    else:
        assert bytes_of(size) == bytes_


def test_what_is_logged_after_the_end_is_not_kept():
    model = torch.nn.Linear(2, 1)
    watch = festina.watch(model, torch.optim.SGD(model.parameters(), lr=0.1))
    watch.close()
    watch.log(1.0)
    assert not watch.curve[0].size
