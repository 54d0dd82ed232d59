"""Parameters at which each experiment takes seconds and comes to the same verdicts."""

from typing import Any

SMALL: dict[str, dict[str, Any]] = {
    # linear.chains
    "linear/learning-curves": {"depths": (1, 2, 3)},
    "linear/chains": {
        "singular_values": (4.0, 1.5),
        "input_variances": (0.6, 1.8),
        "width": 3,
        "depths": (2, 3),
        "initial_strength": 0.01,
        "scales": (0.1, 0.01),
        "seeds": 4,
    },
    "linear/depth": {
        "depths": (4, 7),
        "size": 3,
        "network_depths": (2, 4),
        "gaussian_depths": (2, 4),
        "gain": 0.6,
        "seeds": 9,
    },
    # linear.worlds
    "linear/structures": {
        "branching": (3, 3),
        "flip": 0.3,
        "cluster_sizes": (4, 3, 2),
        "items": 9,
        "rows": 3,
        "columns": 3,
        "features": 12,
        "hidden": 14,
        "sampled_features": 5000,
    },
    "linear/differentiation": {
        "branching": (3, 2),
        "flip": 0.25,
        "features": 12,
        "hidden": 14,
        "seeds": 3,
    },
    # linear.chains
    "linear/hierarchy-of-saddles": {
        "singular_values": (2.0, 1.1),
        "hidden": 5,
        "seeds": 6,
        "variability": 1.0,
        "initial_strength": 1e-6,
    },
    # linear.decisions
    "linear/decisions": {"seeds": 1, "runs": 4, "learning_rate": 0.02, "duration": 150.0},
    "linear/decision-saddles": {"seeds": 2},
    "linear/decision-depth": {"seeds": 2},
    # linear.balanced
    "linear/partitioned-solution": {"seeds": 1, "balances": (-3.0, 2.0)},
    "linear/exponential-to-sigmoidal": {"seeds": 1, "balances": (0.0, 6.0)},
    "linear/regimes": {
        "seeds": 2,
        "balances": (-16.0, -8.0, 0.0, 8.0, 16.0),
        "singular_values": (1.6, 0.8),
        "wide": 3,
    },
    "linear/regime-map": {"points": 16, "seeds": 6, "narrow": 3},
    "linear/delayed-rich": {
        "seeds": 2,
        "balances": (20.0, 50.0),
        "singular_values": (2.0, 0.7),
        "inputs": 3,
    },
    "linear/continual": {"seeds": 1, "size": 2, "tasks": 2, "other_balances": (-2.0,)},
    "linear/reversal": {
        "seeds": 1,
        "singular_values": (1.3, 0.5),
        "balances": (0.01, 10.0),
        "stops": (4.0, 5.5),
        "size": 2,
    },
    "linear/relative-scale": {
        "modulus": 5,
        "width": 10,
        "scale": 0.3,
        "train_fraction": 0.8,
        "grokked": 0.3,
        "factors": (1.0, 0.5),
        "t_end": 60.0,
        "seeds": 5,
        "seed": 40,
    },
    # race
    "race/xor": {"seeds": 2, "width": 32, "scales": (1e-2, 1e-4)},
    "race/transition": {"seeds": 4, "width": 64, "margins": (0.6, 0.8, 0.85, 1.2)},
    "race/outcomes": {"seeds": 60, "points": 9, "trained": 4},
    "race/context": {"seeds": 2, "objects": 4, "contexts": (3,)},
    # haste
    "haste/mixed": {"seeds": 1, "objects": 4, "contexts": (3,), "widths": (60,)},
    "haste/why": {"objects": 4, "contexts": (3, 4), "race_contexts": (3,)},
    # saddles.figure_1
    "saddles/figure-1b": {"seeds": 2, "width": 20},
    "saddles/figure-1c": {"seeds": 2},
    "saddles/figure-1d": {"seeds": 2},
    "saddles/figure-1e": {"seeds": 2},
    "saddles/figure-1f": {"seeds": 3, "method": "flow"},
    "saddles/figure-1g": {"seeds": 3},
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
    "saddles/theorem-1": {"seeds": 2, "samples": 32, "width": 3},
    "saddles/theorem-3": {"seeds": 2, "steps": 250, "architectures": ("relu", "tanh")},
    "saddles/theorem-4": {
        "ratios": (0.6, 0.3),
        "multiplicities": (1, 2),
        "scales": (1e-5, 1e-9),
        "width": 10,
    },
    "saddles/proposition-5": {"seeds": 2, "units": 40, "draws": 100, "scales": (5e-3, 5e-4)},
    "saddles/drop-times": {"seeds": 400, "widths": (3, 30)},
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
    "saddles/figure-3": {"pairs": ("3/5",), "width": 60, "steps": 1000, "judged": 500},
    "saddles/table-1": {"pairs": ("0/8",), "width": 5},
    # saddles.figure_4
    "saddles/figure-4a": {"samples": 64, "width": 3, "context": 8, "max_steps": 300},
    "saddles/figure-4b": {
        "seeds": 1,
        "width": 6,
        "spacing": 0.8,
        "scale": 1e-3,
        "max_steps": 400_000,
    },
    "saddles/figure-4c": {"seeds": 2, "max_steps": 6_000},
    "saddles/figure-4d": {"seeds": 2, "max_steps": 5_000},
    "saddles/figure-4e": {"seeds": 2, "spacing": 0.7},
    "saddles/figure-4f": {"seeds": 2, "spacing": 0.6, "max_steps": 8_000},
    "saddles/figure-4g": {"seeds": 2, "scale": 0.01, "max_steps": 100_000},
    "saddles/figure-4h": {"seeds": 2, "spacing": 0.6, "scale": 0.01},
    # saddles.figure_5
    "saddles/figure-5a": {"seeds": 2, "width": 10},
    "saddles/figure-5b": {"seeds": 2, "width": 10},
    "saddles/figure-5c": {"seeds": 2, "width": 20},
    "saddles/figure-5d": {"seeds": 1},
    "saddles/figure-5e": {"seeds": 2, "samples": 512},
    "saddles/figure-5f": {"seeds": 3},
    # saddles
    "saddles/figure-6": {"seeds": 2, "width": 20, "scale": 0.03, "learning_rate": 0.03},
    # haste/equivalence, depth, scale
    "haste/equivalence": {"seeds": 2, "objects": 4, "width": 60},
    "haste/depth": {"seeds": 3, "objects": 4, "width": 30, "scales": (0.03,), "steps": 1500},
    "haste/scale": {"seeds": 1, "images": 400, "width": 80, "steps": 3000},
    # race
    "race/routing": {"seeds": 1, "width": 12, "domains": 3, "trained": 2},
    "race/abstraction": {
        "domains": (2, 3),
        "trained": (1, 2),
        "contest": (2, 2),
        "starts": (0.05, 0.3, 1.0),
        "large": (4, 2),
    },
    "race/generalisation": {
        "seeds": 4,
        "domains": 4,
        "trained": (1, 3),
        "width": 12,
        "scales": (0.4, 0.05),
    },
    # haste/structures, haste/distillation
    "haste/structures": {"seeds": 2, "objects": 4, "width": 64, "t_end": 110.0},
    "haste/distillation": {
        "seeds": 2,
        "objects": 4,
        "width": 60,
        "t_end": 110.0,
        "early": 16.0,
    },
    # haste: views
    "haste/views": {
        "seeds": 4,
        "classes": 3,
        "hidden": 12,
        "scales": (1e-2, 1e-3),
        "widths": (12, 200),
    },
    "haste/tasks": {
        "seeds": 3,
        "classes": 3,
        "narrow": (3,),
        "enough": (5, 40),
        "scales": (1e-2, 1e-4),
        "overlaps": (0.0, 0.5, 0.95, 0.99),
    },
    "haste/conflict": {"seeds": 2, "classes": 2, "hidden": 30, "shares": (0.1, 0.2, 1.0)},
    # coding
    "coding/schemes": {
        "activations": ("erf-sigmoid", "relu"),
        "others": (0.0,),
        "width": 50,
        "anneal": 200,
        "moves": 100,
    },
    "coding/temperature": {
        "activations": ("erf-sigmoid",),
        "temperatures": (0.05, 0.3),
        "seeds": 1,
        "width": 50,
        "moves": 100,
    },
    "coding/drift": {
        "activations": ("linear", "erf-sigmoid"),
        "sizes": (30, 15, 15),
        "width": 60,
        "moves": 600,
    },
    "coding/digits": {
        "activations": ("linear", "relu"),
        "examples": 60,
        "tests": 200,
        "width": 100,
        "moves": 150,
    },
    "coding/width": {
        "activations": ("erf-sigmoid",),
        "seeds": 2,
        "widths": (40, 60, 100),  # priors at 60: at 40 their error is 5 %, which is the limit
        "variances": (1.0, 16.0),
        "deep_width": 80,
        "moves": 150,
    },
}
