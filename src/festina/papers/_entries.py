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
    Entry(
        "saddles/figure-2a",
        "width: logarithmic in a linear network, decisive in attention",
        "Zhang, Saxe & Latham, Figure 2A",
        30,
        f"{_SADDLES}._figure_2a",
        (*_PAPER, "zhang2025training"),
    ),
    Entry(
        "saddles/figure-2b",
        "a flatter spectrum: shorter plateaus in between, a longer first one",
        "Zhang, Saxe & Latham, Figure 2B",
        20,
        f"{_SADDLES}._figure_2b",
        (*_PAPER, "zhang2025training"),
    ),
    Entry(
        "saddles/figure-2c",
        "large low-rank weights: no first plateau, then saddle to saddle",
        "Zhang, Saxe & Latham, Figure 2C",
        10,
        f"{_SADDLES}._figure_2c",
        (*_PAPER, "domine2025lazy"),
    ),
    Entry(
        "saddles/figure-2d",
        "the scale of initial weights: when plateaus shrink and fade",
        "Zhang, Saxe & Latham, Figure 2D",
        15,
        f"{_SADDLES}._figure_2d",
        (*_PAPER, "zhang2025training"),
    ),
    Entry(
        "saddles/theorem-1",
        "fixed points of narrow networks, embedded in wider ones of every architecture",
        "Zhang, Saxe & Latham, Theorem 1",
        25,
        f"{_SADDLES}._theorem_1",
        _PAPER,
    ),
    Entry(
        "saddles/theorem-3",
        "relations between units that training keeps, and networks with one unit less",
        "Zhang, Saxe & Latham, Theorem 3",
        15,
        f"{_SADDLES}._theorem_3",
        _PAPER,
    ),
    Entry(
        "saddles/theorem-4",
        "directions separate as a power of the initial scale",
        "Zhang, Saxe & Latham, Theorem 4",
        8,
        f"{_SADDLES}._theorem_4",
        _PAPER,
    ),
    Entry(
        "saddles/proposition-5",
        "when each unit leaves zero, and units that bounce",
        "Zhang, Saxe & Latham, Proposition 5",
        20,
        f"{_SADDLES}._proposition_5",
        _PAPER,
    ),
    Entry(
        "saddles/lemma-6",
        "all fixed points of a linear network, their losses and how each is left",
        "Zhang, Saxe & Latham, Lemma 6",
        6,
        f"{_SADDLES}._lemma_6",
        (*_PAPER, "baldi1989neural"),
    ),
    Entry(
        "saddles/staircase",
        "levels, jumps and active sets of four kinds of network, from their initial weights",
        "Zhang, Saxe & Latham, Lemma 6; Pesme & Flammarion (2023); Kunin et al. (2025)",
        45,
        f"{_SADDLES}._staircase",
        (*_PAPER, "pesme2023saddle", "kunin2025alternating"),
    ),
    Entry(
        "saddles/figure-3",
        "wide networks on MNIST: two drops, and two units that compute the same",
        "Zhang, Saxe & Latham, Figure 3",
        200,
        f"{_SADDLES}._figure_3",
        _PAPER,
    ),
    Entry(
        "saddles/table-1",
        "which singular values of MNIST govern the plateaus",
        "Zhang, Saxe & Latham, Table 1",
        15,
        f"{_SADDLES}._table_1",
        _PAPER,
    ),
    Entry(
        "saddles/figure-4a",
        "softmax attention: first a fit of uniform attention to the sample",
        "Zhang, Saxe & Latham, Figure 4A",
        45,
        f"{_SADDLES}._figure_4a",
        (*_PAPER, "zhang2025training"),
    ),
    Entry(
        "saddles/figure-4b",
        "sigmoid network: no initial plateau, then units that are alike",
        "Zhang, Saxe & Latham, Figure 4B",
        40,
        f"{_SADDLES}._figure_4b",
        _PAPER,
    ),
    Entry(
        "saddles/figure-4c",
        "sine network: one direction of weights, which is no saddle's",
        "Zhang, Saxe & Latham, Figure 4C",
        20,
        f"{_SADDLES}._figure_4c",
        _PAPER,
    ),
    Entry(
        "saddles/figure-4d",
        "tanh network: one direction of weights, which is no saddle's",
        "Zhang, Saxe & Latham, Figure 4D",
        25,
        f"{_SADDLES}._figure_4d",
        _PAPER,
    ),
    Entry(
        "saddles/figure-4e",
        "an activation of order two, unnamed in the text: one active unit, then two",
        "Zhang, Saxe & Latham, Figure 4E",
        12,
        f"{_SADDLES}._figure_4e",
        _PAPER,
    ),
    Entry(
        "saddles/figure-4f",
        "z tanh z: one active unit that grows on and on, then two",
        "Zhang, Saxe & Latham, Figure 4F",
        15,
        f"{_SADDLES}._figure_4f",
        _PAPER,
    ),
    Entry(
        "saddles/figure-4g",
        "cubic network: one active unit, then two; diverges at the stated rate",
        "Zhang, Saxe & Latham, Figure 4G",
        20,
        f"{_SADDLES}._figure_4g",
        _PAPER,
    ),
    Entry(
        "saddles/figure-4h",
        "an activation of order three, unnamed in the text: one active unit, then two",
        "Zhang, Saxe & Latham, Figure 4H",
        20,
        f"{_SADDLES}._figure_4h",
        _PAPER,
    ),
    Entry(
        "saddles/figure-5a",
        "three-layer linear network: rank one in every layer, then rank two",
        "Zhang, Saxe & Latham, Figure 5A",
        8,
        f"{_SADDLES}._figure_5a",
        _PAPER,
    ),
    Entry(
        "saddles/figure-5b",
        "linear convolution and a linear layer: one kernel direction, then two",
        "Zhang, Saxe & Latham, Figure 5B",
        8,
        f"{_SADDLES}._figure_5b",
        _PAPER,
    ),
    Entry(
        "saddles/figure-5c",
        "three-layer ReLU network: one ray of first-layer weights, then two",
        "Zhang, Saxe & Latham, Figure 5C",
        8,
        f"{_SADDLES}._figure_5c",
        _PAPER,
    ),
    Entry(
        "saddles/figure-5d",
        "ReLU convolution and a ReLU layer: one kernel ray, then two",
        "Zhang, Saxe & Latham, Figure 5D",
        15,
        f"{_SADDLES}._figure_5d",
        _PAPER,
    ),
    Entry(
        "saddles/figure-5e",
        "linear transformer: one head, then two, started by an accident of the sample",
        "Zhang, Saxe & Latham, Figure 5E",
        20,
        f"{_SADDLES}._figure_5e",
        (*_PAPER, "zhang2025training"),
    ),
    Entry(
        "saddles/figure-5f",
        "quadratic and linear layer: one active unit, then two",
        "Zhang, Saxe & Latham, Figure 5F",
        6,
        f"{_SADDLES}._figure_5f",
        _PAPER,
    ),
    Entry(
        "saddles/figure-6",
        "skip connections: a network learns as if skipped layers were not there",
        "Zhang, Saxe & Latham, Figure 6",
        55,
        f"{_SADDLES}._figure_6",
        (*_PAPER, "saxe2019mathematical"),
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
