"""Predict which gatings of a hidden layer win the race to explain the data."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.interpolate import PchipInterpolator
from scipy.optimize import linprog

from ..._axes import axes, styled
from ..._checks import check_positive, real_array
from ..._result import Result
from ..._types import ArrayLike
from ...tasks import Task
from ._field import NOTHING, Field, free, held
from ._path_strengths import alike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST = 4096
_LINES = 8  # largest number of lines in a legend


@dataclass(frozen=True, eq=False, repr=False)
class Race(Result):
    r"""Result of `race_of_gatings`: contribution of each gating to the fall of the loss over time.

    - `names`: names of the gatings.
    - `rate`: largest singular value S of each gating; a small strength grows as $e^{2St/\tau}$.
    - `consistent`: whether each gating is self-consistent, so that a ReLU unit along its fastest
      direction is active for the same examples.
    - `runs`: whether each gating takes part in the race.
    - `share`: final share of each gating in the total fall of the loss.
    - `half_time`: time at which the strength of a gating first reaches half of its maximum;
      infinite for a gating with share 0.
    - `time`, `strength`: strength of each gating over time, the sum of its singular values.
    - `explained`: decrease of the loss due to each gating p, $\mathrm{tr}\,W_p^\top[\Sigma^{yx}(p)
      - \frac12\sum_j W_j\Sigma^x(j, p)]$.
    - `loss`: ½⟨‖y − f‖²⟩.
    - `held`: whether every pathway keeps its initial directions.

    **Example:**

    >>> from festina.tasks import xor
    >>> from festina.theory.gated import race_of_gatings
    >>> race = race_of_gatings(xor(0.9), "example")  # all sets of the four examples
    >>> race.winner, race.held
    ('example 0+3', True)
    """

    names: Annotated[tuple[str, ...], "gating"]
    rate: Float[np.ndarray, " gating"]
    consistent: Bool[np.ndarray, " gating"]
    runs: Bool[np.ndarray, " gating"]
    share: Float[np.ndarray, " gating"]
    half_time: Float[np.ndarray, " gating"]
    time: Float[np.ndarray, " time"]
    strength: Float[np.ndarray, "time gating"]
    explained: Float[np.ndarray, "time gating"]
    loss: Float[np.ndarray, " time"]
    held: bool

    @property
    def winner(self) -> str:
        """Name of the gating with the largest final share in the total fall of the loss."""
        return self.names[int(np.argmax(self.share))]

    def __str__(self) -> str:
        width = max(map(len, (*self.names, "gating")))
        lines = [f"{'gating':{width}}      rate  self-consistent     share   half at"]
        for k in np.argsort(-self.share, kind="stable"):
            yes = f"{'yes' if self.consistent[k] else 'no'}{'' if self.runs[k] else ', out'}"
            lines.append(
                f"{self.names[k]:{width}} {self.rate[k]:9.4g}  {yes:>15} {self.share[k]:9.4g} "
                f"{self.half_time[k]:9.4g}"
            )
        how = "directions stay" if self.held else "directions turn"
        return "\n".join([*lines, f"loss {self.loss[0]:.4g} to {self.loss[-1]:.4g}, {how}"])

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Plot the contributions of the gatings over time, at most the eight largest.

        `style` is passed to `Axes.plot`.
        """
        ax = axes(ax)
        order = [k for k in np.argsort(-self.share, kind="stable") if self.runs[k]]
        curves = alike({self.names[k]: self.explained[:, k] for k in order})
        for label, curve in itertools.islice(curves.items(), _LINES):
            ax.plot(self.time, curve, **styled(style, lw=1.0, ls="--", label=label))
        last = self.half_time[np.isfinite(self.half_time)].max()
        ax.set(xlabel="time $t$", ylabel="fall of the loss by gating", xlim=(0, 1.5 * last))
        ax.legend(frameon=False, fontsize="small")
        return ax


