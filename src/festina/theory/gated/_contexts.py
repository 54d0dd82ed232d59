"""Exact modes and learning curves of pathways that are open in some contexts."""

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

    - `objects`, `contexts`, `on`: numbers N of objects, C of contexts and k of open contexts.
    - `of`: inputs and targets of the pathways, as in `context_spectrum`.
    - `singular_values`: singular values S of $\langle g\,y x^\top\rangle$, the largest first. Here
      g is the gate of a pathway.
    - `input_variance`: D(p, p), the values of $\langle g\,x x^\top\rangle$ along the input
      directions of the modes.
    - `effective_variance`: $D_\text{eff} = \sum_j D(j, p)\,u_j\cdot u_p$, summed over all
      $\binom Ck$ pathways j, which start from equal strengths. $D_\text{eff}$ is NaN where other
      pathways rotate the directions of a pathway.
    - `kinds`: kind of each mode. `"mean"` is the mean over objects; `"objects"` and `"contexts"`
      are contrasts. Modes are `"mixed"` if the features do not have the mean over objects as a
      mode.
    - `start`: initial loss ½⟨‖y‖²⟩.

    **Example:**

    >>> from festina.theory.gated import context_spectrum
    >>> print(context_spectrum(4, 3, 1, of="residual"))
    pathways: 3, open in 1 of 3 contexts, residual
          mode          S          D      D_eff    final
       objects    0.11785   0.083333   0.083333   1.4142  ×1
       objects   0.068041   0.083333   0.083333   0.8165  ×2
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
        how = f"open in {self.on} of {self.contexts} contexts, {self.of}"
        return "\n".join(
            [
                f"pathways: {self.pathways}, {how}",
                line(head),
                *(f"{line(row)}  ×{n}" for row, n in Counter(rows).items()),
            ]
        )

    @property
    def pathways(self) -> int:
        """Number of pathways: one for each choice of k of the C contexts."""
        return math.comb(self.contexts, self.on)

    @property
    def final(self) -> Float[np.ndarray, " mode"]:
        """Final strength S/D_eff of each mode of a pathway."""
        return self.singular_values / self.effective_variance

    def strength(
        self, times: ArrayLike, initial_strength: ArrayLike, *, tau: ArrayLike = 1.0
    ) -> Float[np.ndarray, "*time mode"]:
        r"""Return the strength π of each mode of a pathway over time.

        All pathways start from equal strengths and obey $\tau\dot\pi = 2\pi(S - D_\text{eff}\pi)$.
        The solution is `festina.theory.linear.chain_strength`.

        **Arguments:**

        - `times`: times in the units of `tau`.
        - `initial_strength`: π(0), one for all modes or one for each. For H hidden units in each
          pathway with random weights of standard deviation σ, π(0) = σ²H/2.
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
                f"There is no closed form for of='{self.of}' with {self.on} of {self.contexts} "
                "contexts open: pathways rotate each other's directions. Use `race_of_gatings`, "
                "which integrates the weights."
                if "mixed" not in self.kinds
                else "There is no closed form, because the mean over objects is not a mode of "
                "these features: directions of objects and of contexts mix and rotate. Use "
                "`race_of_gatings`, which integrates the weights."
            )
        s, d = self.singular_values, self.effective_variance
        return np.asarray(
            chain_strength(times, s, initial_strength, depth=2, input_variance=d, tau=tau)
        )

    def loss(
        self, times: ArrayLike, initial_strength: ArrayLike, *, tau: ArrayLike = 1.0
    ) -> Float[np.ndarray, "*time"]:
        r"""Return the loss ½⟨‖y − f‖²⟩ of all these pathways over time.

        $L = L(0) - \binom Ck\sum_a(S_a\pi_a - \frac12 D_\text{eff}\pi_a^2)$, where L(0) is the loss
        of zero output on the targets of the pathways. With one pathway for each context (k = 1) the
        result is the loss of a modular network. The arguments are the same as for `strength`.
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
    r"""Return the exact singular modes of pathways that are open in k of C contexts.

    The task is `festina.tasks.objects_in_contexts`. σ are the singular values of the features H of
    N objects. σ̃ are the singular values after the mean over objects, $\bar h$, is subtracted from
    H. If the mean is the first mode, σ̃ are all σ but the first.

    | `of` | inputs; modes | S | D(p, p) |
    | --- | --- | --- | --- |
    | `"raw"` | objects; all | $\sigma\sqrt{k^2 + k}/NC$ | $k/NC$ |
    | `"residual"` | objects; all | $\tilde\sigma\sqrt{k(C - k)/C}/NC$ | $k/NC$ |
    | `"common"` | both; mean of objects | $\sigma_1\sqrt{(k + 1)(k + N)}/NC$ | $(k+N)/NC$ |
    | | both; differences of objects | $\tilde\sigma\sqrt{k^2 + k}/NC$ | $k/NC$ |
    | | both; k − 1 differences of contexts | $\lvert\bar h\rvert/C$ | $1/C$ |

    "Both" in the table means that the inputs are objects and contexts. The targets of `"residual"`
    are the residual of the best linear network; `"raw"` and `"common"` have the targets of the
    task.

    All $\binom Ck$ pathways share the residual, with $D_\text{eff} = \binom{C-2}{k-1}/NC$. Pathways
    of single contexts (k = 1) and of all contexts but one (k = C − 1) therefore learn the residual
    equally fast and equally well. Before a common pathway has learned, pathways learn the raw
    targets. For the raw targets, S is $\sqrt{C(C - 1)/2}$ times larger for k = C − 1 than for k =
    1.

    **Arguments:**

    - `objects`, `contexts`, `context_input`: as in `objects_in_contexts`, with any features.
    - `on`: number k of contexts in which a pathway is open; by default all contexts.
    - `of`: row of the table, which sets inputs and targets of the pathways. A pathway that also
      receives the context input has the same spectrum on the residual, because the residual does
      not correlate with the context input.

    **Example:**

    >>> from festina.theory.gated import context_spectrum
    >>> single, pair = (context_spectrum(4, 3, on, of="residual") for on in (1, 2))
    >>> single.singular_values.round(4), pair.singular_values.round(4)
    (array([0.1179, 0.068 , 0.068 ]), array([0.1179, 0.068 , 0.068 ]))
    >>> single.final / pair.final
    array([1., 1., 1.])
    """
    h, count = features_of("objects", objects), whole_number("contexts", contexts)
    if h.ndim != 2:
        raise ValueError(f"Features of `objects` must be (feature, object), got shape {h.shape}.")
    if of not in get_args(Of):
        raise ValueError(f"`of` must be one of {', '.join(get_args(Of))}, got {of!r}.")
    if not h.any():
        raise ValueError("All features of `objects` are zero. Give features that are not zero.")
    k = count if on is None else whole_number("on", on)
    if k > count:
        raise ValueError(f"`on` must be at most the number of contexts, {count}, got {k}.")
    scale, n = number("context_input", context_input), h.shape[1]
    if of == "residual":
        if k == count:
            raise ValueError(
                f"`on` must be below the number of contexts, {count}, if of='residual', got {k}: "
                "a pathway that is open in all contexts cannot learn this residual."
            )
        # Without context inputs, the residual contains the mean over objects.
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
    else:  # a closed form exists only if exactly one pathway is open in each context
        shared = d if k in (1, count) and "mixed" not in kinds else np.full(len(s), math.nan)
    order = [i for i in np.argsort(-s, kind="stable") if s[i] > _NOTHING * np.linalg.norm(h)]
    if not order:
        raise ValueError(
            "All `objects` have the same features, and a linear network leaves no residual. Give "
            "features that differ, or use of='raw'."
        )
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
    """Return kind, NC·S and NC·D of each group of modes on the raw targets."""
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
    # Only the sum of the context inputs enters these modes: one column, √k times as long.
    _, s, v = np.linalg.svd(
        np.column_stack((k * h, scale * n * math.sqrt(k) * mean)), full_matrices=False
    )
    covariance = np.diag([float(k)] * n + [wide])
    covariance[:n, n] = covariance[n, :n] = scale * math.sqrt(k)
    mixed = np.einsum("ai,ij,aj->a", v, covariance, v)
    return [("mixed", s * math.sqrt((k + 1) / k), mixed), contexts]


