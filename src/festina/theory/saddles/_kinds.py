"""The four ways in which a narrow network sits in a wider one (Theorem 1, Eqs. 4 to 7)."""

from typing import Literal

from ...networks._algebra import Algebra

Kind = Literal["equal", "zero", "proportional", "linear"]

EQUATION: dict[Kind, int] = {"equal": 4, "zero": 5, "proportional": 6, "linear": 7}
"""Number of the equation in Zhang, Saxe & Latham."""

SIMPLEST_FIRST: tuple[Kind, ...] = ("zero", "equal", "proportional", "linear")
"""The order in which a tie between kinds is resolved: least is asked of the unit first."""


def admissible(algebra: Algebra) -> tuple[Kind, ...]:
    """Return the kinds that a unit's algebra allows, simplest first.

    A unit can always be copied (Eq. 4). A silent unit needs φ(z; 0) = 0 (Eq. 5), a proportional
    one a response that is homogeneous of degree one (Eq. 6), a linear combination one that is
    linear (Eq. 7).
    """
    allowed: dict[Kind, bool] = {
        "zero": algebra.zero,
        "equal": True,
        "proportional": algebra.homogeneous is not None,
        "linear": algebra.linear,
    }
    return tuple(kind for kind in SIMPLEST_FIRST if allowed[kind])
