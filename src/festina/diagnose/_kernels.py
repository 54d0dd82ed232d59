"""How much the kernel and the hidden representation of a network change while it learns."""

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
    r"""The empirical neural tangent kernel of any network,

    $$K_{os,o's'} = \sum_\theta \frac{\partial f_o(x_s)}{\partial\theta}
      \frac{\partial f_{o'}(x_{s'})}{\partial\theta},$$

    over all weights of all layers. Of a two-layer linear network it is
    $I \otimes X^\top W_1^\top W_1 X + W_2W_2^\top \otimes X^\top X$ with examples as columns of X
    (Dominé et al., 2025).

    **Arguments:**

    - `network`: one network, a batch of them, or a trajectory: at all its samples.
    - `x`: examples, `(sample, ...)`, or a task for those it has.

    **Returns:**

    K with shape `(*batch, output, sample, output, sample)`. The matrix of the formula above, output
    before sample, is `K.reshape(*batch, outputs * samples, outputs * samples)`.
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
    r"""Cosine of the angle between the tangent kernel and that of the targets, $yy^\top$,

    $$\frac{\langle K, yy^\top\rangle}{\|K\|\,\|y\|^2},$$

    with examples weighted as in the task's averages: 1 if all that can be learned is the task.
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

    - `a`, `b`: kernels whose last `axes` axes match; those in front broadcast.
    - `axes`: of one kernel: four as `neural_tangent_kernel` gives them, two for a matrix.
    """
    axes = whole_number("axes", axes)
    return _cosine(*_checked(axes, a=a, b=b), axes=axes)


def distance_between_kernels(
    initial: ArrayLike | Array, kernel: ArrayLike | Array, *, axes: int = 4
) -> Float[Array, "*batch"]:
    r"""Return one minus `alignment_between_kernels`: 0 if only the scale changed (lazy).

    Accurate where it is small: computed from the difference of the normalised kernels.
    """
    axes = whole_number("axes", axes)
    return _distance(*_checked(axes, initial=initial, kernel=kernel), axes=axes)


def _checked(axes: int, **given: ArrayLike | Array) -> tuple[Array, Array]:
    a, b = (jnp.asarray(k) if is_traced(k) else real_array(name, k) for name, k in given.items())
    if min(a.ndim, b.ndim) < axes or a.shape[-axes:] != b.shape[-axes:]:
        raise ValueError(
            f"The last {axes} `axes` of both are those of one kernel and must match, got "
            f"shapes {a.shape} and {b.shape}. For kernels that are matrices: axes=2."
        )
    for name, kernel in zip(given, (a, b), strict=True):
        if not is_traced(kernel) and not np.any(kernel, axis=tuple(range(-axes, 0))).all():
            raise ValueError(f"The kernel `{name}` is zero somewhere, where it has no direction.")
    return a, b


def _directed(cosines: Float[Array, "..."]) -> Float[Array, "..."]:
    if not is_traced(cosines) and np.isnan(cosines).any():
        raise ValueError(
            "On these examples `x` a kernel is zero or not finite: it has no direction."
        )
    return cosines


@compiled("axes")
def _cosine(a: Float[Array, "..."], b: Float[Array, "..."], *, axes: int) -> Float[Array, "..."]:
    a, b = _normalised(a, axes), _normalised(b, axes)
    return jnp.sum(a * b, axis=tuple(range(-axes, 0)))


@compiled("axes")
def _distance(a: Float[Array, "..."], b: Float[Array, "..."], *, axes: int) -> Float[Array, "..."]:
    a, b = _normalised(a, axes), _normalised(b, axes)
    # ½|â − b̂|² = 1 − ⟨â, b̂⟩, without its cancellation.
    return 0.5 * jnp.sum((a - b) ** 2, axis=tuple(range(-axes, 0)))


def _normalised(k: Float[Array, "..."], axes: int) -> Float[Array, "..."]:
    over = tuple(range(-axes, 0))
    k = k / jnp.max(jnp.abs(k), axis=over, keepdims=True)  # whose squares are numbers
    return k / jnp.sqrt(jnp.sum(k**2, axis=over, keepdims=True))


def tangent_kernel_distance(
    trajectory: Trajectory, x: AbstractTask | ArrayLike
) -> Float[np.ndarray, "*batch save"]:
    """Return how far the neural tangent kernel is from its start, at each sample of a run.

    One minus the cosine: 0 for a kernel that only changed its scale (lazy learning). On the
    examples `x`, or those of a task with their weights; of given kernels:
    `distance_between_kernels`.
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
    """Kernel by kernel, because those of a whole trajectory would fill the memory."""
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
    """Return the kernel of examples times the roots of their weights."""
    return root[:, None, None] * root * _kernel(network, x)


def representational_similarity(
    network: AbstractNetwork | Trajectory,
    x: AbstractTask | ArrayLike | Array,
    *,
    centred: bool = False,
    cosine: bool = False,
) -> Float[Array, "*batch layer sample sample"]:
    r"""Return how similarly examples activate each hidden layer, $H_l^\top H_l$.

    **Arguments:**

    - `network`: one network, a batch of them, or a trajectory: at all its samples.
    - `x`: examples, `(sample, ...)`, or a task for those it has.
    - `centred`: take the mean over examples off each unit first.
    - `cosine`: divide each example's activity by its norm; an example without activity is similar
      to none. With `centred` these are correlations.
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
    """The function of every network of a batch, one after the other: Jacobians are large."""
    batch = network.batch_shape
    if not batch:
        return function(network)
    flat = jax.tree.map(lambda part: part.reshape(-1, *part.shape[len(batch) :]), network)
    results = jax.lax.map(function, flat)
    return results.reshape(*batch, *results.shape[1:])


def _examples(x: AbstractTask | ArrayLike | Array) -> tuple[Array, Array]:
    """Examples, and the root of the weight of each."""
    if isinstance(x, Task):
        return x.x, np.sqrt(x.weight)
    if isinstance(x, AbstractTask):
        raise ValueError(
            f"`x` must be examples, (sample, …), which {type(x).__name__} does not have."
        )
    if is_traced(x):
        traced = jnp.asarray(x)
        return traced, jnp.ones(len(traced))
    examples = real_array("x", x)
    if examples.ndim < 2 or 0 in examples.shape:
        raise ValueError(
            f"`x` must be examples, (sample, …), got shape {examples.shape}. For one: x[None]."
        )
    if not np.isfinite(examples).all():
        raise ValueError(f"`x` must be finite, {np.sum(~np.isfinite(examples))} values are not.")
    return examples, np.ones(len(examples))
