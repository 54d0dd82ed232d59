"""Which words neurons speak along chains, and whether they ever change them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from ...networks._activations import Scalar

_FAR = 1e3
_OUTLYING = 8.0  # deviations from the median, by the median of deviations
_SELDOM = 0.01  # of neurons that change their word between two samples
_ALIKE = 3.0  # deviations by which populations of independent neurons may differ


@dataclass(frozen=True, eq=False, repr=False)
class Populations:
    """How many neurons speak which word, chain by chain.

    - `words`: a letter for each class: 1 where a neuron answers more than half of what it can, 0
      where less (+ and - where φ has both signs). Of rectifiers only neurons that stand out have
      one, the others are `bulk`. Linear networks have none.
    - `shares`: of neurons, `(chain, word)`, mean over draws.
    - `changing`: the share of neurons that change their word from one draw to the next, by chain.
    - `frozen`: words never or hardly change, while there is more than one.
    - `apart`: populations differ between chains by more than those of independent neurons would.
    """

    words: tuple[str, ...]
    shares: Float[np.ndarray, "chain word"]
    changing: Float[np.ndarray, " chain"]
    frozen: bool
    apart: bool
    message: str

    def __repr__(self) -> str:
        rows = [f"{'word':8}" + "".join(f"chain {k:<4}" for k in range(len(self.shares)))]
        order = np.argsort(-self.shares.mean(axis=0), kind="stable")
        for k in order[:12]:
            rows.append(f"{self.words[k]:8}" + "".join(f"{s:<10.3f}" for s in self.shares[:, k]))
        if len(order) > 12:
            rows.append(f"and {len(order) - 12} rarer words")
        return "\n".join([self.message, *(rows if self.words else [])])


def populations(
    responses: Float[np.ndarray, "chain draw unit group"], function: Scalar
) -> Populations:
    """Of the mean answer of every neuron to every class."""
    chains, draws, width, _ = responses.shape
    low, high = _range(function)
    if np.isfinite(low) and np.isfinite(high):
        letters = "-+" if low < -0.05 * (high - low) else "01"
        spoken = responses > (low + high) / 2
        talks = np.ones((chains, draws, width), dtype=bool)
    elif np.isfinite(low) or np.isfinite(high):
        letters = "01"
        size = np.abs(responses)
        spoken = size > 0.5 * size.max(axis=-1, keepdims=True)
        talks = _outlying(responses)
    else:
        none = np.zeros(chains)
        words = "φ grows without bound on both sides: an analog code has no words to freeze in."
        return Populations((), np.zeros((chains, 0)), none, False, False, words)
    codes = np.where(talks, spoken @ (1 << np.arange(spoken.shape[-1])), -1)
    kinds = np.unique(codes)
    names = tuple(_name(int(code), letters, spoken.shape[-1]) for code in kinds)
    shares = np.stack([(codes == code).mean(axis=(1, 2)) for code in kinds], axis=1)
    moved = codes[:, 1:] != codes[:, :-1]
    # Of rectifiers the bulk is silent: whether those that do stand out go on to is the question.
    counted = talks[:, 1:] | talks[:, :-1]
    changing = moved.sum(axis=(1, 2)) / np.maximum(counted.sum(axis=(1, 2)), 1)
    mean = shares.mean(axis=0)
    chance = np.sqrt(mean * (1 - mean) / width)
    apart = bool((np.abs(shares - mean) > _ALIKE * chance + 0.5 / width).any())
    frozen = bool((changing <= _SELDOM).all()) and len(kinds) > 1 and draws > 1
    return Populations(
        names, shares, changing, frozen, apart, _said(frozen, apart, changing, shares, width)
    )


def _range(function: Scalar) -> tuple[float, float]:
    """Lowest and highest of φ, infinite where it still grows far out."""
    near, far = (np.asarray(function(np.array([-z, z]))) for z in (_FAR, 1e3 * _FAR))
    middle = np.asarray(function(np.linspace(-_FAR, _FAR, 20_001)))
    size = np.abs(middle).max()
    grows = np.abs(far - near) > 0.5 * size
    ends = [*middle, *near, *far]
    low = -np.inf if (grows & (far < near)).any() else min(ends)
    high = np.inf if (grows & (far > near)).any() else max(ends)
    return float(low), float(high)


def _outlying(responses: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(responses - responses.mean(axis=-1, keepdims=True), axis=-1)
    middle = np.median(size, axis=-1, keepdims=True)
    spread = np.median(np.abs(size - middle), axis=-1, keepdims=True)
    return size > middle + _OUTLYING * spread


def _name(code: int, letters: str, groups: int) -> str:
    return "bulk" if code < 0 else "".join(letters[code >> k & 1] for k in range(groups))


def _said(frozen: bool, apart: bool, changing: np.ndarray, shares: np.ndarray, width: int) -> str:
    rate = f"{100 * changing.mean():.2g} % of neurons with a word change it between two draws"
    if not frozen:
        return f"Code words change along chains ({rate})."
    said = f"Populations are frozen: {rate}, so each chain keeps those that cooling left it."
    if len(shares) == 1:
        return f"{said} One chain cannot say how far that is from others: draw several."
    spread = width * np.ptp(shares, axis=0).max()
    if apart:
        return (
            f"{said} They differ between chains by up to {spread:.0f} of {width} neurons, more "
            "than chance, and kernels with them: R-hat of kernels says so and is no fault of the "
            "step. Average over chains, or cool more slowly."
        )
    return (
        f"{said} They differ between chains by up to {spread:.0f} of {width} neurons, as those of "
        "independent neurons would."
    )


def classes_of(y: Float[np.ndarray, "sample output"]) -> Int[np.ndarray, " sample"]:
    """Examples with the same targets are a class, numbered as they first occur."""
    _, first, which = np.unique(y.round(12), axis=0, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[which.reshape(-1)]
