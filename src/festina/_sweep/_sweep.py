"""`sweep`: every piece of a grid, once."""

import contextlib
import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..papers import Progress
from ._grid import duration
from ._local import here, side_by_side
from ._plan import Plan, differences, plan
from ._store import add_code, open_store, read_plan

if TYPE_CHECKING:
    import xarray as xr


def sweep(
    what: str | Callable[..., Any],
    over: Mapping[str, Any],
    store: str | os.PathLike[str],
    *,
    seeds: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    together: Sequence[str] = (),
    processes: int | None = None,
    scheduler: Any = None,
    retry: bool = False,
    changed: bool = False,
    yes: bool = False,
    progress: Progress | None = None,
) -> "xr.Dataset":
    """Compute an experiment, or a function, at every point of a grid, into one Zarr store.

    Pieces are written as they finish. Called again with the same arguments after it was stopped in
    whatever way, a sweep goes on: what is done is not computed again, and nothing done is lost. A
    piece that fails is recorded with its reason, and the others go on.

    **Arguments:**

    - `what`: the name or file of an experiment, of which the claims are kept (`holds`, `predicted`,
      `measured`); or a function of named arguments that returns a dictionary of numbers, text and
      arrays, or an `xarray.Dataset`.
    - `over`: values of each axis, a sequence or as typed: "2,3,4", "0:1:11", "1e-6:1:log:20".
    - `store`: the folder, for example "phases.zarr".
    - `seeds`: of an experiment how many it trains at each point, all in one batch; of a function
      the length of one more axis, `seed`.
    - `parameters`: one value for each parameter that is not swept over.
    - `together`: axes of which a function takes all values at once, as arrays with an entry for
      each point; what it returns has that axis first. So a batch is one compiled program.
    - `processes`: how many processes of this machine compute, one for each core by default, and 0
      for this process itself; with SLURM how many jobs.
    - `scheduler`: the address of a Dask scheduler, a `dask.distributed.Client`, or "slurm", as
      dask-jobqueue is configured. Needs the extra `cluster`.
    - `retry`: also compute again what has failed before.
    - `changed`: go on although the code was changed since; what is done stays as it is.
    - `yes`: more than 10,000 pieces are meant.
    - `progress`: called with words, with the time that is left, and the fraction done.

    **Returns:**

    The store, as `xarray.open_zarr` reads it: results over the axes of the grid, NaN where there
    is none, and for each piece `status` ("done", "failed" or "waiting"), `reason` and `seconds`.
    """
    count = cores() if processes is None else processes
    planned = plan(
        what,
        over,
        seeds=seeds,
        parameters=parameters,
        together=together,
        processes=count,
        yes=yes,
    )
    carry_out(
        planned,
        Path(store),
        processes=count,
        scheduler=scheduler,
        retry=retry,
        changed=changed,
        progress=progress,
    )
    import xarray as xr

    return xr.open_zarr(store, chunks=None)


def carry_out(
    planned: Plan,
    store: Path,
    *,
    processes: int,
    scheduler: Any = None,
    retry: bool = False,
    changed: bool = False,
    progress: Progress | None = None,
) -> None:
    """Compute what of a sweep is not in its store yet."""
    say = progress or (lambda words, fraction: None)
    if isinstance(processes, bool) or not isinstance(processes, int) or processes < 0:
        raise ValueError(f"`processes` must be a whole number of at least 0, got {processes!r}.")
    _check_same(planned, store, changed=changed)
    grid, function, count = planned.grid, planned.function, planned.count
    with contextlib.ExitStack() as stack:
        if scheduler is not None:
            from ._dask import connected

            engine = stack.enter_context(connected(scheduler, jobs=processes, say=say))
        else:
            engine = functools.partial(side_by_side, processes=processes) if processes else here
        written = stack.enter_context(open_store(store, grid, planned.made_by, planned.code))
        status = written.status()
        todo = [i for i in grid if status[i] == "waiting" or (retry and status[i] == "failed")]
        total, failed = grid.pieces, int((status == "failed").sum()) * (not retry)
        done, start = total - len(todo), time.monotonic()
        say(_words(done, total, failed, None), done / total)
        finished = stack.enter_context(contextlib.closing(engine(function, grid, todo, count)))
        try:
            for number, (index, outcome) in enumerate(finished, 1):
                failed += not written.put(index, outcome)
                left = (len(todo) - number) * (time.monotonic() - start) / number
                say(_words(done + number, total, failed, left), (done + number) / total)
        except BaseException as error:
            kept = int((written.status() != "waiting").sum())
            error.add_note(
                f"{kept} of {total} pieces are in '{store}'; the same again goes on from there."
            )
            raise


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _words(done: int, total: int, failed: int, left: float | None) -> str:
    words = [f"{done} of {total} pieces", f"{failed} failed" * bool(failed)]
    words.append("" if left is None else f"{duration(left)} left")
    return ", ".join(filter(None, words))


def _check_same(planned: Plan, store: Path, *, changed: bool) -> None:
    """Refuse the store of another sweep, and one that other code has begun, by what differs."""
    if (there := read_plan(store)) is None:
        return
    made_by, codes = there
    if found := differences(made_by, planned.made_by):
        raise ValueError(
            f"'{store}' holds another sweep: {'; '.join(found)}. Choose another store."
        )
    if planned.code != codes[-1]:
        if not changed:
            raise ValueError(
                f"The code was changed since '{store}' was begun. Choose another store, or go on "
                "with `changed`: what is done stays as it is."
            )
        add_code(store, [*codes, planned.code])
