"""Compare `festina.forecast` with baselines that predict the end of a plateau.

Forecasts start after 25, 50 and 75 % of a plateau. A plateau ends when a tenth of the drop to the
next plateau is done in the actual run, relative to the flattest point since the forecast. Errors
are relative to the remaining steps; the table shows their median, and the share of cases within
20 %. All baselines know the level of the next plateau. The baselines 'growth fit' and 'as long
again' also know the past of the run.
"""

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

import festina
from festina.diagnose import plateaus
from festina.own import SGD, Adam
from festina.own.forecasting._course import LEFT, Course
from festina.own.forecasting._curvature import ritz
from festina.own.forecasting._own_steps import OwnSteps
from festina.own.forecasting._problem import Problem, problem_of
from festina.own.forecasting._reading import rule_of
from festina.own.forecasting._rules import constant
from festina.own.forecasting._vectors import Vector

from .own_runs import GROKKING, KINDS, Kind, Trained, train
from .timing import table

SEEDS = range(5)
SHARES = (0.25, 0.5, 0.75)
_SHORTEST = 30  # steps of the shortest plateau that counts
_WEAKEST = 0.7  # smallest strength of a plateau that counts, in decades


@dataclass(frozen=True)
class Question:
    """Snapshot on a plateau, with the actual end of the plateau."""

    run: Trained
    index: int
    now: int
    start: float
    share: float
    true: float
    from_level: float
    fall: float
    level: float


def questions(run: Trained) -> Iterator[Question]:
    seen = plateaus(run.time, run.loss, merge=0.01)
    steps = np.array([snapshot[0] for snapshot in run.snapshots])
    for k in range(len(seen) - 1):
        above, below = seen.level[k : k + 2]
        left = _passage(run, seen.time[k], above - LEFT * (above - below))
        if left - seen.start[k] < _SHORTEST or seen.strength[k] < _WEAKEST:
            continue
        for share in SHARES:
            index = int(np.argmin(np.abs(steps - seen.start[k] - share * (left - seen.start[k]))))
            now = steps[index]
            if left <= now:
                continue
            # After the flattest point the remaining drop is smaller, and a tenth of it ends later.
            from_now = (
                min(above, np.interp(now, run.time, run.loss)) if now > seen.time[k] else above
            )
            fall = LEFT * (from_now - below)
            later = _passage(run, max(now, seen.time[k]), from_now - fall)
            yield Question(
                run, index, now, seen.start[k], share, later - now, left - now, fall, below
            )


def _passage(run: Trained, since: float, level: float) -> float:
    k = int(np.argmax((run.time > since) & (run.loss < level)))
    (t0, t1), (l0, l1) = run.time[k - 1 : k + 1], run.loss[k - 1 : k + 1]
    return t0 + (t1 - t0) * (l0 - level) / (l0 - l1)


def own(q: Question) -> festina.own.Forecast:
    model, optimiser = q.run.at(q.index)
    return festina.forecast(model, q.run.kind.loss, optimiser, q.run.data, batch=q.run.kind.batch)


def told(q: Question) -> float:
    """Return the end of the plateau from the same look-ahead, given the actual fall of the loss."""
    problem, rule = _set_up(q)
    seen = Course()
    for here in rule.ahead(problem, constant, 1.0):
        seen.add(here)
        left = seen.passage(int(np.argmin(seen.speed)), q.fall)
        if left is not None:
            return left
        if problem.budget.gradients > 2000:
            break
    return math.inf


def as_long_again(q: Question) -> float:
    return q.now - q.start


def growth_fit(q: Question) -> float:
    """Return the end of the plateau if the squared gradient grows exponentially.

    The rate is fitted to the second half of the time already spent on the plateau.
    """
    since = q.start + 0.5 * (q.now - q.start)
    picked = [k for k, s in enumerate(q.run.snapshots) if since <= s[0] <= q.now][-12:]
    if len(picked) < 3:
        return math.inf
    t = np.array([q.run.snapshots[k][0] for k in picked], float)
    speed = [_gradient(q, k).square for k in picked]
    rate, offset = np.polyfit(t - q.now, np.log(speed), 1)
    lr = q.run.at(q.index)[1].param_groups[0]["lr"]
    if rate <= 0:
        return math.inf
    return math.log1p(q.fall * rate / lr / math.exp(offset)) / rate


