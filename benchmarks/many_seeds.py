"""256 seeds in one call against 256 calls."""

import festina

from .problems import PROBLEMS
from .timing import best, table

SEEDS, CALLS = 256, 32


def measure() -> list[dict]:
    results = []
    for problem in PROBLEMS:
        task = problem.task(8192)
        keys = festina.seeds(SEEDS)
        together = problem.network(keys)
        alone = [problem.network(keys[seed]) for seed in range(CALLS)]

        def flow(network, task=task):
            return festina.gradient_flow(network, task, loss="mean-square", rtol=1e-5)

        batch = best(lambda: flow(together), repeats=2) / SEEDS  # noqa: B023
        # A sample of the calls is enough for the cost of one.
        single = best(lambda: [flow(network) for network in alone], repeats=2) / CALLS  # noqa: B023
        results.append({"panel": problem.name, "one_call": batch, "many_calls": single})
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
