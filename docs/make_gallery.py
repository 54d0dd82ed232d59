"""Make the pictures and the claims of the gallery from saved runs: `make gallery` calls this file.

festina reproduce all --quick --out runs
python docs/make_gallery.py runs
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from PIL import Image

import festina
from festina.experiments import ExperimentRun, experiment_names, load_experiment
from festina.experiments._runner import write_figure
from festina.report._page import in_words

GALLERY = Path(__file__).parent / "gallery"
DPI = 110.0
DPI_OF_IMAGES = 90.0  # lower, because these files have no palette
COLOURS = 128
"""Colours of the palette of a figure without images. A palette makes the file several times
smaller and keeps the colours of lines and text, but it changes the colours of a colour map."""


def saved(runs: Path, name: str) -> Path | None:
    """Return the run of an experiment in a folder of `festina reproduce`, or `None`."""
    store = runs / name / "run.zarr"
    return store if store.exists() else None


def has_images(figure: Figure) -> bool:
    """Return whether a figure contains an image or other values drawn with a colour map."""
    drawn = (each for ax in figure.axes for each in (*ax.images, *ax.collections))
    return any(each.get_array() is not None for each in drawn)


def draw(run: ExperimentRun, stem: Path) -> None:
    """Draw the figure of a run as a PNG, with a palette if the figure contains no images."""
    figure = run.experiment.draw(run.data)
    images = has_images(figure)
    dpi = DPI_OF_IMAGES if images else DPI
    (path,) = write_figure(figure, stem, dpi=dpi, formats=("png",))
    plt.close(figure)
    with Image.open(path) as picture:
        small = picture.convert("RGB")
        if not images:
            small = small.quantize(COLOURS, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


def row(claim: dict[str, Any]) -> dict[str, str]:
    """Return what a page of the gallery shows of a claim."""
    numbers = {key: in_words(claim[key]) for key in ("predicted", "measured", "tolerance")}
    remarks = (claim["correction"], claim["wrong"], claim["note"])
    texts = {key: str(claim[key] or "") for key in ("id", "words", "at", "verdict")}
    return texts | numbers | {"remark": "; ".join(filter(None, remarks))}


def main(runs: Path) -> None:
    """Make the picture and the claims of every experiment that has a run; name the others."""
    missing = []
    for name in experiment_names():
        store = saved(runs, name)
        if store is None:
            missing.append(name)
            continue
        run = ExperimentRun(load_experiment(name), festina.load(store))
        stem = GALLERY / name.replace("/", "-")
        draw(run, stem)
        rows = [row(claim.to_json()) for claim in run.claims]
        text = json.dumps(rows, indent=1, ensure_ascii=False)
        stem.with_suffix(".json").write_text(f"{text}\n", encoding="utf-8")
    if missing:
        sys.exit(f"'{runs}' has no run of {', '.join(missing)}: they keep their old pictures.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
