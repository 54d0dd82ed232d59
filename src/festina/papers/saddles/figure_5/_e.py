r"""Figure 5E: a linear transformer learns in-context regression with one head, then two.

Two linear layers follow attention. At small weights, the product of a head and two layers is of
fifth order in the weights, and escape would take a time of order ε⁻³. Learning starts earlier
because of the residual connection of Eq. (69), which passes the query $x_q$ to the two layers. The
query correlates with the target only by chance, in a finite data set. Two controls show that
learning needs the residual connection and the chance correlation. Nothing is learned in the same
time without the residual connection, or for a data set in which each sequence also appears with the
opposite task vector.

The first drop follows from the chance correlation and the initial weights, in two stages.

First, the residual connection and the two layers form a two-layer linear network on the query. The
correlation $c = \langle y\,x_q\rangle$ of the sample drives its one mode,
$\dot a = 2a\,|c|(1 - a/|p|)$, towards the solution $p = \Sigma_{qq}^{-1} c$. Initial weights w and
W have the amplitude $a_0 = |m|^2$ in the mode, with $m_i = \frac12(w_i + W_i\cdot\hat c)$. The mode
is half learned at $t_0 = \ln(|p|/a_0)/2|c|$.

Second, a head grows. The two layers read the head as $(p\cdot V_i) X X^\top k_i\, q_i\cdot x_q$. A
head is thus a unit of three vectors $V_i^\top\hat p$, $k_i$ and $q_i$, driven by the residual
$y - p\cdot x_q$. The head reaches infinity after a time $T_i/|p|$. The first drop is therefore at

$$t = t_0 + \min_i T_i/|p| - \delta.$$

Up to a logarithm, the time of the first drop is inversely proportional to the correlation. Two
corrections of this time are smaller by a factor $\epsilon/\sqrt{|c|}$. First, the label of the
query is zero, so nothing drives the component of p along the label. The component along the label
keeps its initial weights, $\sqrt{|p|}\,\hat m\cdot W_y$, and is part of the p that reads the heads.
Second, heads of size $\sqrt{|c|}$ make p grow. In the clock $ds = a\,dt$ heads do not depend on a,
and $da/ds = 2(|c| - \sigma a + D)$. The constant is $\sigma = |c|/|p|$, and D is the correlation of
the heads with the residual. A head that reaches infinity after a remaining time r has $D =
\gamma^{-2} r^{-3}$, where $\gamma$ is the drive along its direction. The head adds $g = 2e^x
E_3(x)/(\gamma r)^2$ to a, with $x = 2\sigma r$. The drop is earlier by $\delta = \int_0^\infty
(1/|p| - 1/(|p| + g))\,dr$. Neglected terms are of order $\epsilon^2/|c|$.

Training is gradient flow on the loss. A time t is plotted as the number of steps t/η, where η is
the paper's learning rate. Gradient descent gives the same curves here.
"""

from typing import Any, Literal

import numpy as np
import xarray as xr
from jaxtyping import Float
from pydantic import Field

from ...._types import Keys
from ....dynamics import gradient_flow, loss_factor
from ....experiments._frame import Progress, Tables
from ....experiments._keys import Key
from ....experiments.claims import ClaimCollector, join_numbers, max_error_below, most_seeds
from ....networks import DeepNetwork, LinearAttentionUnit, linear_transformer
from ....tasks import AbstractTask, Task, from_arrays, in_context_regression
from .. import panels
from .._units_flow import blow_up
from ..panels import Panel, Reading
from ._deep import DeepParameters, deep, drawing

_DIMENSION = 2
_LARGEST_TERM = 0.1  # largest ε/√|c| for which the first drop is predicted


class Parameters(DeepParameters):
    """Parameters of Figure 5E: the attention of Eq. (69), two linear layers, data of Figure 1F."""

    width: int = Field(default=10, ge=2)
    """Number of attention heads, and of hidden units in the next layer."""

    samples: int | None = Field(default=8192, ge=256)
    """Number of sequences in the data set; the population would take a time of order ε⁻³."""

    context: int = Field(default=32, ge=1)
    """Number N of labelled tokens in a sequence."""

    per_token: bool = True
    """If true, divide attention by the context length N."""

    method: Literal["descent", "flow"] = "flow"
    """Training by gradient descent, or by gradient flow with time t plotted in steps t/η."""

    max_steps: int = Field(default=5_000_000, ge=1)
    """Maximal number of training steps per seed."""


