"""Weights of a balanced network along its flow, up to a rotation of its hidden units."""

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

_FEW = 16  # for at most this many units, products are added one by one


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class BalancedSolution(Result):
    r"""Result of calling a `BalancedFlow`: map, loss, Gram matrices and tangent kernel over time.

    The closed form gives $M = QQ^\top$ with the stacked weights $Q = (W_1^\top; W_2)$. The blocks
    of $M$ are the map $W_2W_1$ and the Gram matrices $W_1^\top W_1$ and $W_2W_2^\top$. These blocks
    determine the loss, the representations and the tangent kernel. The solution stores a factor $B$
    with $M = BB^\top$. $B$ equals $Q$ up to a rotation of the hidden units, which $M$ does not
    determine.

    Time is the first axis of every result, after the axes of a batch or a `vmap`. The solution at
    a single time has no time axis.

    **Attributes:**

    - `times`: one time or a list of times.
    - `inward`, `outward`: the two blocks of $B$, time last: `(input, unit, time)` and
      `(output, unit, time)`.
    - `first`, `second`, `correlation`, `balance`: initial weights $W_1$ and $W_2$,
      input-output correlation Σ, and λ, as in `BalancedFlow`.

    **Example:**

    >>> from festina.networks import deep_linear_from
    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> network = deep_linear_from([[[0.1, 0.0], [0.0, 0.1]], [[0.1, 0.0], [0.0, 0.1]]])
    >>> flow = linear.balanced_flow(network, from_moments([[3.0, 0.0], [0.0, 1.0]]))
    >>> solution = flow([0.0, 1.0])
    >>> solution.alignment()
    array([0.894, 0.961])
    >>> solution.kernel_distance().round(3)
    array([0.   , 0.162])
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
        """Return B(t): the stacked weights (W₁ᵀ; W₂) up to a rotation of the hidden units."""
        both = _numpy_or_jax(self.inward).concatenate([self.inward, self.outward], -3)
        return self._matrices(_time_first(both))

    @property
    def map(self) -> Float[Array, "*batch output input"]:
        """Return the map W₂W₁ from inputs to outputs."""
        return self._matrices(_time_first(_product(self.outward, self.inward)))

    @property
    def input_gram(self) -> Float[Array, "*batch input input"]:
        """Return W₁ᵀW₁, the similarity of inputs in the hidden layer."""
        return self._matrices(_gram(self.inward))

    @property
    def output_gram(self) -> Float[Array, "*batch output output"]:
        """Return W₂W₂ᵀ, the similarity of outputs in the hidden layer."""
        return self._matrices(_gram(self.outward))

    @property
    def _single(self) -> bool:
        """Return whether `times` is a single time; B then has a time axis of length one."""
        return self.times.ndim < self.inward.ndim - 2

    def _matrices(self, value: Array) -> Array:
        return value[..., 0, :, :] if self._single else value

    def _numbers(self, value: Array) -> Array:
        return value[..., 0] if self._single else value

    def loss(self, correlation: ArrayLike | None = None) -> Float[Array, "*batch"]:
        r"""Return $\frac12\lVert\Sigma - W_2W_1\rVert_F^2$, the loss above the least-squares loss.

        The default Σ is the correlation of the learned task. Pass `correlation` for another task
        with the same (white) inputs.
        """
        return self._numbers(_loss(self.outward, self.inward, self._target(correlation)))

    def alignment(self, correlation: ArrayLike | None = None) -> Float[Array, "*batch"]:
        r"""Return the cosine of the angle between the map $W_2W_1$ and the correlation Σ.

        The default Σ is the correlation of the learned task; pass `correlation` for another task.
        The cosine is NaN if either matrix is zero.
        """
        return self._numbers(_alignment(self.outward, self.inward, self._target(correlation)))

    def neural_tangent_kernel(
        self, x: ArrayLike | None = None
    ) -> Float[Array, "*batch output_sample output_sample"]:
        r"""Return the tangent kernel $I\otimes XW_1^\top W_1X^\top + W_2W_2^\top\otimes XX^\top$.

        `x` contains the examples $X$ with shape `(sample, input)`, by default the unit vectors.
        Rows and columns of the kernel run over outputs and examples; the output is the slow index.
        """
        x = self._inputs(x)
        return tangent_kernel(self.input_gram, self.output_gram, x)

    def kernel_alignment(
        self, target: ArrayLike | None = None, x: ArrayLike | None = None
    ) -> Float[Array, "*batch"]:
        r"""Return the cosine of the angle between the tangent kernel and a `target` kernel.

        The target is a symmetric matrix with the same order of rows as `neural_tangent_kernel`. The
        default target is the kernel of the task, $yy^\top$ with $y = \mathrm{vec}(\Sigma X^\top)$;
        a network with the kernel $yy^\top$ would learn the task along a single direction. `x`
        contains the examples $X$ in rows, by default the unit vectors.
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
                    "`target` must be a kernel over outputs × examples with the output as the slow "
                    f"index, shape ({size}, {size}), got shape {kernel.shape}."
                )
        if kernel.ndim > 2 and not self._single:
            kernel = kernel[..., None, :, :]
        return _cosine(self.neural_tangent_kernel(x), kernel)

    def kernel_distance(self, x: ArrayLike | None = None) -> Float[Array, "*batch"]:
        r"""Return how far the tangent kernel has moved since time zero: $1 - \cos(K(0), K(t))$.

        The distance stays near zero in the lazy regime. `x` contains the examples in rows, by
        default the unit vectors. The computation does not form the kernel. The distance is NaN if
        all weights are zero.
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
                "`correlation` must have the shape (output, input) of the learned task, "
                f"{self.correlation.shape[-2:]}, got {target.shape}."
            )
        return target

    def to_dataset(self, dims: tuple[str, ...] | None = None) -> "xr.Dataset":
        """Return loss, map, Gram matrices and kernel distance as an `xarray.Dataset`.

        `dims` name the axes of a batch; the default is `network`. Other axes are called `time`,
        `input` and `output`, as in the dataset of a run.
        """
        import xarray as xr

        leading = self.inward.shape[:-3]
        batch = dims or ("network",) * bool(leading)
        if len(batch) != len(leading):
            raise ValueError(f"`dims` must name the axes {leading} of the batch, got {batch}.")
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
                f"`x` must contain examples in rows, (sample, {size}), got shape {x.shape}."
            )
        return x


@compiled()
def _product(
    left: Float[Array, "*batch left unit time"], right: Float[Array, "*batch right unit time"]
) -> Float[Array, "*batch left right time"]:
    units = left.shape[-2]
    if units > _FEW:
        return jnp.einsum("...iut,...jut->...ijt", left, right)
    # Adding the products one by one is ten times faster than the compiled sum over an inner axis.
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
    """Return a NumPy array in float64, or a JAX array if the value is traced."""
    return jnp.asarray(value) if is_traced(value) else np.asarray(value, dtype=float)


def _time_first(value: Array) -> Array:
    """Move the last axis (time) in front of the two matrix axes; NumPy returns a view."""
    return _numpy_or_jax(value).moveaxis(value, -1, -3)


def _numpy_or_jax(value: Array) -> ModuleType:
    return np if isinstance(value, np.ndarray) else jnp
