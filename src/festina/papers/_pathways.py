"""Networks with one pathway per set of contexts, and interpolation of curves between times."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

from .._types import Keys
from ..networks import Gated, gated
from ..tasks import Task


def context_pathways(
    task: Task, sets: Iterable[tuple[int, ...]], units: int, scale: float | np.ndarray, keys: Keys
) -> Gated:
    """Return a gated network with one pathway of `units` hidden units per set of contexts.

    Each pathway is open in the contexts of its set. Its weights are drawn from N(0, scale²).
    """
    context = task.labels["context"]
    gates = {f"h{k}": np.isin(context, each) * 1.0 for k, each in enumerate(sets)}
    return gated(
        {"x": np.shape(task.x)[1], **dict.fromkeys(gates, units), "y": task.outputs},
        [f"x-{node}-y" for node in gates],
        gates={node: gate for node, gate in gates.items() if not gate.all()},
        x=task.x,
        scale=scale,
        key=keys,
    )


def between(
    times: Float[np.ndarray, " time"],
    seen: Float[np.ndarray, " sample"],
    values: Float[np.ndarray, "sample ..."],
) -> Float[np.ndarray, "time ..."]:
    """Return a curve at `times`, interpolated linearly from its `values` at the times `seen`.

    After the last time of `seen` the curve keeps its last value.
    """
    columns = values.reshape(len(values), -1).T
    found = np.stack([np.interp(times, seen, each) for each in columns], axis=-1)
    return found.reshape(len(times), *values.shape[1:])