def linear_residual_task(task: Task) -> Task:
    r"""Return the task with the residual of the best linear network as targets.

    The best linear network has no biases and minimises $\langle\lVert y - f\rVert^2\rangle$.

    **Example:**

    >>> from festina.tasks import objects_in_contexts
    >>> from festina.theory.gated import linear_residual_task
    >>> task = objects_in_contexts([[1.0, -1.0]], 2)  # one feature, shown in each context
    >>> task.y[:, 1], linear_residual_task(task).y[:, 1]
    (array([ 1., -1.,  0., -0.]), array([ 0.5, -0.5, -0.5,  0.5]))
    """
    if not isinstance(task, Task) or task.population or task.x.ndim != 2:
        raise ValueError(
            "`task` must have a finite number of examples, with vectors as inputs, got "
            f"{task!r}. Use `festina.tasks.from_arrays`."
        )
    root = np.sqrt(task.weight)[:, None]
    x, y = np.asarray(task.x, float), np.asarray(task.y, float)
    best = np.linalg.lstsq(root * x, root * y, rcond=1e-13)[0]
    return replace(task, y=y - x @ best)


def best_linear_loss(task: Task) -> float:
    r"""Return the loss ½⟨‖y − f‖²⟩ of the best linear network without biases.

    For `festina.tasks.objects_in_contexts` this loss is
    $\frac12(1 - \frac1C)\sum_a\tilde\sigma_a^2/N$, where σ̃ are the singular values of the features
    minus their mean over the N objects, and C is the number of contexts.

    **Example:**

    >>> from festina.tasks import xor
    >>> from festina.theory.gated import best_linear_loss
    >>> best_linear_loss(xor())  # the loss of zero output
    0.5
    """
    rest = linear_residual_task(task)
    return 0.5 * float(rest.weight @ np.sum(rest.y**2, axis=1))
