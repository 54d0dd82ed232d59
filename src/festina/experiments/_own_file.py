"""Load an experiment from a file of the user."""

import hashlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from ._experiment_entry import ExperimentEntry

NEEDED = ("Parameters", "run", "claims", "draw")


def is_file(name: str) -> bool:
    """Return whether a name is the path of a file."""
    return name.endswith(".py")


def entry_of(name: str) -> ExperimentEntry:
    """Return the entry of the experiment in a file without importing the file."""
    path = Path(name).expanduser().resolve()
    if not path.is_file():
        raise ValueError(f"There is no file '{name}' with an experiment.")
    return ExperimentEntry(
        path.stem, "an experiment of your own", f"'{path.name}'", 10, "", file=str(path)
    )


def module_of(entry: ExperimentEntry) -> ModuleType:
    """Import the file of an experiment once, with its folder on `sys.path` as for a script."""
    path = Path(entry.file)
    name = f"festina_own_{path.stem}_{_checksum(path)[:8]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None, "the path ends in .py"
        assert spec.loader is not None
        if str(path.parent) not in sys.path:
            sys.path.insert(0, str(path.parent))
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            del sys.modules[name]
            if isinstance(error, Exception):
                reason = f"{type(error).__name__}: {error}"
                raise ValueError(f"'{path}' cannot be imported: {reason}") from error
            raise
    module = sys.modules[name]
    if missing := [name for name in NEEDED if not hasattr(module, name)]:
        raise ValueError(
            f"'{path}' is not an experiment: it does not define "
            f"{', '.join(f'`{name}`' for name in missing)}. docs/guides/experiment.md "
            "contains a complete example."
        )
    return module


def shown_by(module: ModuleType) -> str:
    """Return the description of an experiment: the first line of its module's docstring."""
    first = (module.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    return first or "an experiment of your own"


def file_attributes(file: str) -> dict[str, str]:
    """Return the attributes of a run by which `file_of_run` recognises the file that made it.

    `file` is relative to the working folder, or the bare name of a file outside this folder. The
    checksum is that of the absolute path, which is not stored itself.
    """
    if not file:
        return {"file": ""}
    path, here = Path(file), Path.cwd()
    below = path.relative_to(here) if path.is_relative_to(here) else Path(path.name)
    return {"file": below.as_posix(), "file_checksum": _checksum(path)}


def file_of_run(attributes: Mapping[Any, Any], run: Path) -> Path | None:
    """Return the file that made a run, if it is still at the same place in the working folder.

    The file will be executed, and the run may come from a stranger. A file delivered with the run
    has the recorded absolute path only if the stranger knew this path.
    """
    here, name = Path.cwd(), Path(str(attributes["file"]))
    for folder in (here, *run.resolve().parents):
        path = (folder / name).resolve()
        known = name.is_absolute() or attributes.get("file_checksum") == _checksum(path)
        if known and path.is_relative_to(here) and path.is_file():
            return path
    return None


def _checksum(path: Path) -> str:
    return hashlib.sha256(str(path).encode()).hexdigest()[:16]
