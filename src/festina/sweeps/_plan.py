"""Check the arguments of `sweep` and plan the sweep."""

import functools
import hashlib
import inspect
import json
import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._run._code import code as code_of
from ..experiments import load_experiment, unknown
from ._grid import Grid, axis, duration, labels, length
from ._work import claims_at

_MANY = 10_000  # most pieces of a sweep without `yes`
_MOST = 1_000_000  # most pieces of any sweep; the limit for points is ten times as large
_TAKEN = ("status", "reason", "seconds", "what", "axes", "together")

Given = Mapping[str, Any]


@dataclass(frozen=True)
class Plan:
    """Plan of a sweep: a function, a grid, identifying attributes, and a checksum of the code.

    `store` is the default path of the store, which is the same for the same grid.
    """

    function: Callable[..., Any]
    grid: Grid
    made_by: Mapping[str, str]
    code: str
    store: str


def plan(
    what: str | Callable[..., Any],
    over: Given,
    parameters: Given,
    together: str | Sequence[str],
    seeds: int | None,
    *,
    processes: int,
    yes: bool,
) -> Plan:
    """Check the arguments of `sweep` and return its plan."""
    over, fixed = dict(over), dict(parameters)
    together = (together,) if isinstance(together, str) else together
    if isinstance(what, str):
        experiment = load_experiment(what)
        experiment.check_packages()
        if together:
            raise ValueError(
                "`together` is for functions, got an experiment, which runs point by point: leave "
                "out `together`."
            )
        fixed |= {} if seeds is None else {"seeds": seeds}
        known, needed = tuple(experiment.parameters.model_fields), ()
        function = functools.partial(claims_at, experiment.entry.typed)
        title, code = experiment.name, code_of(experiment.entry.file)
    else:
        if not callable(what):
            raise TypeError(
                f"`what` must be the name of an experiment, or a function, got {what!r}."
            )
        experiment, defaults = None, named_arguments(what)
        taken = inspect.signature(what).parameters.values()
        whatever = any(each.kind is each.VAR_KEYWORD for each in taken)
        if seeds is not None:
            if "seed" in over or not (whatever or "seed" in defaults):
                other = "`over` has one already" if "seed" in over else "the function takes none"
                raise ValueError(f"`seeds` adds an axis `seed`, but {other}: leave out `seeds`.")
            over["seed"] = range(seeds)
        known = None if whatever else tuple(defaults)
        needed = [name for name, default in defaults.items() if default is inspect.Parameter.empty]
        function, title, code = what, getattr(what, "__name__", "function"), _source_of(what)
    _check_names(over, fixed, together, known, needed)
    _check_size(over, together, processes, experiment and float(experiment.entry.seconds), yes=yes)
    axes = {name: axis(name, given) for name, given in over.items()}
    if experiment is not None:
        _check_values(experiment.parameters, Grid(axes), fixed)
    values = {name: labels(several).tolist() for name, several in axes.items()}
    for name, several in values.items():
        if len(set(several)) < len(several):
            raise ValueError(
                f"`{name}` has a value twice, expected different values: "
                f"{', '.join(map(str, several[:10]))}."
            )
    together = tuple(name for name in axes if name in together)
    made_by = {"what": title, "axes": ", ".join(axes), "together": ", ".join(together)}
    made_by |= {name: _told(value) for name, value in (values | fixed).items()}
    number = _checksum(json.dumps(made_by, sort_keys=True).encode())
    store = f"runs/{title.strip('<>')}/sweep-{number}.zarr"  # a lambda is called <lambda>
    return Plan(functools.partial(function, **fixed), Grid(axes, together), made_by, code, store)


def named_arguments(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the named arguments of a function, with their defaults."""
    taken = inspect.signature(function).parameters.values()
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {each.name: each.default for each in taken if each.kind in named}


def _check_names(
    over: Given,
    fixed: Given,
    together: Sequence[str],
    known: Sequence[str] | None,
    needed: Sequence[str],
) -> None:
    if not over:
        every = f" There are: {', '.join(known)}." if known else ""
        raise ValueError(
            "Missing axis: give several values of a parameter in `over` (`--over`)." + every
        )
    for name in (*over, *fixed):
        if known is not None and name not in known:
            raise ValueError(unknown("parameter", name, known))
        if name in _TAKEN:
            raise ValueError(f"`{name}` is a name that the store reserves: rename the parameter.")
        if name in over and name in fixed:
            raise ValueError(
                f"`{name}` is swept over and given one value: leave out the axis or the value."
            )
    for name in together:
        if name not in over:
            raise ValueError(f"`together`: {unknown('axis', name, tuple(over))}")
    if missing := [f"`{name}`" for name in needed if name not in {**over, **fixed}]:
        raise ValueError(
            f"The function also needs {', '.join(missing)}: give several values in `over` "
            "(`--over`), or one value in `parameters` (a flag)."
        )


def _check_size(
    over: Given, together: Sequence[str], processes: int, seconds: float | None, *, yes: bool
) -> None:
    """Raise `ValueError` if the grid is too large, before its values are created."""
    sizes = {name: length(name, given) for name, given in over.items()}
    points = math.prod(sizes.values())
    pieces = math.prod(size for name, size in sizes.items() if name not in together)
    if pieces <= (_MOST if yes else _MANY) and points <= 10 * _MOST:
        return
    each, computers = seconds or 1.0, max(1, processes)
    raise ValueError(
        f"The grid has {points:,} points ({' × '.join(f'{n} {k:,}' for n, k in sizes.items())}) in "
        f"{pieces:,} pieces. At {each:g} s each, {'as usual' if seconds else 'say'}, these take "
        f"{duration(pieces * each / computers)} on {computers} process{'es' * (computers > 1)}. "
        f"Give fewer values, or allow the grid with `yes` (`--yes`): the limit is then {_MOST:,} "
        f"pieces and {10 * _MOST:,} points."
    )


def _check_values(kind: Any, grid: Grid, fixed: Given) -> None:
    """Raise `ValueError` if the parameters are invalid at any point of the grid."""
    import pydantic

    from ..experiments._invalid import invalid

    for index in grid:
        try:
            kind(**fixed, **grid.point(index))
        except pydantic.ValidationError as error:
            raise ValueError(invalid(error, valid=tuple(kind.model_fields))) from error


def _source_of(function: Callable[..., Any]) -> str:
    """Return a checksum of a function's source and of its `functools.partial` arguments."""
    text = ""
    if isinstance(function, functools.partial):
        text, function = _told([function.args, function.keywords]), function.func
    inner = inspect.unwrap(function)
    try:
        text += inspect.getsource(inner)
    except (OSError, TypeError):
        text += str(getattr(getattr(inner, "__code__", None), "co_code", ""))
    return _checksum(text.encode())


def _told(value: Any) -> str:
    """Return a short text for a value, with a checksum if the text is shortened."""
    try:
        text = json.dumps(value.tolist() if hasattr(value, "tolist") else value)
    except (TypeError, ValueError):
        text = ""
    if 0 < len(text) <= 60:
        return text
    try:
        held = text.encode() or pickle.dumps(value)  # the whole value, the same in every process
    except Exception:
        held = repr(value).encode()
    words = f"{text[:30]} … {text[-20:]}" if text else type(value).__name__
    return f"{words} ({_checksum(held)})"


def _checksum(held: bytes) -> str:
    return hashlib.sha256(held).hexdigest()[:8]
