"""The host's part of a simulation: feed lanes to the compiled program, and judge their ends.

Trajectories of a batch differ in length, and the compiled program has a fixed number of lanes. Each
core of the processor has a worker of its own (`_worker.py`); all take lanes from one queue. A few
that take very many steps would have a program for many run for them alone: they are laid aside, and
go on in one of their own size when all others have ended.
"""

import concurrent.futures
import contextlib
import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._lanes import accelerated, cores, places
from .._objective import Objective
from ._logbook import Logbook, Note
from ._program import RUNNING, Controls, Lanes, Start, State, Step
from ._worker import Judge, Progress, Shared, Watch, Worker

_CACHE = 3_600  # numbers: a batch with more weights than this falls out of the processor's cache
_BUSY = 3_000_000  # numbers: a batch with fewer weights than this leaves an accelerator idle
# Times as many lanes are at hand as run together, where there are as many, and room for so many
# samples of each.
_TURNS = (1, 0), (4, 8), (16, 64)
_MOST_NUMBERS = 2_000_000  # of samples that a worker keeps
_MOST_ROWS = 512
_MANY_STEPS = 10_000  # of a lane; who has taken as many in a batch is laid aside until others ended
_FEW = 16  # lanes that do not keep an accelerator busy
_STATE = 30  # arrays like the weights, that a step works with


def initial_state(weights: Float[np.ndarray, "weight lane"], start: Start) -> State:
    """Every lane at time zero."""
    loss, velocity, rate, size = start
    zero, none, one = np.zeros(loss.shape, int), np.zeros(loss.shape), np.ones(loss.shape)
    # A hundredth of the time in which usual weights would move by their own size.
    norm, speed = np.sqrt(len(weights)) * np.asarray(size), np.sqrt(rate)
    moves = (norm > 0) & (speed > 0) & np.isfinite(speed)
    first = np.where(moves, 0.01 * norm / np.where(moves, speed, 1.0), 1e-3)
    return State(
        stop=zero,
        status=zero,
        event=zero,
        steps=zero,
        samples=zero + 1,
        time=none,
        loss=loss,
        rate=rate,
        peak=rate,
        step_size=first,
        roughness=none,
        kinks=none,
        slack=one,
        loosest=one,
        path=none,
        sampled=none,
        lowest=loss,
        weights=weights,
        velocity=velocity,
    )


def drive(
    objective: Objective,
    state: State,
    controls: Controls,
    *,
    step: Step,
    goes_on: Judge,
    progress: Progress | None,
    watch: Watch | None = None,
    note: Note | None = None,
    keeps_weights: bool = True,
    before: Logbook | None = None,
) -> Logbook:
    """Run every lane to its end, from where a logbook ends or from the start."""
    everyone = Lanes(np.stack(state[:-2]), *state[-2:])
    weights, total = everyone.weights.shape
    numbers = 3 + weights * keeps_weights
    sizes = _sizes(weights, total, numbers)
    book = Logbook(
        everyone,
        note,
        keeps_weights=keeps_weights,
        keeps_velocity=bool(np.any(controls.momentum)),
        before=before,
    )
    if not controls.at_stops and before is None:
        book.add_states(np.arange(total))
    if accelerated():
        everyone = everyone._replace(weights=jnp.asarray(everyone.weights))
    shared = Shared(
        objective=objective,
        everyone=everyone,
        controls=controls,
        each=controls.each,
        step=step,
        goes_on=goes_on,
        book=book,
        slots=sizes.slots,
        rows=sizes.rows,
        numbers=numbers,
        progress=progress,
        watch=watch,
        queue=iter(range(total)),
        device=jax.config.jax_default_device,  # pyright: ignore[reportAttributeAccessIssue]
    )
    if total > 1 and controls.most_steps > _MANY_STEPS:
        shared.controls = controls._replace(most_steps=np.asarray(_MANY_STEPS))
        shared.aside = []
    _run(shared, sizes, total)
    if shared.aside:
        _go_on(shared, sizes, controls)
    if not controls.at_stops:  # the end of a trajectory is always a sample
        book.add_states(np.flatnonzero(book.last.time > book.last.sampled))
    elif not book.samples.pieces:
        book.add_nothing()
    return book


