"""The four ways to embed a narrow network in a wider one (Theorem 1, Eqs. 4 to 7)."""

from typing import Literal

from ...networks._algebra import Algebra

Kind = Literal["equal", "zero", "proportional", "linear"]

EQUATION: dict[Kind, int] = {"equal": 4, "zero": 5, "proportional": 6, "linear": 7}
"""Number of the equation of each kind in Zhang, Saxe & Latham."""

SIMPLEST_FIRST: tuple[Kind, ...] = ("zero", "equal", "proportional", "linear")
"""The order in which ties between kinds are resolved: weakest condition on the unit first."""


def admissible(algebra: Algebra) -> tuple[Kind, ...]:
    """Return the kinds of embedding that a unit's algebra allows, simplest first.

    Any unit can be copied (Eq. 4). A silent unit (Eq. 5) needs φ(z; 0) = 0. A proportional unit
    (Eq. 6) needs a response that is homogeneous of degree one. A linear combination of units (Eq.
    7) needs a linear response.
    """
    allowed: dict[Kind, bool] = {
        "zero": algebra.zero,
        "equal": True,
        "proportional": algebra.homogeneous is not None,
        "linear": algebra.linear,
    }
    return tuple(kind for kind in SIMPLEST_FIRST if allowed[kind])
