"""A saved panel, read back by the names that claims and figures use."""

from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from ._tables import BROKEN_OFF

PAPER = "Zhang, Saxe & Latham"
PLATEAU, END = 1, -1
"""The two stages of training at which the weights are looked at."""

_RESTS, _DEEP = 1.0, 2.0  # decades


class Reading:
    """A saved panel: computes nothing that was not saved."""

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
        """The number that each seed is called by."""
        return self.simulation["seed"].values

    @property
    def curves(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Steps and losses of every seed, as long as it was trained."""
        saves, rows = self.simulation["saves"].values.tolist(), range(self.seeds)
        steps, losses = (self.simulation[name].values for name in ("step", "loss"))
        return [steps[k, : saves[k]] for k in rows], [losses[k, : saves[k]] for k in rows]

    @property
    def counts(self) -> np.ndarray:
        return self.plateaus["count"].values

    @property
    def strengths(self) -> np.ndarray:
        """Decades by which the squared gradient dips on the intermediate plateau of each seed."""
        return self.plateaus["strength"].values[:, PLATEAU]

    @cached_property
    def staircases(self) -> list[int]:
        """Seeds with three plateaus: those for which there is *the* intermediate one."""
        return np.flatnonzero(self.counts == 3).tolist()

    @cached_property
    def clean(self) -> np.ndarray:
        """Which seeds have three plateaus whose widths can be told.

        Where the squared gradient dips by less than a decade there is no width to tell. By less
        than two the next unit may be on its way: how many it takes may depend on the tolerance.
        """
        table = self.run["widths"].ds.isel(plateau=slice(3))
        fitted = table["fitted"].values
        settled = (fitted == fitted[..., :1]).all(axis=(1, 2))
        whole = table["clean"].values.all(axis=1) & (self.counts == 3)
        return whole & ((self.strengths >= _DEEP) | settled)

    @property
    def levels(self) -> np.ndarray:
        """Level of the intermediate plateau, one for each staircase."""
        return self.plateaus["level"].values[self.staircases, PLATEAU]

    @property
    def resting(self) -> list[int]:
        """Staircases on whose intermediate plateau the loss falls ten times as slowly."""
        return [seed for seed in self.staircases if self.strengths[seed] >= _RESTS]

    @property
    def trained(self) -> np.ndarray:
        """Which seeds were trained to the end of their run."""
        return ~np.isin(self.simulation["ending"].values, BROKEN_OFF)

    def weights(self, seed: int, stage: int) -> tuple[xr.DataArray, xr.DataArray]:
        """u and v of one seed on the plateau or at the end of training, with named axes."""
        if stage == END:
            return self.weights_at(seed, int(self.simulation["saves"].values[seed]) - 1)
        return self.weights_at(seed, int(self.plateaus["save"].values[seed, stage]))

    def weights_at(self, seed: int, save: int) -> tuple[xr.DataArray, xr.DataArray]:
        """u and v of one seed at one moment of its record."""
        at = {"seed": seed, "save": save}
        return self.simulation["u"].isel(at), self.simulation["v"].isel(at)
