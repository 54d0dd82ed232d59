"""Measure the selectivity of single units for two labels."""

import itertools
from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float, Int

from .._checks import real_array
from .._types import ArrayLike


def shared_by(
    amount: Float[np.ndarray, "example unit"], label: Int[np.ndarray, " example"]
) -> Float[np.ndarray, "value unit"]:
    """Return the fraction of each unit's activity at each value of a label.

    All values of the label count as equally frequent.
    """
    mean = _means(amount, label)
    return mean / mean.sum(axis=0)


def entropy(share: Float[np.ndarray, "value unit"]) -> Float[np.ndarray, " unit"]:
    """Return the normalised entropy of shares: 0 if one share is 1, and 1 for equal shares."""
    logarithm = np.log(share, out=np.zeros_like(share), where=share > 0)
    return -np.sum(share * logarithm, axis=0) / np.log(len(share)) + 0.0


def fraction_on(
    active: Bool[np.ndarray, "example unit"], label: Int[np.ndarray, " example"]
) -> Float[np.ndarray, "value unit"]:
    """Return the fraction of the examples of each label value for which each unit is active."""
    return _means(active.astype(float), label)


def anova(
    h: Float[np.ndarray, "example unit"],
    objects: Int[np.ndarray, " example"],
    contexts: Int[np.ndarray, " example"],
    *,
    means: bool,
) -> Float[np.ndarray, "part unit"]:
    r"""Return each unit's shares of variance: object, context, interaction, and within pairs.

    The split $h_{oc} = \mu + \alpha_o + \beta_c + \gamma_{oc}$ is orthogonal if every pair of
    object and context has equal weight. Pairs have equal weights in a full design, and if only the
    mean of each pair is used. Raises `ValueError` for unequal weights.
    """
    sizes = int(objects.max()) + 1, int(contexts.max()) + 1
    cell = objects * sizes[1] + contexts
    count = np.bincount(cell, minlength=sizes[0] * sizes[1])
    if not count.all():
        o, c = np.divmod(int(np.argmin(count)), sizes[1])
        raise ValueError(
            "Variance can be split between objects and contexts only if every pair has examples: "
            f"{np.sum(count == 0)} of {count.size} pairs have no example, the first is object {o} "
            f"in context {c} (counted from 0 in sorted order). Leave out objects that are not "
            "shown in every context, or give `anova=None`."
        )
    if not means and count.min() < count.max():
        raise ValueError(
            f"Pairs of object and context have from {count.min()} to {count.max()} examples, but "
            '`anova="full"` needs the same number for every pair. Use `anova="means"` to split '
            "the variance of the means of pairs instead."
        )
    flat = _means(h, cell)
    grid = flat.reshape(*sizes, -1)
    square = _means((h - flat[cell]) ** 2, cell).mean(axis=0)  # within
    mean = grid.mean(axis=(0, 1))
    of_objects, of_contexts = grid.mean(axis=1) - mean, grid.mean(axis=0) - mean
    rest = grid - mean - of_objects[:, None] - of_contexts
    parts = np.stack(
        (
            np.mean(of_objects**2, axis=0),
            np.mean(of_contexts**2, axis=0),
            np.mean(rest**2, axis=(0, 1)),
            square,
        )
    )
    total = parts.sum(axis=0)
    # The variance of a constant unit is rounding error.
    varies = total > (1e-14 * np.abs(h).max(axis=0)) ** 2
    return np.where(varies, parts / np.where(varies, total, 1.0), np.nan)