def linearised(q: Question) -> float:
    """Return the end of the plateau of the dynamics linearised at the present weights.

    Directions of negative curvature come from 40 Lanczos steps.
    """
    problem, _ = _set_up(q)
    values, slopes, _ = ritz(problem, problem.start, problem.random())
    # Along an eigenvector of curvature λ with slope g the loss falls by g²(e^{-2λt} − 1)/(−2λ).
    growing = values < -1e-3 * values.max()
    if not growing.any():
        return math.inf
    a, g2 = -values[growing], slopes[growing] ** 2
    low, high = 0.0, 1.0
    made = lambda t: float((g2 * np.expm1(np.minimum(2 * a * t, 600)) / (2 * a)).sum())
    if not g2.sum() > 0:
        return math.inf
    while made(high) < q.fall and 2 * a.max() * high < 600:
        high *= 2
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if made(middle) < q.fall else (low, middle)
    lr = q.run.at(q.index)[1].param_groups[0]
    return high * (1 - lr.get("momentum", 0.0)) / lr["lr"]


def _set_up(q: Question, index: int | None = None) -> tuple[Problem, SGD | Adam | OwnSteps]:
    model, optimiser = q.run.at(q.index if index is None else index)
    kind = q.run.kind
    problem = problem_of(model, kind.loss, optimiser, q.run.data, samples=4096, batch=kind.batch)
    return problem, rule_of(optimiser, problem)


def _gradient(q: Question, index: int) -> Vector:
    problem, _ = _set_up(q, index)
    return problem(problem.start)[1]


BASELINES: dict[str, Callable[[Question], float]] = {
    "as long again": as_long_again,
    "growth fit": growth_fit,
    "linearised": linearised,
    "told": told,
}


def ask(kind: Kind, seeds=SEEDS, *, verbose: bool = False) -> list[dict]:
    rows = []
    for seed in seeds:
        for q in questions(train(kind, seed)):
            seen = own(q)
            left = math.inf if seen.left is None else seen.left
            row = {
                "kind": kind.name,
                "seed": seed,
                "share": q.share,
                "true": q.true,
                "from level": q.from_level,
                "verdict": seen.verdict,
                "own": left,
                "covered": seen.band is not None and seen.band[0] <= q.true <= seen.band[1],
                "band": seen.band,
                "gradients": seen.gradients,
                "level": (q.level, seen.level),
            }
            adam = kind.name == "ReLU Adam"
            row |= {
                name: guess(q)
                for name, guess in BASELINES.items()
                if not (adam and name in ("growth fit", "linearised"))
            }
            rows.append(row)
            if verbose:
                print(row, flush=True)
    return rows


def grokking(seeds=SEEDS) -> list[dict]:
    """Forecast when test accuracy reaches half of its maximum, at a quarter of that time."""
    rows = []
    for seed in seeds:
        run = train(GROKKING, seed)
        half = float(run.time[np.argmax(run.metric > 0.5 * run.metric.max())])
        steps = np.array([snapshot[0] for snapshot in run.snapshots])
        index = int(np.argmin(np.abs(steps - 0.25 * half)))
        model, optimiser = run.at(index)
        x, y, *held = run.data
        metric = lambda model, held=held: GROKKING.metric(model, *held)
        seen = festina.forecast(model, GROKKING.loss, optimiser, (x, y), metric=metric)
        true, guess = half - steps[index], math.inf if seen.half is None else seen.half
        rows.append({"seed": seed, "true": true, "own": guess, "gradients": seen.gradients})
    return rows


def summary(rows: list[dict]) -> list[list]:
    lines = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        those = [row for row in rows if row["kind"] == kind]
        line: list = [kind, len(those)]
        for name in (*BASELINES, "own"):
            if name not in those[0]:
                line.append("–")
                continue
            error = np.array([abs(row[name] / row["true"] - 1) for row in those])
            line.append(f"{np.median(error):.3f} ({np.mean(error <= 0.2):.2f})")
        line.append(f"{np.mean([row['covered'] for row in those]):.2f}")
        line.append(f"{np.median([row['gradients'] for row in those]):.0f}")
        lines.append(line)
    return lines


def measure(kinds=KINDS) -> list[dict]:
    rows = [row for kind in kinds for row in ask(kind)]
    table(["run", "cases", *BASELINES, "own", "band covers", "gradients"], summary(rows))
    grown = grokking()
    error = [abs(row["own"] / row["true"] - 1) for row in grown]
    print(f"grokking: {np.median(error):.3f}, at most {max(error):.3f}")
    return rows + grown


if __name__ == "__main__":
    torch.set_num_threads(1)
    chosen = [kind for kind in KINDS if not sys.argv[1:] or kind.name in sys.argv[1:]]
    measure(chosen)
