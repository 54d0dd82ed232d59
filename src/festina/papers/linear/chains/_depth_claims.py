"""How the time of training grows with depth: exponentially, linearly, or not at all."""

import json
import math

import numpy as np
import xarray as xr

from ..._old import compare
from ...claims import Claim
from .._slides import slide

NAME = "linear/depth"
_SPEED = slide("Training speed")
_EFFECT = slide("Effect of initialization")


def claims(run: xr.DataTree) -> list[Claim]:
    """Closed forms against integration, the laws of the slides, and whole networks."""
    parameters = json.loads(run.attrs["parameters"])
    small, pretrained = run["small"].to_dataset(), run["pretrained"].to_dataset()
    modules, orthogonal = run["modules"].to_dataset(), run["orthogonal"].to_dataset()
    return [
        _exact("small weights", small),
        *_small_law(small, parameters["layer_strength"], parameters["correlation"]),
        *(_exact(f"pretrained in modules of {m}", pretrained.sel(module=m)) for m in (2, 4)),
        _linear(pretrained),
        *(_module_times(modules.sel(module=m)) for m in (2, 4)),
        *_module_laws(modules),
        _exact("orthogonal layers", orthogonal),
        *_orthogonal_laws(orthogonal),
        *_networks(run["networks"].to_dataset()),
        _gaussian(run["gaussian"].to_dataset(), parameters["gain"]),
    ]


def _exact(which: str, data: xr.Dataset) -> Claim:
    listed = ", ".join("∞" if np.isinf(d) else f"{d:g}" for d in data["depth"].values)
    return compare(
        experiment=NAME,
        claim=f"{which}: time to learn at depth {listed}",
        source=_EFFECT,
        predicted=data["theory"].values,
        measured=data["time"].values,
        tolerance=1e-5,
        relative=True,
    )


def _small_law(data: xr.Dataset, b0: float, s: float) -> list[Claim]:
    deep = data["far"].values
    time = data["far_time"].values
    depth = int(deep[0])
    stronger = data["correlation"].values
    rate = np.diff(np.log(time * (deep - 2) / deep))[0] / 2
    slope = math.log(float(data["far_time_stronger"]) / time[0]) / math.log(stronger[-1] / s)
    return [
        compare(
            experiment=NAME,
            claim="small weights: the time grows exponentially with depth, at the rate ln(1/b₀)",
            source=_EFFECT,
            predicted=math.log(1 / b0),
            measured=float(rate),
            tolerance=0.02,
            relative=True,
            note=f"at depth {depth}, up to a factor D/(D − 2)",
        ),
        compare(
            experiment=NAME,
            claim=f"small weights, depth {depth}: the time is 1/(s b₀ᴰ)",
            source=_SPEED,
            predicted=depth / (depth - 2) / (s * b0 ** (depth - 2)),
            measured=float(time[0]),
            tolerance=0.03,
            relative=True,
            correction="D/(D − 2) · 1/(s b₀ᴰ⁻²): the slides put a₀ = b₀ᴰ into the formula of "
            "infinite depth",
            note=f"as printed it gives {1 / (s * b0**depth):.4g}",
        ),
        compare(
            experiment=NAME,
            claim=f"small weights, depth {depth}: the time as a power of s",
            source=_SPEED,
            predicted=-1.0,
            measured=slope,
            tolerance=0.02,
        ),
        compare(
            experiment=NAME,
            claim="small weights, depth 8: time times s, for s = "
            + ", ".join(f"{value:g}" for value in stronger),
            source=_SPEED,
            predicted=data["theory_at_eight"].values * stronger,
            measured=data["time_at_eight"].values * stronger,
            tolerance=1e-5,
            relative=True,
        ),
    ]


def _linear(data: xr.Dataset) -> Claim:
    """Logarithmic slope over all depths."""
    depth = np.log(data["depth"].values)
    slopes = [np.polyfit(depth, np.log(row), 1)[0] for row in data["time"].values]
    return compare(
        experiment=NAME,
        claim="pretrained in modules of 2 and of 4: the time as a power of depth",
        source=_EFFECT,
        predicted=[1.0, 1.0],
        measured=slopes,
        tolerance=0.15,
        note="a module for each layer; tuning the stack adds little",
    )


