"""Test `festina watch`, `forecast` and `shrink` on users' files, and one line for each error."""

import importlib
import re
import sys

import numpy as np
import pytest

import festina as library

from .conftest import everything

torch = pytest.importorskip("torch")

MINE = """
import torch

def make():
    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))

def wide(width):
    return torch.nn.Linear(2, width)

def tree():
    return {"w": torch.zeros(2).numpy()}

def tree_loss(model, x, y):
    return ((x @ model["w"] - y[:, 0]) ** 2).mean()
"""


@pytest.fixture
def run(here, monkeypatch):
    """Write a module that makes a model and data, and checkpoints of a training run."""
    (here / "mine.py").write_text(MINE)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    torch.manual_seed(0)
    x = torch.randn(32, 2)
    np.savez(here / "d.npz", x=x.numpy().astype(float), y=(x.sum(1, keepdim=True)).numpy())
    (here / "runs").mkdir()
    linear = torch.nn.Linear
    model = torch.nn.Sequential(linear(2, 3), torch.nn.ReLU(), linear(3, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for step in range(40):
        loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
        weights = {name: each.clone() for name, each in model.state_dict().items()}
        torch.save(weights, here / "runs" / f"{step}.pt")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 40}
    torch.save(saved, here / "last.pt")
    library.own.save_weights(here / "last.npz", model)
    return model, x


WHOLE = ["--model", "mine:make", "--loss", "torch.nn.functional:mse_loss", "--data", "d.npz"]


def test_watch_from_files(festina, run, here):
    _, x = run
    y, criterion = x.sum(1, keepdim=True), torch.nn.functional.mse_loss
    files = sorted(str(path) for path in (here / "runs").glob("*.pt"))  # as text, 10 sorts before 2
    outcome = festina("watch", *files, *WHOLE, "--tolerance", "0.2", "--figure", "a.png")
    assert outcome.status == 0, outcome.err
    mine = importlib.import_module("mine")
    models = [torch.load(here / "runs" / f"{step}.pt") for step in range(40)]
    models = [library.own.with_weights(mine.make(), weights) for weights in models]
    losses = [criterion(model(x), y).item() for model in models]
    stairs = library.own.from_checkpoints(models, losses).stairs(
        (x, y), loss=criterion, tolerance=0.2
    )
    assert "layer 0 (3)" in outcome.out
    assert outcome.out == f"{stairs}\na.png\n"
    assert (here / "a.png").stat().st_size > 0


def test_watch_reads_losses_from_files(festina, here):
    for step in range(60):
        saved = {"model": {"w": torch.zeros(1)}, "step": 10 * step, "loss": 1.0 - (step >= 30)}
        torch.save(saved, here / f"{step:03}.pt")
    outcome = festina("watch", *(str(here / f"{step:03}.pt") for step in range(60)))
    assert outcome.status == 0, outcome.err
    first, last = (line.split() for line in outcome.out.splitlines()[1:3])
    assert float(first[0]) == 1.0
    assert float(first[2]) == pytest.approx(290, abs=10)
    assert float(last[0]) == 0.0


def test_watch_refuses_steps_that_restart_or_repeat(festina, here):
    (here / "epoch.csv").write_text("step,loss\n" + "0,2\n1,1\n" * 2)
    assert "got 0 after 1 of 'step' in line 4" in festina("watch", "epoch.csv").err
    for epoch in (1, 2):
        saved = {"model": {"w": torch.zeros(1)}, "step": 7, "loss": 1.0}
        torch.save(saved, here / f"epoch_{epoch}.pt")
    outcome = festina("watch", "epoch_1.pt", "epoch_2.pt")
    assert outcome.status != 0
    assert "'epoch_1.pt' and 'epoch_2.pt' are both of step 7" in outcome.err


OPTIMISERS = {
    "SGD": {"momentum": 0.8, "dampening": 0.1, "weight_decay": 0.3},
    "Adam": {"betas": (0.8, 0.95), "weight_decay": 0.3},
    "AdamW": {"betas": (0.8, 0.95), "weight_decay": 0.3},
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name == "Adam" else ()) for name in OPTIMISERS],
)
def test_forecast_goes_on_from_the_optimiser_in_the_checkpoint(name, festina, run, here):
    model, x = run
    y = x.sum(1, keepdim=True)
    mse = torch.nn.functional.mse_loss
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.005, **OPTIMISERS[name])
    for _ in range(3):
        optimizer.zero_grad()
        mse(model(x), y).backward()
        optimizer.step()
    saved = {"state_dict": model.state_dict(), "optimizer_states": [optimizer.state_dict()]}
    torch.save(saved, here / "mine.ckpt")
    line = ["forecast", "mine.ckpt", *WHOLE, "--max-gradients", "40"]
    expected = []
    for given, change in {
        "": {},
        "--lr .02 --weight-decay .1": {"lr": 0.02, "weight_decay": 0.1},
        "--nesterov --momentum .5" if name == "SGD" else "--betas .5 .6": (
            {"nesterov": True, "momentum": 0.5} if name == "SGD" else {"betas": (0.5, 0.6)}
        ),
    }.items():
        optimizer.param_groups[0].update(change)
        expected.append(str(library.forecast(model, mse, optimizer, (x, y), max_gradients=40)))
        line += given.split()
        outcome = festina(*line)
        assert (outcome.status, outcome.out) == (0, expected[-1] + "\n"), outcome.err
    assert len(set(expected)) == 3  # the three forecasts differ


