"""Coding schemes: which code hidden neurons of Bayesian networks use for classes."""

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
           shows="analog, redundant and sparse codes: samples beside the law of a neuron"),
    _entry("_temperature", "temperature", 120,
           shows="codes melt: kernels at every temperature, and where words are gone"),
    _entry("_drift", "representational drift", 60,
           shows="linear neurons drift, branches of others are disconnected and stay"),
    _entry("_digits", "generalisation", 90,
           shows="digits: bias and variance of networks with features, beside lazy ones"),
    _entry("_width", "limit of wide networks", 150,
           shows="how wide networks must be, priors of readouts, and two hidden layers"),
)
# fmt: on
