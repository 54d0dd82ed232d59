"""Objects in contexts: some of what is to be said of an object depends on where it is seen."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float

from .._checks import check_choice, number, whole_number
from .._types import ArrayLike
from ._structured import features_of, nested_tree_features
from ._task import Task, from_arrays

_PUBLISHED_INPUT = {3: 1.0, 4: 1.1, 5: 1.35}
"""What stands for the 1 of a context in the published experiment on their number."""


def objects_in_contexts(
    objects: int | ArrayLike = 8,
    contexts: int = 3,
    *,
    structures: Sequence[str | ArrayLike] | None = None,
    context_input: float | None = None,
    preset: Literal["jarvis-2025"] | None = None,
) -> Task:
    r"""Return a task of objects with features of their own and features that depend on context.

    The inputs are one-hot for object and context, $x = (e_o, e_c)$, the targets the object's
    features once for all contexts and once for each of them, $y = (h_o, [c = 1]\, h_o, \dots,
    [c = C]\, h_o)$. All $NC$ pairs are shown, context by context. A linear network learns what
    all contexts have in common; its loss stays at $\frac12(1 - \frac1C)\sum_{a \geq 2}
    \sigma_a^2/N$, σ the singular values of the features where their mean over objects is the first
    mode.

    **Arguments:**

    - `objects`: how many, a power of two whose features are those of `nested_tree_features`; or
      features of your own, `(feature, object)`.
    - `contexts`: C.
    - `structures`: of the features that belong to each context, where these are not those of all
      contexts: "tree", "ring" or "crossed" (`structured_features`), or features of your own.
    - `context_input`: what stands for the 1 of $e_c$, 1 by default.
    - `preset`: "jarvis-2025" has the context inputs of Jarvis, Klein, Rosman & Saxe (2025): 1, 1.1
      and 1.35 for 3, 4 and 5 contexts. There networks of 700, 500 and 600 units learn the task from
      weights of 0.005/units, in 8,001 steps of 0.001 on `loss="half-sum"`; the three structures are
      `("tree", "ring", "crossed")`.

    **Returns:**

    A `Task` with the labels `object` and `context`.
    """
    h, count = features_of("objects", objects), whole_number("contexts", contexts)
    if h.ndim != 2:
        raise ValueError(f"Features of `objects` must be (feature, object), got shape {h.shape}.")
    if preset is not None:
        check_choice("preset", preset, ("jarvis-2025",))
        if count not in _PUBLISHED_INPUT or context_input is not None:
            raise ValueError(
                "The preset 'jarvis-2025' has 3, 4 or 5 `contexts` and sets `context_input`; got "
                f"{count} contexts and `context_input={context_input}`."
            )
        context_input = _PUBLISHED_INPUT[count]
    context_input = 1.0 if context_input is None else context_input
    items = h.shape[1]
    context, obj = np.divmod(np.arange(count * items), items)
    here = np.eye(count)[context]
    x = np.hstack((np.eye(items)[obj], number("context_input", context_input) * here))
    own = [h] * count if structures is None else _structures(structures, count, items)
    blocks = [h, *own]
    says = np.hstack((np.ones((len(x), 1)), here))
    y = np.hstack([says[:, [k]] * each.T[obj] for k, each in enumerate(blocks)])
    return from_arrays(x, y, labels={"object": obj, "context": context})


def structured_features(structure: str, objects: int = 8) -> Float[np.ndarray, "feature object"]:
    r"""Return $2N - 1$ features of $N$ objects, by the name of their structure.

    - "tree": those of `nested_tree_features`.
    - "ring": one that all have, and a hill that is moved on by one object for each of the others,
      from the foot to the top and back (0, .33, .66, 1, 1, .66, .33, 0 of eight).
    - "crossed": a tree whose pairs cut across those of "tree": of four objects not the first and
      the second belong together, but the first and the third.
    """
    count = whole_number("objects", objects)
    if structure not in ("tree", "ring", "crossed"):
        raise ValueError(f'A structure is "tree", "ring" or "crossed", got {structure!r}.')
    if count < 4 or count & (count - 1):
        raise ValueError(f"`objects` must be a power of two from 4 up, got {count}.")
    tree = nested_tree_features(count.bit_length() - 1)
    if structure == "ring":
        slope = np.floor(100 * np.linspace(0.0, 1.0, count // 2)) / 100  # two places, as published
        hill = np.concatenate((slope, slope[::-1]))
        return np.stack([np.ones(count), *(np.roll(hill, k) for k in range(2 * count - 2))])
    if structure == "crossed":
        order = np.arange(count).reshape(-1, 2, 2).swapaxes(1, 2).ravel()
        tree[:-count] = tree[:-count, order]
    return tree


def _structures(
    given: Sequence[str | ArrayLike], count: int, items: int
) -> list[Float[np.ndarray, "feature object"]]:
    if isinstance(given, str) or len(given) != count:
        raise ValueError(
            f"`structures` must be one for each of {count} contexts, like "
            f"{('tree', 'ring', 'crossed')}, got {given!r}."
        )
    found = [
        structured_features(each, items)
        if isinstance(each, str)
        else features_of("structures", each)
        for each in given
    ]
    for each in found:
        if each.ndim != 2 or each.shape[1] != items:
            raise ValueError(
                f"`structures` must be (feature, object) of {items} objects each, got shape "
                f"{each.shape}."
            )
    return found
