"""Linear networks in closed form: an analog code."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ..._checks import finite_matrix, whole_number
from ..._result import Result
from ..._types import ArrayLike
from ...networks._width_scaled_network import readout_variance_of
from ...tasks import AbstractTask
from ...tasks._classes import examples_of
from ._given import kernel_of, temperature_of
from ._linear_readout import readout_covariance, two_layers
from ._predictor import Predictor

_SINGULAR = 1e-11  # of the largest eigenvalue
_FITS = 1e-9  # of the targets
_MOST = 4096  # samples × outputs


@dataclass(frozen=True, eq=False, repr=False)
class LinearCode(Result):
    r"""Result of `linear_code`: the posterior of a linear network of infinite width.

    - `dual`: t, T times which is the mean training residual; NaN for two hidden layers, where it
      is not derived.
    - `outputs`: the mean predictor on the training inputs.
    - `readout_covariance`: U, of the readouts of a neuron.
    - `kernels`: K of every hidden layer, the last one last; `kernel` is that.
    - `unfitted`: $|Y - PY|^2$, what no linear network without bias can fit of the targets.
    - `temperature`, `readout_variance`: T and σ_a².
    """

    inputs: Float[np.ndarray, "sample input"] | None
    prior_kernel: Float[np.ndarray, "sample sample"]
    targets: Float[np.ndarray, "sample output"]
    dual: Float[np.ndarray, "sample output"]
    outputs: Float[np.ndarray, "sample output"]
    readout_covariance: Float[np.ndarray, "output output"]
    kernels: tuple[Float[np.ndarray, "sample sample"], ...]
    unfitted: float
    temperature: float
    readout_variance: float

    @property
    def kernel(self) -> Float[np.ndarray, "sample sample"]:
        return self.kernels[-1]

    def __str__(self) -> str:
        depth, (samples, outputs) = len(self.kernels), self.targets.shape
        u = np.linalg.eigvalsh(self.readout_covariance)
        missing = ((self.targets - self.outputs) ** 2).sum()
        lines = [
            f"linear network, {depth} hidden layer{'s' * (depth > 1)}, {samples} examples, "
            f"{outputs} outputs, T = {self.temperature:g}, σ_a² = {self.readout_variance:.4g}",
            f"variance of readouts {u[0]:.4g} to {u[-1]:.4g}; an analog code: every neuron answers "
            "in proportion",
            f"squared error on the examples {missing:.4g}",
        ]
        if self.unfitted > _FITS * (self.targets**2).sum():
            lines.append(
                f"of which {self.unfitted:.4g} no linear network can fit: {_why(self.prior_kernel)}"
            )
        return "\n".join(lines)

    def mean(self, x: ArrayLike) -> Float[np.ndarray, "sample output"]:
        r"""Return $\langle f(x)\rangle = k_0(x)\,t\,U$: at T → 0 that of the lazy network."""
        cross, _ = self._seen(x)
        return cross @ _weights(self.prior_kernel, self.outputs)

    def predictor(self, x: ArrayLike, *, width: int) -> Predictor:
        r"""Return mean and variance for new inputs, to leading order in 1/N.

        The output of a wide network is a mean over neurons, Gaussian to this order:
        $\mathrm{Cov} f = \frac1N[\Sigma_{**} - \Sigma_{*f}(\Sigma_{ff} + T)^{-1}\Sigma_{f*}]$ with
        Σ the covariance of $a\,\phi$ of one neuron. At T = 0 that is $\frac{U}{N}(k_{**} -
        k K_0^{-1} k^\top)$; at T > 0 the training outputs, too, vary.
        """
        width = whole_number("width", width)
        if len(self.kernels) > 1:
            raise ValueError("The variance is derived for one hidden layer; `mean` is for any.")
        cross, own = self._seen(x)
        k0, u = self.prior_kernel, self.readout_covariance
        weights = _weights(k0, cross.T)  # of the training outputs in the new one
        rest = np.maximum(own - (weights * cross.T).sum(axis=0), 0.0)
        variance = rest[:, None] * np.diag(u)
        if self.temperature > 0:
            variance = variance + self._of_training(weights)
        return Predictor(self.mean(x), variance / width, f"non-lazy, N = {width}")

    def _of_training(self, weights: np.ndarray) -> np.ndarray:
        """What the training outputs' own variance adds, T Σ (Σ + T)⁻¹ along `weights`."""
        samples, outputs = self.targets.shape
        if samples * outputs > _MOST:
            raise ValueError(
                f"{samples} examples with {outputs} outputs are {samples * outputs:,} numbers that "
                f"vary together, more than {_MOST:,}. Take fewer examples, or T = 0."
            )
        u = self.readout_covariance
        one = np.einsum("rs,mn->mrns", u, self.kernel)
        two = np.einsum("ms,nr->mrns", self.outputs, self.outputs)  # K₀ t U is the mean output
        sigma = (one + two).reshape(samples * outputs, -1)
        left = self.temperature * np.eye(len(sigma))
        varies = np.linalg.solve(sigma + left, self.temperature * sigma)
        varies = varies.reshape(samples, outputs, samples, outputs)
        own = np.einsum("mrnr->rmn", varies)
        return np.stack([np.einsum("mx,mn,nx->x", weights, each, weights) for each in own], axis=1)

    def _seen(self, x: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        if self.inputs is None:
            raise ValueError("This code came from a kernel: `linear_code(task)` knows its inputs.")
        x = finite_matrix("x", x, "sample", "input", self.inputs.shape[1])
        return x @ self.inputs.T / x.shape[1], (x**2).mean(axis=1)


def linear_code(
    task: AbstractTask,
    *,
    temperature: float = 0.0,
    readout_variance: float | None = None,
    depth: int = 1,
) -> LinearCode:
    r"""Return the posterior of a wide linear network in the non-lazy scaling, in closed form.

    $f(x) = \frac1N\sum_i a_i\, w_i\cdot x/\sqrt D$ with priors $w \sim N(0, 1)$, $a \sim N(0,
    \sigma_a^2)$ and likelihood $\exp(-\frac{N}{2T}|Y - f|^2)$, summed over examples. As N → ∞
    neurons are independent, $a \sim N(0, U)$ and $z \mid a \sim N(K_0 t a, K_0)$ with $K_0 =
    XX^\top/D$, so that $K = K_0 + K_0 t U t^\top K_0$, where

    $$T\,t + K_0 t U = Y,\qquad 1/\sigma_a^2 = U^{-1} + t^\top K_0 t.$$

    T = 0: $U^2/\sigma_a^2 = U + Y^\top K_0^{-1} Y$ and $K = K_0 + Y U^{-1} Y^\top$. Two hidden
    layers are known there: per eigenvalue g of $Y^\top K_0^{-1}Y$, $M(1 + gM) = 1/u$,
    $u^2/\sigma_a^2 = u + g/(1 + gM)$; $K_1 = K_0 + Y M Y^\top$, $K_2 = K_1 + Y U^{-1} Y^\top$.

    **Arguments:**

    - `task`: finite; all of its examples count alike, none is centred or scaled here.
    - `temperature`: T ≥ 0.
    - `readout_variance`: σ_a², by default $P^{-1/L}$.
    - `depth`: hidden layers L, 1 or, at T = 0, 2.

    Raises at T = 0 where the targets cannot be met, and says why.
    """
    x, y = examples_of(task)
    return _code(x, x @ x.T / x.shape[1], y, temperature, readout_variance, depth)


def linear_code_from_kernel(
    kernel: ArrayLike,
    y: ArrayLike,
    *,
    temperature: float = 0.0,
    readout_variance: float | None = None,
    depth: int = 1,
) -> LinearCode:
    """Return the `linear_code` of a kernel K₀ = XXᵀ/D and targets Y."""
    k0, y = kernel_of(kernel, y)
    return _code(None, k0, y, temperature, readout_variance, depth)


def _code(
    inputs: np.ndarray | None,
    k0: np.ndarray,
    y: np.ndarray,
    temperature: float,
    readout_variance: float | None,
    depth: int,
) -> LinearCode:
    temperature, depth = temperature_of(temperature), whole_number("depth", depth)
    if depth > 2 or (depth == 2 and temperature > 0):
        raise ValueError(
            f"`depth` {depth} at T = {temperature:g}: known are one hidden layer at any "
            "temperature and two at `temperature=0`."
        )
    variance = readout_variance_of(readout_variance, len(y), depth)
    strengths, vectors = _modes(k0)
    along = vectors.T @ y
    unfitted = float(((y - vectors @ along) ** 2).sum())
    if temperature == 0 and unfitted > _FITS * (y**2).sum():
        raise ValueError(
            f"At T = 0 every target has to be met, and of |Y|² = {(y**2).sum():.4g} a linear "
            f"network cannot fit {unfitted:.4g}: {_why(k0)} A `temperature` above 0 leaves that as "
            "an error."
        )
    if depth == 2:
        g, axes = np.linalg.eigh((along / strengths[:, None]).T @ along)
        pairs = [two_layers(max(each, 0.0), variance) for each in g.tolist()]
        u, m = ((axes * np.array(each)) @ axes.T for each in zip(*pairs, strict=True))
        first = k0 + y @ m @ y.T
        kernels = (first, first + y @ np.linalg.solve(u, y.T))
        return LinearCode(inputs, k0, y, np.nan * y, y, u, kernels, 0.0, 0.0, variance)
    u = readout_covariance(strengths, along, temperature, variance)
    levels, axes = np.linalg.eigh(u)
    pulls = (along @ axes) / (temperature + strengths[:, None] * levels)
    t = vectors @ pulls @ axes.T
    if temperature > 0:
        t += (y - vectors @ along) / temperature
    outputs = vectors @ (strengths[:, None] * pulls * levels) @ axes.T
    kernel = k0 + outputs @ np.linalg.solve(u, outputs.T)
    return LinearCode(inputs, k0, y, t, outputs, u, (kernel,), unfitted, temperature, variance)


def _modes(k0: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and vectors of K₀, without those along which inputs do not differ."""
    strengths, vectors = np.linalg.eigh(k0)
    seen = strengths > _SINGULAR * strengths[-1]
    if not seen.any() or strengths[-1] <= 0:
        raise ValueError(
            "All inputs are zero, and so is their `kernel`: every linear network outputs zero."
        )
    return strengths[seen], vectors[:, seen]


def _weights(k0: np.ndarray, right: np.ndarray) -> np.ndarray:
    strengths, vectors = _modes(k0)
    return vectors @ ((vectors.T @ right) / strengths[:, None])


def _why(k0: np.ndarray) -> str:
    """In words, why targets are out of reach."""
    strengths, vectors = np.linalg.eigh(k0)
    silent = vectors[:, strengths <= _SINGULAR * strengths[-1]]
    # Inputs that were scaled after they had been centred have one positive sum that is zero.
    alone = silent.shape[1] == 1 and np.ptp(np.sign(silent)) == 0
    if alone or np.abs(k0.sum(axis=0)).max() < 1e-9 * np.abs(k0).max() * len(k0):
        return (
            "inputs are centred, so that its outputs sum to zero over the examples, and the "
            "targets do not. Centre them too (`targets_per_class(m, other=-1/(m-1))` for equal "
            "classes), or give inputs a constant entry."
        )
    if _duplicates(k0):
        return "some inputs occur twice, with different targets."
    return "there are more examples than directions of the inputs, and the targets are not linear."


def _duplicates(k0: np.ndarray) -> bool:
    own = np.diag(k0)
    apart = own[:, None] + own - 2 * k0
    apart[np.diag_indices_from(apart)] = np.inf
    return bool((apart < 1e-9 * own.max()).any())
