"""Figure 5A: a three-layer linear network learns rank one in every layer, then rank two."""

from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from ....dynamics import loss_factor
from ....networks import Stack, stack
from ....networks._seeds import Keys
from ....tasks import AbstractTask, linear_teacher
from ...claims import Claim
from .._comparison import Reported
from .._moments import correlation, covariance
from ..panels._panel import Panel
from ..panels._reading import PAPER, Reading
from ._claims import width_claims
from ._panel import DeepPanel, DeepParameters
from ._reference import DeepReference


class Parameters(DeepParameters):
    """Three linear layers on the data of Figure 1B, with the teacher W* = I."""


PRESETS: dict[str, dict[str, Any]] = {}
QUICK: dict[str, Any] = {"seeds": 4}


def _task(parameters: Parameters, key: PRNGKeyArray | None) -> AbstractTask:
    sigma = np.array([[1.0, 1.0], [1.0, 4.0]])
    return linear_teacher(np.eye(2), sigma, samples=parameters.samples, key=key)


def _network(parameters: Parameters, keys: Keys) -> Stack:
    width = parameters.width
    return stack((2, width, width, 2), scale=parameters.scale, key=keys)


def _predict(parameters: Parameters, task: AbstractTask, network: Stack) -> dict[str, Any]:
    """Lemma 6 holds at any depth: a rank-one map removes at most the largest μ of the loss.

    Balanced layers share each singular value s of the target as s^(1/3).
    """
    sigma_yx, sigma_xx = correlation(task, network.unit), covariance(task, network.unit)
    best = sigma_yx @ np.linalg.pinv(sigma_xx, hermitian=True)
    mu = np.linalg.eigvalsh(best @ sigma_yx.T)
    left = 0.5 * mu[:-1].sum() + task.statistics(network.unit).floor
    return {
        "closed_form_minimum": ((), loss_factor(parameters.loss, task) * left),
        "final_singular_values": ("mode", np.cbrt(np.linalg.svd(best, compute_uv=False))),
    }


def _structure(reading: Reading) -> list[Claim]:
    theory = reading.theory
    at = reading.run["layers"].to_dataset()["singular_value"].values
    last = np.array([at[seed, count - 1] for seed, count in enumerate(reading.counts)])
    return [
        reading.compare(
            "the minimum with one unit in every layer has a closed form",
            float(theory["closed_form_minimum"]),
            float(theory["narrow_minimum"][0]),
            tolerance=1e-6,
            source=f"{PAPER}, Lemma 6",
        ),
        *width_claims(reading),
        reading.compare(
            "at the end the layers share each singular value of the target equally: "
            "those of the first layer, mean over seeds",
            theory["final_singular_values"].values,
            last[:, 0, :2].mean(axis=0),
            tolerance=0.02,
            relative=True,
            source=f"{PAPER}, Figure 5A; balanced layers",
        ),
    ]


PANEL = DeepPanel(
    panel=Panel(
        name="saddles/figure-5a",
        title="three-layer linear",
        parameters=Parameters,
        task=_task,
        network=_network,
        predict=_predict,
        structure=_structure,
        level_tolerance=1e-3,
    ),
    references=(
        DeepReference(
            Parameters(),
            drops=(Reported((177.0, 223.0), 4, 0.057), Reported((1149.0, 1289.0), 4, 0.067)),
        ),
    ),
    plain=True,
)
run, claims, draw = PANEL.run, PANEL.claims, PANEL.draw
