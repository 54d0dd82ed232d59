"""What Theorem 1 asserts, held against exact fixed points and against controls."""

import numpy as np
import xarray as xr

from ..._old import compare
from ...claims import Claim

NAME = "saddles/theorem-1"
CASES = {"equal": "(4)", "zero": "(5)", "proportional": "(6)", "linear": "(7)", "negative": "(6)"}
"""Ways of embedding with their equations; the last is Eq. (6) with γ_u < 0."""

_NEEDS = {
    "zero": "φ(z; 0) = 0",
    "proportional": "homogeneity",
    "linear": "linearity",
    "negative": "homogeneity over the reals",
}
_THEOREM = "Zhang, Saxe & Latham, Theorem 1"
_CLEARLY = 1e-2
_ROUNDINGS = 20.0
# A silent unit gets −⟨φ(z; 0)ᵀ ∂ℓ/∂ζ⟩, as many random numbers as there are outputs: now and then
# all are small. A million times what counts as zero they are always.
_SILENT = 1e-6


def claims(run: xr.DataTree) -> list[Claim]:
    """Fixed points stay fixed points, controls do not, and the text's slips."""
    embeddings = run["embeddings"].to_dataset()
    panels = run["panels"].to_dataset()
    return [
        *(_fixed(embeddings, case) for case in CASES),
        _same_map(embeddings),
        *(_control(embeddings, case) for case in _NEEDS if _distinct(embeddings, case)),
        *_silence(embeddings),
        *_minima(panels),
        _panels_named(panels),
        *_section_e(run["section_e"].to_dataset()),
    ]


def _distinct(table: xr.Dataset, case: str) -> bool:
    """Of one unit Eq. (7) is Eq. (6), which asks for less."""
    return case != "linear" or table.attrs["units"] > 1


def _name(case: str) -> str:
    return f"Eq. {CASES[case]}{' with γ_u < 0' if case == 'negative' else ''}"


def _fixed(table: xr.Dataset, case: str) -> Claim:
    chosen = table.sel(case=case)
    chosen = chosen.isel(architecture=np.flatnonzero(chosen["admitted"].values))
    names = ", ".join(map(str, chosen["architecture"].values))
    # What is left is rounding in a sum over samples, of terms as large as this gradient has them.
    size = float(chosen["otherwise"].max())
    rounding = np.finfo(float).eps * np.sqrt(table.attrs["samples"]) * size
    return compare(
        experiment=NAME,
        claim=f"{_name(case)}: fixed points stay so in the wider network (largest |∂L/∂θ|)",
        source=f"{_THEOREM}, Eq. {CASES[case]}",
        predicted=0.0,
        measured=float(chosen["after"].max()),
        tolerance=max(1e-12, float(f"{_ROUNDINGS * rounding:.1e}")),
        note=f"{names}; before embedding {float(chosen['before'].max()):.1e}, and {size:.2g} for "
        "errors of the same size with random signs",
    )


def _same_map(table: xr.Dataset) -> Claim:
    change = table["map_change"].where(table["admitted"])
    return compare(
        experiment=NAME,
        claim="embedded networks compute the same map (largest change of an output)",
        source=_THEOREM,
        predicted=0.0,
        measured=float(change.max()),
        tolerance=1e-11,
    )


def _control(table: xr.Dataset, case: str) -> Claim:
    chosen = table.sel(case=case)
    chosen = chosen.isel(architecture=np.flatnonzero(~chosen["admitted"].values))
    # Small weights make small gradients.
    every = chosen["after"] / np.minimum(1.0, chosen["otherwise"])
    bound = _SILENT if case == "zero" else _CLEARLY
    sizes = every.median("seed")
    smallest = chosen["architecture"].values[int(np.argmin(every.min("seed").values))]
    return compare(
        experiment=NAME,
        claim=f"{_name(case)} needs {_NEEDS[case]}: without it the same construction is no fixed "
        f"point (share of architectures with a median |∂L/∂θ| above {_CLEARLY:g}, share of "
        f"networks with one above {bound:g})",
        source=f"{_THEOREM}, Eq. {CASES[case]}",
        predicted=[1.0, 1.0],
        measured=[float((sizes > _CLEARLY).mean()), float((every > bound).mean())],
        note=f"|∂L/∂θ| above {_CLEARLY:g} in {int((every > _CLEARLY).sum())} of {every.size}, "
        f"smallest {float(every.min()):.2g} ({smallest}); medians from {float(sizes.min()):.2g} to "
        f"{float(sizes.max()):.2g}; in units of what errors with random signs make, where that is "
        "less than 1",
    )


