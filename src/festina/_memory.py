"""Memory of this machine."""

import math
import os
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")


def memory() -> float:
    """Return the bytes of memory that this process may use, infinity if they are unknown.

    A container, or a job of a cluster, may use less than the memory of the machine.
    """
    try:
        sizes = [float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))]
    except (AttributeError, ValueError, OSError):  # Windows
        sizes = [math.inf]
    group = _GROUPS / _own_group()
    for each in (group, *group.parents):
        limit = each / "memory.max"
        if limit.exists() and (text := limit.read_text().strip()) != "max":
            sizes.append(float(text))
    return min(sizes)


def _own_group() -> str:
    """Return the control group of this process on Linux, elsewhere an empty text."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return ""
    return next((line[4:] for line in lines if line.startswith("0::/")), "")
