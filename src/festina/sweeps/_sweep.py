"""`sweep`: compute each piece of a grid once."""

import contextlib
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..experiments import Progress
from ._grid import duration
from ._local import here, side_by_side
from ._plan import plan
from ._store import open_store
from ._work import packed

if TYPE_CHECKING:
    import xarray as xr


def sweep(
    what: str | Callable[..., Any],
    over: Mapping[str, Any],
    store: str | os.PathLike[str] | None = None,
    *,
    seeds: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    together: str | Sequence[str] = (),
    processes: int | None = None,
    scheduler: Any = None,
    retry: bool = False,
    changed: bool = False,
    yes: bool = False,
    progress: Progress | None = None,
) -> "xr.Dataset":
    """Compute an experiment, or a function, at every point of a grid, into one Zarr store.

    Each piece of the grid is written when it is finished. After an interruption or a kill, the same
    call resumes: finished pieces are not computed again. If a piece fails, its reason is recorded
    and the other pieces are still computed.

    **Arguments:**

    - `what`: an experiment or a function. For the name or file of an experiment, its claims are
      stored (`holds`, `predicted`, `measured`). A function takes named arguments and returns a
      dictionary of numbers, text and arrays, or an `xarray.Dataset`.
    - `over`: values of each axis, as a sequence or as text: "2,3,4", "0:1:11", "1e-6:1:log:20".
    - `store`: folder of the store, for example "phases.zarr". By default the folder is below ./runs
      and its name depends on the grid.
    - `seeds`: for an experiment, number of seeds trained at each point, in one batch; for a
      function, length of an additional axis `seed`.
    - `parameters`: values of parameters that are the same at all points.
    - `together`: axes whose values the function receives all at once, as arrays with an entry for
      each point. The axis of points comes first in the results of the function. One compiled
      program can then compute all points of a piece.
    - `processes`: number of processes on this machine, by default one for each core; 0 computes in
      this process. With SLURM, number of jobs.
    - `scheduler`: address of a Dask scheduler, a `dask.distributed.Client`, or "slurm" for the
      configuration of dask-jobqueue. Needs the extra `cluster`.
    - `retry`: compute failed pieces again.
    - `changed`: resume although the code has changed; finished pieces are kept.
    - `yes`: allow more than 10,000 pieces.
    - `progress`: function of a message and the fraction done, for example `print`. The message
      estimates the remaining time from finished pieces, without the first piece of each process,
      which compiles. Without `progress` nothing is printed.

    **Returns:**

    The store as `xarray.open_zarr` reads it: results over the axes of the grid, with NaN for
    missing results. Each piece has a `status` ("done", "failed" or "waiting"), a `reason` and
    `seconds`.

    **Example:**

    >>> import tempfile
    >>> import festina
    >>> def power(x, n):
    ...     return {"power": float(x**n)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     over, store = {"x": "1:3:3", "n": [1, 2]}, f"{folder}/powers.zarr"
    ...     data = festina.sweep(power, over, store, processes=0).load()
    >>> data["power"].sel(x=3).values
    array([3., 9.])
    """
    import xarray as xr

    from .._lanes import cores

    count = cores() if processes is None else _whole("processes", processes, 0)
    seeds = None if seeds is None else _whole("seeds", seeds, 1)
    planned = plan(what, over, parameters or {}, together, seeds, processes=count, yes=yes)
    path = Path(os.path.abspath(Path(planned.store if store is None else store).expanduser()))
    progress = progress or (lambda words, fraction: None)
    grid = planned.grid
    with contextlib.ExitStack() as stack:
        width = lambda: max(1, count)  # pieces computed at the same time
        if scheduler is not None:
            from ._dask import connected

            engine, width = connected(scheduler, stack, jobs=count, progress=progress)
        else:
            engine = functools.partial(side_by_side, processes=count) if count else here
        work = planned.function if engine is here else packed(planned.function)
        opened = open_store(
            path,
            grid,
            planned.made_by,
            planned.code,
            changed=changed,
            of_claims=isinstance(what, str),
        )
        written = stack.enter_context(opened)
        if retry:
            written.forget_failures()
        status = written.known("status")
        done, failed = (int((status == word).sum()) for word in ("done", "failed"))
        spent = written.known("seconds")[status == "done"].tolist()
        todo = [index for index in grid if status[index] == "waiting"]

        def tell() -> None:
            words = f"{done + failed} of {grid.pieces} piece{'s' * (grid.pieces != 1)}"
            words += f", {failed} failed" * bool(failed)
            # Finished pieces count, without the longest: the first piece of a process compiles.
            steady = sorted(spent)[: -width()]
            if steady and (waiting := grid.pieces - done - failed):
                rounds = -(-waiting // width())
                words += f", {duration(rounds * sum(steady) / len(steady))} left"
            progress(words, (done + failed) / grid.pieces)

        tell()
        finished = stack.enter_context(contextlib.closing(engine(work, grid, todo)))
        try:
            for index, outcome in finished:
                if written.put(index, outcome):
                    done += 1
                    spent.append(outcome.seconds)
                else:
                    failed += 1
                tell()
        except BaseException as error:
            further = "; run the same sweep again to resume" * bool(done)
            error.add_note(f"{done + failed} of {grid.pieces} pieces are in '{path}'{further}.")
            raise
    return xr.open_zarr(path, chunks=None)


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise ValueError(f"`{name}` must be a whole number of at least {least}, got {value!r}.")
    return int(value)
