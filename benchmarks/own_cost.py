"""Compare the time of `festina.forecast` on mini-batch runs with the training that it forecasts.

`python -m benchmarks.own_cost` times the forecast and the training steps after it in one process.
A forecast with the verdict 'undecided' has no ratio; its printed text contains the estimated cost.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import festina

from .own_runs import digits, mlp
from .timing import table

CROSS_ENTROPY = nn.CrossEntropyLoss()
_TIMED = 20  # number of training steps that are timed


@dataclass
class Case:
    """Mini-batch training run, with its number of steps before the forecast."""

    name: str
    make: Callable[[], nn.Module]
    data: Callable[[], tuple]
    optimiser: Callable[[Any], torch.optim.Optimizer]
    batch: int
    before: int


class Transformer(nn.Module):
    """Small transformer encoder that predicts the most frequent token."""

    def __init__(self, tokens: int = 12, width: int = 64):
        super().__init__()
        self.embed = nn.Embedding(tokens, width)
        layer = nn.TransformerEncoderLayer(width, 4, 128, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.read = nn.Linear(width, tokens)

    def forward(self, x):
        return self.read(self.encoder(self.embed(x)).mean(1))


def conv() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 28)),
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 49, 10),
    )


def images() -> tuple:
    x, y = digits(5000)
    return x.reshape(-1, 28, 28), y


def counts(n: int = 4000, tokens: int = 12) -> tuple:
    x = torch.randint(tokens, (n, 16))
    return x, nn.functional.one_hot(x, tokens).sum(1).argmax(1)


def sgd(lr, **rest):
    return lambda p: torch.optim.SGD(p, lr=lr, **rest)


CASES = (
    Case(
        "MNIST, momentum",
        mlp(784, 256, 10, std=1e-3),
        lambda: digits(5000),
        sgd(0.01, momentum=0.9),
        64,
        20,
    ),
    Case(
        "MNIST, momentum, later",
        mlp(784, 256, 10, std=0.05),
        lambda: digits(5000),
        sgd(0.01, momentum=0.9),
        64,
        500,
    ),
    Case(
        "MNIST, descent, small weights",
        mlp(784, 256, 10, std=1e-5),
        lambda: digits(5000),
        sgd(0.002),
        64,
        20,
    ),
    Case("convolutions", conv, images, sgd(0.02, momentum=0.9), 64, 20),
    Case("convolutions, Adam", conv, images, lambda p: torch.optim.Adam(p, lr=1e-3), 64, 20),
    Case("transformer", Transformer, counts, lambda p: torch.optim.Adam(p, lr=5e-4), 32, 20),
    Case("transformer, descent", Transformer, counts, sgd(0.02, momentum=0.9), 32, 20),
)


def train(model, optimiser, loader, steps: int) -> float:
    """Train for `steps` steps and return the seconds."""
    start, taken = time.perf_counter(), 0
    while taken < steps:
        for x, y in loader:
            optimiser.zero_grad()
            CROSS_ENTROPY(model(x), y).backward()
            optimiser.step()
            taken += 1
            if taken >= steps:
                break
    return time.perf_counter() - start


def ask(case: Case, seed: int = 0, **options: Any) -> tuple[festina.own.Forecast, float, float]:
    """Return the forecast, its seconds, and the seconds of a training step."""
    torch.manual_seed(seed)
    model, data = case.make(), TensorDataset(*case.data())
    optimiser = case.optimiser(model.parameters())
    loader = DataLoader(data, case.batch, shuffle=True)
    train(model, optimiser, loader, case.before)
    start = time.perf_counter()
    seen = festina.forecast(model, CROSS_ENTROPY, optimiser, loader, **options)
    seconds = time.perf_counter() - start
    return seen, seconds, train(model, optimiser, loader, _TIMED) / _TIMED


def main(names: list[str]) -> None:
    rows = []
    for case in CASES:
        if names and case.name not in names:
            continue
        seen, seconds, step = ask(case)
        training = step * seen.ahead
        print(f"{case.name}: {seen}", flush=True)
        ratio = (
            "refused"
            if seen.verdict == "undecided"
            else f"{seconds / training:.2f}"
            if training
            else "–"
        )
        rows.append(
            [
                case.name,
                seen.verdict,
                f"{seen.ahead:.0f}",
                f"{seconds:.1f}",
                f"{training:.1f}",
                ratio,
            ]
        )
    table(["run", "verdict", "steps ahead", "forecast (s)", "training (s)", "ratio"], rows)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(sys.argv[1:])
