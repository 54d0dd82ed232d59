"""The result of sampling: weights of all chains, their log, and how the chains ended."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Shaped

from ..._axes import axes, styled
from ..._checks import finite_matrix
from ..._precision import float64
from ..._result import Result
from ..._types import Array, ArrayLike, Keys
from ...networks import WidthScaledNetwork
from ...networks._width_scaled_network import hidden, output_scale
from .._trajectory import Ending
from ._agreement import Diagnostics, Populations, classes_of, diagnostics, populations
from ._model import Model
from ._moves import Chains
from ._plan import Plan
from ._storage import to_arviz, to_dataset

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

_STUCK = 0.05  # fraction of accepted moves below which a chain counts as stuck


class Seen(NamedTuple):
    """Quantities that do not depend on the order of neurons: f, U = ⟨aaᵀ⟩ and kernels ⟨φφᵀ⟩."""

    outputs: Float[np.ndarray, "chain draw sample output"]
    readout_covariance: Float[np.ndarray, "chain draw output output"]
    kernels: tuple[Float[np.ndarray, "chain draw sample sample"], ...]


@dataclass(frozen=True, eq=False, repr=False)
class Posterior(Result):
    r"""Result of `sample`: weights drawn from a posterior in several chains.

    - `weights`: $W^1 … W^L$ of all draws, `(chain, draw, out, in)`. $W^1$ has only the components
      along `basis`, the directions that the examples span.
    - `readout`: readout weights a, `(chain, draw, output, unit)`.
    - `log`: log entries by name, also from before sampling: the number of the `move`, and for each
      chain `loss` (½|Y − f|² summed over examples), `potential` (at the final temperature),
      `acceptance` (mean since the last entry), `divergent` (number of diverged moves), `step` (step
      size) and `duration` (time of the dynamics).
    - `inputs`, `targets`: examples, `(sample, input)` and `(sample, output)`.
    - `readout_variance`: prior variance σ_a² of the readout weights.
    - `notes`: sentences about unusual properties of the examples.
    - `chains`: state of the chains, from which `continue_sampling` continues.

    **Example:**

    >>> import jax, numpy as np
    >>> from festina.dynamics.posterior import sample
    >>> from festina.tasks import from_arrays
    >>> task = from_arrays(np.eye(2), np.eye(2))
    >>> options = dict(chains=2, anneal=4, burn=4, moves=8, thin=2, method="langevin")
    >>> drawn = sample(task, width=3, temperature=0.1, key=jax.random.key(0), **options)
    >>> drawn.seen.kernels[0].shape  # kernel of the hidden layer: chain, draw, example, example
    (2, 4, 2, 2)
    >>> [ending.reason for ending in drawn.endings]
    ['finished', 'finished']
    """

    model: Model
    plan: Plan
    readout_variance: float
    inputs: Float[np.ndarray, "sample input"]
    targets: Float[np.ndarray, "sample output"]
    reduced: Float[np.ndarray, "sample direction"]
    basis: Float[np.ndarray, "input direction"]
    weights: tuple[Float[np.ndarray, "chain draw _unit _below"], ...]
    readout: Float[np.ndarray, "chain draw output unit"]
    log: Mapping[str, Shaped[np.ndarray, "*_chain _save"]]
    chains: Chains
    notes: tuple[str, ...] = ()

    @property
    def moved(self) -> int:
        """Return the number of moves that each chain has made."""
        return int(self.chains.move)

    @property
    def finished(self) -> bool:
        """Whether all planned moves have been made; `continue_sampling` makes missing moves."""
        return self.moved >= self.plan.end

    @property
    def draws(self) -> int:
        """Return the number of stored draws of each chain."""
        return self.readout.shape[1]

    def kept(self, name: str) -> Float[np.ndarray, "chain draw"]:
        """Return the log entries of this name at the stored draws."""
        values = self.log[name]
        return values[..., values.shape[-1] - self.draws :]

    @functools.cached_property
    def endings(self) -> tuple[Ending, ...]:
        """Return how each chain ended. Moves to weights that are not finite are rejected."""
        return tuple(self._ending(k) for k in range(len(self.readout)))

    def _ending(self, chain: int) -> Ending:
        plan, step = self.plan, float(np.exp(self.chains.log_step[chain]))
        if self.draws:
            accepted = float(self.kept("acceptance")[chain].mean())
            broken = int(self.kept("divergent")[chain].sum())
            if accepted < _STUCK or (broken and plan.method == "langevin"):
                return Ending(
                    "diverged",
                    f"Only {100 * accepted:.2g} % of the moves were accepted and {broken} "
                    f"diverged, with step size {step:.3g}, so the chain hardly moved. Use a "
                    "smaller `step`, or a longer `burn` to adapt the step size.",
                )
        if not self.finished:
            return Ending(
                "interrupted",
                f"Sampling was interrupted after {self.moved} of {plan.end} moves, while "
                f"{plan.stage(self.moved)}. `continue_sampling` resumes it.",
            )
        return Ending("finished", f"All {plan.end} moves were made; last step size {step:.3g}.")

    @property
    def failed(self) -> bool:
        """Whether any chain hardly moved or diverged; `endings` says which."""
        return any(ending.failed for ending in self.endings)

    def __str__(self) -> str:
        m, plan, (chains, draws) = self.model, self.plan, self.readout.shape[:2]
        layers = f"{m.depth} hidden layer{'s' * (m.depth > 1)} of {m.width}"
        lines = [
            f"Posterior({m.scaling} {m.activation} network, {layers}, {len(self.targets)} "
            f"examples, {m.outputs} outputs, T = {plan.temperature:g}, σ_a² = "
            f"{self.readout_variance:.4g}; {chains} chains of {draws} draws by {plan.method})"
        ]
        if draws:
            lines.append(
                f"squared error {2 * self.kept('loss').mean():.4g}, acceptance "
                f"{self.kept('acceptance').mean():.2f}, "
                f"step size {np.exp(np.asarray(self.chains.log_step)).mean():.3g}"
            )
        ends = {each.reason: each.message for each in self.endings if each.reason != "finished"}
        return "\n".join([*lines, *ends.values(), *self.notes])

    @functools.cached_property
    def seen(self) -> Seen:
        """Return outputs, readout covariance U and kernels on the examples, `(chain, draw, …)`."""
        layers = self._layers(self.reduced, self.weights)
        a, width = self.readout.astype(float), self.model.width
        turned = lambda each: np.swapaxes(each, -1, -2)
        outputs = layers[-1] @ turned(a) * output_scale(a, self.model.scaling)
        kernels = tuple(layer @ turned(layer) / width for layer in layers)
        return Seen(outputs, a @ turned(a) / width, kernels)

    @float64
    def _layers(self, scaled: np.ndarray, weights: tuple[Array, ...]) -> list[np.ndarray]:
        """Return φ(z) of all hidden layers, `(chain, draw, sample, unit)`; one chain at a time."""
        if not self.draws:
            raise ValueError(f"The posterior has no draws yet. {self.endings[0].message}")
        each = [
            hidden(tuple(np.asarray(w[k], float) for w in weights), scaled, self.model.function)
            for k in range(len(self.readout))
        ]
        return [
            np.stack([np.asarray(layer) for layer in those]) for those in zip(*each, strict=True)
        ]

    def observables(self) -> dict[str, Float[np.ndarray, "chain draw ..."]]:
        """Return all quantities that do not depend on the order of neurons, by name."""
        seen = self.seen
        kernels = {f"kernel_{k + 1}": kernel for k, kernel in enumerate(seen.kernels)}
        if len(kernels) == 1:
            kernels = {"kernel": seen.kernels[0]}
        return {
            "loss": self.kept("loss"),
            "potential": self.kept("potential"),
            "trace_U": np.trace(seen.readout_covariance, axis1=-2, axis2=-1),
            "outputs": seen.outputs,
            **kernels,
        }

    def activity(self, layer: int = -1) -> Float[np.ndarray, "chain draw sample unit"]:
        """Return φ(z) of a hidden layer on the examples, by default of the last hidden layer."""
        return self._layers(self.reduced, self.weights)[layer]

    @functools.cached_property
    def populations(self) -> Populations:
        """Return the codewords of neurons in the last hidden layer, and whether they change.

        Examples with the same targets count as a class.
        """
        which = classes_of(self.targets)
        activity = self.activity()
        groups = [activity[:, :, which == c].mean(axis=2) for c in range(which.max() + 1)]
        return populations(np.stack(groups, axis=-1), self.model.function)

    def diagnostics(self) -> Diagnostics:
        """Return R-hat, effective sample sizes, and whether codewords are frozen."""
        return diagnostics(self.observables(), self.populations)

    def networks(self, *, key: Keys) -> WidthScaledNetwork:
        r"""Return all draws as networks with leading axes `(chain, draw)`.

        The returned networks take the original inputs, not their components along `basis`. Along
        directions orthogonal to all examples, the posterior is the prior; `key` draws these
        weights.
        """
        first, *deeper = self.weights
        v, inputs = self.basis, self.basis.shape[0]
        whole = first @ v.T
        if v.shape[1] < inputs:
            with jax.enable_x64(True):
                free = np.asarray(jax.random.normal(key, (*first.shape[:-1], inputs), dtype=float))
            whole = whole + free - (free @ v) @ v.T
        return WidthScaledNetwork(
            (whole, *deeper), self.readout, self.model.function, self.model.scaling
        )

    @float64
    def predict(self, x: ArrayLike, *, key: Keys) -> Float[np.ndarray, "chain draw sample output"]:
        """Return the outputs for new inputs by every draw; average over draws for the predictor."""
        x = finite_matrix("x", x, "sample", "input", self.inputs.shape[1])
        weights, a = self.networks(key=key).weights, self.readout
        layer = self._layers(x / np.sqrt(x.shape[1]), weights)[-1]
        return layer @ np.swapaxes(a, -1, -2) * output_scale(a, self.model.scaling)

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Plot the loss of each draw, one line for each chain; `style` is passed to `Axes.plot`."""
        ax, names = axes(ax), [f"chain {k}" for k in range(len(self.readout))]
        ax.plot(self.kept("loss").T, **styled(style, marker=".", label=names))
        ax.set(xlabel="draw", ylabel="loss")
        ax.legend(frameon=False, fontsize="small")
        return ax

    def to_dataset(self) -> "xr.Dataset":
        """Return a data set with named axes, for `festina.save` and `continue_sampling`."""
        return to_dataset(self)

    def to_arviz(self) -> "xr.DataTree":
        """Return the groups `posterior`, `sample_stats` and `observed_data` in ArviZ's format."""
        return to_arviz(self)

    def followed_by(self, done: Sequence[tuple[Chains, Mapping[str, Any]]]) -> "Posterior":
        """Return this posterior with the states and log entries of further stops added."""
        if not done:
            return self
        log = {
            name: np.concatenate((old, np.stack([row[name] for _, row in done], axis=-1)), axis=-1)
            for name, old in self.log.items()
        }
        weights = (*self.weights, self.readout)
        drawn = [chains.position for chains, row in done if row["move"] > self.plan.warm]
        if drawn:
            *new, white = self.model.split(np.stack(drawn, axis=1))
            new.append(white * np.asarray(np.sqrt(self.readout_variance), white.dtype))
            weights = [np.concatenate(pair, axis=1) for pair in zip(weights, new, strict=True)]
        *weights, readout = weights
        return replace(self, chains=done[-1][0], log=log, weights=tuple(weights), readout=readout)
