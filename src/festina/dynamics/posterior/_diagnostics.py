"""Whether chains agree: on what does not depend on the order of neurons."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ._populations import Populations

_AGREE = 1.05
_FEWEST = 4


@dataclass(frozen=True, eq=False, repr=False)
class Diagnostics:
    """Split R-hat by ranks, and effective sample sizes of the bulk, by ArviZ.

    Neurons can be exchanged, and so can weights that differ by such an exchange: the chains' own
    weights need not agree, and are not asked.

    - `rhat`, `ess`: by observable; of those with several elements the largest and the smallest.
    - `populations`: of code words, which may be frozen: then R-hat of kernels says nothing of
      steps.
    - `converged`: loss, potential and tr U agree, and outputs and kernels where they can.
    """

    rhat: Mapping[str, float]
    ess: Mapping[str, float]
    populations: Populations
    draws: int

    @property
    def converged(self) -> bool:
        asked = [n for n in self.rhat if not (self.populations.frozen and n.startswith("kernel"))]
        return all(self.rhat[name] <= _AGREE for name in asked)

    def __repr__(self) -> str:
        rows = [f"{'':16}{'R-hat':>8}{'ESS':>8}  of {self.draws} draws"]
        rows += [f"{name:16}{self.rhat[name]:8.3f}{self.ess[name]:8.0f}" for name in self.rhat]
        apart = [name for name, value in self.rhat.items() if not value <= _AGREE]
        verdict = f"Chains agree (R-hat ≤ {_AGREE:g})."
        if apart:
            cause = "populations are frozen" if self.converged else "sample longer or cool slower"
            verdict = f"Chains differ in {', '.join(apart)}: {cause}."
        return "\n".join([*rows, verdict, self.populations.message])


def diagnostics(
    observables: Mapping[str, Float[np.ndarray, "chain draw ..."]], populations: Populations
) -> Diagnostics:
    from arviz_stats.base import array_stats

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
