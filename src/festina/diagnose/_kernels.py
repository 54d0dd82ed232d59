"""Measure how the tangent kernel and the hidden representation of a network change."""

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._checks import real_array, whole_number
from .._precision import compiled, is_traced
from .._types import Array, ArrayLike
from ..dynamics import Trajectory
from ..networks import AbstractNetwork
from ..tasks import AbstractTask, Task
from ._given import check_trajectory, networks_of

_Network = TypeVar("_Network", bound=AbstractNetwork)


def neural_tangent_kernel(
    network: AbstractNetwork | Trajectory, x: AbstractTask | ArrayLike | Array
) -> Float[Array, "*batch output sample output sample"]:
    r"""Return the empirical neural tangent kernel of a network, over all weights of all layers.

    The kernel is

    $$K_{os,o's'} = \sum_\theta \frac{\partial f_o(x_s)}{\partial\theta}
      \frac{\partial f_{o'}(x_{s'})}{\partial\theta}.$$

    For a two-layer linear network it is
    $I \otimes X^\top W_1^\top W_1 X + W_2W_2^\top \otimes X^\top X$, with examples as columns of X
    (Dominé et al., 2025).

    **Arguments:**

    - `network`: one network, a batch of networks, or a trajectory (all of its samples are used).
    - `x`: examples, `(sample, ...)`, or a task, whose examples are used.

    **Returns:**

    K with shape `(*batch, output, sample, output, sample)`. To get a matrix with rows ordered by
    output, then sample, use `K.reshape(*batch, outputs * samples, outputs * samples)`.

    **Example:**

    >>> import numpy as np
    >>> from festina.diagnose import neural_tangent_kernel
    >>> from festina.networks import layer_from
    >>> network = layer_from("relu", [[1, 0], [0, 1], [1, 1]], [1, 2, 1])
    >>> np.asarray(neural_tangent_kernel(network, [[1, 0], [0, 1]])).reshape(2, 2)
    array([[4., 1.],
           [1., 7.]])
    """
    return _kernels(networks_of(network), _examples(x)[0])


@compiled()
def _kernels(
    network: AbstractNetwork, x: Float[Array, "sample ..."]
) -> Float[Array, "*batch output sample output sample"]:
    return _each(lambda network: _kernel(network, x), network)


def _kernel(
    network: AbstractNetwork, x: Float[Array, "sample ..."]
) -> Float[Array, "output sample output sample"]:
    slopes = jax.jacrev(lambda network: jax.vmap(network)(x).T)(network).parts
    flat = jnp.concatenate([slope.reshape(*slope.shape[:2], -1) for slope in slopes], axis=-1)
    return jnp.einsum("osw,ptw->ospt", flat, flat)


def tangent_kernel_alignment(
    network: AbstractNetwork | Trajectory, task: AbstractTask
) -> Float[Array, "*batch"]:
    r"""Return the cosine of the angle between the tangent kernel and the target kernel $yy^\top$.

    The cosine is

    $$\frac{\langle K, yy^\top\rangle}{\|K\|\,\|y\|^2},$$

    with examples weighted as in the task's averages. The cosine is 1 if $K$ is proportional to
    $yy^\top$.

    **Arguments:**

    - `network`: one network, a batch of networks, or a trajectory (all of its samples are used).
    - `task`: a task with a finite number of examples.

    **Returns:** the cosines, `(*batch,)`.

    **Example:**

    >>> from festina.diagnose import tangent_kernel_alignment
    >>> from festina.networks import layer_from
    >>> from festina.tasks import from_arrays
    >>> network = layer_from("relu", [[1, 0], [0, 1], [1, 1]], [1, 2, 1])
    >>> round(float(tangent_kernel_alignment(network, from_arrays([[1, 0], [0, 1]], [1, 2]))), 3)
    0.88
    """
    x, root = _examples(task)
    assert isinstance(task, Task)
    return _directed(_alignments(networks_of(network), x, task.y, root))


@compiled()
def _alignments(
    network: AbstractNetwork,
    x: Float[Array, "sample ..."],
    y: Float[Array, "sample output"],
    root: Float[Array, " sample"],
) -> Float[Array, "*batch"]:
    y = root[:, None] * y
    target = jnp.einsum("so,tp->ospt", y, y)
    return _each(lambda network: _cosine(_weighted(network, x, root), target, axes=4), network)


def alignment_between_kernels(
    a: ArrayLike | Array, b: ArrayLike | Array, *, axes: int = 4
) -> Float[Array, "*batch"]:
    r"""Return the cosine of the angle between two kernels, $\langle A, B\rangle/(\|A\|\,\|B\|)$.

    **Arguments:**

    - `a`, `b`: kernels whose last `axes` axes match; axes in front broadcast.
    - `axes`: number of axes of one kernel: 4 for kernels of `neural_tangent_kernel`, 2 for
      matrices.

    **Returns:** the cosine, with one number for each pair of kernels.

    **Example:**

    >>> import numpy as np
    >>> from festina.diagnose import alignment_between_kernels
    >>> round(float(alignment_between_kernels(np.eye(2), np.ones((2, 2)), axes=2)), 4)
    0.7071
    """
    axes = whole_number("axes", axes)
    return _cosine(*_checked(axes, a=a, b=b), axes=axes)


