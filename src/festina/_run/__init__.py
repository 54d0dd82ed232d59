"""Saving and loading a run: everything needed to redraw it without computing it again.

A run is an `xarray.DataTree`. On disk it is a Zarr v3 store with one more file, `festina.json`,
that lists every other file with its size and checksum. Zarr reads a chunk that is not there as
zeros, so without that list half a run would load as a whole one.

What we write is the simplest store there is, each array whole and uncompressed, and needs no Zarr:
a description in JSON and the bytes. Any store is read, but Zarr only ever sees memory: it gets the
files that we have read and checked. So each byte is touched once, an interrupt finds no background
thread that still writes, and what was checked is what is used.

A tree becomes files in memory (`_to_files.py`), and these a folder that appears whole or not at all
(`_folder.py`); the way back is `_from_files.py`. What numbers, text and attributes are on disk is
said once for both ways (`_values.py`, `_attributes.py`), as is the list of files (`_manifest.py`).
"""

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from ._error import RunError as RunError
    from ._load import attributes as attributes
    from ._load import load as load
    from ._manifest import FORMAT_VERSION as FORMAT_VERSION
    from ._save import save as save

# Zarr and xarray come when a run is read or written.
_HOMES = {"RunError": "._error", "attributes": "._load", "load": "._load", "save": "._save"}
_HOMES["FORMAT_VERSION"] = "._manifest"
__getattr__, __dir__ = attach(__name__, _HOMES)