PRESETS: dict[str, dict[str, Any]] = {"raw": {"per_token": False}}
QUICK: dict[str, Any] = {"seeds": 4}


def _task(parameters: Parameters, key: Key) -> AbstractTask:
    if parameters.samples is None:
        raise ValueError(
            "`samples` must be a number, for example 8192. Learning starts from a chance "
            "correlation of target and query, and the population has no such correlation."
        )
    p = parameters
    return in_context_regression(_DIMENSION, p.context, samples=p.samples, key=key)


def _network(parameters: Parameters, keys: Keys, *, residual: bool = True) -> DeepNetwork:
    p = parameters
    options: Any = {"per_token": p.per_token, "residual": residual, "scale": p.scale}
    return linear_transformer(_DIMENSION, p.width, (p.width, 1), key=keys, **options)


def _predict(parameters: Parameters, data: AbstractTask, network: DeepNetwork) -> dict[str, Any]:
    """Predict the step of the first drop from the sample and the initial weights."""
    assert isinstance(data, Task)
    query = data.x[:, :-1, -1]
    c = np.mean(data.y * query, axis=0)
    p = np.linalg.solve(query.T @ query / len(query), c)
    drive, readout = float(np.linalg.norm(c)), float(np.linalg.norm(p))
    _, _, inner, outer = (np.asarray(weight) for weight in network.weights)
    m = growing_mode(inner[..., :-1], outer[:, 0], c / drive)
    amplitude = np.linalg.norm(m, axis=1)
    label = np.sqrt(readout) * np.sum(m * inner[..., -1], axis=1) / amplitude
    reads = np.column_stack((np.broadcast_to(p, (len(label), p.size)), label))
    heads, gamma = _heads(data, network, reads)
    times = np.log(readout / amplitude**2) / (2 * drive) + heads.min(axis=1) / readout
    times -= advance(heads, gamma, readout, drive / readout)
    first = times / (loss_factor(parameters.loss, data) * parameters.learning_rate)
    return {
        "drop_step": (("seed", "fall"), np.stack((first, np.full_like(first, np.nan)), axis=1)),
        "correlation": ((), drive),
    }


def growing_mode(
    inner: Float[np.ndarray, "seed unit input"],
    outer: Float[np.ndarray, "seed unit"],
    direction: Float[np.ndarray, " input"],
) -> Float[np.ndarray, "seed unit"]:
    """Return m, with a₀ = |m|²: half the sum of both layers grows, their difference does not."""
    return (outer + inner @ direction) / 2


def _heads(
    data: Task, network: DeepNetwork, reads: Float[np.ndarray, "seed token"]
) -> tuple[Float[np.ndarray, "seed head"], Float[np.ndarray, "seed head"]]:
    """Return T_i and γ_i for the flow of ⟨(y − p·x_q) (b·G k) (q·x_q)⟩ in b, k, q; G = XXᵀ/N."""
    assert isinstance(network.unit, LinearAttentionUnit)
    u, v = (np.asarray(weight) for weight in network.weights[:2])
    key, query = u[..., 0, 0, :], u[..., 1, 0, :-1]  # the query's label is zero and unused
    p = reads[0, :-1]
    value = np.einsum("sobi,so->sib", v, reads / np.linalg.norm(p))
    x_q, tokens = data.x[:, :-1, -1], data.x.shape[2] - 1
    gram = data.x @ data.x.transpose(0, 2, 1) / (tokens if network.unit.per_token else 1)
    left = data.y[:, 0] - x_q @ p
    drive = np.einsum("pab,pc->abc", gram, left[:, None] * x_q) / len(left)
    size = len(drive)

    def field(theta: np.ndarray) -> np.ndarray:
        b, k, q = np.split(theta, (size, 2 * size), axis=1)
        by_b = np.einsum("abc,ib,ic->ia", drive, k, q)
        by_k = np.einsum("abc,ia,ic->ib", drive, b, q)
        return np.concatenate((by_b, by_k, np.einsum("abc,ia,ib->ic", drive, b, k)), axis=1)

    heads = np.concatenate((value, key, query), axis=-1)
    times, passed = blow_up(field, heads.reshape(-1, heads.shape[-1]), rtol=1e-6)
    n = passed[:, -1]
    # At the end θ = √3 u n: b, k and q have the same size u, and u̇ = γu².
    gamma = np.sqrt(3) * np.sum(n * field(n), axis=1)
    return times.reshape(heads.shape[:2]), gamma.reshape(heads.shape[:2])


