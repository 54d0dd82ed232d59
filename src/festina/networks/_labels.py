"""Labels of the networks of a batch, such as scale and seed, which also name the batch axes.

Labels are arrays that broadcast against the batch shape. Scales of shape `(3, 1)` and keys of shape
`(4,)`, for example, give axes called `scale` and `seed`. Labels are not part of a network's pytree:
programs are not compiled again for new labels, and `jax.tree.map` drops the labels.
"""

from collections.abc import Mapping

import jax
import numpy as np
from jaxtyping import Key, Shaped

from .._types import ArrayLike

Labels = Mapping[str, Shaped[np.ndarray, "*_batch"]]


def seed_labels(key: Key[jax.Array, "..."] | None) -> dict[str, np.ndarray]:
    """Return the label `seed`, the numbers n of keys `jax.random.key(n)`; {} for other keys.

    The data of `jax.random.key(n)` with n < 2³² are a zero and n, twice for the generator `rbg`.
    Other keys, such as those from `split`, have random data and almost never this form.
    """
    if key is None:
        return {}
    words = np.asarray(jax.random.key_data(key))
    words = words.reshape(*words.shape[:-1], -1, 2)
    numbers = words[..., 0, 1]
    plain = (words[..., 0] == 0).all() and (words[..., 1] == numbers[..., None]).all()
    return {"seed": numbers.astype(np.int64)} if plain else {}


def checked_labels(labels: Mapping[str, ArrayLike], batch: tuple[int, ...]) -> Labels:
    """Return labels as read-only copies; raise unless they broadcast against the batch."""
    arrays = {name: np.array(values) for name, values in labels.items()}
    for name, values in arrays.items():
        try:
            fits = np.broadcast_shapes(values.shape, batch) == batch
        except ValueError:
            fits = False
        if not fits:
            raise ValueError(
                f"`{name}` must be one label or broadcast against the networks {batch}, got shape "
                f"{values.shape}. Give one label for each network."
            )
        values.flags.writeable = False
    return arrays


def lane_labels(labels: Labels, batch: tuple[int, ...], index: tuple[int, ...]) -> Labels:
    """Return the labels of one network of a batch."""
    return {name: np.asarray(np.broadcast_to(each, batch)[index]) for name, each in labels.items()}


def axis_names(labels: Labels, batch: tuple[int, ...]) -> tuple[str, ...]:
    """Return the name of each batch axis: the label that varies along it only, or `batch_0`, ….

    An axis along which several labels vary is called `seed` if the seed is one of them.
    """
    names = [f"batch_{axis}" for axis in range(len(batch))]
    for name, values in reversed(list(labels.items())):
        own = _own_axes(values, batch)
        if len(own) == 1 and names[own[0]] != "seed":
            names[own[0]] = name
    return tuple(names)


def coordinates(
    labels: Labels, batch: tuple[int, ...], dims: tuple[str, ...]
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return xarray coordinates for a batch whose axes are called `dims`.

    An axis named after a label gets that label's values; axes without a label are numbered.
    """
    named = axis_names(labels, batch)
    table = {}
    for dim, name, length in zip(dims, named, batch, strict=True):
        if dim in labels and dim != name:
            raise ValueError(
                f"`dims` must not rename the batch axis '{name}' to '{dim}', because '{dim}' is a "
                f"label with values of its own. Use {named}, or names that are not labels."
            )
        values = labels[name].ravel() if name in labels else np.arange(length)
        table[dim] = ((dim,), values)
    for name, values in labels.items():
        if name in named:
            continue
        own = _own_axes(values, batch)
        shape = tuple(batch[axis] for axis in own)
        table[name] = (tuple(dims[axis] for axis in own), values.reshape(shape))
    return table


def labels_from(
    coordinates: Mapping[str, tuple[tuple[str, ...], np.ndarray]], dims: tuple[str, ...]
) -> Labels:
    """Return labels from xarray coordinates; axes that are only numbered give no label."""
    labels = {}
    for name, (own, values) in coordinates.items():
        if name == f"batch_{dims.index(name) if name in dims else ''}":
            continue
        order = sorted(own, key=dims.index)
        values = values.transpose([own.index(dim) for dim in order])
        sizes = dict(zip(order, values.shape, strict=True))
        first = dims.index(order[0]) if order else len(dims)
        labels[name] = values.reshape([sizes.get(dim, 1) for dim in dims[first:]])
    return labels


def _own_axes(values: np.ndarray, batch: tuple[int, ...]) -> tuple[int, ...]:
    """Return the batch axes along which labels vary; if none, the first axis of length one."""
    axes = range(len(batch) - values.ndim, len(batch))
    differ = tuple(axis for axis, length in zip(axes, values.shape, strict=True) if length > 1)
    return differ or tuple(axis for axis in axes if batch[axis] == 1)[:1]
