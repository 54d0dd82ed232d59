"""Time to train, and error of the drop times: PyTorch's gradient descent, Diffrax, festina.

The same data (P = 8192; 1D has two points), initial weights and horizon: until the loss is within
1e-4 of its lowest value. PyTorch runs full-batch gradient descent at the paper's learning rate, in
float32 as it comes; festina integrates gradient flow in float64, at the tolerance that is fastest
with both drop times right to 1e-4, and Diffrax (Tsit5) at the same tolerance. The reference is
festina at rtol 1e-11.
"""

import jax
import jax.numpy as jnp
import numpy as np

import festina
from festina._objective import excess_loss, objective
from festina.diagnose import passage_time, plateaus

from .problems import PROBLEMS, Problem
from .timing import best, table
from .torch_descent import train

TOLERANCES = (1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6)
ALLOWED = 1e-4


def measure() -> list[dict]:
    results = [_measure(problem) for problem in PROBLEMS]
    rows = [
        [
            r["panel"],
            f"{r['torch_seconds']:.3f}",
            f"{1e3 * r['diffrax_seconds']:.2f}",
            f"{1e3 * r['festina_seconds']:.2f}",
            f"{r['torch_seconds'] / r['festina_seconds']:.0f}",
            f"{r['diffrax_seconds'] / r['festina_seconds']:.1f}",
            r["torch_evaluations"],
            r["festina_evaluations"],
            f"{r['torch_error']:.1e}",
            f"{r['festina_error']:.1e}",
            f"{r['festina_rtol']:g}",
        ]
        for r in results
    ]
    headings = ["panel", "PyTorch s", "Diffrax ms", "festina ms", "PyTorch ÷ festina"]
    headings += ["Diffrax ÷ festina", "gradients", "ours", "drop error", "ours", "rtol"]
    table(headings, rows)
    return results


def _measure(problem: Problem) -> dict:
    network = problem.network(jax.random.key(0))
    task = problem.task(8192)
    reference = festina.gradient_flow(network, task, loss="mean-square", rtol=1e-11)
    found = plateaus(reference)
    middles = (found.level[:-1] + found.level[1:]) / 2
    exact = _drops(reference.time, reference.loss, middles, -reference.squared_gradient)
    excess = reference.loss - reference.floor
    horizon = float(reference.time[np.argmax(excess < 1e-4 * excess[0])])

    steps = int(np.ceil(horizon / problem.learning_rate))
    losses, torch_seconds = train(
        problem.name, network, task.x, task.y, problem.learning_rate, steps
    )
    torch_drops = _drops(np.arange(steps) * problem.learning_rate, losses, middles, None)

    def flow(rtol: float) -> festina.dynamics.Trajectory:
        return festina.gradient_flow(network, task, loss="mean-square", rtol=rtol, t_end=horizon)

    ours = None
    for rtol in TOLERANCES:
        run = flow(rtol)
        error = _error(_drops(run.time, run.loss, middles, -run.squared_gradient), exact)
        if error > ALLOWED:
            continue
        (seconds,) = best(lambda rtol=rtol: flow(rtol), repeats=40)
        if ours is None or seconds < ours[0]:
            ours = (seconds, rtol, error, int(run.evaluations))
    assert ours is not None, f"no tolerance of {TOLERANCES} is enough for {problem.name}"
    return {
        "panel": problem.name,
        "steps": steps,
        "torch_seconds": torch_seconds,
        "torch_evaluations": steps,
        "torch_error": _error(torch_drops, exact),
        "diffrax_seconds": _diffrax(network, task, horizon, ours[1]),
        "festina_seconds": ours[0],
        "festina_rtol": ours[1],
        "festina_error": ours[2],
        "festina_evaluations": ours[3],
    }


def _drops(times, losses, middles, slopes) -> np.ndarray:
    return np.array([passage_time(times, losses, middle, slope=slopes) for middle in middles])


def _error(drops: np.ndarray, exact: np.ndarray) -> float:
    return float(np.max(np.abs(drops / exact - 1)))


def _diffrax(network, task, horizon: float, rtol: float) -> float:
    """The same flow with Diffrax's Tsit5 at the same tolerance, saving every step."""
    import diffrax

    with jax.enable_x64(True):
        problem = objective(network, task, "mean-square")
        start = jnp.asarray(problem.structure.columns(network.u, network.v)[:, 0])
        scale = float(jnp.sqrt(jnp.mean(start**2)))
        term = diffrax.ODETerm(
            lambda t, weights, data: (
                -jax.grad(excess_loss, argnums=1)(problem.structure, weights, data)
            )
        )

        @jax.jit
        def solve(start, data, rtol):
            return diffrax.diffeqsolve(
                term,
                diffrax.Tsit5(),
                0.0,
                horizon,
                None,
                start,
                data,
                stepsize_controller=diffrax.PIDController(rtol=rtol, atol=rtol * scale),
                saveat=diffrax.SaveAt(steps=True),
                max_steps=4096,
            ).ys

        data = jax.tree.map(jnp.asarray, problem.data)
        return best(lambda: jax.block_until_ready(solve(start, data, rtol)))[0]
