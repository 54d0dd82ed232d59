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
    "linear/decisions": {},
    "linear/decision-saddles": {},
    "linear/decision-depth": {},
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
    "saddles/figure-2a": {
        "seeds": 4,
        "linear_widths": (20, 100),
        "attention_widths": (3, 12),
    },
    "saddles/figure-2b": {"seeds": 6, "kappas": (0.0, 1.0), "attention_width": 12},
    "saddles/figure-2c": {"seeds": 4},
    "saddles/figure-2d": {
        "seeds": 4,
        "linear_scales": (1e-8, 1e-6, 0.1),
        "attention_scales": (5e-3, 0.02, 0.1),
        "attention_width": 12,
    },
    # saddles.theorems
    "saddles/theorem-1": {},
    "saddles/theorem-3": {},
    "saddles/theorem-4": {},
    "saddles/proposition-5": {},
    "saddles/lemma-6": {},
    "saddles/staircase": {},
    # saddles.digits
    "saddles/figure-3": {},
    "saddles/table-1": {},
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
    "saddles/figure-6": {"seeds": 2},
}
