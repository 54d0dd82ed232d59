r"""When the linear transformer of Figure 5E starts to learn: two waits, one after the other.

First the residual connection. What it lets through is a two-layer linear network on the query. The
correlation $c = \langle y\,x_q\rangle$ of the sample drives its one mode, $\dot a = 2a\,|c|(1 -
a/|p|)$, where $p = \Sigma_{qq}^{-1} c$ is what it learns. Initial weights w and W hold of the mode
$a_0 = \frac14\sum_i (w_i + W_i\cdot\hat c)^2$, and it is half-way at $t_0 = \ln(|p|/a_0)/2|c|$.

Then a head. It is read by p, as $(p\cdot V_i) X X^\top k_i\, q_i\cdot x_q$: a unit of three vectors
$V_i^\top\hat p$, $k_i$ and $q_i$, driven by what p leaves of y, which reaches infinity after a time
$T_i/|p|$. So

$$t = t_0 + \min_i T_i/|p|,$$

inversely proportional to the correlation but for a logarithm. What is left out is that heads of the
size $\sqrt{|c|}$ make p grow in turn: a share of order $\epsilon/\sqrt{|c|}$ of the second wait.
"""

from typing import Any

import numpy as np
import xarray as xr
from jaxtyping import Float

from ....networks import LinearHead, Stack
from ....tasks import Task
from ...claims import Claim
from .._units_flow import blow_up
from ..panels._reading import PAPER, Reading

_RTOL = 1e-6
_NEGLECTED = 2.0  # times ε/√|c|: what is left out is of this order


def escape(data: Task, network: Stack, *, scale: float, rate: float) -> dict[str, Any]:
    """Steps of the first drop, and what they are made of, from the sample and initial weights.

    `rate` is that of descent on ⟨|y − f|²⟩, of which a step is a time 2η of the half loss.
    """
    query, y = data.x[:, :-1, -1], data.y
    c = np.mean(y * query, axis=0)
    p = np.linalg.solve(query.T @ query / len(query), c)
    _, _, inner, outer = (np.asarray(weight) for weight in network.weights)
    amplitude = mode_amplitude(inner[..., :-1], outer[:, 0], c / np.linalg.norm(c))
    wait = _first_head(data, network, p)
    sizes = float(np.linalg.norm(c)), float(np.linalg.norm(p))
    first = steps(*sizes, amplitude, wait, rate)
    return {
        "drop_step": xr.Variable(
            ("seed", "drop"),
            np.stack((first, np.full_like(first, np.nan)), axis=1),
            {
                "tolerance": float(f"{_NEGLECTED * scale / np.sqrt(sizes[0]):.2g}"),
                "source": f"{PAPER}, Figure 5E; Proposition 5 for heads that the residual reads",
                "correction": "escape starts from the correlation ⟨y x_q⟩ of the sample",
            },
        ),
        "correlation": ((), sizes[0]),
        "amplitude": ("seed", amplitude),
        "wait": ("seed", wait),
    }


def steps(
    drive: float,
    readout: float,
    amplitude: Float[np.ndarray, " seed"],
    wait: Float[np.ndarray, " seed"],
    rate: float,
) -> Float[np.ndarray, " seed"]:
    """Of the first drop of each seed, from |c|, |p|, a₀ and min T_i."""
    return (np.log(readout / amplitude) / (2 * drive) + wait / readout) / (2 * rate)


def mode_amplitude(
    inner: Float[np.ndarray, "seed unit input"],
    outer: Float[np.ndarray, "seed unit"],
    direction: Float[np.ndarray, " input"],
) -> Float[np.ndarray, " seed"]:
    """a₀: of the sum and the difference of both layers only the sum grows."""
    return np.sum((outer + inner @ direction) ** 2, axis=1) / 4


def _first_head(data: Task, network: Stack, p: np.ndarray) -> np.ndarray:
    """min_i T_i: gradient flow of ⟨(y − p·x_q) (b·G k) (q·x_q)⟩ in b, k and q, with G = XXᵀ/N."""
    assert isinstance(network.unit, LinearHead)
    u, v = (np.asarray(weight) for weight in network.weights[:2])
    key, query = u[..., 0, 0, :], u[..., 1, 0, :-1]  # the query's label is zero and never read
    value = np.einsum("sobi,o->sib", v[:, :-1], p / np.linalg.norm(p))
    x_q, tokens = data.x[:, :-1, -1], data.x.shape[2] - 1
    gram = data.x @ data.x.transpose(0, 2, 1) / (tokens if network.unit.per_token else 1)
    left = data.y[:, 0] - x_q @ p
    drive = np.einsum("pab,pc->abc", gram, left[:, None] * x_q) / len(left)
    size = len(drive)

    def field(theta: np.ndarray) -> np.ndarray:
        b, k, q = np.split(theta, (size, 2 * size), axis=1)
        return np.concatenate(
            (
                np.einsum("abc,ib,ic->ia", drive, k, q),
                np.einsum("abc,ia,ic->ib", drive, b, q),
                np.einsum("abc,ia,ib->ic", drive, b, k),
            ),
            axis=1,
        )

    heads = np.concatenate((value, key, query), axis=-1)
    times, _ = blow_up(field, heads.reshape(-1, heads.shape[-1]), rtol=_RTOL)
    return times.reshape(heads.shape[:2]).min(axis=1)


def other_sample_claim(reading: Reading, drops: tuple[float, float], source: str) -> Claim:
    """What was reported of another sample asks for a correlation that samples of that size have.

    ⟨y x_q⟩ of P samples is normal, with variance ⟨y²x²⟩/P = 4/P for each of two inputs.
    """
    from scipy.optimize import brentq

    theory, parameters = reading.theory, reading.parameters
    amplitude, wait = theory["amplitude"].values, theory["wait"].values

    def lateness(size: float) -> float:
        here = steps(size, size, amplitude, wait, parameters.learning_rate)
        return float(np.mean(np.log(here)) - np.mean(np.log(drops)))

    needed: Any = brentq(lateness, 1e-3, 1.0)
    assert parameters.samples is not None
    return reading.compare(
        f"drops at {drops[0]:g} to {drops[1]:g} steps, reported of another data set, need a "
        "correlation that such data sets have: share of them in which it is larger",
        0.5,
        float(np.exp(-(needed**2) * parameters.samples / 8)),
        tolerance=0.495,
        source=source,
        note=f"|⟨y x_q⟩| = {needed:.2g}, here {float(theory['correlation']):.2g}; a two-sided test "
        "at one per cent",
    )
