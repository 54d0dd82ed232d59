"""Activities of hidden units with a known code, drawn from the mean-field theory of a neuron."""

from functools import cache

import numpy as np
from scipy.special import erf

from festina.theory.coding import classification_code, crossover_temperature, targets_per_class

Z = np.linspace(-6, 12, 721)


def phi(activation, z):
    half = erf(np.sqrt(np.pi) / 2 * z)
    return {"linear": z, "relu": np.maximum(z, 0), "erf": half, "erf-sigmoid": (1 + half) / 2}[
        activation
    ]


def labels_of(sizes):
    return np.repeat(np.arange(len(sizes)), sizes)


def pulled(activation, pull, sizes, rng):
    """Draw activities for n_c examples of each class, given a·t_c in `pull`, `(unit, class)`."""
    said = phi(activation, Z)
    height = pull[..., None] * said - Z**2 / 2
    law = np.exp(height - height.max(axis=-1, keepdims=True)).cumsum(axis=-1)
    columns = []
    for c, n in enumerate(sizes):
        level = rng.uniform(size=(len(pull), n)) * law[:, c, -1:]
        at = [np.searchsorted(own, x) for own, x in zip(law[:, c], level, strict=True)]
        columns.append(said[np.transpose(at)])
    return np.concatenate(columns)


@cache
def theory(sizes, activation, temperature, other):
    targets = targets_per_class(len(sizes), other=other)
    return classification_code(list(sizes), activation, temperature=temperature, targets=targets)


@cache
def one_class(size, variance, temperature):
    """Return the theory of one class; for odd φ and one-hot targets classes are independent."""
    given = {"targets": [[1.0]], "readout_variance": variance}
    return classification_code([size], "erf", temperature=temperature, **given)


def pull_of(found, width, rng):
    """Draw readouts a from the theory on its lattice, spread over cells, and return all a·t_c."""
    problem, law = found._law
    chosen = rng.choice(len(law.weight), size=width, p=law.weight)
    spread = rng.uniform(-0.5, 0.5, size=(width, law.points.shape[1])) * problem.fine
    return (law.points[chosen] + spread) @ (found.dual @ problem.basis).T


def drawn(activation, sizes, width, rng, *, temperature=0.01, other=0.0, pieces=1):
    """Draw activities `(example, unit)` of a wide trained network, `pieces` outliers per class."""
    sizes = tuple(int(n) for n in sizes)
    total, which = sum(sizes), labels_of(sizes)
    if activation == "erf" and other == 0:
        each = [pull_of(one_class(n, 1 / total, temperature), width, rng) for n in sizes]
        return pulled("erf", np.hstack(each), sizes, rng)
    if activation == "linear":
        found = theory(sizes, activation, temperature, other)
        u = found.readout_moment
        a = rng.multivariate_normal(np.zeros(len(u)), u, size=width, method="eigh")
        return (a @ found.dual.T).T[which] + rng.standard_normal((total, width))
    if activation == "relu" and len(sizes) > 4:  # too many classes for the lattice
        kappa = np.array(sizes) / total
        q = (1 - temperature / np.sqrt(kappa)) / np.sqrt(kappa)
        h = pulled("relu", np.zeros((width, len(sizes))), sizes, rng)
    else:
        found = theory(sizes, activation, temperature, other)
        h, q = pulled(activation, pull_of(found, width, rng), sizes, rng), found.condensed
    classes = np.repeat(np.flatnonzero(q), pieces)
    part = rng.dirichlet(np.full(pieces, 3.0), size=int((q > 0).sum())).ravel()
    for unit, c, share in zip(rng.permutation(width), classes, part, strict=False):
        own = np.sqrt(width * q[c] * share) + rng.standard_normal(total)
        h[:, unit] = np.maximum(own, 0) * (which == c)
    return h


TRUTH = {"linear": "analog", "erf": "redundant", "erf-sigmoid": "redundant", "relu": "sparse"}


def setting(number):
    """Return the code, activities, labels, None and a description of a random setting.

    Settings vary in the number and sizes of classes, width, temperature and gains of units.
    """
    rng = np.random.default_rng([21, number])
    activation = ("linear", "erf", "erf-sigmoid", "relu")[number % 4]
    control = ("lazy", "shuffled", "hot")[number // 12 % 3] if number // 4 % 3 == 2 else ""
    small = control == "hot" or activation == "erf-sigmoid"
    m = int(rng.choice([2, 3, 4] if small else [2, 3, 4, 5, 7, 10, 12]))
    examples = int(np.exp(rng.uniform(np.log(max(30, 5 * m)), np.log(300))))
    examples = max(examples, 45 * (activation == "relu"))
    share = np.ones(m) if rng.integers(2) else rng.uniform(0.4, 1.6, m)
    sizes = np.maximum(np.round(examples * share / share.sum()).astype(int), 3)
    width = int(np.exp(rng.uniform(np.log(max(40, 6 * m)), np.log(1000))))
    centred = (m == 4 and activation != "linear") or (m < 5 and rng.integers(2))
    other = -1 / (m - 1) if centred else 0.0
    spread = {"erf": 0.4185, "erf-sigmoid": 0.1046}.get(activation, 1.0)
    melts = np.sqrt(spread * min(sizes) / sum(sizes))
    temperature = melts * np.exp(rng.uniform(np.log(0.003), np.log(0.4)))
    if control == "hot":
        targets = targets_per_class(m, other=other)
        temperature = crossover_temperature(sizes, activation, targets=targets)
        temperature *= rng.uniform(2.0, 4.0)
    how = f"{number} {activation} {control} m={m} P={sum(sizes)} N={width} T={temperature:.3g} "
    how += f"y-={other:.2g} {sizes.tolist()}"
    if control == "lazy":
        h = phi(activation, rng.standard_normal((sum(sizes), width)))
    else:
        pieces = int(rng.integers(1, 4)) if width > 20 * m else 1
        given = {"temperature": round(float(temperature), 5), "other": other, "pieces": pieces}
        h = drawn(activation, sizes, width, rng, **given)
    labels = labels_of(sizes)
    if control == "shuffled":
        labels = rng.permutation(labels)
    if rng.integers(2):
        h, how = h * rng.lognormal(0, 0.3, width), how + " gains"
    return "none" if control else TRUTH[activation], h, labels, None, how
