"""Somebody's own training runs, in PyTorch or as any tree of arrays: what comes next."""

from ._forecast import forecast as forecast
from ._result import Forecast as Forecast
from ._rules import SGD as SGD
from ._rules import Adam as Adam
from ._rules import AdamW as AdamW
