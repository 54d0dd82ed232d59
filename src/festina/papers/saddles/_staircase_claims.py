"""What is claimed of predicted staircases, read off a saved run."""

import numpy as np
import xarray as xr

from .._claim import Claim, compare

_NAME = "saddles/staircase"
_LEMMA = "Zhang, Saxe & Latham, Lemma 6"
_AGF = "Kunin et al. (2025), alternating gradient flows"
_SOURCES = {
    "power": _LEMMA,
    "mixed": _LEMMA,
    "diagonal": "Pesme & Flammarion (2023), Algorithm 1",
    "attention": _AGF,
}
_WORDS = {
    "power": "linear, power law",
    "mixed": "linear, modes that mix",
    "diagonal": "diagonal, correlated features",
    "attention": "attention, unequal tokens",
}
# Plateaus of fewer decades pass their saddle at a distance: their level is not that of the saddle.
_CLEAN = 2.0

_NOISE = 1e-4  # relative error of a passage between saved samples of training


def staircase_claims(run: xr.DataTree) -> list[Claim]:
    """Levels, times and active sets against training, in every setting."""
    tables = {name: run[name].to_dataset() for name in _SOURCES}
    found = []
    for name, table in tables.items():
        found.append(_levels(name, table))
        if name == "diagonal":
            found.append(_active(table))
        if "scale" in table.dims:
            found += _times(name, table)
    return [*found, *_attention(tables["attention"])]


def _shown(table: xr.Dataset) -> xr.Dataset:
    """The scale at which levels and times are judged: 1e-8, or the one nearest to it."""
    if "scale" not in table.dims:
        return table
    distance = np.abs(np.log(table["scale"].values) - np.log(1e-8))
    return table.isel(scale=int(distance.argmin()))


def _levels(name: str, table: xr.Dataset) -> Claim:
    """Each clean plateau of training against the nearest predicted level, but for the last."""
    here = _shown(table)
    apart = []
    for seed in range(here.sizes["seed"]):
        levels, rest, strength = (
            _known(here[key].isel(seed=seed)) for key in ("level", "rest", "strength")
        )
        for value, decades in zip(rest[:-1], strength[:-1], strict=True):
            if decades >= _CLEAN:
                apart.append(float(np.abs(levels / value - 1).min()))
    return compare(
        experiment=_NAME,
        claim=f"{_WORDS[name]}: plateaus of training lie on predicted levels (largest deviation)",
        source=_SOURCES[name],
        predicted=0.0,
        measured=max(apart, default=np.nan),
        tolerance=0.01,
        note=f"{len(apart)} plateaus with {_CLEAN:g} or more decades between the speeds",
    )


def _times(name: str, table: xr.Dataset) -> list[Claim]:
    """Jumps at 1e-8, and that predictions get better towards smaller weights."""
    table = table.assign(error=abs(table["jump"] / table["passage"] - 1).where(_alone(table)))
    here = _shown(table)
    typical = table["error"].max("fall").median("seed").values
    return [
        compare(
            experiment=_NAME,
            claim=f"{_WORDS[name]}: jump times from the initial weights (largest relative error)",
            source=_SOURCES[name],
            predicted=0.0,
            measured=float(here["error"].max()),
            tolerance=0.05,
            note=f"at ε = {float(here['scale']):.0e}, {int(here['error'].count())} jumps that are "
            "more than 10 % apart",
        ),
        compare(
            experiment=_NAME,
            claim=f"{_WORDS[name]}: the error of the jump times falls with ε, or is below 1e-4",
            source=_SOURCES[name],
            predicted="falls",
            measured="falls" if typical[-1] < max(typical[0], _NOISE) else "does not fall",
            note="largest error of a network, median: "
            + ", ".join(
                f"{value:.1e} at {scale:.0e}"
                for value, scale in zip(typical, table["scale"].values, strict=True)
            ),
        ),
    ]


