"""What mathematics predicts: a package for each field."""

from . import decisions as decisions
from . import linear as linear
from . import saddles as saddles
