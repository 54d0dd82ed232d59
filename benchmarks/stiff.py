"""Compare solvers of festina, Diffrax and SciPy on a quadratic network from ever smaller weights.

The network has H = 10 units and the population loss. All solvers run to the same end time, 1.2
times the second drop time. Diffrax and SciPy run at a relative tolerance of 1e-5, and an absolute
tolerance of 1e-5 times the standard deviation of initial weights. festina runs its implicit solver
at the default tolerance, and both its solvers at 1e-5. Diffrax saves at 300 given times, most of
them near the drops; festina saves where the loss changes. The table shows medians over seeds of
steps tried, time, and time in units of festina's default. Drop errors are the largest ones,
relative to implicit steps at 1e-11.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import festina
from festina._objective import descent, objective
from festina.diagnose import passage_time
from festina.dynamics._rosenbrock import STAGES
from festina.networks import fully_connected
from festina.tasks import quadratic_teacher

from .timing import best, table

SCALES = (1e-3, 1e-4, 1e-5)
SEEDS = 4
REPEATS = 3
TASK = quadratic_teacher(np.eye(2))
MIDDLES = (16 / 3, 4 / 3)  # between the levels 8, 8/3 and 0
RTOL = 1e-5
_UNIT = 3  # weights of a unit

Answer = tuple[int, np.ndarray]
"""Number of steps tried, and the drop times."""


def measure() -> list[dict]:
    with jax.enable_x64(True):
        ways = _ways()
        results = [row for scale in SCALES for row in _measure(scale, ways)]
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


def _measure(scale: float, ways: dict[str, Callable]) -> list[dict]:
    steps, seconds, errors = (np.zeros((len(ways), SEEDS)) for _ in range(3))
    for seed in range(SEEDS):
        network = _network(scale, seed)
        exact = _drops(_flow(network, solver="implicit", rtol=1e-11))
        runs, reads = zip(*(way(network, exact) for way in ways.values()), strict=True)
        for index, (run, read) in enumerate(zip(runs, reads, strict=True)):
            steps[index, seed], found = read(run())
            errors[index, seed] = np.max(np.abs(found / exact - 1))
        seconds[:, seed] = best(*runs, repeats=REPEATS)
    return [
        {
            "scale": scale,
            "way": name,
            "steps": int(np.median(steps[index])),
            "seconds": float(np.median(seconds[index])),
            "ratio": float(np.median(seconds[index] / seconds[0])),
            "error": float(errors[index].max()),
        }
        for index, name in enumerate(ways)
    ]


def _ways() -> dict[str, Callable]:
    """Return the solvers by name.

    A solver takes a network and its drop times. Each solver returns a function that is timed, and a
    function that turns its result into the number of steps and the drop times.
    """
    problem = objective(_network(1.0, 0), TASK, "mean-square")
    data = jax.tree.map(jnp.asarray, problem.data)
    field = jax.jit(lambda weights: descent(problem.structure, weights, data))

    def festinas(**options) -> Callable:
        return lambda network, exact: (
            lambda: _flow(network, t_end=1.2 * float(exact[-1]), **options),
            lambda run: (_steps(run), _drops(run)),
        )

    def others(solver: Callable) -> Callable:
        def way(network, exact):
            start = jnp.asarray(problem.structure.columns(*network.parts)[:, 0])
            times = _times(exact)
            atol = RTOL * float(jnp.std(start))

            def read(run: tuple) -> Answer:
                steps, at, weights = run
                loss, velocity = field(jnp.asarray(weights).T)
                slope = -np.sum(np.asarray(velocity) ** 2, axis=0)
                return int(steps), _passages(np.asarray(at), np.asarray(loss), slope)

            return lambda: solver(start, times, atol), read

        return way

    return {
        "festina, implicit": festinas(solver="implicit"),
        "festina, implicit, 1e-5": festinas(solver="implicit", rtol=RTOL),
        "festina, explicit, 1e-5": festinas(solver="explicit", rtol=RTOL),
        "Diffrax Tsit5": others(_diffrax("Tsit5", field)),
        "Diffrax Kvaerno3": others(_diffrax("Kvaerno3", field)),
        "SciPy BDF": others(_scipy(field)),
    }


def _diffrax(name: str, field: Callable) -> Callable:
    import diffrax

    @jax.jit
    def solve(start, times, atol):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, weights, args: field(weights)[1]),
            getattr(diffrax, name)(),
            times[0],
            times[-1],
            None,
            start,
            stepsize_controller=diffrax.PIDController(rtol=RTOL, atol=atol),
            saveat=diffrax.SaveAt(ts=times),
            max_steps=2**22,
        )
        return solution.stats["num_steps"], solution.ts, solution.ys

    return lambda start, times, atol: jax.block_until_ready(solve(start, times, atol))


def _scipy(field: Callable) -> Callable:
    from scipy.integrate import solve_ivp

    jacobian = jax.jit(jax.jacfwd(lambda weights: field(weights)[1]))

    def solve(start, times, atol):
        solution = solve_ivp(
            lambda time, weights: np.asarray(field(weights)[1]),
            (0.0, float(times[-1])),
            np.asarray(start),
            method="BDF",
            rtol=RTOL,
            atol=atol,
            jac=lambda time, weights: np.asarray(jacobian(weights)),
        )
        return len(solution.t) - 1, solution.t, solution.y.T

    return solve


def _network(scale: float, seed: int):
    return fully_connected(2, 10, activation="quadratic", scale=scale, key=jax.random.key(seed))


def _flow(network, **options) -> festina.dynamics.Trajectory:
    return festina.gradient_flow(network, TASK, loss="mean-square", max_steps=10**7, **options)


def _steps(run: festina.dynamics.Trajectory) -> int:
    per_step = STAGES + _UNIT if run.solver == "implicit" else 6
    return (int(run.evaluations) - 1) // per_step


def _times(exact: np.ndarray) -> np.ndarray:
    """Return a hundred even times, and a hundred within three units of time of each drop."""
    near = (exact[:, None] + np.linspace(-3.0, 3.0, 100)).ravel()
    end = 1.2 * exact[-1]
    return np.sort(np.concatenate((np.linspace(0.0, end, 100), near)).clip(0.0, end))


def _drops(run: festina.dynamics.Trajectory) -> np.ndarray:
    return _passages(run.time, run.loss, -run.squared_gradient)


def _passages(times: np.ndarray, losses: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    return passage_time(times, losses, MIDDLES, slope=slopes)
