"""The code of orthogonal classes: bounded activations, rectifiers, and linear networks."""

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

_MOST = 3  # dimensions of a lattice
_SEPARATED = 0.1  # of the variance of responses: as much as `diagnose.coding_scheme` asks for
_SHOWN = 6  # classes that are printed

Scheme = Literal["analog", "redundant", "sparse", "none"]


@dataclass(frozen=True, eq=False, repr=False)
class ClassificationCode(Result):
    r"""Result of `classification_code`: how neurons code classes of orthogonal inputs.

    - `dual`: $t_c$; T times it is the mean training residual of class c.
    - `outputs`: $f_c$, the mean predictor on examples of class c.
    - `kernel`: $E[\phi\phi']$ of two examples by their classes; `kernel_diagonal` of one with
      itself.
    - `readout_mean`, `readout_moment`: $E[a]$ and $U = E[aa^\top]$, outliers included.
    - `populations`: modes of the law of readouts, the largest first: word, population, readout,
      activity. A linear network, and the bulk of rectifiers, has one.
    - `condensed`: $q_c$, the share of the kernel of class c that is carried by outliers; zero but
      for rectifiers.
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
        r"""Return how well a neuron tells the two classes apart that it tells apart best, 0 to 1.

        With $\bar\phi_c$ the mean response of a neuron to class c and v_c the variance of its
        responses within the class, this is the largest over pairs of classes of
        $E(\bar\phi_c - \bar\phi_d)^2 / E[(\bar\phi_c - \bar\phi_d)^2 + v_c + v_d]$.
        """
        own = np.diag(self.kernel)
        apart, within = _differences(self.kernel), self.kernel_diagonal - own
        noise = np.maximum(within[:, None] + within, np.finfo(float).tiny)
        return float((apart / (apart + noise)).max())

    @property
    def scheme(self) -> Scheme:
        r"""Return which part of the code tells classes apart.

        The differences $E(\bar\phi_c - \bar\phi_d)^2$ between responses to classes, summed over
        pairs of classes, have three parts. The scheme is the largest one:

        - `"sparse"`: a few outliers carry them (`condensed`).
        - `"redundant"`: the mean responses of `populations` differ between classes, so that many
          neurons share a pattern. A class may have the same response in all of them (`·`).
        - `"analog"`: neurons differ from the mean of their population, each to its own degree.

        It is `"none"` if `separation` is at most 0.1 for every pair of classes.
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
        """Return the kernel of all examples, class by class."""
        which = np.repeat(np.arange(len(self.sizes)), self.sizes.astype(int))
        full = self.kernel[np.ix_(which, which)]
        np.fill_diagonal(full, self.kernel_diagonal[which])
        return full

    def outliers(self, width: int) -> Float[np.ndarray, "group output"]:
        r"""Return readouts $\sqrt{N q_c}\,\kappa_c t_c$ of outliers, one outlier for each class.

        An outlier responds with $\sqrt{N q_c}$ to its own class and with nothing to others. Only
        the sum of squares over the outliers of a class is fixed: several smaller ones do as well.
        `width` is the number N of hidden neurons.
        """
        size = (
            np.sqrt(whole_number("width", width) * self.condensed)
            * self.readout_variance
            * self.sizes
        )
        return size[:, None] * self.dual

    def marginal(self, values: ArrayLike, output: int = 0) -> Float[np.ndarray, " value"]:
        """Return the density of the readout to one output, at these values.

        For rectifiers this is the density of the bulk, without outliers.
        """
        values, outputs = finite_array("values", values), self.targets.shape[1]
        output = whole_number("output", output, least=0)
        if values.ndim != 1 or output >= outputs:
            raise ValueError(
                "`values` must be a list of numbers and `output` one of the outputs 0 to "
                f"{outputs - 1}, got shape {values.shape} and output {output}."
            )
        if self._law is None:
            variance = self.readout_moment[output, output]
            return np.exp(-(values**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
        problem, law = self._law
        along = problem.basis[output]
        at, rest = law.points @ along, self.readout_variance * (1 - along @ along)
        if rest > 1e-9:  # the lattice is askew, and what it leaves out is Gaussian
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
                f"on outliers q = {_listed(self.condensed)}; mean readouts of the bulk "
                f"{_listed(self.readout_mean)}"
            )
        elif self._law is not None:
            lines += ["word   share    readout   activity", *map(str, self.populations)]
        return "\n".join(lines)

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Draw the law of the readout to the first output, with its populations of neurons.

        `style` goes to `Axes.plot`.
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
    r"""Return the code of classes of orthogonal inputs in a wide network with one hidden layer.

    $f = \frac1N\sum_i a_i\phi(z_i)$, $K_0 = 1$, likelihood $\exp(-\frac{N}{2T}|Y - f|^2)$ summed
    over examples, priors $N(0, 1)$ for weights and $N(0, \sigma_a^2)$ for readouts. As N → ∞ at
    fixed P neurons are independent draws from

    $$p(a) \propto \exp\Big[-\frac{|a|^2}{2\sigma_a^2} + \sum_c n_c\, g(a\cdot t_c)\Big],\qquad
      g(h) = \log E_z\, e^{h\phi(z)},$$

    with t the minimum of the convex dual $\log Z - \langle t, Y\rangle + \frac T2|t|^2$, that is
    $Y_c = T t_c + E[a\,g'(a\cdot t_c)]$. Derived by us; it agrees with posterior samples.

    **Arguments:**

    - `sizes`: n_c, examples of each class.
    - `activation`: `"linear"`, `"erf"` (of slope 1 at zero), `"erf-sigmoid"` (half of one plus
      that), `"relu"`, or any bounded function.
    - `temperature`: T ≥ 0.
    - `targets`: `(class, output)`, by default one-hot; see `targets_per_class`. The law is
      integrated on a lattice, so that of nonlinear activations they may span three dimensions.
    - `readout_variance`: σ_a², by default 1/P.

    !!! note "When it stops being exact"

        Corrections are of order 1/N. For rectifiers what condenses on outliers is exact for many
        examples outside each class, see `_relu.py`.
    """
    return class_codes(sizes, activation, [temperature], targets, readout_variance)[0]


def class_codes(
    sizes: ArrayLike,
    activation: CodeActivation,
    temperatures: list[float],
    targets: ArrayLike | None,
    readout_variance: float | None,
) -> list[ClassificationCode]:
    """Return the codes at falling temperatures, for the price of the last."""
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
    """Targets in the dimensions that they span, and those."""
    _, s, right = np.linalg.svd(y, full_matrices=False)
    rank = int((s > 1e-10 * s[0]).sum())
    if rank > _MOST:
        raise ValueError(
            f"`targets` span {rank} dimensions, and the law of readouts is integrated on a lattice "
            f"in up to {_MOST}. Centred targets of four classes still do "
            "(`targets_per_class(4, other=-1/3)`); more outputs have a closed form for "
            'activation="linear" only.'
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
    """Return E(φ̄_c − φ̄_d)² of all pairs of classes from E[φ̄_c φ̄_d]."""
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
