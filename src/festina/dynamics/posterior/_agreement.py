"""Check whether chains agree, and whether their neurons are frozen in different codewords."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from jaxtyping import Float, Int

from ..._result import Result
from ...networks._activations import Scalar
from ._extra import needed

_AGREE = 1.05
_AGREE_ALL = 1.1  # higher, because the largest R-hat of many elements exceeds a typical R-hat
_FEWEST = 4
_ASKED = 997  # elements of a kernel that are compared, evenly spaced, to save time
_SCALARS = ("loss", "potential", "trace_U")
_WITHOUT_CODEWORDS = ("loss", "trace_U")  # potentials, like kernels, depend on the codewords
_FAR = 1e3
_OUTLYING = 8.0  # distance of outliers from the median, in median absolute deviations
_SELDOM = 0.01  # largest share of neurons that change between two draws of frozen populations
_ALIKE = 3.0  # standard deviations by which shares of independent neurons may differ


@dataclass(frozen=True, eq=False, repr=False)
class Populations(Result):
    """Shares of neurons with each codeword, for every chain.

    The codeword of a neuron has one letter for each class: 1 if its mean response to the class is
    in the upper half of its range, and 0 otherwise (+ and − if φ has both signs).

    - `words`: codewords. Rectifiers have codewords only for outliers, the neurons with unusually
      large differences between classes; `bulk` stands for all other neurons. A linear network has
      no codewords.
    - `shares`: share of neurons with each codeword, `(chain, word)`, averaged over draws.
    - `changing`: share of neurons whose codeword changes from one draw to the next, `(chain,)`. For
      rectifiers, outliers are weighted by their squared response.
    - `frozen`: whether several codewords occur, and neurons hardly ever change their codeword.
    - `apart`: whether shares differ between chains more than for independent neurons.
    - `width`: number of neurons.

    **Example:**

    >>> import jax, numpy as np
    >>> from festina.dynamics.posterior import sample
    >>> from festina.tasks import from_arrays
    >>> task = from_arrays(np.eye(2), np.eye(2))
    >>> options = dict(chains=2, anneal=4, burn=4, moves=8, thin=2, method="langevin")
    >>> key = jax.random.key(0)
    >>> drawn = sample(task, width=3, temperature=0.1, activation="erf", key=key, **options)
    >>> drawn.populations.shares.sum(axis=1).round(3)
    array([1., 1.])
    """

    words: Annotated[tuple[str, ...], "word"]
    shares: Float[np.ndarray, "chain word"]
    changing: Float[np.ndarray, " chain"]
    frozen: bool
    apart: bool
    width: int

    @property
    def message(self) -> str:
        """Return a sentence that says whether neurons change their codewords."""
        if not self.words:
            return "φ is unbounded on both sides, so neurons have an analog code without codewords."
        who = "the weight of outliers" if "bulk" in self.words else "neurons"
        rate = f"{100 * self.changing.mean():.2g} % of {who} changes between two draws"
        if not self.frozen:
            return f"Codewords change along chains ({rate})."
        if len(self.shares) == 1:
            return (
                f"Codewords are frozen ({rate}), so the chain keeps its codewords after cooling. "
                "Other chains would have other codewords: sample several chains and average."
            )
        spread = self.width * np.ptp(self.shares, axis=0).max()
        chance = "more than" if self.apart else "as much as"
        return (
            f"Codewords are frozen ({rate}), so each chain keeps its codewords after cooling. "
            f"The counts of a codeword differ between chains by up to {spread:.0f} of {self.width} "
            f"neurons, {chance} for independent neurons. Kernels and potentials therefore also "
            "differ, and their R-hat is large for any step size. Average over chains, or cool more "
            "slowly."
        )

    def __str__(self) -> str:
        if not self.words:
            return self.message
        rows = [f"{'word':8}" + "".join(f"chain {k:<4}" for k in range(len(self.shares)))]
        order = np.argsort(-self.shares.mean(axis=0), kind="stable")
        for k in order[:12]:
            rows.append(f"{self.words[k]:8}" + "".join(f"{s:<10.3f}" for s in self.shares[:, k]))
        rarer = [f"and {len(order) - 12} rarer codewords"] if len(order) > 12 else []
        return "\n".join([self.message, *rows, *rarer])


def populations(
    responses: Float[np.ndarray, "chain draw unit group"], function: Scalar
) -> Populations:
    """Return the codewords of neurons from their mean response to every class."""
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
        weight = (size**2).sum(axis=-1)  # so that borderline outliers hardly count
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
    """Return the lowest and the highest value of φ, infinite where φ is unbounded."""
    near, far = (np.asarray(function(np.array([-z, z]))) for z in (_FAR, 1e3 * _FAR))
    ends = [*np.asarray(function(np.linspace(-_FAR, _FAR, 20_001))), *far]
    grows = np.abs(far - near) > 0.5 * np.abs(near).max()
    low = -np.inf if (grows & (far < near)).any() else min(ends)
    high = np.inf if (grows & (far > near)).any() else max(ends)
    return float(low), float(high)


def _outlying(responses: np.ndarray) -> np.ndarray:
    """Return which neurons' responses differ between classes far more than most neurons' do."""
    size = np.linalg.norm(responses - responses.mean(axis=-1, keepdims=True), axis=-1)
    middle = np.median(size, axis=-1, keepdims=True)
    spread = np.median(np.abs(size - middle), axis=-1, keepdims=True)
    return size > middle + _OUTLYING * spread


def classes_of(y: Float[np.ndarray, "sample output"]) -> Int[np.ndarray, " sample"]:
    """Return the class of each example: examples with the same targets form a class."""
    _, first, which = np.unique(y.round(12), axis=0, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[which.reshape(-1)]


@dataclass(frozen=True, eq=False, repr=False)
class Diagnostics(Result):
    """Agreement of chains: rank-normalised split R-hat and bulk effective sample sizes (ArviZ).

    Permuting the neurons of a network leaves its outputs unchanged. The weights of different chains
    therefore need not agree, and only quantities that do not depend on the order are compared.

    - `rhat`, `ess`: R-hat and effective sample size of each observable. An observable with several
      elements gets the largest R-hat and the smallest effective sample size of at most a thousand
      elements. For a single chain, R-hat compares its two halves.
    - `populations`: codewords of the neurons. If codewords are frozen, kernels and potentials
      differ between chains, and their R-hat does not measure convergence.
    - `draws`, `chains`: number of draws in all chains together, and number of chains.
    - `stuck`: indices of chains that never moved. Each stuck chain counts as one draw, and R-hat is
      infinite.
    - `apart`: names of observables with R-hat above 1.05, or above 1.1 for several elements.
    - `converged`: whether several chains agree, apart from differences that frozen codewords cause.

    **Example:**

    >>> import jax, numpy as np
    >>> from festina.dynamics.posterior import sample
    >>> from festina.tasks import from_arrays
    >>> task = from_arrays(np.eye(2), np.eye(2))
    >>> options = dict(chains=2, anneal=4, burn=4, moves=8, thin=2, method="langevin")
    >>> drawn = sample(task, width=3, temperature=0.1, key=jax.random.key(0), **options)
    >>> found = drawn.diagnostics()
    >>> found.draws, list(found.rhat)
    (8, ['loss', 'potential', 'trace_U', 'outputs', 'kernel'])
    """

    rhat: Mapping[str, float]
    ess: Mapping[str, float]
    populations: Populations
    draws: int
    chains: int
    stuck: tuple[int, ...]

    @property
    def apart(self) -> tuple[str, ...]:
        """Return the names of the observables in which chains differ."""
        highest = lambda name: _AGREE if name in _SCALARS else _AGREE_ALL
        return tuple(name for name, value in self.rhat.items() if not value <= highest(name))

    @property
    def converged(self) -> bool:
        """Whether several chains agree, apart from differences that frozen codewords cause."""
        explained = () if not self.populations.frozen else set(self.rhat) - set(_WITHOUT_CODEWORDS)
        return self.chains > 1 and set(self.apart) <= set(explained)

    @property
    def verdict(self) -> str:
        """Return a sentence that says whether chains agree, and what to do if they do not."""
        if self.stuck:
            which = ", ".join(map(str, self.stuck))
            return f"Chain {which} never moved. Use a smaller `step`, or a longer `burn`."
        longer = "sample longer or cool more slowly"
        if self.chains == 1:
            alone = "Use `chains=2` or more to check whether other chains agree."
            if self.apart:
                return f"The halves of the chain differ in {', '.join(self.apart)}: {longer}."
            return f"The halves of the only chain agree. {alone}"
        if not self.apart:
            return "Chains agree."
        cause = "codewords are frozen" if self.converged else longer
        return f"Chains differ in {', '.join(self.apart)}: {cause}."

    def __str__(self) -> str:
        rows = [f"{'':16}{'R-hat':>8}{'ESS':>8}  of {self.draws} draws"]
        rows += [f"{name:16}{self.rhat[name]:8.3f}{self.ess[name]:8.0f}" for name in self.rhat]
        return "\n".join([*rows, self.verdict, self.populations.message])


def diagnostics(
    observables: Mapping[str, Float[np.ndarray, "chain draw ..."]], populations: Populations
) -> Diagnostics:
    """Return R-hat and effective sample size of every observable."""
    array_stats = needed("arviz_stats.base").array_stats
    chains, draws = next(iter(observables.values())).shape[:2]
    fewest = _FEWEST if chains > 1 else 2 * _FEWEST
    if draws < fewest:
        raise ValueError(
            f"R-hat compares halves of chains and needs at least {fewest} draws in each chain, got "
            f"{draws}. Add draws with `continue_sampling(posterior, moves=…)`."
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
        # Leave out elements that never change, such as zeros of a kernel: they have no variance.
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
