"""The table of experiments: data alone, so that listing them costs nothing."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One line of `festina list`.

    `seconds` is the expected time on two cores, compilation included; `references` are keys of
    `festina.papers.bibtex`.
    """

    name: str
    shows: str
    source: str
    seconds: float | int
    module: str
    references: tuple[str, ...] = ()


_SADDLES = "festina.papers.saddles"
_PAPER = ("zhang2025saddle", "fukumizu2000local")

_SADDLES_ENTRIES = (
    Entry(
        "saddles/figure-1b",
        "linear fully-connected network: rank one, then rank two",
        "Zhang, Saxe & Latham, Figure 1B",
        10,
        f"{_SADDLES}._figure_1b",
        (*_PAPER, "saxe2014exact"),
    ),
    Entry(
        "saddles/figure-1c",
        "linear convolutional network: one kernel direction, then two",
        "Zhang, Saxe & Latham, Figure 1C",
        10,
        f"{_SADDLES}._figure_1c",
        _PAPER,
    ),
    Entry(
        "saddles/figure-1d",
        "ReLU network on two orthogonal points: one ray of weights, then two",
        "Zhang, Saxe & Latham, Figure 1D",
        10,
        f"{_SADDLES}._figure_1d",
        (*_PAPER, "boursier2022gradient"),
    ),
    Entry(
        "saddles/figure-1e",
        "ReLU convolutional network: one kernel ray, then two",
        "Zhang, Saxe & Latham, Figure 1E",
        10,
        f"{_SADDLES}._figure_1e",
        _PAPER,
    ),
    Entry(
        "saddles/figure-1f",
        "linear attention on in-context regression: one head, then two",
        "Zhang, Saxe & Latham, Figure 1F",
        10,
        f"{_SADDLES}._figure_1f",
        (*_PAPER, "zhang2025training"),
    ),
    Entry(
        "saddles/figure-1g",
        "quadratic network: one active unit, then two",
        "Zhang, Saxe & Latham, Figure 1G",
        10,
        f"{_SADDLES}._figure_1g",
        _PAPER,
    ),
)

_LINEAR = "festina.papers.linear"
_TABULA_RASA = ("saxe2014exact", "saxe2019mathematical")
_LAZY_TO_RICH = ("domine2025lazy", "braun2022exact")


def _linear(name: str, shows: str, slide: str, seconds: int, references: tuple[str, ...]) -> Entry:
    module = f"{_LINEAR}._{name.replace('-', '_')}"
    return Entry(f"linear/{name}", shows, f"Saxe, slides: {slide}", seconds, module, references)


_LINEAR_ENTRIES = (
    _linear(
        "learning-curves",
        "one chain, shallow to infinitely deep: exponential, sigmoid, plateau",
        "Analytic learning trajectory",
        8,
        _TABULA_RASA,
    ),
    _linear(
        "chains",
        "a whole network learns like independent chains, one for each mode",
        "Full networks act like several 1D chains",
        13,
        _TABULA_RASA,
    ),
    _linear(
        "depth",
        "training time against depth: small, pretrained and orthogonal weights",
        "Training speed; Effect of initialization",
        15,
        ("saxe2014exact",),
    ),
    _linear(
        "structures",
        "trees, clusters, rings, grids: the modes of a world and when each is learned",
        "Connecting neural nets and graphical models",
        8,
        _TABULA_RASA,
    ),
    _linear(
        "differentiation",
        "a hierarchy is learned from the top: broad distinctions first",
        "Progressive differentiation",
        7,
        _TABULA_RASA,
    ),
    _linear(
        "hierarchy-of-saddles",
        "learning passes near a sequence of saddles, each seed in its own way",
        "Depth introduces a hierarchy of saddle points",
        8,
        _TABULA_RASA,
    ),
    _linear(
        "decisions",
        "mice from naive to expert: individual trajectories from initial weights",
        "Learning to make perceptual decisions",
        7,
        ("liebana2025dopamine",),
    ),
    _linear(
        "decision-saddles",
        "the stationary points behind the strategies of mice",
        "Dynamics pass near a hierarchy of saddle points",
        4,
        ("liebana2025dopamine",),
    ),
    _linear(
        "decision-depth",
        "shallow and deep decision networks: only depth has saddles",
        "Saddle points arise through depth",
        4,
        ("liebana2025dopamine",),
    ),
    _linear(
        "partitioned-solution",
        "the exact solution for balanced weights, and where it was misprinted",
        "Partitioned solution",
        10,
        _LAZY_TO_RICH,
    ),
    _linear(
        "exponential-to-sigmoidal",
        "the relative scale of two layers turns exponentials into sigmoids",
        "From exponential to sigmoidal dynamics",
        3,
        _LAZY_TO_RICH,
    ),
    _linear(
        "regimes",
        "rich, lazy and delayed rich: a map over balance and architecture",
        "Rich and lazy learning; Architecture and learning regime",
        13,
        _LAZY_TO_RICH,
    ),
    _linear(
        "delayed-rich",
        "features that are learned long after the loss has dropped",
        "Delayed rich regime",
        5,
        _LAZY_TO_RICH,
    ),
    _linear(
        "continual",
        "one task after the other: what is forgotten, exactly",
        "Exact continual learning dynamics",
        8,
        _LAZY_TO_RICH,
    ),
    _linear(
        "reversal",
        "relearning the opposite: trapped when balanced, fast when not",
        "Exact continual learning dynamics",
        10,
        _LAZY_TO_RICH,
    ),
    _linear(
        "relative-scale",
        "grokking in modular arithmetic against the relative scale of two layers",
        "Impact of relative scale initializations in practice",
        26,
        ("domine2025lazy", "kunin2024get", "gromov2023grokking"),
    ),
)

ENTRIES: tuple[Entry, ...] = (*_LINEAR_ENTRIES, *_SADDLES_ENTRIES)
