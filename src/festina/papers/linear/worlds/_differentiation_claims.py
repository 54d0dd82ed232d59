"""Progressive differentiation: what the slides say that must happen, against what does."""

import json

import numpy as np
import xarray as xr

from ..._old import compare
from ...claims import Claim
from .._slides import slide

NAME = "linear/differentiation"
_MUST = slide("Progressive differentiation")
_FALLS = "falls with every level"


def claims(run: xr.DataTree) -> list[Claim]:
    """The hierarchy in the singular vectors and values, and in the order of learning."""
    parameters = json.loads(run.attrs["parameters"])
    hierarchy, deep, shallow = (run[name].to_dataset() for name in ("hierarchy", "deep", "shallow"))
    return [
        *_mirror_claims(hierarchy, parameters["sampled_features"]),
        *_decay_claims(hierarchy),
        *_deep_claims(deep, parameters["initial_strength"]),
        _trees_claim(run["trees"].to_dataset()),
        *_shallow_claims(deep, shallow, parameters["initial_strength"]),
    ]


def _mirror_claims(hierarchy: xr.Dataset, features: int) -> list[Claim]:
    v = hierarchy["mode_of_items"].values
    along = v.T @ hierarchy["covariance"].values @ v
    claims = [
        compare(
            experiment=NAME,
            claim="singular vectors mirror the tree: contrasts between branches are uncorrelated "
            "(largest covariance)",
            source=_MUST,
            predicted=0.0,
            measured=float(np.abs(along - np.diag(np.diag(along))).max()),
            tolerance=1e-10,
        )
    ]
    turn = _turns(hierarchy, features)
    told = turn < 0.5
    if told.any():
        claims.append(
            compare(
                experiment=NAME,
                claim=f"singular vectors of {features} sampled features lie in the levels of the "
                f"tree ({'largest sine, level by level' if told.all() else 'of those far apart'})",
                source=_MUST,
                predicted=np.zeros(told.sum()),
                measured=hierarchy["outside"].values[told],
                tolerance=float(turn[told].max()),
            )
        )
    return claims


def _turns(hierarchy: xr.Dataset, features: int) -> np.ndarray:
    """Sampling turns a level towards another by √(cc′)/|c − c′| times the noise: a bound for each.

    A level that is nearer to another than the noise cannot be told from it in so few samples.
    """
    c = hierarchy["eigenvalue"].values
    apart = np.abs(c[:, None] - c) + np.where(np.eye(len(c)), np.inf, 0.0)
    noise = (np.sqrt(hierarchy.sizes["item"]) + 4) / np.sqrt(features)
    return 2 * noise * np.max(np.sqrt(c[:, None] * c) / apart, axis=1)


def _decay_claims(hierarchy: xr.Dataset) -> list[Claim]:
    level = hierarchy["level_of_mode"].values
    mean = lambda values: [float(values[level == k].mean()) for k in np.unique(level)]
    numerical = mean(hierarchy["numerical"].values)
    return [
        compare(
            experiment=NAME,
            claim="squared singular values per feature, level by level: c of the closed form",
            source=_MUST,
            predicted=hierarchy["eigenvalue"].values,
            measured=numerical,
            tolerance=1e-9,
            relative=True,
            note="measured by diagonalising the covariance",
        ),
        compare(
            experiment=NAME,
            claim="singular values decay with depth in the tree",
            source=_MUST,
            predicted=_FALLS,
            measured=_FALLS if (np.diff(numerical) < 0).all() else "does not",
        ),
    ]


