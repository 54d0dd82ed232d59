"""Rows of own: forecasts checked by runs of the optimiser, files by other libraries."""

import itertools
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from festina import diagnose, own

from .outcomes import Fault
from .routes import holds, near, normal
from .rows import Made, made, rows

torch = pytest.importorskip("torch")
safetensors = pytest.importorskip("safetensors.numpy")

FOLDER = tempfile.TemporaryDirectory()
NUMBERS = itertools.count()

row = rows("own", tolerance=(0.05, 0.2), tune=(True, False), progress=(None,), epoch=(None, 3))


# ----------------------------------------------------------------------------------------- models


def module(first, second):
    """Return a perceptron in PyTorch with these weights, or a dictionary if they are invalid."""
    weights = []
    for each in (first, second):
        try:
            each = np.asarray(each)
            weights.append(torch.as_tensor(each.astype(each.dtype.newbyteorder("="))))
        except (TypeError, ValueError):
            return {"first": first, "second": second}
    found = torch.nn.Sequential(
        torch.nn.Linear(1, 1, bias=False), torch.nn.Tanh(), torch.nn.Linear(1, 1, bias=False)
    )
    for layer, weight in zip((found[0], found[2]), weights, strict=True):
        trained = weight.is_floating_point() or weight.is_complex()
        layer.weight = torch.nn.Parameter(weight, requires_grad=trained)
    return found


def tree(rng, inputs=2, width=4):
    first, second = rng.standard_normal((width, inputs)), rng.standard_normal((1, width))
    if rng.integers(2):  # units that can be merged
        first[-1] = first[0]
    return {"first": first, "second": second}


def perceptron(rng):
    return Made(module, tree(rng))


def apply(weights, x):
    import jax.numpy as jnp

    return jnp.tanh(x @ weights["first"].T) @ weights["second"].T


def outputs(model, x):
    """Return the outputs of a PyTorch or dictionary network, computed by NumPy."""
    weights = {name: np.asarray(each) for name, each in named(model).items()}
    first, second = (weights[n] for n in sorted(weights))
    return np.tanh(x @ first.astype(float).T) @ second.astype(float).T


def named(model):
    return model if isinstance(model, dict) else dict(model.state_dict())


# ------------------------------------------------------------------------------------------ files


def nested(rng):
    return {"layers": [rng.standard_normal((3, 2)), rng.standard_normal((1, 3))], "name": "net"}


def flat(value, path=()):
    """Yield arrays with their paths, by an independent implementation."""
    if not isinstance(value, dict | list | tuple):
        inner = {"": value}.items()
    else:
        inner = value.items() if isinstance(value, dict) else enumerate(value)
    for name, each in inner:
        if isinstance(each, dict | list | tuple):
            yield from flat(each, (*path, str(name)))
        elif hasattr(each, "shape") and np.asarray(each).dtype.kind in "biufc":
            yield ".".join((*path, str(name))), each


def same(found, right):
    holds("names are the same", set(found) == set(right))
    for name, each in right.items():
        a, b = np.asarray(found[name]), np.asarray(each)
        holds(f"`{name}` is the same", a.shape == b.shape and a.dtype.kind == b.dtype.kind)
        equal = np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
        holds(f"`{name}` is the same to its precision", equal)
    return "right"


@row("named_weights", model=nested)
def _(found, g):
    return same(found, dict(flat(g["model"])))


def weights(rng):
    model = nested(rng)
    other = {name: rng.standard_normal(each.shape) for name, each in flat(model)}
    return {"model": model, "weights": other}


@row("with_weights", weights, origin=("`weights`",))
def _(found, g):
    got, model = own.named_weights(found), dict(flat(g["model"]))
    for name, right in g["weights"].items():
        kept, right = np.asarray(got[name], complex), np.asarray(right, complex)
        rtol = 1e-2 if model[name].dtype.itemsize < 4 else 1e-6
        near(np.real(kept), np.real(right), rtol)
        near(np.imag(kept), np.imag(right), rtol)
    return "right"


