"""Figure 1B: a linear fully-connected network learns rank one, then rank two.

The paper does not print W*. Three readings: `teacher="identity"`; `"general"`, which does not
commute with the input covariance; and `"whitening"`, W* = Σ^(−1/2) up to a rotation of the outputs,
which with the loss averaged over outputs is what the printed figure shows (preset `printed`).
"""

from typing import Any, Literal

import numpy as np
import xarray as xr
from jaxtyping import PRNGKeyArray

from ....dynamics import loss_factor
from ....networks import Layer, fully_connected
from ....networks._seeds import Keys
from ....tasks import AbstractTask, linear_teacher
from ....theory.saddles import mode_drop_times
from .._moments import correlation, covariance
from ..panels._panel import Panel
from ..panels._parameters import PanelParameters
from ..panels._reading import PAPER
from ..panels._reference import Reference
from ..panels._structure_claims import rank_claims


class Parameters(PanelParameters):
    """Section I, Eq. (65)."""

    teacher: Literal["identity", "general", "whitening"] = "identity"
    """W*: identity, one that does not commute with the input covariance, or Σ^(-1/2)."""

    input_covariance: tuple[float, float, float] = (1.0, 1.0, 4.0)
    """Input covariance Σ₁₁, Σ₁₂, Σ₂₂."""


PRESETS: dict[str, dict[str, Any]] = {
    "general": {"teacher": "general"},
    "printed": {"teacher": "whitening", "loss": "mean-over-outputs"},
}


def _task(parameters: Parameters, key: PRNGKeyArray | None) -> AbstractTask:
    s11, s12, s22 = parameters.input_covariance
    sigma = np.array([[s11, s12], [s12, s22]])
    weights = {"identity": np.eye(2), "general": np.array([[1.0, 0.5], [-0.5, 0.25]])}
    if parameters.teacher == "whitening":
        variances, axes = np.linalg.eigh(sigma)
        if variances[0] <= 0:
            raise ValueError("`input_covariance` must be positive definite to be whitened.")
        weights["whitening"] = (axes / np.sqrt(variances)) @ axes.T
    return linear_teacher(weights[parameters.teacher], sigma, samples=parameters.samples, key=key)


def _network(parameters: Parameters, keys: Keys) -> Layer:
    return fully_connected(2, parameters.width, 2, scale=parameters.scale, key=keys)


def _predict(parameters: Parameters, task: AbstractTask, network: Layer) -> dict[str, Any]:
    sigma_yx, sigma_xx = correlation(task, network.unit), covariance(task, network.unit)
    factor = loss_factor(parameters.loss, task)
    best = sigma_yx @ np.linalg.pinv(sigma_xx, hermitian=True)
    # Lemma 6: a fixed point that has learned the set A of modes has removed Σ_A μ_k.
    mu = np.linalg.eigvalsh(best @ sigma_yx.T)
    power = np.trace(best @ sigma_yx.T) + 2 * task.statistics(network.unit).floor
    predicted = {
        "closed_form_minimum": (
            (),
            factor / 2 * (power - mu[-1]),
            {"source": f"{PAPER}, Lemma 6"},
        ),
        "final_singular_values": ("mode", np.sqrt(2 * np.linalg.svd(best, compute_uv=False))),
    }
    gram = sigma_yx.T @ sigma_yx
    mixing = np.linalg.norm(gram @ sigma_xx - sigma_xx @ gram)
    if mixing <= 1e-9 * np.linalg.norm(gram) * np.linalg.norm(sigma_xx):
        predicted["drop_step"] = _drop_steps(parameters, network, sigma_yx, sigma_xx, factor)
    return predicted


def _drop_steps(
    parameters: Parameters,
    network: Layer,
    sigma_yx: np.ndarray,
    sigma_xx: np.ndarray,
    factor: float,
) -> xr.Variable:
    """Both drops, mode by mode: only where the modes of the data are not mixed by Σ_xx."""
    eta = parameters.learning_rate
    descends = parameters.method == "descent"
    times = mode_drop_times(
        network.u,
        network.v,
        sigma_yx,
        sigma_xx,
        learning_rate=eta if descends else None,
        loss_factor=factor,
    )
    return xr.Variable(
        ("seed", "drop"),
        times if descends else times / (factor * eta),
        {
            "tolerance": 0.005,
            "source": f"{PAPER}, Theorem 4 and Eq. (35)",
            "correction": "with the part of a mode that is orthogonal, over units, to earlier ones",
        },
    )


def _same_in_both(parameters: Parameters) -> str:
    if parameters.teacher != "whitening" or parameters.samples is None:
        return ""
    return (
        "with W* = Σ^(−1/2) either mode takes the same from the loss, and of a finite sample the "
        "one that is learned first need not take more: its saddle is no minimum of one unit"
    )


PANEL = Panel(
    name="saddles/figure-1b",
    title="linear fully-connected",
    parameters=Parameters,
    task=_task,
    network=_network,
    predict=_predict,
    structure=rank_claims,
    level_tolerance=1e-5,
    caveat=_same_in_both,
    seed_tolerance=2e-5,
    references=(
        Reference(Parameters(), (142.8, 851.0)),
        Reference(Parameters(teacher="general"), (181.2, 1089.0)),
    ),
)
run, claims, draw, animate = PANEL.run, PANEL.claims, PANEL.draw, PANEL.animate
