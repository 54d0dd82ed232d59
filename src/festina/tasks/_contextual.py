"""Objects in contexts: some of what is to be said of an object depends on where it is seen."""

import numpy as np

from .._types import ArrayLike
from ..networks._given import real_number, whole_number
from ._structured import features_of
from ._task import Task, task


def contextual(
    objects: int | ArrayLike = 8, contexts: int = 3, *, context_input: float = 1.0
) -> Task:
    r"""Context-dependent processing: what an object is like, in general and in this context.

    The inputs are one-hot for object and context, $x = (e_o, e_c)$, the targets the object's
    features once for all contexts and once for each of them, $y = (h_o, [c = 1]\, h_o, \dots,
    [c = C]\, h_o)$. All $NC$ pairs are shown, context by context. A linear network learns what
    all contexts have in common; its loss stays at $\frac12(1 - \frac1C)\sum_{a \geq 2}
    \sigma_a^2/N$, σ the singular values of the features where their mean over objects is the first
    mode.

    **Arguments:**

    - `objects`: how many, a power of two whose features are those of `nested_tree`; or features
      of your own, `(feature, object)`.
    - `contexts`: C.
    - `context_input`: what stands for the 1 of $e_c$.

    **Returns:**

    A `Task` with the labels `object` and `context`.
    """
    h, count = features_of("objects", objects), whole_number("contexts", contexts)
    if h.ndim != 2:
        raise ValueError(f"Features of `objects` must be (feature, object), got shape {h.shape}.")
    context, obj = np.divmod(np.arange(count * h.shape[1]), h.shape[1])
    here = np.eye(count)[context]
    x = np.hstack((np.eye(h.shape[1])[obj], real_number("context_input", context_input) * here))
    blocks = np.hstack((np.ones((len(x), 1)), here))
    y = (blocks[:, :, None] * h.T[obj][:, None, :]).reshape(len(x), -1)
    return task(x, y, labels={"object": obj, "context": context})
