"""Gradient flow of small gated networks by SciPy, as a reference without compiled programs."""

import itertools
import math

import numpy as np
from scipy.integrate import solve_ivp

from festina.theory.gated._gradients import by_samples
from festina.theory.gated._samples import samples


def flow(network, data, times, rtol=1e-11):
    """Return all weights over time, integrated by SciPy from the gradients of all samples."""
    edges, shapes = list(network.part_axes), [part.shape for part in network.parts]
    borders = np.cumsum([0, *map(math.prod, shapes)])
    seen = samples(network, data)

    def arrays(flat):
        pieces = (flat[slice(*ends)] for ends in itertools.pairwise(borders))
        return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]

    def velocity(_, flat):
        slopes = by_samples(network, dict(zip(edges, arrays(flat), strict=True)), seen)
        return -np.concatenate([slope.ravel() for slope in slopes.values()])

    start = np.concatenate([np.ravel(part) for part in network.parts])
    found = solve_ivp(
        velocity, (0, times[-1]), start, "DOP853", t_eval=times, rtol=rtol, atol=1e-2 * rtol
    )
    return [np.stack(each) for each in zip(*map(arrays, found.y.T), strict=True)]
