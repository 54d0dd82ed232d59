"""Branches of the law: where readouts gather, how many, and what they say to each class."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ._law import Classes, Law

_SEEN = 12.0  # logarithms below the highest point
_STEPS = 60
_LATE = 20_000
_ONE = 0.5  # branches closer than this, in prior deviations, are one


@dataclass(frozen=True)
class Branch:
    r"""A mode of the readouts' law, $a_\gamma = \sigma_a^2\sum_c n_c t_c\, g'(a_\gamma\cdot t_c)$.

    - `word`: its code, a letter for each class: 1 or 0, or + or - where φ has both signs.
    - `population`: the share of neurons that belong to it.
    - `readout`: $a_\gamma$.
    - `activity`: $g'(a_\gamma\cdot t_c)$, the mean answer to each class.
    """

    word: str
    population: float
    readout: Float[np.ndarray, " output"]
    activity: Float[np.ndarray, " group"]

    def __repr__(self) -> str:
        shown = (", ".join(f"{x:.3f}" for x in each) for each in (self.readout, self.activity))
        return "{:6} {:.4f}   ({})   ({})".format(self.word, self.population, *shown)


def branches(
    problem: Classes, t: Float[np.ndarray, "group direction"], law: Law
) -> tuple[Branch, ...]:
    """The modes, largest first; every point belongs to the one that it climbs to."""
    deviation = np.sqrt(problem.variance)
    seen = law.weight > np.exp(-_SEEN) * law.weight.max()
    points, weight = law.points[seen], law.weight[seen] / law.weight[seen].sum()
    # Points between two branches climb to neither: take those a little to either side.
    aside = 1e-3 * deviation * np.sqrt(np.arange(2.0, 2.0 + points.shape[1]))
    ends = np.concatenate([points + aside, points - aside])
    for _ in range(_STEPS):
        ends = problem.lift(ends, t)
    near, which = np.unique(np.round(ends / (0.1 * deviation)), axis=0, return_inverse=True)
    modes = near * 0.1 * deviation + 1e-6 * aside
    for _ in range(_LATE):
        moved = problem.lift(modes, t)
        still = np.abs(moved - modes).max() < 1e-10 * deviation
        modes = moved
        if still:
            break
    found: list[tuple[np.ndarray, float]] = []
    share = np.bincount(which.ravel(), np.concatenate([weight, weight]) / 2)
    for k in np.argsort(-share, kind="stable"):
        for j, (mode, held) in enumerate(found):
            if np.linalg.norm(mode - modes[k]) < _ONE * deviation:
                found[j] = (mode, held + float(share[k]))
                break
        else:
            found.append((modes[k], float(share[k])))
    found.sort(key=lambda each: -each[1])
    activity = problem.tilt.cumulants(np.stack([mode for mode, _ in found]) @ t.T)[1]
    return tuple(
        Branch(problem.tilt.word(said), held, problem.basis @ mode, said)
        for (mode, held), said in zip(found, activity, strict=True)
    )
