"""Claims on invariant manifolds: what training keeps, reduces to, and leaves."""

import dataclasses
from collections.abc import Callable

import numpy as np
import xarray as xr

from ..._old import compare
from ...claims import Claim, above
from ..panels._reading import PAPER
from ._theorem_3_cases import Group, cases_of

_KEPT: dict[Group, str] = {
    "(i)": "equal units stay equal",
    "(ii)": "silent units stay silent",
    "(iii)": "proportional units of homogeneous φ stay proportional",
    "(iv)": "linear units stay linearly dependent",
    "even": "mirrored units, u_i = −u_j and v_i = v_j, of even φ stay mirrored",
    "odd": "opposite units, θ_i = −θ_j, of odd φ stay opposite",
}
_ROUNDING = 1e-10
_CLEARLY = 1e-2


def theorem_claims(name: str, run: xr.DataTree) -> list[Claim]:
    """All claims of the experiment."""
    drift, embedding = run["drift"].to_dataset(), run["embedding"].to_dataset()
    furthest = drift["distance"].max("moment")
    error = drift["reduction_error"].max("moment")
    cases = cases_of(drift)
    of = lambda group: [case.name for case in cases if case.group == group]
    found = []

    def say(words: str, predicted: object, measured: object, where: str, **more: object) -> None:
        more.setdefault("tolerance", _ROUNDING)
        found.append(
            compare(
                experiment=name,
                claim=words,
                source=f"{PAPER}, {where}",
                predicted=predicted,
                measured=measured,
                **more,  # pyright: ignore[reportArgumentType]
            )
        )

    for group, words in _KEPT.items():
        if not of(group):
            continue
        listed = group.startswith("(")
        names = ", ".join(case.architecture for case in cases if case.group == group)
        say(
            f"{words} (largest distance from it, relative to the weights)",
            0.0,
            float(furthest.sel(case=of(group)).max()),
            f"Theorem 3{group}" if listed else "Theorem 3",
            correction="" if listed else "a manifold that Theorem 3 does not list",
            note=names,
        )
        say(
            f"{words}: with one unit less the function is the same (error over ⟨y²⟩^½)",
            0.0,
            float(error.sel(case=of(group)).max()),
            f"F.3{group}" if listed else "F.3",
            correction="" if listed else "a manifold that Theorem 3 does not list",
        )
    for case in (case for case in cases if case.group == "control"):
        far = float(np.median(furthest.sel(case=case.name)))
        say(f"control, {case.name}: training leaves it (median)", 1, int(far > _CLEARLY), "F.2")
        found[-1] = dataclasses.replace(found[-1], judged=above(far, _CLEARLY))
    _learning(drift, say)
    _embedded(embedding, say)
    return found


def _learning(drift: xr.Dataset, say: Callable[..., None]) -> None:
    """Whether the narrow network is also trained alike."""
    names = [case.name for case in cases_of(drift) if case.learns_alike]
    if not names:
        return
    final = drift["flow_error"].sel(case=names)
    say(
        "trained from there, the reduced network learns the same function at the same speed",
        0.0,
        float(final.sel(form="even").max()),
        "F.3",
        tolerance=1e-8,
        correction="with the factor split evenly between both layers",
        note=f"with all of it in v, as in F.3, off by {float(final.sel(form='F.3').max()):.2g}",
    )


def _embedded(embedding: xr.Dataset, say: Callable[..., None]) -> None:
    """The one γ_v for which an embedded fixed point lies on the manifold."""
    for kind in embedding["kind"].values:
        distance = embedding["distance"].sel(kind=kind).values
        say(
            f"{kind} embeddings with γ_v = γ_u/(1 + |γ_u|²) lie on the manifold (distance)",
            0.0,
            float(distance[np.argmin(np.abs(embedding["factor"].values - 1))]),
            "F.4, Eqs. (29) to (31)",
        )
        say(
            f"and no other {kind} ones do: multiple of that γ_v that comes nearest",
            1.0,
            float(embedding["factor"].values[np.argmin(distance)]),
            "F.4, Eqs. (29) to (31)",
            tolerance=1e-12,
        )
