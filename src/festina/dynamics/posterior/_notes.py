"""Describe unusual properties of the examples, which affect sampling but are no errors."""

import numpy as np
from jaxtyping import Float

_SAME = 1e-9


def oddities(
    x: Float[np.ndarray, "sample direction"], y: Float[np.ndarray, "sample output"], *, linear: bool
) -> tuple[str, ...]:
    """Return sentences about repeated inputs, constant targets, and targets that do not fit."""
    found, whole = [], float((y**2).sum())
    if repeated := _repeated(x):
        left = sum(((y[group] - y[group].mean(axis=0)) ** 2).sum() for group in repeated)
        which = "; ".join(", ".join(map(str, group)) for group in repeated[:3])
        more = f" and {len(repeated) - 3} more groups" if len(repeated) > 3 else ""
        cause = "each example counts separately."
        if left > _SAME * whole:
            cause = (
                f"because their targets differ, every network has a squared error of at least "
                f"{left:.4g}."
            )
        found.append(f"Some inputs occur more than once (examples {which}{more}): {cause}")
    constant = np.nonzero(np.ptp(y, axis=0) <= _SAME * np.abs(y).max())[0]
    if y.shape[1] > 1 and len(constant):
        found.append(
            f"Output {', '.join(map(str, constant))} has the same target for every example. Is "
            "there a class without examples?"
        )
    left = ((y - x @ np.linalg.lstsq(x, y, rcond=None)[0]) ** 2).sum()
    if linear and left > _SAME * whole:
        cause = (
            "the inputs span fewer directions than there are examples, and the targets are not "
            "linear in the inputs."
        )
        if np.abs(x.sum(axis=0)).max() < _SAME * np.abs(x).sum(axis=0).max():
            cause = (
                "the inputs are centred, so linear outputs sum to zero over the examples, but the "
                "targets do not. Centre the targets (`other=-1/(m-1)` for m equal classes), or add "
                "a constant entry to the inputs."
            )
        found.append(
            f"A linear network without bias cannot fit {left:.4g} of |Y|² = {whole:.4g}: {cause}"
        )
    return tuple(found)


def _repeated(x: np.ndarray) -> list[list[int]]:
    """Return groups of examples with the same input."""
    own = (x**2).sum(axis=1)
    apart = own[:, None] + own - 2 * x @ x.T
    first = (apart <= _SAME * own.max()).argmax(axis=1)
    groups = [np.nonzero(first == k)[0].tolist() for k in np.unique(first)]
    return [group for group in groups if len(group) > 1]
