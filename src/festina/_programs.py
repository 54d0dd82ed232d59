"""Programs kept on disk by name, so that the second process does not even trace them.

JAX's own cache (`_cache.py`) is asked with a program that has been traced and lowered, and for the
small networks of a figure that takes longer than to train them. A program of ours follows from its
name: the function, the settings it is compiled for, the shapes of its arguments, this package's
source and the machine. Where any of that has no name (an activation of the user's), where JAX
computes under special settings or on several devices, the program is JAX's alone.
"""

import contextlib
import dataclasses
import functools
import hashlib
import inspect
import itertools
import os
import pickle
import platform
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import jax
import jaxlib.version
from jax import monitoring
from jax.core import Tracer

from . import _cache

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

_PLAIN = {
    "jax_enable_compilation_cache": True,
    "jax_disable_jit": False,
    "jax_debug_nans": False,
    "jax_debug_infs": False,
    "jax_default_device": None,
    "jax_default_matmul_precision": None,
}
"""Settings under which programs are kept; JAX traces anew when one of them changes."""

_STARTED = time.time()

_APART = ("cli", "papers")
"""What asks for programs but has no part in them: its source may change without new ones."""


def kept(
    *static: str,
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    """`jax.jit` with `static` arguments, kept on disk while `festina.compilation_cache` is on."""

    def wrap(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
        program = jax.jit(function, static_argnames=static)
        names = list(inspect.signature(function).parameters)
        places = [(name, names.index(name)) for name in static]
        positions = {position for _, position in places}
        found: dict[Any, Callable[..., Any] | None] = {}

        @functools.wraps(function)
        def call(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
            folder = _cache.in_use
            if folder is None or not _plain():
                return program(*args, **kwargs)
            settings = tuple(
                args[at] if at < len(args) else kwargs.get(name) for name, at in places
            )
            numbers = tuple(arg for at, arg in enumerate(args) if at not in positions)
            named = {name: value for name, value in kwargs.items() if name not in static}
            leaves, tree = jax.tree.flatten((numbers, named))
            if any(isinstance(leaf, Tracer) or not hasattr(leaf, "dtype") for leaf in leaves):
                return program(*args, **kwargs)
            types = tuple((x.shape, x.dtype, getattr(x, "weak_type", False)) for x in leaves)
            key = (folder, _setting("jax_enable_x64"), settings, tree, types)
            if key not in found:
                title = _title(function, key)
                build = lambda: program.lower(*args, **kwargs).compile()
                found[key] = _find(folder / "programs" / title, build) if title else None
            ready = found[key]
            return program(*args, **kwargs) if ready is None else ready(*numbers, **named)

        return call

    return wrap


def _find(file: Path, build: Callable[[], Any]) -> Callable[..., Any]:
    """The program in a file, or a new one, which is put there."""
    from jax.experimental.serialize_executable import deserialize_and_load, serialize

    try:
        content = file.read_bytes()
        digest, body = content[:32], content[32:]
        if hashlib.sha256(body).digest() == digest:
            return deserialize_and_load(*pickle.loads(body))
    except Exception:  # whatever is wrong with it, the program can be had in another way
        pass
    # What JAX has read from its own cache runs, but written once more it does not.
    with _compiles() as fresh:
        ready = build()
    if fresh:
        try:
            body = pickle.dumps(serialize(ready))
            _write(file, hashlib.sha256(body).digest() + body)
        except Exception:  # a full disk, or a program that cannot be written: only time is lost
            pass
    return ready


@contextlib.contextmanager
def _compiles() -> Iterator[list[str]]:
    """Collects what JAX compiles anew, and finds worth keeping, in this thread."""
    fresh, thread = [], threading.get_ident()

    def listen(event: str, **_: Any) -> None:
        if event.endswith("/compilation_cache/cache_misses") and threading.get_ident() == thread:
            fresh.append(event)

    monitoring.register_event_listener(listen)
    try:
        yield fresh
    finally:
        monitoring.unregister_event_listener(listen)


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as part:
            part.write(content)
        os.replace(name, file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _setting(name: str) -> Any:
    return getattr(jax.config, name)


def _plain() -> bool:
    return all(_setting(name) is value for name, value in _PLAIN.items()) and _one_processor()


@functools.cache
def _one_processor() -> bool:
    return jax.default_backend() == "cpu" and jax.device_count() == 1


def _title(function: Callable[..., Any], key: tuple[Any, ...]) -> str | None:
    """The name of a file for this function and key; None where something in it has no name."""
    _, x64, settings, tree, types = key
    program = f"{function.__module__}.{function.__qualname__}"
    try:
        words = (program, x64, _name(settings), str(tree), str(types), _here())
    except _Nameless:
        return None
    return f"{function.__name__}-{hashlib.sha256(repr(words).encode()).hexdigest()}"


class _Nameless(Exception):
    """Something that another process could not recognise."""


def _name(value: Any) -> str:
    """A name by which every process with the same source means the same."""
    if value is None or isinstance(value, str | bool | int | float):
        return repr(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_name, value))})"
    if hasattr(value, "__qualname__"):  # a function or a class
        return _imported(value)
    if dataclasses.is_dataclass(value):
        fields = (f"{f.name}={_name(getattr(value, f.name))}" for f in dataclasses.fields(value))
        return f"{_imported(type(value))}({', '.join(fields)})"
    if isinstance(value, functools.partial):
        pairs = tuple(sorted(value.keywords.items()))
        return f"partial({_name(value.func)}, {_name(value.args)}, {_name(pairs)})"
    raise _Nameless


def _imported(thing: Any) -> str:
    """What a module of ours or of JAX's calls by this name; a lambda is called by none."""
    module, name = thing.__module__ or "", thing.__qualname__
    home = sys.modules.get(module)
    for part in name.split("."):
        home = getattr(home, part, None)
    package, _, below = module.partition(".")
    ours = package == "festina" and below.partition(".")[0] not in _APART
    if home is not thing or not (ours or package == "jax"):
        raise _Nameless
    return f"{module}.{name}"


@functools.cache
def _here() -> str:
    """This package's source, the versions and flags of JAX, and the processor."""
    source = hashlib.sha256()
    package = Path(__file__).parent
    for file in sorted(package.rglob("*.py")):
        place = file.relative_to(package)
        if place.parts[0] in _APART:
            continue
        if file.stat().st_mtime > _STARTED - 2.0:  # what was imported may not be what is there now
            raise _Nameless
        source.update(f"{place}\0".encode() + file.read_bytes())
    flags = {name: value for name, value in jax.config.values.items() if "cache" not in name}
    return repr(
        (
            source.hexdigest(),
            sys.version_info[:2],
            jax.__version__,
            jaxlib.version.__version__,
            sorted(map(repr, flags.items())),
            os.environ.get("XLA_FLAGS"),
            platform.machine(),
            _processor(),
        )
    )


def _processor() -> str:
    """What the processor can do: machine code for one may not run on another."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            first = itertools.takewhile(str.strip, lines)  # of several alike
            wanted = ("model name", "flags", "Features")
            return "".join(line for line in first if line.startswith(wanted))
    except OSError:
        return platform.processor()
