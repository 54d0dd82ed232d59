"""SciPy's L-BFGS for weights by name."""

from collections.abc import Callable

import numpy as np

from ._layers import Weights

Slope = Callable[[Weights], tuple[float, dict[str, np.ndarray]]]


def descend(
    slope: Slope,
    start: Weights,
    *,
    steps: int,
    look: Callable[[dict[str, np.ndarray]], bool] | None = None,
    every: int = 20,
) -> dict[str, np.ndarray]:
    """Down a loss; `look` is shown the weights every so often, and says whether to go on."""
    from scipy.optimize import minimize

    names = list(start)
    shapes = [start[name].shape for name in names]
    cuts = np.cumsum([start[name].size for name in names])[:-1]
    seen = 0

    def apart(flat: np.ndarray) -> dict[str, np.ndarray]:
        pieces = zip(names, np.split(flat, cuts), shapes, strict=True)
        return {name: piece.reshape(shape) for name, piece, shape in pieces}

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, slopes = slope(apart(flat))
        each = [
            slopes.get(name, np.zeros(shape)) for name, shape in zip(names, shapes, strict=True)
        ]
        return value, np.concatenate([one.ravel() for one in each])

    def after(flat: np.ndarray) -> None:
        nonlocal seen
        seen += 1
        if look is not None and seen % every == 0 and not look(apart(flat)):
            raise StopIteration

    flat = np.concatenate([start[name].ravel() for name in names])
    options = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": 20, "ftol": 1e-11, "gtol": 1e-12}
    end = minimize(loss, flat, jac=True, method="L-BFGS-B", callback=after, options=options)
    return apart(end.x)
