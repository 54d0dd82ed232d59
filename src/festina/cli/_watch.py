"""`festina watch`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ._complaint import Complaint
from ._options import Debug, Number, Whole
from ._own_runs import (
    Data,
    Figure,
    Loss,
    Model,
    data_for,
    loss_of,
    made,
    number,
    present,
    save_axes,
    targets,
)

if TYPE_CHECKING:
    from festina.own import Checkpoint


def watch(
    files: Annotated[
        tuple[Path, ...],
        Parameter(
            name="CHECKPOINTS",
            help="Checkpoints of one run (.pt, .safetensors or .npz), or one table of its losses "
            "(.csv or .tsv).",
        ),
    ],
    /,
    *,
    model: Model | None = None,
    loss: Loss | None = None,
    data: Data | None = None,
    epoch: Annotated[
        Whole | None,
        Parameter(help="Number of steps in an epoch: drops at epoch boundaries are marked."),
    ] = None,
    tolerance: Annotated[
        Number | None,
        Parameter(help="Largest relative error that a narrower network's outputs may have."),
    ] = None,
    figure: Figure = None,
    debug: Debug = False,
) -> None:
    """Find the plateaus of your own run, and the effective width of the network on each plateau.

    Losses and steps are read from the checkpoints if they contain a `loss` and a `step`. Otherwise
    losses are computed from `--model`, `--loss` and `--data`, and steps are the numbers in the file
    names. Effective widths need `--model` and `--data`. A table of losses has the columns step and
    loss; a table gives plateaus without effective widths.
    """
    close = {} if tolerance is None else {"tolerance": number("--tolerance", tolerance, most=1.0)}
    steps_each = None if epoch is None else int(number("--epoch", epoch, least=1.0))
    if data is not None and model is None:
        raise Complaint("`--data` needs a `--model`: MODULE:FUNCTION that makes the network.")
    present(*files, data)
    from festina._narrowing._pytorch import is_module
    from festina.own import from_checkpoints, read_checkpoint, with_weights
    from festina.own._files import TABLES, read_losses

    if any(file.suffix in TABLES for file in files):
        if len(files) > 1 or model is not None or loss is not None:
            raise Complaint(
                "Give one table of losses without other files, `--model` or `--loss`: a table has "
                "no weights."
            )
        steps, losses = read_losses(next(iter(files)))
        run = from_checkpoints([], losses, steps=steps, at=[], epoch=steps_each)
        print(run.stairs())
        if figure is not None:
            save_axes(run.draw(), figure)
        return
    network = None if model is None else made("--model", model)
    given = None if data is None else data_for(network, data)
    criterion = None if loss is None else loss_of(loss)

    def read(file: Path) -> Any:
        weights = read_checkpoint(file).weights
        return with_weights(network, weights, origin=f"'{file}'")

    seen = [read_checkpoint(file)._replace(weights={}, optimizer=None) for file in files]
    if criterion is not None and given is not None and data is not None:
        x, y = given[0], targets(given[1], data)
        losses = [_loss(read(file), criterion, x, y) for file in files]
    else:
        losses = _losses(files, seen)
    run = from_checkpoints(files, losses, steps=_steps(files, seen), epoch=steps_each, read=read)
    whole = None if given is None else given[0] if given[1] is None else given
    # The loss of a tree is a function of weights, not outputs, so fixed points are not confirmed.
    print(run.stairs(whole, loss=criterion if is_module(network) else None, **close))
    if figure is not None:
        save_axes(run.draw(), figure)


def _losses(files: tuple[Path, ...], seen: "list[Checkpoint]") -> list[float]:
    losses = [each.loss for each in seen if each.loss is not None]
    if len(losses) < len(files):
        without = next(file for file, each in zip(files, seen, strict=True) if each.loss is None)
        raise Complaint(
            f"'{without}' has no `loss`. Give `--model`, `--loss` and `--data` to compute it: "
            "festina watch runs/*.pt --model mine:make --loss mine:loss --data data.npz"
        )
    return losses


def _steps(files: tuple[Path, ...], seen: "list[Checkpoint]") -> list[float]:
    """Return the step of each file, or the index of each file if some have no step."""
    if any(each.step is None for each in seen):
        return [float(k) for k in range(len(seen))]
    known = dict[int, Path]()
    for file, each in zip(files, seen, strict=True):
        assert each.step is not None
        if each.step in known:
            raise Complaint(
                f"'{known[each.step]}' and '{file}' are both of step {each.step}, expected one "
                "checkpoint for each step. Leave out one file, or rename it if the step comes from "
                "its name."
            )
        known[each.step] = file
    return [float(step) for step in known]


def _loss(model: Any, criterion: Any, x: Any, y: Any) -> float:
    from festina._narrowing._pytorch import is_module, torch

    if not is_module(model):
        return float(criterion(model, x, y))
    with torch().no_grad():
        return float(criterion(model.eval()(x), y))
