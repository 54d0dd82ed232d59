"""Claims about units that leave zero."""

import numpy as np
import xarray as xr

from ..._old import compare
from ...claims import Claim, Verdict
from ..panels._reading import PAPER

_SOURCE = f"{PAPER}, Proposition 5"
_PRINTED = f"{PAPER}, Eq. (56)"
_BOUNCE = "with the bounce of units whose v changes sign"
USUAL = (1.0, 0.4, -0.7)
BOUNCING = 0.19199
"""Probability that a unit with these eigenvalues and Gaussian weights bounces, by quadrature."""

WIDTH, QUANTILES = 10, {0.5: 10.51, 0.9: 62.2}
"""Quantiles of the second-largest of so many units in units of ε, for Σ_yZ = 4I and ε → 0.

By the closed form of a unit's way, in two million Gaussian networks: ± 0.01 and ± 0.13.
"""


def all_claims(experiment: str, run: xr.DataTree, width: int) -> list[Claim]:
    """Every claim of the experiment, in the order of the argument; `width` is that of networks."""
    both, one = run["both_signs"].to_dataset(), run["one_sign"].to_dataset()
    return [
        *_escapes(experiment, both, "eigenvalues of both signs"),
        *_reduced(experiment, run["reduced"].to_dataset()),
        *_printed(experiment, both),
        *_escapes(experiment, one, "eigenvalues of one sign, against the assumption"),
        _never(experiment, one),
        *_networks(experiment, run["networks"].to_dataset()),
        *_second(experiment, run["rivals"].to_dataset(), width),
        *_gradients(experiment, run["gradients"].to_dataset()),
    ]


def _escapes(experiment: str, data: xr.Dataset, words: str) -> list[Claim]:
    escaped = np.isfinite(data["measured"].values)
    error = np.abs(data["predicted"].values[escaped] / data["measured"].values[escaped] - 1)
    bounces = int(data["bounces"].sum())
    return [
        compare(
            experiment=experiment,
            claim=f"{words}: t_∞ from the initial weights against direct integration "
            "(largest relative difference)",
            source=f"{_SOURCE}, Eq. (56)",
            predicted=0.0,
            measured=float(error.max()),
            tolerance=1e-5,
            correction=_BOUNCE,
            note=f"{int(escaped.sum())} of {escaped.size} units escape, {bounces} bounce",
        )
    ]


def _reduced(experiment: str, data: xr.Dataset) -> list[Claim]:
    """Eq. (55), on the ways of all units."""
    source = f"{PAPER}, Eq. (55)"
    off = data["printed"].values > 1
    return [
        compare(
            experiment=experiment,
            claim="Eq. (55) as printed has the right sign all along the way (units for which it "
            "has not)",
            source=source,
            predicted=0,
            measured=int(off.sum()),
            expected="does not hold",
            note=f"of {off.size} units: it keeps the sign of v(0)",
        ),
        compare(
            experiment=experiment,
            claim="v = π̇_m/(s_m π_m) of Eq. (55) along the way (largest deviation from direct "
            "integration, over the largest |v|)",
            source=source,
            predicted=0.0,
            measured=float(data["corrected"].max()),
            tolerance=1e-6,
            correction="sign(v) in place of sign(v(0)): v changes sign where the radicand is zero",
        ),
    ]


def _printed(experiment: str, data: xr.Dataset) -> list[Claim]:
    bounces, printed = data["bounces"].values, data["printed"].values
    real, units = np.isfinite(printed), printed.size
    error = np.abs(printed[real] / data["predicted"].values[real] - 1)
    found = [
        compare(
            experiment=experiment,
            claim="Eq. (56) as printed gives a time for every unit (number of units)",
            source=_PRINTED,
            predicted=units,
            measured=int(real.sum()),
            expected="does not hold",
            note=f"imaginary for {int((~real).sum())} units, all {int(bounces.sum())} that bounce "
            "among them",
        ),
        compare(
            experiment=experiment,
            claim="Eq. (56) as printed is imaginary for those units whose v changes sign and for "
            "no others (units for which it is the other way round)",
            source=_PRINTED,
            predicted=0,
            measured=int(np.sum(bounces == real)),
        ),
        compare(
            experiment=experiment,
            claim="Eq. (56) as printed is right for units whose v keeps its sign (largest relative "
            "difference)",
            source=_PRINTED,
            predicted=0.0,
            measured=float(error.max()),
            tolerance=1e-12,
        ),
    ]
    if tuple(data["eigenvalue"].values) == USUAL:
        found.append(
            compare(
                experiment=experiment,
                claim="share of Gaussian units that bounce",
                source=f"{_PRINTED}; probability by quadrature over Gaussian weights",
                predicted=BOUNCING,
                measured=float(bounces.mean()),
                tolerance=_four_errors(BOUNCING, units),
                note=f"four standard errors of the share of {units}",
            )
        )
    return found


def _four_errors(share: float, count: int) -> float:
    """Of a share that is measured so many times: one claim of many, so that three are too few."""
    return round(4 * float(np.sqrt(share * (1 - share) / count)), 4)


def _never(experiment: str, data: xr.Dataset) -> Claim:
    never = data["never"].values
    return compare(
        experiment=experiment,
        claim="eigenvalues of one sign: units with v₀ against them and v₀² ≥ Σa_k² never escape, "
        "all others do (units for which it is the other way round)",
        source=_SOURCE,
        predicted=0,
        measured=int(np.sum(never == np.isfinite(data["measured"].values))),
        correction="the proposition excludes this case, which is that of Figure 1G",
        note=f"{int(never.sum())} of {never.size} units never escape",
    )


