"""The solution of a balanced network along its flow: all but a rotation of its hidden units."""

import functools
import operator
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ..._checks import check_finite
from ..._precision import compiled, is_traced
from ..._pytree import pytree
from ..._result import Result
from ..._types import Array, ArrayLike
from ._kernels import kernel_distance, tangent_kernel

if TYPE_CHECKING:
    import xarray as xr

_FEW = 16  # units whose products are added one by one


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class BalancedSolution(Result):
    r"""A λ-balanced network at given times: $M = QQ^\top$ with $Q = (W_1^\top; W_2)$.

    $M$ holds the map $W_2W_1$ and the Gram matrices $W_1^\top W_1$, $W_2W_2^\top$, hence the loss,
    the representations and the tangent kernel. It is kept as a factor $B$, $M = BB^\top$; $B$ is
    $Q$ up to a rotation of the hidden units, which the closed form does not tell.

    Time is the first axis of every result; axes of a `vmap` come in front of it. The state at a
    single time has no such axis.

    **Attributes:**

    - `times`: when, a number or a list of them.
    - `inward`, `outward`: the two blocks of $B$, time last: `(input, unit, time)` and
      `(output, unit, time)`.
    - `first`, `second`, `correlation`, `balance`: where it came from, as in `balanced_flow`.
    """

    times: Float[Array, "*times"]
    inward: Float[Array, "*batch input unit time"]
    outward: Float[Array, "*batch output unit time"]
    first: Float[Array, "*batch hidden input"]
    second: Float[Array, "*batch output hidden"]
    correlation: Float[Array, "*task output input"]
    balance: Float[Array, "*balance"]

    @property
    def factor(self) -> Float[Array, "*batch both unit"]:
        """B(t): the weights (W₁ᵀ; W₂), inputs above outputs, up to a rotation of the units."""
        both = _numpy_or_jax(self.inward).concatenate([self.inward, self.outward], -3)
        return self._matrices(_time_first(both))

    @property
    def map(self) -> Float[Array, "*batch output input"]:
        """W₂W₁."""
        return self._matrices(_time_first(_product(self.outward, self.inward)))

    @property
    def input_gram(self) -> Float[Array, "*batch input input"]:
        """W₁ᵀW₁, the similarity of inputs in the hidden layer."""
        return self._matrices(_gram(self.inward))

    @property
    def output_gram(self) -> Float[Array, "*batch output output"]:
        """W₂W₂ᵀ, the similarity of outputs in the hidden layer."""
        return self._matrices(_gram(self.outward))

    @property
    def _single(self) -> bool:
        """Whether this is the state at one time, which is kept with an axis of length one."""
        return self.times.ndim < self.inward.ndim - 2

    def _matrices(self, value: Array) -> Array:
        return value[..., 0, :, :] if self._single else value

    def _numbers(self, value: Array) -> Array:
        return value[..., 0] if self._single else value

    def loss(self, correlation: ArrayLike | None = None) -> Float[Array, "*batch"]:
        r"""$\frac12\lVert\Sigma - W_2W_1\rVert_F^2$, the loss above that of least squares.

        Of the task that is being learned, or of any other with the same (white) inputs.
        """
        return self._numbers(_loss(self.outward, self.inward, self._target(correlation)))

    def alignment(self, correlation: ArrayLike | None = None) -> Float[Array, "*batch"]:
        r"""Return the cosine of the angle between $W_2W_1$ and Σ, or the `correlation` of another
        task.

        NaN where either is zero: it has no direction.
        """
        return self._numbers(_alignment(self.outward, self.inward, self._target(correlation)))

    def neural_tangent_kernel(
        self, x: ArrayLike | None = None
    ) -> Float[Array, "*batch output_sample output_sample"]:
        r"""Return $I\otimes XW_1^\top W_1X^\top + W_2W_2^\top\otimes XX^\top$ for examples in rows.

        `x` has shape `(sample, input)`; the unit vectors if there are none. Outputs are the
        slow index.
        """
        x = self._inputs(x)
        return tangent_kernel(self.input_gram, self.output_gram, x)

    def kernel_alignment(
        self, target: ArrayLike | None = None, x: ArrayLike | None = None
    ) -> Float[Array, "*batch"]:
        r"""Return the cosine of the angle between the tangent kernel and a `target` kernel.

        The target is a symmetric matrix over outputs and examples as `neural_tangent_kernel` has
        them, or if there is none that of the task itself, $yy^\top$ with $y = \mathrm{vec}\,\Sigma
        X$: what a kernel would have to be to learn in one direction. `x` as there.
        """
        x = self._inputs(x)
        size = self.outward.shape[-3] * len(x)
        if target is None:
            y = (self.correlation @ x.T).reshape(*self.correlation.shape[:-2], size)
            kernel = y[..., :, None] * y[..., None, :]
        else:
            check_finite("target", target)
            kernel = as_array(target)
            if kernel.shape[-2:] != (size, size):
                raise ValueError(
                    "`target` must be a kernel of outputs × examples, outputs in the slow index, "
                    f"({size}, {size}), got shape {kernel.shape}."
                )
        if kernel.ndim > 2 and not self._single:
            kernel = kernel[..., None, :, :]
        return _cosine(self.neural_tangent_kernel(x), kernel)

    def kernel_distance(self, x: ArrayLike | None = None) -> Float[Array, "*batch"]:
        r"""Return how far the tangent kernel has moved: $1 - \cos(K(0), K(t))$.

        Zero throughout is the lazy regime. `x` as in `neural_tangent_kernel`; the kernel
        itself is not formed. NaN for weights that are all zero.
        """
        x = self._inputs(x)
        first, second = self.first, self.second
        moved = kernel_distance(
            _gram(self.inward),
            _gram(self.outward),
            (first.swapaxes(-1, -2) @ first)[..., None, :, :],
            (second @ second.swapaxes(-1, -2))[..., None, :, :],
            x.T @ x,
        )
        return self._numbers(moved)

    def _target(self, correlation: ArrayLike | None) -> Float[Array, "*task output input"]:
        if correlation is None:
            return self.correlation
        check_finite("correlation", correlation)
        target = as_array(correlation)
        if target.shape[-2:] != self.correlation.shape[-2:]:
            raise ValueError(
                "`correlation` must be (output, input) as that of the flow, "
                f"{self.correlation.shape[-2:]}, got shape {target.shape}."
            )
        return target

    def to_dataset(self, dims: tuple[str, ...] | None = None) -> "xr.Dataset":
        """Return loss, map, Gram matrices and kernel distance with named axes, as a run has them.

        `dims` name the axes of a batch, `network` by default.
        """
        import xarray as xr

        leading = self.inward.shape[:-3]
        batch = dims or ("network",) * bool(leading)
        if len(batch) != len(leading):
            raise ValueError(f"`dims` must name the axes {leading}, got {batch}.")
        over = batch if self._single else (*batch, "time")
        return xr.Dataset(
            {
                "loss": (over, np.asarray(self.loss())),
                "map": ((*over, "output", "input"), np.asarray(self.map)),
                "input_gram": ((*over, "input", "input_too"), np.asarray(self.input_gram)),
                "output_gram": ((*over, "output", "output_too"), np.asarray(self.output_gram)),
                "kernel_distance": (over, np.asarray(self.kernel_distance())),
            },
            {"time": np.asarray(self.times)[(0,) * len(leading)]},
        )

    def _inputs(self, x: ArrayLike | None) -> Float[Array, "sample input"]:
        size = self.inward.shape[-3]
        if x is None:
            return np.eye(size)
        check_finite("x", x)
        x = as_array(x)
        if x.ndim != 2 or x.shape[1] != size:
            raise ValueError(
                f"`x` must be examples in rows, (sample, {size}), got shape {x.shape}."
            )
        return x


