"""Experiments on coding schemes: how hidden neurons of Bayesian networks represent classes."""

from ...experiments._experiment_entry import ExperimentEntry

_CODING = ("vanmeegen2025coding",)


def _entry(module: str, place: str, seconds: int, shows: str) -> ExperimentEntry:
    name = "coding/" + module.rpartition(".")[2].lstrip("_").replace("_", "-")
    source = f"van Meegen & Sompolinsky: {place}"
    needs = {"extra": "posterior", "packages": ("blackjax", "arviz_stats")}
    return ExperimentEntry(name, shows, source, seconds, f"{__name__}.{module}", _CODING, **needs)


# fmt: off
EXPERIMENTS = (
    _entry("_schemes", "coding schemes", 120,
           shows="the activation decides whether the code is analog, redundant or sparse"),
    _entry("_temperature", "temperature", 120,
           shows="codes fade with temperature, and vanish near a crossover temperature"),
    _entry("_drift", "representational drift", 60,
           shows="linear neurons drift in long chains, saturating neurons keep their codewords"),
    _entry("_digits", "generalisation", 90,
           shows="bias and variance of feature-learning and lazy networks on handwritten digits"),
    _entry("_width", "limit of wide networks", 150,
           shows="codes against width, prior variance of readouts, and number of hidden layers"),
)
# fmt: on
