"""The vocabulary of claims: judgements of numbers, and how an experiment says them."""

from ._claim import Claim as Claim
from ._claim import Judgement as Judgement
from ._claim import Verdict as Verdict
from ._claim import headline as headline
from ._judgements import CHANCE as CHANCE
from ._judgements import above as above
from ._judgements import agree as agree
from ._judgements import apart as apart
from ._judgements import below as below
from ._judgements import exponent as exponent
from ._judgements import falls as falls
from ._judgements import listed as listed
from ._judgements import mean as mean
from ._judgements import most as most
from ._judgements import rises as rises
from ._judgements import same as same
from ._judgements import share as share
from ._ledger import Ledger as Ledger
from ._ledger import asserts as asserts
