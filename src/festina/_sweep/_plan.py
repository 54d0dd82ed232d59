"""What is to be swept: refused here, in words, if it cannot be."""

import functools
import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._code import code as code_of
from ..papers import find, load, unknown
from ._grid import Grid, axis, duration, labels, length
from ._store import STATUS
from ._work import claims_at

MANY = 10_000
"""Pieces from which on a sweep is not begun without a yes."""

_TOO_MANY = 1_000_000
_POINTS = 100_000_000


@dataclass(frozen=True)
class Plan:
    """A sweep that can be carried out: a function at every piece of a grid.

    `made_by` is what tells it from others, `code` what it was written in, and `seconds` about what
    a piece takes, where that is known.
    """

    function: Callable[..., Any]
    grid: Grid
    made_by: Mapping[str, Any]
    code: str
    seconds: float | None = None

    @property
    def count(self) -> int:
        """Points in a piece, none where axes are not taken together."""
        together = [len(self.grid.axes[name]) for name in self.grid.together]
        return functools.reduce(int.__mul__, together) if together else 0

    @property
    def name(self) -> str:
        """Its own among those of all grids of the same experiment or function."""
        text = json.dumps(self.made_by, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:8]


def plan(
    what: str | Callable[..., Any],
    over: Mapping[str, Any],
    *,
    seeds: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    together: Sequence[str] = (),
    processes: int = 1,
    yes: bool = False,
) -> Plan:
    """Check what `sweep` is asked for, and lay it out."""
    fixed = dict(parameters or {})
    over = dict(over)
    if isinstance(what, str):
        entry = find(what)
        what = entry.typed
        experiment = load(what)
        if together:
            raise ValueError("`together` is for functions: an experiment is run point by point.")
        if seeds is not None:
            fixed["seeds"] = seeds
        known = tuple(experiment.parameters.model_fields)
        seconds, title = float(entry.seconds), entry.name
    else:
        experiment = entry = seconds = None
        if seeds is not None:
            over["seed"] = range(_whole("seeds", seeds))
        known, title = _arguments(what, {*over, *fixed}), getattr(what, "__qualname__", "function")
    _check_names(over, fixed, known, together, "parameter" if experiment else "argument")
    sizes = {name: length(name, given) for name, given in over.items()}
    _check_size(sizes, together, seconds, processes, yes=yes)
    axes = {name: axis(name, given) for name, given in over.items()}
    if experiment is not None:
        axes, fixed = _validated(experiment.parameters, axes, fixed)
        function = functools.partial(claims_at, what, fixed)
        code = code_of(experiment.entry.file)
    else:
        function = functools.partial(what, **fixed) if fixed else what
        code = _source_of(what)
    made_by = {
        "what": title,
        "over": {name: labels(values).tolist() for name, values in axes.items()},
        "parameters": {name: _written(value) for name, value in fixed.items()},
        "together": list(together),
    }
    return Plan(function, Grid(axes, tuple(together)), made_by, code, seconds)


def differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """In what two sweeps differ, in words."""
    found = []
    for key in ("what", "together"):
        if there.get(key) != here.get(key):
            found.append(f"`{key}` is {there.get(key)} there, {here.get(key)} here")
    for key in ("over", "parameters"):
        mine, theirs = here.get(key, {}), there.get(key, {})
        for name in dict.fromkeys((*theirs, *mine)):
            if mine.get(name) != theirs.get(name):
                found.append(f"`{name}` is {_told(theirs, name)} there, {_told(mine, name)} here")
    orders = [list(each.get("over", {})) for each in (there, here)]
    return found or ["the order of the axes"] * (orders[0] != orders[1])


def _told(values: Mapping[str, Any], name: str) -> str:
    if name not in values:
        return "not given"
    text = json.dumps(values[name], ensure_ascii=False)
    if len(text) <= 60:
        return text
    return f"{len(values[name])} values from {values[name][0]} to {values[name][-1]}"


