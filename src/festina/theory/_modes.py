"""Modes: the directions in which a deep linear network learns independently."""

import itertools
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from .._checks import number, real_number
from .._objective import LossConvention
from .._pytree import pytree
from .._result import Result
from .._types import Array
from ..tasks import AbstractTask
from ._statistics import moments


@pytree
@dataclass(frozen=True, eq=False, repr=False)
class Modes(Result):
    r"""What a linear network sees of its data, one mode at a time.

    $$\Sigma^{yx} = \sum_\alpha s_\alpha u_\alpha v_\alpha^\top,\qquad
      \Sigma^{xx} v_\alpha = \lambda_\alpha v_\alpha.$$

    - `left`: $u_\alpha$, one column each.
    - `singular_values`: $s_\alpha$, largest first.
    - `right`: $v_\alpha$, one column each.
    - `input_variance`: $\lambda_\alpha$.
    """

    left: Float[Array, "output mode"]
    singular_values: Float[Array, " mode"]
    right: Float[Array, "input mode"]
    input_variance: Float[Array, " mode"]

    def __len__(self) -> int:
        return len(self.singular_values)


def modes(
    task: AbstractTask,
    *,
    loss: LossConvention = "half",
    tolerance: float = 1e-8,
    degeneracy: float = 1e-9,
) -> Modes:
    r"""Return the singular modes of the input-output correlation and the input variance of each.

    If $\Sigma^{xx}$ is diagonal in the right singular vectors of $\Sigma^{yx}$, a network of layers
    $W^l = R_l\,\mathrm{diag}(b_l)\,R_{l-1}^\top$ with $R_0 = V$, $R_D = U$ and any orthonormal
    frames in between keeps that form under the flow, and each mode is a scalar chain with
    $(s_\alpha, \lambda_\alpha)$: exactly, at any depth (Saxe, McClelland & Ganguli 2014, for white
    inputs). White inputs always do; so does $\Sigma^{yx} = \mathrm{diag}$ with independent inputs.

    Where singular values coincide their vectors are a choice, and the one is taken in which
    $\Sigma^{xx}$ is diagonal too. It still is a choice if the variances coincide as well.

    **Arguments:**

    - `task`: what is learned; only its moments enter, exact for a population. Of a correlation
      $\Sigma^{yx}$ itself: `festina.tasks.from_moments(correlation)`.
    - `loss`: the convention of times, as for `festina.gradient_flow`: a factor of the loss is one
      of all moments.
    - `tolerance`: largest $\lVert\Sigma^{xx}v_\alpha - \lambda_\alpha v_\alpha\rVert$ that passes
      for shared directions, as a fraction of $\lVert\Sigma^{xx}\rVert$.
    - `degeneracy`: singular values closer than this fraction of the largest count as equal.

    **Returns:**

    `Modes`, $\min(\text{outputs}, \text{inputs})$ of them, those without correlation included.
    """
    seen = moments(task, loss)
    return modes_of(np.asarray(seen.correlation), seen.covariance, tolerance, degeneracy)


def modes_of(
    correlation: Float[np.ndarray, "output input"],
    covariance: Float[np.ndarray, "input input"],
    tolerance: float,
    degeneracy: float,
) -> Modes:
    """Return the `modes` of these moments."""
    tolerance, degeneracy = real_number("tolerance", tolerance), number("degeneracy", degeneracy)
    size = correlation.shape[1]
    u, s, vt = np.linalg.svd(correlation)
    v = vt.T
    rank = int(np.sum(s > 8.0 * np.finfo(float).eps * max(correlation.shape) * s[0]))
    s[rank:] = 0.0
    for equal in equals(s[:rank], degeneracy):
        turn = _diagonalising(covariance, v[:, equal])
        u[:, equal], v[:, equal] = u[:, equal] @ turn, v[:, equal] @ turn
    # Inputs that nothing correlates with: their vectors need not match anything on the left.
    v[:, rank:] = v[:, rank:] @ _diagonalising(covariance, v[:, rank:])

    lam = np.einsum("ik,ij,jk->k", v, covariance, v)
    scale = np.linalg.norm(covariance, 2)
    residual = np.linalg.norm(covariance @ v - lam * v, axis=0).max() / max(scale, 1e-300)
    if residual > tolerance:
        raise ValueError(
            "`covariance` must be diagonal in the right singular vectors of `correlation`, else "
            f"modes mix: |Σxx v − λv| is {residual:.3g} of |Σxx|, above `tolerance` "
            f"{tolerance:.3g}. Raise `tolerance` if this is sampling noise; else whiten the inputs "
            "(`festina.theory.linear.in_white_coordinates`), follow modes of two layers as they "
            "mix (`festina.theory.saddles.staircase`), or train (`festina.gradient_flow`)."
        )
    # Below rounding an input does not vary.
    lam = np.where(lam > 8.0 * np.finfo(float).eps * size * scale, lam, 0.0)
    if (lam[:rank] == 0).any():
        raise ValueError(
            "`covariance` is zero along a direction that `correlation` uses: an input that does "
            "not vary is correlated with nothing."
        )
    count = min(correlation.shape)
    return Modes(u[:, :count], s, v[:, :count], lam[:count])


def equals(values: Float[np.ndarray, " mode"], degeneracy: float) -> list[slice]:
    """Return runs of falling values that differ by less than this fraction of the first."""
    steps = np.flatnonzero(-np.diff(values) > degeneracy * values[:1]) + 1
    return [slice(a, b) for a, b in itertools.pairwise([0, *steps.tolist(), len(values)])]


def _diagonalising(
    covariance: Float[np.ndarray, "input input"], v: Float[np.ndarray, "input mode"]
) -> Float[np.ndarray, "mode mode"]:
    """Return the rotation within the span of v that makes its part of the covariance diagonal."""
    block = v.T @ covariance @ v
    variance = np.trace(block) / max(len(block), 1)
    if np.linalg.norm(block - variance * np.eye(len(block))) <= 1e-12 * variance:
        return np.eye(len(block))  # nothing to choose: keep what the SVD gave
    return np.linalg.eigh((block + block.T) / 2)[1][:, ::-1]
