"""Importing Matplotlib, for commands."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def without_documentation() -> Iterator[None]:
    """Within, Matplotlib is imported without the texts on the properties of its artists.

    They are for who reads `help(...)`, and writing them is a quarter of the import.
    """
    from matplotlib import artist

    written = artist.kwdoc
    artist.kwdoc = lambda artist: ""
    try:
        yield
    finally:
        artist.kwdoc = written
