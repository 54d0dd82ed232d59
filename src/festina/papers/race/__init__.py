"""Gated deep linear networks and the neural race: every slide on them."""

from ...experiments._experiment_entry import ExperimentEntry

_RACE = ("saxe2022neural",)


def _entry(module: str, slide: str, seconds: int, *references: str, shows: str) -> ExperimentEntry:
    name = "race/" + module.rpartition(".")[2].lstrip("_").replace("_", "-")
    return ExperimentEntry(
        name, shows, f"Saxe, slides: {slide}", seconds, f"{__name__}.{module}", references
    )


# fmt: off
EXPERIMENTS = (
    _entry("_xor", "XoR dynamics; Assumptions & caveats", 20, *_RACE,
           shows="exclusive or by gates, and which gating a ReLU network takes"),
    _entry("_transition", "Transition to nonlinearity", 30, *_RACE,
           shows="XoR with a margin: from nonlinear to linear where the two pathways tie"),
    _entry("_outcomes", "Transition to nonlinearity", 40, *_RACE,
           shows="who wins over margin and scale in a thousand networks, from initial weights"),
    _entry("_context", "Context-dependent processing", 40, *_RACE,
           shows="pathways for all sets of contexts: those of all, and of all but one, win"),
    _entry("_routing", "Dynamics of abstraction", 30, *_RACE,
           shows="translation between domains: a whole network by three numbers for each mode"),
    _entry("_abstraction", "Race dynamics favor shared structure", 40, *_RACE,
           shows="one trunk for all pairs of domains against pathways of their own"),
    _entry("_generalisation", "Systematic generalization; rich vs lazy learning", 60, *_RACE,
           shows="pairs that were never trained: from decoupled and from random weights"),
)
# fmt: on
