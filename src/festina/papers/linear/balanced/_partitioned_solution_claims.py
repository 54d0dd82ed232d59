"""What the slides say of the exact solution, and what they leave out or misprint."""

import numpy as np
import xarray as xr

from ...claims import Claim
from .._slides import claims_of, slide
from ._shapes import SHAPES

NAME = "linear/partitioned-solution"
_SLIDE = slide("Partitioned solution")
_claim = claims_of(NAME, _SLIDE, 1e-6)


def claims(run: xr.DataTree) -> list[Claim]:
    """The solution against training, shape by shape; the misprint; what stays undetermined."""
    found = []
    for shape in SHAPES:
        fixed, random = run[shape].to_dataset(), run[f"random_{shape}"].to_dataset()
        found += [_follows(shape, fixed), _follows_random(shape, random)]
    for shape in SHAPES:
        fixed, random = run[shape].to_dataset(), run[f"random_{shape}"].to_dataset()
        found += _printed(shape, fixed, random)
    found += _sign_of_balance(run["funnel"].to_dataset())
    found.append(_rotation(run))
    return found + _obstruction(run["obstruction"].to_dataset())


def _follows(shape: str, fixed: xr.Dataset) -> Claim:
    return _claim(
        f"{shape}: training follows QQᵀ(t), every λ (largest difference)",
        0.0,
        float(abs(fixed["trained"] - fixed["theory"]).max()),
    )


def _follows_random(shape: str, random: xr.Dataset) -> Claim:
    return _claim(
        f"{shape}, random tasks and weights: training follows QQᵀ(t) (largest difference)",
        0.0,
        float(random["theory"].max()),
    )


def _printed(shape: str, fixed: xr.Dataset, random: xr.Dataset) -> list[Claim]:
    """Equation (15) as it stands, where it is right, and corrected."""
    if shape == "square":
        return [
            _claim(
                "square: Eqs. (13)–(15) as printed (largest difference from training)",
                0.0,
                float(max(abs(fixed["printed"] - fixed["trained"]).max(), random["printed"].max())),
                note="there is no D term",
            )
        ]
    found = [
        _claim(
            f"{shape}: Eqs. (13)–(15), fixed and random networks (largest difference)",
            0.0,
            float(max(abs(fixed["corrected"] - fixed["trained"]).max(), random["corrected"].max())),
            correction="with the D term of Eq. (15) corrected; of the two D terms in Eqs. (13) and "
            "(14) only that on the side with more neurons exists",
        )
    ]
    if np.any(fixed["balance"] != 0):
        worst = float(random["printed"].where(random["balance"] != 0).max())
        found.append(
            _misprint(
                fixed,
                "printed",
                f"{shape}: an entry of QQᵀ where Eq. (15) as printed is most wrong",
                "the D term is (e^{2λ_⊥t/τ} − 1)/(2λ_⊥)",
                f"random networks: wrong by up to {worst:.3g}",
            )
        )
    return found


def _sign_of_balance(fixed: xr.Dataset) -> list[Claim]:
    if not np.any(fixed["balance"] != 0):
        return []
    return [
        _misprint(
            fixed,
            "opposite",
            "funnel: an entry of QQᵀ where the sign of λ matters most",
            "λ is not defined on the slide: W₂ᵀW₂ − W₁W₁ᵀ = λI, second minus first",
        )
    ]


def _misprint(fixed: xr.Dataset, form: str, claim: str, correction: str, note: str = "") -> Claim:
    """Training and solution at the place where another form differs most."""
    apart = abs(fixed[form] - fixed["theory"])
    at = {
        str(axis): int(place)
        for axis, place in zip(
            apart.dims, np.unravel_index(np.nanargmax(apart.values), apart.shape), strict=True
        )
    }
    there = fixed.isel(at)
    gives = f"{'as printed' if form == 'printed' else 'the opposite sign'} gives"
    words = f"{gives} {float(there[form]):.4g} there (λ = {float(there['balance']):g})"
    return _claim(
        claim,
        float(there["theory"]),
        float(there["trained"]),
        correction=correction,
        note="; ".join(part for part in (words, note) if part),
    )


def _rotation(run: xr.DataTree) -> Claim:
    tables = [run[shape].to_dataset() for shape in SHAPES]
    apart = max(float(abs(table["rotated"] - table["trained"]).max()) for table in tables)
    moved = min(float(table["weights_apart"]) for table in tables)
    return _claim(
        "networks whose hidden units are rotated have the same QQᵀ(t) (largest difference)",
        0.0,
        apart,
        note=f"their weights differ by {moved:.2g} and more: W₁ and W₂ follow from QQᵀ only up to "
        "a rotation",
    )


def _obstruction(stuck: xr.Dataset) -> list[Claim]:
    last = stuck["loss"].isel(sample=-1)
    weakest = float(stuck.attrs["weakest"])
    note = "det W₂W₁ keeps its sign at λ = 0"
    return [
        _claim(
            "square, λ = 0, det W₂W₁ with the sign of det Σ: the network learns (final losses)",
            [0.0] * last.sizes["seed"],
            last.sel(sign=1.0).values,
            tolerance=1e-3 * weakest**2,
            note=note,
        ),
        _claim(
            "square, λ = 0, the opposite sign: stuck at a saddle, loss s_min²/2",
            [weakest**2 / 2] * last.sizes["seed"],
            last.sel(sign=-1.0).values,
            tolerance=1e-3 * weakest**2,
            note=f"{note}; that is half of random draws",
        ),
    ]
