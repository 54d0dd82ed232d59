"""Codes against temperature, and where they appear."""

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
    """Result of `temperature_sweep`: codes at several temperatures, in the order given."""

    temperature: Float[np.ndarray, " temperature"]
    codes: tuple[ClassificationCode, ...]
    crossover: float

    @property
    def contrast(self) -> Float[np.ndarray, " temperature"]:
        """How much larger the kernel is within classes than between them, on average."""
        found = []
        for code in self.codes:
            between = code.kernel[~np.eye(len(code.kernel), dtype=bool)]
            found.append(np.diag(code.kernel).mean() - (between.mean() if between.size else 0.0))
        return np.array(found)

    @property
    def populated(self) -> Float[np.ndarray, " temperature"]:
        """Populations that hold more than a thousandth of all neurons."""
        counts = [sum(b.share > 1e-3 for b in code.populations) for code in self.codes]
        return np.array(counts, dtype=float)

    def __str__(self) -> str:
        lines = [f"{self.codes[0].activation}, crossover near T = {self.crossover:.3g}"]
        lines.append("       T  contrast  populations  code")
        for row in zip(self.temperature, self.contrast, self.populated, self.codes, strict=True):
            lines.append("{:8.4g} {:9.4f} {:12.0f}  {}".format(*row[:3], row[3].scheme))
        return "\n".join(lines)

    def draw(self, ax: "Axes | None" = None, **style: Any) -> "Axes":
        """Draw the contrast of the kernel against temperature, and the crossover.

        `style` goes to `Axes.plot`.
        """
        ax = axes(ax)
        order = np.argsort(self.temperature)
        how = styled(style, color="black", marker=".", ls="--", lw=1.0, label="theory")
        ax.plot(self.temperature[order], self.contrast[order], **how)
        ax.axvline(self.crossover, color="C0", lw=6.0, alpha=0.2, label="crossover")
        ax.set(xlabel=r"temperature $T$", ylabel="kernel, within less between classes")
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
    """Return `classification_code` at many temperatures, each solved from the next higher one."""
    given = finite_array("temperatures", temperatures)
    if given.ndim != 1:
        raise ValueError(f"`temperatures` must be a list of them, got shape {given.shape}.")
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
    r"""Estimate the temperature at which the code appears, coming from high temperature.

    There outputs tell no classes apart, t is the contrast of the targets over T, and the law of
    readouts becomes unstable where $\sigma_a^2 \mathrm{Var}\phi\sum_c n_c t_c t_c^\top$ reaches 1:

    $$T_c = \sigma_a\sqrt{\mathrm{Var}\,\phi(z)\;\lambda_\mathrm{max}\textstyle\sum_c n_c
      (Y_c - \bar Y)(Y_c - \bar Y)^\top},$$

    for equal classes $(y_+ - y_-)\,\sigma_a\sqrt{n_c \mathrm{Var}\,\phi}$. An estimate: at finite P
    all is smooth in T. Rectifiers condense at a sharp temperature: as long as every class has
    outliers, $T + \kappa_c q_c$ does not depend on T, which is exact where all lose them at once.
    Otherwise the last to have some is found by bisection, to a thousandth.
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