def pair_tests(
    h: Float[np.ndarray, "example unit"],
    objects: Int[np.ndarray, " example"],
    contexts: Int[np.ndarray, " example"],
) -> tuple[Float[np.ndarray, "test unit"], Float[np.ndarray, " unit"]]:
    r"""Return F-tests of differences between pairs of labels and of the interaction, and ω².

    The F-tests compare three models, fitted by least squares for any numbers of examples: a number
    for every pair of labels, a sum of a number for each object and one for each context, and a
    constant. The share of
    variance due to the interaction, corrected for noise, is $\omega^2 = (S_I - d_I s^2)/(S + s^2)$.
    In this formula $S_I$ is the sum of squares of the interaction, $d_I$ its degrees of freedom,
    $S$ the total sum of squares, and $s^2$ the variance within pairs.

    **Returns:** p-values of the pairs and of the interaction, and ω². These numbers are NaN if
    every pair has at most one example, and for constant units.
    """
    from scipy.stats import f as f_distribution

    sizes = int(objects.max()) + 1, int(contexts.max()) + 1
    pairs, cell = np.unique(objects * sizes[1] + contexts, return_inverse=True)
    free = len(h) - len(pairs)
    blank = np.full(h.shape[1], np.nan)
    if not free:
        return np.stack((blank, blank)), blank
    mean, count = _means(h, cell), np.bincount(cell)
    within = np.sum((h - mean[cell]) ** 2, axis=0)
    both = np.hstack([np.eye(n)[k] for n, k in zip(sizes, np.divmod(pairs, sizes[1]), strict=True)])
    root = np.sqrt(count)[:, None]
    fit, _, rank, _ = np.linalg.lstsq(root * both, root * mean)
    interaction = np.sum((root * (mean - both @ fit)) ** 2, axis=0)
    total = np.sum((h - h.mean(axis=0)) ** 2, axis=0)
    varies = total > (1e-14 * np.abs(h).max(axis=0)) ** 2 * len(h)
    # The lower limit keeps rounding errors from counting as the only noise.
    noise = np.maximum(within / free, 1e-30 * np.where(varies, total, 1.0))
    freedom = np.array([len(pairs) - 1, len(pairs) - rank])[:, None]
    squares = np.stack((np.maximum(total - within, 0.0), interaction))
    ratio = squares / np.maximum(freedom, 1) / noise
    chance = np.where(freedom > 0, f_distribution.sf(ratio, np.maximum(freedom, 1), free), 1.0)
    omega = (interaction - freedom[1] * noise) / np.where(varies, total + noise, 1.0)
    return np.where(varies, chance, np.nan), np.where(varies, omega, np.nan)


def split_levels(
    h: Float[np.ndarray, "example unit"],
    objects: Int[np.ndarray, " example"],
    contexts: Int[np.ndarray, " example"],
) -> tuple[Float[np.ndarray, " unit"], Float[np.ndarray, " unit"]]:
    """Return the resting level and the cut of each unit, from its means over pairs of labels.

    The means are cut into the two groups that explain most of their variance.

    **Returns:** the mean of the lower group, where a unit rests, and the midpoint between the
    groups, above which a unit is active.
    """
    cell = np.unique(objects * (int(contexts.max()) + 1) + contexts, return_inverse=True)[1]
    means = np.sort(_means(h, cell), axis=0)
    count = np.arange(1, len(means))[:, None]
    below = np.cumsum(means, axis=0)[:-1]
    low, high = below / count, (means.sum(axis=0) - below) / (len(means) - count)
    best = np.argmax(count * (len(means) - count) * (high - low) ** 2, axis=0)
    unit = np.arange(h.shape[1])
    return low[best, unit], (means[best, unit] + means[best + 1, unit]) / 2


def candidate_sets(
    given: Mapping[str, ArrayLike] | None, contexts: Int[np.ndarray, " example"]
) -> tuple[tuple[str, ...], Bool[np.ndarray, "candidate example"]]:
    """Return candidate gatings by name; by default sets of one, all but one, and all contexts."""
    if given is None:
        count = int(contexts.max()) + 1
        sizes = sorted({1, count - 1, count})
        sets = [c for k in sizes for c in itertools.combinations(range(count), k)]
        names = [",".join(map(str, each)) for each in sets]
        return tuple(names), np.stack([np.isin(contexts, each) for each in sets])
    if not isinstance(given, Mapping) or not given:
        raise ValueError(
            "`candidates` must be a dictionary of gatings by name, with 0 or 1 for each example, "
            f"such as {{'first': contexts == 0}}, got {type(given).__name__}."
        )
    rows: list[np.ndarray] = []
    for name, each in given.items():
        row = real_array(f"candidates['{name}']", each)
        if row.shape != contexts.shape or not np.isin(row, (0, 1)).all():
            raise ValueError(
                f"`candidates['{name}']` must be 0 or 1 for each of the {len(contexts)} examples, "
                f"got shape {row.shape} with values from {row.min(initial=0):g} to "
                f"{row.max(initial=0):g}."
            )
        if not row.any():
            raise ValueError(
                f"`candidates['{name}']` is open for no example: give at least one 1, or leave "
                "this candidate out."
            )
        rows.append(row > 0)
    return tuple(given), np.stack(rows)


