"""Read and save weights by name. Code in a file is never executed."""

import copy
import csv
import math
import os
import re
import zipfile
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeGuard, TypeVar

import jax.numpy as jnp
import numpy as np

from .._narrowing._pytorch import is_module, is_tensor, torch
from .._narrowing._trees import Tree
from .._optional import required

if TYPE_CHECKING:
    from torch import Tensor

_Model = TypeVar("_Model")

Weights: TypeAlias = Mapping[str, Any]
"""Dictionary from names to arrays of any library."""

_TORCH = (".pt", ".pth", ".ckpt", ".bin")
_KNOWN = (*_TORCH, ".safetensors", ".npz")
TABLES = (".csv", ".tsv")
_WEIGHTS = ("state_dict", "model_state_dict", "model", "weights", "params", "net")
_STEPS = ("global_step", "step", "steps", "iteration", "iter", "epoch")
_LOSSES = ("loss", "train_loss")
_OPTIMISERS = ("optimizer_state_dict", "optimizer", "optimizer_states")
_SAFETENSORS = "safetensors.numpy", "safetensors", "'festina[torch]'"
_RANKS = jnp.bool_, jnp.integer, jnp.floating, jnp.complexfloating
_WRAPPERS = ("_orig_mod.", "module.", "model.", "network.", "net.")


