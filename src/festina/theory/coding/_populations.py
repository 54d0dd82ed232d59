"""Populations of neurons: where readouts gather, how many, and their codewords."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..._result import Result
from ._law import Classes, Law

_SEEN = 12.0  # logarithms below the highest point
_STEPS = 60
_LATE = 20_000
_ONE = 0.5  # populations closer than this, in prior deviations, are one


@dataclass(frozen=True, repr=False)
class NeuronPopulation(Result):
    r"""Neurons whose readouts gather around one mode of their law, with the same codeword.

    - `word`: their code, a letter for each class: 1 or 0, or + or - where φ has both signs.
    - `share`: the share of neurons that belong to it.
    - `mode`: $a_\gamma = \sigma_a^2\sum_c n_c t_c\, g'(a_\gamma\cdot t_c)$.
    - `readout`, `activity`: means of a and of the answer to each class over these neurons.
    """

    word: str
    share: float
    mode: Float[np.ndarray, " output"]
    readout: Float[np.ndarray, " output"]
    activity: Float[np.ndarray, " group"]

    def __str__(self) -> str:
        shown = (", ".join(f"{x:.3f}" for x in each) for each in (self.readout, self.activity))
        return "{:6} {:.4f}   ({})   ({})".format(self.word, self.share, *shown)


def populations(
    problem: Classes, t: Float[np.ndarray, "group direction"], law: Law
) -> tuple[NeuronPopulation, ...]:
    """The modes, largest first; every point belongs to the one that it climbs to."""
    deviation = np.sqrt(problem.variance)
    seen = law.weight > np.exp(-_SEEN) * law.weight.max()
    points, weight = law.points[seen], law.weight[seen] / law.weight[seen].sum()
    # Points between two populations climb to neither: take those a little to either side.
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
    share = np.bincount(which.ravel(), np.concatenate([weight, weight]) / 2)
    own = np.full(len(modes), -1)  # the population of each end
    for k in np.argsort(-share, kind="stable"):
        near_by = np.linalg.norm(modes - modes[k], axis=1) < _ONE * deviation
        own[near_by & (own < 0)] = k if own[k] < 0 else own[k]
    belongs = own[which.ravel()]
    found = []
    for k in np.unique(own):
        mass = ((belongs == k).reshape(2, -1).sum(axis=0) / 2) * weight
        held = float(mass.sum())
        readout, activity = mass @ points / held, mass @ law.first[seen] / held
        there = problem.basis @ modes[k], problem.basis @ readout
        found.append(NeuronPopulation(problem.tilt.word(activity), held, *there, activity))
    # Equal ones are told apart by rounding: then in the order of their words.
    return tuple(sorted(found, key=lambda group: (-round(group.share, 6), group.word)))
