"""The limit of wide networks where no equation is solved for it: extrapolated from chains."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ..._types import Keys
from ...networks._build import check_keys
from ...networks._given import whole_number
from ...tasks import AbstractTask
from ._posterior import Posterior
from ._sample import sample


class Known(NamedTuple):
    """A mean and its standard error, by the differences between chains."""

    value: np.ndarray
    error: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class WideLimit:
    """What networks of any depth, activation and data come to as N → ∞: approximate.

    - `outputs`: f `(sample, output)`; `readout_covariance`: U; `kernels`: of every hidden layer.
      Each has a `value` and a standard `error`.
    - `correction`: by how much the kernel of the widest network differs, at most.
    - `drawn`: the posteriors, by width.
    """

    outputs: Known
    readout_covariance: Known
    kernels: tuple[Known, ...]
    correction: float
    drawn: tuple[Posterior, ...]

    def __repr__(self) -> str:
        widths = ", ".join(str(each.model.width) for each in self.drawn)
        error = max(float(kernel.error.max()) for kernel in self.kernels)
        return (
            f"WideLimit({self.drawn[0].model.activation}, from widths {widths}; kernels to "
            f"{error:.2g} by chains, {self.correction:.2g} from those of the widest; approximate)"
        )


def wide_limit(
    task: AbstractTask,
    *,
    widths: Sequence[int] = (100, 200),
    chains: int = 4,
    key: Keys,
    **how: Any,
) -> WideLimit:
    r"""The mean-field limit of nonlinear networks on any examples, with any number of layers.

    `theory.coding` solves for the law of a neuron where inputs are orthogonal, or neurons linear.
    Elsewhere a network of width N is itself N particles of that law, whose means are off by
    $c/N + O(N^{-2})$: chains of several widths give c and the limit. What is left is of order
    $N^{-2}$, and where neurons cannot leave their words (`Populations.frozen`), what cooling did.

    **Arguments:**

    - `widths`: at least two.
    - `chains`: of each width, at least two, which give the error.
    - `how`: as in `sample`.
    """
    sizes = sorted({whole_number("widths", width) for width in widths})
    if len(sizes) < 2 or whole_number("chains", chains) < 2:
        raise ValueError(
            f"A limit needs two `widths` and an error two `chains`, got {tuple(widths)} and "
            f"{chains}."
        )
    keys = jax.random.split(check_keys(key), len(sizes))
    drawn = [
        sample(task, width=width, chains=chains, key=each, **how)
        for width, each in zip(sizes, keys, strict=True)
    ]
    # The first row of the least-squares solution: what is left at 1/N = 0.
    share = np.linalg.pinv(np.stack([np.ones(len(sizes)), 1 / np.array(sizes)], axis=1))[0]
    limit = lambda seen: _extrapolated(share, [each.mean(axis=1) for each in seen])
    kernels = tuple(
        limit([each.seen.kernels[layer] for each in drawn]) for layer in range(drawn[0].model.depth)
    )
    widest = [kernel.mean((0, 1)) for kernel in drawn[-1].seen.kernels]
    return WideLimit(
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
) -> Known:
    value = sum(s * each.mean(axis=0) for s, each in zip(share, means, strict=True))
    variance = sum(
        s**2 * each.var(axis=0, ddof=1) / len(each) for s, each in zip(share, means, strict=True)
    )
    return Known(np.asarray(value), np.sqrt(variance))
