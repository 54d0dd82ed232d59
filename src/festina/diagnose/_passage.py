"""Compute when curves pass a level, between samples."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from .._checks import real_array
from .._types import ArrayLike


def passage_time(
    times: ArrayLike, loss: ArrayLike, level: ArrayLike, *, slope: ArrayLike | None = None
) -> Any:
    """Return when a loss first falls below `level`, interpolated between samples.

    The interpolation is a monotone cubic.

    **Arguments:**

    - `times`: times of the samples, `(save,)` or with the shape of `loss`.
    - `loss`: one curve, or a batch of curves with samples along the last axis.
    - `level`: one level, or an array that broadcasts with the batch.
    - `slope`: dL/dt at the samples, in the units of `times` (`run.slope` of a trajectory). Slopes
      raise the order of the interpolation by one, which helps if samples are few.

    **Returns:** a time for each curve and level; NaN if the loss starts below the level or never
    reaches it.

    **Example:**

    >>> from festina.diagnose import passage_time
    >>> passage_time([0, 1, 2], [1, 0.5, 0], [0.75, 0.25])
    array([0.5, 1.5])
    """
    t, losses = real_array("times", times), real_array("loss", loss)
    levels = real_array("level", level)
    if not levels.size:
        raise ValueError(f"`level` must hold at least one number, got shape {levels.shape}.")
    slopes = None if slope is None else real_array("slope", slope)
    shared = losses.shape[-1:]
    for name, curve in (("times", t), ("slope", t if slopes is None else slopes)):
        if losses.ndim == 0 or curve.shape not in (losses.shape, shared):
            raise ValueError(
                f"`{name}` must have the shape of `loss` or one number for each of its samples, "
                f"got shapes {curve.shape} and {losses.shape}."
            )
    try:
        batch = np.broadcast_shapes(losses.shape[:-1], levels.shape)
    except ValueError:
        raise ValueError(
            "`level` must be one number, or of a shape that broadcasts with the batch "
            f"{losses.shape[:-1]} of curves, got {levels.shape}."
        ) from None
    known = np.isfinite(t) | np.isnan(losses)  # a network without samples has NaN times and losses
    if not known.all() or (np.diff(t) < 0).any():
        raise ValueError(
            "`times` must be finite and must not fall from sample to sample. Sort the samples by "
            "time, and drop samples without a time."
        )
    below = losses <= levels[..., None]
    after = np.argmax(below, axis=-1).ravel()
    curve = np.flatnonzero(below.any(axis=-1).ravel() & (after > 0))
    rows = lambda part: np.broadcast_to(part, below.shape).reshape(len(after), -1)
    found = np.full(len(after), np.nan)
    found[curve] = _crossing(
        *(rows(t), rows(losses), None if slopes is None else rows(slopes)),
        *(curve, after[curve] - 1, np.broadcast_to(levels, batch).ravel()[curve]),
    )
    return found.reshape(batch)[()]


class Passages(NamedTuple):
    """Request for the times at which one loss passes levels.

    - `t`, `loss`, `slope`: times, losses and slopes of the samples.
    - `level`: levels to pass.
    - `first`, `last`: for each level, the samples between which the loss passes it.
    - `latest`: if True, return the last passage instead of the first.
    """

    t: Float[np.ndarray, " save"]
    loss: Float[np.ndarray, " save"]
    slope: Float[np.ndarray, " save"] | None
    level: Float[np.ndarray, " passage"]
    first: Int[np.ndarray, " passage"]
    last: Int[np.ndarray, " passage"]
    latest: bool = False

    def before(self) -> Int[np.ndarray, " passage"]:
        """Return the last sample before each passage."""
        found = []
        for one, i, j in zip(self.level, self.first, self.last, strict=True):
            above = self.loss[i : j + 1] > one
            above[0], above[-1] = True, False  # needed if levels differ only by rounding errors
            last = int(np.flatnonzero(above)[-1]) if self.latest else int(np.argmin(above)) - 1
            found.append(i + last)
        return np.array(found, int)


def passages(asked: Sequence[Passages]) -> list[Float[np.ndarray, " passage"]]:
    """Return the times of the passages of many curves, computed together."""
    # Without slopes, parabolas through neighbours need whole curves, which differ in length.
    if any(ask.slope is None for ask in asked):
        return [_alone(ask) for ask in asked]
    before = [ask.before() for ask in asked]
    pairs = [i[:, None] + np.arange(2) for i in before]
    ends = lambda n: np.concatenate([ask[n][i] for ask, i in zip(asked, pairs, strict=True)])
    every = np.arange(sum(map(len, before)))
    level = np.concatenate([ask.level for ask in asked])
    found = _crossing(ends(0), ends(1), ends(2), every, 0 * every, level)
    return np.split(found, np.cumsum([len(i) for i in before])[:-1])


def _alone(ask: Passages) -> Float[np.ndarray, " passage"]:
    slope = None if ask.slope is None else ask.slope[None]
    curve = np.zeros(len(ask.level), int)
    return _crossing(ask.t[None], ask.loss[None], slope, curve, ask.before(), ask.level)


def _crossing(
    t: Float[np.ndarray, "curve save"],
    loss: Float[np.ndarray, "curve save"],
    slope: Float[np.ndarray, "curve save"] | None,
    curve: Int[np.ndarray, " passage"],
    i: Int[np.ndarray, " passage"],
    level: Float[np.ndarray, " passage"],
) -> Float[np.ndarray, " passage"]:
    """Return the times at which curves pass levels between samples i and i + 1.

    Between samples a loss is the cubic through values and slopes. Slopes are limited to three times
    the secant, where the cubic is monotone (de Boor & Swartz, 1977). The passage is then unique,
    and the order of convergence does not change.
    """
    start, end = loss[curve, i], loss[curve, i + 1]
    h = t[curve, i + 1] - t[curve, i]
    with np.errstate(all="ignore"):  # neighbouring times may be adjacent floats
        slopes = [np.nan_to_num(h * _slope_at(t, loss, slope, curve, k)) for k in (i, i + 1)]
    d0, d1 = np.clip(slopes, 3.0 * (end - start), 0.0)
    return t[curve, i] + h * _root(start - level, end - level, d0, d1)


def _root(
    start: Float[np.ndarray, " passage"],
    end: Float[np.ndarray, " passage"],
    d0: Float[np.ndarray, " passage"],
    d1: Float[np.ndarray, " passage"],
) -> Float[np.ndarray, " passage"]:
    """Return the zeros on [0, 1] of falling cubics with the given end values and slopes.

    Newton's method is used, with bisection as the fallback.
    """
    bend, twist = 3 * (end - start) - 2 * d0 - d1, 2 * (start - end) + d0 + d1
    s, low, high = 0.5 + 0 * start, 0 * start, 1 + 0 * start
    for _ in range(60):
        value = start + s * (d0 + s * (bend + s * twist))
        low, high = np.where(value > 0, s, low), np.where(value > 0, high, s)
        with np.errstate(all="ignore"):
            newton = s - value / (d0 + s * (2 * bend + s * 3 * twist))
        last, s = s, np.where((low <= newton) & (newton <= high), newton, 0.5 * (low + high))
        if np.all(np.abs(s - last) <= 1e-13):  # relative to the time between two samples
            break
    return s


def _slope_at(
    t: Float[np.ndarray, "curve save"],
    loss: Float[np.ndarray, "curve save"],
    slope: Float[np.ndarray, "curve save"] | None,
    curve: Int[np.ndarray, " passage"],
    k: Int[np.ndarray, " passage"],
) -> Float[np.ndarray, " passage"]:
    """Return dL/dt at samples k: the given slope, or that of a parabola through three samples."""
    if slope is not None:
        return slope[curve, k]
    if t.shape[1] < 3:
        return ((loss[:, -1] - loss[:, 0]) / (t[:, -1] - t[:, 0]))[curve]
    near = np.clip(k - 1, 0, t.shape[1] - 3)[:, None] + np.arange(3)
    at, there = t[curve[:, None], near], loss[curve[:, None], near]
    left, right = (np.diff(there) / np.diff(at)).T
    bend = (right - left) / (at[:, 2] - at[:, 0])
    return left + bend * (2 * t[curve, k] - at[:, 0] - at[:, 1])
