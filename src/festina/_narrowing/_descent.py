"""Minimise functions of named weights with SciPy's L-BFGS."""

from collections.abc import Callable, Iterable

import numpy as np

from ._layers import Sloped, Weights

LOOK = 20  # steps between two calls of `look`


def descend(
    slope: Callable[[Weights], Sloped],
    weights: Weights,
    free: Iterable[str],
    *,
    steps: int,
    look: Callable[[Weights], bool] = lambda weights: True,
) -> Weights:
    """Minimise a loss over the `free` weights while `look`, called every `LOOK` steps, is true."""
    from scipy.optimize import minimize

    names, seen = sorted(free), 0
    if not names:
        return weights
    cuts = np.cumsum([weights[name].size for name in names])[:-1]
    none = {name: np.zeros_like(weights[name]) for name in names}
    together = lambda by_name: np.concatenate([by_name[name].ravel() for name in names])

    def apart(flat: np.ndarray) -> Weights:
        pieces = zip(names, np.split(flat, cuts), strict=True)
        return {**weights, **{name: each.reshape(none[name].shape) for name, each in pieces}}

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, slopes = slope(apart(flat))
        return value, together({**none, **slopes})

    def after(flat: np.ndarray) -> None:
        nonlocal seen
        seen += 1
        if seen % LOOK == 0 and not look(apart(flat)):
            raise StopIteration

    options = {"maxiter": steps, "maxfun": 2 * steps, "maxcor": 10, "ftol": 1e-11, "gtol": 1e-12}
    start = together(weights)
    end = minimize(loss, start, jac=True, method="L-BFGS-B", callback=after, options=options)
    return apart(end.x)
