"""Codes as a function of temperature, and the temperature at which codes appear."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from ..._axes import axes, styled
from ..._checks import finite_array
from ..._result import Result
from ..._types import ArrayLike
from ...networks._code_activations import CodeActivation
from ...networks._width_scaled_network import readout_variance_of
from ._classification import ClassificationCode, class_codes, classification_code
from ._given import sizes_of, targets_of
from ._tilt import tilt

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class TemperatureSweep(Result, also=("contrast", "populated")):
    """Result of `temperature_sweep`: codes at several temperatures, in the order given.

    - `temperature`: temperatures T.
    - `codes`: the `ClassificationCode` at each temperature.
    - `crossover`: estimate of the temperature below which a code appears.

    **Example:**

    >>> from festina.theory.coding import temperature_sweep
    >>> sweep = temperature_sweep([20, 20], temperatures=[0.01, 0.5], targets=[1, -1])
    >>> sweep.contrast.round(4), sweep.populated
    (array([0.3777, 0.0035]), array([2., 1.]))
    """

    temperature: Float[np.ndarray, " temperature"]
    codes: tuple[ClassificationCode, ...]
    crossover: float

    @property
    def contrast(self) -> Float[np.ndarray, " temperature"]:
        """Return the mean kernel within classes minus the mean between classes, by temperature."""
        found = []
        for code in self.codes:
            between = code.kernel[~np.eye(len(code.kernel), dtype=bool)]
            found.append(np.diag(code.kernel).mean() - (between.mean() if between.size else 0.0))
        return np.array(found)

    @property
    def populated(self) -> Float[np.ndarray, " temperature"]:
        """Return how many populations have more than 0.1 % of all neurons, by temperature."""
        counts = [sum(b.share > 1e-3 for b in code.populations) for code in self.codes]
        return np.array(counts, dtype=float)

    def __str__(self) -> str:
        lines = [f"{self.codes[0].activation}, crossover near T = {self.crossover:.3g}"]
        lines.append("       T  contrast  populations  code")
        for row in zip(self.temperature, self.contrast, self.populated, self.codes, strict=True):
            lines.append("{:8.4g} {:9.4f} {:12.0f}  {}".format(*row[:3], row[3].scheme))
        return "\n".join(lines)

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Plot the contrast of the kernel against temperature, and mark the crossover temperature.

        Keyword arguments in `style` are passed to `Axes.plot`.
        """
        ax = axes(ax)
        order = np.argsort(self.temperature)
        how = styled(style, color="black", marker=".", ls="--", lw=1.0, label="theory")
        ax.plot(self.temperature[order], self.contrast[order], **how)
        ax.axvline(self.crossover, color="C0", lw=6.0, alpha=0.2, label="crossover")
        ax.set(xlabel=r"temperature $T$", ylabel="kernel within minus between classes")
        ax.legend(frameon=False, fontsize="small")
        return ax


def temperature_sweep(
    sizes: ArrayLike,
    activation: CodeActivation = "erf-sigmoid",
    *,
    temperatures: ArrayLike,
    targets: ArrayLike | None = None,
    readout_variance: float | None = None,
) -> TemperatureSweep:
    """Return the `classification_code` at many temperatures.

    The solver starts at the highest temperature and continues each solution to the next lower one.

    **Arguments:**

    - `sizes`, `activation`, `targets`, `readout_variance`: as for `classification_code`.
    - `temperatures`: temperatures T ≥ 0, in any order.

    **Returns:** a `TemperatureSweep`.

    **Example:**

    >>> from festina.theory.coding import temperature_sweep
    >>> print(temperature_sweep([20, 20], temperatures=[0.01, 0.1, 0.5], targets=[1, -1]))
    erf-sigmoid, crossover near T = 0.323
           T  contrast  populations  code
        0.01    0.3777            2  redundant
         0.1    0.2900            2  redundant
         0.5    0.0035            1  none
    """
    given = finite_array("temperatures", temperatures)
    if given.ndim != 1:
        raise ValueError(f"`temperatures` must be a list of numbers, got shape {given.shape}.")
    falling, back = np.unique(-given, return_inverse=True)
    codes = class_codes(sizes, activation, (-falling).tolist(), targets, readout_variance)
    near = crossover_temperature(
        sizes, activation, targets=targets, readout_variance=readout_variance
    )
    return TemperatureSweep(given, tuple(codes[k] for k in back), near)


def crossover_temperature(
    sizes: ArrayLike,
    activation: CodeActivation = "erf-sigmoid",
    *,
    targets: ArrayLike | None = None,
    readout_variance: float | None = None,
) -> float:
    r"""Estimate the temperature below which a code of the classes appears.

    At high temperature the outputs do not depend on the class. The dual variable $t_c$ is then the
    target minus the mean target, divided by T. The distribution of readouts becomes unstable where
    the largest eigenvalue of $\sigma_a^2 \mathrm{Var}\phi\sum_c n_c t_c t_c^\top$ reaches 1:

    $$T_c = \sigma_a\sqrt{\mathrm{Var}\,\phi(z)\;\lambda_\mathrm{max}\textstyle\sum_c n_c
      (Y_c - \bar Y)(Y_c - \bar Y)^\top}.$$

    For classes of equal size with the target $y_+$ for the example's class and $y_-$ for other
    classes, $T_c = (y_+ - y_-)\,\sigma_a\sqrt{n_c \mathrm{Var}\,\phi}$. At a finite number P of
    examples $T_c$ is an estimate, because the code changes smoothly with T.

    ReLU networks have outliers only below a sharp transition temperature. While every class has
    outliers, $T + \kappa_c q_c$ does not depend on T, with $\kappa_c = \sigma_a^2 n_c$ and $q_c$
    the part of the kernel that outliers carry. The transition temperature follows exactly if all
    classes lose their outliers at the same temperature. If classes lose their outliers at different
    temperatures, bisection finds the temperature at which the last outliers vanish, to a relative
    precision of $10^{-3}$.

    **Arguments:**

    - `sizes`, `activation`, `targets`, `readout_variance`: as for `classification_code`.

    **Returns:** the temperature.

    **Example:**

    >>> from festina.theory.coding import crossover_temperature
    >>> round(crossover_temperature([20, 20, 20], "erf-sigmoid"), 3)
    0.187
    """
    n = sizes_of(sizes)
    y, variance = targets_of(targets, len(n)), readout_variance_of(readout_variance, int(n.sum()))
    unit = tilt(activation)
    apart = y - n @ y / n.sum()
    if unit.name == "relu":
        at = lambda T: classification_code(
            n, "relu", temperature=T, targets=y, readout_variance=variance
        )
        edges = variance * n * at(0.0).condensed
        low, high = edges.min(), edges.max()
        while high - low > 1e-3 * high:
            middle = float(low + high) / 2
            low, high = (middle, high) if at(middle).condensed.any() else (low, middle)
        return float(high)
    power = np.linalg.eigvalsh((apart * n[:, None]).T @ apart)[-1]
    return float(np.sqrt(variance * unit.variance * max(power, 0.0)))