def _silence(table: xr.Dataset) -> list[Claim]:
    """What Eq. (5) needs, wrong by the size of the other units instead of by a little.

    A unit with u_H = 0 adds φ(z; 0)v_H to the output of every sample. The others stand still, so
    that their v_i get ⟨φ(z; u_i)ᵀφ(z; 0)⟩v_H and nothing else: no mean of residuals, which may
    happen to be small.
    """
    chosen = table.sel(case="zero")
    silent = chosen["admitted"].values
    heard = chosen["heard"].isel(architecture=np.flatnonzero(silent))
    after = chosen["heard_after"].isel(architecture=np.flatnonzero(~silent))
    names = ", ".join(map(str, after["architecture"].values))
    source = f"{_THEOREM}, Eq. (5)"
    return [
        compare(
            experiment=NAME,
            claim="where φ(z; 0) = 0 a unit with u_H = 0 is silent, whatever its v_H (largest "
            "change of an output)",
            source=source,
            predicted=0.0,
            measured=float(heard.max()),
            tolerance=1e-12,
        ),
        compare(
            experiment=NAME,
            claim="where φ(z; 0) ≠ 0 a unit with u_H = 0 and v_H as large as the others' is no "
            f"fixed point (share of networks with |∂L/∂θ| above {_CLEARLY:g})",
            source=source,
            predicted=1.0,
            measured=float((after > _CLEARLY).mean()),
            note=f"{names}; smallest {float(after.min()):.2g}, of {after.size}",
        ),
    ]


def exponents(panels: xr.Dataset) -> np.ndarray:
    """Power of the distance with which the loss falls, between the two smallest distances."""
    gain, radius = np.log(panels["gain"].values[:, -2:]), np.log(panels["radius"].values[-2:])
    return np.diff(gain, axis=1)[:, 0] / np.diff(radius)[0]


def _minima(panels: xr.Dataset) -> list[Claim]:
    names = ", ".join(map(str, panels["panel"].values))
    source = "Zhang, Saxe & Latham, Section 3"
    return [
        compare(
            experiment=NAME,
            claim=f"width-1 minima of the tasks of panels {names} are fixed points of a wider "
            "network (largest |∂L/∂θ|)",
            source=f"{source} and Eq. (5)",
            predicted=0.0,
            measured=float(panels["gradient"].max()),
            tolerance=1e-9,
            note="to the tolerance of the minimiser",
        ),
        compare(
            experiment=NAME,
            claim=f"they are saddles, panels {names}: a silent unit that moves by δ lowers the "
            "loss by δ to the power of one plus the order of φ",
            source=source,
            predicted=(1.0 + panels["order"].values).tolist(),
            measured=np.round(exponents(panels), 5).tolist(),
            tolerance=0.01,
            note="by the best of random directions",
        ),
    ]


def _panels_named(panels: xr.Dataset) -> Claim:
    """Which panels have units that admit nothing but copies and silent units."""
    only = panels["panel"].values[panels["homogeneity_defect"].values > 1e-9]
    return compare(
        experiment=NAME,
        claim="panels of Figure 1 whose units admit neither Eq. (6) nor (7), so that saddles with "
        "few large units are those of Eq. (5)",
        source="Zhang, Saxe & Latham, Section 3",
        predicted="F, G",
        measured=", ".join(map(str, only)),
        correction="the text has 'panels (E,F)', and E also under Eq. (6)",
        note=f"φ(z; αu) misses αφ(z; u) by {float(panels['homogeneity_defect'].max()):.3g} of the "
        "largest response there",
    )


def _section_e(table: xr.Dataset) -> list[Claim]:
    """The text's gradients of a unit that was there and of the new one."""
    source = "Zhang, Saxe & Latham, Section E (iv)"
    worst = int(np.argmax(table["printed"].values))
    share = float(table["printed"][worst] / table["size"][worst])
    apart = float((table["printed_v"] / table["size_v"]).median())
    return [
        compare(
            experiment=NAME,
            claim="Eq. (7) away from a fixed point: u̇_i in terms of the narrow network's (largest "
            "difference from automatic differentiation)",
            source=source,
            predicted=0.0,
            measured=float(table["corrected"].max()),
            tolerance=1e-12,
            correction="u̇_i = u̇*_i − γ_ui Σ_j γ_vj u̇*_j, where the last line has +",
            note=f"as printed it is off by {100 * share:.3g} % of the largest u̇",
        ),
        compare(
            experiment=NAME,
            claim="Eq. (7) away from a fixed point: −⟨φ(z; u_H)ᵀ ∂ℓ/∂ζ⟩ = Σ_i γ_ui v̇*_i is the "
            "new unit's v̇_H (largest difference from automatic differentiation)",
            source=source,
            predicted=0.0,
            measured=float(table["corrected_v"].max()),
            tolerance=1e-12,
            correction="v̇_H, where the text has v_H",
            note=f"v_H itself differs from it by {100 * apart:.3g} % in the median over seeds",
        ),
    ]
