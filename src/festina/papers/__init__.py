"""What the sources claim: a package per source, a module per figure, table or theorem."""

from ._claim import Claim as Claim
from ._claim import compare as compare
from ._parameters import Parameters as Parameters
from ._registry import Entry as Entry
from ._registry import Experiment as Experiment
from ._registry import find as find
from ._registry import load as load
from ._registry import names as names
from ._registry import sources as sources
from ._registry import unknown as unknown
