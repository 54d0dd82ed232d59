"""SciPy's L-BFGS for weights by name."""

from collections.abc import Callable, Iterable

import numpy as np

from ._layers import Weights

Slope = Callable[[Weights], tuple[float, dict[str, np.ndarray]]]


def descend(
    slope: Slope,
    weights: Weights,
    free: Iterable[str],
    *,
    steps: int,
    look: Callable[[Weights], bool] | None = None,
    every: int = 20,
) -> Weights:
    """Down a loss with the `free` weights; every so often `look` says whether to go on."""
    from scipy.optimize import minimize

    names = sorted(free)
    if not names:
        return weights
    shapes = [weights[name].shape for name in names]
    cuts = np.cumsum([weights[name].size for name in names])[:-1]
    seen = 0

    def apart(flat: np.ndarray) -> Weights:
        pieces = zip(names, np.split(flat, cuts), shapes, strict=True)
        return {**weights, **{name: piece.reshape(shape) for name, piece, shape in pieces}}

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, slopes = slope(apart(flat))
        each = (
            slopes.get(name, np.zeros(shape)) for name, shape in zip(names, shapes, strict=True)
        )
        return value, np.concatenate([one.ravel() for one in each])

    def after(flat: np.ndarray) -> None:
        nonlocal seen
        seen += 1
        if look is not None and seen % every == 0 and not look(apart(flat)):
            raise StopIteration

    flat = np.concatenate([weights[name].ravel() for name in names])
    options = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": 20, "ftol": 1e-11, "gtol": 1e-12}
    end = minimize(loss, flat, jac=True, method="L-BFGS-B", callback=after, options=options)
    return apart(end.x)
