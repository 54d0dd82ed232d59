"""Tasks that are known by averages over their data, without any samples."""

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

_ROUNDING = 1e-9  # of the largest entry
_SINGULAR = 1e-13  # of the largest eigenvalue, for each input
_HIGHEST = 4  # degree
_COARSE = " If that is rounding, average in float64."


@dataclass(frozen=True, eq=False, repr=False)
class MomentTask(AbstractTask):
    """A population of which only moments are known: see `from_moments`."""

    correlation: Float[Array, "output *inputs"]
    covariance: Float[np.ndarray, "*both"]
    floor: float

    def __repr__(self) -> str:
        degree = f", of degree {self.degree}" * (self.degree > 1)
        return f"MomentTask(inputs {self.input_shape}, {self.outputs} outputs{degree})"

    @property
    def degree(self) -> int:
        """Degree of the networks that can learn the task, as polynomials in the input."""
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
                f"The moments of this task are those of networks of degree {self.degree} in the "
                f"input, without biases; {view} needs others. Give the data: "
                "`festina.tasks.from_arrays(x, y)`, or a teacher's."
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
    r"""Return a task that is known by its moments: all that linear networks see of their data.

    The loss of a linear network, its gradient and all theory of it depend on three averages,
    $L = \frac12\langle\lVert y\rVert^2\rangle - \mathrm{tr}(W^\top\Sigma_{yx}) +
    \frac12\mathrm{tr}(W\Sigma_{xx}W^\top)$. Networks of degree p in the input, such as quadratic
    neurons, see those of $x\otimes\dots\otimes x$ instead.

    **Arguments:**

    - `correlation`: $\Sigma_{yx} = \langle yx^\top\rangle$, shape `(output, input)`. For networks
      of degree 2 $\langle y\,xx^\top\rangle$, `(output, input, input)`, and so on up to degree 4.
    - `covariance`: $\Sigma_{xx} = \langle xx^\top\rangle$, shape `(input, input)`; for networks of
      degree p all moments of order 2p, with as many axes. By default that of inputs from N(0, I).
      It may be singular where the correlation is zero.
    - `target_power`: $\langle\lVert y\rVert^2\rangle$. By default the network can fit the targets
      exactly, and the loss of least squares is zero.

    **Returns:**

    A task without samples, for training and theory alike. Networks that need other averages raise
    `ValueError`. JAX may trace the correlation, to differentiate `theory.linear.balanced_flow`
    with respect to it; then there is nothing that the network cannot fit.
    """
    traced = is_traced(correlation)
    yz = jnp.asarray(correlation) if traced else finite_array("correlation", correlation)
    degree, sizes = yz.ndim - 1, yz.shape[1:]
    if not 1 <= degree <= _HIGHEST or len(set(sizes)) > 1:
        raise ValueError(
            "`correlation` must be a matrix (output, input), or (output, input, input) and so on "
            f"for networks of degree 2 to {_HIGHEST}, got shape {yz.shape}."
        )
    if covariance is None:
        zz = gaussian_moment(np.eye(sizes[0]), 2 * degree)
    else:
        zz = finite_array("covariance", covariance)
        if zz.shape != 2 * sizes:
            raise ValueError(
                f"`covariance` must have shape {2 * sizes} to go with `correlation` of shape "
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
            f"`target_power` must be at least {explained:.6g}, what such a network explains of the "
            f"targets, got {power:.6g}: it is ⟨‖y‖²⟩ of the same targets as `correlation`."
        )
    return MomentTask(yz, zz, max(power - explained, 0.0) / 2)


def _check_symmetric(name: str, moment: np.ndarray, first: int) -> None:
    """Raise unless the inputs, from the axis `first` on, can be exchanged."""
    for axis in range(first, moment.ndim - 1):
        asymmetry = np.abs(moment - moment.swapaxes(axis, axis + 1)).max()
        if asymmetry > _ROUNDING * np.abs(moment).max():
            raise ValueError(
                f"`{name}` must be symmetric, the largest asymmetry is {asymmetry:.3g}.{_COARSE}"
            )


def _explained(yz: Float[np.ndarray, "output f"], zz: Float[np.ndarray, "f f"]) -> float:
    """Return the part of ⟨‖y‖²⟩ that least squares fit; raises if no data have these moments."""
    variances, axes = np.linalg.eigh(zz)
    if variances[0] < -_ROUNDING * np.abs(zz).max():
        raise ValueError(
            f"`covariance` must not have negative eigenvalues, one is {variances[0]:.3g}.{_COARSE}"
        )
    along, varies = yz @ axes, variances > _SINGULAR * len(zz) * variances[-1]
    outside = np.abs(along[:, ~varies]).max(initial=0.0)
    if outside > 1e-8 * np.abs(yz).max():
        raise ValueError(
            f"`correlation` has a part of {outside:.3g} along inputs that do not vary "
            "(`covariance` is singular there): nothing can correlate with them. Are the two from "
            "the same data?"
        )
    return float(np.sum(along[:, varies] ** 2 / variances[varies]))


@float64
def _monomials(
    view: AbstractView, inputs: int, degree: int
) -> Float[np.ndarray, "*features_and_inputs"] | None:
    """Return coefficients of features in x⊗…⊗x; None if they have terms of lower degree."""
    features = view.features
    with jax.ensure_compile_time_eval():
        x = jnp.linspace(1.0, 2.0, inputs)
        if not np.array_equal(features(2 * x), 2**degree * features(x)):
            return None
        for _ in range(degree):
            features = jax.jacfwd(features)
        return np.asarray(features(x)) / math.factorial(degree)
