"""What a run shows, or weights in plain arrays.

- `plateaus` of a loss curve, with or without gradients, and its drops; `plateaus_of_batch` of a
  whole batch;
- `effective_width`: how few units compute the same, which kind of fixed point that is, and whether
  the network rests there;
- `unit_clusters` of weights that many units share;
- `selectivity` of hidden units for objects and contexts, beside that of random features;
  `layer_nonlinearity` of each layer: what its activation takes away;
- `gating` of hidden units, the pathways they make and how sure that is; `gate_changes`: how
  many gates change along a run, and when;
- `coding_scheme` of classes in hidden units: analog, redundant, sparse or none, and how sure that
  is;
- tangent kernels, how far they move and how much of the task they hold; similarity of
  representations, and a map of them (`classical_mds`).

Of plain arrays there is `unit_clusters_from`, `distance_between_kernels`, and so on.
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