def _run(shared: Shared, sizes: "_Sizes", total: int) -> None:
    """All lanes of the queue."""
    share = min(sizes.pool, math.ceil(total / sizes.workers))
    crew = [Worker(shared, sizes.pool, share) for _ in range(sizes.workers)]
    if len(crew) == 1:
        crew[0].work()
        return
    crew[0].compile()  # or every worker would, the same program
    with concurrent.futures.ThreadPoolExecutor(len(crew)) as pool:
        try:
            for finished in [pool.submit(worker.work) for worker in crew]:
                finished.result()
        except BaseException:
            shared.interrupted.set()  # where the user broke off
            raise


def _go_on(shared: Shared, sizes: "_Sizes", controls: Controls) -> None:
    """Take lanes that were laid aside to their ends, by themselves and on a processor if few."""
    assert shared.aside is not None
    everyone = Lanes(*(np.array(part) for part in shared.everyone))
    for lanes, laid in shared.aside:
        for part, theirs in zip(everyone, laid, strict=True):
            part[..., lanes] = theirs
    lanes = np.concatenate([lanes for lanes, _ in shared.aside])
    everyone.state.status[lanes] = RUNNING
    here = shared.device
    if accelerated() and len(lanes) <= _FEW:
        with contextlib.suppress(RuntimeError):  # where JAX was told to forget the processor
            here = jax.devices("cpu")[0]
    with jax.default_device(here):
        if not accelerated():
            sizes = _sizes(len(everyone.weights), len(lanes), shared.numbers)
        left = dataclasses.replace(
            shared,
            everyone=everyone,
            controls=controls,
            slots=sizes.slots,
            rows=sizes.rows,
            queue=iter(lanes.tolist()),
            device=here,
            aside=None,
        )
        _run(left, sizes, len(lanes))


class _Sizes(NamedTuple):
    workers: int
    pool: int  # lanes that one worker has in hand
    slots: int  # of these run together
    rows: int  # samples of each lane between two looks, at most


def _sizes(weights: int, total: int, numbers: int) -> _Sizes:
    """How many lanes run together, and for how many samples of so many numbers there is room.

    A processor has a worker for each core, with as many lanes at a time as its cache holds; an
    accelerator one worker, with as many lanes as keep it busy. What programs depend on, all but
    the number of workers, is the same from one power of two lanes to the next.
    """
    most = places(total)
    if accelerated():
        each = _STATE * weights + _MOST_ROWS * numbers
        pool = min(most, 2 ** int(math.log2(_accelerator_numbers() / each)))
        slots = min(pool, max(1, 2 ** round(math.log2(_BUSY / weights))))
        return _Sizes(1, pool, slots, _MOST_ROWS)
    slots = min(most, 64, max(8, 2 ** round(math.log2(_CACHE / weights))))
    while slots > 1 and 8 * slots * weights > _MOST_NUMBERS:
        slots //= 2
    workers = min(cores(), math.ceil(total / slots))
    share = math.ceil(most / min(cores(), math.ceil(most / slots)))
    fit = [turns for turns, rows in _TURNS if turns * rows * slots * numbers <= _MOST_NUMBERS]
    pool = slots * next((turns for turns in fit if share <= turns * slots), fit[-1])
    rows = min(max(_MOST_NUMBERS // (pool * numbers), 8), _MOST_ROWS // 2)
    return _Sizes(workers, pool, slots, rows)


def _accelerator_numbers() -> int:
    """How many an accelerator has room for: half of its memory."""
    device = jax.config.jax_default_device or jax.devices()[0]  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(device, str):
        device = jax.devices(device)[0]
    return device.memory_stats()["bytes_limit"] // 16
