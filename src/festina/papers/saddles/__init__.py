"""Saddle-to-saddle dynamics across architectures: every figure, table and theorem of the paper."""

from ...experiments._experiment_entry import ExperimentEntry

_PAPER = ("zhang2025saddle", "fukumizu2000local")


def _entry(
    name: str, module: str, place: str, seconds: int, *more: str, shows: str
) -> ExperimentEntry:
    source, references = f"Zhang, Saxe & Latham, {place}", (*_PAPER, *more)
    return ExperimentEntry(
        f"saddles/{name}", shows, source, seconds, f"{__name__}.{module}", references
    )


# fmt: off
EXPERIMENTS = (
    _entry("figure-1b", "figure_1._b", "Figure 1B", 10, "saxe2014exact",
           shows="linear fully-connected network: rank one, then rank two"),
    _entry("figure-1c", "figure_1._c", "Figure 1C", 10,
           shows="linear convolutional network: one kernel direction, then two"),
    _entry("figure-1d", "figure_1._d", "Figure 1D", 10, "boursier2022gradient",
           shows="ReLU network on two orthogonal points: one ray of weights, then two"),
    _entry("figure-1e", "figure_1._e", "Figure 1E", 10,
           shows="ReLU convolutional network: one kernel ray, then two"),
    _entry("figure-1f", "figure_1._f", "Figure 1F", 10, "zhang2025training",
           shows="linear attention on in-context regression: one head, then two"),
    _entry("figure-1g", "figure_1._g", "Figure 1G", 10,
           shows="quadratic network: one active unit, then two"),
    _entry("figure-2a", "figure_2._a", "Figure 2A", 30, "zhang2025training",
           shows="width: logarithmic in a linear network, decisive in attention"),
    _entry("figure-2b", "figure_2._b", "Figure 2B", 20, "zhang2025training",
           shows="a flatter spectrum: shorter plateaus in between, a longer first one"),
    _entry("figure-2c", "figure_2._c", "Figure 2C", 10, "domine2025lazy",
           shows="large low-rank weights: no first plateau, then saddle to saddle"),
    _entry("figure-2d", "figure_2._d", "Figure 2D", 15, "zhang2025training",
           shows="the scale of initial weights: when plateaus shrink and fade"),
    _entry("theorem-1", "theorems._theorem_1", "Theorem 1", 25,
           shows="fixed points of narrow networks, embedded in wider ones of every architecture"),
    _entry("theorem-3", "theorems._theorem_3", "Theorem 3", 15,
           shows="relations between units that training keeps, and networks with one unit less"),
    _entry("theorem-4", "theorems._theorem_4", "Theorem 4", 8,
           shows="directions separate as a power of the initial scale"),
    _entry("proposition-5", "theorems._proposition_5", "Proposition 5", 20,
           shows="when each unit leaves zero, and units that bounce"),
    _entry("drop-times", "_drop_times", "Proposition 5; Figure 1G", 40,
           shows="the law of drop times over very many seeds, both drops from initial weights"),
    _entry("lemma-6", "theorems._lemma_6", "Lemma 6", 6, "baldi1989neural",
           shows="all fixed points of a linear network, their losses and how each is left"),
    _entry("staircase", "theorems._staircase",
           "Lemma 6; Pesme & Flammarion (2023); Kunin et al. (2025)", 45,
           "pesme2023saddle", "kunin2025alternating",
           shows="levels, jumps and active sets of four kinds of network, from initial weights"),
    _entry("figure-3", "digits._figure_3", "Figure 3", 200,
           shows="wide networks on MNIST: two drops, and two units that compute the same"),
    _entry("table-1", "digits._table_1", "Table 1", 15,
           shows="which singular values of MNIST govern the plateaus"),
    _entry("figure-4a", "figure_4._a", "Figure 4A", 45, "zhang2025training",
           shows="softmax attention: first a fit of uniform attention to the sample"),
    _entry("figure-4b", "figure_4._b", "Figure 4B", 40,
           shows="sigmoid network: no initial plateau, then units that are alike"),
    _entry("figure-4c", "figure_4._c", "Figure 4C", 20,
           shows="sine network: one direction of weights, which is no saddle's"),
    _entry("figure-4d", "figure_4._d", "Figure 4D", 25,
           shows="tanh network: one direction of weights, which is no saddle's"),
    _entry("figure-4e", "figure_4._e", "Figure 4E", 12,
           shows="an activation of order two, unnamed in the text: one active unit, then two"),
    _entry("figure-4f", "figure_4._f", "Figure 4F", 15,
           shows="z tanh z: one active unit that grows on and on, then two"),
    _entry("figure-4g", "figure_4._g", "Figure 4G", 20,
           shows="cubic network: one active unit, then two; diverges at the stated rate"),
    _entry("figure-4h", "figure_4._h", "Figure 4H", 20,
           shows="an activation of order three, unnamed in the text: one active unit, then two"),
    _entry("figure-5a", "figure_5._a", "Figure 5A", 8,
           shows="three-layer linear network: rank one in every layer, then rank two"),
    _entry("figure-5b", "figure_5._b", "Figure 5B", 8,
           shows="linear convolution and a linear layer: one kernel direction, then two"),
    _entry("figure-5c", "figure_5._c", "Figure 5C", 8,
           shows="three-layer ReLU network: one ray of first-layer weights, then two"),
    _entry("figure-5d", "figure_5._d", "Figure 5D", 15,
           shows="ReLU convolution and a ReLU layer: one kernel ray, then two"),
    _entry("figure-5e", "figure_5._e", "Figure 5E", 20, "zhang2025training",
           shows="linear transformer: one head, then two, started by an accident of the sample"),
    _entry("figure-5f", "figure_5._f", "Figure 5F", 6,
           shows="quadratic and linear layer: one active unit, then two"),
    _entry("figure-6", "_figure_6", "Figure 6", 55, "saxe2019mathematical",
           shows="skip connections: a network learns as if skipped layers were not there"),
)
# fmt: on
