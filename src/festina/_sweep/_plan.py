"""What is to be swept: refused here, in words, if it cannot be."""

import functools
import hashlib
import inspect
import json
import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._code import code as code_of
from ..papers import load, unknown
from ._grid import Grid, axis, duration, labels, length
from ._work import claims_at

MANY = 10_000
"""Pieces from which on a sweep is not begun without a yes."""

_TOO_MANY = 1_000_000
_POINTS = 10_000_000
_TAKEN = ("status", "reason", "seconds", "what", "axes", "together")


@dataclass(frozen=True)
class Plan:
    """A function at every piece of a grid; what tells this sweep from others; and its code."""

    function: Callable[..., Any]
    grid: Grid
    made_by: Mapping[str, Any]
    code: str

    @property
    def store(self) -> str:
        """Where it goes unless somebody says: the same grid to the same place."""
        text = json.dumps(self.made_by, sort_keys=True)
        number = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"runs/{self.made_by['what']}/sweep-{number}.zarr"


def plan(
    what: str | Callable[..., Any],
    over: Mapping[str, Any],
    *,
    seeds: int | None,
    parameters: Mapping[str, Any],
    together: Sequence[str],
    processes: int,
    yes: bool,
) -> Plan:
    """Check what `sweep` is asked for, and lay it out."""
    over, fixed, together = dict(over), dict(parameters), tuple(together)
    if isinstance(what, str):
        experiment = load(what)
        if together:
            raise ValueError("`together` is for functions: an experiment is run point by point.")
        fixed |= {} if seeds is None else {"seeds": seeds}
        _check_names(over, fixed, together, tuple(experiment.parameters.model_fields))
        seconds = float(experiment.entry.seconds)
        _check_size(over, together, processes, seconds, yes=yes)
        axes, fixed = _validated(experiment.parameters, over, fixed)
        function = functools.partial(claims_at, experiment.entry.typed, fixed)
        title, code = experiment.name, code_of(experiment.entry.file)
    else:
        if not callable(what):
            raise TypeError(f"A sweep is of an experiment's name or of a function, got {what!r}.")
        if seeds is not None and "seed" in over:
            raise ValueError(
                "`seeds` makes an axis `seed`, and there is one: leave out one of them."
            )
        over |= {} if seeds is None else {"seed": range(seeds)}
        _check_names(over, fixed, together, _arguments(what, {*over, *fixed}))
        _check_size(over, together, processes, 0.0, yes=yes)
        axes = {name: axis(name, given) for name, given in over.items()}
        function = functools.partial(what, **fixed)
        title, code = getattr(what, "__name__", "function"), _source_of(what)
    values = {name: labels(values).tolist() for name, values in axes.items()}
    for name, several in values.items():
        if len(set(several)) < len(several):
            raise ValueError(f"`{name}` has a value twice: {', '.join(map(str, several[:10]))}.")
    made_by: dict[str, Any] = {"what": title, "axes": list(axes), "together": list(together)}
    made_by |= values | {name: _written(value) for name, value in fixed.items()}
    return Plan(function, Grid(axes, together), made_by, code)


def _arguments(function: Callable[..., Any], given: set[str]) -> tuple[str, ...]:
    """Names that a function takes, none if any will do; refused where one is missing."""
    taken = inspect.signature(function).parameters.values()
    named = [each for each in taken if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    names = tuple(each.name for each in named)
    missing = [e.name for e in named if e.default is e.empty and e.name not in given]
    if missing and given and given <= {*names}:
        raise ValueError(
            f"The function also needs {', '.join(f'`{name}`' for name in missing)}: give it values "
            "in `over`, or one in `parameters`."
        )
    return () if any(each.kind is each.VAR_KEYWORD for each in taken) else names


def _check_names(
    over: Mapping[str, Any],
    fixed: Mapping[str, Any],
    together: tuple[str, ...],
    known: tuple[str, ...],
) -> None:
    every = f" There are: {', '.join(known)}." * bool(known)
    if not over:
        raise ValueError(f"Over what? A sweep needs a parameter of several values.{every}")
    for name in (*over, *fixed):
        if known and name not in known:
            raise ValueError(f"Unknown parameter '{name}'.{every}")
        if name in _TAKEN:
            raise ValueError(f"`{name}` is a word of the store's own: rename the parameter.")
    if both := [name for name in over if name in fixed]:
        raise ValueError(f"`{both[0]}` is swept over and given one value: leave out one of them.")
    if odd := [name for name in together if name not in over]:
        raise ValueError(f"`together`: {unknown('axis', odd[0], tuple(over))}")


def _check_size(
    over: Mapping[str, Any],
    together: tuple[str, ...],
    processes: int,
    seconds: float,
    *,
    yes: bool,
) -> None:
    """Refuse a grid that nobody would wait for, before any of it is made."""
    sizes = {name: length(name, given) for name, given in over.items()}
    points = math.prod(sizes.values())
    pieces = math.prod(size for name, size in sizes.items() if name not in together)
    too_many = pieces > _TOO_MANY or points > _POINTS
    if not too_many and (yes or pieces <= MANY):
        return
    each, computers = seconds or 1.0, max(1, processes)
    way_out = (
        f"One store takes up to {_TOO_MANY:,} pieces and {_POINTS:,} points: take fewer values, or "
        "axes `together` in a function of arrays."
        if too_many
        else "Take fewer values, or say `yes` (`--yes`) if that is meant."
    )
    raise ValueError(
        f"The grid has {points:,} points ({' × '.join(f'{n} {k:,}' for n, k in sizes.items())}) in "
        f"{pieces:,} pieces. At {each:g} s each, {'as usual' if seconds else 'say'}, these take "
        f"{duration(pieces * each / computers)} on {computers} process{'es' * (computers > 1)}. "
        f"{way_out}"
    )


def _validated(
    kind: Any, over: Mapping[str, Any], fixed: Mapping[str, Any]
) -> tuple[dict[str, tuple[Any, ...]], dict[str, Any]]:
    """Values as the experiment reads them; pydantic refuses what is out of bounds."""
    grid = Grid({name: axis(name, given) for name, given in over.items()})
    read = {name: list(values) for name, values in grid.axes.items()}
    parameters = None
    for index in grid:
        parameters = kind(**{**fixed, **grid.point(index)})
        for name, k in zip(grid.axes, index, strict=True):
            read[name][k] = getattr(parameters, name)
    kept = {name: getattr(parameters, name) for name in fixed}
    return {name: tuple(values) for name, values in read.items()}, kept


def _source_of(function: Callable[..., Any]) -> str:
    """A checksum of a function's own text, and of what `functools.partial` gives it."""
    text = ""
    if isinstance(function, functools.partial):
        text, function = repr(_written([function.args, function.keywords])), function.func
    inner = inspect.unwrap(function)
    try:
        text += inspect.getsource(inner)
    except (OSError, TypeError):
        text += str(getattr(getattr(inner, "__code__", None), "co_code", ""))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _written(value: Any) -> Any:
    """As JSON holds it: what is neither number nor text by its checksum."""
    try:
        return json.loads(json.dumps(value.tolist() if hasattr(value, "tolist") else value))
    except (TypeError, ValueError):
        pass
    try:
        held = pickle.dumps(value)  # the same in every process, and all of it
    except Exception:
        held = repr(value).encode()
    return f"{type(value).__name__} {hashlib.sha256(held).hexdigest()[:8]}"
