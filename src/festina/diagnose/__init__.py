"""What a run shows: plateaus, rays of weights."""

from ._plateaus import Plateaus as Plateaus
from ._plateaus import passage_time as passage_time
from ._plateaus import plateaus as plateaus
from ._rays import Rays as Rays
from ._rays import rays as rays
