"""`sweep`: every piece of a grid, once."""

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

    Each piece is written when it is finished. After an interruption or a kill, the same call
    resumes: finished pieces are not computed again. A piece that fails is recorded with its reason,
    and the others go on.

    **Arguments:**

    - `what`: the name or file of an experiment, of which the claims are kept (`holds`, `predicted`,
      `measured`); or a function of named arguments that returns a dictionary of numbers, text and
      arrays, or an `xarray.Dataset`.
    - `over`: values of each axis, a sequence or as typed: "2,3,4", "0:1:11", "1e-6:1:log:20".
    - `store`: the folder, for example "phases.zarr"; by default one for this grid below ./runs.
    - `seeds`: for an experiment, how many seeds it trains at each point, in one batch; for a
      function, the length of one more axis, `seed`.
    - `parameters`: one value for each parameter that is not swept over.
    - `together`: axes of which a function takes all values at once, as arrays with an entry for
      each point; what it returns has that axis first. So a batch is one compiled program.
    - `processes`: how many processes of this machine compute, one for each core by default, and 0
      for this process itself; with SLURM how many jobs.
    - `scheduler`: the address of a Dask scheduler, a `dask.distributed.Client`, or "slurm", as
      dask-jobqueue is configured. Needs the extra `cluster`.
    - `retry`: compute pieces again that have failed before.
    - `changed`: resume although the code has changed; finished pieces stay as they are.
    - `yes`: allow more than 10,000 pieces.
    - `progress`: called with words and the fraction done, for example `print`. The words say how
      much time is left as soon as pieces are done that did not compile, which the first piece of
      each process does. Without `progress` nothing is printed.

    **Returns:**

    The store, as `xarray.open_zarr` reads it: results over the axes of the grid, NaN where there
    is none, and for each piece `status` ("done", "failed" or "waiting"), `reason` and `seconds`.
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
        width = lambda: max(1, count)  # pieces at a time
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
            # Pieces that fail may fail at once. The first of each process compile, and are longest.
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
            further = "; the same sweep again resumes" * bool(done)
            error.add_note(f"{done + failed} of {grid.pieces} pieces are in '{path}'{further}.")
            raise
    return xr.open_zarr(path, chunks=None)


def _whole(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < least:
        raise ValueError(f"`{name}` must be a whole number of at least {least}, got {value!r}.")
    return int(value)
