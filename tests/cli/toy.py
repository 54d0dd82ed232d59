"""Toy experiment in NumPy, with every kind of parameter and every way to end.

`python toy.py TOKENS` is `festina TOKENS` with this experiment instead of the real ones.
"""

import os
import signal
import time
from dataclasses import replace
from typing import Literal

import numpy as np
import xarray as xr
from matplotlib.animation import FuncAnimation
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from pydantic import Field, PositiveFloat, model_validator

from festina import papers
from festina.experiments import ExperimentEntry
from festina.experiments import Parameters as Common
from festina.experiments.claims import ClaimCollector, agree, equal_to


class Parameters(Common):
    width: int = Field(default=10, ge=1)
    """Number of hidden units."""

    initial_scale: float = Field(default=1e-3, gt=0)
    """Standard deviation of the initial weights, which has a docstring that is
    longer than one line of the source."""

    activation: Literal["linear", "relu", "tanh"] = "linear"
    """Which nonlinearity."""

    samples: int | None = Field(default=None, ge=1)
    """How many samples; none for population statistics."""

    spectrum: tuple[float, ...] = (1.0, 0.5)
    """Singular values of the teacher."""

    teacher: tuple[tuple[float, float], tuple[float, float]] = ((1.0, 0.5), (-0.5, 0.25))
    """The matrix itself."""

    variances: tuple[PositiveFloat, PositiveFloat] = (1.0, 1.0)
    """Variances of two coordinates, which are never zero."""

    white: bool = True
    """Whether the inputs are white."""

    ending: Literal[
        "well", "wrong", "value", "bug", "interrupt", "killed", "slow", "compiled", "early"
    ] = "well"
    """How the run ends."""

    @model_validator(mode="after")
    def _narrow(self):
        if self.samples is not None and self.samples < self.width:
            raise ValueError(f"`samples` is {self.samples}, below the width {self.width}.")
        return self


PRESETS = {"printed": {"width": 3, "samples": 20}}
QUICK = {"seeds": 2, "width": 4}


def run(parameters, *, key=None, progress=None):
    assert key is None
    if "TOY_LOG" in os.environ:  # log each run by its width and its process
        with open(os.environ["TOY_LOG"], "a") as log:
            log.write(f"{parameters.width} {os.getpid()}\n")
    time.sleep(float(os.environ.get("TOY_NAP", "0")))
    print("chatter that belongs to standard error", flush=True)
    if parameters.width == int(os.environ.get("TOY_SLOW", "-1")):
        time.sleep(60)
    if progress is not None:
        progress("training", 0.5)
    if parameters.ending == "compiled":
        compiled()
    match parameters.ending:
        case "value":
            raise ValueError("the learning rate 3 is above\nthe stability limit 2")
        case "bug":
            raise TypeError("cannot add apples and pears")
        case "interrupt":
            raise KeyboardInterrupt
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "slow":
            time.sleep(60)
    rng = np.random.default_rng(parameters.seed)
    times = np.linspace(0.0, 5.0, 21)
    start = rng.uniform(1.0, 2.0, parameters.seeds)[:, None]
    loss = xr.DataArray(start * np.exp(-times), {"time": times}, ("seed", "time"))
    early = np.arange(parameters.seeds) >= (1 if parameters.ending == "early" else np.inf)
    endings = {
        "ending": ("seed", np.where(early, "out of steps", "converged")),
        "message": ("seed", [f"Stopped at step {10 * k}." for k in range(parameters.seeds)]),
    }
    simulation = xr.Dataset({"loss": loss, **endings}).assign_coords(
        seed=parameters.seed + np.arange(parameters.seeds)
    )
    tree = xr.DataTree.from_dict({"simulation": simulation})
    tree.attrs["width"] = parameters.width
    tree.attrs["offset"] = float(parameters.ending == "wrong")
    return tree


def compiled():
    """Let JAX compute in the background for a long time while Python sleeps."""
    import jax

    # a matrix, because JAX would finish with a single number before it returns
    x = jax.numpy.zeros((64, 64))
    result = jax.jit(lambda x: jax.lax.fori_loop(0, 10**9, lambda _, x: x @ x, x))(x)
    print("under way", flush=True)
    time.sleep(60)
    return result


def claims(run):
    claim = ClaimCollector("toy/one", "Toy", "Figure 1")
    loss = run["simulation"]["loss"].values
    ratio = (loss[:, -1] / loss[:, 0]).mean() + run.attrs["offset"]
    claim("decay", "the loss falls as e^-t", agree(ratio, np.exp(-5.0), within=1e-9))
    claim(
        "width",
        "[width] as printed",
        agree(np.arange(8)[-1:] * 0 + run.attrs["width"], np.int64(run.attrs["width"])),
        corrected="Eq. 3 lacks a factor of two",
    )
    claim(
        "direction",
        "the text says it rises",
        equal_to("falls", "rises"),
        wrong="it falls",
        instead=agree(ratio - run.attrs["offset"], np.exp(-5.0), within=1e-9),
    )
    return list(claim)


def draw(run):
    figure = Figure()
    loss = run["simulation"]["loss"]
    figure.subplots().plot(loss["time"].values, loss.values.T)
    return figure


def animate(run):
    figure = Figure(figsize=(2, 2))
    FigureCanvasAgg(figure)
    loss = run["simulation"]["loss"].values[0]
    (line,) = figure.subplots().plot(loss)
    return FuncAnimation(
        figure, lambda k: line.set_data(range(k + 2), loss[: k + 2]), frames=5, interval=50
    )


EXPERIMENTS = (
    ExperimentEntry(
        "toy/one", "a loss that falls", "Toy, Figure 1", 1.0, __name__, ("zhang2025saddle",)
    ),
    ExperimentEntry(
        "toy/two", "the same again", "Toy, Figure 2", 1.0, __name__, ("saxe2014exact",)
    ),
)

if __name__ == "__main__":
    from festina.cli import main

    # Other processes import this file as `toy`, because its folder is on `sys.path`
    papers.EXPERIMENTS = tuple(replace(entry, module="toy") for entry in EXPERIMENTS)
    main()