def _module_times(data: xr.Dataset) -> Claim:
    listed = ", ".join(f"{value:g}" for value in data["strength"].values)
    return compare(
        experiment=NAME,
        claim=f"one module of {int(data['module'])} layers, from b₀ = {listed}: time to learn",
        source=_EFFECT,
        predicted=data["theory"].values,
        measured=data["time"].values,
        tolerance=1e-5,
        relative=True,
    )


def _module_laws(data: xr.Dataset) -> list[Claim]:
    strength = data["strength"].values
    two, four = data["time"].sel(module=2).values, data["time"].sel(module=4).values
    step = math.log(strength[1] / strength[2])
    return [
        compare(
            experiment=NAME,
            claim="pretraining takes a time O(D/b₀²): the time of a module as a power of b₀",
            source=_EFFECT,
            predicted=-2.0,
            measured=math.log(four[1] / four[2]) / step,
            tolerance=0.05,
            correction="that holds for modules of four layers; two layers, as an autoencoder has, "
            "take O(D ln(1/b₀))",
        ),
        compare(
            experiment=NAME,
            claim="a module of two layers: what its time gains when ln(1/b₀) gains one",
            source=_EFFECT,
            predicted=1.0,
            measured=float(two[2] - two[1]) / step,
            tolerance=0.05,
        ),
    ]


def _orthogonal_laws(data: xr.Dataset) -> list[Claim]:
    finite = data.isel(depth=slice(None, -1))
    limit = float(data["time"][-1])
    depth = np.log(finite["depth"].values[-2:])
    slope = lambda values: float(np.diff(np.log(values[-2:]))[0] / np.diff(depth)[0])
    time = finite["time"].values
    return [
        compare(
            experiment=NAME,
            claim="orthogonal layers: the time tends to a constant; its distance from that as a "
            "power of depth",
            source=_EFFECT,
            predicted=-1.0,
            measured=slope(time - limit),
            tolerance=0.05,
            correction="depth-independent at the learning rate 1/D, in the limit, and for layers "
            "that are aligned with the task",
            note=f"from {time[0]:.4g} at depth 2 to {limit:.4g}",
        ),
        compare(
            experiment=NAME,
            claim="the same at a fixed learning rate: the time as a power of depth",
            source=_EFFECT,
            predicted=-1.0,
            measured=slope(time / finite["depth"].values),
            tolerance=0.05,
        ),
    ]


def _networks(data: xr.Dataset) -> list[Claim]:
    depth = data["depth"].values
    middle = data["rotated"].median("seed").values
    powers = np.diff(np.log(middle)) / np.diff(np.log(depth))
    # A constant is approached ever more slowly, until only noise is left of the powers.
    levels = powers[-1] < 1 and bool((np.diff(np.abs(powers)) < 0.1).all())
    longer = middle / data["aligned"].values
    listed = ", ".join(f"{d:g}" for d in depth)
    return [
        compare(
            experiment=NAME,
            claim=f"orthogonal matrices aligned with the task: time to learn at depth {listed}",
            source=_EFFECT,
            predicted=data["aligned_theory"].values,
            measured=data["aligned"].values,
            tolerance=0.002,
            relative=True,
        ),
        compare(
            experiment=NAME,
            claim="random orthogonal matrices, one product at all depths: with depth the time",
            source=_EFFECT,
            predicted="levels off",
            measured="levels off" if levels else "keeps growing",
            note="from step to step it grows as the powers "
            + ", ".join(f"{power:.2f}" for power in powers)
            + " of depth, median over seeds",
        ),
        compare(
            experiment=NAME,
            claim="random orthogonal matrices take longer than aligned ones, at every depth",
            source=_EFFECT,
            predicted="longer",
            measured="longer" if (longer > 1).all() else "not",
            note=f"by factors of {longer[0]:.2g} to {longer[-1]:.2g}, median over seeds",
        ),
    ]


def _gaussian(data: xr.Dataset, gain: float) -> Claim:
    depth, middle = data["depth"].values, data["time"].median("seed").values
    factor = float((middle[-1] / middle[0]) ** (1 / (depth[-1] - depth[0])))
    return compare(
        experiment=NAME,
        claim=f"Gaussian matrices of gain {gain:g}: every further layer multiplies the time, by at "
        "least 1/g",
        source=_EFFECT,
        predicted="at least",
        measured="at least" if factor > 1 / gain else "less",
        note=f"by {factor:.3g} on average, against 1/g = {1 / gain:.3g}",
    )