def untimed(text):
    """Remove the estimated number of steps, which depends on measured times."""
    return re.sub(r"about [\d,.]+ steps", "about N steps", text)


def test_forecast_of_what_has_no_optimiser(festina, run, here):
    model, x = run
    y = x.sum(1, keepdim=True)
    torch.save({"state_dict": model.state_dict(), "optimizer_states": []}, here / "mine.ckpt")
    line = "forecast mine.ckpt --optimizer adam --lr .02 --batch 8 --max-gradients 40"
    outcome = festina(*line.split(), *WHOLE)
    rule, mse = library.own.Adam(0.02), torch.nn.functional.mse_loss
    expected = library.forecast(model, mse, rule, (x, y), batch=8, max_gradients=40)
    assert (outcome.status, untimed(outcome.out)) == (0, untimed(f"{expected}\n")), outcome.err
    assert str(library.forecast(model, mse, rule, (x, y), max_gradients=40)) != str(expected)


def test_forecast_of_a_tree(festina, run, here):
    _, x = run
    np.savez(here / "w.npz", w=np.array([1.0, 2.0]))
    line = "forecast w.npz --lr .002 --momentum .9 --model mine:tree --loss mine:tree_loss"
    outcome = festina(*line.split(), "--data", "d.npz", "--max-gradients", "50")
    tree, rule = {"w": np.array([1.0, 2.0], np.float32)}, library.own.SGD(0.002, momentum=0.9)
    data = x.numpy().astype(float), x.sum(1, keepdim=True).numpy()
    loss = sys.modules["mine"].tree_loss
    expected = library.forecast(tree, loss, rule, data, max_gradients=50)
    assert (outcome.status, untimed(outcome.out)) == (0, untimed(f"{expected}\n")), outcome.err


@pytest.mark.parametrize(("tolerance", "tune"), [(0.3, True), (0.3, False), (1e-6, False)])
def test_shrink_saves_the_narrower_network(tolerance, tune, festina, run, here):
    model, x = run
    line = f"shrink last.npz --model mine:make --data d.npz --tolerance {tolerance} --out s.npz"
    outcome = festina(*line.split(), *[] if tune else ["--no-tune"])
    assert outcome.status == 0, outcome.err
    y = x.sum(1, keepdim=True)
    expected = library.shrink(model, x, y=y, tolerance=tolerance, tune=tune)
    assert (1 if tolerance == 0.3 else 3) == expected.widths["0"]
    assert outcome.out == f"{expected}\ns.npz\n"
    assert "shrink: starting" in outcome.err
    saved = np.load(here / "s.npz")
    for name, weights in expected.model.state_dict().items():
        assert np.array_equal(saved[name], weights.numpy())


FORECAST = "forecast last.pt --lr .01"
BAD = {
    "watch": "Missing CHECKPOINTS",
    "watch runs/0.pt": "'runs/0.pt' has no `loss`. Give `--model`, `--loss` and `--data`",
    "watch runs/0.pt --data d.npz": "`--data` needs a `--model`",
    "watch nothing.pt": "There is no file 'nothing.pt'.",
    "watch mine.py": "'mine.py' must end in one of .pt, .pth, ",
    "watch runs/0.pt --epoch 0": "`--epoch` must be a number from 1 up, got '0'.",
    "shrink last.pt --model mine --data d.npz": "`--model` must be MODULE:FUNCTION, such as mine",
    "shrink last.pt --model mine:nope --data d.npz": "`--model`: there is no 'nope' in 'mine'.",
    "shrink last.pt --model mime:make --data d.npz": "`--model`: 'mime' cannot be imported: Modul",
    "shrink last.pt --model mine:wide --data d.npz": "`--model`: 'mine:wide' must take no arg",
    "shrink last.pt --model mine:make --data e.npz": "There is no file 'e.npz'.",
    "shrink last.pt --model mine:tree --data d.npz": "'last.pt' is of another model: it lacks 'w'",
    "shrink last.pt --model mine:make": "`--data` needs a value.",
    f"{FORECAST} --model mine:make --data d.npz --loss torch.nn:Nothing": "`--loss`: there is no",
    "forecast last.pt --lr fast --model a:b --loss c:d --data e": "`--lr` must be a number from 0",
    f"forecast last.pt --momentum .9 {' '.join(WHOLE)}": (
        "`--momentum` does not go with `--optimizer adam`: leave it out."
    ),
    f"forecast last.pt --optimizer sgd {' '.join(WHOLE)}": (
        "`--optimizer sgd`: the checkpoint has the state of adam."
    ),
    f"forecast last.npz {' '.join(WHOLE)}": "`--lr` is needed: the checkpoint has no state of an",
    f"{FORECAST} --batch 0 --model a:b --loss c:d --data e": "`--batch` must be a number from 1 up",
    f"{FORECAST} --optimizer lion --model a:b --loss c:d --data e": (
        "`--optimizer` must be one of 'sgd', 'adam', 'adamw', got 'lion'."
    ),
}


@pytest.mark.parametrize("line", BAD)
def test_what_is_wrong_is_one_line(line, festina, run, here):
    before = everything(here)
    outcome = festina(*line.split())
    assert outcome.complaint.startswith(BAD[line])
    assert outcome.status == 2
    assert [name for name in everything(here) if "__pycache__" not in name] == before
