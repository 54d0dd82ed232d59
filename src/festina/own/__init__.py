"""Your own runs, in PyTorch or JAX.

- `watch` a run while it trains, or `watched`: a run that has been, from a list of checkpoints;
  where its loss rests, and what the network computes there (`Stairs`);
- `forecast`: when the plateau that it sits on is left;
- `shrink`: a network with fewer units that computes the same; `widths`: how few would do;
- `lightning_callback`, `hugging_face_callback`: `watch` where a trainer has the loop;
- `read_checkpoint`, `load_weights`, `named_weights`: weights in files, by names, without pickle.
"""

from ._adaptors import hugging_face_callback as hugging_face_callback
from ._adaptors import lightning_callback as lightning_callback
from ._checkpoints import Watched as Watched
from ._checkpoints import watched as watched
from ._files import Checkpoint as Checkpoint
from ._files import load_weights as load_weights
from ._files import named_weights as named_weights
from ._files import read_checkpoint as read_checkpoint
from ._files import save_weights as save_weights
from ._forecast import forecast as forecast
from ._result import Forecast as Forecast
from ._rules import SGD as SGD
from ._rules import Adam as Adam
from ._rules import AdamW as AdamW
from ._shrink import Shrunk as Shrunk
from ._shrink import shrink as shrink
from ._stairs import Stair as Stair
from ._stairs import Stairs as Stairs
from ._watch import Watch as Watch
from ._watch import watch as watch
from ._widths import EffectiveWidths as EffectiveWidths
from ._widths import widths as widths