def _networks(experiment: str, data: xr.Dataset) -> list[Claim]:
    """Trained networks on Σ_yZ = 4I."""
    error = abs(data["drop_time"] / data["predicted_time"] - 1).max("seed")
    scales = data["scale"].values
    agree = (data["winner"] == data["strongest"]).values
    order = np.polyfit(np.log(scales), np.log(error.values), 1)[0]
    diagonal = np.diag(data["correlation"].values)
    return [
        compare(
            experiment=experiment,
            claim="the paper's own example has eigenvalues of both signs (smallest and largest "
            "eigenvalue have opposite signs)",
            source=f"{_SOURCE} and Figure 1G",
            predicted=-1.0,
            measured=float(np.sign(diagonal.min() * diagonal.max())),
            expected="does not hold",
            note=f"Σ_yZ = {diagonal[0]:g} I",
        ),
        compare(
            experiment=experiment,
            claim="networks of Figure 1G: first drop at the shortest escape time, smallest scale "
            "(largest relative error over seeds)",
            source=_SOURCE,
            predicted=0.0,
            measured=float(error[-1]),
            tolerance=max(0.0025, 5.0 * float(scales[-1])),
            correction=_BOUNCE,
            note=", ".join(
                f"{float(each):.2g} at ε = {scale:g}"
                for each, scale in zip(error, scales, strict=True)
            ),
        ),
        compare(
            experiment=experiment,
            claim="networks of Figure 1G: the error of the first drop falls in proportion to ε "
            "(exponent)",
            source=_SOURCE,
            predicted=1.0,
            measured=float(order),
            tolerance=0.25,
        ),
        compare(
            experiment=experiment,
            claim="the unit that makes the first drop is the one with the shortest escape time",
            source=_SOURCE,
            predicted=agree.size,
            measured=int(agree.sum()),
            correction=_BOUNCE,
        ),
    ]


def _second(experiment: str, data: xr.Dataset, width: int) -> list[Claim]:
    """The second-largest unit when the first one has norm one, in units of ε."""
    ratio = data["second"].dropna("draw")
    scales = ratio["scale"].values
    power = float(np.polyfit(np.log(scales), np.log(scales * ratio.median("draw").values), 1)[0])
    found = [
        compare(
            experiment=experiment,
            claim="when one unit is O(1) the others are O(ε): exponent of the second-largest's "
            "median",
            source=_SOURCE,
            predicted=1.0,
            measured=power,
            tolerance=0.03,
        )
    ]
    if width != WIDTH:
        return found
    smallest = ratio.isel(scale=int(np.argmin(scales)))
    heavy = "O(ε) with a heavy-tailed constant"
    return found + [
        compare(
            experiment=experiment,
            claim=f"when one unit is O(1) the second-largest is below {value:g} ε in "
            f"{100 * share:g} % of networks (share of networks)",
            source=f"{_SOURCE}; quantile by the closed form of a unit's way",
            predicted=share,
            measured=float((smallest < value).mean()),
            tolerance=_four_errors(share, len(smallest)),
            correction=heavy if share > 0.5 else "",
            note=f"{len(smallest)} networks of {WIDTH} units, Σ_yZ = 4I, ε = "
            f"{float(smallest['scale']):.0e}; their {100 * share:g} % quantile is "
            f"{float(smallest.quantile(share)):.3g} ε",
        )
        for share, value in QUANTILES.items()
    ]


def _gradients(experiment: str, data: xr.Dataset) -> list[Claim]:
    samples = int(data.attrs["samples"])
    rows: tuple[tuple[str, str, str, Verdict, str], ...] = (
        ("Eq. (44a): v̇_i", "Eq. (44a)", "v", "holds", ""),
        (
            "u̇_i as in Eq. (44b), which is a row vector as printed",
            "Eq. (44b)",
            "u",
            "holds",
            "a column vector",
        ),
        ("u̇_i as Section H.1 prints it first", "Section H.1", "printed_u", "does not hold", ""),
        (
            "u̇_i as in Eq. (44b) for a Z that is not symmetric",
            "Eq. (44b)",
            "nonsymmetric_u",
            "does not hold",
            "",
        ),
    )
    notes = {
        "printed_u": "the factor v_i is missing",
        "nonsymmetric_u": "only (Z + Zᵀ)/2 enters f: put that in place of Z",
    }
    found = [
        compare(
            experiment=experiment,
            claim=f"{words}: largest deviation from automatic differentiation",
            source=f"{PAPER}, {where}",
            predicted=0.0,
            measured=float(data[name]),
            tolerance=1e-12,
            correction=correction,
            expected=expected,
            note=notes.get(name, ""),
        )
        for words, where, name, expected, correction in rows
    ]
    found.append(
        compare(
            experiment=experiment,
            claim="mean over samples of ∂L/∂f · ∂f/∂v, as printed, over the true gradient",
            source=f"{PAPER}, Sections G.1 and H.1",
            predicted=1.0,
            measured=float(data["printed_mean"]),
            tolerance=1e-12,
            expected="does not hold",
            note=f"1/P for P = {samples} samples: ∂ℓ_μ/∂f is meant, the loss of one sample",
        )
    )
    return found
