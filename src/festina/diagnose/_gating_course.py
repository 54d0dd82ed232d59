"""Measure how many gates of a ReLU network change along training, and when."""

import itertools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from .._checks import check_type
from .._objective import loss_factor
from .._precision import float64
from .._result import Result
from ..dynamics import Trajectory
from ..networks import rectifier_gates
from ..networks._as_gated import layers_of
from ..tasks import Task
from ._given import check_trajectory


@dataclass(frozen=True, eq=False, repr=False)
class GateChanges(Result, drawn="from_last"):
    """Result of `gate_changes`: how the gates of a network change along a run.

    Axes of a batch come first. Fractions of gates are weighted by the current strength
    |w_in||w_out| of units.

    - `time`: time of each sample.
    - `loss`: loss of the gated network whose gates are recomputed at every sample, in the
      trajectory's convention.
    - `loss_gap`, `output_gap`: absolute difference between the gated and the ReLU network, for the
      loss and for the output that differs most.
    - `changed`: fraction of gates that differ from the sample before.
    - `from_first`, `from_last`: fraction of gates that differ from the first sample, and from the
      last one.
    - `last_change`: time of the last change of each gate, by hidden layer; −∞ without a change.
    - `flips`: number of changes of each gate, by hidden layer.

    **Example:**

    >>> import festina, numpy as np
    >>> network = festina.networks.layer_from("relu", [[0.01, 0.009], [0.009, 0.01]], [0.01, -0.01])
    >>> task = festina.tasks.from_arrays([[1, 0], [0, 1]], [1, -3])
    >>> run = festina.gradient_flow(network, task, np.linspace(0, 20, 101))
    >>> festina.diagnose.gate_changes(run, task).from_last[[0, 4, 100]].round(2)
    array([0.5 , 0.44, 0.  ])
    """

    time: Float[np.ndarray, "*batch save"]
    loss: Float[np.ndarray, "*batch save"]
    loss_gap: Float[np.ndarray, "*batch save"]
    output_gap: Float[np.ndarray, "*batch save"]
    changed: Float[np.ndarray, "*batch save"]
    from_first: Float[np.ndarray, "*batch save"]
    from_last: Float[np.ndarray, "*batch save"]
    last_change: tuple[Float[np.ndarray, "*batch _unit example"], ...]
    flips: tuple[Int[np.ndarray, "*batch _unit example"], ...]

    def __str__(self) -> str:
        """Show how many gates differ from the end of the run, averaged over a batch."""
        whole = lambda values: np.reshape(values, (-1, self.time.shape[-1])).mean(axis=0)
        times, left = whole(self.time), whole(self.from_last)
        ever = np.mean(np.concatenate([(each > 0).ravel() for each in self.flips]))
        rows = [f"{'time':>12}{'gates differing from the end':>30}"]
        for k in np.unique(np.linspace(0, len(times) - 1, 6).astype(int)):
            rows.append(f"{times[k]:>12.5g}{left[k]:>30.1%}")
        rows.append(f"{ever:.0%} of gates change at least once (gates near a kink may flicker)")
        rows.append(f"gated and ReLU outputs differ by at most {self.output_gap.max():.1g}")
        return "\n".join(rows)


@float64
def gate_changes(trajectory: Trajectory, task: Task) -> GateChanges:
    r"""Return how the gates of a ReLU network change along a run.

    Gates are recomputed at every sample. With the gates $D_l$ of the same sample, $f = W_L D_{L-1}
    \cdots D_1 W_1 x$ equals the ReLU network, and `output_gap` is rounding error. This identity is
    the equivalence of ReLU and gated networks. A network with fixed gates is a different network;
    `from_last` measures how far gates are from their final state.

    **Arguments:**

    - `trajectory`: a run of a layer or `DeepNetwork` of ReLU neurons without biases and skips.
    - `task`: the task on which the network was trained, whose examples define the gates.

    **Returns:** a `GateChanges`.

    **Example:**

    >>> import festina, numpy as np
    >>> network = festina.networks.layer_from("relu", [[0.01, 0.009], [0.009, 0.01]], [0.01, -0.01])
    >>> task = festina.tasks.from_arrays([[1, 0], [0, 1]], [1, -3])
    >>> run = festina.gradient_flow(network, task, np.linspace(0, 20, 101))
    >>> festina.diagnose.gate_changes(run, task).flips[0]
    array([[0, 1],
           [1, 0]])
    """
    check_trajectory(trajectory)
    check_type("task", task, Task)
    x, y = np.asarray(task.x, float), np.asarray(task.y, float)
    networks, front = trajectory.network, (slice(None),) * len(trajectory.batch_shape)
    networks.check_fit(task.input_shape, task.outputs)
    saves = trajectory.time.shape[-1]
    at = lambda save: networks.with_parts(*(part[(*front, save)] for part in networks.parts))
    first, last = (rectifier_gates(at(save), x) for save in (0, saves - 1))
    before, rows = first, []
    when = [np.full(gate.shape, -np.inf) for gate in first]
    flips = [np.zeros(gate.shape, int) for gate in first]
    for save in range(saves):
        network = at(save)
        weights, gates = layers_of(network)[0], rectifier_gates(network, x)
        h = x.T
        for weight, gate in zip(weights, gates, strict=False):
            h = gate * (weight @ h)
        outputs = (weights[-1] @ h).swapaxes(-1, -2)
        gap = np.abs(outputs - network.predict(x)).max(axis=(-1, -2))
        error = np.sum((outputs - y) ** 2, axis=-1) @ np.asarray(task.weight, float)
        strength = [
            np.linalg.norm(inward, axis=-1) * np.linalg.norm(outward, axis=-2)
            for inward, outward in itertools.pairwise(weights)
        ]
        others = (before, first, last)
        rows.append((error, gap, *(_apart(gates, other, strength) for other in others)))
        for gate, old, moment, count in zip(gates, before, when, flips, strict=True):
            turned = gate != old
            count += turned
            np.copyto(moment, trajectory.time[..., save, None, None], where=turned)
        before = gates
    error, gap, *shares = (np.stack(column, axis=-1) for column in zip(*rows, strict=True))
    changed, from_first, from_last = shares
    loss = loss_factor(trajectory.convention, task) / 2 * error
    return GateChanges(
        trajectory.time,
        loss,
        np.abs(loss - trajectory.loss),
        gap,
        changed,
        from_first,
        from_last,
        tuple(when),
        tuple(flips),
    )


def _apart(
    one: tuple[np.ndarray, ...], other: tuple[np.ndarray, ...], strength: list[np.ndarray]
) -> Float[np.ndarray, "*batch"]:
    """Return the fraction of gates that differ, weighted by the strength of their units."""
    off = [np.mean(a != b, axis=-1) for a, b in zip(one, other, strict=True)]
    off, weight = np.concatenate(off, axis=-1), np.concatenate(strength, axis=-1)
    return np.asarray(np.sum(off * weight, axis=-1) / np.sum(weight, axis=-1))
