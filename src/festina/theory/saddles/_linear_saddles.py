r"""All fixed points of a linear network (Zhang, Saxe & Latham, Lemma 6, in corrected form).

The network is $f = \sum_i v_i u_i^\top z = Wz$ (Eq. 8), and its loss is
$L = \frac12\langle\lVert y - f\rVert^2\rangle$. Let $\mu_k, e_k$ be the eigenvalues and
eigenvectors of $\Sigma_{yz}\Sigma_{zz}^{-1}\Sigma_{yz}^\top$, largest first, and let
$\Pi_A = \sum_{k\in A} e_k e_k^\top$ for any set $A$ of modes with $\mu_k > 0$. Weights are a fixed
point if and only if

$$\sum_i v_i u_i^\top = \Pi_A\Sigma_{yz}\Sigma_{zz}^{-1},\qquad
  u_i \in \ker\tilde\Sigma_{yz},\qquad v_i \in \ker\tilde\Sigma_{yz}^\top,\qquad
  \tilde\Sigma_{yz} = (1 - \Pi_A)\Sigma_{yz}.$$

Eq. (40) of the paper demands more: $v_i \in \mathrm{span}\{e_k\}_{k\in A}$ and
$u_i \in \mathrm{span}\{\Sigma_{zz}^{-1}\Sigma_{yz}^\top e_k\}_{k\in A}$. The spans in Eq. (40) lie
in the kernels of $\tilde\Sigma_{yz}$ and $\tilde\Sigma_{yz}^\top$, but the kernels are larger if
$\Sigma_{yz}$ or its transpose has a kernel. With more inputs than outputs, or targets of lower
rank, $u_i$ may contain input directions that no target depends on and that $v$ does not read. With
more outputs than inputs, or lower rank, $v_i$ may contain output directions that no target has.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from ..._checks import check_type, number, whole_number, whole_numbers
from ..._objective import LossConvention, loss_factor
from ..._result import Result
from ...networks import Layer, NeuronUnit
from ...networks._generator import generator
from ...tasks import AbstractTask
from ...tasks._task import Statistics
from .._modes import equals

DEGENERACY = 1e-9  # fraction of the largest μ
_SINGULAR = 1e-13  # fraction of the largest eigenvalue, for each input


@dataclass(frozen=True, eq=False, repr=False)
class LinearSaddle(Result):
    r"""Fixed point of a linear network: the modes it has learned, its loss and its escape rates.

    - `modes`: the set $A$ of learned modes, counted from 0, largest $\mu_k$ first.
    - `loss`: $\frac12(\langle\lVert y\rVert^2\rangle - \sum_{k\in A}\mu_k)$, times $c$ for a loss
      $cL$.
    - `map`: the end-to-end map $W = \Pi_A\Sigma_{yz}\Sigma_{zz}^{-1}$, where $\Pi_A$ projects on
      the learned modes.
    - `correlation`: $\tilde\Sigma_{yz} = (1-\Pi_A)\Sigma_{yz}$ (Eq. 42), the correlation that is
      not yet learned.
    - `escape_rates`: the nonzero singular values of $\tilde\Sigma_{yz}$, largest first, times $c$
      for a loss $cL$. A unit close to zero grows at one of these rates (Eq. 41). If all modes are
      learned, the array is empty, and the point is a minimum.
    - `unique`: False if a mode in $A$ has the same $\mu$ as a mode outside $A$. Any rotation of the
      two modes then gives another fixed point, so that the fixed points form a continuum.

    **Example:**

    >>> import numpy as np
    >>> from festina.tasks import linear_teacher
    >>> from festina.theory.saddles import linear_saddle
    >>> saddle = linear_saddle(linear_teacher(np.diag([2.0, 1.0])), modes=[0])
    >>> saddle.loss, saddle.escape_rates, saddle.index(width=3)
    (0.5, array([1.]), 2)
    >>> saddle.network(width=3).v.round(3)
    array([[1.414, 0. ],
           [0. , 0. ],
           [0. , 0. ]])
    """

    modes: tuple[int, ...]
    loss: float
    map: Float[np.ndarray, "output input"]
    correlation: Float[np.ndarray, "output input"]
    escape_rates: Float[np.ndarray, " rate"]
    unique: bool
    better: int = field(repr=False)

    def index(self, width: int) -> int:
        r"""Return the number of directions of negative curvature for weights as in Eq. (40).

        For $H$ units, $R$ modes and $r$ modes in $A$ the number is $(H - r)(R - r)$ plus the number
        of pairs of a mode $k \in A$ and a mode $l \notin A$ with $\mu_l > \mu_k$. The term
        $(H - r)(R - r)$ arises because each spare unit can learn each remaining mode. Each pair
        adds one because the learned mode $k$ can be rotated into a mode $l$ that explains more of
        the targets.
        """
        self._check_width(width)
        return (width - len(self.modes)) * len(self.escape_rates) + self.better

    def network(self, width: int, *, key: PRNGKeyArray | None = None, unread: float = 0.0) -> Layer:
        r"""Return the weights of a network with `width` units at this fixed point.

        With $W = \sum_k \sigma_k a_k b_k^\top$ (singular value decomposition) and orthonormal
        vectors $o_k$ over units, the weights are $v_i = \sum_k o_{ki}\sqrt{\sigma_k}\,a_k$ and
        $u_i = \sum_k o_{ki}\sqrt{\sigma_k}\,b_k$.

        **Arguments:**

        - `width`: number of units, at least the number of learned modes.
        - `key`: random key from which the $o_k$ are drawn, so that each mode is spread over all
          units. Without a key, each of the first units learns one mode, and all other units are
          zero.
        - `unread`: size of random components that Eq. (40) leaves out. The components are added to
          $u$ in the part of $\ker\tilde\Sigma_{yz}$ that no output weight reads. If that part is
          empty, the components are added to $v$ in the part of $\ker\tilde\Sigma_{yz}^\top$ that no
          target drives. `unread` needs a `key` and a spare unit.
        """
        rank = len(self.modes)
        self._check_width(width)
        if unread and (key is None or width <= rank):
            raise ValueError(
                f"`unread` components need a `key` and more units than the {rank} learned modes, "
                f"got width {width}."
            )
        outputs, inputs = self.map.shape
        a, sigma, bt = np.linalg.svd(self.map, full_matrices=False)
        root = np.sqrt(sigma[:rank])
        rng = None if key is None else generator(key)
        over_units = np.eye(width)
        if rng is not None:
            over_units = np.linalg.qr(rng.standard_normal((width, width)))[0]
        o, spare = over_units[:, :rank], over_units[:, rank:]
        u, v = o @ (root[:, None] * bt[:rank]), o @ (root[:, None] * a[:, :rank].T)
        if unread and rng is not None:
            # Outside the spans of Eq. (40): the part of the kernel that W does not use.
            on_u = _null_space(np.concatenate((self.correlation, self.map)))
            on_v = _null_space(np.concatenate((self.correlation, self.map), axis=1).T)
            if on_u.shape[1] + on_v.shape[1] == 0:
                raise ValueError(
                    "`unread` components do not exist here: the correlation of targets and inputs "
                    f"({outputs} × {inputs}) has full rank, so Eq. (40) gives all fixed "
                    "points. Leave out `unread`."
                )
            side = on_u if on_u.shape[1] else on_v
            extra = unread * spare @ rng.standard_normal((width - rank, side.shape[1])) @ side.T
            u, v = (u + extra, v) if on_u.shape[1] else (u, v + extra)
        return Layer(u, v, NeuronUnit())

    def _check_width(self, width: int) -> None:
        least = max(len(self.modes), 1)
        if whole_number("width", width, least=0) < least:
            raise ValueError(
                f"`width` must be at least {least} because {len(self.modes)} modes are learned, "
                f"got {width}."
            )


def linear_saddles(
    task: AbstractTask,
    *,
    rank: int | None = None,
    loss: LossConvention = "half",
    degeneracy: float = DEGENERACY,
) -> Iterator[LinearSaddle]:
    r"""Yield every fixed point of a linear network on a task, one for each set of modes.

    There are $2^D$ fixed points for $D$ modes, computed one at a time. Fixed points with few modes
    come first; among those with equally many modes, the ones with large $\mu_k$ come first. A fixed
    point is identified by its end-to-end map; many weights have the same map (see
    `LinearSaddle.network`).

    **Arguments:**

    - `task`: what is learned; only its first and second moments enter.
    - `rank`: return only fixed points with this number of modes.
    - `loss`: the convention $cL$ of losses and rates.
    - `degeneracy`: $\mu_k$ that differ by less than this fraction of the largest $\mu$ count as
      equal; $\mu_k$ below this fraction count as zero.

    **Example:**

    >>> import numpy as np
    >>> from festina.tasks import linear_teacher
    >>> from festina.theory.saddles import linear_saddles
    >>> for saddle in linear_saddles(linear_teacher(np.diag([2.0, 1.0]))):
    ...     print(saddle.modes, f"{saddle.loss:.1f}")
    () 2.5
    (0,) 0.5
    (1,) 2.0
    (0, 1) 0.0
    """
    return _ranked(_modes_of(task, loss, degeneracy), rank)


def linear_saddle(
    task: AbstractTask,
    modes: Sequence[int],
    *,
    loss: LossConvention = "half",
    degeneracy: float = DEGENERACY,
) -> LinearSaddle:
    r"""Return the fixed point of a linear network at which exactly the given modes are learned.

    Modes are counted from 0, largest $\mu_k$ first. The other arguments are those of
    `linear_saddles`.

    **Example:**

    >>> import numpy as np
    >>> from festina.tasks import linear_teacher
    >>> from festina.theory.saddles import linear_saddle
    >>> linear_saddle(linear_teacher(np.diag([2.0, 1.0])), modes=[0]).map
    array([[2., 0.],
           [0., 0.]])
    """
    return _chosen(_modes_of(task, loss, degeneracy), modes)


@dataclass(frozen=True, eq=False)
class LinearModes:
    """The modes of a task (all μ_k > 0, largest first, and e_k) and the moments of the data."""

    mu: Float[np.ndarray, " mode"]
    e: Float[np.ndarray, "output mode"]
    correlation: Float[np.ndarray, "output input"]
    covariance: Float[np.ndarray, "input input"]
    inverse: Float[np.ndarray, "input input"]  # Σ_zz⁻¹ on the span of the inputs
    target_power: float
    degeneracy: float
    factor: float = 1.0  # c of the loss cL

    def saddle(self, modes: tuple[int, ...]) -> LinearSaddle:
        learned = np.isin(np.arange(len(self.mu)), modes)
        e = self.e[:, learned]
        left = self.correlation - e @ (e.T @ self.correlation)
        rates = np.linalg.svd(left, compute_uv=False)[: len(self.mu) - len(modes)]
        ahead = self.mu[~learned] - self.mu[learned, None]
        equal = self.degeneracy * self.mu.max(initial=0.0)
        return LinearSaddle(
            modes=modes,
            loss=0.5 * self.factor * (self.target_power - float(self.mu[learned].sum())),
            map=e @ (e.T @ self.correlation @ self.inverse),
            correlation=left,
            escape_rates=self.factor * rates,
            unique=bool(np.abs(ahead).min(initial=np.inf) > equal),
            better=int(np.sum(ahead > equal)),
        )

    def nearest(self, left: Float[np.ndarray, "output input"]) -> LinearSaddle:
        """Return the fixed point of all modes whose share of the loss has fallen by more than half.

        The argument `left` is Σ̃ = Σ_yz − WΣ_zz for the end-to-end map W of any weights.
        """
        power, e, learned = left @ self.inverse @ left.T, self.e.copy(), list[int]()
        for equal in equals(self.mu, self.degeneracy):
            share, rotation = np.linalg.eigh(e[:, equal].T @ power @ e[:, equal])
            e[:, equal] = e[:, equal] @ rotation
            learned += [equal.start + int(k) for k in np.flatnonzero(share < 0.5 * self.mu[equal])]
        return replace(self, e=e).saddle(tuple(learned))

    def drive(
        self, active: Float[np.ndarray, "*time weight unit"]
    ) -> Float[np.ndarray, "*time output input"]:
        """Return Σ̃ = Σ_yz − WΣ_zz for the end-to-end map W of the columns `active`."""
        outputs = len(self.correlation)
        return self.left(active[..., :outputs, :] @ active[..., outputs:, :].swapaxes(-1, -2))

    def left(
        self, learned: Float[np.ndarray, "*time output input"]
    ) -> Float[np.ndarray, "*time output input"]:
        """Return Σ̃ = Σ_yz − WΣ_zz for the end-to-end map W, given as `learned`."""
        return self.correlation - learned @ self.covariance

    def excess(self, drive: Float[np.ndarray, "*time output input"]) -> Float[np.ndarray, "*time"]:
        """Return the loss above the least-squares loss, computed from Σ̃ without cancellation."""
        return np.asarray(0.5 * np.sum((drive @ self.inverse) * drive, axis=(-1, -2)))

    @property
    def weight(self) -> float:
        """Size of the weights once all modes are learned."""
        return float(np.sqrt(np.linalg.norm(self.correlation @ self.inverse, 2)))

    @property
    def least_weight(self) -> float:
        """Size of the weights of the weakest mode once it is learned."""
        strengths = np.linalg.svd(self.correlation @ self.inverse, compute_uv=False)
        return float(np.sqrt(strengths[strengths > 1e-9 * strengths[0]].min(initial=np.inf)))

    @property
    def rate(self) -> float:
        """Rate at which the fastest weights grow from zero."""
        return float(np.linalg.norm(self.correlation, 2))


def _ranked(problem: LinearModes, rank: int | None) -> Iterator[LinearSaddle]:
    count = len(problem.mu)
    ranks = range(count + 1) if rank is None else (whole_number("rank", rank, least=0),)
    if max(ranks) > count:
        raise ValueError(f"`rank` must be between 0 and the number {count} of modes, got {rank}.")
    return (
        problem.saddle(modes) for r in ranks for modes in itertools.combinations(range(count), r)
    )


def _chosen(problem: LinearModes, modes: Sequence[int]) -> LinearSaddle:
    given = whole_numbers("modes", modes, 0)
    chosen = tuple(sorted(set(given)))
    if len(chosen) != len(given) or any(k >= len(problem.mu) for k in chosen):
        raise ValueError(
            f"`modes` must be different numbers from 0 to {len(problem.mu) - 1}, got {given}."
        )
    return problem.saddle(chosen)


def _modes_of(task: AbstractTask, loss: LossConvention, degeneracy: float) -> LinearModes:
    check_type("task", task, AbstractTask)
    seen = task.statistics(NeuronUnit())
    found = linear_modes(seen, degeneracy)
    return replace(found, target_power=seen.power, factor=loss_factor(loss, task))


def linear_modes(seen: Statistics, degeneracy: float) -> LinearModes:
    """Return the modes of a linear network's data, with losses measured above least squares."""
    yz, zz = seen.correlation, seen.covariance
    inverse = np.linalg.pinv(zz, rcond=_SINGULAR * len(zz), hermitian=True)
    if number("degeneracy", degeneracy) < 0:
        raise ValueError(f"`degeneracy` must be a fraction ≥ 0 of the largest μ, got {degeneracy}.")
    fit = yz @ inverse
    mu, e = np.linalg.eigh((fit @ yz.T + yz @ fit.T) / 2)
    mu, e = mu[::-1], e[:, ::-1]
    real = mu > degeneracy * max(float(mu[0]), 0.0)
    return LinearModes(mu[real], e[:, real], yz, zz, inverse, float(mu[real].sum()), degeneracy)


def _null_space(matrix: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "m k"]:
    """Return orthonormal vectors x with matrix·x = 0."""
    _, s, rows = np.linalg.svd(matrix)
    rank = int(np.sum(s > 1e-10 * max(float(s[0]), np.finfo(float).tiny)))
    return rows[rank:].T
