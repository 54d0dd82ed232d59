"""Objects in contexts, exactly: what a pathway sees that is open in some of the contexts."""

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Annotated, Literal, get_args

import numpy as np
from jaxtyping import Float

from ..._checks import check_positive, check_times, number, whole_number
from ..._result import Result
from ..._types import ArrayLike
from ...tasks import Task
from ...tasks._structured import features_of
from ..linear import chain_strength

Of = Literal["raw", "residual", "common"]

_NOTHING = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class ContextSpectrum(Result):
    r"""Result of `context_spectrum`: modes of the pathways that are open in k of C contexts.

    - `objects`, `contexts`, `on`, `of`: N, C, k, and what of the targets they see.
    - `singular_values`: S of $\langle g\,y x^\top\rangle$, the largest first.
    - `input_variance`: D(p, p) of $\langle g\,x x^\top\rangle$ in the same directions.
    - `effective_variance`: $D_\text{eff} = \sum_j D(j, p)\,u_j\cdot u_p$ over all $\binom Ck$
      pathways that start alike. NaN where what the others explain turns their directions.
    - `kinds`: of each mode, the `"mean"` over objects, a contrast of `"objects"` or of
      `"contexts"`; `"mixed"` where the mean over objects is no mode of the features.
    - `start`: ½⟨‖y‖²⟩, from where the loss falls.
    """

    objects: int
    contexts: int
    on: int
    of: Of
    singular_values: Float[np.ndarray, " mode"]
    input_variance: Float[np.ndarray, " mode"]
    effective_variance: Float[np.ndarray, " mode"]
    kinds: Annotated[tuple[str, ...], "mode"]
    start: float

    def __str__(self) -> str:
        rows = zip(
            self.kinds,
            *(
                [f"{x:.5g}" for x in each]
                for each in (
                    self.singular_values,
                    self.input_variance,
                    self.effective_variance,
                    self.final,
                )
            ),
            strict=True,
        )
        head = ("mode", "S", "D", "D_eff", "final")
        width = (10, 10, 10, 10, 8)
        line = lambda cells: " ".join(f"{c:>{w}}" for c, w in zip(cells, width, strict=True))
        open_ = f"open in {self.on} of {self.contexts} contexts, {self.of}, {self.pathways} alike"
        return "\n".join(
            [open_, line(head), *(f"{line(row)}  ×{n}" for row, n in Counter(rows).items())]
        )

    @property
    def pathways(self) -> int:
        """Number of pathways: one for each choice of k of the C contexts."""
        return math.comb(self.contexts, self.on)

    @property
    def final(self) -> Float[np.ndarray, " mode"]:
        """S/D_eff: the strength of every mode of each pathway at the end."""
        return self.singular_values / self.effective_variance

    def strength(
        self, times: ArrayLike, initial_strength: ArrayLike, *, tau: ArrayLike = 1.0
    ) -> Float[np.ndarray, "*time mode"]:
        r"""Return the strength of every mode of each pathway, if all learn from equal weights.

        $\tau\dot\pi = 2\pi(S - D_\text{eff}\pi)$, solved by `festina.theory.linear.chain_strength`.

        **Arguments:**

        - `times`: when, in the units of `tau`.
        - `initial_strength`: π(0), one for all modes or one for each. H random units of size σ in
          every pathway have σ²H/2.
        - `tau`: time constant of the flow on $\frac12\langle\lVert y - f\rVert^2\rangle$, one
          for all modes or one for each.
        """
        check_times(times)
        check_positive("initial_strength", initial_strength)
        check_positive("tau", tau)
        if np.shape(initial_strength) not in ((), self.singular_values.shape):
            raise ValueError(
                "`initial_strength` must be one number or one for each of "
                f"{len(self.kinds)} modes, got shape {np.shape(initial_strength)}."
            )
        if not np.isfinite(self.effective_variance).all():
            raise ValueError(
                f"Pathways open in {self.on} of {self.contexts} contexts turn each other's "
                f"directions: there is no closed form for of='{self.of}'. "
                "`race_of_gatings` follows their weights."
                if "mixed" not in self.kinds
                else "The mean over objects is no mode of these features, so that inputs of "
                "objects and of contexts share their modes and turn: there is no closed form. "
                "`race_of_gatings` follows weights as they are."
            )
        s, d = self.singular_values, self.effective_variance
        return np.asarray(
            chain_strength(times, s, initial_strength, depth=2, input_variance=d, tau=tau)
        )

    def loss(
        self, times: ArrayLike, initial_strength: ArrayLike, *, tau: ArrayLike = 1.0
    ) -> Float[np.ndarray, "*time"]:
        r"""Return ½⟨‖y − f‖²⟩ of all these pathways together, arguments as in `strength`.

        $L = L(0) - \binom Ck\sum_a(S_a\pi_a - \frac12 D_\text{eff}\pi_a^2)$, where L(0) is that of
        the targets they see. Of one pathway in each context it is that of a modular network.
        """
        pi = self.strength(times, initial_strength, tau=tau)
        gained = pi * (self.singular_values - 0.5 * self.effective_variance * pi)
        return np.asarray(self.start - self.pathways * gained.sum(axis=-1))


