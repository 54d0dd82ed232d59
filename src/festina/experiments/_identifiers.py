"""Read the identifiers of claims from the source of an experiment, without running it."""

import ast
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

Branches: TypeAlias = dict[int, int]
"""Branch of each statement around a call; two branches of one statement never both run."""

_LEAVES = ast.Return | ast.Raise | ast.Continue


def identifiers(module: ModuleType) -> tuple[str, ...] | None:
    """Return the identifiers of all claims of a module, or `None` if some cannot be read.

    A `*` stands for the filled-in parts of an f-string: `f"{name}-times"` becomes `*-times`.

    An identifier that is not kebab-case raises `ValueError`, and so do two claims with the same
    identifier in one function. Computed identifiers, and claims with several cases, are checked
    only when the claims are made.
    """
    from .claims._collector import check_identifier, twice

    try:
        file = Path(module.__file__ or "")
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except (AttributeError, OSError, SyntaxError, ValueError):  # no file, or no Python source
        return None
    collectors = {"claim", *_collectors(tree)}
    found: list[str] = []
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        earlier: list[tuple[str, str, Branches]] = []
        for call, branches in _calls(function.body, {}):
            if not isinstance(call.func, ast.Name) or call.func.id not in collectors:
                continue
            if (id := _written(call)) is None:
                continue
            found.append(id)
            if "*" in id or any(given.arg == "case" for given in call.keywords):
                continue
            line = f"{file.name}:{call.lineno}"
            check_identifier(id, line)
            for other, first, around in earlier:
                apart = any(around.get(at, branch) != branch for at, branch in branches.items())
                if other == id and not apart:
                    raise ValueError(twice(id, first, line))
            earlier.append((id, line, branches))
    return tuple(dict.fromkeys(found)) if _are_all_written(tree, collectors) else None


def is_without_identifiers(folder: Path) -> bool:
    """Return whether a folder has an old `claims.json`, whose claims have no identifiers."""
    try:
        entries = json.loads((folder / "claims.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    entries = entries if isinstance(entries, list) else []
    return any("id" not in entry for entry in entries if isinstance(entry, dict))


def _collectors(tree: ast.Module) -> Iterator[str]:
    """Yield the names of collectors: second arguments of `claims`, and each `ClaimCollector`."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name="claims", args=ast.arguments(args=[_, second])):
                yield second.arg
            case ast.arg(arg=name, annotation=ast.Name(id="ClaimCollector")):
                yield name
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="ClaimCollector"))
            ):
                yield name


def _calls(block: Sequence[ast.AST], around: Branches) -> Iterator[tuple[ast.Call, Branches]]:
    """Yield every call in a function, with the branches that contain it."""
    rest = list(block)
    while rest:
        node, *rest = rest
        match node:
            case ast.FunctionDef():
                pass
            case ast.If(test=test, body=body, orelse=otherwise):
                yield from _calls([test], around)
                yield from _calls(body, around | {id(node): 0})
                if isinstance(body[-1], _LEAVES):  # the statements that follow are the other branch
                    otherwise, rest = [*otherwise, *rest], []
                yield from _calls(otherwise, around | {id(node): 1})
            case ast.Match(subject=subject, cases=cases):
                yield from _calls([subject], around)
                for number, case in enumerate(cases):
                    yield from _calls(case.body, around | {id(node): number})
            case _:
                if isinstance(node, ast.Call):
                    yield node, around
                yield from _calls([*ast.iter_child_nodes(node)], around)


def _written(call: ast.Call) -> str | None:
    """Return the identifier of a claim, if it is a literal or an f-string."""
    match [*call.args, *(given.value for given in call.keywords if given.arg == "id")]:
        case [ast.Constant(value=str(text)), *_]:
            return text
        case [ast.JoinedStr(values=parts), *_]:
            texts = (part.value if isinstance(part, ast.Constant) else "*" for part in parts)
            return "".join(map(str, texts))
    return None


def _are_all_written(tree: ast.Module, collectors: set[str]) -> bool:
    """Return whether collectors are called with literals only, or passed on within the module."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    own = {f.name for f in functions if collectors & {argument.arg for argument in f.args.args}}
    own.add("list")
    expected: set[int] = set()
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            expected |= {id(call.func)} if _written(call) is not None else set()
            expected |= {id(given) for given in call.args} if call.func.id in own else set()
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
    loads = (node for node in names if node.id in collectors and isinstance(node.ctx, ast.Load))
    made_here = any(
        isinstance(node, ast.FunctionDef) and node.name == "claims" for node in tree.body
    )
    return made_here and all(id(node) in expected for node in loads)
