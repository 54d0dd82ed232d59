"""Measure trajectories per second on one core, on all cores, and on an accelerator if present.

All seeds have the same end time, 1.5 times that of the last drop of the first seed, at rtol 1e-5.
On cores all weights are kept. On an accelerator 100,000 seeds run, and only losses are kept. Each
number of cores is measured in a separate process that is restricted to these cores.
"""

import functools
import json
import multiprocessing
import os
import sys

from .timing import best, table

SEEDS, MANY = 4096, 100_000
PANELS = ("1B", "1D", "1G")


def measure(seeds: int = SEEDS) -> list[dict]:
    most = len(os.sched_getaffinity(0))
    counts = [c for c in (1, 2, 4, 8, 16, 32, 64) if c < most] + [most]
    results = [_in_a_process(panel, seeds, c) for panel in PANELS for c in counts]
    if _in_a_process(PANELS[0], 1, 0)["platform"] != "cpu":
        results += [_in_a_process(panel, MANY, 0) for panel in PANELS]
    alone = {r["panel"]: r["rate"] for r in results if r["cores"] == 1}
    table(
        ["panel", "on", "trajectories a second", "over one core", "peak memory MiB"],
        [
            [
                r["panel"],
                f"{r['cores']} cores" if r["cores"] else r["platform"],
                f"{r['rate']:.0f}",
                f"{r['rate'] / alone[r['panel']]:.1f}",
                f"{r['memory']:.0f}",
            ]
            for r in results
        ],
    )
    return results


def _in_a_process(panel: str, seeds: int, cores: int) -> dict:
    """Measure in a new process, because JAX starts threads for all cores on import."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return json.loads(pool.apply(_measure, (panel, seeds, cores)))


def _measure(panel: str, seeds: int, cores: int) -> str:
    if cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
        os.environ["JAX_PLATFORMS"] = "cpu"
    import resource

    import jax

    import festina
    from festina.diagnose import plateaus

    from .problems import PROBLEMS

    problem = next(problem for problem in PROBLEMS if problem.name == panel)
    task = problem.task(8192)
    first = festina.gradient_flow(problem.network(jax.random.key(0)), task, loss="mean-square")
    flow = functools.partial(
        festina.gradient_flow,
        problem.network(festina.seeds(seeds)),
        task,
        loss="mean-square",
        rtol=1e-5,
        t_end=1.5 * float(plateaus(first).drop_time[-1]),
        observe=None if cores else {},
    )
    (seconds,) = best(flow, repeats=4)
    return json.dumps(
        {
            "panel": panel,
            "cores": cores,
            "platform": jax.default_backend(),
            "rate": seeds / seconds,
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
    )


if __name__ == "__main__":
    measure(*map(int, sys.argv[1:]))