class Checkpoint(NamedTuple):
    """Result of `read_checkpoint`: weights by name, and step and loss if the file has them.

    If the file records no step, `step` is the last number in the file's name. `optimizer` is the
    state of a PyTorch optimiser, if the file has one.

    **Example:**

    >>> import tempfile
    >>> import torch
    >>> from festina.own import read_checkpoint
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saved = {"state_dict": {"w": torch.ones(2)}, "step": 100, "loss": 0.5}
    ...     torch.save(saved, f"{folder}/last.pt")
    ...     found = read_checkpoint(f"{folder}/last.pt")
    >>> found.step, found.loss, list(found.weights)
    (100, 0.5, ['w'])
    """

    weights: dict[str, Any]
    step: int | None
    loss: float | None
    optimizer: dict[str, Any] | None = None


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Read weights from a PyTorch file (`state_dict`), a `.safetensors` or an `.npz`.

    A checkpoint may hold other entries beside the weights. Raises `ValueError` for a file with a
    pickled module, because loading it would execute code in the file.

    **Example:**

    >>> import tempfile
    >>> import numpy as np
    >>> from festina.own import read_checkpoint
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/step-100.npz", w=[[1.0, 2.0]])
    ...     found = read_checkpoint(f"{folder}/step-100.npz")
    >>> found.step, found.weights["w"]
    (100, array([[1., 2.]]))
    """
    path = _path(path)
    found = _read(path)
    weights = found if _is_weights(found) else _weights_in(found, path)
    others = {} if weights is found else found
    step, loss = _number(others, _STEPS), _number(others, _LOSSES)
    digits = re.findall(r"\d+", path.stem)
    if step is None and digits:
        step = float(digits[-1])
    state: object = next((others[name] for name in _OPTIMISERS if name in others), None)
    if isinstance(state, list):  # Lightning saves a list, which may be empty
        state: object = next(iter(state), None)
    known = dict(state) if isinstance(state, Mapping) and "param_groups" in state else None
    at = None if step is None or not math.isfinite(step) else int(step)
    return Checkpoint(dict(weights), at, loss, known)


def read_data(path: str | Path) -> tuple[object, object | None]:
    """Read inputs `x` and optional targets `y` from an `.npz` or `.safetensors` file."""
    path = _path(path)
    found = _read(path, (".npz", ".safetensors"))
    if "x" not in found:
        names = ", ".join(f"'{name}'" for name in found) or "nothing"
        raise ValueError(f"'{path}' must hold inputs 'x' and targets 'y', it holds {names}.")
    return found["x"], found.get("y")


def read_losses(path: str | Path) -> tuple[list[float], list[float]]:
    """Return steps and losses of a `.csv` or `.tsv` table.

    The first line may name the columns: 'step' and 'loss', or similar names. A table without names
    has one column of losses, or a column of steps and a column of losses. Without a column of
    steps, the step is the number of the row. Rows without a loss are skipped. Raises `ValueError`
    unless steps increase from row to row.
    """
    path = Path(path).expanduser()
    _check_suffix(path, TABLES)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"'{path}' must be a table in plain text (UTF-8).") from error
    mark = max(",;\t", key=(lines or [""])[0].count)
    rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=mark)]
    rows = [row for row in rows if any(row)]
    if not rows:
        raise ValueError(f"'{path}' is empty: expected losses, one in each line.")
    named = any(_cell(cell) is None for cell in rows[0])
    names = [name.lower() for name in rows.pop(0)] if named else []
    at, when = _columns(path, names, width=len(names or rows[0]))
    steps, losses = list[float](), list[float]()
    for number, row in enumerate(rows):
        cells = [row[k] if k < len(row) else "" for k in (at, at if when is None else when)]
        if not cells[0]:
            continue
        loss, step = map(_cell, cells)
        if loss is None or step is None:
            raise ValueError(
                f"'{path}' must have a number for each step and loss, got {cells[0]!r} in line "
                f"{number + 1 + named}."
            )
        step = float(number) if when is None else step
        if when is not None and steps and not step > steps[-1]:
            column = f" of '{names[when]}'" if names else ""
            raise ValueError(
                f"'{path}' must have steps that rise from line to line, got {step:g} after "
                f"{steps[-1]:g}{column} in line {number + 1 + named}. If steps restart in each "
                "epoch, give steps that go on rising, or leave out the column to count rows."
            )
        losses.append(loss)
        steps.append(step)
    if not losses:
        raise ValueError(f"'{path}' has no losses: expected one number in each line.")
    return steps, losses


def _cell(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _columns(path: Path, names: list[str], width: int) -> tuple[int, int | None]:
    """Return the columns of losses and of steps."""
    if not names:
        if width > 2:
            raise ValueError(
                f"'{path}' has {width} columns without names: name them 'step' and 'loss' in the "
                "first line, or give two columns, steps and losses."
            )
        return width - 1, 0 if width == 2 else None
    when = next((names.index(name) for name in _STEPS if name in names), None)
    train = lambda name: "loss" in name and "val" not in name and "test" not in name
    likely = [k for k, name in enumerate(names) if name in (*_LOSSES, "train/loss")]
    likely = likely or [k for k, name in enumerate(names) if train(name)]
    likely = likely or [k for k in range(len(names)) if k != when and names[k] != "wall time"]
    if len(likely) != 1:
        raise ValueError(
            f"'{path}' must have one column of losses, got {', '.join(map(repr, names))}: name it "
            "'loss', and the steps 'step'."
        )
    return likely[0], when


def with_weights(model: _Model, weights: Weights, *, origin: str = "`weights`") -> _Model:
    """Return a copy of a model (a PyTorch module or a tree of arrays) with the given weights.

    Weights are converted to the array type and precision that they have in the model. `origin`
    names the weights in error messages. Raises `ValueError` if a name or a shape differs from the
    model's, and for numbers that the model's precision cannot hold: fractions as whole numbers,
    complex numbers as real numbers, or an overflow.

    **Example:**

    >>> import numpy as np
    >>> from festina.own import with_weights
    >>> with_weights({"w": np.zeros(2)}, {"w": np.array([1.0, 2.0])})
    {'w': array([1., 2.])}
    """
    have = named_weights(model)
    if not isinstance(weights, Mapping):
        kind = type(weights).__name__
        raise ValueError(f"{origin} must be a dict of arrays by their names, got {kind}.")
    given = _unwrapped(weights, have)
    _check(given, have, origin)
    cast = lambda name: _cast(name, _numpy(given[name]), _numpy(have[name]).dtype, origin)
    placed = {name: cast(name) for name in have}
    if is_module(model):
        module = copy.deepcopy(model)
        module.load_state_dict({name: _tensor(value) for name, value in placed.items()})
        return module
    ours = lambda name: np.asarray if isinstance(have[name], np.ndarray) else jnp.asarray
    return Tree(model, plain=True).replaced({n: ours(n)(each) for n, each in placed.items()})


def named_weights(model: object) -> dict[str, Any]:
    """Return weights by name: the `state_dict` of a module, or the arrays of a tree.

    The name of an array in a tree is its path, such as `layers.0.weight`.
    `np.savez("100.npz", **festina.own.named_weights(model))` saves a checkpoint.

    **Example:**

    >>> import numpy as np
    >>> from festina.own import named_weights
    >>> named_weights({"layers": [{"weight": np.ones((1, 2))}]})
    {'layers.0.weight': array([[1., 1.]])}
    """
    if is_module(model):
        return {name: each for name, each in model.state_dict().items() if is_tensor(each)}
    leaves = Tree(model, plain=True).leaves
    is_array = lambda leaf: hasattr(leaf, "shape") and hasattr(leaf, "dtype")
    found = {name: leaf for name, leaf in leaves.items() if is_array(leaf)}
    for name, leaf in found.items():
        _check_numbers(name, leaf, "`model`")
    return {name: leaf for name, leaf in found.items() if _rank(leaf.dtype) is not None}


def save_weights(path: str | Path, model: object) -> None:
    """Save the weights of a model by name to a `.safetensors`, an `.npz` or a `.pt` file.

    **Example:**

    >>> import tempfile
    >>> import numpy as np
    >>> from festina.own import read_checkpoint, save_weights
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_weights(f"{folder}/last.npz", {"w": np.ones(2)})
    ...     read_checkpoint(f"{folder}/last.npz").weights
    {'w': array([1., 1.])}
    """
    path = _path(path)
    _check_suffix(path, _KNOWN)
    weights = named_weights(model)
    if not weights:
        raise ValueError(
            f"`model` is a {type(model).__name__} without arrays, expected a module or a tree with "
            "arrays to save."
        )
    if path.suffix in _TORCH:
        torch().save(
            {n: a if is_tensor(a) else _tensor(_numpy(a)) for n, a in weights.items()}, path
        )
        return
    if path.suffix == ".safetensors":
        arrays = {name: np.asarray(_numpy(each), order="C") for name, each in weights.items()}
        required(*_SAFETENSORS).save_file(arrays, path)
        return
    with zipfile.ZipFile(path, "w") as archive:  # `np.savez` does not accept all names
        for name, each in plain_weights(model).items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, each, allow_pickle=False)


def plain_weights(model: object) -> dict[str, np.ndarray]:
    """Return weights by name as arrays of NumPy's own types; bfloat16 becomes float32."""
    arrays = {name: np.asarray(_numpy(w), order="C") for name, w in named_weights(model).items()}
    return {n: a if a.dtype.isbuiltin == 1 else a.astype(np.float32) for n, a in arrays.items()}


