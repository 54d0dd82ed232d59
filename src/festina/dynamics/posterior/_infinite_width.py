"""The limit of wide networks where no equation is solved for it: extrapolated from chains."""

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
    """A mean and its standard error, by the differences between chains."""

    value: np.ndarray
    error: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class InfiniteWidthLimit(Result):
    """What networks of any depth, activation and data come to as N → ∞: approximate.

    - `outputs`: f `(sample, output)`; `readout_covariance`: U; `kernels`: of every hidden layer.
      Each has a `value` and a standard `error`.
    - `correction`: by how much the kernel of the widest network differs, at most.
    - `drawn`: the posteriors, by width.
    """

    outputs: Annotated[Estimate, "sample output"]
    readout_covariance: Annotated[Estimate, "output output"]
    kernels: Annotated[tuple[Estimate, ...], "sample sample"]
    correction: float
    drawn: tuple[Posterior, ...]

    def width_for(self, fraction: float) -> float:
        """About from which width on kernels are within a fraction of the limit.

        By their Frobenius norm and the widest network; noise of chains makes it larger.
        """
        if not (fraction := real_number("fraction", fraction)) > 0:
            raise ValueError(f"`fraction` must be positive, 0.02 say, got {fraction:g}.")
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
            f"InfiniteWidthLimit({self.drawn[0].model.activation}, from widths {widths}; kernels "
            f"to {error:.2g} by chains, {self.correction:.2g} from those of the widest; "
            "approximate)"
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
    r"""The mean-field limit of networks of any activation and depth, extrapolated from `widths`.

    `theory.coding` solves for the law of a neuron where inputs are orthogonal, or neurons linear.
    Elsewhere a network of width N is itself N particles of that law, whose means are off by
    $c/N + O(N^{-2})$: chains of several widths give c and the limit. What is left is of order
    $N^{-2}$ (of rectifiers, with the logarithm of N that outliers cost), and where neurons cannot
    leave their words (`Populations.frozen`), what cooling did.

    **Arguments:**

    - `widths`: at least two.
    - `chains`: of each width, at least two, which give the error.
    - `progress`: called with words and the fraction done.
    - `options`: as in `sample`, but for `checkpoint`: chains that are to be resumed are sampled one
      width at a time.
    """
    if {"checkpoint", "width"} & {*options}:
        raise ValueError("A limit takes `widths`, and no `width` or `checkpoint`.")
    sizes = sorted({whole_number("widths", width) for width in widths})
    if len(sizes) < 2 or whole_number("chains", chains) < 2:
        raise ValueError(
            f"A limit needs two `widths` and an error two `chains`, got {tuple(widths)} and "
            f"{chains}."
        )
    key = check_keys(key)
    if key.shape:
        raise ValueError(f"`key` must be one key, jax.random.key(0), got {key.shape} of them.")
    drawn = list[Posterior]()
    for k, width in enumerate(sizes):
        say = lambda words, done, k=k, width=width: (
            progress and progress(f"width {width}: {words}", (k + done) / len(sizes))
        )
        each = jax.random.fold_in(key, width)
        drawn.append(sample(task, width=width, chains=chains, progress=say, key=each, **options))
    # The first row of the least-squares solution: what is left at 1/N = 0.
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
