"""Functions swept in the tests, in a module that other processes can import."""

import os
import time

import numpy as np
import xarray as xr


def logged(a, b):
    """Return two results of a cheap piece, and log its arguments and process."""
    with open(os.environ["SWEEP_LOG"], "a") as log:
        log.write(f"{a} {b} {os.getpid()}\n")
    time.sleep(0.02)
    return {"product": a * b, "curve": np.full(3, a + b)}


def uneven(a, b):
    """Return arrays of different lengths and text; fail at a = 3."""
    if a == 3:
        raise ValueError("three\nis bad")
    return {"sum": a + b, "drops": b * np.arange(a), "word": "even" if a % 2 == 0 else "odd"}


def at_once(scale, depth, seed):
    assert isinstance(depth, int)
    return {"x": scale * depth + seed, "pair": np.stack([scale, -scale], axis=1)}


def labelled(a):
    """Return labelled rows; the number of rows depends on `a`."""
    names = ["loss", "rank", "width"][: a + 1]
    table = xr.Dataset({"value": (("row", "time"), np.outer(np.arange(a + 1), [1.0, 2.0]))})
    return table.assign_coords(row=names[::-1], time=[0.0, 0.5])


def deadly(a):
    if a == 1:
        os.abort()
    return {"y": a}
