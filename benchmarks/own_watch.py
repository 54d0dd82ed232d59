"""Measure the cost of `festina.watch` in a PyTorch run: time per step and memory.

Steps with and without a watch alternate in one process on one thread, in groups of 25, because the
speed of a shared machine varies from second to second. The result is the median ratio of processor
times over groups. Memory is the growth of the process between 1,000 and 5,000 watched steps, with a
limit of 64 MB for snapshots. The benchmark takes one to two minutes.
"""

import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import festina

from .timing import table

OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=1e-2),
    "momentum": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, lr=1e-3),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-3),
}
WIDTHS = {"784–256–10": (784, 256, 10), "10–50–1": (10, 50, 1), "8 × 512": (512,) * 9}
_BUNCH, _BUDGET = 25, 64_000_000


def measure(bunches: int = 40, steps: int = 5_000) -> list[dict]:
    torch.set_num_threads(1)
    results = [
        _share(network, optimizer, bunches if network != "8 × 512" else bunches // 8)
        for network in WIDTHS
        for optimizer in (OPTIMIZERS if network == "784–256–10" else ("SGD", "Adam"))
    ]
    rows = [
        [
            r["network"],
            r["optimizer"],
            f"{1e3 * r['alone']:.3f}",
            f"{1e3 * r['watched']:.3f}",
            f"{100 * r['share']:.1f} %",
            f"{r['megabytes']:.1f}",
        ]
        for r in results
    ]
    table(["network", "optimiser", "ms a step", "watched", "more", "snapshots MB"], rows)
    grown = _growth(steps)
    print(f"\n{grown['steps']} steps: {grown['megabytes']:.1f} MB of snapshots, limit 64 MB;")
    print(f"memory grows by {grown['grown']:.1f} MB from a fifth of the steps to the last.")
    return [*results, grown]


def _run(network: str, optimizer: str) -> tuple[torch.nn.Module, Any, Callable[..., None]]:
    torch.manual_seed(0)
    widths = WIDTHS[network]
    layers = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    rule = OPTIMIZERS[optimizer](model.parameters())
    x, y = torch.randn(64, widths[0]), torch.randn(64, widths[-1])

    def step(watch: Any = None) -> None:
        loss = torch.nn.functional.mse_loss(model(x), y)
        if watch is not None:
            watch.log(loss)
        rule.zero_grad()
        loss.backward()
        rule.step()

    return model, rule, step


def _share(network: str, optimizer: str, bunches: int) -> dict:
    """Alternate steps of two equal runs, one of them watched, and compare their times."""
    *_, alone = _run(network, optimizer)
    model, rule, watched = _run(network, optimizer)
    watch = festina.watch(model, rule, snapshots=_BUDGET)
    seconds = np.empty((bunches, 2))
    for bunch in range(bunches):
        for column in ((0, 1), (1, 0))[bunch % 2]:
            started = time.process_time()
            for _ in range(_BUNCH):
                if column:
                    watched(watch)
                else:
                    alone()
            seconds[bunch, column] = (time.process_time() - started) / _BUNCH
    usual = np.median(seconds, axis=0)
    return {
        "network": network,
        "optimizer": optimizer,
        "alone": usual[0],
        "watched": usual[1],
        "share": float(np.median(seconds[:, 1] / seconds[:, 0]) - 1),
        "megabytes": watch.snapshot_bytes / 1e6,
    }


def _growth(steps: int) -> dict:
    model, rule, step = _run("784–256–10", "Adam")
    watch = festina.watch(model, rule, snapshots=_BUDGET)
    memory = []
    for _ in range(5):
        for _ in range(steps // 5):
            step(watch)
        assert watch.snapshot_bytes <= _BUDGET
        memory.append(_resident())
    return {
        "steps": steps,
        "megabytes": watch.snapshot_bytes / 1e6,
        "grown": memory[-1] - memory[0],
    }


def _resident() -> float:
    """Return the memory of the process in megabytes; NaN on systems without `/proc`."""
    file = Path("/proc/self/statm")
    return int(file.read_text().split()[1]) * 4096 / 1e6 if file.exists() else float("nan")


if __name__ == "__main__":
    measure()