def _deep_claims(deep: xr.Dataset, initial_strength: float) -> list[Claim]:
    half = deep["chains_half_time"].values
    random, predicted = deep["random_half_time"].values, deep["random_theory_half_time"].values
    product = deep["inner_products"] - deep["inner_products_theory"]
    weakest = float(deep["singular_value"].min())
    second_order = initial_strength**2 / (weakest * float(deep["weakest_growth"].min()))
    logarithm = np.log(weakest / initial_strength)
    middle = np.median(random, axis=0)
    moved = np.linalg.norm(deep["place"].values - deep["place_theory"].values, axis=-1).max()
    farthest = np.linalg.norm(deep["place_theory"].values, axis=-1).max()
    return [
        compare(
            experiment=NAME,
            claim="half-rise times of the levels, broad to fine: ln(s/a₀ − 1)/2s",
            source=_MUST,
            predicted=deep["chains_theory_half_time"].values,
            measured=half,
            tolerance=1e-6,
            relative=True,
            note="decoupled weights; levels come one after the other",
        ),
        compare(
            experiment=NAME,
            claim="levels are learned from the top: how many come after the one above",
            source=_MUST,
            predicted=len(half) - 1,
            measured=int((np.diff(half) > 0).sum()),
        ),
        compare(
            experiment=NAME,
            claim="hidden representations: inner products of all items over time (largest "
            "difference)",
            source=_MUST,
            predicted=0.0,
            measured=float(np.abs(product).max()),
            tolerance=1e-6 * weakest,
            note="decoupled weights",
        ),
        compare(
            experiment=NAME,
            claim="small random weights: half-rise times of levels from the growing part of the "
            "weights (largest relative error)",
            source=_MUST,
            predicted=0.0,
            measured=float(np.abs(random / predicted - 1).max()),
            tolerance=min(float(second_order) + 1e-5, 0.02),
            note="tolerance a₀²/(s γ), γ the least that grows",
        ),
        compare(
            experiment=NAME,
            claim="small random weights: the items' places in the hidden layer at all times, in "
            "units of the farthest (largest distance)",
            source=_MUST,
            predicted=0.0,
            measured=float(moved / farthest),
            tolerance=float(4 * np.sqrt(2 * initial_strength) / farthest),
            note="at the start they are where random weights put them, within √(2a₀)",
        ),
        compare(
            experiment=NAME,
            claim="small random weights: median half-rise times of the levels as from equal "
            "strengths a₀",
            source=_MUST,
            predicted=deep["chains_theory_half_time"].values,
            measured=middle,
            tolerance=float(2 / logarithm),
            relative=True,
            note="strengths of random weights scatter, and modes share hidden units",
        ),
    ]


def _trees_claim(trees: xr.Dataset) -> Claim:
    return compare(
        experiment=NAME,
        claim="networks must differentiate progressively: how many of these random trees are "
        "learned level by level",
        source=_MUST,
        predicted=trees.sizes["tree"],
        measured=int(trees["ordered"].sum()),
        note="any branching, any flips between 0 and ½, equal small initial strengths",
    )


def _shallow_claims(deep: xr.Dataset, shallow: xr.Dataset, initial_strength: float) -> list[Claim]:
    half, deep_half = shallow["half_time"].values, deep["chains_half_time"].values
    deep_theory = deep["chains_theory_half_time"].values
    return [
        compare(
            experiment=NAME,
            claim="shallow: all levels follow the same exponential (largest difference)",
            source=_MUST,
            predicted=0.0,
            measured=float(np.abs(shallow["strength"] - shallow["theory"]).max()),
            tolerance=1e-6,
        ),
        compare(
            experiment=NAME,
            claim="shallow: no differentiation, the last level's half-rise time over the first's",
            source=_MUST,
            predicted=1.0,
            measured=float(half[-1] / half[0]),
            tolerance=float(4 * initial_strength / deep["singular_value"].min()) + 1e-6,
        ),
        compare(
            experiment=NAME,
            claim="deep: the last level's half-rise time over the first's",
            source=_MUST,
            predicted=float(deep_theory[-1] / deep_theory[0]),
            measured=float(deep_half[-1] / deep_half[0]),
            tolerance=1e-6,
            relative=True,
        ),
    ]
