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
    try:
        own = Path("/proc/self/cgroup").read_text().partition("0::/")[2].split("\n")[0]
    except OSError:
        return min(sizes)
    for group in (_GROUPS / own, *(_GROUPS / own).parents):
        limit = group / "memory.max"
        if limit.exists() and (text := limit.read_text().strip()) != "max":
            sizes.append(float(text))
    return min(sizes)