def file(suffix):
    return lambda rng: str(Path(FOLDER.name) / f"{next(NUMBERS)}-{rng.integers(99)}{suffix}")


def read(path):
    if path.endswith(".npz"):
        with np.load(path) as arrays:
            return dict(arrays)
    if path.endswith(".safetensors"):
        return safetensors.load_file(path)
    return torch.load(path, weights_only=True)


SUFFIXES = (".npz", ".safetensors", ".pt")


@row(
    "save_weights",
    path=lambda rng: file(SUFFIXES[rng.integers(3)])(rng),
    model=lambda rng: (nested, perceptron)[rng.integers(2)](rng),
)
def _(found, g):
    model = g["model"]
    right = model.state_dict() if isinstance(model, torch.nn.Module) else dict(flat(model))
    return same(read(g["path"]), right)


def written(rng):
    """Return the path of a file written by the library of its format."""
    path, arrays = file(SUFFIXES[rng.integers(3)])(rng), dict(flat(nested(rng)))
    if path.endswith(".npz"):
        np.savez(path, **arrays)
    elif path.endswith(".safetensors"):
        safetensors.save_file(arrays, path)
    else:
        torch.save({name: torch.as_tensor(each) for name, each in arrays.items()}, path)
    return path


@row("read_checkpoint", path=written)
def _(found, g):
    near(found.step, int(Path(g["path"]).stem.split("-")[1]), 0)
    return same(found.weights, read(g["path"]))


# ---------------------------------------------------------------------------------------- watched


def staircase(rng):
    t = np.arange(60.0)
    first, second = (1 / (1 + np.exp(-(t - d))) for d in np.sort(rng.uniform(5, 55, 2)))
    losses = 3.0 - 1.5 * first - second + 0.01 * rng.standard_normal(60)
    taken = {} if rng.integers(2) else {"at": np.arange(0.0, 60.0, 10.0)}
    checkpoints = [str(k) for k in range(len(taken.get("at", t)))]
    steps = rng.permutation(60) * 2.0 if rng.integers(2) and not taken else None
    return {"checkpoints": checkpoints, "losses": losses, "steps": steps, "at": None, **taken}


@row("from_checkpoints", staircase, read=(None, len))
def _(found, g):
    """Check that plateaus are those of the losses, and that checkpoints match their steps."""
    losses = g.losses
    when = np.arange(float(len(losses))) if g["steps"] is None else g.steps
    at = when if g["at"] is None else g.at
    for step, checkpoint in zip(at, g["checkpoints"], strict=True):
        if g["read"] in (None, len):
            right = checkpoint if g["read"] is None else len(checkpoint)
            holds("checkpoints are those of their steps", found.network(step) == right)
    order = np.argsort(when, kind="stable")
    if not np.isfinite(losses).all() or abs(losses).max() > 100 * abs(losses[order[0]]):
        return "kept"  # diverging runs are cut, with a warning
    right, shown = diagnose.plateaus(when[order], losses[order]), found.plateaus()
    for name in ("level", "start", "end", "strength"):
        near(np.nan_to_num(getattr(shown, name)), np.nan_to_num(getattr(right, name)), 1e-12)
    return "right"


def trained(rng):
    model: Any = module(**tree(rng))
    kind = (torch.optim.SGD, torch.optim.Adam)[rng.integers(2)]
    return {"model": model, "optimizer": kind(model.parameters(), lr=0.01)}


@row("watch", trained, every=(1, 2), snapshots=("1MB", None, 4096), cost=4)
def _(found, g):
    """Check losses, norms and weights of a few steps, recorded independently."""
    model, optimizer = g["model"], g["optimizer"]
    x, y = torch.ones(3, 2, dtype=torch.float64), torch.zeros(3, 1, dtype=torch.float64)
    losses, norms, before = [], [], []
    for step in range(5):
        loss = torch.nn.functional.mse_loss(model(x + step), y)
        found.log(loss)
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        norms.append(math.sqrt(sum(float((p.grad**2).sum()) for p in model.parameters())))
        before.append([p.detach().clone() for p in model.parameters()])
        optimizer.step()
    near(found.curve, [range(5), losses], 1e-12)
    steps, seen = found.gradient_norm
    near(seen, np.array(norms)[steps.astype(int)], 1e-9)
    holds("norms come as often as was asked", steps % int(g.every) == 0)
    for step in found.steps_with_weights[:-1]:
        pairs = zip(found.network(step).parameters(), before[int(step)], strict=True)
        holds("snapshots are the weights of then", all(torch.equal(a, b) for a, b in pairs))
    found.close()
    return "right"


