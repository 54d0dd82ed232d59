"""How much the kernel and the hidden representation of a network change while it learns."""

from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._precision import compiled, is_traced
from .._types import Array, ArrayLike
from ..dynamics import Trajectory
from ..networks import AbstractNetwork

_Network = TypeVar("_Network", bound=AbstractNetwork)


def neural_tangent_kernel(
    network: AbstractNetwork, x: ArrayLike | Array
) -> Float[Array, "*batch output sample output sample"]:
    r"""The empirical neural tangent kernel of any network,

    $$K_{os,o's'} = \sum_\theta \frac{\partial f_o(x_s)}{\partial\theta}
      \frac{\partial f_{o'}(x_{s'})}{\partial\theta},$$

    over all weights of all layers. Of a two-layer linear network it is
    $I \otimes X^\top W_1^\top W_1 X + W_2W_2^\top \otimes X^\top X$ with examples as columns of X
    (Dominé et al., 2025).

    **Arguments:**

    - `network`: one network, a batch of them, or `trajectory.network`.
    - `x`: examples, `(sample, ...)`.

    **Returns:**

    K with shape `(*batch, output, sample, output, sample)`. The matrix of the formula above, output
    before sample, is `K.reshape(*batch, outputs * samples, outputs * samples)`.
    """
    if not isinstance(network, AbstractNetwork):
        raise ValueError(
            f"`network` must be a network of `festina.networks`, got {type(network).__name__}. Of "
            "a trajectory: `trajectory.network` for all its samples, `trajectory.final`."
        )
    return _kernels(network, _examples(x))


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


def kernel_alignment(
    a: ArrayLike | Array, b: ArrayLike | Array, *, axes: int = 4
) -> Float[Array, "*batch"]:
    r"""Cosine of the angle between two kernels, $\langle A, B\rangle/(\|A\|\,\|B\|)$.

    **Arguments:**

    - `a`, `b`: kernels whose last `axes` axes match; those in front broadcast.
    - `axes`: of one kernel: four as `neural_tangent_kernel` gives them, two for a matrix.
    """
    return _cosine(*_checked(a, b, axes), axes=axes)


def kernel_distance(
    initial: ArrayLike | Array, kernel: ArrayLike | Array, *, axes: int = 4
) -> Float[Array, "*batch"]:
    r"""One minus `kernel_alignment`: 0 for a kernel that only changed its scale (lazy learning).

    Accurate where it is small: computed from the difference of the normalised kernels.
    """
    return _distance(*_checked(initial, kernel, axes), axes=axes)


def _checked(a: ArrayLike | Array, b: ArrayLike | Array, axes: int) -> tuple[Array, Array]:
    a, b = (jnp.asarray(k) if is_traced(k) else np.asarray(k, dtype=float) for k in (a, b))
    if axes < 1 or min(a.ndim, b.ndim) < axes or a.shape[-axes:] != b.shape[-axes:]:
        raise ValueError(
            f"The last {axes} axes of both are those of one kernel and must match, got "
            f"shapes {a.shape} and {b.shape}. For kernels that are matrices: axes=2."
        )
    for name, kernel in (("first", a), ("second", b)):
        if not is_traced(kernel) and not np.any(kernel, axis=tuple(range(-axes, 0))).all():
            raise ValueError(f"The {name} kernel is zero somewhere, where it has no direction.")
    return a, b


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
    return k / jnp.sqrt(jnp.sum(k**2, axis=tuple(range(-axes, 0)), keepdims=True))


def kernel_distance_over(
    trajectory: Trajectory[_Network], x: ArrayLike
) -> Float[np.ndarray, "*batch save"]:
    """Distance of the neural tangent kernel on the examples `x` from its start, at each save."""
    if not isinstance(trajectory, Trajectory):
        raise ValueError(
            "`trajectory` must be what `festina.gradient_flow` or `gradient_descent` returned, "
            f"got {type(trajectory).__name__}."
        )
    network, batch = trajectory.network, trajectory.batch_shape
    first = jax.tree.map(lambda part: np.take(part, 0, axis=len(batch)), network)
    distances = np.asarray(_distances(first, network, _examples(x)))
    return distances.reshape(*batch, -1)


@compiled()
def _distances(
    first: _Network, network: _Network, x: Float[Array, "sample ..."]
) -> Float[Array, "lane save"]:
    """Kernel by kernel, because those of a whole trajectory would fill the memory."""
    flat = len(first.batch_shape)
    first, network = (
        jax.tree.map(lambda part: part.reshape(-1, *part.shape[flat:]), each)
        for each in (first, network)
    )

    def lane(each: tuple[_Network, _Network]) -> Float[Array, " save"]:
        initial = _kernel(each[0], x)
        return jax.lax.map(lambda now: _distance(initial, _kernel(now, x), axes=4), each[1])

    return jax.lax.map(lane, (first, network))


def representational_similarity(
    network: AbstractNetwork, x: ArrayLike | Array, *, centred: bool = False, cosine: bool = False
) -> Float[Array, "*batch layer sample sample"]:
    r"""Similarity of the hidden activities that examples cause, $H_l^\top H_l$ for each layer l.

    **Arguments:**

    - `network`: one network, a batch of them, or `trajectory.network`.
    - `x`: examples, `(sample, ...)`.
    - `centred`: take the mean over examples off each unit first.
    - `cosine`: divide each example's activity by its norm; an example without activity is similar
      to none. With `centred` these are correlations.
    """
    return _similarities(network, _examples(x), centred=centred, cosine=cosine)


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


def _examples(x: ArrayLike | Array) -> Array:
    if is_traced(x):
        return jnp.asarray(x)
    examples = np.asarray(x, dtype=float)
    if examples.ndim < 2 or 0 in examples.shape:
        raise ValueError(
            f"`x` must be examples, (sample, …), got shape {examples.shape}. For one: x[None]."
        )
    if not np.isfinite(examples).all():
        raise ValueError(f"`x` must be finite, {np.sum(~np.isfinite(examples))} values are not.")
    return examples
