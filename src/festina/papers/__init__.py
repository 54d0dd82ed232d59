"""Experiments that check the published sources: a package per source, a module per experiment.

This module holds data only, so `festina list` imports no experiment.
"""

from . import coding, haste, linear, race, saddles
from ._references import bibtex as bibtex

EXPERIMENTS = (
    *linear.EXPERIMENTS,
    *race.EXPERIMENTS,
    *haste.EXPERIMENTS,
    *coding.EXPERIMENTS,
    *saddles.EXPERIMENTS,
)
"""Entries of all experiments of the sources, in the order of `festina list`."""
