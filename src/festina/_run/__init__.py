"""Save and load runs: everything that is needed to draw a run again without computing it again.

A run is an `xarray.DataTree`. On disk it is a Zarr v3 store with one additional file,
`festina.json`, that lists the size and checksum of every other file. Zarr reads missing chunks as
zeros, so without this list an incomplete run would load as a complete one.

Saving needs no Zarr: it writes the simplest store, with a JSON description and one uncompressed
file for each array. Loading reads and checks all files first, and then passes them to Zarr in
memory. Each byte is therefore read once, an interrupt meets no background thread that still writes,
and the checked bytes are the bytes in use.

`_to_files.py` converts a tree to files in memory, and `_folder.py` puts them into a folder that
appears complete or not at all. `_from_files.py` converts files to a tree. Saving and loading share
the formats of values (`_values.py`), of attributes (`_attributes.py`) and of the list of files
(`_manifest.py`).
"""

from typing import TYPE_CHECKING

from .._lazy import attach

if TYPE_CHECKING:
    from ._error import RunError as RunError
    from ._load import attributes as attributes
    from ._load import load as load
    from ._manifest import FORMAT_VERSION as FORMAT_VERSION
    from ._save import save as save

# Zarr and xarray are imported only when a run is read or written.
_HOMES = {"RunError": "._error", "attributes": "._load", "load": "._load", "save": "._save"}
_HOMES["FORMAT_VERSION"] = "._manifest"
__getattr__, __dir__ = attach(__name__, _HOMES)
