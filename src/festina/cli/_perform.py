"""One experiment from parameters to a complete run folder."""

import contextlib
import dataclasses
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from festina._beside import replacing
from festina.papers import Claim, Experiment, Parameters, Progress

from ._endings import unconverged
from ._folder import Building, unwritable
from ._parameters import in_force, to_toml
from ._signals import interruptible

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure


def perform(
    experiment: Experiment,
    parameters: Parameters,
    *,
    preset: str | None,
    out: Path | None,
    numbered_in: Path,
    progress: Progress,
    picture: str | None = None,
) -> tuple[Path, list[Claim], str]:
    """Run an experiment and write its folder. Where that cannot be written, nothing is run.

    Returns the folder, the claims, and a line on seeds that did not converge, if there are any.
    `picture` is the name of the file that the animation goes to, where one is wanted.
    """
    with Building(out, numbered_in=numbered_in) as folder:
        from festina._cache import compilation_cache
        from festina._run import save

        compilation_cache()
        # Standard output is for the claims.
        with interruptible(), contextlib.redirect_stdout(sys.stderr):
            run = experiment.run(parameters, key=None, progress=progress)
            run.attrs["experiment"] = experiment.name
            run.attrs["preset"] = in_force(experiment, preset, parameters) or ""
            run.attrs.setdefault("parameters", parameters.model_dump(mode="json"))
            progress("checking the claims", 1.0)
            claims = claims_of(experiment, run)
            progress("drawing", 1.0)
            figure = experiment.draw(run)
            if picture is not None:
                progress("animating", 1.0)
                save_picture(experiment, run, folder.path / picture)
        progress("writing", 1.0)
        try:
            save(run, folder.path / "run.zarr")
            write_claims(claims, folder.path)
            save_figure(figure, folder.path)
            text = to_toml(parameters, name=experiment.name)
            (folder.path / "parameters.toml").write_text(text, encoding="utf-8")
            return folder.finish(), claims, unconverged(run)
        except OSError as error:  # the disk is full, or the folder went away
            raise unwritable(out or numbered_in, error) from error


def claims_of(experiment: Experiment, run: "xr.DataTree") -> list[Claim]:
    """The claims of a run, under the name of its preset where it has one."""
    label = labelled(experiment.name, run.attrs.get("preset") or None)
    return [dataclasses.replace(claim, experiment=label) for claim in experiment.claims(run)]


def labelled(name: str, preset: str | None) -> str:
    return f"{name} ({preset})" if preset else name


def claims_json(claims: Iterable[Claim]) -> str:
    entries = [claim.to_json() for claim in claims]
    return json.dumps(entries, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_claims(claims: Iterable[Claim], folder: Path) -> None:
    with replacing(folder / "claims.json") as path:
        path.write_text(claims_json(claims), encoding="utf-8")


def save_figure(figure: "Figure", folder: Path) -> None:
    """`figure.png` and `figure.pdf`, the same bytes for the same run."""
    if (layout := figure.get_layout_engine()) is not None:
        # Once and for both files; left to `savefig`, each is drawn a second time for it.
        layout.execute(figure)
        figure.set_layout_engine("none")
    with replacing(folder / "figure.png") as path:
        figure.savefig(path, format="png", dpi=150)
    with replacing(folder / "figure.pdf") as path:
        figure.savefig(path, format="pdf", metadata={"CreationDate": None})


def save_picture(experiment: Experiment, run: "xr.DataTree", target: Path) -> None:
    """The animation of a run. Drawing its frames is what takes time, and writing draws them."""
    from festina.papers import save_animation

    assert experiment.animate is not None, "`moving_picture` has refused this before"
    animation = experiment.animate(run)
    with replacing(target) as path:
        save_animation(animation, path)
