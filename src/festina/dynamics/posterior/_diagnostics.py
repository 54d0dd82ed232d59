"""Whether chains agree: on what does not depend on the order of neurons."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ._extra import needed
from ._populations import Populations

_AGREE = 1.05
_AGREE_ALL = 1.1  # the largest of many elements is above what one of them would be
_FEWEST = 4
_SCALARS = ("loss", "potential", "trace_U")


@dataclass(frozen=True, eq=False, repr=False)
class Diagnostics:
    """Split R-hat by ranks, and effective sample sizes of the bulk, by ArviZ.

    Neurons can be exchanged, and so can weights that differ by such an exchange: the chains' own
    weights need not agree, and are not asked.

    - `rhat`, `ess`: by observable; of those with several elements the largest and the smallest.
    - `populations`: of code words. Where they are frozen each chain has kernels, and by a little
      outputs, of its own: their R-hat then says nothing of steps.
    - `apart`: observables on which chains do not agree: R-hat above 1.05, or above 1.1 for the
      largest of many elements.
    - `converged`: none is apart, but for what frozen populations explain.
    """

    rhat: Mapping[str, float]
    ess: Mapping[str, float]
    populations: Populations
    draws: int

    @property
    def apart(self) -> tuple[str, ...]:
        highest = lambda name: _AGREE if name in _SCALARS else _AGREE_ALL
        return tuple(name for name, value in self.rhat.items() if not value <= highest(name))

    @property
    def converged(self) -> bool:
        explained = () if not self.populations.frozen else set(self.rhat) - set(_SCALARS)
        return set(self.apart) <= set(explained)

    def __repr__(self) -> str:
        rows = [f"{'':16}{'R-hat':>8}{'ESS':>8}  of {self.draws} draws"]
        rows += [f"{name:16}{self.rhat[name]:8.3f}{self.ess[name]:8.0f}" for name in self.rhat]
        verdict = "Chains agree."
        if self.apart:
            cause = "populations are frozen" if self.converged else "sample longer or cool slower"
            verdict = f"Chains differ in {', '.join(self.apart)}: {cause}."
        return "\n".join([*rows, verdict, self.populations.message])


def diagnostics(
    observables: Mapping[str, Float[np.ndarray, "chain draw ..."]], populations: Populations
) -> Diagnostics:
    array_stats = needed("arviz_stats.base").array_stats
    chains, draws = next(iter(observables.values())).shape[:2]
    if draws < _FEWEST:
        raise ValueError(
            f"R-hat splits chains in halves and needs at least {_FEWEST} draws of each, got "
            f"{draws}. Sample on: `resume(posterior, moves=…)`."
        )
    rhat, ess = {}, {}
    for name, values in observables.items():
        flat = np.moveaxis(values.reshape(chains, draws, -1), -1, 0).astype(float)
        # What never changes (a kernel's element that is exactly zero) has no variance to compare.
        flat = flat[np.ptp(flat, axis=(1, 2)) > 1e-12 * max(np.abs(flat).max(), 1e-300)]
        if len(flat):
            rhat[name] = float(array_stats.rhat(flat, chain_axis=1, draw_axis=2).max())
            ess[name] = float(array_stats.ess(flat, chain_axis=1, draw_axis=2).min())
    return Diagnostics(rhat, ess, populations, chains * draws)
