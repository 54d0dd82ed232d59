"""Tests of the imports described in docs/architecture.md: one direction, without cycles."""

import ast
import functools
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[1] / "src" / "festina"

ORDER = (
    {"networks"},
    {"tasks"},
    {"_objective"},
    {"_numerics"},
    {"dynamics", "theory"},
    {"_narrowing"},
    {"diagnose"},
    {"own"},
    {"experiments"},
    {"papers"},
    {"sweeps"},
    {"report"},
    {"explore"},
    {"cli"},
    {"__main__"},
)
"""Packages by level; each imports only from lower levels. Packages not listed are lowest."""


def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(HOUSE.rglob("*.py")):
        parts = path.relative_to(HOUSE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imports(name: str) -> Iterator[str]:
    """Yield the festina modules that a module imports anywhere, except for type checkers.

    A name that a package re-exports counts as an import of the module that defines the name.
    Otherwise a package that re-exports its own modules would form a cycle with them.
    """
    path = MODULES[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in _run(_tree(name)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: package.count(".") + 2 - node.level]
            base = ".".join((*above, *filter(None, [node.module]))) if node.level else node.module
            for alias in node.names:
                if base in MODULES:
                    yield _home(base, alias.name)


@functools.cache
def _tree(name: str) -> ast.Module:
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


def _run(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes of a syntax tree, except those under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from _run(node)


def _home(package: str, name: str) -> str:
    """Return the module that defines a name which `package` re-exports."""
    if f"{package}.{name}" in MODULES:
        return f"{package}.{name}"
    if MODULES[package].name == "__init__.py":
        for node in _tree(package).body:
            if isinstance(node, ast.ImportFrom) and node.level == 1:
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        inner = f"{package}.{node.module}" if node.module else package
                        return _home(inner, alias.name) if inner in MODULES else package
    return package


def room(name: str) -> str:
    return [*name.split("."), ""][1]


def floor(name: str) -> int:
    """Return the level of a module in `ORDER`, −1 if its package is not listed."""
    return next((k for k, rooms in enumerate(ORDER) if room(name) in rooms), -1)


def circle(asks: dict[str, set[str]]) -> list[str]:
    try:
        TopologicalSorter(asks).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def house() -> dict[str, set[str]]:
    return {name: set(imports(name)) - {name} for name in MODULES}


def test_no_module_asks_in_a_circle():
    assert circle(house()) == []


def test_rooms_ask_only_downwards():
    upwards = [
        f"{name} asks {other}"
        for name, those in house().items()
        for other in those
        if floor(other) >= max(floor(name), 0) and room(other) != room(name)
    ]
    assert upwards == []


def test_what_is_tested_is_the_house():
    """Imports are found in functions and through re-exports, but not those for type checkers."""
    asks = house()
    assert "festina.cli._show" in asks["festina.cli._cite"]  # imported in a function
    assert "festina.theory.saddles._stairs" in asks["festina.theory.saddles._staircase"]
    # re-exported by the package
    assert "festina.dynamics._trajectory" in asks["festina.diagnose._plateaus_of_batch"]
    assert asks["festina"] == {"festina._lazy"}  # names are imported when first used
    assert {room(name) for name in asks} >= set().union(*ORDER)


@pytest.mark.parametrize("length", [2, 3])
def test_a_circle_is_found(length):
    asks = {str(k): {str((k + 1) % length)} for k in range(length)}
    assert len(circle(asks)) == length + 1


def test_every_file_that_the_page_names_is_there():
    page = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(?:[\w/]+/)?(_\w+\.py)`", page))
    assert len(named) > 50
    assert named <= {path.name for path in HOUSE.rglob("*.py")}