def context_spectrum(
    objects: int | ArrayLike,
    contexts: int,
    on: int | None = None,
    *,
    of: Of = "raw",
    context_input: float = 1.0,
) -> ContextSpectrum:
    r"""Return what a pathway that is open in k of C contexts sees of the task, exactly.

    The task is `festina.tasks.objects_in_contexts`.

    With σ the singular values of the features H of N objects, σ̃ those of their differences from
    the mean over objects $\bar h$ (all σ but the first, where that mean is the first mode):

    | `of` | what is seen | S | D(p, p) |
    | --- | --- | --- | --- |
    | `"raw"` | objects, of all that is to be learned | $\sigma\sqrt{k^2 + k}/NC$ | $k/NC$ |
    | `"residual"` | what a linear network leaves | $\tilde\sigma\sqrt{k(C - k)/C}/NC$ | $k/NC$ |
    | `"common"` | objects and context: the mean | $\sigma_1\sqrt{(k + 1)(k + N)}/NC$ | $(k+N)/NC$ |
    | | differences between objects | $\tilde\sigma\sqrt{k^2 + k}/NC$ | $k/NC$ |
    | | differences between contexts, k − 1 | $\lvert\bar h\rvert/C$ | $1/C$ |

    On the residual all pathways that are open in k contexts, one for each k of the C, share the
    work: $D_\text{eff} = \binom{C-2}{k-1}/NC$. So single contexts, k = 1, and all but one, k = C −
    1, are the same there in all respects; what favours C − 1 is S on the raw targets, by
    $\sqrt{C(C - 1)/2}$, before the common pathway is done.

    **Arguments:**

    - `objects`, `contexts`, `context_input`: as of the task, any features.
    - `on`: k; by default all contexts.
    - `of`: see above. The residual is not correlated with the context input, so that a pathway that
      has it too sees the same.
    """
    h, count = features_of("objects", objects), whole_number("contexts", contexts)
    if h.ndim != 2:
        raise ValueError(f"Features of `objects` must be (feature, object), got shape {h.shape}.")
    if of not in get_args(Of):
        raise ValueError(f"`of` must be one of {', '.join(get_args(Of))}, got {of!r}.")
    if not h.any():
        raise ValueError("`objects` have no features: all are zero, and nothing is to be learned.")
    k = count if on is None else whole_number("on", on)
    if k > count:
        raise ValueError(f"`on` must be at most the number of contexts, {count}, got {k}.")
    scale, n = number("context_input", context_input), h.shape[1]
    if of == "residual":
        if k == count:
            raise ValueError(
                f"A pathway that is open in all {count} contexts sees nothing of what a linear "
                "network leaves. Use fewer for `on`."
            )
        # Without context inputs not even the mean over objects is known for each context.
        apart = h - h.mean(axis=1, keepdims=True) if scale else h
        values = np.linalg.svd(apart, compute_uv=False)
        parts = [("objects", values * math.sqrt(k * (count - k) / count), k)]
        start = 0.5 * (1 - 1 / count) * float(np.sum(apart**2)) / n
    else:
        parts, start = _parts(h, k, scale if of == "common" else 0.0), float(np.sum(h**2)) / n
    s = np.concatenate([each for _, each, _ in parts])
    d = np.concatenate([np.broadcast_to(each, len(part)) for _, part, each in parts])
    kinds = [kind for kind, part, _ in parts for _ in part]
    if of == "residual":
        shared = np.full(len(s), float(math.comb(count - 2, k - 1)))
    else:  # no closed form unless every context has one pathway for itself
        shared = d if k in (1, count) and "mixed" not in kinds else np.full(len(s), math.nan)
    order = [i for i in np.argsort(-s, kind="stable") if s[i] > _NOTHING * np.linalg.norm(h)]
    if not order:
        raise ValueError("All objects have the same features: a linear network leaves nothing.")
    return ContextSpectrum(
        objects=n,
        contexts=count,
        on=k,
        of=of,
        singular_values=s[order] / (n * count),
        input_variance=d[order] / (n * count),
        effective_variance=shared[order] / (n * count),
        kinds=tuple(kinds[i] for i in order),
        start=start,
    )


