"""What appears complete or not at all: made out of sight beside its place, then moved there."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def hidden_beside(target: Path) -> Path:
    """A path beside the target that is nobody's yet."""
    # What `tempfile` makes, nobody else on a cluster can read.
    return target.parent / f".festina-{os.urandom(6).hex()}{target.suffix}"


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A file beside `target` that takes its place when written."""
    path = hidden_beside(target)
    try:
        yield path
        os.replace(path, target)
    finally:
        path.unlink(missing_ok=True)
