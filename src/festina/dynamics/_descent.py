"""Gradient descent at a given learning rate, full batch or mini-batch."""

import numpy as np
from jaxtyping import Float

from .._checks import real_array, real_number, whole_number
from .._objective import LossConvention, check_kinds
from .._precision import float64
from .._types import Keys
from ..networks import AbstractNetwork
from ..networks._network import Network
from ..tasks import AbstractTask
from ._course import Course, Method
from ._descent_step import descent_step, heavy_ball_step
from ._logbook import SaveResolution
from ._observe import Observe
from ._simulate import begin, simulate
from ._trajectory import Trajectory
from ._worker import Progress


@float64
def gradient_descent(
    network: Network,
    task: AbstractTask,
    learning_rate: float | Float[np.ndarray, "*batch"],
    steps: int | None = None,
    *,
    loss: LossConvention = "half",
    momentum: float | Float[np.ndarray, "..."] = 0.0,
    batch_size: int | None = None,
    key: Keys | None = None,
    resolution: SaveResolution | None = None,
    observe: Observe | None = None,
    save_every: int | None = None,
    converged: float = 1e-9,
    max_steps: int = 300_000,
    progress: Progress | None = None,
) -> Trajectory[Network]:
    r"""Train by gradient descent, $\theta \leftarrow \theta - \eta\,\partial L/\partial\theta$.

    The clock counts steps. n steps on a loss $c\cdot\frac12\langle|y-f|^2\rangle$ are flow time
    $c\eta n$ of the half loss, but a mode of rate s grows per step by $1 + c\eta s$ and not by
    $e^{c\eta s}$. A learning rate that diverges is reported in the trajectory's `endings`.

    **Arguments:**

    - `network`, `task`, `loss`, `resolution`, `observe`, `progress`: as in `gradient_flow`.
    - `learning_rate`: η, one for all or one for each network of a batch.
    - `momentum`: μ of a heavy ball (Polyak 1964, PyTorch's `SGD(momentum=μ)`), from 0 to below 1:
      $v \leftarrow \mu v - \partial L/\partial\theta$, $\theta \leftarrow \theta + \eta v$,
      from rest. Where the loss is flat n steps are then flow time $c\eta n/(1-\mu)$.
    - `steps`: at most so many; full-batch training stops earlier when it has converged.
    - `batch_size`, `key`: mini-batches of that many samples, drawn without replacement in shuffled
      epochs. Loss and gradient are those of all samples. With one key for each network of a batch
      every one learns as it does alone with this key; a single key is split among them.
    - `save_every`: steps between two samples of a mini-batch run; about 500 samples by default.
      Each reads the whole data once, for their loss and gradient.
    - `converged`: training has converged when the loss is above its lowest possible value by less
      than this fraction of the initial loss, or of that of a network without output where large
      weights start higher, or when training as long again would gain no more.
    - `max_steps`: most steps if `steps` is not given.

    Mini-batch runs take exactly `steps` steps: `resolution`, `converged` and `max_steps` are for
    full batches, `key` and `save_every` for mini-batches.

    **Returns:**

    A `festina.dynamics.Trajectory`, whose `time` counts steps.
    """
    check_kinds(network, task)
    rates = _for_each(network, "learning_rate", learning_rate)
    if not (np.isfinite(rates).all() and (rates > 0).all()):
        raise ValueError(f"`learning_rate` must be positive and finite, got {learning_rate}.")
    mu = _for_each(network, "momentum", momentum)
    if not ((mu >= 0) & (mu < 1)).all():
        raise ValueError(f"`momentum` must be at least 0 and below 1, got {momentum}.")
    mu = mu if mu.any() else None  # the program without it is the simpler one
    if not 0 < real_number("converged", converged) < 1:
        raise ValueError(f"`converged` must lie between 0 and 1, got {converged}.")
    steps = None if steps is None else whole_number("steps", steps)
    max_steps = whole_number("max_steps", max_steps)
    if batch_size is not None:
        from ._minibatch import minibatch_descent

        return minibatch_descent(
            network,
            task,
            rates,
            steps,
            loss=loss,
            momentum=mu,
            batch_size=batch_size,
            key=key,
            save_every=save_every,
            observe=observe,
            progress=progress,
        )
    if save_every is not None:
        raise ValueError(
            "`save_every` is for mini-batches: full batches are sampled as `resolution` says. For "
            "samples at even steps let `batch_size` be all samples."
        )
    method = Method(
        name="gradient descent" + " with momentum" * (mu is not None),
        solver="descent",
        step=descent_step if mu is None else heavy_ball_step,
        evaluations=1,
        rtol=1e-8,
        learning_rate=rates,
        momentum=mu,
    )
    limit = {"max_steps": max_steps} if steps is None else {"steps": steps}
    course = Course(
        stops=np.array([np.inf if steps is None else float(steps)]),
        resolution=resolution or SaveResolution(),
        converged=converged,
        max_steps=max_steps if steps is None else steps,
        observe=observe,
        progress=progress,
        settings={"converged": converged, **limit},
    )
    return simulate(begin(network, task, loss), method, course)


def _for_each(
    network: AbstractNetwork, name: str, given: float | Float[np.ndarray, "..."]
) -> Float[np.ndarray, "*batch"]:
    values = real_array(name, given)
    try:
        return np.broadcast_to(values, network.batch_shape)
    except ValueError:
        raise ValueError(
            f"`{name}` must be one number or one for each network of the batch "
            f"{network.batch_shape}, got shape {values.shape}."
        ) from None
