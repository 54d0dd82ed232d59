"""Test callbacks of Lightning and transformers with the installed packages or with stand-ins."""

import math
import sys
import types

import pytest

import festina

torch = pytest.importorskip("torch")


class Callback:
    """Stand-in for the base class of callbacks of Lightning and transformers."""


def batches(count):
    torch.manual_seed(1)
    return [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(count)]


def fit(callback, model, optimizer, data, accumulate):
    """Call hooks in the order of Lightning's automatic optimisation: steps call a closure."""
    trainer = types.SimpleNamespace(optimizers=[optimizer], accumulate_grad_batches=accumulate)
    callback.on_train_start(trainer, model)
    for index, (x, y) in enumerate(data):

        def closure(x=x, y=y, index=index):
            if index % accumulate == 0:
                optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y) / accumulate
            callback.on_before_backward(trainer, model, loss)
            loss.backward()
            if (index + 1) % accumulate == 0:
                callback.on_before_optimizer_step(trainer, model, optimizer)
            return loss

        if (index + 1) % accumulate:
            closure()
        else:
            optimizer.step(closure)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_lightning(accumulate, monkeypatch):
    monkeypatch.setitem(sys.modules, "lightning", types.ModuleType("lightning"))
    stand_in = types.SimpleNamespace(Callback=Callback)
    monkeypatch.setitem(sys.modules, "lightning.pytorch", stand_in)
    seen = festina.own.lightning_callback(snapshots="1MB")
    assert isinstance(seen, Callback)
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    data = batches(8)
    fit(seen, model, torch.optim.SGD(model.parameters(), lr=0.01), data, accumulate)
    assert seen.watch is not None
    assert seen.watch.steps == 8 // accumulate
    for step in range(seen.watch.steps):
        part = data[step * accumulate : (step + 1) * accumulate]
        network = seen.watch.network(step)
        losses = [torch.nn.functional.mse_loss(network(x), y) for x, y in part]
        mean = torch.stack(losses).mean()
        mean.backward()
        norm = torch.nn.utils.clip_grad_norm_(network.parameters(), math.inf)
        assert seen.watch.curve[1][step] == pytest.approx(mean.item(), rel=1e-6)
        assert seen.watch.gradient_norm[1][step] == pytest.approx(norm.item(), rel=1e-5)


def test_hugging_face(monkeypatch):
    stand_in = types.SimpleNamespace(TrainerCallback=Callback)
    monkeypatch.setitem(sys.modules, "transformers", stand_in)
    seen = festina.own.hugging_face_callback(every=2)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    seen.on_train_begin(None, None, None, model=model, optimizer=optimizer)
    for step, (x, y) in enumerate(batches(6)):
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        seen.on_pre_optimizer_step(None, None, None, model=model, optimizer=optimizer)
        optimizer.step()
        seen.on_log(None, None, None, logs={"loss": float(step)})
    seen.on_log(None, None, None, logs={"train_runtime": 1.0})
    assert seen.watch is not None
    assert seen.watch.curve[1].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert seen.watch.steps_with_weights == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("make", "package"),
    [
        (festina.own.lightning_callback, "lightning"),
        (festina.own.hugging_face_callback, "transformers"),
    ],
)
def test_what_is_missing_is_named(make, package, monkeypatch):
    for name in ("lightning", "lightning.pytorch", "pytorch_lightning", "transformers"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ValueError, match=f"not installed: pip install '?{package}"):
        make()
