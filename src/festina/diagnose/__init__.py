"""What a run shows, or weights in plain arrays.

- `plateaus` of a loss curve, with or without gradients, and its drops; `drop_times` of a whole
  batch;
- `effective_width`: how few units compute the same, which kind of fixed point that is, and whether
  the network rests there;
- `unit_clusters` of weights that many units share;
- `selectivity` of hidden units for objects and contexts, beside that of random features;
  `functional_linearity` of each layer: what its activation takes away;
- `gating` of hidden units, the pathways they make and how sure that is; `gating_over_time`: how
  many gates change along a run, and when;
- `code` of classes in hidden units: analog, redundant, sparse or none, and how sure that is;
- tangent kernels, how far they move and how much of the task they hold; similarity of
  representations, and a map of them (`classical_mds`).

Of plain arrays there is `rays_from`, `kernel_distance_from`, and so on.
"""

from ._code import CodeEvidence as CodeEvidence
from ._code import CodingScheme as CodingScheme
from ._code import coding_scheme as coding_scheme
from ._gating import Gating as Gating
from ._gating import gating as gating
from ._gating_course import GatingOverTime as GatingOverTime
from ._gating_course import gating_over_time as gating_over_time
from ._kernels import kernel_alignment as kernel_alignment
from ._kernels import kernel_alignment_from as kernel_alignment_from
from ._kernels import kernel_distance as kernel_distance
from ._kernels import kernel_distance_from as kernel_distance_from
from ._kernels import neural_tangent_kernel as neural_tangent_kernel
from ._kernels import representational_similarity as representational_similarity
from ._mds import MdsResult as MdsResult
from ._mds import classical_mds as classical_mds
from ._passage import passage_time as passage_time
from ._plateaus import Plateaus as Plateaus
from ._plateaus import plateaus as plateaus
from ._rays import UnitClusters as UnitClusters
from ._rays import rays_from as rays_from
from ._rays import unit_clusters as unit_clusters
from ._rests import drop_times as drop_times
from ._selectivity import Selectivity as Selectivity
from ._selectivity import selectivity as selectivity
from ._selectivity_linearity import FunctionalLinearity as FunctionalLinearity
from ._selectivity_linearity import functional_linearity as functional_linearity
from ._width import EffectiveWidth as EffectiveWidth
from ._width import effective_width as effective_width
