"""Codes and predictors of linear networks in closed form."""

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

_SINGULAR = 1e-11  # eigenvalues below this fraction of the largest count as zero
_FITS = 1e-9  # squared errors below this fraction of |Y|² count as zero
_MOST = 4096  # largest number of samples × outputs in a joint covariance


@dataclass(frozen=True, eq=False, repr=False)
class LinearCode(Result):
    r"""Result of `linear_code`: the posterior of a linear network of infinite width.

    - `inputs`: training inputs X; None if the code was computed from a kernel.
    - `prior_kernel`: $K_0 = XX^\top/D$.
    - `targets`: Y.
    - `dual`: dual variable t; $T\,t$ is the mean training residual. For two hidden layers the
      theory has no formula for t, and `dual` is NaN.
    - `outputs`: posterior mean of the outputs on the training inputs.
    - `readout_covariance`: covariance U of the readouts of one neuron.
    - `kernels`: kernel K of each hidden layer, from first to last.
    - `unfitted`: the part of $|Y|^2$ that no linear network without bias can fit.
    - `temperature`, `readout_variance`: temperature T, and prior variance $\sigma_a^2$ of readouts.

    **Example:**

    >>> from festina.tasks import from_arrays
    >>> from festina.theory.coding import linear_code
    >>> task = from_arrays([[2, 0, 0, 0], [0, 2, 0, 0]], [1, -1])
    >>> code = linear_code(task)
    >>> code.kernel.round(3)
    array([[ 1.781, -0.781],
           [-0.781,  1.781]])
    >>> code.mean([[2, 1, 0, 0]]).round(3)
    array([[0.5]])
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
        """Return the kernel K of the last hidden layer."""
        return self.kernels[-1]

    def __str__(self) -> str:
        depth, (samples, outputs) = len(self.kernels), self.targets.shape
        u = np.linalg.eigvalsh(self.readout_covariance)
        missing = ((self.targets - self.outputs) ** 2).sum()
        lines = [
            f"linear network, {depth} hidden layer{'s' * (depth > 1)}, {samples} examples, "
            f"{outputs} outputs, T = {self.temperature:g}, σ_a² = {self.readout_variance:.4g}",
            f"variance of readouts {u[0]:.4g} to {u[-1]:.4g}; an analog code: responses are "
            "Gaussian over neurons",
            f"squared error on the training examples {missing:.4g}",
        ]
        if self.unfitted > _FITS * (self.targets**2).sum():
            lines.append(
                f"no linear network can fit {self.unfitted:.4g} of |Y|²: {_why(self.prior_kernel)}"
            )
        return "\n".join(lines)

    def mean(self, x: ArrayLike) -> Float[np.ndarray, "sample output"]:
        r"""Return the posterior mean of the outputs at new inputs `x`, `(sample, input)`.

        The mean is $\langle f(x)\rangle = k_0(x)\,t\,U$. As T → 0 it equals the mean of the lazy
        network (`festina.theory.coding.lazy_predictor`).
        """
        cross, _ = self._seen(x)
        return cross @ _weights(self.prior_kernel, self.outputs)

    def predictor(self, x: ArrayLike, *, width: int) -> Predictor:
        r"""Return mean and variance of the predictions for new inputs, to leading order in 1/N.

        The output of a wide network is a mean over neurons and Gaussian to this order, with

        $$\mathrm{Cov} f = \frac1N[\Sigma_{**} - \Sigma_{*f}(\Sigma_{ff} + T)^{-1}\Sigma_{f*}],$$

        where Σ is the covariance of $a\,\phi$ of one neuron. At T = 0 the covariance is
        $\frac{U}{N}(k_{**} - k K_0^{-1} k^\top)$. At T > 0 the outputs also vary between posterior
        samples on the training inputs. `width` is the number N of hidden neurons.
        """
        width = whole_number("width", width)
        if len(self.kernels) > 1:
            raise ValueError(
                f"`predictor` needs a code with one hidden layer, got {len(self.kernels)}: the "
                "theory gives no variance for more. Use `mean` for the mean alone."
            )
        cross, own = self._seen(x)
        k0, u = self.prior_kernel, self.readout_covariance
        weights = _weights(k0, cross.T)  # coefficients of the training outputs in a new output
        rest = np.maximum(own - (weights * cross.T).sum(axis=0), 0.0)
        variance = rest[:, None] * np.diag(u)
        if self.temperature > 0:
            variance = variance + self._of_training(weights)
        return Predictor(self.mean(x), variance / width, f"non-lazy, N = {width}")

    def _of_training(self, weights: np.ndarray) -> np.ndarray:
        r"""Return the output variance due to the variance of the training outputs, times N.

        Training outputs have the covariance $T\Sigma(\Sigma + T)^{-1}/N$. The array `weights` holds
        the coefficients of the training outputs in a new output.
        """
        samples, outputs = self.targets.shape
        if samples * outputs > _MOST:
            raise ValueError(
                f"The variance at T > 0 needs at most {_MOST:,} examples × outputs, got "
                f"{samples} × {outputs} = {samples * outputs:,}. Use fewer examples, or T = 0."
            )
        u = self.readout_covariance
        one = np.einsum("rs,mn->mrns", u, self.kernel)
        two = np.einsum("ms,nr->mrns", self.outputs, self.outputs)  # the mean output is K₀ t U
        sigma = (one + two).reshape(samples * outputs, -1)
        left = self.temperature * np.eye(len(sigma))
        varies = np.linalg.solve(sigma + left, self.temperature * sigma)
        varies = varies.reshape(samples, outputs, samples, outputs)
        own = np.einsum("mrnr->rmn", varies)
        return np.stack([np.einsum("mx,mn,nx->x", weights, each, weights) for each in own], axis=1)

    def _seen(self, x: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        if self.inputs is None:
            raise ValueError(
                "Predictions for new inputs need the training inputs, but this code was computed "
                "from a kernel. Use `linear_code(task)`, which stores the inputs."
            )
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

    The network is $f(x) = \frac1N\sum_i a_i\, w_i\cdot x/\sqrt D$, with priors $w \sim N(0, 1)$ and
    $a \sim N(0, \sigma_a^2)$. The likelihood is $\exp(-\frac{N}{2T}|Y - f|^2)$, summed over
    examples. As N → ∞ neurons are independent, with readouts $a \sim N(0, U)$ and responses
    $z \mid a \sim N(K_0 t a, K_0)$, where $K_0 = XX^\top/D$ and

    $$T\,t + K_0 t U = Y,\qquad 1/\sigma_a^2 = U^{-1} + t^\top K_0 t.$$

    The kernel is $K = K_0 + K_0 t U t^\top K_0$. At T = 0, $U^2/\sigma_a^2 = U + Y^\top K_0^{-1} Y$
    and $K = K_0 + Y U^{-1} Y^\top$. Two hidden layers are solved at T = 0 only. For each eigenvalue
    g of $Y^\top K_0^{-1}Y$, the eigenvalues u of U and m of a matrix M solve $m(1 + gm) = 1/u$ and
    $u^2/\sigma_a^2 = u + g/(1 + gm)$. The kernels are $K_1 = K_0 + Y M Y^\top$ and
    $K_2 = K_1 + Y U^{-1} Y^\top$.

    **Arguments:**

    - `task`: a finite number of examples of equal weight. `linear_code` neither centres nor
      scales the inputs.
    - `temperature`: T ≥ 0.
    - `readout_variance`: prior variance $\sigma_a^2$ of readouts, by default $P^{-1/L}$.
    - `depth`: number L of hidden layers: 1, or 2 at T = 0.

    **Returns:** a `LinearCode`.

    **Raises:** `ValueError` if T = 0 and a linear network cannot fit the targets.

    **Example:**

    >>> from festina.tasks import classification
    >>> from festina.theory.coding import linear_code
    >>> task = classification([[2, 0, 0], [0, 2, 0], [0, 0, 2]], [0, 0, 1])
    >>> linear_code(task).kernel.round(3)
    array([[2.453, 1.12 , 0.   ],
           [1.12 , 2.453, 0.   ],
           [0.   , 0.   , 2.775]])
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
    r"""Return the `linear_code` of a kernel $K_0 = XX^\top/D$ and targets Y, without the inputs.

    **Arguments:**

    - `kernel`: $K_0$, `(sample, sample)`.
    - `y`: targets, `(sample, output)` or `(sample,)`.
    - `temperature`, `readout_variance`, `depth`: as for `linear_code`.

    **Returns:** a `LinearCode`, which cannot predict new inputs.

    **Example:**

    >>> import numpy as np
    >>> from festina.theory.coding import linear_code_from_kernel
    >>> code = linear_code_from_kernel(np.eye(2), [1, -1], temperature=0.5)
    >>> code.outputs.round(3)
    array([[ 0.656],
           [-0.656]])
    """
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
            f"`depth` must be one hidden layer at any temperature, or two at `temperature=0`; got "
            f"`depth` {depth} at temperature {temperature:g}."
        )
    variance = readout_variance_of(readout_variance, len(y), depth)
    strengths, vectors = _modes(k0)
    along = vectors.T @ y
    unfitted = float(((y - vectors @ along) ** 2).sum())
    if temperature == 0 and unfitted > _FITS * (y**2).sum():
        raise ValueError(
            "At temperature 0 the network must fit every target exactly, but no linear network can "
            f"fit {unfitted:.4g} of |Y|² = {(y**2).sum():.4g}: {_why(k0)} A positive `temperature` "
            "allows this error."
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
    """Return the eigenvalues and eigenvectors of $K_0$ that are not zero."""
    strengths, vectors = np.linalg.eigh(k0)
    seen = strengths > _SINGULAR * strengths[-1]
    if not seen.any() or strengths[-1] <= 0:
        raise ValueError(
            "All inputs are zero, so the `kernel` is zero and every linear network outputs zero. "
            "Give inputs that differ from zero."
        )
    return strengths[seen], vectors[:, seen]


def _weights(k0: np.ndarray, right: np.ndarray) -> np.ndarray:
    strengths, vectors = _modes(k0)
    return vectors @ ((vectors.T @ right) / strengths[:, None])


def _why(k0: np.ndarray) -> str:
    """Return the reason, in words, why a linear network cannot fit the targets."""
    strengths, vectors = np.linalg.eigh(k0)
    silent = vectors[:, strengths <= _SINGULAR * strengths[-1]]
    # Inputs that were centred and then rescaled give K₀ a null vector with entries of one sign.
    alone = silent.shape[1] == 1 and np.ptp(np.sign(silent)) == 0
    if alone or np.abs(k0.sum(axis=0)).max() < 1e-9 * np.abs(k0).max() * len(k0):
        return (
            "inputs are centred, so the outputs of a linear network sum to zero over the examples, "
            "but the targets do not. Centre the targets too (`targets_per_class(m, "
            "other=-1/(m-1))` for equal classes), or add a constant entry to the inputs."
        )
    if _duplicates(k0):
        return "some inputs occur twice, with different targets."
    return (
        "there are more examples than directions of the inputs, and the targets are not a linear "
        "function of the inputs."
    )


def _duplicates(k0: np.ndarray) -> bool:
    own = np.diag(k0)
    apart = own[:, None] + own - 2 * k0
    apart[np.diag_indices_from(apart)] = np.inf
    return bool((apart < 1e-9 * own.max()).any())
