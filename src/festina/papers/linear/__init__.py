"""Deep linear networks: every slide on their learning dynamics."""

from .._entry import Entry

_TABULA_RASA = ("saxe2014exact", "saxe2019mathematical")
_LAZY_TO_RICH = ("domine2025lazy", "braun2022exact")


def _entry(module: str, slide: str, seconds: int, shows: str, *references: str) -> Entry:
    name = module.rpartition("._")[2].replace("_", "-")
    source = f"Saxe, slides: {slide}"
    return Entry(f"linear/{name}", shows, source, seconds, f"{__name__}.{module}", references)


ENTRIES = (
    _entry(
        "chains._learning_curves",
        "Analytic learning trajectory",
        8,
        "one chain, shallow to infinitely deep: exponential, sigmoid, plateau",
        *_TABULA_RASA,
    ),
    _entry(
        "chains._chains",
        "Full networks act like several 1D chains",
        13,
        "a whole network learns like independent chains, one for each mode",
        *_TABULA_RASA,
    ),
    _entry(
        "chains._depth",
        "Training speed; Effect of initialization",
        15,
        "training time against depth: small, pretrained and orthogonal weights",
        "saxe2014exact",
    ),
    _entry(
        "worlds._structures",
        "Connecting neural nets and graphical models",
        8,
        "trees, clusters, rings, grids: the modes of a world and when each is learned",
        *_TABULA_RASA,
    ),
    _entry(
        "worlds._differentiation",
        "Progressive differentiation",
        7,
        "a hierarchy is learned from the top: broad distinctions first",
        *_TABULA_RASA,
    ),
    _entry(
        "chains._hierarchy_of_saddles",
        "Depth introduces a hierarchy of saddle points",
        8,
        "learning passes near a sequence of saddles, each seed in its own way",
        *_TABULA_RASA,
    ),
    _entry(
        "decisions._decisions",
        "Learning to make perceptual decisions",
        7,
        "mice from naive to expert: individual trajectories from initial weights",
        "liebana2025dopamine",
    ),
    _entry(
        "decisions._decision_saddles",
        "Dynamics pass near a hierarchy of saddle points",
        4,
        "the stationary points behind the strategies of mice",
        "liebana2025dopamine",
    ),
    _entry(
        "decisions._decision_depth",
        "Saddle points arise through depth",
        4,
        "shallow and deep decision networks: only depth has saddles",
        "liebana2025dopamine",
    ),
    _entry(
        "balanced._partitioned_solution",
        "Partitioned solution",
        10,
        "the exact solution for balanced weights, and where it was misprinted",
        *_LAZY_TO_RICH,
    ),
    _entry(
        "balanced._exponential_to_sigmoidal",
        "From exponential to sigmoidal dynamics",
        3,
        "the relative scale of two layers turns exponentials into sigmoids",
        *_LAZY_TO_RICH,
    ),
    _entry(
        "balanced._regimes",
        "Rich and lazy learning; Architecture and learning regime",
        13,
        "rich, lazy and delayed rich: a map over balance and architecture",
        *_LAZY_TO_RICH,
    ),
    _entry(
        "balanced._delayed_rich",
        "Delayed rich regime",
        5,
        "features that are learned long after the loss has dropped",
        *_LAZY_TO_RICH,
    ),
    _entry(
        "balanced._continual",
        "Exact continual learning dynamics",
        8,
        "one task after the other: what is forgotten, exactly",
        *_LAZY_TO_RICH,
    ),
    _entry(
        "balanced._reversal",
        "Exact continual learning dynamics",
        10,
        "relearning the opposite: trapped when balanced, fast when not",
        *_LAZY_TO_RICH,
    ),
    _entry(
        "balanced._relative_scale",
        "Impact of relative scale initializations in practice",
        26,
        "grokking in modular arithmetic against the relative scale of two layers",
        "domine2025lazy",
        "kunin2024get",
        "gromov2023grokking",
    ),
)