def distance_between_kernels(
    initial: ArrayLike | Array, kernel: ArrayLike | Array, *, axes: int = 4
) -> Float[Array, "*batch"]:
    """Return one minus the cosine of the angle between two kernels.

    The distance is 0 if the kernels differ only in scale. In lazy learning the distance from the
    initial tangent kernel stays near 0. Small distances are accurate, because they are computed
    from the difference of the normalised kernels.

    **Arguments:**

    - `initial`, `kernel`: kernels whose last `axes` axes match; axes in front broadcast.
    - `axes`: number of axes of one kernel: 4 for kernels of `neural_tangent_kernel`, 2 for
      matrices.

    **Returns:** the distance, with one number for each pair of kernels.

    **Example:**

    >>> import numpy as np
    >>> from festina.diagnose import distance_between_kernels
    >>> float(distance_between_kernels(np.eye(2), 3 * np.eye(2), axes=2))
    0.0
    """
    axes = whole_number("axes", axes)
    return _distance(*_checked(axes, initial=initial, kernel=kernel), axes=axes)


def _checked(axes: int, **given: ArrayLike | Array) -> tuple[Array, Array]:
    a, b = (jnp.asarray(k) if is_traced(k) else real_array(name, k) for name, k in given.items())
    if min(a.ndim, b.ndim) < axes or a.shape[-axes:] != b.shape[-axes:]:
        raise ValueError(
            f"The last {axes} axes of both kernels must match, got shapes {a.shape} and "
            f"{b.shape}. For kernels that are matrices give axes=2."
        )
    for name, kernel in zip(given, (a, b), strict=True):
        if not is_traced(kernel) and not np.any(kernel, axis=tuple(range(-axes, 0))).all():
            raise ValueError(
                f"The kernel `{name}` is zero, so its angle to another kernel is undefined. Leave "
                "out kernels that are zero."
            )
    return a, b


def _directed(cosines: Float[Array, "..."]) -> Float[Array, "..."]:
    if not is_traced(cosines) and np.isnan(cosines).any():
        raise ValueError(
            "A tangent kernel on these examples is zero or not finite, so its angle to another "
            "kernel is undefined. Check the weights of the network and the examples."
        )
    return cosines


@compiled("axes")
def _cosine(a: Float[Array, "..."], b: Float[Array, "..."], *, axes: int) -> Float[Array, "..."]:
    a, b = _normalised(a, axes), _normalised(b, axes)
    return jnp.sum(a * b, axis=tuple(range(-axes, 0)))


@compiled("axes")
def _distance(a: Float[Array, "..."], b: Float[Array, "..."], *, axes: int) -> Float[Array, "..."]:
    a, b = _normalised(a, axes), _normalised(b, axes)
    # ½|â − b̂|² equals 1 − ⟨â, b̂⟩ but avoids the cancellation of nearly equal numbers.
    return 0.5 * jnp.sum((a - b) ** 2, axis=tuple(range(-axes, 0)))


def _normalised(k: Float[Array, "..."], axes: int) -> Float[Array, "..."]:
    over = tuple(range(-axes, 0))
    k = k / jnp.max(jnp.abs(k), axis=over, keepdims=True)  # keeps squares from over- or underflow
    return k / jnp.sqrt(jnp.sum(k**2, axis=over, keepdims=True))


def tangent_kernel_distance(
    trajectory: Trajectory, x: AbstractTask | ArrayLike
) -> Float[np.ndarray, "*batch save"]:
    """Return the distance of the tangent kernel from its initial value, at each sample of a run.

    The distance is one minus the cosine of the angle between the two kernels. The distance is 0 if
    only the scale of the kernel changed, and stays near 0 in lazy learning.

    **Arguments:**

    - `trajectory`: the run.
    - `x`: examples, `(sample, ...)`, or a task, whose examples and weights are used.

    **Returns:** the distances, `(*batch, save)`. For two given kernels use
    `distance_between_kernels`.

    **Example:**

    >>> import festina, numpy as np
    >>> network = festina.networks.layer_from("relu", [[0.01, 0.009], [0.009, 0.01]], [0.01, -0.01])
    >>> task = festina.tasks.from_arrays([[1, 0], [0, 1]], [1, -3])
    >>> run = festina.gradient_flow(network, task, np.linspace(0, 20, 101))
    >>> festina.diagnose.tangent_kernel_distance(run, task)[[0, 30, 100]].round(2)
    array([0.  , 0.36, 0.19])
    """
    check_trajectory(trajectory)
    network, batch = trajectory.network, trajectory.batch_shape
    first = jax.tree.map(lambda part: np.take(part, 0, axis=len(batch)), network)
    found = _directed(_distances(first, network, *_examples(x)))
    return np.asarray(found).reshape(*batch, -1)


