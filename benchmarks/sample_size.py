"""Measure the cost of a gradient against the number of samples, for networks with fixed features.

festina computes the statistics of a task once per kind of unit, and training then uses only the
statistics. The column 'first call' includes the time to compute the statistics.
"""

import time

import jax

import festina

from .problems import PROBLEMS, Problem
from .timing import best, table

SIZES = (512, 65_536)


def measure() -> list[dict]:
    results = [_measure(problem) for problem in PROBLEMS if problem.has_moments]
    table(
        ["panel", *(f"µs a gradient, P = {size}" for size in SIZES), "ratio", "first call s"],
        [
            [
                r["panel"],
                *(f"{1e6 * r['seconds_per_gradient'][size]:.2f}" for size in SIZES),
                f"{r['ratio']:.2f}",
                f"{r['first_call_seconds'][SIZES[1]]:.2f}",
            ]
            for r in results
        ],
    )
    return results


def _measure(problem: Problem) -> dict:
    network = problem.network(jax.random.key(0))
    tasks = [problem.task(size) for size in SIZES]

    def flow(task):
        # Equal numbers of steps, so only the number of samples differs.
        return festina.gradient_flow(
            network, task, loss="mean-square", converged=1e-15, max_steps=200
        )

    first, evaluations = {}, {}
    for size, task in zip(SIZES, tasks, strict=True):
        started = time.perf_counter()
        evaluations[size] = int(flow(task).evaluations)
        first[size] = time.perf_counter() - started
    totals = best(*(lambda task=task: flow(task) for task in tasks), repeats=60)
    seconds = {size: total / evaluations[size] for size, total in zip(SIZES, totals, strict=True)}
    return {
        "panel": problem.name,
        "seconds_per_gradient": seconds,
        "first_call_seconds": first,
        "ratio": seconds[SIZES[1]] / seconds[SIZES[0]],
    }
