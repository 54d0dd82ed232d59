"""Structured worlds: items whose features are correlated, and the modes of these correlations."""

from ._graphs import clusters as clusters
from ._graphs import graph as graph
from ._lattices import chain as chain
from ._lattices import grid as grid
from ._lattices import ring as ring
from ._lattices import torus as torus
from ._trees import tree as tree
from ._world import ModeGroup as ModeGroup
from ._world import World as World