@compiled()
def _product(
    left: Float[Array, "*batch left unit time"], right: Float[Array, "*batch right unit time"]
) -> Float[Array, "*batch left right time"]:
    units = left.shape[-2]
    if units > _FEW:
        return jnp.einsum("...iut,...jut->...ijt", left, right)
    # Added one by one: the compiler's own sum over an inner axis takes ten times as long.
    terms = [left[..., :, None, j, :] * right[..., None, :, j, :] for j in range(units)]
    return functools.reduce(operator.add, terms)


@compiled()
def _loss(
    outward: Float[Array, "*batch output unit time"],
    inward: Float[Array, "*batch input unit time"],
    correlation: Float[Array, "*task output input"],
) -> Float[Array, "*batch time"]:
    return jnp.sum((correlation[..., None] - _product(outward, inward)) ** 2, axis=(-3, -2)) / 2


@compiled()
def _alignment(
    outward: Float[Array, "*batch output unit time"],
    inward: Float[Array, "*batch input unit time"],
    correlation: Float[Array, "*task output input"],
) -> Float[Array, "*batch time"]:
    w, sigma = _product(outward, inward), correlation[..., None]
    inside = lambda a, b: jnp.sum(a * b, axis=(-3, -2))
    return inside(w, sigma) / jnp.sqrt(inside(w, w) * inside(sigma, sigma))


@compiled()
def _cosine(
    kernel: Float[Array, "*batch size size"], target: Float[Array, "*target size size"]
) -> Float[Array, "*batch"]:
    inside = lambda a, b: jnp.sum(a * b, axis=(-2, -1))
    return inside(kernel, target) / jnp.sqrt(inside(kernel, kernel) * inside(target, target))


def _gram(side: Float[Array, "*batch side unit time"]) -> Float[Array, "*batch time side side"]:
    return _time_first(_product(side, side))


def as_array(value: Any) -> Array:
    """Return a NumPy array in float64, or what JAX is tracing as it is."""
    return jnp.asarray(value) if is_traced(value) else np.asarray(value, dtype=float)


def _time_first(value: Array) -> Array:
    """A view where it is NumPy's: nothing is copied."""
    return _numpy_or_jax(value).moveaxis(value, -1, -3)


def _numpy_or_jax(value: Array) -> ModuleType:
    return np if isinstance(value, np.ndarray) else jnp
