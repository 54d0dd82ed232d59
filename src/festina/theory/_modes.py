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
    r"""Result of `modes`: singular triples of the input-output correlation, and input variances.

    $$\Sigma^{yx} = \sum_\alpha s_\alpha u_\alpha v_\alpha^\top,\qquad
      \Sigma^{xx} v_\alpha = \lambda_\alpha v_\alpha.$$

    - `left`: left singular vectors $u_\alpha$, as columns.
    - `singular_values`: $s_\alpha$, largest first.
    - `right`: right singular vectors $v_\alpha$, as columns.
    - `input_variance`: $\lambda_\alpha$.

    **Example:**

    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> modes = linear.modes(from_moments([[0.0, 2.0], [3.0, 0.0]]))
    >>> modes.singular_values, modes.input_variance
    (array([3., 2.]), array([1., 1.]))
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

    The correlation is $\Sigma^{yx} = \langle yx^\top\rangle = USV^\top$, and the covariance of the
    inputs is $\Sigma^{xx} = \langle xx^\top\rangle$ (means are not subtracted). Suppose that
    $\Sigma^{xx}$ is diagonal in the right singular vectors $V$. This holds for white inputs, and
    for independent inputs with a diagonal $\Sigma^{yx}$. Consider a network with layers
    $W^l = R_l\,\mathrm{diag}(b_l)\, R_{l-1}^\top$, where $R_0 = V$, $R_D = U$ and the other $R_l$
    are any orthonormal frames. Gradient flow preserves this form of the layers, and each mode
    learns as a scalar chain with the numbers $(s_\alpha, \lambda_\alpha)$, exactly and at any depth
    (Saxe, McClelland & Ganguli 2014, for white inputs). If $\Sigma^{xx}$ is not diagonal in
    $V$, the modes mix during training, and `modes` raises `ValueError`. For small initial weights
    use `festina.theory.saddles.staircase` instead.

    If singular values coincide, their singular vectors are not unique. `modes` then chooses
    singular vectors in which $\Sigma^{xx}$ is diagonal. If the input variances also coincide, the
    choice of singular vectors remains arbitrary.

    **Arguments:**

    - `task`: the task; only its moments enter, which are exact for a population task. To start from
      a correlation matrix, pass `festina.tasks.from_moments(correlation)`.
    - `loss`: the convention of the loss, as for `festina.gradient_flow`. A factor in front of the
      loss multiplies all moments.
    - `tolerance`: largest accepted $\lVert\Sigma^{xx}v_\alpha - \lambda_\alpha v_\alpha\rVert$, as
      a fraction of $\lVert\Sigma^{xx}\rVert$.
    - `degeneracy`: singular values count as equal if they differ by less than this fraction of the
      largest one.

    **Returns:**

    `Modes`: $\min(\text{outputs}, \text{inputs})$ modes, including modes with $s_\alpha = 0$.

    **Example:**

    >>> from festina.tasks import from_moments
    >>> from festina.theory import linear
    >>> task = from_moments([[3.0, 0.0], [0.0, 1.0]], covariance=[[2.0, 0.0], [0.0, 0.5]])
    >>> modes = linear.modes(task)
    >>> modes.singular_values, modes.input_variance
    (array([3., 1.]), array([2. , 0.5]))
    """
    seen = moments(task, loss)
    return modes_of(np.asarray(seen.correlation), seen.covariance, tolerance, degeneracy)


def modes_of(
    correlation: Float[np.ndarray, "output input"],
    covariance: Float[np.ndarray, "input input"],
    tolerance: float,
    degeneracy: float,
) -> Modes:
    """Return the modes of given moments; `modes` computes the moments of a task first."""
    tolerance, degeneracy = real_number("tolerance", tolerance), number("degeneracy", degeneracy)
    size = correlation.shape[1]
    u, s, vt = np.linalg.svd(correlation)
    v = vt.T
    rank = int(np.sum(s > 8.0 * np.finfo(float).eps * max(correlation.shape) * s[0]))
    s[rank:] = 0.0
    for equal in equals(s[:rank], degeneracy):
        turn = _diagonalising(covariance, v[:, equal])
        u[:, equal], v[:, equal] = u[:, equal] @ turn, v[:, equal] @ turn
    # Input directions without correlation have no left singular vector that would turn with them.
    v[:, rank:] = v[:, rank:] @ _diagonalising(covariance, v[:, rank:])

    lam = np.einsum("ik,ij,jk->k", v, covariance, v)
    scale = np.linalg.norm(covariance, 2)
    residual = np.linalg.norm(covariance @ v - lam * v, axis=0).max() / max(scale, 1e-300)
    if residual > tolerance:
        raise ValueError(
            "`covariance` must be diagonal in the right singular vectors of `correlation`, "
            f"otherwise modes mix: |Σxx v − λv| is {residual:.3g} of |Σxx|, above `tolerance` "
            f"{tolerance:.3g}. Raise `tolerance` if this is sampling noise. Otherwise whiten the "
            "inputs (`festina.theory.linear.in_white_coordinates`), predict the mixing modes of "
            "two layers (`festina.theory.saddles.staircase`), or train (`festina.gradient_flow`)."
        )
    # A variance below the rounding error counts as zero.
    lam = np.where(lam > 8.0 * np.finfo(float).eps * size * scale, lam, 0.0)
    if (lam[:rank] == 0).any():
        raise ValueError(
            "`covariance` is zero along a direction in which `correlation` is not. An input that "
            "does not vary is correlated with nothing: correct either argument."
        )
    count = min(correlation.shape)
    return Modes(u[:, :count], s, v[:, :count], lam[:count])


def equals(values: Float[np.ndarray, " mode"], degeneracy: float) -> list[slice]:
    """Group falling values: neighbours closer than `degeneracy` times the largest are equal."""
    steps = np.flatnonzero(-np.diff(values) > degeneracy * values[:1]) + 1
    return [slice(a, b) for a, b in itertools.pairwise([0, *steps.tolist(), len(values)])]


def _diagonalising(
    covariance: Float[np.ndarray, "input input"], v: Float[np.ndarray, "input mode"]
) -> Float[np.ndarray, "mode mode"]:
    """Return the rotation of the columns of v that makes vᵀ Σxx v diagonal."""
    block = v.T @ covariance @ v
    variance = np.trace(block) / max(len(block), 1)
    if np.linalg.norm(block - variance * np.eye(len(block))) <= 1e-12 * variance:
        return np.eye(len(block))  # already a multiple of I: keep the vectors of the SVD
    return np.linalg.eigh((block + block.T) / 2)[1][:, ::-1]
