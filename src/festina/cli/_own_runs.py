"""What the commands on own runs share: a model, a loss and data that the user names."""

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
    Parameter(
        name="CHECKPOINT", help="Weights: .pt (a state_dict), .safetensors or .npz, by names."
    ),
]
Model = Annotated[
    str,
    Parameter(help="MODULE:FUNCTION that makes the network: a torch module, or a tree of arrays."),
]
Loss = Annotated[
    str,
    Parameter(
        help="MODULE:FUNCTION that was minimised: of outputs and targets for a torch module "
        "(torch.nn.functional:cross_entropy), of model, inputs and targets for JAX."
    ),
]
Data = Annotated[Path, Parameter(help="An .npz or .safetensors with inputs x and targets y.")]
Figure = Annotated[Path | None, Parameter(help="Draw it into this file: .png, .pdf or .svg.")]


def present(*files: Path | None) -> None:
    """Complains of a file that is not there, before anything is imported for it."""
    for file in files:
        if file is not None and not file.expanduser().is_file():
            raise Complaint(f"There is no file '{file}'.")


def named(flag: str, name: str) -> Any:
    """What `package.module:name` stands for; the folder one stands in is looked in too."""
    module, _, attribute = name.partition(":")
    if not (module and attribute):
        raise Complaint(f"`{flag}` must be MODULE:FUNCTION, such as mine:make, got '{name}'.")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = importlib.import_module(module)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        parts = Path(os.path.relpath(module.removesuffix(".py"))).parts  # from here, without ./
        if module.endswith(".py") and ".." not in parts:
            reason = f"did you mean '{'.'.join(parts)}:{attribute}'?"
        raise Complaint(f"`{flag}`: '{module}' cannot be imported: {reason}") from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise Complaint(f"`{flag}`: there is no '{attribute}' in '{module}'.")
        found = getattr(found, part)
    return found


def made(flag: str, name: str) -> Any:
    """What a function without arguments makes, or what stands there already."""
    found = named(flag, name)
    from festina._narrowing._pytorch import is_module

    if is_module(found) or not callable(found):
        return found
    try:
        return found()
    except TypeError as error:
        raise Complaint(
            f"`{flag}`: '{name}' must make it without arguments: {error}. Write a function that "
            "calls it with yours."
        ) from error


def loss_of(name: str) -> Any:
    """A loss: a function, or what a class makes (torch.nn:CrossEntropyLoss)."""
    found = named("--loss", name)
    return found() if isinstance(found, type) else found


def data_for(model: Any, path: Path) -> tuple[Any, Any | None]:
    """Inputs and targets as the model takes them: whole numbers stay, others have its precision."""
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
    """Targets, without which there is no loss."""
    if y is None:
        raise Complaint(f"'{path}' has no targets 'y', which a loss needs.")
    return y


def number(flag: str, text: str, *, least: float = 0.0, most: float = float("inf")) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        within = f"from {least:g} to {most:g}" if most < float("inf") else f"from {least:g} up"
        raise Complaint(f"`{flag}` must be a number {within}, got '{text}'.")
    return value


def save_axes(axes: Any, path: Path) -> None:
    """The figure that was drawn on, in a file."""
    figure = getattr(axes, "figure", axes)
    try:
        figure.savefig(path, dpi=150)
    except ValueError as error:  # an ending that nothing writes
        raise Complaint(f"`--figure` '{path}' must end in .png, .pdf or .svg.") from error
    print(shorter(path))
