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
        Number, Parameter(help="How far outputs of the narrower network may be off.")
    ] = "0.1",
    tune: Annotated[
        bool, Parameter(help="Train the narrower network to the outputs of the wide one.")
    ] = True,
    out: Annotated[
        Path | None, Parameter(help="Save the narrower weights here: .safetensors, .pt or .npz.")
    ] = None,
    figure: Figure = None,
    debug: Debug = False,
) -> None:
    """Find how small a network of your own could be, and make it that small."""
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