def _parts(
    h: Float[np.ndarray, "feature object"], k: int, scale: float
) -> list[tuple[str, Float[np.ndarray, " mode"], ArrayLike]]:
    """Kinds of modes on the raw targets, with NC times their S and D."""
    n, mean = h.shape[1], h.mean(axis=1)
    apart, size = h - mean[:, None], float(np.linalg.norm(mean))
    both, wide = math.sqrt(k * (k + 1)), scale**2 * n
    contexts = ("contexts", np.full(k - 1, abs(scale) * n * size), wide)
    if np.abs(mean @ apart).max() <= _NOTHING * np.sum(h**2):  # the mean is a mode of its own
        first = np.array([size * math.sqrt(n * (k + 1) * (k + wide))])
        rest = np.linalg.svd(apart, compute_uv=False)
        return [("mean", first, k + wide), ("objects", both * rest, k), contexts]
    if not scale:
        return [("objects", both * np.linalg.svd(h, compute_uv=False), k)]
    # Of the context inputs only their sum is in these modes: one column, √k times as long.
    _, s, v = np.linalg.svd(
        np.column_stack((k * h, scale * n * math.sqrt(k) * mean)), full_matrices=False
    )
    covariance = np.diag([float(k)] * n + [wide])
    covariance[:n, n] = covariance[n, :n] = scale * math.sqrt(k)
    mixed = np.einsum("ai,ij,aj->a", v, covariance, v)
    return [("mixed", s * math.sqrt((k + 1) / k), mixed), contexts]


def linear_residual_task(task: Task) -> Task:
    """Return the task that is left once a linear network without biases has learned all it can."""
    if not isinstance(task, Task) or task.population or task.x.ndim != 2:
        raise ValueError("`task` must be finite, with vectors as inputs.")
    root = np.sqrt(task.weight)[:, None]
    x, y = np.asarray(task.x, float), np.asarray(task.y, float)
    best = np.linalg.lstsq(root * x, root * y, rcond=1e-13)[0]
    return replace(task, y=y - x @ best)


def best_linear_loss(task: Task) -> float:
    r"""Return the loss ½⟨‖y − f‖²⟩ of the best linear network without biases.

    Of `objects_in_contexts`, $\frac12(1 - \frac1C)\sum_a\tilde\sigma_a^2/N$ with σ̃ as in
    `context_spectrum`.
    """
    rest = linear_residual_task(task)
    return 0.5 * float(rest.weight @ np.sum(rest.y**2, axis=1))