def race_of_gatings(
    task: Task,
    gatings: Mapping[str, ArrayLike] | str,
    *,
    initial_strength: ArrayLike = 1e-6,
    only_self_consistent: bool = True,
    tau: float = 1.0,
    rtol: float = 1e-8,
) -> Race:
    r"""Predict which gatings of a hidden layer win the race, when, and with what share of the drop.

    Every gating is a two-layer pathway that is open for some examples. From small weights a pathway
    grows along the singular vectors of its correlation
    $\langle g\,y x^\top\rangle = \sum_a S_a u_a v_a^\top$, where g is the gate of the pathway. If
    the other pathways do not rotate these directions, the strengths π of all directions a of all
    pathways obey a Lotka–Volterra system exactly:

    $$\tau\dot\pi_a = 2\pi_a\Big(S_a - \sum_b D_{ab}\pi_b\Big),\qquad
      D_{ab} = \langle g_a g_b\,(v_a\cdot x)(v_b\cdot x)\rangle\; u_a\cdot u_b.$$

    `race_of_gatings` checks whether the directions stay fixed. If the directions rotate, all
    weights of the maps $W_p = B_p A_p^\top$ are integrated: $\tau\dot A_p = E(p)^\top B_p$,
    $\tau\dot B_p = E(p) A_p$ with the error $E(p) = \Sigma^{yx}(p) - \sum_j W_j \Sigma^x(j, p)$.
    The initial weights are isotropic, like random weights of a wide layer. `Race.held` is True if
    the directions did not rotate.

    In a ReLU network only self-consistent gatings take part: a unit along the fastest direction of
    such a gating is active for the same examples. Faster gatings that are not self-consistent do
    not win, because their units do not stay active for the same examples. Self-consistency is our
    correction of the statement "the fastest gating wins".

    **Arguments:**

    - `task`: task with a finite number of examples, because gates are given for each example.
    - `gatings`: mapping from names to gates, one number for each example. Alternatively the name of
      a label of the task: each set of label values then gives a gating that is open for examples
      with these values.
    - `initial_strength`: π(0) of every direction of a pathway, one number or one for each gating.
      For H hidden units with random weights of standard deviation σ, π(0) = σ²H/2.
    - `only_self_consistent`: if False, also include gatings that are not self-consistent; use False
      for a network with given gates.
    - `tau`: time constant of the flow on $\frac12\langle\lVert y - f\rVert^2\rangle$.
    - `rtol`: relative tolerance of the integrator.

    **Example:**

    >>> from festina.tasks import xor
    >>> from festina.theory.gated import race_of_gatings
    >>> task = xor(0.9)
    >>> gatings = {"class 1": task.y[:, 0] > 0, "class 2": task.y[:, 0] < 0}
    >>> gatings["half plane"] = task.x[:, 0] > 0  # faster, but not self-consistent
    >>> print(race_of_gatings(task, gatings))
    gating          rate  self-consistent     share   half at
    class 1         0.45              yes       0.5     15.47
    class 2         0.45              yes       0.5     15.47
    half plane    0.6727          no, out         0       inf
    loss 0.5 to 0, directions stay
    """
    found = _checked(task, gatings)
    for name, value in (("initial_strength", initial_strength), ("tau", tau), ("rtol", rtol)):
        check_positive(name, value)
    names, gates = tuple(found), np.stack(list(found.values()))
    starts = real_array("initial_strength", initial_strength)
    if starts.shape not in ((), (len(names),)):
        raise ValueError(
            f"`initial_strength` must be one number or one for each of {len(names)} gatings, got "
            f"shape {starts.shape}."
        )
    field = Field(np.asarray(task.x, float), task.y, task.weight, gates)
    modes = [field.modes(k) for k in range(len(names))]
    rate = np.array([s.max(initial=0.0) for _, s, _ in modes])
    consistent = np.array(
        [
            len(s) > 0 and _opens(field.x @ v[s >= s[0] * (1 - NOTHING)].T, gate)
            for gate, (v, s, _) in zip(gates, modes, strict=True)
        ]
    )
    runs = (rate > 0) & (consistent | (not only_self_consistent))
    if not runs.any():
        raise ValueError(
            "No gating in `gatings` has inputs that correlate with the targets. Give other gatings."
            if not rate.any()
            else "No gating in `gatings` is self-consistent, as gatings of ReLU networks must be. "
            "Use `only_self_consistent=False` to include all gatings."
        )
    field = replace(field, gates=gates[runs])
    modes = [mode for mode, in_ in zip(modes, runs, strict=True) if in_]
    starts = np.broadcast_to(starts, len(names))[runs]
    ran = held(field, modes, starts, rtol) or free(field, starts, rtol)
    strength, explained = np.zeros((2, len(ran.time), len(names)))
    strength[:, runs], explained[:, runs] = ran.strength, ran.explained
    share = explained[-1] / explained[-1].sum()
    half = [_half(ran.time, each) for each in strength.T]
    return Race(
        names=names,
        rate=rate,
        consistent=consistent,
        runs=runs,
        share=share,
        half_time=np.where(share > NOTHING, tau * np.array(half), np.inf),
        time=tau * ran.time,
        strength=strength,
        explained=explained,
        loss=np.maximum(field.power / 2 - explained.sum(axis=1), 0.0),  # against rounding
        held=ran.held,
    )


