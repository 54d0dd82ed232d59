"""What is odd about the examples, in words: sampling goes on, but the reader should know."""

import numpy as np
from jaxtyping import Float

_SAME = 1e-9


def oddities(
    x: Float[np.ndarray, "sample direction"],
    y: Float[np.ndarray, "sample output"],
    *,
    linear: bool,
) -> tuple[str, ...]:
    """Of inputs by their directions, and targets."""
    found = []
    if repeated := _repeated(x):
        left = sum(((y[group] - y[group].mean(axis=0)) ** 2).sum() for group in repeated)
        which = "; ".join(", ".join(map(str, group)) for group in repeated[:3])
        more = f" and {len(repeated) - 3} more groups" if len(repeated) > 3 else ""
        found.append(
            f"The same inputs occur more than once (examples {which}{more}): "
            + (
                f"with different targets, of which a squared error of {left:.4g} is left whatever "
                "the weights."
                if left > _SAME * (y**2).sum()
                else "each counts as often as it occurs."
            )
        )
    constant = np.nonzero(np.ptp(y, axis=0) <= _SAME * np.abs(y).max())[0]
    if y.shape[1] > 1 and len(constant):
        found.append(
            f"Output {', '.join(map(str, constant))} has the same target for every example: is "
            "there a class without examples?"
        )
    if linear:
        fitted = x @ np.linalg.lstsq(x, y, rcond=None)[0]
        left = ((y - fitted) ** 2).sum()
        if left > _SAME * (y**2).sum():
            found.append(
                f"A linear network without bias cannot fit {left:.4g} of |Y|² = "
                f"{(y**2).sum():.4g}: {_why(x)}"
            )
    return tuple(found)


def _repeated(x: np.ndarray) -> list[list[int]]:
    """Examples with the same input, in groups."""
    own = (x**2).sum(axis=1)
    apart = own[:, None] + own - 2 * x @ x.T
    same = apart <= _SAME * max(own.max(), np.finfo(float).tiny)
    first = same.argmax(axis=1)
    groups = [np.nonzero(first == k)[0].tolist() for k in np.unique(first)]
    return [group for group in groups if len(group) > 1]


def _why(x: np.ndarray) -> str:
    if np.abs(x.sum(axis=0)).max() < 1e-9 * np.abs(x).sum(axis=0).max():
        return (
            "inputs are centred, so that outputs sum to zero over the examples, and the targets do "
            "not. Centre them too (`other=-1/(m-1)` for equal classes), or give inputs a constant "
            "entry."
        )
    return "there are fewer directions of the inputs than examples, and targets are not linear."
