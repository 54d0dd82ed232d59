"""Which networks are lazy, which are rich, and what they end up representing."""

from typing import Any

import numpy as np
import xarray as xr

from ...claims import Claim
from .._slides import claims_of, slide
from ._shapes import SHAPES

NAME = "linear/regimes"
_RICH_AND_LAZY = slide("Rich and lazy learning")
_ARCHITECTURE = slide("Architecture and learning regime")
_claim = claims_of(NAME, _ARCHITECTURE)
_EXPECTED = {
    "square": ("lazy", "lazy"),
    "funnel": ("delayed rich", "lazy"),
    "inverted": ("lazy", "delayed rich"),
}
"""For large negative and large positive λ."""


def claims(run: xr.DataTree) -> list[Claim]:
    """Kernels against the closed limit, regimes, representations."""
    tables = {shape: run[shape].to_dataset() for shape in SHAPES}
    found = [_kernels(shape, table) for shape, table in tables.items()]
    found += [_sides(shape, table) for shape, table in tables.items()]
    found += [_symmetric(tables["square"]), *_slope(tables)]
    found += [_rich(tables), *_extremes(tables)]
    return [*found, *(_items(name, run[name].to_dataset()) for name in run if "items" in str(name))]


def _kernels(shape: str, table: xr.Dataset) -> Claim:
    return _claim(
        f"{shape}: how far the tangent kernel moves, every λ and seed (largest difference)",
        0.0,
        float(abs(table["kernel_distance"] - table["theory"]).max()),
        1e-4,
        note="kernels of trained networks, by differentiation, against the closed limit",
    )


def _sides(shape: str, table: xr.Dataset) -> Claim:
    median = table["kernel_distance"].median("seed")
    return _claim(
        f"{shape}: regimes for large λ < 0 and large λ > 0",
        " and ".join(_EXPECTED[shape]),
        " and ".join(_word(float(median[end]), float(median.sel(balance=0.0))) for end in (0, -1)),
        0.0,
        note="lazy: the kernel moves by less than a tenth of what it moves at λ = 0; median over "
        "seeds",
    )


def _word(moved: float, when_rich: float) -> str:
    return "lazy" if moved < when_rich / 10 else "delayed rich"


def _symmetric(square: xr.Dataset) -> Claim:
    moved = square["kernel_distance"].transpose("balance", "seed").values
    return _claim(
        "square: the kernel moves as far for λ as for −λ (largest difference)",
        0.0,
        float(np.abs(moved - moved[::-1]).max()),
        1e-4,
        note="from the same initial map",
    )


def _slope(tables: dict[str, xr.Dataset]) -> list[Claim]:
    """On the lazy side of each shape, between the two largest |λ|, where both are large."""
    square = tables["square"]
    last = square["balance"].values[-2:]
    if last[0] < 5 * float(square["singular_value"].max()):
        return []
    slopes = []
    for shape, side in (("square", 1), ("funnel", 1), ("inverted", -1)):
        median = tables[shape]["kernel_distance"].median("seed").sel(balance=side * last).values
        slopes.append(float(np.diff(np.log(median))[0] / np.diff(np.log(last))[0]))
    return [
        _claim(
            "lazy side: the kernel distance falls as λ⁻⁴ (exponents of square, funnel, inverted)",
            [-4.0] * 3,
            slopes,
            0.3,
            source=_RICH_AND_LAZY,
            note="the kernel moves by a fraction of order s²/λ², and 1 − cosine is its square",
        )
    ]


def _rich(tables: dict[str, xr.Dataset]) -> Claim:
    apart = [
        abs(table[side].sel(balance=0.0) - np.diag(table["singular_value"].values)).max()
        for table in tables.values()
        for side in ("inward", "outward")
    ]
    return _claim(
        "λ = 0: hidden layers come to represent the task, W₁ᵀW₁ = VSVᵀ and W₂W₂ᵀ = USUᵀ "
        "(largest difference)",
        0.0,
        float(max(apart)),
        1e-4,
        source=_RICH_AND_LAZY,
    )


def _extremes(tables: dict[str, xr.Dataset]) -> list[Claim]:
    """W₁ᵀW₁ in the singular vectors of the task, for the largest |λ|."""
    largest = float(tables["square"]["balance"].max())
    s = tables["square"]["singular_value"].values
    tolerance = 2 * float(s.max() / largest) ** 2
    ends = (
        (f"λ = {largest:g}: W₁ᵀW₁ becomes ΣᵀΣ/λ, specific to the task", largest, s**2 / largest),
        (
            f"λ = −{largest:g}: W₁ᵀW₁ is |λ| in every direction of the task, whatever its strength",
            -largest,
            np.full(len(s), largest),
        ),
    )
    found = []
    for words, balance, expected in ends:
        gram = [table["inward"].sel(balance=balance).values for table in tables.values()]
        apart = max(np.abs(each - np.diag(expected)).max() for each in gram)
        found.append(
            _claim(
                f"{words} (largest relative difference)",
                0.0,
                float(apart / expected.max()),
                tolerance,
                source=_RICH_AND_LAZY,
                note="all shapes",
            )
        )
    return found


def _items(name: Any, table: xr.Dataset) -> Claim:
    shape = "8-8-8" if table.attrs["features"] == 8 else "8-4-4"
    apart = abs(table["after"] - table["theory"]).max() / abs(table["theory"]).max()
    return _claim(
        f"tree of eight items, {shape}, λ = {table.attrs['balance']:g}: learned similarity of "
        "items in the hidden layer (largest relative error)",
        0.0,
        float(apart),
        1e-4,
        source=_RICH_AND_LAZY,
        note="against V(S_λ − λ/2)Vᵀ",
    )
