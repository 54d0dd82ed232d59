"""Compute pieces in processes of this machine, or in this process."""

from collections.abc import Callable, Generator, Sequence
from typing import Any

from .. import _processes
from .._processes import Died, Server
from ._grid import Grid, Index
from ._work import Outcome, computed

_DEATHS = 3
"""How many processes may die while computing a piece before the piece counts as failed."""

Work = bytes | Callable[..., Any]
Finished = Generator[tuple[Index, Outcome]]
Engine = Callable[[Work, Grid, Sequence[Index]], Finished]
"""A function that computes pieces of a grid and yields each piece when it is finished."""


def here(work: Work, grid: Grid, todo: Sequence[Index]) -> Finished:
    """Compute pieces one after another, in this process."""
    for index in todo:
        yield index, computed(work, grid.point(index), grid.count)


def side_by_side(work: Work, grid: Grid, todo: Sequence[Index], *, processes: int) -> Finished:
    """Compute pieces in this number of processes; a new process replaces one that dies."""

    def piece(server: Server, index: Index) -> Outcome:
        ending = ""
        for _ in range(_DEATHS):
            try:
                return server.call(computed, work, grid.point(index), grid.count)
            except Died as death:
                ending = str(death)
            if server.stopped:
                break
        return Outcome(reason=f"{_DEATHS} processes died while computing it, the last {ending}")

    return _processes.side_by_side(piece, todo, processes)
