"""Checks of arguments; every error message names the argument and says how to correct it."""

from ._closed_forms import check_modes as check_modes
from ._closed_forms import check_positive as check_positive
from ._closed_forms import check_times as check_times
from ._closed_forms import finite as finite
from ._values import LARGEST as LARGEST
from ._values import acute as acute
from ._values import check_alone as check_alone
from ._values import check_choice as check_choice
from ._values import check_finite as check_finite
from ._values import check_lane as check_lane
from ._values import check_memory as check_memory
from ._values import check_size as check_size
from ._values import check_type as check_type
from ._values import finite_array as finite_array
from ._values import finite_matrix as finite_matrix
from ._values import misfit as misfit
from ._values import number as number
from ._values import real_array as real_array
from ._values import real_number as real_number
from ._values import whole_number as whole_number
from ._values import whole_numbers as whole_numbers