def _check_numbers(name: str, value: object, origin: str) -> None:
    kind = getattr(value, "dtype", None)
    what = "masked values" if np.ma.is_masked(value) else "objects" if kind == np.dtype("O") else ""
    if what:
        raise ValueError(f"{origin} has {what} in '{name}', expected an array of numbers.")


def _path(path: object) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"`path` must be the name of a file, got {type(path).__name__}.")
    return Path(path).expanduser()


def _rank(dtype: np.dtype) -> int | None:
    """Return the rank of a type in the order bool, integer, real, complex; None for other types."""
    return next((k for k, kind in enumerate(_RANKS) if jnp.issubdtype(dtype, kind)), None)


def _numpy(value: object) -> np.ndarray:
    """Return an array in the machine's byte order; JAX's type stands for bfloat16."""
    if is_tensor(value):
        value = value.detach().cpu()
        if value.dtype == torch().bfloat16:
            return value.float().numpy().astype(jnp.bfloat16)
    found = np.asarray(value)
    return found if found.dtype.isnative else found.astype(found.dtype.newbyteorder("="))


def _tensor(value: np.ndarray) -> "Tensor":
    if value.dtype == jnp.bfloat16:
        return torch().from_numpy(value.astype(np.float32)).bfloat16()
    return torch().from_numpy(value.copy())


