"""Somebody's own run: what its network computes, and how small it could be."""

from ._shrink import Shrunk as Shrunk
from ._shrink import shrink as shrink
from ._widths import EffectiveWidths as EffectiveWidths
from ._widths import widths as widths
