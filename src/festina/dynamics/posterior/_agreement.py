"""Whether chains agree, and on which words their neurons froze where they do not."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float, Int

from ..._result import Result
from ...networks._activations import Scalar
from ._extra import needed

_AGREE = 1.05
_AGREE_ALL = 1.1  # the largest of many elements is above what one of them would be
_FEWEST = 4
_ASKED = 997  # elements of a kernel, evenly: R-hat of 10,000 takes longer than sampling
_SCALARS = ("loss", "potential", "trace_U")
_FAR = 1e3
_OUTLYING = 8.0  # deviations from the median, by the median of deviations
_SELDOM = 0.01  # of neurons that change their word between two samples
_ALIKE = 3.0  # deviations by which populations of independent neurons may differ


@dataclass(frozen=True, eq=False, repr=False)
class Populations(Result):
    """How many neurons speak which word, chain by chain.

    - `words`: a letter for each class: 1 where a neuron answers more than half of what it can, 0
      where less (+ and - where φ has both signs). Of rectifiers only neurons that stand out have
      one, the others are `bulk`. Linear networks have none.
    - `shares`: of neurons, `(chain, word)`, mean over draws.
    - `changing`: the share of neurons that change their word from one draw to the next, by chain;
      of rectifiers the share of what those that stand out carry, squared.
    - `frozen`: words never or hardly change, while there is more than one.
    - `apart`: populations differ between chains by more than those of independent neurons would.
    """

    words: Annotated[tuple[str, ...], "word"]
    shares: Float[np.ndarray, "chain word"]
    changing: Float[np.ndarray, " chain"]
    frozen: bool
    apart: bool
    width: int

    @property
    def message(self) -> str:
        if not self.words:
            return "φ grows without bound on both sides: an analog code has no words to freeze in."
        who = "what outliers carry changes its" if "bulk" in self.words else "neurons change their"
        rate = f"{100 * self.changing.mean():.2g} % of {who} word between two draws"
        if not self.frozen:
            return f"Code words change along chains ({rate})."
        if len(self.shares) == 1:
            return (
                f"Populations are frozen: {rate}, so the chain keeps those that cooling left it. "
                "Other chains would have others: sample several and average."
            )
        spread = self.width * np.ptp(self.shares, axis=0).max()
        chance = "more than" if self.apart else "as"
        return (
            f"Populations are frozen: {rate}, so each chain keeps those that cooling left it. They "
            f"differ between chains by up to {spread:.0f} of {self.width} neurons, {chance} those "
            "of independent neurons would, and kernels with them: their R-hat shows it, and is no "
            "fault of the step. Average over chains, or cool more slowly."
        )

    def __str__(self) -> str:
        if not self.words:
            return self.message
        rows = [f"{'word':8}" + "".join(f"chain {k:<4}" for k in range(len(self.shares)))]
        order = np.argsort(-self.shares.mean(axis=0), kind="stable")
        for k in order[:12]:
            rows.append(f"{self.words[k]:8}" + "".join(f"{s:<10.3f}" for s in self.shares[:, k]))
        rarer = [f"and {len(order) - 12} rarer words"] if len(order) > 12 else []
        return "\n".join([self.message, *rows, *rarer])


def populations(
    responses: Float[np.ndarray, "chain draw unit group"], function: Scalar
) -> Populations:
    """Of the mean answer of every neuron to every class."""
    chains, draws, width, groups = responses.shape
    low, high = _range(function)
    if np.isinf(low) and np.isinf(high):
        return Populations((), np.zeros((chains, 0)), np.zeros(chains), False, False, width)
    letters, talks = "01", np.ones((chains, draws, width), dtype=bool)
    weight = talks
    if np.isfinite(low) and np.isfinite(high):
        spoken = responses > (low + high) / 2
        letters = "-+" if low < -0.05 * (high - low) else letters
    else:
        size = np.abs(responses)
        spoken, talks = size > 0.5 * size.max(axis=-1, keepdims=True), _outlying(responses)
        weight = (size**2).sum(axis=-1)  # those that hardly stand out come and go
    said = np.where(talks[..., None], spoken, 2).astype(np.int8).reshape(-1, groups)
    kinds, codes = np.unique(said, axis=0, return_inverse=True)
    codes = codes.reshape(talks.shape)
    words = tuple("bulk" if 2 in kind else "".join(letters[k] for k in kind) for kind in kinds)
    shares = np.stack([(codes == k).mean(axis=(1, 2)) for k in range(len(kinds))], axis=1)
    weight = np.maximum(weight[:, 1:], weight[:, :-1]) * (talks[:, 1:] | talks[:, :-1])
    moved = (weight * (codes[:, 1:] != codes[:, :-1])).sum(axis=(1, 2))
    changing = moved / np.maximum(weight.sum(axis=(1, 2)), 1e-300)
    mean = shares.mean(axis=0)
    chance = _ALIKE * np.sqrt(mean * (1 - mean) / width) + 0.5 / width
    frozen = len(kinds) > 1 and draws > 1 and bool((changing <= _SELDOM).all())
    apart = bool((np.abs(shares - mean) > chance).any())
    return Populations(words, shares, changing, frozen, apart, width)


def _range(function: Scalar) -> tuple[float, float]:
    """Lowest and highest of φ, infinite where it still grows far out."""
    near, far = (np.asarray(function(np.array([-z, z]))) for z in (_FAR, 1e3 * _FAR))
    ends = [*np.asarray(function(np.linspace(-_FAR, _FAR, 20_001))), *far]
    grows = np.abs(far - near) > 0.5 * np.abs(near).max()
    low = -np.inf if (grows & (far < near)).any() else min(ends)
    high = np.inf if (grows & (far > near)).any() else max(ends)
    return float(low), float(high)


def _outlying(responses: np.ndarray) -> np.ndarray:
    """Neurons whose answers differ between classes far more than those of most."""
    size = np.linalg.norm(responses - responses.mean(axis=-1, keepdims=True), axis=-1)
    middle = np.median(size, axis=-1, keepdims=True)
    spread = np.median(np.abs(size - middle), axis=-1, keepdims=True)
    return size > middle + _OUTLYING * spread


def classes_of(y: Float[np.ndarray, "sample output"]) -> Int[np.ndarray, " sample"]:
    """Examples with the same targets are a class, numbered as they first occur."""
    _, first, which = np.unique(y.round(12), axis=0, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[which.reshape(-1)]


@dataclass(frozen=True, eq=False, repr=False)
class Diagnostics(Result):
    """Split R-hat by ranks, and effective sample sizes of the bulk, by ArviZ.

    Neurons can be exchanged, and so can weights that differ by such an exchange: the chains' own
    weights need not agree, and are not compared.

    - `rhat`, `ess`: by observable; for those with several elements (a thousand of them at most) the
      largest and the smallest. R-hat of a single chain compares its two halves.
    - `populations`: of code words. Where they are frozen each chain has kernels, and by a little
      outputs, of its own: their R-hat then says nothing of steps.
    - `draws`, `chains`: numbers of draws, in all chains together, and of chains.
    - `stuck`: chains that never moved. Each counts as one draw, and R-hat is infinite.
    - `apart`: observables on which chains do not agree: R-hat above 1.05, or above 1.1 for the
      largest of many elements.
    - `converged`: there are several chains, and none is apart, but for what frozen populations
      explain.
    """

    rhat: Mapping[str, float]
    ess: Mapping[str, float]
    populations: Populations
    draws: int
    chains: int
    stuck: tuple[int, ...]

    @property
    def apart(self) -> tuple[str, ...]:
        highest = lambda name: _AGREE if name in _SCALARS else _AGREE_ALL
        return tuple(name for name, value in self.rhat.items() if not value <= highest(name))

    @property
    def converged(self) -> bool:
        explained = () if not self.populations.frozen else set(self.rhat) - set(_SCALARS)
        return self.chains > 1 and set(self.apart) <= set(explained)

    @property
    def verdict(self) -> str:
        """Say whether chains agree, and what to do if they do not."""
        if self.stuck:
            which = ", ".join(map(str, self.stuck))
            return f"Chain {which} never moved: take a smaller `step`, or a longer `burn`."
        longer = "sample longer or cool slower"
        if self.chains == 1:
            alone = "Whether other chains would agree is not known: sample with `chains=2` or more."
            if self.apart:
                return f"The halves of the chain differ in {', '.join(self.apart)}: {longer}."
            return f"The halves of the only chain agree. {alone}"
        if not self.apart:
            return "Chains agree."
        cause = "populations are frozen" if self.converged else longer
        return f"Chains differ in {', '.join(self.apart)}: {cause}."

    def __str__(self) -> str:
        rows = [f"{'':16}{'R-hat':>8}{'ESS':>8}  of {self.draws} draws"]
        rows += [f"{name:16}{self.rhat[name]:8.3f}{self.ess[name]:8.0f}" for name in self.rhat]
        return "\n".join([*rows, self.verdict, self.populations.message])


def diagnostics(
    observables: Mapping[str, Float[np.ndarray, "chain draw ..."]], populations: Populations
) -> Diagnostics:
    """Compare chains in every observable."""
    array_stats = needed("arviz_stats.base").array_stats
    chains, draws = next(iter(observables.values())).shape[:2]
    fewest = _FEWEST if chains > 1 else 2 * _FEWEST
    if draws < fewest:
        raise ValueError(
            f"R-hat compares halves of chains and needs at least {fewest} draws of each, got "
            f"{draws}. Sample on: `continue_sampling(posterior, moves=…)`."
        )
    flat = {
        name: np.moveaxis(values.reshape(chains, draws, -1), -1, 0).astype(float)
        for name, values in observables.items()
    }
    still = [(each == each[:, :, :1]).all(axis=(0, 2)) for each in flat.values()]
    moving = ~np.all(still, axis=0)
    rhat, ess = {}, {}
    for name, each in flat.items():
        each = each[:: -(-len(each) // _ASKED)][:, moving]
        # An element that never changes (a kernel's that is exactly zero) has no variance.
        spread = np.ptp(each, axis=(1, 2)) if each.size else np.zeros(len(each))
        each = each[spread > 1e-12 * max(np.abs(each).max(initial=0.0), 1e-300)]
        if not moving.all():
            rhat[name], ess[name] = np.inf, float((~moving).sum())
        elif len(each):
            halves = each
            if chains == 1:
                halves = each[:, :, : draws // 2 * 2].reshape(len(each), 2, -1)
            rhat[name] = float(array_stats.rhat(halves, chain_axis=1, draw_axis=2).max())
        if len(each):
            found = float(array_stats.ess(each, chain_axis=1, draw_axis=2).min())
            ess[name] = ess.get(name, 0.0) + found
    stuck = tuple(np.flatnonzero(~moving).tolist())
    return Diagnostics(rhat, ess, populations, chains * draws, chains, stuck)
