"""In-context linear regression: predicting the label of a query from labelled tokens."""

from dataclasses import dataclass
from typing import overload

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from .._checks import real_array, whole_number
from .._precision import float64
from .._types import ArrayLike
from ..networks import LinearAttentionUnit
from ..networks._view import AbstractView
from ._cubature import gaussian_cubature_points, square_root
from ._task import AbstractTask, Statistics, Task, compress


@overload
def in_context_regression(
    dimension: int = 2,
    context: int = 32,
    *,
    token_covariance: ArrayLike | None = None,
    samples: int,
    key: PRNGKeyArray,
) -> Task: ...
@overload
def in_context_regression(
    dimension: int = 2,
    context: int = 32,
    *,
    token_covariance: ArrayLike | None = None,
    samples: int | None = None,
    key: PRNGKeyArray | None = None,
) -> AbstractTask: ...
def in_context_regression(
    dimension: int = 2,
    context: int = 32,
    *,
    token_covariance: ArrayLike | None = None,
    samples: int | None = None,
    key: PRNGKeyArray | None = None,
) -> AbstractTask:
    r"""Return the task of in-context linear regression, for attention networks.

    An input is a sequence of labelled tokens $(x_n, w\cdot x_n)$ and a query $(x_q, 0)$. The target
    is $w\cdot x_q$. Tokens are drawn from N(0, Λ), and the task vector w of each sequence from N(0,
    I). The task appears in Section I of Zhang, Saxe & Latham, after Zhang et al. (2025b).

    **Arguments:**

    - `dimension`: dimension D of a token without its label.
    - `context`: number N of labelled tokens.
    - `token_covariance`: Λ, the identity by default.
    - `samples`, `key`: number of sequences and random key, for a finite data set instead of the
      population. Only linear attention learns from the population, because only the moments of
      linear attention are known exactly.

    **Returns:**

    A task with inputs `(D + 1, N + 1)`, whose columns are the tokens and, in the last column, the
    query.

    **Example:**

    >>> from festina.tasks import in_context_regression
    >>> task = in_context_regression(2, 8)
    >>> task.input_shape, task.outputs, task.samples
    ((3, 9), 1, None)
    """
    dimension, context = whole_number("dimension", dimension), whole_number("context", context)
    if token_covariance is None:
        token_covariance = np.eye(dimension)
    cov = real_array("token_covariance", token_covariance)
    if cov.shape != (dimension, dimension):
        raise ValueError(
            f"`token_covariance` must be {dimension} × {dimension}, the `dimension` of tokens, "
            f"got shape {cov.shape}."
        )
    root = square_root(cov, name="token_covariance")
    if (samples is None) != (key is None):
        raise ValueError(
            "Give both `samples` and `key` for a data set, neither for a population; got only "
            f"`{'key' if samples is None else 'samples'}`."
        )
    if samples is None or key is None:
        return InContextPopulation(cov, context)
    return _sequences(root, context, whole_number("samples", samples), key)


@float64
def _sequences(root: np.ndarray, context: int, samples: int, key: PRNGKeyArray) -> Task:
    token_key, task_key = jax.random.split(key)
    d = len(root)
    noise = np.asarray(jax.random.normal(token_key, (samples, context + 1, d)))
    tokens = noise @ root
    w = np.asarray(jax.random.normal(task_key, (samples, d)))
    labels = np.einsum("pnd,pd->pn", tokens, w)
    target = labels[:, -1:].copy()
    labels[:, -1] = 0.0
    x = np.concatenate((tokens, labels[..., None]), axis=2).transpose(0, 2, 1)
    return Task(x, target, np.full(samples, 1.0 / samples))


@dataclass(frozen=True, eq=False)
class InContextPopulation(AbstractTask):
    r"""Population of `in_context_regression`, with the exact moments of linear attention.

    Let $S = \frac1N\sum_n x_n x_n^\top$ and $A = [I; w^\top]$. The moments depend on tokens only
    through $\frac1N XX^\top = ASA^\top + \frac1N \tilde x_q\tilde x_q^\top$. The moments depend on
    S only through its mean $\langle S\rangle = \Lambda$ and its covariance
    $\mathrm{Cov}(S_{ab}, S_{de}) = (\Lambda_{ad}\Lambda_{be} + \Lambda_{ae}\Lambda_{bd})/N$.
    """

    token_covariance: Float[np.ndarray, "d d"]
    context: int

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (len(self.token_covariance) + 1, self.context + 1)

    @property
    def outputs(self) -> int:
        return 1

    @property
    def samples(self) -> int | None:
        return None

    def _statistics(self, view: AbstractView) -> Statistics:
        if not isinstance(view, LinearAttentionUnit):
            raise ValueError(
                "The population of in-context regression is known in closed form for linear "
                f"attention only, not for {view}. For a finite data set use "
                "`in_context_regression(samples=…, key=…)`."
            )
        lam, n = self.token_covariance, self.context
        d = len(lam)
        # Averages over w of M = AΛAᵀ, of M M and of w M, which are polynomials of degree ≤ 4 in w.
        w, weight = gaussian_cubature_points(np.eye(d), degree=4)
        a = np.concatenate((np.broadcast_to(np.eye(d), (len(w), d, d)), w[:, None, :]), axis=1)
        m = a @ lam @ a.transpose(0, 2, 1)
        mean = np.einsum("p,pab->ab", weight, m)
        pair = np.einsum("p,pab,pde->abde", weight, m, m)
        task_mean = np.einsum("p,pi,pab->iab", weight, w, m)
        # Moments of the query x̃_q = (x_q, 0).
        q2 = np.zeros((d + 1, d + 1))
        q2[:d, :d] = lam
        q4, q6 = (gaussian_moment(q2, order) for order in (4, 6))

        gram_pair = pair + (pair.transpose(0, 2, 1, 3) + pair.transpose(0, 2, 3, 1)) / n
        second = (
            np.einsum("abde,cf->abcdef", gram_pair, q2)
            + np.einsum("ab,decf->abcdef", mean, q4) / n
            + np.einsum("de,abcf->abcdef", mean, q4) / n
            + np.einsum("abdecf->abcdef", q6) / n**2
        )
        cross = np.einsum("iab,ic->abc", task_mean, q2[:d])

        gain = 1.0 if view.per_token else float(n)
        size = (d + 1) ** 3
        return compress(
            gain**2 * second.reshape(size, size),
            gain * cross.reshape(1, size),
            np.array([np.trace(lam)]),
            (d + 1,) * 3,
        )


def gaussian_moment(covariance: Float[np.ndarray, "d d"], order: int) -> np.ndarray:
    """Return the moments ⟨x⊗…⊗x⟩ of even `order` of N(0, covariance), by Isserlis' theorem."""
    letters = "abcdefgh"[:order]
    total = np.zeros((len(covariance),) * order)
    for pairing in _pairings(letters):
        total += np.einsum(f"{','.join(pairing)}->{letters}", *[covariance] * len(pairing))
    return total


def _pairings(letters: str) -> list[list[str]]:
    if not letters:
        return [[]]
    first, rest = letters[0], letters[1:]
    return [
        [first + partner, *others]
        for i, partner in enumerate(rest)
        for others in _pairings(rest[:i] + rest[i + 1 :])
    ]
