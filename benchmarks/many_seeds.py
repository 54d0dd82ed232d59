"""Compare gradient flow of 256 seeds in one call with 256 calls.

All seeds have the same end time, 1.5 times that of the last drop of the first seed.
"""

import jax

import festina
from festina.diagnose import plateaus

from .problems import PROBLEMS, Problem
from .timing import best, table

SEEDS, CALLS = 256, 32


def measure() -> list[dict]:
    results = [_measure(problem) for problem in PROBLEMS]
    table(
        ["panel", "ms a trajectory, one call", "many calls", "ratio"],
        [
            [
                r["panel"],
                f"{1e3 * r['one_call']:.2f}",
                f"{1e3 * r['many_calls']:.2f}",
                f"{r['many_calls'] / r['one_call']:.1f}",
            ]
            for r in results
        ],
    )
    return results


def _measure(problem: Problem) -> dict:
    task = problem.task(8192)
    keys = festina.seeds(SEEDS)
    together = problem.network(keys)
    alone = [problem.network(keys[seed]) for seed in range(CALLS)]
    first = festina.gradient_flow(problem.network(jax.random.key(0)), task, loss="mean-square")
    drops = plateaus(first).drop_time

    def flow(network):
        return festina.gradient_flow(
            network, task, loss="mean-square", rtol=1e-5, t_end=1.5 * float(drops[-1])
        )

    one_call, many_calls = best(
        lambda: flow(together),
        # A few calls are enough to measure the cost of one.
        lambda: [flow(network) for network in alone],
        repeats=4,
    )
    return {
        "panel": problem.name,
        "one_call": one_call / SEEDS,
        "many_calls": many_calls / CALLS,
    }
