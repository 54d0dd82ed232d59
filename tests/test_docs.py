"""Test the documentation: public names have docstrings and examples, every page is reachable."""

import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest

from festina.experiments import experiment_names

DOCS = Path(__file__).parent.parent / "docs"
MADE = {"api", "experiments", "gallery.md", "_build", "_static", "_ext"}  # by `make docs`
sys.path.append(str(DOCS / "_ext"))
reference = importlib.import_module("reference")
NAMES = [
    pytest.param(thing, id=f"{module}.{name}")
    for module in reference.MODULES
    for name, thing in reference.public(module).items()
    if reference.HOMES[f"{module}.{name}"] == f"{module}.{name}"
    and (inspect.isclass(thing) or hasattr(thing, "__wrapped__") or inspect.isfunction(thing))
]  # constants and aliases of types have no docstring


@pytest.mark.parametrize("thing", NAMES)
def test_a_public_name_has_a_docstring_with_an_example(thing):
    assert ">>> " in (inspect.getdoc(thing) or "")


def test_navigation_reaches_every_page():
    written = {
        page.relative_to(DOCS).with_suffix("").as_posix()
        for page in DOCS.rglob("*.md")
        if page.relative_to(DOCS).parts[0] not in MADE
    }
    reached, open_ends = set(), ["index"]
    while open_ends:
        page = open_ends.pop()
        if page in reached or page.split("/")[0] in {"api", "gallery"}:
            continue
        reached.add(page)
        text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL):
            entries = [line for line in tree.splitlines() if line and not line.startswith(":")]
            here = (DOCS / page).parent
            for entry in entries:
                path = (here / entry).resolve().relative_to(DOCS.resolve())
                open_ends.append(path.as_posix())
    assert reached == written


def test_the_gallery_has_a_picture_and_claims_for_every_experiment():
    for name in experiment_names():
        stem = name.replace("/", "-")
        for kind in ("png", "json"):
            assert (DOCS / "gallery" / f"{stem}.{kind}").is_file(), name


def test_no_file_of_the_pages_is_large():
    written = (path for path in DOCS.rglob("*") if path.relative_to(DOCS).parts[0] not in MADE)
    large = [path.name for path in written if path.is_file() and path.stat().st_size > 200_000]
    assert large == []
