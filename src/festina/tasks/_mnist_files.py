"""The four files of MNIST, taken from the folder `FESTINA_DATA`, the cache or the internet.

LeCun, Cortes & Burges published MNIST in the idx format, compressed by gzip. A file is downloaded
only when it is needed, and its checksum is verified. The package pooch is imported for downloads
only.
"""

import functools
import gzip
import math
import os
import struct
import zlib
from pathlib import Path
from typing import Literal

import numpy as np
from jaxtyping import UInt8

Split = Literal["train", "test"]

_CHECKSUMS = {
    "train-images-idx3-ubyte.gz": (
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"
    ),
    "train-labels-idx1-ubyte.gz": (
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"
    ),
    "t10k-images-idx3-ubyte.gz": (
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"
    ),
    "t10k-labels-idx1-ubyte.gz": (
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"
    ),
}
"""SHA-256 checksums of the published files."""

_MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_UNSIGNED_BYTES = 8  # code of the number type in idx files; MNIST's files use no other


def read_split(
    split: Split,
) -> tuple[UInt8[np.ndarray, "sample row column"], UInt8[np.ndarray, " sample"]]:
    """Return the images and labels of one split as unsigned bytes."""
    prefix = "train" if split == "train" else "t10k"
    images = _read(_located(f"{prefix}-images-idx3-ubyte.gz"), 3)
    labels = _read(_located(f"{prefix}-labels-idx1-ubyte.gz"), 1)
    if len(images) != len(labels):
        raise ValueError(
            f"MNIST's '{split}' files do not belong together, because they have {len(images)} "
            f"images and {len(labels)} labels. Take all four files from one source."
        )
    return images, labels


def _located(name: str) -> Path:
    """Return the path of an MNIST file, after downloading the file if necessary."""
    for folder in _given():
        if (folder / name).is_file():
            return folder / name
    return _fetched(name, os.environ.get("FESTINA_DATA"))


def present() -> Path | None:
    """Return the folder of this machine that holds MNIST, or `None`."""
    folders = (*_given(), _downloads())
    return next((each for each in folders if all((each / k).is_file() for k in _CHECKSUMS)), None)


def _given() -> tuple[Path, ...]:
    """Return the folders that `FESTINA_DATA` stands for."""
    given = os.environ.get("FESTINA_DATA")
    return (Path(given).expanduser(), Path(given).expanduser() / "mnist") if given else ()


def _downloads() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("festina", appauthor=False)) / "data" / "mnist"


def _fetched(name: str, given: str | None) -> Path:
    import pooch

    folder = _downloads()
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel("WARNING")
    try:
        return Path(
            pooch.retrieve(_MIRROR + name, f"sha256:{_CHECKSUMS[name]}", fname=name, path=folder)
        )
    except (OSError, ValueError) as error:  # no connection, or the checksum of the file is wrong
        looked = f"not in `FESTINA_DATA` '{given}', " if given else ""
        raise ValueError(
            f"The MNIST file {name} was not found: it is {looked}not in the cache '{folder}', and "
            f"could not be downloaded from {_MIRROR} ({type(error).__name__}). Set the "
            "environment variable FESTINA_DATA to a folder with the four idx .gz files of MNIST."
        ) from error
    finally:
        logger.setLevel(level)


def _read(file: Path, dimensions: int) -> np.ndarray:
    stamp = file.stat()
    return _parsed(file, dimensions, stamp.st_mtime_ns, stamp.st_size)


@functools.lru_cache(maxsize=4)  # the four files, 55 MB together
def _parsed(file: Path, dimensions: int, _changed: int, _size: int) -> np.ndarray:
    """Return the array in an idx file.

    The file holds two zero bytes, the code of the number type, the number of axes, the length of
    each axis and the values. The arguments `_changed` and `_size` invalidate the cache when the
    file changes.
    """
    try:
        content = gzip.decompress(file.read_bytes())
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(
            f"'{file}' is damaged or no gzip file ({error}). Delete it and download it again."
        ) from error
    if content[:4] != bytes((0, 0, _UNSIGNED_BYTES, dimensions)):
        raise ValueError(
            f"'{file}' is no idx file of unsigned bytes with {dimensions} axes, because it starts "
            f"with {content[:4].hex(' ') or 'nothing'}. Replace it with MNIST's file of this name."
        )
    start = 4 + 4 * dimensions
    shape = struct.unpack(f">{dimensions}I", content[4:start].ljust(4 * dimensions, b"\0"))
    if len(content) != start + math.prod(shape):
        raise ValueError(
            f"'{file}' has {len(content)} bytes, but its header implies "
            f"{start + math.prod(shape)}. Delete it and download it again."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
