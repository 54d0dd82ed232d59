"""Estimate the limit of infinite width by extrapolating from chains of several widths."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ..._checks import real_number, whole_number
from ..._result import Result
from ..._types import Keys
from ...networks._build import check_keys
from ...tasks import AbstractTask
from ._posterior import Posterior
from ._sample import Progress, sample


class Estimate(NamedTuple):
    """A mean over chains and its standard error, from the differences between chains."""

    value: np.ndarray
    error: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class InfiniteWidthLimit(Result):
    """Result of `infinite_width_limit`: approximate mean-field limit of wide networks.

    - `outputs`: network outputs f, `(sample, output)`.
    - `readout_covariance`: covariance U of the readout weights, `(output, output)`.
    - `kernels`: kernel of every hidden layer, `(sample, sample)`.
    - `correction`: largest difference between the kernels of the limit and of the widest network.
    - `drawn`: posteriors from which the limit was extrapolated, in order of width.

    `outputs`, `readout_covariance` and `kernels` each have a `value` and a standard `error`.

    **Example:**

    >>> import jax, numpy as np
    >>> from festina.dynamics.posterior import infinite_width_limit
    >>> from festina.tasks import from_arrays
    >>> options = dict(chains=2, anneal=4, burn=4, moves=8, thin=2, method="langevin")
    >>> task, key = from_arrays(np.eye(2), np.eye(2)), jax.random.key(0)
    >>> limit = infinite_width_limit(task, widths=(3, 6), temperature=0.1, key=key, **options)
    >>> limit.kernels[0].error.shape
    (2, 2)
    >>> [posterior.model.width for posterior in limit.drawn]
    [3, 6]
    """

    outputs: Annotated[Estimate, "sample output"]
    readout_covariance: Annotated[Estimate, "output output"]
    kernels: Annotated[tuple[Estimate, ...], "sample sample"]
    correction: float
    drawn: tuple[Posterior, ...]

    def width_for(self, fraction: float) -> float:
        """Return the approximate width from which kernels are within a fraction of their limit.

        The estimate uses the Frobenius norm and the widest network. Sampling noise increases it.
        """
        if not (fraction := real_number("fraction", fraction)) > 0:
            raise ValueError(f"`fraction` must be positive, such as 0.02, got {fraction:g}.")
        widest = self.drawn[-1]
        off = [
            np.linalg.norm(seen.mean((0, 1)) - kernel.value) / np.linalg.norm(kernel.value)
            for seen, kernel in zip(widest.seen.kernels, self.kernels, strict=True)
        ]
        return widest.model.width * float(max(off)) / fraction

    def __str__(self) -> str:
        widths = ", ".join(str(each.model.width) for each in self.drawn)
        error = max(float(kernel.error.max()) for kernel in self.kernels)
        lines = [
            f"InfiniteWidthLimit({self.drawn[0].model.activation}, from widths {widths}; "
            f"approximate; standard error of the kernels {error:.2g}, largest difference from the "
            f"kernels of the widest network {self.correction:.2g})"
        ]
        for each in self.drawn:
            odd = [ending.message for ending in each.endings if ending.failed]
            odd += [each.populations.message] * each.populations.frozen
            lines += [f"width {each.model.width}: {message}" for message in dict.fromkeys(odd)]
        return "\n".join(lines)


def infinite_width_limit(
    task: AbstractTask,
    *,
    widths: Sequence[int] = (100, 200),
    chains: int = 4,
    progress: Progress | None = None,
    key: Keys,
    **options: Any,
) -> InfiniteWidthLimit:
    r"""Return the approximate mean-field limit of wide networks, extrapolated from `widths`.

    The functions of `festina.theory.coding` solve for this limit if inputs are orthogonal or
    neurons are linear. `infinite_width_limit` samples instead of solving, for any activation, depth
    and data. Means of a network of width N differ from the limit by $c/N + O(N^{-2})$, so chains of
    several widths determine c and the limit. The remaining error is of order $N^{-2}$, with an
    additional logarithm of N for rectifiers. If neurons cannot change their codeword
    (`Populations.frozen`), the result also depends on the cooling.

    **Arguments:**

    - `task`: task with a finite number of examples.
    - `widths`: at least two widths N.
    - `chains`: number of chains of each width, at least two; their differences give the error.
    - `progress`: function that is called with a text and the fraction of the work that is done.
    - `key`: a single random key.
    - `options`: further arguments of `festina.dynamics.posterior.sample`, except `checkpoint`.

    **Returns:**

    A `festina.dynamics.posterior.InfiniteWidthLimit` with means and standard errors.

    **Example:**

    >>> import jax, numpy as np
    >>> from festina.dynamics.posterior import infinite_width_limit
    >>> from festina.tasks import from_arrays
    >>> options = dict(chains=2, anneal=4, burn=4, moves=8, thin=2, method="langevin")
    >>> task, key = from_arrays(np.eye(2), np.eye(2)), jax.random.key(0)
    >>> limit = infinite_width_limit(task, widths=(3, 6), temperature=0.1, key=key, **options)
    >>> limit.outputs.value.shape  # example, output
    (2, 2)
    """
    if {"checkpoint", "width"} & {*options}:
        raise ValueError(
            "`infinite_width_limit` takes `widths` instead of `width`, and no `checkpoint`. To "
            "resume chains, call `sample` for each width."
        )
    sizes = sorted({whole_number("widths", width) for width in widths})
    if len(sizes) < 2 or whole_number("chains", chains) < 2:
        raise ValueError(
            f"Expected at least two `widths` for the limit and two `chains` for its error, got "
            f"{tuple(widths)} and {chains}."
        )
    key = check_keys(key)
    if key.shape:
        raise ValueError(
            f"`key` must be one key, such as jax.random.key(0), got keys of shape {key.shape}."
        )
    drawn = list[Posterior]()
    for k, width in enumerate(sizes):
        say = lambda words, done, k=k, width=width: (
            progress and progress(f"width {width}: {words}", (k + done) / len(sizes))
        )
        each = jax.random.fold_in(key, width)
        drawn.append(sample(task, width=width, chains=chains, progress=say, key=each, **options))
    # First row of the pseudo-inverse: the weight of each width in the value at 1/N = 0.
    share = np.linalg.pinv(np.stack([np.ones(len(sizes)), 1 / np.array(sizes)], axis=1))[0]
    limit = lambda seen: _extrapolated(share, [each.mean(axis=1) for each in seen])
    kernels = tuple(
        limit([each.seen.kernels[layer] for each in drawn]) for layer in range(drawn[0].model.depth)
    )
    widest = [kernel.mean((0, 1)) for kernel in drawn[-1].seen.kernels]
    return InfiniteWidthLimit(
        outputs=limit([each.seen.outputs for each in drawn]),
        readout_covariance=limit([each.seen.readout_covariance for each in drawn]),
        kernels=kernels,
        correction=max(
            float(np.abs(k.value - seen).max()) for k, seen in zip(kernels, widest, strict=True)
        ),
        drawn=tuple(drawn),
    )


def _extrapolated(
    share: Float[np.ndarray, " width"], means: list[Float[np.ndarray, "chain *rest"]]
) -> Estimate:
    value = sum(s * each.mean(axis=0) for s, each in zip(share, means, strict=True))
    variance = sum(
        s**2 * each.var(axis=0, ddof=1) / len(each) for s, each in zip(share, means, strict=True)
    )
    return Estimate(np.asarray(value), np.sqrt(variance))
