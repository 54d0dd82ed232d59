"""Train by gradient descent at a given learning rate, full batch or mini-batch."""

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

    The time of the trajectory counts steps. On a loss $c\cdot\frac12\langle|y-f|^2\rangle$, n steps
    correspond to gradient flow on the `"half"` loss for the time $c\eta n$. However, a mode of rate
    s grows by the factor $1 + c\eta s$ in each step, not by $e^{c\eta s}$. If training diverges,
    the trajectory's `endings` report the stability limit of the learning rate.

    **Arguments:**

    - `network`, `task`: initial network and task to learn. `loss`, `resolution`, `observe`,
      `progress`: loss convention, density of samples, functions to store and progress report;
      `festina.dynamics.gradient_flow` describes these arguments.
    - `learning_rate`: η, a number for all networks or an array with one value for each network.
    - `steps`: largest number of steps; full-batch training stops earlier once it has converged.
    - `momentum`: μ of heavy-ball momentum (Polyak 1964, PyTorch's `SGD(momentum=μ)`), with 0 ≤ μ <
      1: $v \leftarrow \mu v - \partial L/\partial\theta$, $\theta \leftarrow \theta + \eta v$,
      starting from $v = 0$. With momentum, n steps on a plateau correspond to the flow time $c\eta
      n/(1-\mu)$.
    - `batch_size`, `key`: number of samples of a mini-batch, and random key for shuffling. Each
      epoch draws the samples without replacement. The losses and gradients of the trajectory are
      those of the full data. An array of keys, one for each network, makes each network learn
      exactly as it does alone with its key; a single key is split among the networks.
    - `save_every`: number of steps between two samples of a mini-batch run. The default gives about
      500 samples. Every sample computes the loss and the gradient of the full data.
    - `converged`: tolerance of convergence, as a fraction of the initial loss, or of the loss of a
      network with zero output if that is smaller. Training has converged when the loss is within
      this tolerance of its lowest possible value, or when doubling the training time would lower
      the loss by less than this tolerance.
    - `max_steps`: largest number of steps if `steps` is None.

    Mini-batch runs take exactly `steps` steps. The arguments `resolution`, `converged` and
    `max_steps` apply to full-batch runs only, and `key` and `save_every` to mini-batch runs only.

    **Returns:**

    A `festina.dynamics.Trajectory` whose `time` counts steps.

    **Example:**

    >>> import numpy as np
    >>> import festina
    >>> network = festina.networks.deep_linear_from([0.1 * np.eye(2), 0.1 * np.eye(2)])
    >>> task = festina.tasks.from_arrays(np.eye(2), np.diag([2.0, 1.0]))
    >>> run = festina.gradient_descent(network, task, 0.1, steps=100)
    >>> run.time[[0, -1]]
    array([  0., 100.])
    >>> run.loss[[0, -1]].round(3)
    array([1.235, 0.   ])
    """
    check_kinds(network, task)
    rates = _for_each(network, "learning_rate", learning_rate)
    if not (np.isfinite(rates).all() and (rates > 0).all()):
        raise ValueError(f"`learning_rate` must be positive and finite, got {learning_rate}.")
    mu = _for_each(network, "momentum", momentum)
    if not ((mu >= 0) & (mu < 1)).all():
        raise ValueError(f"`momentum` must be at least 0 and below 1, got {momentum}.")
    mu = mu if mu.any() else None  # without momentum the compiled program is simpler
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
            "`save_every` applies to mini-batches only; for full batches use `resolution`. For "
            "samples at regular steps, set `batch_size` to the number of samples."
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
            f"`{name}` must be a number, or an array with one value for each network of the batch "
            f"{network.batch_shape}, got shape {values.shape}."
        ) from None
