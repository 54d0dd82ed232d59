"""What is odd about the examples, in words: sampling goes on, but the reader should know."""

import numpy as np
from jaxtyping import Float

_SAME = 1e-9


def oddities(
    x: Float[np.ndarray, "sample direction"], y: Float[np.ndarray, "sample output"], *, linear: bool
) -> tuple[str, ...]:
    """Of inputs by their directions, and targets."""
    found, whole = [], float((y**2).sum())
    if repeated := _repeated(x):
        left = sum(((y[group] - y[group].mean(axis=0)) ** 2).sum() for group in repeated)
        which = "; ".join(", ".join(map(str, group)) for group in repeated[:3])
        more = f" and {len(repeated) - 3} more groups" if len(repeated) > 3 else ""
        cause = "each counts as often as it occurs."
        if left > _SAME * whole:
            cause = (
                f"with other targets, a squared error of {left:.4g} is left whatever the weights."
            )
        found.append(f"The same inputs occur more than once (examples {which}{more}): {cause}")
    constant = np.nonzero(np.ptp(y, axis=0) <= _SAME * np.abs(y).max())[0]
    if y.shape[1] > 1 and len(constant):
        found.append(
            f"Output {', '.join(map(str, constant))} has the same target for every example: is "
            "there a class without examples?"
        )
    left = ((y - x @ np.linalg.lstsq(x, y, rcond=None)[0]) ** 2).sum()
    if linear and left > _SAME * whole:
        cause = (
            "there are fewer directions of the inputs than examples, and targets are not linear."
        )
        if np.abs(x.sum(axis=0)).max() < _SAME * np.abs(x).sum(axis=0).max():
            cause = (
                "inputs are centred, so that outputs sum to zero over the examples, and the "
                "targets do not. Centre them too (`other=-1/(m-1)` for equal classes), or give "
                "inputs a constant entry."
            )
        found.append(
            f"A linear network without bias cannot fit {left:.4g} of |Y|² = {whole:.4g}: {cause}"
        )
    return tuple(found)


def _repeated(x: np.ndarray) -> list[list[int]]:
    """Examples with the same input, in groups."""
    own = (x**2).sum(axis=1)
    apart = own[:, None] + own - 2 * x @ x.T
    first = (apart <= _SAME * own.max()).argmax(axis=1)
    groups = [np.nonzero(first == k)[0].tolist() for k in np.unique(first)]
    return [group for group in groups if len(group) > 1]
