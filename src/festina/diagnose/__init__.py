"""Analyse a training run, a network, or weights and activations in plain arrays.

- `plateaus` finds the plateaus and drops of a loss curve; `plateaus_of_batch` does this for every
  network of a batch; `passage_time` returns when a loss passes a level.
- `effective_width` finds the narrowest network with the same outputs, and tests whether the wide
  network rests at a fixed point of that width.
- `unit_clusters` finds the directions that the weights of many hidden units share.
- `selectivity` measures how hidden units depend on objects and contexts, compared with random
  features; `layer_nonlinearity` measures how far each layer is from linear.
- `gating` finds which hidden units are active for which examples, and groups units into pathways;
  `gate_changes` counts how many gates change along a run.
- `coding_scheme` classifies how hidden units code classes: analog, redundant, sparse or none.
- `neural_tangent_kernel`, `tangent_kernel_distance` and `tangent_kernel_alignment` describe the
  tangent kernel and its change; `representational_similarity` and `classical_mds` describe
  hidden representations.

For plain arrays use `unit_clusters_from`, `distance_between_kernels` and
`alignment_between_kernels`.
"""

from ._coding_scheme import CodeEvidence as CodeEvidence
from ._coding_scheme import CodingScheme as CodingScheme
from ._coding_scheme import coding_scheme as coding_scheme
from ._gating import Gating as Gating
from ._gating import gating as gating
from ._gating_course import GateChanges as GateChanges
from ._gating_course import gate_changes as gate_changes
from ._kernels import alignment_between_kernels as alignment_between_kernels
from ._kernels import distance_between_kernels as distance_between_kernels
from ._kernels import neural_tangent_kernel as neural_tangent_kernel
from ._kernels import representational_similarity as representational_similarity
from ._kernels import tangent_kernel_alignment as tangent_kernel_alignment
from ._kernels import tangent_kernel_distance as tangent_kernel_distance
from ._mds import MdsResult as MdsResult
from ._mds import classical_mds as classical_mds
from ._passage import passage_time as passage_time
from ._plateaus import Plateaus as Plateaus
from ._plateaus import plateaus as plateaus
from ._plateaus_of_batch import plateaus_of_batch as plateaus_of_batch
from ._selectivity import Selectivity as Selectivity
from ._selectivity import selectivity as selectivity
from ._selectivity_linearity import LayerNonlinearity as LayerNonlinearity
from ._selectivity_linearity import layer_nonlinearity as layer_nonlinearity
from ._unit_clusters import UnitClusters as UnitClusters
from ._unit_clusters import unit_clusters as unit_clusters
from ._unit_clusters import unit_clusters_from as unit_clusters_from
from ._width import EffectiveWidth as EffectiveWidth
from ._width import effective_width as effective_width
