"""Typical training runs in PyTorch, with snapshots and the loss on all examples."""

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

KEPT = 150  # number of snapshots of a run
SEEN = 1200  # number of losses of a run


@dataclass
class Kind:
    """Kind of training run: a model, its data, its loss and its optimiser."""

    name: str
    make: Callable[[], nn.Module]
    data: Callable[[], tuple]
    loss: Callable
    optimiser: Callable
    steps: int
    batch: int | None = None
    metric: Callable | None = None


@dataclass
class Trained:
    """Finished run with its snapshots; a forecast starts from one of them."""

    kind: Kind
    seed: int
    data: tuple
    time: np.ndarray
    loss: np.ndarray
    metric: np.ndarray
    snapshots: list

    def at(self, index: int) -> tuple[nn.Module, torch.optim.Optimizer]:
        model = self.kind.make()
        optimiser = self.kind.optimiser(model.parameters())
        _, weights, state = self.snapshots[index]
        model.load_state_dict(weights)
        optimiser.load_state_dict(state)
        return model, optimiser


def train(kind: Kind, seed: int) -> Trained:
    """Return a run, loaded from the folder `FESTINA_RUNS` if it has been saved there."""
    folder = os.environ.get("FESTINA_RUNS")
    path = Path(folder or ".") / f"{kind.name}-{seed}.pt".replace(" ", "-")
    torch.manual_seed(seed)
    data = kind.data()
    if not (folder and path.exists()):
        kept = _train(kind, data)
        if not folder:
            return Trained(kind, seed, data, *kept)
        torch.save(kept, path)
    return Trained(kind, seed, data, *torch.load(path, weights_only=False))


