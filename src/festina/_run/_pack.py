"""Write files into a pack, and unpack them again without trusting the author of the pack.

A pack is a zip file. `ro-crate-metadata.json` in it describes the contents in the format RO-Crate
1.2 and lists every file outside run stores with its size; a run store has a list of its own.
"""

import contextlib
import json
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, unquote

from ._beside import replacing
from ._error import RunError
from ._manifest import MANIFEST, read_files, read_manifest

METADATA = "ro-crate-metadata.json"
PROFILE = "urn:festina:pack:"
"""Start of the identifier by which a pack declares its format, followed by the format version."""
PACK_VERSION = 1
"""Version of the format. It increases only if an older festina would misread a pack."""
LARGEST = 4 * 2**30
"""Bytes of the largest contents of a pack; larger packs are neither written nor unpacked."""
_MOST = 200_000  # files in a pack
_LARGEST_METADATA = 2**26
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest time of a zip file, so that bytes do not depend on it


def write_pack(files: Mapping[str, Path], metadata: Mapping[str, Any], target: Path) -> None:
    """Write files by their names in the pack, and the metadata; equal input gives equal bytes.

    `ValueError` is raised if the files are too large.
    """
    size = sum(path.stat().st_size for path in files.values())
    if size > LARGEST or len(files) > _MOST:
        raise ValueError(
            f"A pack holds at most {_gigabytes(LARGEST)} in {_MOST:,} files, got "
            f"{_gigabytes(size)} in {len(files):,} files. Pack fewer runs."
        )
    described = json.dumps(metadata, indent=1, ensure_ascii=False).encode()
    with (
        replacing(target) as path,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        archive.writestr(_member(METADATA), described)
        for name in sorted(files):
            with files[name].open("rb") as source, archive.open(_member(name), "w") as member:
                shutil.copyfileobj(source, member)


def _member(name: str) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, _TIME)
    member.compress_type, member.create_system = zipfile.ZIP_DEFLATED, 3  # as on Unix
    member.external_attr = (stat.S_IFREG | 0o644) << 16
    return member


@contextlib.contextmanager
def unpacked(pack: Path) -> Iterator[Path]:
    """Yield a temporary folder with the contents of a pack."""
    with tempfile.TemporaryDirectory(prefix="festina-") as folder:
        unpack(pack, Path(folder))
        yield Path(folder)


def unpack(pack: Path, folder: Path) -> None:
    """Write the contents of a pack into an empty folder; raise `RunError` for any other file.

    Nothing is written outside the folder, and not more than the pack declares.
    """
    if not zipfile.is_zipfile(pack):
        raise RunError(
            f"'{pack}' is not a pack: expected a file that `festina pack` wrote, and this is no "
            "complete zip file. Copy it again, or give a run folder."
        )
    try:
        with zipfile.ZipFile(pack) as archive:
            members = archive.infolist()
            _check_members(pack, members, folder)
            metadata = _metadata(pack, archive)
            for member in members:
                if not member.is_dir():
                    _write(archive, member, folder / member.filename)
    except RunError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError) as error:
        raise RunError(f"'{pack}' is damaged: {error}. Copy it again.") from error
    _check_complete(pack, metadata, folder)


def _check_members(pack: Path, members: list[zipfile.ZipInfo], folder: Path) -> None:
    """Raise `RunError` if a name leads out of the folder, or if the contents are too large."""
    for member in members:
        name = member.orig_filename
        unsafe = "\\" in name or "\0" in name or ":" in name or name.startswith("/")
        if unsafe or ".." in PurePosixPath(name).parts:
            raise RunError(
                f"'{pack}' is not unpacked: the name {name!r} in it leads out of the folder."
            )
        if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise RunError(f"'{pack}' is not unpacked: '{name}' in it is a link or a device.")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise RunError(f"'{pack}' is not unpacked: festina cannot decompress '{name}' in it.")
    if len({member.filename for member in members}) < len(members):
        raise RunError(f"'{pack}' is not unpacked: it contains two files of one name.")
    size = sum(member.file_size for member in members)
    if size > LARGEST or len(members) > _MOST:
        raise RunError(
            f"'{pack}' is not unpacked: it declares {_gigabytes(size)} in {len(members):,} files, "
            f"and a pack holds at most {_gigabytes(LARGEST)} in {_MOST:,} files."
        )
    free = shutil.disk_usage(folder).free
    if size > free:
        raise RunError(
            f"'{pack}' needs {_gigabytes(size)}, and only {_gigabytes(free)} are free in "
            f"'{folder.parent}'."
        )


def _write(archive: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    # Reading stops at the declared size, and then compares the checksum.
    with archive.open(member) as source, target.open("xb") as stream:
        shutil.copyfileobj(source, stream)


def _metadata(pack: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    """Return the entities of a pack by identifier, if this festina reads its format."""
    none = RunError(
        f"'{pack}' is not a pack: it contains no `{METADATA}` that `festina pack` wrote."
    )
    if METADATA not in archive.namelist():
        raise none
    if archive.getinfo(METADATA).file_size > _LARGEST_METADATA:
        raise none
    try:
        graph = json.loads(archive.read(METADATA))["@graph"]
        entities = {str(entity["@id"]): entity for entity in graph}
        declared = str(entities["./"]["conformsTo"]["@id"])
        version = int(declared.removeprefix(PROFILE))
    except (ValueError, LookupError, TypeError, RecursionError):
        raise none from None
    if version > PACK_VERSION:
        raise RunError(
            f"'{pack}' was written by a newer festina in format {version}, but this festina reads "
            f"only formats up to {PACK_VERSION}. Upgrade with `pip install --upgrade festina`."
        )
    return entities


def _check_complete(pack: Path, entities: Mapping[str, Any], folder: Path) -> None:
    """Raise `RunError` unless all files that the metadata or a run store lists are there."""
    for id, entity in entities.items():
        if entity.get("@type") == "File":
            path = folder / unquote(id)
            if not path.is_file() or str(path.stat().st_size) != entity.get("contentSize"):
                raise RunError(f"'{pack}' is incomplete: '{unquote(id)}' is missing or altered.")
    stores = [unquote(id) for id in entities if id.endswith("run.zarr/")]
    if not stores:
        raise RunError(f"'{pack}' is not a pack: it contains no run.")
    for store in map(folder.joinpath, stores):
        try:
            for _ in read_files(store, read_manifest(store)["files"]):
                pass
        except RunError as error:
            raise RunError(str(error).replace(str(folder), str(pack))) from error


def store_files(store: Path) -> Iterable[Path]:
    """Yield the files of a run store, which its manifest lists, after checking them."""
    listed = read_manifest(store)["files"]
    for name, _ in read_files(store, listed):
        yield store / name
    yield store / MANIFEST


def identifier(name: str) -> str:
    """Return the identifier of a file in the metadata: its name as a relative URI."""
    return quote(name)


def _gigabytes(size: int) -> str:
    return f"{size / 2**30:.3g} GiB"
