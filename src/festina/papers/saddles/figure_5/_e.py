r"""Figure 5E: a linear transformer learns in-context regression with one head, then two.

Behind attention stand two linear layers. At small weights their product with a head is of fifth
order, and escape would take ε⁻³; what starts learning is the residual connection of Eq. (69), which
lets the query through to them, together with its correlation with the target, which is an accident
of a finite data set. Two controls show it: without the residual, or on a data set in which each
sequence also appears with the opposite sign of its task vector, nothing is learned in that time.

The first drop follows from that correlation and the initial weights: two waits, one after the
other. First the residual connection. With the two layers behind it, it is a two-layer linear
network on the query. The correlation $c = \langle y\,x_q\rangle$ of the sample drives its one mode,
$\dot a = 2a\,|c|(1 - a/|p|)$, towards the solution $p = \Sigma_{qq}^{-1} c$. Initial weights w and
W have the amplitude $a_0 = |m|^2$ in this mode, $m_i = \frac12(w_i + W_i\cdot\hat c)$, and the mode
is half-way at $t_0 = \ln(|p|/a_0)/2|c|$. Then a head. The two layers read it as
$(p\cdot V_i) X X^\top k_i\, q_i\cdot x_q$: a unit of three vectors $V_i^\top\hat p$, $k_i$ and
$q_i$, driven by the residual $y - p\cdot x_q$, which reaches infinity after a time $T_i/|p|$. So

$$t = t_0 + \min_i T_i/|p| - \delta,$$

inversely proportional to the correlation but for a logarithm. Two terms are smaller by
$\epsilon/\sqrt{|c|}$. The label of the query is zero, so that nothing drives the component of p
along the label; it keeps the initial weights, $\sqrt{|p|}\,\hat m\cdot W_y$, and belongs to p when
heads are read. And heads of size $\sqrt{|c|}$ make p grow in turn. In the clock $ds = a\,dt$ heads
do not depend on a, and $da/ds = 2(|c| - \sigma a + D)$, where $\sigma = |c|/|p|$ and D is the
correlation of the heads with the residual. A head that is at infinity after a further r has
$D = \gamma^{-2} r^{-3}$, with $\gamma$ the drive along its direction, and adds
$g = 2e^x E_3(x)/(\gamma r)^2$ to a, $x = 2\sigma r$. The drop is earlier by
$\delta = \int_0^\infty (1/|p| - 1/(|p| + g))\,dr$. The rest is of order $\epsilon^2/|c|$.

Times: flow of the loss in units of the paper's learning rate, t/η = n; descent is the same here.
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
_LARGEST_TERM = 0.1  # ε/√|c| up to which a first drop is predicted


class Parameters(DeepParameters):
    """Eq. (69) with two linear layers behind it, on the data of Figure 1F."""

    width: int = Field(default=10, ge=2)
    """Number of heads, and of units in the layer behind them."""

    samples: int | None = Field(default=8192, ge=256)
    """Size of the data set; in the population learning would take ε⁻³."""

    context: int = Field(default=32, ge=1)
    """Number N of labelled tokens in a sequence."""

    per_token: bool = True
    """Divide attention by the context length."""

    method: Literal["descent", "flow"] = "flow"
    """Gradient descent at the learning rate, or gradient flow on the same axis of steps, t/η."""

    max_steps: int = Field(default=5_000_000, ge=1)
    """Most steps of training for each seed."""


PRESETS: dict[str, dict[str, Any]] = {"raw": {"per_token": False}}
QUICK: dict[str, Any] = {"seeds": 4}


def _task(parameters: Parameters, key: Key) -> AbstractTask:
    if parameters.samples is None:
        raise ValueError(
            "`samples` must be a number, for example 8192: learning starts from a correlation that "
            "the population does not have."
        )
    p = parameters
    return in_context_regression(_DIMENSION, p.context, samples=p.samples, key=key)


def _network(parameters: Parameters, keys: Keys, *, residual: bool = True) -> DeepNetwork:
    p = parameters
    options: Any = {"per_token": p.per_token, "residual": residual, "scale": p.scale}
    return linear_transformer(_DIMENSION, p.width, (p.width, 1), key=keys, **options)


def _predict(parameters: Parameters, data: AbstractTask, network: DeepNetwork) -> dict[str, Any]:
    """Steps of the first drop, from the sample and the initial weights."""
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
    """Return m, with a₀ = |m|²: of the sum and the difference of both layers only the sum grows."""
    return (outer + inner @ direction) / 2


def _heads(
    data: Task, network: DeepNetwork, reads: Float[np.ndarray, "seed token"]
) -> tuple[Float[np.ndarray, "seed head"], Float[np.ndarray, "seed head"]]:
    """T_i and γ_i: gradient flow of ⟨(y − p·x_q) (b·G k) (q·x_q)⟩ in b, k and q, with G = XXᵀ/N."""
    assert isinstance(network.unit, LinearAttentionUnit)
    u, v = (np.asarray(weight) for weight in network.weights[:2])
    key, query = u[..., 0, 0, :], u[..., 1, 0, :-1]  # the query's label is zero and never read
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
    # θ = √3 u n at the end, where b, k and q have the same size u and u̇ = γu².
    gamma = np.sqrt(3) * np.sum(n * field(n), axis=1)
    return times.reshape(heads.shape[:2]), gamma.reshape(heads.shape[:2])


def advance(
    times: Float[np.ndarray, "seed head"],
    gamma: Float[np.ndarray, "seed head"],
    readout: float,
    sigma: float,
) -> Float[np.ndarray, " seed"]:
    """Return δ, by the trapezoidal rule in ln r; beyond x = 500 the integrand is zero."""
    from scipy.special import expn

    log_r = np.log(250 / sigma) + np.linspace(-30, 0, 601)
    r = np.exp(log_r) + (times - times.min(axis=1, keepdims=True))[..., None]
    x = np.minimum(2 * sigma * r, 500)
    g = np.sum(2 * np.exp(x) * expn(3, x) / (gamma[..., None] * r) ** 2, axis=1)
    return np.trapezoid(np.exp(log_r) * (1 / readout - 1 / (readout + g)), log_r, axis=1)


def _controls(
    parameters: Parameters, data: AbstractTask, keys: Keys, found: Tables, progress: Progress
) -> Tables:
    """How much of the loss is learned in the same time without what starts learning."""
    assert isinstance(data, Task)
    progress("controls", 0.0)
    simulation = found["simulation"]
    # By when every seed has made its first drop.
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
    if reading.staircases:  # nearer does not mean slower: a head that is alone goes on turning
        top, rest, _ = reading.theory["level"].values
        away = np.abs(reading.levels - rest)
        claim(
            "plateau-level",
            "the plateau is within a tenth of the fall before it of the minimum of the same "
            "network with one unit in every hidden layer",
            most_seeds(away <= 0.1 * (top - rest), 0.75),
            at="Theorem 1 and Corollary 2",
            note=f"minimum {rest:.6g}; {join_numbers(away, 2)} away",
        )
    size = float(reading.theory["correlation"])
    term = reading.parameters.scale / np.sqrt(size)
    if term <= _LARGEST_TERM:  # else heads are too large to wait for the residual connection
        started = "escape starts from the correlation ⟨y x_q⟩ of the sample"
        at = "Figure 5E; Proposition 5 for heads that the residual reads"
        panels.falls(reading, claim, float(f"{term:.2g}"), at, started)  # below the last term kept
        controls = reading.run["controls"].ds
        note = f"in {controls.attrs['steps']:.3g} steps; |⟨y x_q⟩| = {size:.2g} as drawn"
        for id, name, what, corrected in (
            (
                "residual-needed",
                "without_residual",
                "the residual connection of Eq. (69)",
                "it is needed",
            ),
            (
                "correlation-needed",
                "uncorrelated",
                "a correlation of target and query, as in the population,",
                started,
            ),
        ):
            words = f"without {what} nothing is learned by the time of the drops: share of the loss"
            judged = max_error_below(controls[name], within=1e-3)
            claim(id, words, judged, at="Figure 5E and Eq. (69)", corrected=corrected, note=note)
    panels.active(reading, claim, 0.75)


_TABLES = deep(_network, _predict, starts=8, converged=1e-3, also=_controls)
_DOTS: Any = {"drawn": {"key_query": 1, "rank": 0}, "symbol": "q"}
PANEL = Panel("5E", "linear transformer", Parameters, _task, _network, _TABLES, _asserts, **_DOTS)
run, claims, draw = PANEL.run, PANEL.claims, drawing(PANEL, aligned=True)
