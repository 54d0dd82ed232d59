"""Options of `watch`, `forecast` and `shrink`: the user's model, loss, data and files."""

import importlib
import os
import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ._complaint import Complaint
from ._folder import shorter

File = Annotated[
    Path,
    Parameter(name="CHECKPOINT", help="Weights by name: .pt (a state_dict), .safetensors or .npz."),
]
Model = Annotated[
    str,
    Parameter(
        help="MODULE:FUNCTION that returns the network: a torch module, or a tree of arrays."
    ),
]
Loss = Annotated[
    str,
    Parameter(
        help="MODULE:FUNCTION of the training loss. Its arguments are outputs and targets for a "
        "torch module (torch.nn.functional:cross_entropy), and model, inputs and targets for JAX."
    ),
]
Data = Annotated[Path, Parameter(help="File with inputs x and targets y: .npz or .safetensors.")]
Figure = Annotated[Path | None, Parameter(help="Draw the result to this file: .png, .pdf or .svg.")]


def present(*files: Path | None) -> None:
    """Raise `Complaint` if a file does not exist, before the slow imports."""
    for file in files:
        if file is not None and not file.expanduser().is_file():
            raise Complaint(f"There is no file '{file}'.")


def named(flag: str, name: str) -> Any:
    """Return the object `package.module:name`; its module may be in the working folder."""
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise Complaint(f"`{flag}` must be MODULE:FUNCTION, such as mine:make, got '{name}'.")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = importlib.import_module(module)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        parts = Path(os.path.relpath(module.removesuffix(".py"))).parts  # in the working folder
        if module.endswith(".py") and ".." not in parts:
            reason = f"did you mean '{'.'.join(parts)}:{attribute}'?"
        raise Complaint(f"`{flag}`: '{module}' cannot be imported: {reason}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise Complaint(f"`{flag}`: there is no '{attribute}' in '{module}'.")
        found = getattr(found, part)
    return found


def made(flag: str, name: str) -> Any:
    """Return the model that a function without arguments makes, or the named model itself."""
    found = named(flag, name)
    from festina._narrowing._pytorch import is_module

    if is_module(found) or not callable(found):
        return found
    try:
        return found()
    except TypeError as error:
        raise Complaint(
            f"`{flag}`: '{name}' must take no arguments: {error}. Write a function without "
            f"arguments that calls '{name}' with your arguments."
        ) from error


def loss_of(name: str) -> Any:
    """Return a loss: the named function, or an instance of a class (torch.nn:CrossEntropyLoss)."""
    found = named("--loss", name)
    return found() if isinstance(found, type) else found


def data_for(model: Any, path: Path) -> tuple[Any, Any | None]:
    """Return inputs and targets for the model: floats in its precision, whole numbers unchanged."""
    from festina._narrowing._pytorch import is_module, torch
    from festina.own._files import read_data

    x, y = read_data(path)
    if not is_module(model):
        return x, y
    first = next(model.parameters())

    def placed(array: Any) -> Any:
        tensor = torch().as_tensor(array)
        kind = first.dtype if tensor.is_floating_point() else tensor.dtype
        return tensor.to(first.device, kind)

    return placed(x), None if y is None else placed(y)


def targets(y: Any, path: Path) -> Any:
    """Return the targets; raise `Complaint` if the file has no targets."""
    if y is None:
        raise Complaint(f"'{path}' has no targets 'y', which a loss needs: add an array 'y'.")
    return y


def number(flag: str, text: str, *, least: float = 0.0, most: float = float("inf")) -> float:
    """Return the value of a flag as a number; raise `Complaint` outside `least` to `most`."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        within = f"from {least:g} to {most:g}" if most < float("inf") else f"from {least:g} up"
        raise Complaint(f"`{flag}` must be a number {within}, got '{text}'.")
    return value


def save_axes(axes: Any, path: Path) -> None:
    """Save the figure of these axes to a file."""
    figure = getattr(axes, "figure", axes)
    try:
        figure.savefig(path, dpi=150)
    except ValueError as error:  # no writer for this suffix
        raise Complaint(f"`--figure` '{path}' must end in .png, .pdf or .svg.") from error
    print(shorter(path))
