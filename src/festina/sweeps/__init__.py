"""A grid of parameters, computed piece by piece into one Zarr store.

A sweep is a plan (`_plan.py`): a grid (`_grid.py`), and a function that is computed at each of its
pieces (`_work.py`), in this process, in other processes of this machine (`_local.py`), or by Dask
(`_dask.py`). Workers send results back, and one process writes (`_store.py`): the store can be read
after any process was killed at any moment, and a piece that it calls done is complete.
"""

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from ._sweep import sweep as sweep

__all__ = ["sweep"]  # pyright: ignore[reportUnsupportedDunderAll]

# A worker imports this package, and needs nothing of what writes.
__getattr__, __dir__ = attach(__name__, {"sweep": "._sweep"})
