"""The staircase of a training run, predicted by the theory for its architecture."""

from dataclasses import replace

import numpy as np

from ..._objective import LossConvention, loss_factor, objective
from ..._precision import float64
from ...networks import AbstractNetwork, DeepLinear, DiagonalLinear, Layer
from ...tasks import AbstractTask
from ._linear_layer import as_layer, is_linear
from ._staircase_deep import deep_staircase
from ._staircase_diagonal import diagonal_staircase
from ._staircase_linear import linear_staircase
from ._staircase_units import has_growing_units, unit_staircase
from ._stairs import Staircase, stacked, warned


@float64
def staircase(
    network: AbstractNetwork, task: AbstractTask, *, loss: LossConvention = "half"
) -> Staircase:
    r"""Predict plateau levels, drop times and active modes or units of training from small weights.

    Nothing is trained. On each plateau, the growth of the small weights has a closed form or a
    cheap integral; only the jumps between plateaus are integrated. The architecture decides which
    theory is used:

    - Two-layer linear networks (a fully-connected linear `Layer`, or a `DeepLinear` of two layers):
      modes become active.
    - `DeepLinear` networks of $D \ge 3$ layers, with inputs of any covariance: modes become active.
      Small weights obey a homogeneous equation and diverge in a time of order $\epsilon^{2-D}$ for
      an initial scale $\epsilon$. The relative error of the times decreases with $\epsilon$; it is
      about $10^{-5}$ at $\epsilon = 0.01$.
    - `DiagonalLinear` networks: coordinates become active.
    - Layers of units with fixed features and of order two or more in their weights (quadratic
      neurons, heads of linear attention): units become active. The time of the first drop has an
      error of $O(\epsilon\ln(1/\epsilon))$. Times of later drops are sensitive to the duration of
      earlier jumps. `uncertainty` estimates this error from two predictions, in which the growth of
      dormant units resumes before and after the jump.

    **Arguments:**

    - `network`: the initial weights of one network, or of a batch.
    - `task`: what is learned; only its statistics enter.
    - `loss`: the convention of levels and times, as for `festina.gradient_flow`. Gradient descent
      at a small learning rate $\eta$ on the same loss reaches the time $t$ after $t/\eta$ steps.

    **Returns:**

    A `Staircase`; for a batch, its arrays have the axes of the batch in front. Compare the result
    with `festina.diagnose.plateaus(festina.gradient_flow(network, task,
    loss=loss))`, or for a batch with `festina.diagnose.plateaus_of_batch`. In both the prediction
    and the diagnosis a plateau counts if the squared gradient dips by half a decade.

    **Example:**

    >>> import numpy as np
    >>> from festina.networks import fully_connected, seeds
    >>> from festina.tasks import linear_teacher
    >>> from festina.theory.saddles import staircase
    >>> network = fully_connected(2, 5, 2, scale=1e-4, key=seeds(1)[0])
    >>> print(staircase(network, linear_teacher(np.diag([2.0, 1.0]))))
    3 levels of the loss 'half'
           level      left at        ±   active modes
             2.5      4.44001   0.0008   none
             0.5      8.20238    0.006   0
               0                         0, 1

    !!! note "When not to trust the result"

        `uncertainty` estimates the error of each time. The function warns, and `doubts()` lists the
        reasons, if

        - the initial weights are not near a saddle: their loss differs from the loss of zero
          weights and, for a linear network, from the loss of any set of learned modes;
        - the squared gradient dips at a plateau by 0.4 to 0.6 decades, close to the half decade at
          which a plateau counts;
        - a time is uncertain by more than 5 %;
        - a drop is so small that `plateaus` ignores it by default.

        On 200 random linear tasks (2 to 5 modes, 10 to 50 units, $\epsilon$ from $10^{-6}$ to
        $10^{-1}$) the predicted number of drops was right in 189 cases; the other 11 cases came
        with a warning. The median error of the times was 0.01 %, and the largest error without a
        warning was 0.4 %. All errors were below `uncertainty` or $10^{-4}$ of the time. 46 of the
        200 cases came with a warning.
    """
    objective(network, task, "half")  # checks that network and task fit
    batch = network.batch_shape
    if 0 in batch:
        raise ValueError(f"`network` is an empty batch {batch}, expected at least one network.")
    factor = loss_factor(loss, task)
    lanes = [network.lane(*index) for index in np.ndindex(*batch)] if batch else [network]
    found = stacked([_predict(lane, task) for lane in lanes], batch)
    return warned(
        replace(
            found,
            levels=factor * found.levels,
            initial=np.asarray(factor * found.initial),
            times=found.times / factor,
            uncertainty=found.uncertainty / factor,
            joined=found.joined / factor,
            convention=loss,
        )
    )


def _predict(network: AbstractNetwork, task: AbstractTask) -> Staircase:
    """Return the staircase of one network, for the loss `"half"`."""
    layer = as_layer(network)
    seen = task.statistics(network.view)
    if isinstance(network, DiagonalLinear):
        return diagonal_staircase(np.asarray(network.u), np.asarray(network.v), seen)
    if isinstance(layer, Layer) and is_linear(layer):
        return linear_staircase(np.asarray(layer.u), np.asarray(layer.v), seen)
    if isinstance(layer, DeepLinear) and layer.depth > 2:
        weights = [np.asarray(weight) for weight in layer.weights]
        return deep_staircase(weights, seen)
    if isinstance(layer, Layer) and has_growing_units(layer):
        return unit_staircase(layer, task)
    raise ValueError(
        f"There is no staircase predictor for {network!r}. Predictors exist for fully-connected "
        "linear networks of two or more layers, for diagonal linear networks, and for layers of "
        "units of order two or more with fixed features (products of inputs that do not depend on "
        f"the weights): powers of u·x and linear attention. {_advice(network)}"
    )


def _advice(network: AbstractNetwork) -> str:
    """Return advice for networks that have no staircase predictor."""
    if network.kinked:
        return (
            "Escape times of rectified units depend on which samples activate them, and are not "
            "predicted. Train the network with `festina.gradient_flow`."
        )
    return (
        "With an activation that behaves as zᵖ near zero, small weights escape as with "
        "`festina.networks.power(p)`, or for p = 1 as in a linear network: pass such a network."
    )