def _alone(table: xr.Dataset) -> xr.DataArray:
    """Jumps with none within 10 % of their time: others have no plateau in between."""
    jumps = table["jump"]
    before, after = jumps.shift(fall=1), jumps.shift(fall=-1)
    return ~((jumps < 1.1 * before) | (after < 1.1 * jumps))


def _active(table: xr.Dataset) -> Claim:
    """Active coordinates on clean plateaus against those of the level."""
    here = _shown(table)
    right, total = 0, 0
    for seed in range(here.sizes["seed"]):
        row = here.isel(seed=seed)
        levels = _known(row["level"])
        for plateau, (rest, decades) in enumerate(
            zip(_known(row["rest"]), _known(row["strength"]), strict=True)
        ):
            if decades >= _CLEAN:
                stage = int(np.abs(levels - rest).argmin())
                total += 1
                right += bool((row["active"][stage] == row["seen"][plateau]).all())
    return compare(
        experiment=_NAME,
        claim="diagonal, correlated features: plateaus with the predicted active coordinates",
        source=_SOURCES["diagonal"],
        predicted=total,
        measured=right,
    )


def _attention(table: xr.Dataset) -> list[Claim]:
    """The closed form of the levels, the first jump of each seed, and later ones over seeds."""
    closed = table["closed_form"].values
    levels = _known(table["level"])
    # Every subset of directions has a level; those in the order of their variances are the rule.
    first = abs(table["jump"] / table["passage"] - 1).isel(fall=0)
    usual = np.nanmedian(table["level"].values, axis=0)[: len(closed)]
    # Neither what was not trained for as long, nor what was not predicted to come by then.
    trained = table.assign(jump=table["jump"].where(table["jump"] <= table["end"].max()))
    later = trained.isel(fall=slice(1, None))
    often = later["passage"].notnull() & later["jump"].notnull()
    later = later.isel(fall=(often.sum("seed") >= 0.5 * table.sizes["seed"]).values)
    ratio = (later["jump"] / later["passage"]).median("seed").values
    distance = [
        _kolmogorov(_known(later["jump"].isel(fall=k)), _known(later["passage"].isel(fall=k)))
        for k in range(later.sizes["fall"])
    ]
    seeds = table.sizes["seed"]
    found = [
        compare(
            experiment=_NAME,
            claim="attention: levels tr Λ − Σ λ/(1 + (1 + tr Λ/λ)/N), in the order of λ (median)",
            source=_AGF,
            predicted=closed[: len(usual)],
            measured=usual,
            tolerance=0.01,
            relative=True,
            note=f"{len(levels)} levels, half of them because the loss has a ½",
        ),
        compare(
            experiment=_NAME,
            claim="attention: first jump of every seed from its initial weights (relative error)",
            source="Zhang, Saxe & Latham, Proposition 5",
            predicted=0.0,
            measured=float(first.max()),
            tolerance=0.05,
            correction="units may bounce, and v is a vector",
        ),
    ]
    if not len(ratio):  # one direction, or none reached by most
        return found
    return [
        *found,
        compare(
            experiment=_NAME,
            claim="attention: later jumps, predicted over measured (median over seeds)",
            source=_AGF,
            predicted=[1.0] * len(ratio),
            measured=ratio,
            tolerance=0.05,
        ),
        compare(
            experiment=_NAME,
            claim="attention: later jumps, largest distance of the distributions over seeds",
            source=_AGF,
            predicted=0.0,
            measured=max(distance, default=np.nan),
            tolerance=round(1.36 * np.sqrt(2.0 / seeds), 3),
            note=f"Kolmogorov and Smirnov's, at 5 % for {seeds} seeds",
        ),
    ]


def _kolmogorov(a: np.ndarray, b: np.ndarray) -> float:
    """Largest difference of the two empirical distributions."""
    from scipy.stats import ks_2samp

    return float(ks_2samp(a, b, method="asymp").statistic)  # pyright: ignore[reportAttributeAccessIssue]


def _known(values: xr.DataArray) -> np.ndarray:
    """Without what pads rows to one length."""
    flat = values.values.ravel()
    return flat[~np.isnan(flat)]
