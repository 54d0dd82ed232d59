"""Compute pieces on a cluster, by Dask."""

import contextlib
import functools
import shutil
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._optional import required
from .._run._code import code, versions
from ..experiments import Progress
from ..experiments._invalid import nearest
from ._grid import Grid, Index
from ._local import Engine, Finished, Work
from ._work import Outcome, computed

_AHEAD = 2  # pieces for each thread of a worker: a running piece and a waiting piece
_PATIENCE = 5  # seconds to wait for an answer from an address
_ALIKE = "Install the same versions on all machines."


def connected(
    scheduler: Any, stack: contextlib.ExitStack, *, jobs: int, progress: Progress
) -> tuple[Engine, Callable[[], int]]:
    """Return an engine that computes pieces by Dask, and a function for its number of threads.

    `scheduler` is an address, a client, or "slurm".
    """
    client = _client(scheduler, jobs, stack)
    if not client.scheduler_info()["workers"]:
        progress("waiting for a worker", 0.0)
        client.wait_for_workers(1)
    for address, there in client.run(_versions, on_error="return").items():
        if words := _difference(there, _versions()):
            raise ValueError(f"The worker at {address} {words}. {_ALIKE}")
    return functools.partial(_finished, client), functools.partial(_threads, client)


def _client(scheduler: Any, jobs: int, stack: contextlib.ExitStack) -> Any:
    dask = lambda name: required(name, "Dask", "'festina[cluster]'", what="A scheduler")
    client = dask("dask.distributed").Client
    if isinstance(scheduler, client):
        return scheduler
    if scheduler == "slurm":
        cluster = dask("dask_jobqueue.slurm").SLURMCluster
        if shutil.which("sbatch") is None:
            raise ValueError(
                "There is no SLURM on this machine: `sbatch` is not found. Start the sweep on a "
                "machine that submits SLURM jobs."
            )
        scheduler = stack.enter_context(cluster())
        scheduler.scale(jobs=max(1, jobs))
    try:
        if isinstance(scheduler, str):  # Dask would retry for long and print messages of its own
            _knock(scheduler)
        return stack.enter_context(client(scheduler, timeout=_PATIENCE, set_as_default=False))
    except (OSError, ValueError, OverflowError, TypeError) as error:
        slurm = nearest(scheduler, "'slurm'") if isinstance(scheduler, str) else ""
        raise ValueError(
            f"No scheduler answers at '{scheduler}'.{slurm} Start one with `dask scheduler`, which "
            "prints its address (tcp://10.0.0.1:8786), and workers with `dask worker ADDRESS`."
        ) from error


def _knock(address: str) -> None:
    """Raise `OSError` unless a scheduler answers by sending the number of its frames at once.

    A web server sends nothing before a request. Dask would read the first bytes of the server's
    answer as a length, and try to allocate as much memory.
    """
    protocol, _, place = address.rpartition("://")
    host, _, port = place.rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), _PATIENCE) as there:
        if protocol in ("", "tcp") and not 0 < int.from_bytes(there.recv(8), "little") < 1000:
            raise OSError("no scheduler's greeting")


def _finished(client: Any, work: Work, grid: Grid, todo: Sequence[Index]) -> Finished:
    from dask.distributed import CancelledError, as_completed

    waiting, alike = iter(todo), _versions()
    pending = as_completed(loop=client.loop)
    places: dict[Any, Index] = {}

    def submit() -> None:
        limit = _AHEAD * _threads(client)
        while len(places) < limit and (i := next(waiting, None)) is not None:
            # With `pure=True` Dask would hash the arguments to reuse results.
            future = client.submit(_computed, alike, work, grid.point(i), grid.count, pure=False)
            places[future] = i
            pending.add(future)

    try:
        submit()
        while places:
            future = next(pending)
            index = places.pop(future)
            if (error := future.exception()) is not None:
                outcome = Outcome(reason=" ".join(f"{type(error).__name__}: {error}".split()))
            elif isinstance(outcome := future.result(), str):
                raise ValueError(f"A worker {outcome}. {_ALIKE}")
            submit()
            yield index, outcome
    except (CancelledError, OSError) as error:
        raise ValueError(
            "The scheduler is gone, and the pieces that were being computed are lost. Run the "
            "same sweep again to resume."
        ) from error
    finally:
        with contextlib.suppress(Exception):  # the scheduler may be gone
            client.cancel(list(places))


def _threads(client: Any) -> int:
    return max(1, sum(client.nthreads().values()))


def _computed(
    alike: Mapping[str, str], work: Work, point: Mapping[str, Any], count: int
) -> Outcome | str:
    """Compute a piece, or return in words which versions of this worker differ."""
    return _difference(_versions(), alike) or computed(work, point, count)


def _versions() -> dict[str, str]:
    """Return the versions of the software that results depend on."""
    from festina import __version__

    own = {"festina": f"{__version__} (code {code('')})"}
    python = {"python": "{}.{}".format(*sys.version_info)}
    return {name: versions()[name] for name in ("jax", "numpy", "xarray")} | python | own


def _difference(there: Mapping[str, str] | BaseException, here: Mapping[str, str]) -> str:
    """Return in words which versions of a worker differ; the text is empty if none differs."""
    if isinstance(there, BaseException):
        return f"cannot run festina: {type(there).__name__}: {there}"
    other = [f"{k} {there.get(k)} and not {v}" for k, v in here.items() if there.get(k) != v]
    return f"has {', '.join(other)}" if other else ""
