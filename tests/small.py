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
    "saddles/figure-2a": {},
    "saddles/figure-2b": {},
    "saddles/figure-2c": {},
    "saddles/figure-2d": {},
    # saddles.theorems
    "saddles/theorem-1": {"seeds": 2, "samples": 32, "width": 3},
    "saddles/theorem-3": {"seeds": 2, "steps": 250, "architectures": ("relu", "tanh")},
    "saddles/theorem-4": {
        "ratios": (0.6, 0.3),
        "multiplicities": (1, 2),
        "scales": (1e-5, 1e-9),
        "width": 10,
    },
    "saddles/proposition-5": {"seeds": 2, "units": 40, "draws": 100, "scales": (5e-3, 5e-4)},
    "saddles/lemma-6": {"inputs": 3, "outputs": 2, "width": 3},
    "saddles/staircase": {
        "seeds": 2,
        "repeats": 1,
        "scales": (1e-3, 1e-8),
        "dimension": 4,
        "modes": 3,
        "features": 4,
        "coefficients": (2.0, -1.0),
        "token_dimension": 1,
        "heads": 2,
        "attention_scale": 1e-2,
        "seed": 11,
    },
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
    "saddles/figure-6": {},
}