def _train(kind: Kind, data: tuple) -> tuple:
    model, (x, y, *held) = kind.make(), data
    optimiser = kind.optimiser(model.parameters())
    n, often, seldom = len(y), max(1, kind.steps // SEEN), max(1, kind.steps // KEPT)
    time, losses, metrics, snapshots = [], [], [], []
    for step in range(kind.steps + 1):
        if step % often == 0:
            with torch.no_grad():
                time.append(step)
                losses.append(kind.loss(model(x), y).item())
                metrics.append(kind.metric(model, *held) if kind.metric else np.nan)
        if step % seldom == 0:
            snapshots.append((step, _copy(model.state_dict()), _copy(optimiser.state_dict())))
        rows = slice(None) if kind.batch is None else torch.randint(n, (kind.batch,))
        optimiser.zero_grad()
        kind.loss(model(x[rows]), y[rows]).backward()
        optimiser.step()
    return np.array(time), np.array(losses), np.array(metrics), snapshots


def _copy(state):
    if isinstance(state, torch.Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return type(state)((key, _copy(value)) for key, value in state.items())
    return [_copy(each) for each in state] if isinstance(state, list) else state


def mlp(*widths: int, std: float, bias: bool = False) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        layers = []
        for a, b in itertools.pairwise(widths):
            layers += [nn.Linear(a, b, bias=bias), nn.ReLU()]
        return small(nn.Sequential(*layers[:-1]), std)

    return make


def small(model: nn.Module, std: float) -> nn.Module:
    for name, weight in model.named_parameters():
        if "bias" in name:
            nn.init.zeros_(weight)
        else:
            nn.init.normal_(weight, std=std)
    return model


def teacher(units: int = 4, d: int = 6, n: int = 500, bias: float = 0.0) -> Callable[[], tuple]:
    def data() -> tuple:
        x = torch.randn(n, d)
        u = nn.init.orthogonal_(torch.empty(d, d))[:units]
        v = torch.tensor([1.6, -1.2, 0.9, -0.6, 0.4])[:units]
        return x, (torch.relu(x @ u.T + bias * torch.randn(units)) @ v)[:, None]

    return data


class Attention(nn.Module):
    """Attention with heads of rank one that predicts the label of the query token."""

    def __init__(self, d: int, heads: int, softmax: bool):
        super().__init__()
        self.k, self.q = nn.Parameter(torch.empty(heads, d)), nn.Parameter(torch.empty(heads, d))
        self.v = nn.Parameter(torch.empty(heads))
        self.softmax = softmax

    def forward(self, tokens):  # (sample, token, d + 1), the query is last
        x, y = tokens[..., :-1], tokens[:, :-1, -1]
        score = torch.einsum("hd,std,he,se->hst", self.k, x[:, :-1], self.q, x[:, -1])
        weight = score.softmax(-1) if self.softmax else score / score.shape[-1]
        return torch.einsum("h,hst,st->s", self.v, weight, y)[:, None]


def in_context(d: int = 3, tokens: int = 12, n: int = 500) -> tuple:
    x = torch.randn(n, tokens + 1, d) * torch.tensor([1.5, 1.0, 0.7])[:d]
    y = torch.einsum("std,sd->st", x, torch.randn(n, d))
    target = y[:, -1:].clone()
    y[:, -1] = 0.0
    return torch.cat([x, y[..., None]], -1), target


def digits(n: int = 1000) -> tuple:
    from festina.tasks import mnist_digits

    images = mnist_digits(range(10))
    some = torch.randperm(len(images.x))[:n].cpu().numpy()
    return torch.tensor(images.x[some]).float(), torch.tensor(images.y[some]).argmax(1)


def accuracy(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    with torch.no_grad():
        return (model(x).argmax(1) == y.argmax(1)).float().mean().item()


class Square(nn.Module):
    def forward(self, x):
        return x**2


def clock(p: int = 29, shown: float = 0.6) -> tuple:
    """Return random training and test pairs of numbers with their sums modulo p as targets."""
    order = torch.randperm(p * p)
    a, b = order // p, order % p
    x = torch.cat([nn.functional.one_hot(a, p), nn.functional.one_hot(b, p)], 1).float()
    y = nn.functional.one_hot((a + b) % p, p).float()
    m = int(shown * p * p)
    return x[:m], y[:m], x[m:], y[m:]


def sgd(lr, **rest):
    return lambda p: torch.optim.SGD(p, lr=lr, **rest)


def adam(lr, **rest):
    return lambda p: torch.optim.Adam(p, lr=lr, **rest)


MSE = nn.MSELoss()
KINDS = (
    Kind("ReLU GD", mlp(6, 30, 1, std=1e-5), teacher(), MSE, sgd(0.05), 1500),
    Kind(
        "ReLU SGD 32",
        mlp(6, 30, 1, std=1e-5, bias=True),
        teacher(bias=0.3),
        MSE,
        sgd(0.01),
        8000,
        32,
    ),
    Kind(
        "ReLU momentum",
        mlp(6, 30, 1, std=1e-5),
        teacher(),
        MSE,
        sgd(0.001, momentum=0.9),
        8000,
        32,
    ),
    Kind("ReLU Adam", mlp(6, 30, 1, std=1e-3), teacher(), MSE, adam(5e-4), 3000, 32),
    Kind("three layers", mlp(6, 20, 20, 1, std=1e-2), teacher(2), MSE, sgd(0.05), 1500),
    Kind(
        "linear attention",
        lambda: small(Attention(3, 6, False), 1e-2),
        in_context,
        MSE,
        sgd(0.05),
        1200,
    ),
    Kind(
        "softmax attention",
        lambda: small(Attention(3, 6, True), 1e-2),
        in_context,
        MSE,
        sgd(0.05),
        1200,
    ),
    Kind(
        "MNIST",
        mlp(784, 64, 10, std=1e-4),
        digits,
        nn.CrossEntropyLoss(),
        sgd(0.2),
        600,
    ),
)

GROKKING = Kind(
    "grokking",
    lambda: nn.Sequential(nn.Linear(58, 96, bias=False), Square(), nn.Linear(96, 29, bias=False)),
    clock,
    MSE,
    lambda p: torch.optim.AdamW(p, lr=5e-4, weight_decay=1.0),
    1500,
    metric=accuracy,
)
