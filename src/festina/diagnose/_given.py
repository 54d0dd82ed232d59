"""Convert arguments, given as festina objects or plain arrays, to a layer and its data."""

import warnings

import numpy as np
from jaxtyping import Float, Int

from .._checks import check_alone, real_array
from .._types import ArrayLike
from ..dynamics import Trajectory
from ..networks import AbstractNetwork, AbstractUnit, Layer, layer_from
from ..networks._units import UnitLike, unit_of
from ..tasks import AbstractTask, Task, from_arrays


def check_trajectory(trajectory: Trajectory, *, use: str = "") -> None:
    """Raise if the argument is not a trajectory; the message ends with the advice `use`."""
    if not isinstance(trajectory, Trajectory):
        raise ValueError(
            "`trajectory` must be a trajectory returned by `festina.gradient_flow` or "
            f"`festina.gradient_descent`, got {type(trajectory).__name__}.{use}"
        )


def networks_of(network: AbstractNetwork | Trajectory) -> AbstractNetwork:
    """Return one network or a batch of networks; networks along a trajectory are one batch."""
    if isinstance(network, Trajectory):
        return network.network
    if not isinstance(network, AbstractNetwork):
        raise ValueError(
            "`network` must be a network of `festina.networks` or a trajectory, got "
            f"{type(network).__name__}."
        )
    return network


def layer_of(network: Layer | ArrayLike, v: ArrayLike | None, activation: UnitLike | None) -> Layer:
    """Return one layer with finite weights, from a network or from plain arrays."""
    if isinstance(network, AbstractNetwork):
        if v is not None or activation is not None:
            raise ValueError(
                "`v` and `activation` go with plain arrays; a network has its own. Leave them out."
            )
        if not isinstance(network, Layer):
            raise ValueError(
                f"`network` must be a layer, Σ φ(x; u_i) v_i, got {type(network).__name__}. For "
                "one hidden layer of a deeper network give its input weights u and output weights "
                "v as arrays. Errors are then measured at the input of the next layer."
            )
        check_alone(network.batch_shape)
        return layer_from(network.unit, network.u, network.v)
    if v is None or activation is None:
        raise ValueError(
            "Plain arrays need both layers and φ: call it with u, x, v=v, activation='relu'."
        )
    one = _layer_or_turned(unit_of(activation), network, v)
    if one.batch_shape:
        raise ValueError(
            f"Expected a single network, got `u` of shape {np.shape(network)}. Give `u` with axes "
            "(unit, input)."
        )
    return one


def task_of(
    network: Layer,
    data: AbstractTask | ArrayLike,
    y: ArrayLike | None,
    output_bias: ArrayLike | None = None,
) -> AbstractTask:
    """Return the task on which a layer is tested; targets are zero if none are given."""
    if output_bias is not None and y is None:
        raise ValueError(
            "`output_bias` goes with plain inputs and `y`. For a task subtract it from the "
            "targets: festina.tasks.from_arrays(x, y - output_bias)."
        )
    if isinstance(data, AbstractTask):
        if y is not None:
            raise ValueError("`y` goes with plain inputs; a task has its own targets.")
        found = data
    else:
        x = np.asarray(data, dtype=float)
        targets = np.zeros((len(x), network.outputs)) if y is None else real_array("y", y)
        bias = real_array("output_bias", 0.0 if output_bias is None else output_bias)
        if bias.shape not in ((), (1,), (network.outputs,)):
            raise ValueError(
                f"`output_bias` must be a number or have shape ({network.outputs},), one for each "
                f"output, got {bias.shape}."
            )
        found = from_arrays(x, targets - bias)
    network.check_fit(found.input_shape, found.outputs)
    return found


def warn_of_other_outputs(network: Layer, task: AbstractTask, bias_given: bool) -> None:
    """Warn if the outputs look as if they were not fitted to the targets by squared error."""
    assert isinstance(task, Task)
    y, f = task.y, np.asarray(network.predict(task.x))
    off = y - f
    constant, varies = np.sum(off.mean(axis=0) ** 2), np.sum(y.var(axis=0))
    if not bias_given and constant > varies and 2 * np.sum(off.var(axis=0)) < varies:
        warnings.warn(
            f"The outputs follow `y` but for a constant, {_short(off.mean(axis=0))}, which is "
            "larger than the variation of `y`. Errors are relative to this constant, so that units "
            "count too little. Give the bias of the output layer as `output_bias`, or 0 if there "
            "is none.",
            stacklevel=3,
        )
    right = np.argmax(f, axis=1) == np.argmax(y, axis=1) if y.shape[1] > 1 else (f > 0) == (y > 0)
    classes = np.array_equal(np.unique(y), (0, 1))
    if classes and np.mean(off**2) > np.mean(y**2) and np.mean(right) > 0.5:
        warnings.warn(
            "The outputs are further from `y` than zeros are, although most classes are correct: "
            "the loss may be a cross-entropy. Fixed points and slopes are computed for a squared "
            "loss, and errors are relative to the root mean square of `y`. Leave out `y` to "
            "measure errors relative to the outputs.",
            stacklevel=3,
        )


def _short(values: Float[np.ndarray, " output"]) -> str:
    return np.array2string(values, precision=3, threshold=6)


def _layer_or_turned(unit: AbstractUnit, u: ArrayLike, v: ArrayLike) -> Layer:
    try:
        return layer_from(unit, u, v)
    except ValueError as error:
        shape, units = np.shape(u), np.shape(v)[:1]
        turned = len(unit.weight_axes) == 1 and shape[1:] == units and shape[:1] != units
        if turned and "Give v.T?" not in str(error):
            raise ValueError(f"{error} Give u.T?") from None
        raise


def groups(
    name: str, kind: str, given: ArrayLike, count: int, *, hint: str = ""
) -> tuple[np.ndarray, Int[np.ndarray, " sample"]]:
    """Return the distinct values of a label, and the index of the value of each example.

    Raises `ValueError` unless there are `count` labels with two or more values.
    """
    try:
        values = np.asarray(given)
    except ValueError:  # ragged
        raise ValueError(f"`{name}` must be one label for each of {count} examples.") from None
    if np.ma.is_masked(given) or (values.dtype.kind in "fc" and np.isnan(values).any()):
        raise ValueError(
            f"`{name}` are not known for all examples: some are masked or NaN. Leave out these "
            "examples."
        )
    if values.shape != (count,):
        raise ValueError(
            f"`{name}` must be one label for each of {count} examples, got shape {values.shape}."
            + hint
        )
    try:
        found, which = np.unique(values, return_inverse=True)
    except TypeError:
        raise ValueError(f"`{name}` must be numbers or words, not a mixture of types.") from None
    if len(found) < 2:
        raise ValueError(
            f"All examples are of one {kind}, {found[0]!r}: `{name}` must have two or more values."
        )
    return found, which
