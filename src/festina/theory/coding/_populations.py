"""Find the populations of neurons: modes of the distribution of readouts, and their codewords."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..._result import Result
from ._law import Classes, Law

_SEEN = 12.0  # points this far below the maximal log density are ignored
_STEPS = 60  # fixed-point iterations from every lattice point
_LATE = 20_000  # largest number of iterations from the merged end points
_ONE = 0.5  # modes closer than this, in prior standard deviations, are merged


@dataclass(frozen=True, repr=False)
class NeuronPopulation(Result):
    r"""Population of neurons with one codeword and with readouts around one mode of their density.

    - `word`: codeword of the population, one letter per class: 1 (active) or 0, + or − if φ has
      both signs, and · if the response is intermediate.
    - `share`: fraction of all neurons in this population.
    - `mode`: mode of the distribution of readouts,
      $a_\gamma = \sigma_a^2\sum_c n_c t_c\, g'(a_\gamma\cdot t_c)$.
    - `readout`: mean readout of these neurons.
    - `activity`: mean response of these neurons to each class.

    **Example:**

    >>> from festina.theory.coding import classification_code
    >>> first = classification_code([20, 20], targets=[1, -1]).populations[0]
    >>> first.word, first.share
    ('01', 0.5)
    >>> first.activity.round(3)
    array([0.065, 0.935])
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
    """Return the populations, the largest first.

    Every lattice point belongs to the mode that the fixed-point iteration reaches from it.
    """
    deviation = np.sqrt(problem.variance)
    seen = law.weight > np.exp(-_SEEN) * law.weight.max()
    points, weight = law.points[seen], law.weight[seen] / law.weight[seen].sum()
    # A point exactly between two modes converges to neither: start a little to either side of it.
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
    own = np.full(len(modes), -1)  # population of each end point
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
    # Shares that are equal up to rounding are sorted by codeword.
    return tuple(sorted(found, key=lambda group: (-round(group.share, 6), group.word)))