def _arguments(function: Callable[..., Any], given: set[str]) -> tuple[str, ...] | None:
    """Names that a function takes, nothing if any; refused where one is missing."""
    if not callable(function):
        raise TypeError(
            f"A sweep is of an experiment, by its name, or of a function; got {function!r}."
        )
    try:
        signature = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    for each in signature:
        if each.kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL) and each.default is each.empty:
            raise ValueError(f"`{each.name}` must be an argument that can be given by its name.")
    named = [e for e in signature if e.kind in (e.POSITIONAL_OR_KEYWORD, e.KEYWORD_ONLY)]
    missing = [e.name for e in named if e.default is e.empty and e.name not in given]
    takes_all = any(each.kind is each.VAR_KEYWORD for each in signature)
    if missing and (takes_all or given <= {each.name for each in named}):
        raise ValueError(
            f"The function also needs {', '.join(f'`{name}`' for name in missing)}: give it values "
            "in `over`, or one in `parameters`."
        )
    return None if takes_all else tuple(each.name for each in named)


def _check_names(
    over: Mapping[str, Any],
    fixed: Mapping[str, Any],
    known: tuple[str, ...] | None,
    together: Sequence[str],
    kind: str,
) -> None:
    if not over:
        choices = f" There are: {', '.join(known)}." if known else ""
        raise ValueError(f"Over what? A sweep needs a {kind} that takes several values.{choices}")
    for name in (*over, *fixed):
        if known is not None and name not in known:
            raise ValueError(unknown(kind, name, known) + f" There are: {', '.join(known)}.")
        if name in STATUS:
            raise ValueError(f"`{name}` is what the store says of each piece: rename the {kind}.")
    if both := [name for name in over if name in fixed]:
        raise ValueError(f"`{both[0]}` is swept over and given one value: leave out one of them.")
    if odd := [name for name in together if name not in over]:
        raise ValueError(unknown("axis", odd[0], tuple(over)) + " It was named in `together`.")


def _check_size(
    sizes: Mapping[str, int],
    together: Sequence[str],
    seconds: float | None,
    processes: int,
    *,
    yes: bool,
) -> None:
    """Refuse a grid without points, and one that nobody would wait for."""
    pieces = points = 1
    for name, size in sizes.items():
        points *= size
        pieces *= 1 if name in together else size
    if (pieces <= MANY or (yes and pieces <= _TOO_MANY)) and points <= _POINTS:
        return
    each = "the time that one usually takes" if seconds else "a second each"
    said = (
        f"The grid has {points:,} points ({' × '.join(f'{n} {k:,}' for n, k in sizes.items())}), "
        f"computed in {pieces:,} pieces; with {each}, that is "
        f"{duration(pieces * (seconds or 1.0) / max(1, processes))} on {max(1, processes)} "
        f"process{'es' * (processes > 1)}."
    )
    if pieces > _TOO_MANY or points > _POINTS:
        raise ValueError(
            f"{said} More than {_TOO_MANY:,} pieces are too many for one store: take fewer values, "
            "or axes `together` in a function of arrays."
        )
    raise ValueError(f"{said} Take fewer values, or say `yes` if that is meant.")


def _validated(
    kind: Any, axes: Mapping[str, tuple[Any, ...]], fixed: Mapping[str, Any]
) -> tuple[dict[str, tuple[Any, ...]], dict[str, Any]]:
    """Values as the experiment reads them; pydantic refuses what is out of bounds."""
    grid, read = Grid(axes), {name: list(values) for name, values in axes.items()}
    for index in grid:
        parameters = kind(**{**fixed, **grid.point(index)})
        for name, k in zip(axes, index, strict=True):
            read[name][k] = getattr(parameters, name)
        fixed = {name: getattr(parameters, name) for name in fixed}
    return {name: tuple(values) for name, values in read.items()}, dict(fixed)


def _source_of(function: Callable[..., Any]) -> str:
    """A function's own text, which tells whether it was changed."""
    inner = inspect.unwrap(getattr(function, "func", function))
    try:
        text = inspect.getsource(inner)
    except (OSError, TypeError):
        text = getattr(getattr(inner, "__code__", None), "co_code", b"").hex()
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _written(value: Any) -> Any:
    """As JSON can hold it: what is neither number nor text by its checksum."""
    try:
        return json.loads(json.dumps(value.tolist() if hasattr(value, "tolist") else value))
    except (TypeError, ValueError):
        return f"{type(value).__name__} {hashlib.sha256(repr(value).encode()).hexdigest()[:8]}"


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"`{name}` must be a whole number of at least 1, got {value!r}.")
    return value
