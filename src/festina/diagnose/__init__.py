"""What a run shows, or weights in plain arrays.

- `plateaus` of a loss curve, with or without gradients, and its drops; `rests` of a whole batch;
- `effective_width` of weights, `effective_widths` along a run: how few units compute the same, and
  which kind of fixed point that is; `fitted_width`: how few would do with other weights;
  `confirm` whether it is one;
- `rays` of weights that many units share;
- tangent kernels and their distance, similarity of representations, and a map of them
  (`classical_mds`).
"""

from ._confirm import Confirmation as Confirmation
from ._confirm import confirm as confirm
from ._fitted import FittedWidth as FittedWidth
from ._fitted import fitted_width as fitted_width
from ._kernels import kernel_alignment as kernel_alignment
from ._kernels import kernel_distance as kernel_distance
from ._kernels import kernel_distance_over as kernel_distance_over
from ._kernels import neural_tangent_kernel as neural_tangent_kernel
from ._kernels import representational_similarity as representational_similarity
from ._mds import Scaling as Scaling
from ._mds import classical_mds as classical_mds
from ._passage import passage_time as passage_time
from ._plateaus import Plateaus as Plateaus
from ._plateaus import plateaus as plateaus
from ._rays import Rays as Rays
from ._rays import rays as rays
from ._rests import rests as rests
from ._stairs import Stairs as Stairs
from ._stairs import effective_widths as effective_widths
from ._width import EffectiveWidth as EffectiveWidth
from ._width import effective_width as effective_width
