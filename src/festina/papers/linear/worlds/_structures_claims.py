"""What the slides say of structured worlds, against diagonalisation, sampling and training."""

import json

import numpy as np
import xarray as xr

from ..._old import compare
from ...claims import Claim
from .._slides import slide

NAME = "linear/structures"
_LINK = slide("Connecting neural nets and graphical models")
_DIVERSE = slide("Learning diverse structures")


def claims(run: xr.DataTree) -> list[Claim]:
    """Spectra and modes of every world, and when they are learned."""
    worlds = {name: node.to_dataset() for name, node in run.children.items()}
    parameters = json.loads(run.attrs["parameters"])
    return [
        *(_spectrum_claim(name, world) for name, world in worlds.items()),
        _modes_claim(worlds),
        *(
            _sampled_claim(name, world, parameters["sampled_features"])
            for name, world in worlds.items()
        ),
        _uncorrelated_claim(worlds),
        _order_claim(worlds),
        *_time_claims(worlds, parameters["initial_strength"]),
    ]


def _spectrum_claim(name: str, world: xr.Dataset) -> Claim:
    """Each eigenvalue once; the numerical ones are means over those that coincide."""
    level = world["level_of_mode"].values
    mean = lambda values: [float(values[level == k].mean()) for k in np.unique(level)]
    return compare(
        experiment=NAME,
        claim=f"{name}: eigenvalues of the covariance over items in closed form",
        source=_LINK,
        predicted=mean(world["eigenvalue"].values),
        measured=mean(world["numerical"].values),
        tolerance=1e-9,
        relative=True,
        note=world.attrs["world"],
    )


def _modes_claim(worlds: dict[str, xr.Dataset]) -> Claim:
    return compare(
        experiment=NAME,
        claim="contrasts of trees and clusters, waves of chains, rings, grids and tori are the "
        "modes: |Cv − cv|, largest",
        source=_LINK,
        predicted=0.0,
        measured=max(float(world["residual"]) for world in worlds.values()),
        tolerance=1e-10,
    )


def _sampled_claim(name: str, world: xr.Dataset, features: int) -> Claim:
    """Whitened samples have singular values within 1 ± (√(P/N) + t/√N), t = 4 for Gaussians."""
    ratio = world["sampled"].values / np.sqrt(world["eigenvalue"].values)
    return compare(
        experiment=NAME,
        claim=f"{name}: singular values of {features} sampled features over √(Nc), smallest and "
        "largest",
        source=_LINK,
        predicted=[1.0, 1.0],
        measured=[float(ratio.min()), float(ratio.max())],
        tolerance=float((np.sqrt(world.sizes["item"]) + 4) / np.sqrt(features)),
        note="the slides' limit of many features",
    )


def _uncorrelated_claim(worlds: dict[str, xr.Dataset]) -> Claim:
    return compare(
        experiment=NAME,
        claim="sampled features are uncorrelated along different modes: largest correlation, in "
        "standard errors",
        source=_LINK,
        predicted=0.0,
        measured=max(float(world["correlation_in_errors"]) for world in worlds.values()),
        tolerance=6.0,
        note="over all pairs of modes of all worlds",
    )


def _order_claim(worlds: dict[str, xr.Dataset]) -> Claim:
    late = [np.diff(world["chains_half_time"].values) > 0 for world in worlds.values()]
    return compare(
        experiment=NAME,
        claim="modes are learned in the order of their eigenvalues: how often the next comes later",
        source=_DIVERSE,
        predicted=sum(len(steps) for steps in late),
        measured=int(sum(steps.sum() for steps in late)),
        note="counted over all worlds, from equal initial strengths",
    )


def _time_claims(worlds: dict[str, xr.Dataset], initial_strength: float) -> list[Claim]:
    tables = worlds.values()
    weakest = min(float(world["singular_value"].min()) for world in tables)
    growth = min(float(world["weakest_growth"].min()) for world in tables)
    apart = lambda a, b: np.concatenate([np.ravel(world[a] / world[b] - 1) for world in tables])
    chains = apart("chains_half_time", "chains_theory_half_time")
    random = apart("random_half_time", "random_theory_half_time")
    simple = apart("simple_half_time", "random_half_time")
    curves = [np.abs(world["chains"] - world["chains_theory"]).max() for world in tables]
    return [
        compare(
            experiment=NAME,
            claim="decoupled weights: every mode of every world follows its chain (largest "
            "difference, as a fraction of s)",
            source=_DIVERSE,
            predicted=0.0,
            measured=float(max(curves)),
            tolerance=1e-6,
        ),
        compare(
            experiment=NAME,
            claim="decoupled weights: half-rise times are ln(s/a₀ − 1)/2s (largest relative "
            "difference)",
            source=_DIVERSE,
            predicted=0.0,
            measured=float(np.abs(chains).max()),
            tolerance=1e-6,
        ),
        compare(
            experiment=NAME,
            claim="small random weights: half-rise times from the growing part of the weights "
            "(largest relative error)",
            source=_DIVERSE,
            predicted=0.0,
            measured=float(np.abs(random).max()),
            tolerance=min(initial_strength**2 / (weakest * growth) + 1e-5, 0.02),
            note="what the prediction leaves out is of second order in the weights; tolerance "
            "a₀²/(s γ), γ the least that grows",
        ),
        compare(
            experiment=NAME,
            claim="small random weights: half-rise times of chains with effective strengths "
            "(median relative error)",
            source=_DIVERSE,
            predicted=0.0,
            measured=float(np.median(np.abs(simple))),
            tolerance=float(1 / np.log(weakest / initial_strength)),
            note="modes share hidden units, which costs a time of order 1/s",
        ),
    ]
