"""Read a saved panel under the names that claims and figures use."""

from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from ._tables import BROKEN_OFF

PAPER = "Zhang, Saxe & Latham"
PLATEAU, END = 1, -1
"""The two stages of training at which weights are examined."""

_RESTS, _DEEP = 1.0, 2.0  # strengths of a plateau in decades of the squared gradient


class Reading:
    """Saved run of a panel, with named quantities; only saved numbers are used."""

    def __init__(self, run: xr.DataTree, parameters: Any):
        self.run, self.parameters = run, parameters
        self.simulation, self.plateaus, self.theory, self.drops = (
            run[group].to_dataset() for group in ("simulation", "plateaus", "theory", "drops")
        )

    @property
    def seeds(self) -> int:
        return self.parameters.seeds

    @property
    def names(self) -> np.ndarray:
        """Random seed of each run, `(seed,)`."""
        return self.simulation["seed"].values

    @property
    def curves(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the steps and losses of every seed, up to the end of its training."""
        saves, rows = self.simulation["saves"].values.tolist(), range(self.seeds)
        steps, losses = (self.simulation[name].values for name in ("step", "loss"))
        return [steps[k, : saves[k]] for k in rows], [losses[k, : saves[k]] for k in rows]

    @property
    def counts(self) -> np.ndarray:
        return self.plateaus["count"].values

    @property
    def strengths(self) -> np.ndarray:
        """Decades by which the squared gradient dips on each seed's intermediate plateau."""
        return self.plateaus["strength"].values[:, PLATEAU]

    @cached_property
    def staircases(self) -> list[int]:
        """Return the indices of seeds with three plateaus, hence one intermediate plateau."""
        return np.flatnonzero(self.counts == 3).tolist()

    @cached_property
    def clean(self) -> np.ndarray:
        """Return which seeds have three plateaus with well-defined widths.

        A plateau on which the squared gradient dips by less than one decade has no well-defined
        width. If the squared gradient dips by less than two decades, the next unit may already be
        growing, and the width may depend on the tolerance.
        """
        table = self.run["widths"].ds.isel(plateau=slice(3))
        fitted = table["fitted"].values
        settled = (fitted == fitted[..., :1]).all(axis=(1, 2))
        whole = table["clean"].values.all(axis=1) & (self.counts == 3)
        return whole & ((self.strengths >= _DEEP) | settled)

    @property
    def levels(self) -> np.ndarray:
        """Loss on the intermediate plateau of each seed with three plateaus."""
        return self.plateaus["level"].values[self.staircases, PLATEAU]

    @property
    def resting(self) -> list[int]:
        """Return the seeds with an intermediate plateau on which the loss slows down tenfold."""
        return [seed for seed in self.staircases if self.strengths[seed] >= _RESTS]

    @property
    def trained(self) -> np.ndarray:
        """Return which seeds were trained to the end of their run."""
        return ~np.isin(self.simulation["ending"].values, BROKEN_OFF)

    def weights(self, seed: int, stage: int) -> tuple[xr.DataArray, xr.DataArray]:
        """Return u and v of one seed on the plateau or at the end, with named axes."""
        if stage == END:
            return self.weights_at(seed, int(self.simulation["saves"].values[seed]) - 1)
        return self.weights_at(seed, int(self.plateaus["save"].values[seed, stage]))

    def weights_at(self, seed: int, save: int) -> tuple[xr.DataArray, xr.DataArray]:
        """Return u and v of one seed at one saved step."""
        at = {"seed": seed, "save": save}
        return self.simulation["u"].isel(at), self.simulation["v"].isel(at)
