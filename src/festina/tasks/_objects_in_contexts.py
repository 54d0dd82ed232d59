"""Objects in contexts: tasks in which some features of an object depend on a context input."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from jaxtyping import Float

from .._checks import check_choice, number, whole_number
from .._types import ArrayLike
from ._structured import features_of, nested_tree_features
from ._task import Task, from_arrays

_PUBLISHED_INPUT = {3: 1.0, 4: 1.1, 5: 1.35}
"""Value of an active context input in the published experiment, by number of contexts."""


def objects_in_contexts(
    objects: int | ArrayLike = 8,
    contexts: int = 3,
    *,
    structures: Sequence[str | ArrayLike] | None = None,
    context_input: float | None = None,
    preset: Literal["jarvis-2025"] | None = None,
) -> Task:
    r"""Return a task of objects whose features partly depend on a context.

    The inputs are one-hot for the object o and the context c, $x = (e_o, e_c)$. The targets are the
    features of the object, once for all contexts and once for each context:
    $y = (h_o, [c = 1]\, h_o, \dots, [c = C]\, h_o)$. The samples are all $NC$ pairs of an object
    and a context. A linear network learns only the average over contexts: its loss does not fall
    below $\frac12(1 - \frac1C)\sum_{a \geq 2} \sigma_a^2/N$, where $\sigma_a$ are the singular
    values of the features and the first mode is the mean over objects.

    **Arguments:**

    - `objects`: number N of objects, a power of two, for the features of `nested_tree_features`; or
      your own features, `(feature, object)`.
    - `contexts`: number C of contexts.
    - `structures`: features for each context, if they differ from the features for all contexts: a
      list of "tree", "ring", "crossed" (see `structured_features`) or your own features.
    - `context_input`: value of the active context input in $e_c$, by default 1.
    - `preset`: "jarvis-2025" sets the context input of Jarvis, Klein, Rosman & Saxe (2025): 1, 1.1
      and 1.35 for 3, 4 and 5 contexts. The paper trains networks of 700, 500 and 600 units from
      weights of scale 0.005/units, in 8,001 steps of size 0.001 on `loss="half-sum"`. The paper's
      three structures are `("tree", "ring", "crossed")`.

    **Returns:**

    A `Task` with the labels `object` and `context`.

    **Example:**

    >>> from festina.tasks import objects_in_contexts
    >>> task = objects_in_contexts(4, 3)
    >>> task
    Task(12 samples, inputs (7,), 28 outputs)
    >>> task.x[5]  # object 1 in context 1
    array([0., 1., 0., 0., 0., 1., 0.])
    """
    h, count = features_of("objects", objects), whole_number("contexts", contexts)
    if h.ndim != 2:
        raise ValueError(f"Features of `objects` must be (feature, object), got shape {h.shape}.")
    if preset is not None:
        check_choice("preset", preset, ("jarvis-2025",))
        if count not in _PUBLISHED_INPUT or context_input is not None:
            raise ValueError(
                "The preset 'jarvis-2025' has 3, 4 or 5 `contexts` and sets `context_input`; got "
                f"{count} contexts and `context_input={context_input}`. Change these arguments, or "
                "give no preset."
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
    r"""Return $2N - 1$ features of $N$ objects with the structure of a tree or a ring.

    - "tree": the features of `nested_tree_features`.
    - "ring": one feature that all objects have, and copies of a hill-shaped feature, each shifted
      by one object. The hill for eight objects is 0, .33, .66, 1, 1, .66, .33, 0.
    - "crossed": a tree that pairs objects differently from "tree". Among four objects, the first
      and the third form a pair, and the second and the fourth.

    **Example:**

    >>> from festina.tasks import structured_features
    >>> structured_features("ring", 8)[:3]
    array([[1.  , 1.  , 1.  , 1.  , 1.  , 1.  , 1.  , 1.  ],
           [0.  , 0.33, 0.66, 1.  , 1.  , 0.66, 0.33, 0.  ],
           [0.  , 0.  , 0.33, 0.66, 1.  , 1.  , 0.66, 0.33]])
    """
    count = whole_number("objects", objects)
    if structure not in ("tree", "ring", "crossed"):
        raise ValueError(f'A structure is "tree", "ring" or "crossed", got {structure!r}.')
    if count < 4 or count & (count - 1):
        raise ValueError(
            f"`objects` must be a power of two from 4 up for structured features, got {count}."
        )
    tree = nested_tree_features(count.bit_length() - 1)
    if structure == "ring":
        slope = np.floor(100 * np.linspace(0.0, 1.0, count // 2)) / 100  # published with 2 decimals
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
            f"`structures` must be a list with one structure for each of {count} contexts, "
            f"such as {('tree', 'ring', 'crossed')} for three, got {given!r}."
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