@compiled()
def _distances(
    first: _Network, network: _Network, x: Float[Array, "sample ..."], root: Float[Array, " sample"]
) -> Float[Array, "lane save"]:
    """Return the kernel distances of each lane, computing one kernel at a time to save memory."""
    flat = len(first.batch_shape)
    first, network = (
        jax.tree.map(lambda part: part.reshape(-1, *part.shape[flat:]), each)
        for each in (first, network)
    )
    kernel = lambda network: _weighted(network, x, root)

    def lane(each: tuple[_Network, _Network]) -> Float[Array, " save"]:
        initial = kernel(each[0])
        return jax.lax.map(lambda now: _distance(initial, kernel(now), axes=4), each[1])

    return jax.lax.map(lane, (first, network))


def _weighted(
    network: AbstractNetwork, x: Float[Array, "sample ..."], root: Float[Array, " sample"]
) -> Float[Array, "output sample output sample"]:
    """Return the kernel of the examples, each multiplied by the root of its weight."""
    return root[:, None, None] * root * _kernel(network, x)


def representational_similarity(
    network: AbstractNetwork | Trajectory,
    x: AbstractTask | ArrayLike | Array,
    *,
    centred: bool = False,
    cosine: bool = False,
) -> Float[Array, "*batch layer sample sample"]:
    r"""Return the similarity matrix $H_l^\top H_l$ of the examples in each hidden layer.

    **Arguments:**

    - `network`: one network, a batch of networks, or a trajectory (all of its samples are used).
    - `x`: examples, `(sample, ...)`, or a task, whose examples are used.
    - `centred`: if True, subtract from each unit its mean over examples first.
    - `cosine`: if True, divide the activity of each example by its norm. An example without
      activity has similarity 0 to all examples. With `centred`, the similarities are correlations.

    **Returns:** similarities, `(*batch, layer, sample, sample)`.

    **Example:**

    >>> import numpy as np
    >>> from festina.diagnose import representational_similarity
    >>> from festina.networks import layer_from
    >>> network = layer_from("relu", [[1, 0], [0, 1], [1, 1]], [1, 2, 1])
    >>> np.asarray(representational_similarity(network, [[1, 0], [0, 1]]))[0]
    array([[2., 1.],
           [1., 2.]])
    """
    return _similarities(networks_of(network), _examples(x)[0], centred=centred, cosine=cosine)


@compiled("centred", "cosine")
def _similarities(
    network: AbstractNetwork, x: Float[Array, "sample ..."], *, centred: bool, cosine: bool
) -> Float[Array, "*batch layer sample sample"]:
    def gram(h: Float[Array, "sample ..."]) -> Float[Array, "sample sample"]:
        h = h.reshape(len(h), -1)
        if centred:
            h = h - jnp.mean(h, axis=0)
        if cosine:
            square = jnp.sum(h**2, axis=1, keepdims=True)
            h = h / jnp.sqrt(jnp.where(square > 0, square, 1.0))
        return h @ h.T

    def grams(network: AbstractNetwork) -> Float[Array, "layer sample sample"]:
        layers = jax.vmap(network.hidden)(x)
        return jnp.stack([gram(h) for h in layers]) if layers else jnp.zeros((0, len(x), len(x)))

    return _each(grams, network)


def _each(function, network: AbstractNetwork) -> Float[Array, "..."]:
    """Return the function's values for every network of a batch, one after the other.

    The networks are not vectorised because Jacobians need much memory.
    """
    batch = network.batch_shape
    if not batch:
        return function(network)
    flat = jax.tree.map(lambda part: part.reshape(-1, *part.shape[len(batch) :]), network)
    results = jax.lax.map(function, flat)
    return results.reshape(*batch, *results.shape[1:])


def _examples(x: AbstractTask | ArrayLike | Array) -> tuple[Array, Array]:
    """Return the examples, and the root of the weight of each."""
    if isinstance(x, Task):
        return x.x, np.sqrt(x.weight)
    if isinstance(x, AbstractTask):
        raise ValueError(
            f"`x` must be an array (sample, …) or a task with a finite number of examples, but "
            f"{type(x).__name__} does not have any."
        )
    if is_traced(x):
        traced = jnp.asarray(x)
        return traced, jnp.ones(len(traced))
    examples = real_array("x", x)
    if examples.ndim < 2 or 0 in examples.shape:
        raise ValueError(
            f"`x` must be examples, (sample, …), got shape {examples.shape}. For a single example "
            "give x[None]."
        )
    if not np.isfinite(examples).all():
        raise ValueError(
            f"`x` must be finite, {np.sum(~np.isfinite(examples))} values are not. Remove or "
            "replace them."
        )
    return examples, np.ones(len(examples))
