"""Tasks that are given by moments of their data, without samples."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from .._checks import finite_array, number
from .._precision import float64, is_traced
from .._types import Array, ArrayLike
from ..networks._view import AbstractView
from ._in_context import gaussian_moment
from ._task import AbstractTask, Statistics, compress

_ROUNDING = 1e-9  # asymmetry that counts as rounding, relative to the largest entry
_SINGULAR = 1e-13  # eigenvalue that counts as zero, relative to the largest and per input
_HIGHEST = 4  # highest degree of networks for which moments can be given
_COARSE = " If the cause is rounding, compute the averages in float64."


@dataclass(frozen=True, eq=False, repr=False)
class MomentTask(AbstractTask):
    r"""Population task that is given by moments of its data; `from_moments` makes it.

    - `correlation`: $\langle yx^\top\rangle$, `(output, input)`, with more input axes for degrees
      above one.
    - `covariance`: $\langle xx^\top\rangle$, `(input, input)`, or higher moments.
    - `floor`: least-squares loss, which no network of this degree can go below.

    **Example:**

    >>> import numpy as np
    >>> from festina.tasks import from_moments
    >>> task = from_moments(np.diag([2.0, 1.0]), target_power=6.0)
    >>> task
    MomentTask(inputs (2,), 2 outputs)
    >>> task.floor  # half of 6 − 2² − 1²
    0.5
    """

    correlation: Float[Array, "output *inputs"]
    covariance: Float[np.ndarray, "*both"]
    floor: float

    def __repr__(self) -> str:
        degree = f", of degree {self.degree}" * (self.degree > 1)
        return f"MomentTask(inputs {self.input_shape}, {self.outputs} outputs{degree})"

    @property
    def degree(self) -> int:
        """Degree in the input of the networks for which the moments of the task are sufficient."""
        return self.correlation.ndim - 1

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.correlation.shape[-1:]

    @property
    def outputs(self) -> int:
        return len(self.correlation)

    @property
    def samples(self) -> int | None:
        return None

    def _statistics(self, view: AbstractView) -> Statistics:
        view.check_input(self.input_shape)
        fits = view.fixed_features and view.degree == self.degree
        monomials = _monomials(view, self.input_shape[0], self.degree) if fits else None
        if monomials is None:
            raise ValueError(
                f"The moments of this task are for networks of degree {self.degree} in the "
                f"input, without biases; {view} needs other moments. Give the data themselves, "
                "with `festina.tasks.from_arrays(x, y)`, or use a teacher of `festina.tasks`."
            )
        shape = monomials.shape[: -self.degree]
        turn = monomials.reshape(math.prod(shape), -1)
        cross = np.asarray(self.correlation).reshape(self.outputs, -1) @ turn.T
        second = turn @ self.covariance.reshape(turn.shape[1], -1) @ turn.T
        found = compress(second, cross, np.zeros(self.outputs), shape)
        return found._replace(floor=self.floor, moments=(second, cross.reshape(-1, *shape)))


def from_moments(
    correlation: ArrayLike | Array,
    covariance: ArrayLike | None = None,
    *,
    target_power: float | None = None,
) -> MomentTask:
    r"""Return a task that is given by moments of its data, which suffice for linear networks.

    The loss of a linear network depends on three averages only,

    $$L = \frac12\langle\lVert y\rVert^2\rangle - \mathrm{tr}(W^\top\Sigma_{yx}) +
    \frac12\mathrm{tr}(W\Sigma_{xx}W^\top).$$

    The loss of a network of degree p in the input, such as quadratic neurons with p = 2, depends on
    the same averages with $x\otimes\dots\otimes x$ (p factors) in place of x.

    **Arguments:**

    - `correlation`: $\Sigma_{yx} = \langle yx^\top\rangle$, `(output, input)`. For networks of
      degree 2 give $\langle y\,xx^\top\rangle$, `(output, input, input)`, and so on up to degree 4.
    - `covariance`: $\Sigma_{xx} = \langle xx^\top\rangle$, `(input, input)`. For networks of degree
      p give the moments of order 2p, with 2p axes. The default moments are those of inputs from
      N(0, I).
    - `target_power`: $\langle\lVert y\rVert^2\rangle$. By default the network can fit the targets
      exactly, so the least-squares loss is zero.

    **Returns:**

    A task without samples, for training and theory. Networks whose loss depends on other averages
    raise `ValueError`. If JAX traces the `correlation`, to differentiate
    `festina.theory.linear.balanced_flow`, the least-squares loss counts as zero.

    **Example:**

    >>> import numpy as np
    >>> from festina.tasks import from_moments
    >>> from festina.theory.linear import modes
    >>> modes(from_moments(np.diag([2.0, 1.0]))).singular_values
    array([2., 1.])
    """
    traced = is_traced(correlation)
    yz = jnp.asarray(correlation) if traced else finite_array("correlation", correlation)
    degree, sizes = yz.ndim - 1, yz.shape[1:]
    if not 1 <= degree <= _HIGHEST or len(set(sizes)) > 1:
        raise ValueError(
            "`correlation` must be a matrix (output, input), or have 2 to "
            f"{_HIGHEST} equal input axes for networks of degree 2 to {_HIGHEST}, got shape "
            f"{yz.shape}."
        )
    if covariance is None:
        zz = gaussian_moment(np.eye(sizes[0]), 2 * degree)
    else:
        zz = finite_array("covariance", covariance)
        if zz.shape != 2 * sizes:
            raise ValueError(
                f"`covariance` must have shape {2 * sizes} to fit `correlation` of shape "
                f"{yz.shape}, got {zz.shape}."
            )
        _check_symmetric("covariance", zz, 0)
    if traced:
        return MomentTask(yz, zz, 0.0)
    yz = np.asarray(yz)
    _check_symmetric("correlation", yz, 1)
    explained = _explained(yz.reshape(len(yz), -1), zz.reshape(math.prod(sizes), -1))
    power = explained if target_power is None else number("target_power", target_power)
    if power < explained * (1.0 - 1e-9):
        raise ValueError(
            f"`target_power` must be at least {explained:.6g}, the part of ⟨‖y‖²⟩ that the inputs "
            f"explain, got {power:.6g}. Compute it from the same targets as `correlation`."
        )
    return MomentTask(yz, zz, max(power - explained, 0.0) / 2)


def _check_symmetric(name: str, moment: np.ndarray, first: int) -> None:
    """Raise unless the moment is symmetric in its input axes, which start at axis `first`."""
    for axis in range(first, moment.ndim - 1):
        asymmetry = np.abs(moment - moment.swapaxes(axis, axis + 1)).max()
        if asymmetry > _ROUNDING * np.abs(moment).max():
            raise ValueError(
                f"`{name}` must be symmetric, the largest asymmetry is {asymmetry:.3g}.{_COARSE}"
            )


def _explained(yz: Float[np.ndarray, "output f"], zz: Float[np.ndarray, "f f"]) -> float:
    """Return the part of ⟨‖y‖²⟩ that least squares explain; raise for impossible moments."""
    variances, axes = np.linalg.eigh(zz)
    if variances[0] < -_ROUNDING * np.abs(zz).max():
        raise ValueError(
            f"`covariance` must not have negative eigenvalues, one is {variances[0]:.3g}.{_COARSE}"
        )
    along, varies = yz @ axes, variances > _SINGULAR * len(zz) * variances[-1]
    outside = np.abs(along[:, ~varies]).max(initial=0.0)
    if outside > 1e-8 * np.abs(yz).max():
        raise ValueError(
            f"`correlation` has a part of {outside:.3g} along inputs that do not vary, because "
            "`covariance` is singular there; nothing can correlate with such inputs. Compute both "
            "from the same data."
        )
    return float(np.sum(along[:, varies] ** 2 / variances[varies]))


@float64
def _monomials(
    view: AbstractView, inputs: int, degree: int
) -> Float[np.ndarray, "*features_and_inputs"] | None:
    """Return the coefficients of the features in x⊗…⊗x; None if terms of lower degree occur."""
    features = view.features
    with jax.ensure_compile_time_eval():
        x = jnp.linspace(1.0, 2.0, inputs)
        if not np.array_equal(features(2 * x), 2**degree * features(x)):
            return None
        for _ in range(degree):
            features = jax.jacfwd(features)
        return np.asarray(features(x)) / math.factorial(degree)
