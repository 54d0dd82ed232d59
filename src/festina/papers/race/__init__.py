"""Experiments on gated deep linear networks and the neural race, one per topic of the slides."""

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
           shows="ReLU networks learn XoR with one gate per example, not with the fastest gating"),
    _entry("_transition", "Transition to nonlinearity", 30, *_RACE,
           shows="XoR with a margin: the solution turns linear where both rates are equal"),
    _entry("_outcomes", "Transition to nonlinearity", 40, *_RACE,
           shows="initial weights predict which of a thousand networks find the linear solution"),
    _entry("_context", "Context-dependent processing", 40, *_RACE,
           shows="pathways that are open in all contexts, or in all but one, win the race"),
    _entry("_routing", "Dynamics of abstraction", 55, *_RACE,
           shows="translation between domains: three numbers per mode describe the whole network"),
    _entry("_abstraction", "Race dynamics favor shared structure", 60, *_RACE,
           shows="a trunk that all pairs of domains share learns faster than dedicated pathways"),
    _entry("_generalisation", "Systematic generalization; rich vs lazy learning", 60, *_RACE,
           shows="translation of pairs that were never trained, from decoupled and random weights"),
)
# fmt: on
