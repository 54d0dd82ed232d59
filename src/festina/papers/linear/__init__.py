"""Experiments that test the slides on learning dynamics of deep linear networks."""

from ...experiments._experiment_entry import ExperimentEntry

_TABULA_RASA = ("saxe2014exact", "saxe2019mathematical")
_LAZY_TO_RICH = ("domine2025lazy", "braun2022exact")


def _entry(module: str, slide: str, seconds: int, *references: str, shows: str) -> ExperimentEntry:
    name = "linear/" + module.rpartition("._")[2].replace("_", "-")
    return ExperimentEntry(
        name, shows, f"Saxe, slides: {slide}", seconds, f"{__name__}.{module}", references
    )


# fmt: off
EXPERIMENTS = (
    _entry("chains._learning_curves", "Analytic learning trajectory", 8, *_TABULA_RASA,
           shows="one chain of weights learns exponentially or in a sigmoid, depending on depth"),
    _entry("chains._chains", "Full networks act like several 1D chains", 35, *_TABULA_RASA,
           shows="a whole linear network learns like independent chains, one for each mode"),
    _entry("chains._depth", "Training speed; Effect of initialization", 70, "saxe2014exact",
           shows="training time against depth for small, pretrained and orthogonal weights"),
    _entry("worlds._structures", "Connecting neural nets and graphical models", 20, *_TABULA_RASA,
           shows="modes of trees, clusters, rings and grids, and when each mode is learned"),
    _entry("worlds._differentiation", "Progressive differentiation", 15, *_TABULA_RASA,
           shows="a hierarchy is learned from the top, broad distinctions first"),
    _entry("chains._hierarchy_of_saddles", "Depth introduces a hierarchy of saddle points", 8,
           *_TABULA_RASA,
           shows="learning passes near saddles, in an order set by the initial weights"),
    _entry("decisions._decisions", "Learning to make perceptual decisions", 13,
           "liebana2025dopamine",
           shows="simulated mice learn from naive to expert, on paths set by initial weights"),
    _entry("decisions._decision_saddles", "Dynamics pass near a hierarchy of saddle points", 4,
           "liebana2025dopamine",
           shows="the stationary points behind the strategies of mice"),
    _entry("decisions._decision_depth", "Saddle points arise through depth", 7,
           "liebana2025dopamine",
           shows="shallow and deep decision networks: only deep networks have saddles"),
    _entry("balanced._partitioned_solution", "Partitioned solution", 18, *_LAZY_TO_RICH,
           shows="the exact solution for balanced weights, and its misprints"),
    _entry("balanced._exponential_to_sigmoidal", "From exponential to sigmoidal dynamics", 3,
           *_LAZY_TO_RICH,
           shows="the relative scale of two layers turns exponential into sigmoidal learning"),
    _entry("balanced._regimes", "Rich and lazy learning; Architecture and learning regime", 25,
           *_LAZY_TO_RICH,
           shows="rich, lazy and delayed rich learning, by balance and architecture"),
    _entry("balanced._regime_map", "Architecture and learning regime", 20, *_LAZY_TO_RICH,
           shows="a map of all balances and architectures shows which of them are lazy"),
    _entry("balanced._delayed_rich", "Delayed rich regime", 5, *_LAZY_TO_RICH,
           shows="features that are learned long after the loss has dropped"),
    _entry("balanced._continual", "Exact continual learning dynamics", 14, *_LAZY_TO_RICH,
           shows="exact forgetting of earlier tasks when tasks are learned in turn"),
    _entry("balanced._reversal", "Exact continual learning dynamics", 20, *_LAZY_TO_RICH,
           shows="reversal learning is slow for balanced layers and fast for unbalanced layers"),
    _entry("balanced._relative_scale", "Impact of relative scale initializations in practice", 90,
           "domine2025lazy", "kunin2024get", "gromov2023grokking",
           shows="when networks grok modular arithmetic, against the relative scale of two layers"),
)
# fmt: on
