"""A page for every public name and every command, made from the package itself."""

import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

MODULES = (
    *("festina", "festina.tasks", "festina.tasks.worlds", "festina.networks", "festina.dynamics"),
    *("festina.dynamics.posterior", "festina.theory.linear", "festina.theory.gated"),
    *("festina.theory.saddles", "festina.theory.coding", "festina.theory.decisions"),
    *("festina.diagnose", "festina.own", "festina.experiments", "festina.experiments.claims"),
    *("festina.experiments.figures", "festina.sweeps", "festina.report"),
)


def public(module):
    """Return the names that `module` offers, without packages."""
    home = importlib.import_module(module)
    names = [name for name in dir(home) if not name.startswith("_")]
    things = {name: getattr(home, name) for name in sorted(names, key=str.lower)}
    return {
        name: thing
        for name, thing in things.items()
        if not inspect.ismodule(thing) and f"{module}.{name}" not in MODULES
    }


def homes():
    """Map each public name to the one under which the reference describes it."""
    places = {}
    for module in MODULES:
        for name, thing in public(module).items():
            defined = getattr(thing, "__module__", None) or module
            places.setdefault(id(thing), []).append((f"{module}.{name}", f"{defined}."))
    found = {}
    for same in places.values():
        # The public module that defines it, else the longest one, which is the most specific.
        inside = [full for full, defined in same if defined.startswith(full.rpartition(".")[0])]
        best = max(inside or [full for full, _ in same], key=len)
        found |= {full: best for full, _ in same}
    return found


HOMES = homes()


def summary(thing):
    """Return the first paragraph of a docstring, on one line, for a cell of a table."""
    text = inspect.getdoc(thing) or ""
    return " ".join(text.partition("\n\n")[0].split()).replace("|", r"\|")


def page_of(module, name, thing):
    kind = "class" if inspect.isclass(thing) else "function" if callable(thing) else "data"
    members = "   :members:\n   :special-members: __call__\n" if kind == "class" else ""
    return (
        f"---\nmodule: {module}\n---\n\n# {name}\n\n"
        f"```{{eval-rst}}\n.. auto{kind}:: {module}.{name}\n{members}```\n"
    )


def page_of_module(module):
    rows, tree = [], []
    for name, thing in public(module).items():
        home, _, own = HOMES[f"{module}.{name}"].rpartition(".")
        rows.append(f"| [`{name}`]({home}/{own}.md) | {summary(thing)} |")
        if home == module:
            tree.append(f"{name} <{module}/{name}>")
    lines = "\n".join(rows)
    about = inspect.getdoc(importlib.import_module(module))
    return (
        f"---\nmodule: {module}\n---\n\n# {module}\n\n{about}\n\n| name | what it does |\n"
        f"| --- | --- |\n{lines}\n\n" + toctree(tree, "hidden:")
    )


def toctree(entries, option):
    return f"```{{toctree}}\n:{option}\n\n" + "\n".join(entries) + "\n```\n"


def page_of_commands():
    """Return the page with the help of every command, as a terminal of 80 columns shows it."""
    overview = help_of()
    commands = re.findall(r"(?m)^│ ([a-z]\w*) ", overview)
    parts = ["# Command line\n", f"```text\n{overview}\n```\n"]
    for command in commands:
        parts.append(f"## festina {command}\n\n```text\n{help_of(command)}\n```\n")
    return "\n".join(parts)


def help_of(*command):
    call = [Path(sys.executable).with_name("festina"), *command, "--help"]
    plain = {"COLUMNS": "80", "TERM": "dumb", "NO_COLOR": "1"}
    return subprocess.run(
        call, capture_output=True, text=True, check=True, env=os.environ | plain
    ).stdout.strip("\n")


def write(path, text):
    """Write a page only if it changed, so that Sphinx reads only what is new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def pages(app):
    folder, made = Path(app.srcdir) / "api", {}
    for module in MODULES:
        made[f"{module}.md"] = page_of_module(module)
        for name, thing in public(module).items():
            if HOMES[f"{module}.{name}"] == f"{module}.{name}":
                made[f"{module}/{name}.md"] = page_of(module, name, thing)
    made["command-line.md"] = page_of_commands()
    made["index.md"] = (
        "# Reference\n\nEvery public name of festina, by package, and every command.\n\n"
        + toctree([*MODULES, "command-line"], "maxdepth: 1")
    )
    for name, text in made.items():
        write(folder / name, text)
    for path in folder.rglob("*.md"):  # of names that are gone
        if path.relative_to(folder).as_posix() not in made:
            path.unlink()


def setup(app):
    app.connect("builder-inited", pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
