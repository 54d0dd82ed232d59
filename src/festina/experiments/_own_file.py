"""An experiment in a file of one's own, which no table lists."""

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from ._entry import Entry

NEEDED = ("Parameters", "run", "claims", "draw")


def is_file(name: str) -> bool:
    """Whether a file is meant, and not the name of an experiment."""
    return name.endswith(".py")


def entry_of(name: str) -> Entry:
    """The entry of the experiment in a file: called like the file, and nothing of it imported."""
    path = Path(name).expanduser().resolve()
    if not path.is_file():
        raise ValueError(f"There is no file '{name}' with an experiment.")
    return Entry(path.stem, "an experiment of your own", f"'{path.name}'", 10, "", file=str(path))


def module_of(entry: Entry) -> ModuleType:
    """Import the file, with those beside it in reach, as of a script. Once, as modules are."""
    path = Path(entry.file)
    name = f"festina_own_{path.stem}_{hashlib.sha256(entry.file.encode()).hexdigest()[:8]}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None, "it ends in .py"
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
            f"'{path}' is no experiment: it has no {', '.join(f'`{name}`' for name in missing)}. "
            "docs/contributing.md shows a whole one."
        )
    return module


def shown_by(module: ModuleType) -> str:
    """What an experiment shows: the first line of its docstring, as in the list of others."""
    first = (module.__doc__ or "").strip().partition("\n")[0].rstrip(".")
    return first or "an experiment of your own"
