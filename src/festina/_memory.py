"""Memory of this machine."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def memory() -> float:
    """Return the bytes of memory that this process may use, infinity if they are unknown.

    A container, or a job of a cluster, may use less than the memory of the machine.
    """
    try:
        sizes = [float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))]
    except (AttributeError, ValueError, OSError):  # Windows
        sizes = [math.inf]
    for folder, file in _own_groups():
        for each in (folder, *folder.parents):
            limit = each / file
            if limit.exists() and (text := limit.read_text().strip()) != "max":
                sizes.append(float(text))
    return min(sizes)


def _own_groups() -> Iterator[tuple[Path, str]]:
    """Yield the control groups of this process that limit memory, with the file of the limit.

    Linux has control groups of version 2, of version 1, or of both.
    """
    try:
        lines = _OWN.read_text().splitlines()
    except OSError:  # another system
        return
    for line in lines:  # such as "4:memory:/job/step", and "0::/job/step" in version 2
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield _GROUPS / path.lstrip("/"), "memory.max"
        elif "memory" in controllers.split(","):
            yield _GROUPS / "memory" / path.lstrip("/"), "memory.limit_in_bytes"
