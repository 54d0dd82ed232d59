"""What the sources claim: a package per source, a module per figure, table or theorem.

This page is data alone, so that listing experiments imports none of them.
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
"""Every experiment of the sources, in the order of `festina list`."""
