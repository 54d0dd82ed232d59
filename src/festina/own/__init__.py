"""Analyse your own training runs, in PyTorch or JAX.

- `watch` records a PyTorch run while it trains; `from_checkpoints` takes the checkpoints of a
  finished run. Either record gives the plateaus, and the effective width of the network on each
  plateau (`Stairs`).
- `read_watch` reads a run that `watch.save(path)` saved, without pickle.
- `forecast` predicts when the run will leave its present plateau.
- `shrink` makes a smaller network that computes the same outputs; `effective_width` counts the
  units that such a network needs.
- `lightning_callback` and `hugging_face_callback` replace `watch` for trainers with their own loop.
- `read_checkpoint`, `save_weights`, `with_weights` and `named_weights` read, save and exchange
  weights by name, without pickle.
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
