"""Who wins: candidate gatings of one layer as pathways that race to explain the data."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool, Float
from scipy.integrate import solve_ivp

from ..._types import ArrayLike
from ...tasks import Task

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NOTHING = 1e-9
_MOST = 4096
_LONGEST = 20  # doublings of the time that the slowest needs by itself


@dataclass(frozen=True)
class Race:
    """How gatings race: see `race`."""

    names: tuple[str, ...]
    rate: Float[np.ndarray, " gating"]
    """Its largest singular value S: strengths grow as exp(2St/τ) while they are small."""
    consistent: Bool[np.ndarray, " gating"]
    """Whether weights along its direction open just these gates."""
    share: Float[np.ndarray, " gating"]
    """Of what all explain together in the end."""
    half_time: Float[np.ndarray, " gating"]
    """When it explains half of that, infinite for who is left with nothing."""
    time: Float[np.ndarray, " time"]
    explained: Float[np.ndarray, "time gating"]
    """What each has taken off the loss."""
    loss: Float[np.ndarray, " time"]

    @property
    def winner(self) -> str:
        """Who explains most in the end."""
        return self.names[int(np.argmax(self.share))]

    def __repr__(self) -> str:
        width = max(map(len, (*self.names, "gating")))
        lines = [f"{'gating':{width}}      rate  self-consistent     share   half at"]
        for k in np.argsort(-self.share, kind="stable"):
            yes = "yes" if self.consistent[k] else "no, out"
            lines.append(
                f"{self.names[k]:{width}} {self.rate[k]:9.4g}  {yes:>15} {self.share[k]:9.4g} "
                f"{self.half_time[k]:9.4g}"
            )
        return "\n".join(lines)

    def draw(self, ax: "Axes | None" = None) -> "Axes":
        """What each gating explains over time."""
        import matplotlib.pyplot as plt

        ax = ax or plt.figure(figsize=(5, 3.2), layout="constrained").add_subplot()
        order = np.argsort(-self.share, kind="stable")
        for k in order[:8]:
            ax.plot(self.time, self.explained[:, k], label=self.names[k])
        ax.set(xlabel="time (τ)", ylabel="explained of the loss", xlim=(0, self.time[-1]))
        ax.legend(frameon=False, fontsize="small")
        return ax


def race(
    task: Task,
    gatings: Mapping[str, ArrayLike] | str,
    *,
    initial: ArrayLike = 1e-6,
    everyone: bool = False,
    tau: float = 1.0,
) -> Race:
    r"""Who wins a race between gatings of a hidden layer, when, and with what share.

    A pathway that is open for some examples grows along the singular directions of its
    $\langle g\,y x^\top\rangle$. Strengths π of all pathways and directions a race by
    $\tau\dot\pi_a = 2\pi_a(S_a - \sum_b D_{ab}\pi_b)$ with $D_{ab} = \langle g_a g_b\,
    (v_a\cdot x)(v_b\cdot x)\rangle\, u_a\cdot u_b$, which is exact for balanced weights where
    directions are common or do not meet. Of a rectifier only gatings take part that are
    self-consistent: a unit along their direction is on for just these examples. A faster one that
    is not does not win, because its weights leave the set.

    **Arguments:**

    - `task`: finite, because gates are given for each example.
    - `gatings`: by name, one number for each example. Or a label of the task: every set of its
      values is a gating, open for the examples that have one of them.
    - `initial`: strength of every pathway at the start, one for all or one for each.
    - `everyone`: also those that are not self-consistent take part, as in a network whose gates
      are given.
    - `tau`: time constant.
    """
    found = _checked(task, gatings)
    names, gates = tuple(found), np.stack(list(found.values()))
    x, y, weight = np.asarray(task.x, float), task.y, task.weight
    starts = np.broadcast_to(np.asarray(initial, float), len(names))
    if not (np.isfinite(starts).all() and (starts > 0).all()):
        raise ValueError("`initial` must be strengths above 0, one for all or one for each gating.")
    owner, s, u, v = [], [], [], []
    consistent = np.zeros(len(names), bool)
    for k, gate in enumerate(gates):
        left, size, right = np.linalg.svd(((weight * gate)[:, None] * y).T @ x, full_matrices=False)
        seen = size > _NOTHING * max(float(np.sqrt(weight @ np.sum(y**2, 1))), 1e-300)
        consistent[k] = bool(seen.any()) and _opens(x, right[0], gate)
        owner += [k] * int(seen.sum())
        s, u, v = s + list(size[seen]), u + list(left.T[seen]), v + list(right[seen])
    owner, s, u, v = np.array(owner, int), np.array(s), np.array(u), np.array(v)
    rate = np.array([s[owner == k].max(initial=0.0) for k in range(len(names))])
    running = np.isin(owner, np.arange(len(names)) if everyone else np.flatnonzero(consistent))
    if not running.any():
        raise ValueError(
            "No gating is self-consistent, or none sees the targets: nobody races. With "
            "`everyone=True` gates are taken as given."
        )
    owner, s, u, v = owner[running], s[running], u[running], v[running]
    seen = gates[owner].T * (x @ v.T)
    overlap = (seen * weight[:, None]).T @ seen * (u @ u.T)
    time, strength = _run(s, overlap, starts[owner], tau)
    loss = 0.5 * float(weight @ np.sum(y**2, 1)) - strength @ s
    loss = loss + 0.5 * np.einsum("ta,tb,ab->t", strength, strength, overlap)
    each = strength * (s - 0.5 * strength @ overlap)
    explained = np.stack([each[:, owner == k].sum(axis=1) for k in range(len(names))], axis=1)
    final = explained[-1]
    share = final / final.sum()
    half = np.full(len(names), np.inf)
    for k in np.flatnonzero(share > 1e-6):
        half[k] = np.interp(final[k] / 2, np.maximum.accumulate(explained[:, k]), time)
    return Race(names, rate, consistent | everyone, share, half, time, explained, loss)


def _checked(task: Task, gatings: Mapping[str, ArrayLike] | str) -> dict[str, np.ndarray]:
    if not isinstance(task, Task) or task.population or task.x.ndim != 2:
        raise ValueError("`task` must be finite, with vectors as inputs: gates are per example.")
    if isinstance(gatings, str):
        if gatings not in task.labels:
            known = ", ".join(task.labels) or "none"
            raise ValueError(f"The task has no label {gatings!r}; its labels: {known}.")
        values = np.unique(task.labels[gatings])
        if 2 ** len(values) > _MOST:
            raise ValueError(
                f"'{gatings}' has {len(values)} values and {2 ** len(values) - 1:,} sets of them, "
                f"more than {_MOST:,}: give the gatings that are to race."
            )
        sets = (c for n in range(1, len(values) + 1) for c in itertools.combinations(values, n))
        return {
            f"{gatings} {'+'.join(map(str, chosen))}": np.isin(task.labels[gatings], chosen) * 1.0
            for chosen in sets
        }
    found = {name: np.asarray(gate, float) for name, gate in gatings.items()}
    for name, gate in found.items():
        if gate.shape != (len(task.x),) or not np.isfinite(gate).all():
            raise ValueError(
                f"The gating {name!r} must be one finite number for each of {len(task.x)} "
                f"examples, got shape {gate.shape}."
            )
    if not found:
        raise ValueError("`gatings` is empty: nobody races.")
    return found


def _opens(x: np.ndarray, direction: np.ndarray, gate: np.ndarray) -> bool:
    """Whether a rectifier along this direction, or against it, is on where the gate is."""
    along = x @ direction
    tiny = 1e-9 * max(float(np.abs(along).max()), 1e-300)
    wanted = gate != 0
    return bool((wanted == (along > tiny)).all() or (wanted == (along < -tiny)).all())


def _run(
    s: np.ndarray, overlap: np.ndarray, initial: np.ndarray, tau: float
) -> tuple[Float[np.ndarray, " time"], Float[np.ndarray, "time strength"]]:
    """π(t) from the start until nothing changes any more, in logarithms."""
    velocity = lambda _, log: 2 * (s - overlap @ np.exp(log)) / tau
    start = np.log(initial)
    needed = tau * np.max((np.log(s / np.maximum(np.diag(overlap), 1e-300)) - start) / (2 * s))
    end = max(4.0 * float(needed), tau / float(s.max()))
    solve = lambda end, times=None: solve_ivp(
        velocity, (0, end), start, method="LSODA", rtol=1e-9, atol=1e-9, t_eval=times
    )
    for _ in range(_LONGEST):
        last = solve(end).y[:, -1]
        if (np.abs(np.exp(last) * velocity(0, last)) * end < 1e-6 * np.exp(last).max()).all():
            break
        end *= 2
    times = np.linspace(0, end, 2000)
    return times, np.exp(solve(end, times).y.T)
