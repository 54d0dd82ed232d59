"""Your own runs, in PyTorch or JAX.

- `watch` a run while it trains, or `from_checkpoints`: a run that has been, from a list of
  checkpoints; where its loss rests, and what the network computes there (`Stairs`);
- `read_watch`: a run that `watch.save(path)` saved, without pickle;
- `forecast`: when the plateau that it sits on is left;
- `shrink`: a network with fewer units that computes the same; `effective_width`: how few would do;
- `lightning_callback`, `hugging_face_callback`: `watch` where a trainer has the loop;
- `read_checkpoint`, `with_weights`, `named_weights`: weights in files, by names, without pickle.
"""

from ..diagnose._width import EffectiveWidth as EffectiveWidth
from ..diagnose._width import effective_width as effective_width
from ._files import Checkpoint as Checkpoint
from ._files import named_weights as named_weights
from ._files import read_checkpoint as read_checkpoint
from ._files import save_weights as save_weights
from ._files import with_weights as with_weights
from ._shrink import ShrinkResult as ShrinkResult
from ._shrink import shrink as shrink
from .forecasting._adam import Adam as Adam
from .forecasting._adam import AdamW as AdamW
from .forecasting._forecast import forecast as forecast
from .forecasting._result import Forecast as Forecast
from .forecasting._sgd import SGD as SGD
from .watching._adaptors import hugging_face_callback as hugging_face_callback
from .watching._adaptors import lightning_callback as lightning_callback
from .watching._checkpoints import CheckpointedRun as CheckpointedRun
from .watching._checkpoints import from_checkpoints as from_checkpoints
from .watching._read import read_watch as read_watch
from .watching._stairs import Stair as Stair
from .watching._stairs import Stairs as Stairs
from .watching._watch import Watch as Watch
from .watching._watch import watch as watch
