"""Translation between domains that look different and are alike in structure."""

from collections.abc import Sequence
from typing import Literal

import jax
import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray

from .._checks import check_choice, whole_number
from .._precision import float64
from .._types import ArrayLike
from ..networks._build import check_key, normals
from ..networks._frames import orthonormal
from ._structured import Featured, features_of, nested_tree_features
from ._task import Task, from_arrays


@float64
def domain_routing(
    domains: int | None = None,
    trained: int | ArrayLike | None = None,
    *,
    items: int | ArrayLike | None = None,
    preset: Literal["saxe-2022"] | None = None,
    key: PRNGKeyArray | None = None,
) -> Task:
    r"""Return the task to map an item of one domain to its features in another, for some pairs.

    In domain $i$ the items are the columns of an orthogonal matrix, $x_i = V_i e_k$, in inputs of
    its own; asked for domain $j$ the target is $y_j = Q_j h_k$, in outputs of its own, h being the
    features. All else is zero. The last inputs say which output is asked for, one-hot: they tell
    examples apart that differ in nothing else, and a network that is gated by labels need not read
    them. Every path from an input i to an output j sees $S = \sigma(H)/n$ and $D = 1/n$ of its own
    examples, n the number of items, and $S/p$, $D/p$ on the average over p pairs.

    Pairs do not change what the domains are: with the same `key`, `domain_routing(M, pairs)` is
    what is trained, `domain_routing(M, ~pairs)` what can only be inferred, `domain_routing(M)`
    everything.

    **Arguments:**

    - `domains`: M, on either side.
    - `trained`: which pairs; K for those from i to i, …, i + K − 1 (mod M), or a pattern
      `(input domain, output domain)` of true and false, such as `cyclic_domain_pairs`. All by
      default.
    - `items`: how many, 4 by default, a power of two whose features are those of
      `nested_tree_features`; or features of your own, `(feature, item)`, or `(domain, feature,
      item)` where domains differ in what there is to say (`features_of_related_domains`).
    - `preset`: "saxe-2022" sets the arguments that are not given to those of the translation task
      of Saxe, Sodhani & Lewallen (2022): seven domains, each trained with its neighbours at
      distance −1, 0, 1 and 2; four one-hot items, with features of value 6 that all have, 4 for
      two each and 3 for one.
    - `key`: of the rotations V and Q. Without it there are none: items are one-hot, and features
      as they are.

    **Returns:**

    A `Task` with the labels `input_domain`, `output_domain` and `item`: $Mn + M$ inputs, M times
    as many outputs as there are features.
    """
    if preset is not None:
        check_choice("preset", preset, ("saxe-2022",))
        domains = 7 if domains is None else domains
        trained = cyclic_domain_pairs(domains, 4, first=-1) if trained is None else trained
        items = nested_tree_features(2, values=[6.0, 4.0, 3.0]) if items is None else items
    m = whole_number("domains", domains)
    pairs = _pairs(m, trained)
    h = features_of("items", 4 if items is None else items)
    if h.ndim == 3 and len(h) != m:
        raise ValueError(f"`items` has the features of {len(h)} domains, there are {m}.")
    features, n = h.shape[-2:]
    v, q = np.eye(n)[None].repeat(m, 0), np.eye(features)[None].repeat(m, 0)
    if key is not None:
        drawn = normals(check_key(key), ((m, n, n), (m, features, features)))
        v, q = map(orthonormal, drawn)
    y = q @ h
    source, target = (np.repeat(which, n) for which in np.nonzero(pairs))
    item = np.tile(np.arange(n), int(pairs.sum()))
    rows = np.arange(len(item))
    inputs, outputs = np.zeros((len(item), m, n)), np.zeros((len(item), m, features))
    inputs[rows, source] = v[source, :, item]
    outputs[rows, target] = y[target, :, item]
    x = np.hstack((inputs.reshape(len(item), -1), np.eye(m)[target]))
    labels = {"input_domain": source, "output_domain": target, "item": item}
    return from_arrays(x, outputs.reshape(len(item), -1), labels=labels)


def cyclic_domain_pairs(
    domains: int, outputs: int, *, first: int = 0
) -> Bool[np.ndarray, "input output"]:
    """Return pairs of each domain with those at distance `first`, `first` + 1, … in a circle."""
    m = whole_number("domains", domains)
    if not 1 <= (k := whole_number("outputs", outputs)) <= m:
        raise ValueError(f"`outputs` must be from 1 to the number of domains, {m}, got {k}.")
    start = whole_number("first", first, least=-(2**31))
    distance = (np.arange(m) - np.arange(m)[:, None] - start) % m
    return distance < k


@float64
def features_of_related_domains(
    branching: Sequence[int], source: Featured, features: int, *, key: PRNGKeyArray
) -> Float[np.ndarray, "domain feature item"]:
    """Draw features of domains that are leaves of a tree and inherit from common ancestors.

    Every node of the tree, the root included, draws `features` from a world, and a domain has those
    of all nodes above it: the closer two domains are related, the more of their structure is the
    same. For `domain_routing(…, items=…)`.

    **Arguments:**

    - `branching`: children of each node, level by level from the root: `[2, 2]` has 4 domains.
    - `source`: the world of the items.
    - `features`: how many, at every node.
    """
    widths = np.cumprod([1, *(whole_number("branching", each) for each in branching)])
    levels = []
    for level, width in enumerate(widths):
        keys = jax.random.split(jax.random.fold_in(key, level), int(width))
        drawn = np.stack([source.sample(features, key=each) for each in keys])
        levels.append(np.repeat(drawn, widths[-1] // width, axis=0))
    return np.concatenate(levels, axis=1)


def _pairs(domains: int, trained: int | ArrayLike | None) -> Bool[np.ndarray, "input output"]:
    if trained is None:
        return np.full((domains, domains), True)
    given = np.asarray(trained)
    if given.ndim == 0 and given.dtype != bool:
        return cyclic_domain_pairs(domains, int(whole_number("trained", given.item())))
    if given.shape != (domains, domains) or given.dtype != bool or not given.any():
        raise ValueError(
            f"`trained` must be a number of outputs, or a pattern of true and false ({domains}, "
            f"{domains}) with at least one pair, got {given.dtype} of shape {given.shape}."
        )
    return given
