"""Names of the programs that JAX traces and compiles."""

import contextlib
import functools
from collections.abc import Iterator

from jax import monitoring


@functools.cache
def _events() -> list[tuple[str, str]]:
    """Return a list that receives all events from now on; JAX 0.8 cannot remove a listener."""
    events: list[tuple[str, str]] = []

    def listen(event: str, duration_secs: float, **details: str | int) -> None:
        events.append((event, str(details.get("fun_name"))))

    monitoring.register_event_duration_secs_listener(listen)
    return events


@contextlib.contextmanager
def programs(part: str = "compile") -> Iterator[list[str]]:
    """Yield a list that receives, at the end, the programs of all events with `part` in their name.

    The names of all events of tracing and of compilation contain "compile".
    """
    found: list[str] = []
    before = len(_events())
    yield found
    found += [program for event, program in _events()[before:] if part in event]
