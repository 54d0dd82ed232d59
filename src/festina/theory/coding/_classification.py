"""Codes of classes of orthogonal inputs in networks of infinite width, for any activation."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float
from scipy.interpolate import PchipInterpolator

from ..._axes import axes, styled
from ..._checks import finite_array, whole_number
from ..._result import Result
from ..._types import ArrayLike
from ...networks._code_activations import CodeActivation
from ...networks._width_scaled_network import readout_variance_of
from ._dual import descend
from ._given import sizes_of, targets_of, temperature_of
from ._law import Classes, Law
from ._linear_readout import readout_covariance
from ._populations import NeuronPopulation, populations
from ._relu import condensed
from ._tilt import tilt

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST = 3  # largest number of dimensions of the lattice of readouts
_SEPARATED = 0.1  # separation up to which the scheme is "none", as in `diagnose.coding_scheme`
_SHOWN = 6  # largest number of classes that are printed

Scheme = Literal["analog", "redundant", "sparse", "none"]


@dataclass(frozen=True, eq=False, repr=False)
class ClassificationCode(Result):
    r"""Result of `classification_code`: how hidden neurons code classes of orthogonal inputs.

    - `activation`: name of the activation φ.
    - `sizes`: number $n_c$ of examples of each class, `(group,)`.
    - `targets`: target $Y_c$ of each class, `(group, output)`.
    - `temperature`, `readout_variance`: temperature T, and prior variance $\sigma_a^2$ of readouts.
    - `dual`: dual variable $t_c$ of each class; $T t_c$ is the mean training residual of class c.
    - `outputs`: posterior mean $f_c$ of the network's output on training examples of class c.
    - `kernel`: kernel $E[\phi\phi']$ of two different examples, for each pair of classes.
    - `kernel_diagonal`: kernel $E[\phi^2]$ of an example with itself, for each class.
    - `readout_mean`: mean $E[a]$ of the readouts; for ReLU without the outliers.
    - `readout_moment`: second moment $U = E[aa^\top]$ of the readouts, outliers included.
    - `populations`: one `NeuronPopulation` for each mode of the distribution of readouts, the
      largest population first. Linear and ReLU networks have a single population.
    - `condensed`: part $q_c$ of the kernel of class c that outlier neurons carry; zero for every
      activation except ReLU.

    **Example:**

    >>> from festina.theory.coding import classification_code
    >>> code = classification_code([20, 20], targets=[1, -1])
    >>> code.scheme
    'redundant'
    >>> [population.word for population in code.populations]
    ['01', '10']
    >>> code.kernel.round(3)
    array([[0.439, 0.061],
           [0.061, 0.439]])
    """

    activation: str
    sizes: Float[np.ndarray, " group"]
    targets: Float[np.ndarray, "group output"]
    temperature: float
    readout_variance: float
    dual: Float[np.ndarray, "group output"]
    outputs: Float[np.ndarray, "group output"]
    kernel: Float[np.ndarray, "group group"]
    kernel_diagonal: Float[np.ndarray, " group"]
    readout_mean: Float[np.ndarray, " output"]
    readout_moment: Float[np.ndarray, "output output"]
    populations: tuple[NeuronPopulation, ...]
    condensed: Float[np.ndarray, " group"]
    _law: tuple[Classes, Law] | None = field(default=None)

    @property
    def separation(self) -> float:
        r"""Return how well neurons separate the best-separated pair of classes, from 0 to 1.

        With $\bar\phi_c$ the mean response of a neuron to class c and $v_c$ the variance of its
        responses within the class, the separation is the largest value over pairs of classes of
        $E(\bar\phi_c - \bar\phi_d)^2 / E[(\bar\phi_c - \bar\phi_d)^2 + v_c + v_d]$.
        """
        own = np.diag(self.kernel)
        apart, within = _differences(self.kernel), self.kernel_diagonal - own
        noise = np.maximum(within[:, None] + within, np.finfo(float).tiny)
        return float((apart / (apart + noise)).max())

    @property
    def scheme(self) -> Scheme:
        r"""Return the coding scheme: `"analog"`, `"redundant"`, `"sparse"` or `"none"`.

        The squared difference $E(\bar\phi_c - \bar\phi_d)^2$ between a neuron's mean responses to
        two classes, summed over pairs of classes, has three parts. The largest of the three parts
        determines the scheme:

        - `"sparse"`: the part carried by outlier neurons (`condensed`).
        - `"redundant"`: the part due to differences between a population's mean responses to the
          two classes. Many neurons then share the pattern of responses of their population.
        - `"analog"`: the part due to differences between the neurons within a population.

        The scheme is `"none"` if `separation` is at most 0.1.
        """
        if self.separation <= _SEPARATED:
            return "none"
        shared = np.array([group.activity for group in self.populations])
        share = np.array([group.share for group in self.populations])
        sparse = _differences(np.diag(self.condensed)).sum()
        redundant = _differences((shared.T * share) @ shared).sum()
        analog = _differences(self.kernel).sum() - sparse - redundant
        return max((analog, "analog"), (redundant, "redundant"), (sparse, "sparse"))[1]

    def gram(self) -> Float[np.ndarray, "sample sample"]:
        r"""Return the kernel $E[\phi\phi']$ of all pairs of training examples, sorted by class."""
        which = np.repeat(np.arange(len(self.sizes)), self.sizes.astype(int))
        full = self.kernel[np.ix_(which, which)]
        np.fill_diagonal(full, self.kernel_diagonal[which])
        return full

    def outliers(self, width: int) -> Float[np.ndarray, "group output"]:
        r"""Return the readouts $\sqrt{N q_c}\,\kappa_c t_c$ of outliers, for one outlier per class.

        Here $\kappa_c = \sigma_a^2 n_c$, with $q_c$ from `condensed` and $t_c$ from `dual`. An
        outlier responds with $\sqrt{N q_c}$ to its own class and is silent for the other classes.
        The theory fixes only the sum of squared responses over the outliers of a class. Several
        small outliers are therefore equivalent to one large outlier. `width` is the number N of
        hidden neurons.
        """
        size = (
            np.sqrt(whole_number("width", width) * self.condensed)
            * self.readout_variance
            * self.sizes
        )
        return size[:, None] * self.dual

    def marginal(self, values: ArrayLike, output: int = 0) -> Float[np.ndarray, " value"]:
        """Return the probability density of the readout to one output, at the given `values`.

        For ReLU the result is the density of the bulk, without outliers.
        """
        values, outputs = finite_array("values", values), self.targets.shape[1]
        output = whole_number("output", output, least=0)
        if values.ndim != 1 or output >= outputs:
            raise ValueError(
                "`values` must be a one-dimensional array and `output` a number from 0 to "
                f"{outputs - 1}, got `values` of shape {values.shape} and `output` {output}."
            )
        if self._law is None:
            variance = self.readout_moment[output, output]
            return np.exp(-(values**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
        problem, law = self._law
        along = problem.basis[output]
        at, rest = law.points @ along, self.readout_variance * (1 - along @ along)
        # The targets do not span this output direction; outside their span the readout is Gaussian.
        if rest > 1e-9:
            bumps = np.exp(-((values[:, None] - at) ** 2) / (2 * rest)) @ law.weight
            return bumps / np.sqrt(2 * np.pi * rest)
        steps = np.round(at / problem.fine - 0.5).astype(int)
        mass = np.bincount(steps - steps.min(), law.weight)
        places = problem.fine * (np.arange(len(mass)) + steps.min() + 0.5)
        height = np.log(np.maximum(mass / problem.fine, 1e-300))
        if len(places) == 1:
            return np.where(np.abs(values - places[0]) < problem.fine / 2, 1 / problem.fine, 0.0)
        return np.nan_to_num(np.exp(PchipInterpolator(places, height, extrapolate=False)(values)))

    def __str__(self) -> str:
        kind = "no" if self.scheme == "none" else self.scheme
        between = (f", {k:.4f} with {c + 1}" for c, k in enumerate(self.kernel[0, 1:_SHOWN]))
        lines = [
            f"{self.activation}, classes of {_listed(self.sizes, 'g')} examples, T = "
            f"{self.temperature:g}, σ_a² = {self.readout_variance:.4g}: {kind} code, separation "
            f"{self.separation:.2g}",
            f"kernel {self.kernel[0, 0]:.4f} within class 0{''.join(between)}, "
            f"{self.kernel_diagonal[0]:.4f} of an example with itself",
            f"outputs for class 0: {_listed(self.outputs[0])}",
        ]
        if self.condensed.any():
            lines.append(
                f"kernel carried by outliers q = {_listed(self.condensed)}; mean readouts of the "
                f"bulk {_listed(self.readout_mean)}"
            )
        elif self._law is not None:
            lines += ["word   share    readout   activity", *map(str, self.populations)]
        return "\n".join(lines)

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Plot the density of the readout to the first output, with the mean of each population.

        Keyword arguments in `style` are passed to `Axes.plot`.
        """
        ax = axes(ax)
        spots = np.array([group.readout[0] for group in self.populations])
        size = 5 * np.sqrt(self.readout_variance)
        if self._law is None:
            size = 4 * np.sqrt(self.readout_moment[0, 0])
        values = np.linspace(spots.min() - size, spots.max() + size, 600)
        how = styled(style, color="black", lw=1.0, ls="--", label="theory")
        ax.plot(values, self.marginal(values), **how)
        for group in self.populations:
            if group.share > 1e-3 and len(self.populations) > 1:
                ax.axvline(group.readout[0], color="C0", lw=6.0, alpha=0.1)
        ax.set(xlabel=r"readout $a_1$", ylabel=r"density $p(a_1)$", ylim=(0, None))
        return ax


def classification_code(
    sizes: ArrayLike,
    activation: CodeActivation = "erf-sigmoid",
    *,
    temperature: float = 0.01,
    targets: ArrayLike | None = None,
    readout_variance: float | None = None,
) -> ClassificationCode:
    r"""Return how a wide network with one hidden layer codes classes of orthogonal inputs.

    The network is $f = \frac1N\sum_i a_i\phi(z_i)$. The inputs are orthogonal and have unit
    variance (input kernel $K_0 = 1$). The likelihood is $\exp(-\frac{N}{2T}|Y - f|^2)$, summed over
    examples. The priors are $N(0, 1)$ for input weights and $N(0, \sigma_a^2)$ for readouts. As N →
    ∞ at fixed number P of examples, neurons are independent draws from

    $$p(a) \propto \exp\Big[-\frac{|a|^2}{2\sigma_a^2} + \sum_c n_c\, g(a\cdot t_c)\Big],\qquad
      g(h) = \log E_z\, e^{h\phi(z)}.$$

    The dual variable t minimises the convex function $\log Z - \langle t, Y\rangle + \frac
    T2|t|^2$, which gives $Y_c = T t_c + E[a\,g'(a\cdot t_c)]$. The mean-field theory of codes was
    derived for festina and checked against posterior samples.

    **Arguments:**

    - `sizes`: number $n_c$ of examples of each class.
    - `activation`: `"linear"`, `"erf"` ($\mathrm{erf}(\sqrt\pi z/2)$, of slope 1 at zero),
      `"erf-sigmoid"` ($\frac12[1 + \mathrm{erf}(\sqrt\pi z/2)]$), `"relu"`, or a bounded function.
    - `temperature`: T ≥ 0.
    - `targets`: targets, `(class, output)`, by default one-hot; see `targets_per_class`. For
      nonlinear activations the targets may span at most three dimensions.
    - `readout_variance`: prior variance $\sigma_a^2$ of readouts, by default 1/P.

    **Returns:** a `ClassificationCode`.

    **Example:**

    >>> from festina.theory.coding import classification_code
    >>> print(classification_code([20, 20, 20], "relu"))
    relu, classes of 20, 20, 20 examples, T = 0.01, σ_a² = 0.01667: sparse code, separation 0.77
    kernel 1.7798 within class 0, 0.2744 with 1, 0.2744 with 2, 2.2371 of an example with itself
    outputs for class 0: 0.9830, 0.0022, 0.0022
    kernel carried by outliers q = 1.4692, 1.4692, 1.4692; mean readouts of the bulk 0.2234, ...

    !!! note "When it stops being exact"

        Corrections at finite width N are of order 1/N. For ReLU, the part of the kernel that
        outliers carry is exact only if there are many examples outside each class.
    """
    return class_codes(sizes, activation, [temperature], targets, readout_variance)[0]


def class_codes(
    sizes: ArrayLike,
    activation: CodeActivation,
    temperatures: list[float],
    targets: ArrayLike | None,
    readout_variance: float | None,
) -> list[ClassificationCode]:
    """Return the codes at a falling list of temperatures, each solved from the one before it."""
    n = sizes_of(sizes)
    y = targets_of(targets, len(n))
    temperatures = [temperature_of(each) for each in temperatures]
    variance, unit = readout_variance_of(readout_variance, int(n.sum())), tilt(activation)
    if unit.name == "linear":
        return [_analog(n, y, each, variance) for each in temperatures]
    problem = Classes(n, *_reduced(y), variance, unit)
    if unit.name == "relu":
        return [_sparse(problem, y, each) for each in temperatures]
    found = zip(temperatures, descend(problem, temperatures), strict=True)
    return [_of(problem, y, each, t, law, populations(problem, t, law)) for each, (t, law) in found]


def _reduced(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the targets as coordinates in the space that they span, and a basis of that space."""
    _, s, right = np.linalg.svd(y, full_matrices=False)
    rank = int((s > 1e-10 * s[0]).sum())
    if rank > _MOST:
        raise ValueError(
            f"`targets` span {rank} dimensions, expected up to {_MOST}: the distribution of "
            "readouts is integrated numerically over these dimensions. Four classes work with "
            "centred targets (`targets_per_class(4, other=-1/3)`). The activation 'linear' has no "
            "such limit."
        )
    basis = np.eye(y.shape[1]) if rank == y.shape[1] else right[:rank].T
    return y @ basis, basis


def _of(
    problem: Classes,
    y: np.ndarray,
    temperature: float,
    t: np.ndarray,
    law: Law,
    found: tuple[NeuronPopulation, ...],
    q: np.ndarray | None = None,
) -> ClassificationCode:
    basis, variance = problem.basis, problem.variance
    q = np.zeros(len(y)) if q is None else q
    pulled = t * (variance * problem.sizes)[:, None]  # κ_c t_c
    moment = (law.points * law.weight[:, None]).T @ law.points + (pulled * q[:, None]).T @ pulled
    silent = variance * (np.eye(len(basis)) - basis @ basis.T)
    return ClassificationCode(
        activation=problem.tilt.name,
        sizes=problem.sizes,
        targets=y,
        temperature=temperature,
        readout_variance=variance,
        dual=t @ basis.T,
        outputs=(law.outputs + q[:, None] * pulled) @ basis.T,
        kernel=law.kernel + np.diag(q),
        kernel_diagonal=law.kernel_diagonal + q,
        readout_mean=basis @ (law.weight @ law.points),
        readout_moment=basis @ moment @ basis.T + silent,
        populations=found,
        condensed=q,
        _law=(problem, law),
    )


def _sparse(problem: Classes, y: np.ndarray, temperature: float) -> ClassificationCode:
    t, law, q = condensed(problem, temperature)
    said = law.weight @ law.first
    mean = problem.basis @ (law.weight @ law.points)
    centre = NeuronPopulation("bulk", 1.0, mean, mean, said)
    return _of(problem, y, temperature, t, law, (centre,), q)


def _listed(values: np.ndarray, kind: str = ".4f") -> str:
    shown = ", ".join(format(each, kind) for each in values[:_SHOWN])
    return shown if len(values) <= _SHOWN else f"{shown}, … ({len(values)} in all)"


def _differences(kernel: np.ndarray) -> np.ndarray:
    """Return E(φ̄_c − φ̄_d)² for all pairs of classes, from the kernel E[φ̄_c φ̄_d]."""
    own = np.diag(kernel)
    return np.maximum(own[:, None] + own - 2 * kernel, 0.0)


def _analog(
    n: np.ndarray, y: np.ndarray, temperature: float, variance: float
) -> ClassificationCode:
    root = np.sqrt(n)[:, None]
    u = readout_covariance(np.ones(len(n)), root * y, temperature, variance)
    t = np.linalg.solve(temperature * np.eye(len(u)) + u, y.T).T
    kernel = t @ u @ t.T
    nothing = np.zeros(len(u))
    centre = NeuronPopulation("analog", 1.0, nothing, nothing, np.zeros(len(n)))
    return ClassificationCode(
        activation="linear",
        sizes=n,
        targets=y,
        temperature=temperature,
        readout_variance=variance,
        dual=t,
        outputs=t @ u,
        kernel=kernel,
        kernel_diagonal=1 + np.diag(kernel),
        readout_mean=np.zeros(len(u)),
        readout_moment=u,
        populations=(centre,),
        condensed=np.zeros(len(n)),
    )