def advance(
    times: Float[np.ndarray, "seed head"],
    gamma: Float[np.ndarray, "seed head"],
    readout: float,
    sigma: float,
) -> Float[np.ndarray, " seed"]:
    """Return δ by the trapezoidal rule in ln r; beyond x = 500 the integrand vanishes."""
    from scipy.special import expn

    log_r = np.log(250 / sigma) + np.linspace(-30, 0, 601)
    r = np.exp(log_r) + (times - times.min(axis=1, keepdims=True))[..., None]
    x = np.minimum(2 * sigma * r, 500)
    g = np.sum(2 * np.exp(x) * expn(3, x) / (gamma[..., None] * r) ** 2, axis=1)
    return np.trapezoid(np.exp(log_r) * (1 / readout - 1 / (readout + g)), log_r, axis=1)


def _controls(
    parameters: Parameters, data: AbstractTask, keys: Keys, found: Tables, progress: Progress
) -> Tables:
    """Return the share of the loss learned in the same time under each of the two controls."""
    assert isinstance(data, Task)
    progress("training controls", 0.0)
    simulation = found["simulation"]
    # The step by which every seed has made its first drop.
    waits = simulation["loss"] >= 0.5 * simulation["loss"].isel(save=0)
    steps = float(simulation["step"].where(waits).max())
    opposite = data.x * np.array([1.0] * _DIMENSION + [-1.0])[:, None]
    mirrored = from_arrays(np.concatenate((data.x, opposite)), np.concatenate((data.y, -data.y)))
    end, learned = steps * parameters.learning_rate, {}
    cases = {"without_residual": (data, False), "uncorrelated": (mirrored, True)}
    for name, (sequences, residual) in cases.items():
        network = _network(parameters, keys, residual=residual)
        flow = gradient_flow(network, sequences, loss=parameters.loss, t_end=end)
        learned[name] = "seed", 1 - flow.loss[:, -1] / flow.loss[:, 0]
    return {"controls": xr.Dataset(learned, attrs={"steps": steps})}


def _asserts(reading: Reading, claim: ClaimCollector) -> None:
    panels.count(reading, claim, 0.75)
    if reading.staircases:  # not bound by the rate: a single head keeps turning
        top, rest, _ = reading.theory["level"].values
        away = np.abs(reading.levels - rest)
        claim(
            "plateau-level",
            "the plateau loss is near the minimum of the network with one unit in every hidden "
            "layer, within a tenth of the first drop",
            most_seeds(away <= 0.1 * (top - rest), 0.75),
            at="Theorem 1 and Corollary 2",
            note=f"minimum {rest:.6g}; distances {join_numbers(away, 2)}",
        )
    size = float(reading.theory["correlation"])
    term = reading.parameters.scale / np.sqrt(size)
    if term <= _LARGEST_TERM:  # else heads grow before the residual connection has learned
        started = "learning starts from the chance correlation ⟨y x_q⟩ of target y and query x_q"
        at = "Figure 5E; Proposition 5 for heads that the residual reads"
        panels.falls(reading, claim, float(f"{term:.2g}"), at, started)  # size of corrections
        controls = reading.run["controls"].ds
        note = f"within {controls.attrs['steps']:.3g} steps; sample correlation {size:.2g}"
        for id, name, what, corrected in (
            (
                "residual-needed",
                "without_residual",
                "the residual connection of Eq. (69)",
                "the residual connection is needed",
            ),
            (
                "correlation-needed",
                "uncorrelated",
                "a correlation of target and query, as in the population,",
                started,
            ),
        ):
            words = f"without {what} the loss does not drop in the same time (relative drop)"
            judged = max_error_below(controls[name], within=1e-3)
            claim(id, words, judged, at="Figure 5E and Eq. (69)", corrected=corrected, note=note)
    panels.active(reading, claim, 0.75)


_TABLES = deep(_network, _predict, starts=8, converged=1e-3, also=_controls)
_DOTS: Any = {"drawn": {"key_query": 1, "rank": 0}, "symbol": "query weight q"}
PANEL = Panel("5E", "linear transformer", Parameters, _task, _network, _TABLES, _asserts, **_DOTS)
run, claims, draw = PANEL.run, PANEL.claims, drawing(PANEL, aligned=True)
