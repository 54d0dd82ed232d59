"""Parameters at which each experiment takes seconds and comes to the same verdicts."""

from typing import Any

SMALL: dict[str, dict[str, Any]] = {
    # linear.chains
    "linear/learning-curves": {},
    "linear/chains": {},
    "linear/depth": {},
    # linear.worlds
    "linear/structures": {},
    "linear/differentiation": {},
    # linear.chains
    "linear/hierarchy-of-saddles": {},
    # linear.decisions
    "linear/decisions": {"seeds": 1, "runs": 4, "learning_rate": 0.02, "duration": 150.0},
    "linear/decision-saddles": {"seeds": 2},
    "linear/decision-depth": {"seeds": 2},
    # linear.balanced
    "linear/partitioned-solution": {},
    "linear/exponential-to-sigmoidal": {},
    "linear/regimes": {},
    "linear/delayed-rich": {},
    "linear/continual": {},
    "linear/reversal": {},
    "linear/relative-scale": {},
    # saddles.figure_1
    "saddles/figure-1b": {},
    "saddles/figure-1c": {},
    "saddles/figure-1d": {},
    "saddles/figure-1e": {},
    "saddles/figure-1f": {},
    "saddles/figure-1g": {},
    # saddles.figure_2
    "saddles/figure-2a": {},
    "saddles/figure-2b": {},
    "saddles/figure-2c": {},
    "saddles/figure-2d": {},
    # saddles.theorems
    "saddles/theorem-1": {},
    "saddles/theorem-3": {},
    "saddles/theorem-4": {},
    "saddles/proposition-5": {},
    "saddles/lemma-6": {},
    "saddles/staircase": {},
    # saddles.digits
    "saddles/figure-3": {"pairs": ("3/5",), "width": 60, "steps": 1000, "judged": 500},
    "saddles/table-1": {"pairs": ("0/8",), "width": 5},
    # saddles.figure_4
    "saddles/figure-4a": {},
    "saddles/figure-4b": {},
    "saddles/figure-4c": {},
    "saddles/figure-4d": {},
    "saddles/figure-4e": {},
    "saddles/figure-4f": {},
    "saddles/figure-4g": {},
    "saddles/figure-4h": {},
    # saddles.figure_5
    "saddles/figure-5a": {},
    "saddles/figure-5b": {},
    "saddles/figure-5c": {},
    "saddles/figure-5d": {},
    "saddles/figure-5e": {},
    "saddles/figure-5f": {},
    # saddles
    "saddles/figure-6": {},
}
