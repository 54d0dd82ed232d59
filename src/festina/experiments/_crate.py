"""Choose the files of a pack, and describe them in the format RO-Crate 1.2.

The metadata are written directly: the library `rocrate` needs further packages, and would write the
present time into a file whose bytes should depend on the run alone.
"""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import _run
from .._run._pack import METADATA, PACK_VERSION, PROFILE, identifier, store_files
from .claims._claim import labelled

_KINDS = {
    "claims.json": ("claims with predictions, measurements and verdicts", "application/json"),
    "parameters.toml": ("parameters of the run, with their meanings", "application/toml"),
    "figure.png": ("figure", "image/png"),
    "figure.pdf": ("figure", "application/pdf"),
    "figure.svg": ("figure", "image/svg+xml"),
    "animation.gif": ("animation", "image/gif"),
    "animation.mp4": ("animation", "video/mp4"),
}
"""Files of a run folder that a pack contains. Others may hold paths or notes of their author."""
_STORE = "run.zarr"


def files_to_pack(top: Path, runs: Sequence[Path], own: Sequence[Path] = ()) -> dict[str, Path]:
    """Return the files of a pack by their names in it.

    **Arguments:**

    - `top`: folder that contains all runs, or the only run folder.
    - `runs`: run folders.
    - `own`: files of the user's experiment.
    """
    files = {path.name: path for path in own}
    for folder in dict.fromkeys((top, *runs)):
        paths = [folder / name for name in _KINDS if (folder / name).is_file()]
        paths += store_files(folder / _STORE) if folder in runs else ()
        files |= {path.relative_to(top).as_posix(): path for path in paths}
    return files


def with_imports(file: Path) -> list[Path]:
    """Return a user's experiment file and the files beside it that it imports."""
    found = [file]
    for each in found:
        try:
            tree = ast.parse(each.read_text(encoding="utf-8"))
        except SyntaxError as error:
            raise ValueError(f"'{each}' is not valid Python: {error}. Mend the file.") from error
        for name in _imported(tree):
            beside = file.with_name(f"{name}.py")
            found += [beside] if beside.is_file() and beside not in found else []
    return found


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        yield from (name.partition(".")[0] for name in names)


def crate(
    top: Path, files: Mapping[str, Path], attributes: Mapping[Path, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the metadata of a pack; `attributes` are those of each run, by folder."""
    parts = [entity for name, path in sorted(files.items()) if (entity := _part(name, path))]
    made = [_made(top, folder, known, files) for folder, known in attributes.items()]
    labels = [str(run["name"]) for entities in made for run in entities[:1]]
    stores = [entity for entities in made for entity in entities[:1]]
    shared = {entity["@id"]: entity for entities in made for entity in entities[1:]}
    title = labels[0] if len(labels) == 1 else f"{len(labels)} runs of festina"
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": title,
        "description": f"Runs of experiments with festina: {', '.join(labels)}. "
        f"`festina show` and `festina report` open this file.",
        "datePublished": max(str(known["date"]) for known in attributes.values()),
        "license": "Not stated: ask the author of the runs before you use them.",
        "conformsTo": _link(f"{PROFILE}{PACK_VERSION}"),
        "hasPart": [_link(entity["@id"]) for entity in (*parts, *stores)],
        "mentions": [_link(id) for id, one in shared.items() if one["@type"] == "CreateAction"],
    }
    descriptor = {
        "@id": METADATA,
        "@type": "CreativeWork",
        "about": _link("./"),
        "conformsTo": _link("https://w3id.org/ro/crate/1.2"),
    }
    profile = {
        "@id": f"{PROFILE}{PACK_VERSION}",
        "@type": ["CreativeWork", "Profile"],
        "name": "Pack of festina",
        "version": str(PACK_VERSION),
    }
    graph = [descriptor, root, profile, *parts, *stores, *shared.values()]
    return {"@context": "https://w3id.org/ro/crate/1.2/context", "@graph": graph}


def _part(name: str, path: Path) -> dict[str, Any]:
    """Return the entity of a file; empty for files of a run store, which lists them itself."""
    if _STORE in Path(name).parts:
        return {}
    words, kind = _KINDS.get(path.name, ("code of the experiment", "text/x-python"))
    size = str(path.stat().st_size)
    return {
        "@id": identifier(name),
        "@type": "File",
        "name": words,
        "contentSize": size,
        "encodingFormat": kind,
    }


def _made(
    top: Path, folder: Path, known: Mapping[str, Any], files: Mapping[str, Path]
) -> list[dict[str, Any]]:
    """Return the entities of a run: its store, the action that made it, and the software."""
    place = folder.relative_to(top).as_posix()
    prefix = "" if place == "." else f"{place}/"
    values = known.get("parameters")
    values = values if isinstance(values, str) else json.dumps(values)
    label = labelled(str(known["experiment"]), str(known.get("preset") or ""))
    store = {
        "@id": identifier(f"{prefix}{_STORE}/"),
        "@type": "Dataset",
        "name": label,
        "description": "data of the run: a Zarr store, read by `festina.load` or xarray",
    }
    packages = {"festina": known["festina_version"], **known["versions"]}
    software = [
        {
            "@id": f"#{name}-{version}",
            "@type": "SoftwareApplication",
            "name": name,
            "version": str(version),
        }
        for name, version in packages.items()
    ]
    given = [name for name in (f"{prefix}parameters.toml",) if name in files]
    given += [name for name in files if name.endswith(".py") and known.get("file")]
    results = [f"{prefix}{name}" for name in _KINDS if name != "parameters.toml"]
    action = {
        "@id": f"#run-{identifier(place)}",
        "@type": "CreateAction",
        "name": f"run of {label}",
        "description": f"{known.get('seconds', '?')} s on {known.get('device', '?')}, "
        f"{known.get('system', '?')}; parameters "
        f"{values}; checksum of the code {known.get('code', '?')}",
        "endTime": str(known["date"]),
        "instrument": [_link(one["@id"]) for one in software],
        "object": [_link(identifier(name)) for name in given],
        "result": [_link(store["@id"])]
        + [_link(identifier(name)) for name in results if name in files],
    }
    return [store, action, *software]


def _link(id: str) -> dict[str, str]:
    return {"@id": id}


def attributes_of(runs: Sequence[Path]) -> dict[Path, dict[str, Any]]:
    """Return the attributes of each run; `ValueError` is raised for runs of no experiment."""
    found = {folder: _run.attributes(folder) for folder in runs}
    for folder, known in found.items():
        if not {"experiment", "date", "versions", "festina_version"} <= known.keys():
            raise ValueError(
                f"'{folder}' cannot be packed: its run was not made by `festina run`, or by an "
                "older festina that recorded no versions. Run the experiment again."
            )
    return found
