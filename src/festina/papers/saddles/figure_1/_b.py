"""Figure 1B: a linear fully-connected network learns rank one, then rank two.

The paper does not print the teacher matrix W*. The experiment offers three: `teacher="identity"`;
`"general"`, which does not commute with the input covariance Σ; and `"whitening"`, W* = Σ^(−1/2) up
to a rotation of the outputs. `"whitening"` with the loss averaged over outputs reproduces the
printed figure (preset `printed`). With the teacher `"whitening"` both modes reduce the loss by the
same amount; for a finite sample, the mode learned first may reduce the loss less. One unit then
turns slowly from one mode to the other, and the plateau lies between the levels of the two modes.
"""

from typing import Any, Literal

import numpy as np

from ...._types import Keys
from ....dynamics import loss_factor
from ....experiments._keys import Key
from ....experiments.claims import ClaimCollector, most_seeds
from ....networks import Layer, fully_connected
from ....tasks import AbstractTask, linear_teacher
from ....theory.saddles import mode_drop_times
from .. import panels
from ..panels import Panel, PanelParameters, Reading, staircase


class Parameters(PanelParameters):
    """Parameters of Figure 1B (paper: Section I, Eq. 65)."""

    teacher: Literal["identity", "general", "whitening"] = "identity"
    """Teacher matrix W*: the identity, a matrix that does not commute with Σ, or Σ^(-1/2)."""

    input_covariance: tuple[float, float, float] = (1.0, 1.0, 4.0)
    """Entries Σ₁₁, Σ₁₂, Σ₂₂ of the input covariance Σ."""


PRESETS: dict[str, dict[str, Any]] = {
    "general": {"teacher": "general"},
    "printed": {"teacher": "whitening", "loss": "mean-over-outputs"},
}


def _task(parameters: Parameters, key: Key) -> AbstractTask:
    s11, s12, s22 = parameters.input_covariance
    sigma = np.array([[s11, s12], [s12, s22]])
    weights = {"identity": np.eye(2), "general": np.array([[1.0, 0.5], [-0.5, 0.25]])}
    if parameters.teacher == "whitening":
        variances, axes = np.linalg.eigh(sigma)
        if variances[0] <= 0:
            raise ValueError(
                '`input_covariance` must be positive definite for `teacher="whitening"`, but its '
                f"smallest eigenvalue is {variances[0]:.3g}."
            )
        weights["whitening"] = (axes / np.sqrt(variances)) @ axes.T
    return linear_teacher(weights[parameters.teacher], sigma, samples=parameters.samples, key=key)


def _network(parameters: Parameters, keys: Keys) -> Layer:
    return fully_connected(2, parameters.width, 2, scale=parameters.scale, key=keys)


def _predict(parameters: Parameters, task: AbstractTask, network: Layer) -> dict[str, Any]:
    """Predict plateau levels (Lemma 6) and, if Σ_xx does not mix the modes, both drop times."""
    statistics = task.statistics(network.unit)
    sigma_yx, sigma_xx = statistics.correlation, statistics.covariance
    factor, eta = loss_factor(parameters.loss, task), parameters.learning_rate
    best = sigma_yx @ np.linalg.pinv(sigma_xx, hermitian=True)
    # A fixed point that has learned the modes in the set A has a loss lower by Σ_A μ_k.
    mu = np.linalg.eigvalsh(best @ sigma_yx.T)[::-1]
    power = mu.sum() + 2 * task.statistics(network.unit).floor
    alike = parameters.teacher == "whitening" and parameters.samples is not None
    predicted: dict[str, Any] = {
        "fixed_point": ("point", factor / 2 * (power - mu[: 2 if alike else 1])),
        "final_singular_values": ("mode", np.sqrt(2 * np.linalg.svd(best, compute_uv=False))),
    }
    gram = sigma_yx.T @ sigma_yx
    mixing = np.linalg.norm(gram @ sigma_xx - sigma_xx @ gram)
    if mixing <= 1e-9 * np.linalg.norm(gram) * np.linalg.norm(sigma_xx):
        rate, unit = (eta, 1.0) if parameters.method == "descent" else (None, eta)
        times = mode_drop_times(network, task, loss=parameters.loss, learning_rate=rate)
        predicted["drop_step"] = (("seed", "fall"), times / unit)
    return predicted


def _asserts(reading: Reading, claim: ClaimCollector) -> None:
    panels.count(reading, claim)
    lowest, *highest = reading.theory["fixed_point"].values
    if highest:
        between = (lowest <= reading.levels) & (reading.levels <= highest)
        words = (
            "the plateau loss lies between the losses of the two fixed points with one learned mode"
        )
        note = f"{lowest:.5g} and {highest[0]:.5g}"
        claim("between-modes", words, most_seeds(between), at="Lemma 6", note=note)
    else:
        panels.level(reading, claim)
    panels.falls(reading, claim, 0.005, "Theorem 4 and Eq. (35)", panels.SQUARED_AMPLITUDE)
    panels.ranks(reading, claim)
    panels.widths(reading, claim)


PANEL = Panel(
    "1B", "linear fully-connected", Parameters, _task, _network, staircase(_predict), _asserts
)
run, claims, draw, animate = PANEL.run, PANEL.claims, PANEL.draw, PANEL.animate