# ----------------------------------------------------------------------------------------- shrink


def network(rng):
    """Return a network of PyTorch or JAX."""
    if rng.integers(3):
        return {"model": perceptron(rng), "apply": None}
    return {"model": tree(rng), "apply": apply}


@row("shrink", network, x=normal(20, 2), y=(None,), widths=(None, 2, 3), steps=(20,), cost=20)
def _(found, g):
    """Check errors by NumPy on all inputs, which include the held-out ones."""
    whole, narrow = (outputs(each, g.x) for each in (g["model"], found.model))
    scale = found.scale or 1.0
    holds("no layer is wider", all(found.widths[n] <= found.full[n] for n in found.full))
    if g["widths"] is not None:
        near(list(found.widths.values()), np.full(len(found.full), g.widths), 0)
    elif found.error > float(g.tolerance) * (1 + 1e-3) + 1e-5:
        raise Fault(f"has the error {found.error}, more than asked")
    if scale < 1e-6 * np.abs(whole).max():
        return "kept"
    rows_apart = np.sqrt(((whole - narrow) ** 2).sum(1)) / scale
    rounding = 1e-3 if "f2" in str(getattr(g.x, "dtype", "")) else 1e-5
    held = math.ceil(len(whole) / 5) if len(whole) >= 10 else len(whole)
    apart = np.sort(rows_apart**2)
    low, high = math.sqrt(apart[:held].mean()), math.sqrt(apart[-held:].mean())
    return (
        holds(
            f"the error {found.error} lies between {low} and {high}",
            low - rounding <= found.error <= high * (1 + 1e-3) + rounding,
        )
        and "right"
    )


def half_square(outputs, y):
    return ((outputs - y) ** 2).mean() / 2


@row(
    "effective_width",
    network,
    x=normal(20, 2),
    y=normal(20, 1),
    loss=(None, half_square),
    steps=(20,),
    cost=20,
)
def _(found, g):
    holds("widths are at most the units", [0 <= few <= units for _, units, few in found.layers])
    whole = outputs(g["model"], g.x)
    if found.kind is not None:
        holds("the error is within the tolerance", found.error <= float(g.tolerance) + 1e-6)
    if g["loss"] is None or g["y"] is None:
        return holds("without a loss nothing is confirmed", found.confirmed is None)
    right = half_square(whole, g.y)
    return near(found.loss, right, 1e-5, 1e-6 * np.abs(whole).max() ** 2)


# -------------------------------------------------------------------------------------- forecasts


@row("AdamW", lr=(1e-3, 0.1), weight_decay=(0.0, 0.01), rest=lambda rng: {"betas": (0.9, 0.999)})
def _(found, g):
    """Check by the roots of the recursion that a parabola is stable only below the bound."""
    holds("the decay is decoupled", found.decoupled)
    b, eta = float(found.betas[0]), float(np.max(found.lr))
    for factor, stable in ((0.99, True), (1.01, False)):
        a = (1 - b) * factor * found.bound / eta
        largest = np.abs(np.linalg.eigvals([[1 - eta * a, -eta * b], [a, b]])).max()
        holds("it is stable up to the bound", (largest <= 1 + 1e-9) == stable)
    near(found.weight_decay, g.weight_decay, 1e-12)
    return near(found.lr, g.lr, 1e-12)


def regression(weights, x, y):
    return ((x @ weights["w"] - y) ** 2).mean()


def two_layers(weights, x, y):
    return ((x @ weights["first"] @ weights["second"] - y) ** 2).mean()


