"""What appears complete or not at all: made out of sight beside its place, then moved there.

What a killed process leaves out of sight is nobody's: whoever makes something holds it, and the
system lets go of it when the process ends, in whatever way.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

try:
    import fcntl
except ImportError:  # Windows: nothing is held there, and nothing cleared away
    fcntl = None


def hidden_beside(target: Path) -> Path:
    """A path beside the target that is nobody's yet."""
    # What `tempfile` makes, nobody else on a cluster can read.
    return target.parent / f".festina-{os.urandom(6).hex()}{target.suffix}"


@contextlib.contextmanager
def held(path: Path) -> Iterator[Literal["ours", "theirs", "unknown"]]:
    """Whose a file or a folder is within: ours, if no other process has it in hand.

    Some file systems cannot say: what is unknown can be used, but should not be removed.
    """
    try:
        handle = os.open(path, os.O_RDONLY) if fcntl else -1
    except FileNotFoundError:
        yield "theirs"
        return
    except OSError:
        handle = -1
    if fcntl is None or handle == -1:
        yield "unknown"
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            whose = "theirs"
        except OSError:
            whose = "unknown"
        else:
            whose = "ours" if path.exists() else "theirs"  # it was cleared away meanwhile
        yield whose
    finally:
        os.close(handle)


@contextlib.contextmanager
def hidden(target: Path, make: Callable[[Path], object]) -> Iterator[Path]:
    """A file or folder beside `target`, in hand and removed at the end unless it was moved."""
    while True:
        path = hidden_beside(target)
        try:
            make(path)
            with held(path) as whose:
                if whose != "theirs":
                    yield path
                    return
        finally:
            remove(path)


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A file beside `target` that takes its place when written."""
    with hidden(target, Path.touch) as path:
        yield path
        os.replace(path, target)


def remove(path: Path) -> None:
    """A file, or a folder with all that is in it."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def left_over(folder: Path) -> Iterator[Path]:
    """What killed processes have left out of sight in a folder; gone when asked for the next."""
    for path in folder.glob(".festina-*"):
        with held(path) as whose:
            if whose == "ours":
                remove(path)
                yield path
