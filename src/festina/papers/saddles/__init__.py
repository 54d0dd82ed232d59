"""Experiments on saddle-to-saddle dynamics: every figure, table and theorem of the paper."""

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
           shows="a linear fully-connected network learns weights of rank one, then of rank two"),
    _entry("figure-1c", "figure_1._c", "Figure 1C", 10,
           shows="a linear convolutional network learns one kernel direction, then two"),
    _entry("figure-1d", "figure_1._d", "Figure 1D", 10, "boursier2022gradient",
           shows="a ReLU network on two orthogonal points learns one ray of weights, then two"),
    _entry("figure-1e", "figure_1._e", "Figure 1E", 10,
           shows="a ReLU convolutional network learns one kernel ray, then two"),
    _entry("figure-1f", "figure_1._f", "Figure 1F", 10, "zhang2025training",
           shows="linear attention learns in-context regression with one head, then two"),
    _entry("figure-1g", "figure_1._g", "Figure 1G", 10,
           shows="a quadratic network learns with one active unit, then two"),
    _entry("figure-2a", "figure_2._a", "Figure 2A", 30, "zhang2025training",
           shows="more units speed up attention, but hardly a linear network"),
    _entry("figure-2b", "figure_2._b", "Figure 2B", 30, "zhang2025training",
           shows="a flatter spectrum shortens intermediate plateaus and lengthens the first"),
    _entry("figure-2c", "figure_2._c", "Figure 2C", 10, "domine2025lazy",
           shows="large low-rank initial weights skip the first plateau, but not the later ones"),
    _entry("figure-2d", "figure_2._d", "Figure 2D", 15, "zhang2025training",
           shows="larger initial weights shorten plateaus and finally remove them"),
    _entry("theorem-1", "theorems._theorem_1", "Theorem 1", 60,
           shows="fixed points of a narrow network stay fixed points when embedded in a wider one"),
    _entry("theorem-3", "theorems._theorem_3", "Theorem 3", 30,
           shows="training conserves relations between units, so that one unit can be removed"),
    _entry("theorem-4", "theorems._theorem_4", "Theorem 4", 8,
           shows="directions separate as a power of the initial scale"),
    _entry("proposition-5", "theorems._proposition_5", "Proposition 5", 20,
           shows="the time at which each unit of a quadratic network leaves zero"),
    _entry("drop-times", "_drop_times", "Proposition 5; Figure 1G", 40,
           shows="the distribution of drop times over many seeds, predicted from initial weights"),
    _entry("lemma-6", "theorems._lemma_6", "Lemma 6", 6, "baldi1989neural",
           shows="all fixed points of a linear network, their losses and escape rates"),
    _entry("staircase", "theorems._staircase",
           "Lemma 6; Pesme & Flammarion (2023); Kunin et al. (2025)", 45,
           "pesme2023saddle", "kunin2025alternating",
           shows="plateaus and drops of four kinds of networks, predicted from initial weights"),
    _entry("figure-3", "digits._figure_3", "Figure 3", 200,
           shows="wide networks on MNIST: two drops of the loss, after which two units suffice"),
    _entry("table-1", "digits._table_1", "Table 1", 50,
           shows="which singular values of MNIST images set the length of the plateaus"),
    _entry("figure-4a", "figure_4._a", "Figure 4A", 45, "zhang2025training",
           shows="softmax attention first fits the sample with uniform attention"),
    _entry("figure-4b", "figure_4._b", "Figure 4B", 40,
           shows="a sigmoid network has no initial plateau; its units then become alike"),
    _entry("figure-4c", "figure_4._c", "Figure 4C", 20,
           shows="a sine network grows one direction of weights without resting at a saddle"),
    _entry("figure-4d", "figure_4._d", "Figure 4D", 25,
           shows="a tanh network grows one direction of weights without resting at a saddle"),
    _entry("figure-4e", "figure_4._e", "Figure 4E", 12,
           shows="networks with an activation of order two have one active unit, then two"),
    _entry("figure-4f", "figure_4._f", "Figure 4F", 15,
           shows="a network with z tanh z has one active unit that keeps growing, then two"),
    _entry("figure-4g", "figure_4._g", "Figure 4G", 20,
           shows="a cubic network has one active unit, then two; the stated rate diverges"),
    _entry("figure-4h", "figure_4._h", "Figure 4H", 20,
           shows="networks with an activation of order three have one active unit, then two"),
    _entry("figure-5a", "figure_5._a", "Figure 5A", 8,
           shows="a three-layer linear network learns rank one in every layer, then rank two"),
    _entry("figure-5b", "figure_5._b", "Figure 5B", 8,
           shows="a linear convolution with a linear layer learns one kernel direction, then two"),
    _entry("figure-5c", "figure_5._c", "Figure 5C", 8,
           shows="a three-layer ReLU network learns one ray of first-layer weights, then two"),
    _entry("figure-5d", "figure_5._d", "Figure 5D", 15,
           shows="a ReLU convolution with a ReLU layer learns one kernel ray, then two"),
    _entry("figure-5e", "figure_5._e", "Figure 5E", 20, "zhang2025training",
           shows="a linear transformer starts from a chance correlation, learns with one head, "
           "then two"),
    _entry("figure-5f", "figure_5._f", "Figure 5F", 6,
           shows="a quadratic layer with a linear layer learns with one active unit, then two"),
    _entry("figure-6", "_figure_6", "Figure 6", 55, "saxe2019mathematical",
           shows="a network with skip connections learns as if the skipped layers were absent"),
)
# fmt: on
