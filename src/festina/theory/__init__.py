"""What mathematics predicts: a package for each field."""

from . import saddles as saddles
