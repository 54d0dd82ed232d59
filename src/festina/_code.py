"""Which code is running: a version alone would hide a line that was changed."""

import functools
import hashlib
from pathlib import Path


@functools.cache
def code(file: str) -> str:
    """Tells festina's own code, and that of an experiment in a file, from any other."""
    digest = hashlib.sha256()
    for path in (*sorted(Path(__file__).parent.rglob("*.py")), *filter(None, [file])):
        digest.update(Path(path).read_bytes())
    return digest.hexdigest()[:16]
