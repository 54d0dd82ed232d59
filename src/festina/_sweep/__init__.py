"""A grid of parameters, computed piece by piece into one Zarr store.

What is asked for is a plan (`_plan.py`): a grid (`_grid.py`), and a function that is computed at
each of its pieces (`_work.py`), here, in processes of this machine (`_local.py`), or by Dask
(`_dask.py`). Whoever computes sends back what came out, and one process writes (`_store.py`):
whatever is killed at whatever moment, the store can be read, and a piece that it calls done is
whole. Nothing is imported here: who computes needs none of what writes.
"""