def alignment(
    active: Bool[np.ndarray, "example unit"],
    candidates: Bool[np.ndarray, "candidate example"],
    *,
    shuffles: int,
    rng: np.random.Generator,
) -> tuple[Float[np.ndarray, " unit"], Int[np.ndarray, " unit"], Float[np.ndarray, " unit"]]:
    """Return each unit's best Cohen's κ with a candidate, the candidate's index, and chance κ."""
    # Examples with the same value in all candidates are pooled, and active examples are counted.
    patterns, which = np.unique(candidates.T, axis=0, return_inverse=True)
    size = np.bincount(which.ravel())
    inside = _sums(active.astype(int), which.ravel())
    found, observed = _kappa(inside, patterns, size)
    # Among candidates with the same κ, take the one with the highest raw agreement.
    best = np.lexsort((observed, found), axis=0)[-1]
    chance = np.zeros(active.shape[1])
    for _ in range(shuffles):
        chance += _kappa(_dealt(inside.sum(axis=0), size, rng), patterns, size)[0].max(axis=0)
    return found.max(axis=0), best, chance / shuffles


def _dealt(
    on: Int[np.ndarray, " unit"], size: Int[np.ndarray, " pattern"], rng: np.random.Generator
) -> Int[np.ndarray, "pattern unit"]:
    """Shuffle the examples for which units are active; count active examples by pattern."""
    left, rest, rows = on.copy(), int(size.sum()), []
    for each in size:
        rest -= int(each)
        rows.append(rng.hypergeometric(int(each), rest, left) if rest else left)
        left = left - rows[-1]
    return np.stack(rows)


def _kappa(
    inside: Int[np.ndarray, "pattern unit"],
    patterns: Bool[np.ndarray, "pattern candidate"],
    size: Int[np.ndarray, " pattern"],
) -> tuple[Float[np.ndarray, "candidate unit"], Float[np.ndarray, "candidate unit"]]:
    """Return Cohen's κ and the raw agreement between candidates and units.

    κ is the agreement beyond chance relative to its maximum. For a constant candidate and a
    constant unit, κ is 1 if they are equal. If only the candidate or only the unit is constant, κ
    is 0.
    """
    total = size.sum()
    both = patterns.T @ inside / total
    a, b = inside.sum(axis=0) / total, (patterns.T @ size / total)[:, None]
    observed, expected = 1 - a - b + 2 * both, a * b + (1 - a) * (1 - b)
    undecided = expected >= 1 - 1e-12
    beyond = (observed - expected) / np.where(undecided, 1.0, 1 - expected)
    return np.where(undecided, 1.0 * (observed >= 1 - 1e-12), beyond), observed


def _means(
    values: Float[np.ndarray, "example unit"], label: Int[np.ndarray, " example"]
) -> Float[np.ndarray, "value unit"]:
    """Return the mean over the examples of each label value."""
    return _sums(values, label) / np.bincount(label)[:, None]


def _sums(values: np.ndarray, label: Int[np.ndarray, " example"]) -> np.ndarray:
    """Return the sum over the examples of each label value; every value must have examples."""
    order = np.argsort(label, kind="stable")
    starts = np.concatenate(([0], np.cumsum(np.bincount(label))[:-1]))
    return np.add.reduceat(values[order], starts, axis=0)