def problem(rng):
    x = rng.standard_normal((12, 2))
    data = [x, x @ rng.standard_normal((2, 1)) + 0.1 * rng.standard_normal((12, 1))]
    if rng.integers(2):
        return {"model": {"w": rng.standard_normal((2, 1))}, "loss": regression, "data": data}
    small = lambda *shape: 10.0 ** rng.uniform(-3, -1) * rng.standard_normal(shape)
    return {
        "model": {"first": small(2, 3), "second": small(3, 1)},
        "loss": two_layers,
        "data": data,
    }


def ahead(g, steps):
    """Return losses along the optimiser's own steps in float64, by PyTorch's derivatives."""
    tensor = lambda a: torch.as_tensor(np.array(a, dtype=float, order="C"))
    w = {name: tensor(each).requires_grad_() for name, each in g["model"].items()}
    rule, data, losses = g["optimizer"], [tensor(each) for each in g["data"]], []
    run = torch.optim.SGD(
        list(w.values()),
        lr=float(rule.lr),
        momentum=float(rule.momentum),
        weight_decay=float(rule.weight_decay),
    )
    for _ in range(steps):
        run.zero_grad()
        loss = g["loss"](w, *data)
        loss.backward()
        losses.append(loss.item())
        if not np.isfinite(losses[-1]):
            break
        run.step()
    return np.array(losses)


MOST = 3000  # number of steps taken to check a forecast


@row(
    "forecast",
    problem,
    optimizer=made(
        own.SGD, lr=(0.003, 0.03, 0.3, 1.5), momentum=(0.0, 0.9), weight_decay=(0.0, 0.01)
    ),
    max_gradients=(300,),
    samples=(None,),
    batch=(None,),
    epoch=(1,),
    every_gradient=(False,),
    insist=(True, False),
    cost=20,
)
def _(found, g):
    """Check the forecast loss against the optimiser's own steps."""
    first = ahead(g, 1)[0]
    near(found.loss, first, 1e-4, 1e-6)
    decay = float(g["optimizer"].weight_decay)
    zero = {**g, "model": {name: 0 * np.asarray(each) for name, each in g["model"].items()}}
    scale = ahead(zero, 1)[0]
    least = max(0.03 * abs(first), 1e-3 * scale)
    patience = 3 / (1 - float(g["optimizer"].momentum))
    if g["loss"] is regression:
        curved = 2 * np.linalg.eigvalsh(np.asarray(g["data"][0], float).T @ g["data"][0])[-1]
        curved = curved / len(g["data"][0]) + decay
        load = curved * float(g["optimizer"].lr) / (2 * (1 + float(g["optimizer"].momentum)))
        if found.verdict == "unstable":
            holds(f"a load of {load} is unstable", load > 0.97)
        elif load > 1.05 and ahead(g, 60)[-1] > 2 * first:
            raise Fault(f"is {found.verdict}, and the load is {load}")
    if found.left is not None:
        low, high = found.band
        if high + patience > MOST:
            return "kept"
        losses = ahead(g, int(high + patience) + 2)
        level = found.plateau - 0.1 * (found.plateau - found.level)
        left = np.flatnonzero(losses <= level + 1e-6 * abs(level))
        holds(f"the plateau is left by {high}", left.size)
        early = left[0] >= low - patience - 0.1 * found.left
        return holds(f"the plateau is left in {found.band}, not in {left[0]}", early) and "right"
    if found.ahead > MOST or found.verdict not in ("minimum", "settling", "no staircase"):
        return "kept"
    losses = ahead(g, math.ceil(found.ahead) + 1)
    if found.verdict == "minimum":
        holds("no drop comes", losses[0] - losses[-1] <= 1.1 * least)
        return "right"
    near(found.end, losses[-1], 0.1, max(first, scale))
    for step, loss in zip(found.course.time, found.course.loss, strict=True):
        early, late = math.floor(0.9 * step), math.ceil(1.1 * step) + 2
        about, off = losses[early:late], 0.05 * max(first, scale)
        near_by = about.min() - off <= loss <= about.max() + off
        holds(f"the loss of step {step} is {loss}, among {about.min()} and {about.max()}", near_by)
    return "right"
