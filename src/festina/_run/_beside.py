"""Make files and folders that appear complete or not at all.

Each file or folder is made under a hidden name beside its target and then moved. The process that
makes a hidden file or folder locks it. The system releases the lock when the process ends or is
killed. A hidden file without a lock is therefore left over from a killed process.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

try:
    import fcntl
except ImportError:  # Windows has no `fcntl`: nothing is locked, and nothing left over is removed
    fcntl = None


def shorter(path: Path) -> Path:
    """Return a path relative to the working folder, if it is below."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def hidden_beside(target: Path) -> Path:
    """Return an unused hidden path beside the target."""
    # Files of `tempfile` could be read by their owner only.
    return target.parent / f".festina-{os.urandom(6).hex()}{target.suffix}"


@contextlib.contextmanager
def held(path: Path) -> Iterator[Literal["ours", "theirs", "unknown"]]:
    """Lock a file or folder within the block, and yield the owner of the lock.

    The owner is "ours" for this process, "theirs" if another process holds the lock, or "unknown"
    on file systems without locks. If the owner is "unknown", use the file but do not remove it.
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
            whose = "ours" if path.exists() else "theirs"  # another process may have removed it
        yield whose
    finally:
        os.close(handle)


@contextlib.contextmanager
def hidden(target: Path, make: Callable[[Path], object]) -> Iterator[Path]:
    """Yield a locked hidden file or folder beside `target`, removed at the end unless moved."""
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
    """Yield a hidden file that replaces `target` at the end of the block."""
    with hidden(target, Path.touch) as path:
        yield path
        os.replace(path, target)


def remove(path: Path) -> None:
    """Remove a file, or a folder with its contents, if possible."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def left_over(folder: Path) -> Iterator[Path]:
    """Remove hidden files and folders that killed processes left in a folder; yield each path."""
    for path in folder.glob(".festina-*"):
        with held(path) as whose:
            if whose == "ours":
                remove(path)
                yield path
