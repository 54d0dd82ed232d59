"""Return the model of a network in PyTorch or JAX."""

from ._jax import JaxModel
from ._layers import AbstractModel
from ._pytorch import Function, is_module, unwrapped
from ._samples import Data


def model_of(
    model: object, x: Data, y: Data = None, apply: Function | None = None
) -> AbstractModel:
    """Return the model of a network; raise `ValueError` if it has no hidden layer."""
    model = unwrapped(model)
    if is_module(model):
        if apply is not None:
            raise ValueError(
                "`apply` is for trees of weights, got a PyTorch module, which is called itself: "
                "leave `apply` out."
            )
        from ._torch import TorchModel

        found: AbstractModel = TorchModel(model, x, y)
    else:
        found = JaxModel(model, x, y, apply)
    found.check()
    found.hidden = tuple(found.layers())
    if not found.hidden:
        raise ValueError(
            "No hidden layer was found in `model`, expected a linear layer, a 1-d convolution or "
            "heads of attention whose units reach the next such layer separately. Layers that are "
            "called twice, normalised over units or joined by a sum do not count."
        )
    found.notes = (*found.notes, *found.left_alone())
    return found
