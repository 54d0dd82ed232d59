"""A saved panel, read back by the names that claims and figures use."""

import dataclasses
import json
import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from ..._old import compare
from ...claims import Claim, Judgement
from ._train import BROKEN_OFF

if TYPE_CHECKING:
    from ._panel import Panel

PAPER = "Zhang, Saxe & Latham"
PLATEAU, END = 1, -1
"""The two stages of training at which the weights are looked at."""

_DEEP = 2.0  # decades


class Reading:
    """A saved panel: computes nothing that was not saved."""

    def __init__(self, panel: "Panel", run: xr.DataTree):
        self.panel = panel
        self.run = run
        self.simulation = run["simulation"].to_dataset()
        self.plateaus = run["plateaus"].to_dataset()
        self.theory = run["theory"].to_dataset()
        self.drops = run["drops"].to_dataset()
        self.parameters = panel.parameters(**json.loads(run.attrs["parameters"]))
        self.preset = str(run.attrs.get("preset", ""))

    @property
    def source(self) -> str:
        return f"{PAPER}, Figure {self.panel.number}"

    @cached_property
    def widths(self) -> xr.Dataset:
        """Effective widths, of the panels that have them."""
        return self.run["widths"].to_dataset()

    @property
    def seeds(self) -> int:
        return self.parameters.seeds

    @property
    def counts(self) -> np.ndarray:
        return self.plateaus["count"].values

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
        table = self.widths.isel(plateau=slice(3))
        fitted = table["fitted"].values
        settled = (fitted == fitted[..., :1]).all(axis=(1, 2))
        deep = self.plateaus["strength"].values[:, PLATEAU] >= _DEEP
        whole = table["clean"].values.all(axis=1) & (self.counts == 3)
        return whole & (deep | settled)

    @property
    def levels(self) -> np.ndarray:
        """Level of the intermediate plateau, one for each staircase."""
        return self.plateaus["level"].values[self.staircases, PLATEAU]

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

    def compare(
        self, claim: str, predicted: Any, measured: Any, *, fragile: bool = False, **options: Any
    ) -> Claim:
        """A claim of this panel. A fragile one is known to fail where the panel has a caveat."""
        caveat = self.panel.caveat(self.parameters) if fragile else ""
        if caveat:
            options["expected"] = "does not hold"
            options["note"] = _joined(options.get("note"), caveat)
        options.setdefault("source", self.source)
        return compare(
            experiment=self.panel.name,
            claim=claim,
            predicted=predicted,
            measured=measured,
            **options,
        )

    def at_least(self, claim: str, share: float, holds: np.ndarray, **options: Any) -> Claim:
        """A claim that a share of seeds shows something, with one entry of `holds` for each seed.

        Which seeds count is the caller's choice: one that broke off and is `False` here counts as
        a failure. The claim fails if so few successes would be seen with a probability below 5 %
        (one-sided binomial test), and if there is none at all: of two seeds and fewer the test
        alone would let everything pass.
        """
        seen, total = int(np.sum(holds)), len(holds)
        options["note"] = _joined(f"{seen} of {total} seeds", options.get("note"))
        likely = seen > 0 and _at_most(seen, total, share) >= 0.05
        claim_ = self.compare(claim, 1, int(likely), **options)
        judged = Judgement(
            f"≥ {share:g} of seeds" if share < 1 else "all seeds",
            seen / total if total else float("nan"),
            "5 % test" if share < 1 else "all",
            bool(likely),
        )
        return dataclasses.replace(claim_, judged=judged)


def _joined(*notes: str | None) -> str:
    return "; ".join(filter(None, notes))


def _at_most(seen: int, total: int, share: float) -> float:
    """Probability of at most `seen` successes among `total`."""
    if not 0 < share < 1:
        return float(share <= 0 or seen >= total)
    # In logarithms: with a thousand seeds the binomial coefficients are no floats any more.
    return math.fsum(
        math.exp(
            math.lgamma(total + 1)
            - math.lgamma(k + 1)
            - math.lgamma(total - k + 1)
            + k * math.log(share)
            + (total - k) * math.log1p(-share)
        )
        for k in range(seen + 1)
    )
