"""Compute a function or an experiment on a grid of parameters, into one Zarr store.

A sweep is a plan (`_plan.py`): a grid of parameters (`_grid.py`), and a function that is computed
on each piece of the grid (`_work.py`). Pieces are computed in this process, in other processes of
this machine (`_local.py`), or by Dask (`_dask.py`). Workers send results back, and one process
writes the store (`_store.py`). After a kill of any process, the store is still readable, and a
piece with the status "done" is complete.
"""

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from ._sweep import sweep as sweep

__all__ = ["sweep"]  # pyright: ignore[reportUnsupportedDunderAll]

# Workers import this package without the modules that write the store.
__getattr__, __dir__ = attach(__name__, {"sweep": "._sweep"})