def _half(time: Float[np.ndarray, " time"], strength: Float[np.ndarray, " time"]) -> float:
    """Return the time at which a strength first reaches half of its maximum."""
    goal = strength.max() / 2
    if (first := int(np.argmax(strength >= goal))) == 0:
        return 0.0
    near = slice(max(first - 8, 0), first + 8)
    crossings = PchipInterpolator(time[near], strength[near]).solve(goal, extrapolate=False)
    return float(crossings[0])


def _checked(task: Task, gatings: Mapping[str, ArrayLike] | str) -> dict[str, np.ndarray]:
    if not isinstance(task, Task) or task.population or task.x.ndim != 2:
        raise ValueError(
            "`task` must have a finite number of examples, because gates are given for each "
            f"example, and vectors as inputs, got {task!r}. Use `festina.tasks.from_arrays`."
        )
    if isinstance(gatings, str):
        if gatings not in task.labels:
            known = ", ".join(task.labels) or "none"
            raise ValueError(
                f"`gatings` must be a label of the task, which has {known}, or a mapping from "
                f"names to gates, got {gatings!r}."
            )
        values = np.unique(task.labels[gatings])
        if 2 ** len(values) > _MOST:
            raise ValueError(
                f"'{gatings}' has {len(values)} values and {2 ** len(values) - 1:,} sets of them, "
                f"more than {_MOST:,}. Give a mapping with the gatings of interest."
            )
        sets = (c for n in range(1, len(values) + 1) for c in itertools.combinations(values, n))
        return {
            f"{gatings} {'+'.join(map(str, chosen))}": np.isin(task.labels[gatings], chosen) * 1.0
            for chosen in sets
        }
    if not isinstance(gatings, Mapping):
        raise ValueError(
            f"`gatings` must be a mapping from names to gates, {{'a': …, 'b': …}}, got a "
            f"{type(gatings).__name__}."
        )
    found = {name: real_array(f"gatings['{name}']", gate) for name, gate in gatings.items()}
    for name, gate in found.items():
        if gate.shape != (len(task.x),) or not np.isfinite(gate).all():
            bad = f"{np.sum(~np.isfinite(gate))} numbers that are not finite in"
            raise ValueError(
                f"`gatings['{name}']` must be one finite number for each of {len(task.x)} "
                f"examples, got {bad if gate.size == len(task.x) else ''} shape {gate.shape}."
            )
    if not found:
        raise ValueError("`gatings` is empty. Give at least one gating.")
    return found


def _opens(
    along: Float[np.ndarray, "sample direction"], gate: Float[np.ndarray, " sample"]
) -> bool:
    """Return whether a ReLU unit along some sum of these directions has the given gate."""
    along = along / max(float(np.abs(along).max()), 1e-300)
    along[np.abs(along) < NOTHING] = 0.0
    on = gate != 0
    if along.shape[1] == 1:  # only the sign is free
        return any(((sign * along[:, 0] > 0) == on).all() for sign in (1, -1))
    inequalities = np.where(on[:, None], -along, along)
    found = linprog(
        np.zeros(along.shape[1]), inequalities, np.where(on, -1.0, 0.0), bounds=(None,) * 2
    )
    return found.status == 0
