"""Claims of experiments: judgements that compare numbers, and statements that rest on them."""

from ._claim import Claim as Claim
from ._claim import Judgement as Judgement
from ._claim import Verdict as Verdict
from ._claim import headline_claim as headline_claim
from ._collector import ClaimCollector as ClaimCollector
from ._collector import claims_from_source as claims_from_source
from ._judgements import SIGNIFICANCE_LEVEL as SIGNIFICANCE_LEVEL
from ._judgements import agree as agree
from ._judgements import all_above as all_above
from ._judgements import all_below as all_below
from ._judgements import decreasing as decreasing
from ._judgements import equal_to as equal_to
from ._judgements import follows_power_law as follows_power_law
from ._judgements import frequency_agrees as frequency_agrees
from ._judgements import increasing as increasing
from ._judgements import join_numbers as join_numbers
from ._judgements import max_error_below as max_error_below
from ._judgements import mean_agrees as mean_agrees
from ._judgements import most_seeds as most_seeds
