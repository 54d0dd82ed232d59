"""Compare posterior sampling in festina with HMC in a PyTorch loop: four chains of 1,500 moves.

The task has three classes (P = 60 orthogonal inputs, N = 200 neurons, T = 0.01). Both samplers use
float32, 20 leapfrog steps a move, annealing and adaptive step sizes. PyTorch uses one thread or
two, whichever is faster. All moves cost the same, so only a few of PyTorch's 1,500 moves are timed.
festina runs all moves, and its time includes compilation.
"""

import time

import jax
import numpy as np
import torch

from festina.dynamics import posterior
from festina.tasks import orthogonal_inputs

from .timing import best, table
from .torch_hmc import sample

CHAINS, ANNEAL, BURN, MOVES = 4, 600, 300, 600
TOTAL = ANNEAL + BURN + MOVES
SOME = 25


def measure() -> list[dict]:
    results = [_measure(activation) for activation in ("linear", "erf-sigmoid", "relu")]
    rows = [
        [
            r["activation"],
            f"{r['torch_seconds']:.1f}",
            f"{r['torch_together_seconds']:.1f}",
            f"{r['festina_seconds']:.1f}",
            f"{r['torch_seconds'] / r['festina_seconds']:.1f}",
            f"{r['torch_together_seconds'] / r['festina_seconds']:.1f}",
        ]
        for r in results
    ]
    headings = ["φ", "PyTorch s, chain by chain", "side by side", "festina s"]
    table([*headings, "chain by chain ÷ festina", "side by side ÷ festina"], rows)
    return results


def _measure(activation: str) -> dict:
    task = orthogonal_inputs([20, 20, 20])
    x, y = np.asarray(task.x), np.asarray(task.y)

    def torch_moves(chains: int, threads: int) -> None:
        torch.set_num_threads(threads)
        sample(
            x,
            y,
            activation,
            width=200,
            temperature=0.01,
            chains=chains,
            anneal=SOME,
            burn=0,
            moves=0,
        )

    one, one_of_two, all_, all_of_two = best(
        lambda: torch_moves(1, 1),
        lambda: torch_moves(1, 2),
        lambda: torch_moves(CHAINS, 1),
        lambda: torch_moves(CHAINS, 2),
        repeats=3,
    )
    started = time.perf_counter()
    posterior.sample(
        task,
        width=200,
        activation=activation,
        temperature=0.01,
        chains=CHAINS,
        anneal=ANNEAL,
        burn=BURN,
        moves=MOVES,
        precision="single",
        key=jax.random.key(0),
    )
    return {
        "activation": activation,
        "torch_seconds": CHAINS * TOTAL / SOME * min(one, one_of_two),
        "torch_together_seconds": TOTAL / SOME * min(all_, all_of_two),
        "festina_seconds": time.perf_counter() - started,
    }
