"""Cost against the number of samples, for networks with fixed features.

The statistics of a task are computed once for each kind of unit; training never sees the samples
again. 'first call' includes computing them.
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
    # One horizon for both, so that only the number of samples differs.
    longest = festina.gradient_flow(network, problem.task(512), loss="mean-square", max_steps=5000)
    horizon = 0.6 * float(longest.time[-1])
    seconds, first = {}, {}
    for size in SIZES:
        task = problem.task(size)

        def flow(task=task):
            return festina.gradient_flow(
                network, task, loss="mean-square", rtol=1e-5, t_end=horizon
            )

        started = time.perf_counter()
        run = flow()
        first[size] = time.perf_counter() - started
        # The data sets differ, and with them the number of steps: compare the cost of one.
        seconds[size] = best(flow, repeats=40) / int(run.evaluations)
    return {
        "panel": problem.name,
        "seconds_per_gradient": seconds,
        "first_call_seconds": first,
        "ratio": seconds[SIZES[1]] / seconds[SIZES[0]],
    }