def _cast(name: str, value: np.ndarray, dtype: np.dtype, origin: str) -> np.ndarray:
    given, wanted = _rank(value.dtype), _rank(dtype)
    with np.errstate(over="ignore"):
        fits = given is not None and wanted is not None and given <= wanted
        found = value.astype(dtype) if fits else value
    lost = wanted == 1 and (found != value).any()
    if not fits or lost or (np.isfinite(value) & ~np.isfinite(found)).any():
        raise ValueError(
            f"{origin} cannot be loaded into this model: '{name}' has type {value.dtype}, and the "
            f"model's type {dtype} cannot hold these numbers."
        )
    return found


def _read(path: Path, known: tuple[str, ...] = _KNOWN) -> Any:
    _check_suffix(path, known)
    if not path.is_file():
        raise ValueError(f"There is no file '{path}'.")
    try:
        if path.suffix == ".npz":
            if not zipfile.is_zipfile(path):  # NumPy would load the file as a pickle
                raise ValueError("it is not an archive of arrays")
            with np.load(path, allow_pickle=False) as arrays:
                return dict(arrays)
        if path.suffix == ".safetensors":
            return required(*_SAFETENSORS).load_file(path)
        return torch().load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # each library raises its own types
        if "weights_only" in str(error) or "allow_pickle" in str(error):
            raise ValueError(
                f"'{path}' holds other objects than weights, and loading them would execute code. "
                "Save weights alone: `torch.save(model.state_dict(), …)`, or safetensors."
            ) from error
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise ValueError(f"'{path}' cannot be read as {path.suffix}: {reason}") from error


def _check_suffix(path: Path, known: tuple[str, ...]) -> None:
    if path.suffix not in known:
        raise ValueError(f"'{path}' must end in one of {', '.join(known)}.")


def _is_weights(found: object) -> TypeGuard[Weights]:
    return (
        isinstance(found, Mapping)
        and len(found) > 0
        and all(is_tensor(each) or isinstance(each, np.ndarray) for each in found.values())
    )


def _weights_in(found: object, path: Path) -> Weights:
    """Return the weights of a checkpoint, which may also hold other entries."""
    inside = found if isinstance(found, Mapping) else {}
    for name in _WEIGHTS:
        weights = inside.get(name)
        if _is_weights(weights):
            return weights
    names = ", ".join(f"'{name}'" for name in inside) or type(found).__name__
    raise ValueError(
        f"'{path}' must hold weights by their names, or have them under one of "
        f"{', '.join(_WEIGHTS)}; it holds {names}."
    )


def _number(found: Weights, names: tuple[str, ...]) -> float | None:
    for name in names:
        value = found.get(name)
        if is_tensor(value) and value.numel() == 1:
            value = value.item()
        if isinstance(value, Real) and not isinstance(value, bool):
            return float(value)
    return None


def _unwrapped(weights: Weights, have: Weights) -> Weights:
    """Return weights by name, without the prefix that a compiler, distributor or trainer adds."""
    given = dict(weights)
    for prefix in _WRAPPERS:
        if not set(given) & set(have) and all(str(name).startswith(prefix) for name in given):
            given = {name.removeprefix(prefix): each for name, each in given.items()}
    return given


def _check(given: Weights, have: Weights, origin: str) -> None:
    lacks, more = sorted(set(have) - set(given)), sorted(set(given) - set(have))
    if lacks or more:
        words = [f"it lacks '{name}'" for name in lacks[:1]]
        words += [f"it has '{name}', which the model lacks" for name in more[:1]]
        raise ValueError(f"{origin} is of another model: {' and '.join(words)}.")
    for name, value in have.items():
        if not hasattr(given[name], "shape"):
            kind = type(given[name]).__name__
            raise ValueError(f"{origin} must hold arrays, '{name}' is a {kind}.")
        _check_numbers(name, given[name], origin)
        if tuple(given[name].shape) != tuple(value.shape):
            raise ValueError(
                f"{origin} is of another model: '{name}' has shape {tuple(given[name].shape)} "
                f"there and {tuple(value.shape)} in the model."
            )
