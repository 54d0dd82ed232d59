"""`festina shrink`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from ._options import Debug, Number
from ._own_runs import Data, Figure, File, Model, data_for, made, number, present, save_axes
from ._progress import Progress


def shrink(
    file: File,
    /,
    *,
    model: Model,
    data: Data,
    tolerance: Annotated[
        Number, Parameter(help="Largest relative error of the smaller network's outputs.")
    ] = "0.1",
    tune: Annotated[
        bool, Parameter(help="Train the smaller network to match the outputs of yours.")
    ] = True,
    out: Annotated[
        Path | None,
        Parameter(help="Save the smaller network's weights to this .safetensors, .pt or .npz."),
    ] = None,
    figure: Figure = None,
    debug: Debug = False,
) -> None:
    """Find the smallest network that computes the same as yours, to within a tolerance."""
    close = number("--tolerance", tolerance, most=1.0)
    present(file, data)
    import festina
    from festina.own import read_checkpoint, save_weights, with_weights

    made_by = made("--model", model)
    network = with_weights(made_by, read_checkpoint(file).weights, origin=f"'{file}'")
    x, y = data_for(network, data)
    with Progress() as progress:
        progress.stage("shrink")
        found = festina.shrink(network, x, y=y, tolerance=close, tune=tune, progress=progress)
    print(found)
    if out is not None:
        save_weights(out, found.model)
        print(out)
    if figure is not None:
        save_axes(found.draw(), figure)
