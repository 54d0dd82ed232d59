"""Quadratic network (H = 10, population) from ever smaller weights: Diffrax, SciPy, festina.

To the same horizon at the tolerances that one would choose, with the error of both drop times
against festina's implicit steps at rtol 1e-11; `÷ ours` is time in units of festina's default.
"""

import jax
import jax.numpy as jnp
import numpy as np

import festina
from festina._objective import descent, objective
from festina.diagnose import passage_time
from festina.networks import fully_connected
from festina.tasks import quadratic_teacher

from .timing import best, table

SCALES = (1e-3, 1e-4, 1e-5)
TASK = quadratic_teacher(np.eye(2))
MIDDLES = (16 / 3, 4 / 3)  # between the levels 8, 8/3 and 0
RTOL = 1e-5
_WEIGHTS = 3  # of a unit


def measure() -> list[dict]:
    results = [row for scale in SCALES for row in _measure(scale)]
    table(
        ["ε", "way", "steps", "ms", "÷ ours", "drop error"],
        [
            [
                f"{r['scale']:g}",
                r["way"],
                r["steps"],
                f"{1e3 * r['seconds']:.1f}",
                f"{r['ratio']:.1f}",
                f"{r['error']:.1e}",
            ]
            for r in results
        ],
    )
    return results


def _measure(scale: float) -> list[dict]:
    network = fully_connected(2, 10, activation="quadratic", scale=scale, key=jax.random.key(0))
    flow = lambda **options: festina.gradient_flow(
        network, TASK, loss="mean-square", max_steps=10**7, **options
    )
    reference = flow(solver="implicit", rtol=1e-11)
    exact = _drops(reference.time, reference.loss, -reference.squared_gradient)
    horizon = 1.2 * float(exact[-1])

    with jax.enable_x64(True):
        problem = objective(network, TASK, "mean-square")
        data = jax.tree.map(jnp.asarray, problem.data)
        start = jnp.asarray(problem.structure.columns(*network.parts)[:, 0])
        field = jax.jit(lambda weights: descent(problem.structure, weights, data))

        def losses(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            loss, velocity = field(jnp.asarray(weights))
            return np.asarray(loss), -np.sum(np.asarray(velocity) ** 2, axis=0)

        ways = {
            "festina, implicit": lambda: flow(t_end=horizon),
            "festina, explicit": lambda: flow(t_end=horizon, solver="explicit", rtol=RTOL),
            "Diffrax Tsit5": _diffrax("Tsit5", field, start, horizon),
            "Diffrax Kvaerno3": _diffrax("Kvaerno3", field, start, horizon),
            "SciPy BDF": _scipy(field, start, horizon),
        }
        # Explicit solvers need minutes from the smallest weights.
        if scale < 1e-4:
            ways = {name: way for name, way in ways.items() if "xplicit" not in name}
            del ways["Diffrax Tsit5"]
        runs = {name: way() for name, way in ways.items()}
        seconds = best(*ways.values(), repeats=3)

    rows = []
    for (name, run), spent in zip(runs.items(), seconds, strict=True):
        if isinstance(run, festina.dynamics.Trajectory):
            per_step = 6 + (_WEIGHTS if run.solver == "implicit" else 0)
            steps = (int(run.evaluations) - 1) // per_step
            found = _drops(run.time, run.loss, -run.squared_gradient)
        else:
            times, weights = run
            steps = len(times) - 1
            found = _drops(times, *losses(weights.T))
        rows.append(
            {
                "scale": scale,
                "way": name,
                "steps": steps,
                "seconds": spent,
                "ratio": spent / seconds[0],
                "error": float(np.max(np.abs(found / exact - 1))),
            }
        )
    return rows


def _drops(times, losses, slopes) -> np.ndarray:
    return np.array([passage_time(times, losses, middle, slope=slopes) for middle in MIDDLES])


def _diffrax(name: str, field, start, horizon: float):
    import diffrax

    atol = RTOL * float(jnp.sqrt(jnp.mean(start**2)))

    @jax.jit
    def solve(start):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, weights, args: field(weights)[1]),
            getattr(diffrax, name)(),
            0.0,
            horizon,
            None,
            start,
            stepsize_controller=diffrax.PIDController(rtol=RTOL, atol=atol),
            saveat=diffrax.SaveAt(steps=True),
            max_steps=2**17 if name == "Tsit5" else 2**12,
        )
        return solution.ts, solution.ys

    def way() -> tuple[np.ndarray, np.ndarray]:
        times, weights = map(np.asarray, solve(start))
        taken = np.isfinite(times)
        return np.concatenate(([0.0], times[taken])), np.concatenate(
            (np.asarray(start)[None], weights[taken])
        )

    return way


def _scipy(field, start, horizon: float):
    from scipy.integrate import solve_ivp

    atol = RTOL * float(jnp.sqrt(jnp.mean(start**2)))
    slope = lambda time, weights: np.asarray(field(weights)[1])
    jacobian = jax.jit(jax.jacfwd(lambda weights: field(weights)[1]))

    def way() -> tuple[np.ndarray, np.ndarray]:
        solution = solve_ivp(
            slope,
            (0.0, horizon),
            np.asarray(start),
            method="BDF",
            rtol=RTOL,
            atol=atol,
            jac=lambda time, weights: np.asarray(jacobian(weights)),
        )
        return solution.t, solution.y.T

    return way
