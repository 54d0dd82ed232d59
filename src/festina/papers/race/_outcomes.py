r"""XoR or linear solution in a thousand networks, predicted by a race from their initial weights.

The task is XoR with a margin, x = (±1, ±1, Δy) and y = −x₁x₂, with loss ½⟨(y − f)²⟩ and τ = 1.

- While the output is small, ReLU units move independently of each other, and linearly as long as
  their gates stay the same. Each unit turns to one example or to a whole class. After turning, the
  strength of a unit grows as κe^{2st}, with s = |x|/4 for one example, |x| = √(2 + Δ²), and s = Δ/2
  for a class.
- A network with initial weights of scale σ therefore starts as six pathways (four examples, two
  classes) of strength π = σ²Σκ, summed over the units of a pathway.
- Let θ_k be the time integral of the residual of example k. A pathway of example k has strength
  π_ke^{|x|θ_k/2}, the pathway of a class with examples 1 and 2 has strength πe^{Δ(θ_1 + θ_2)/2}.
- The race ends where |x|π_ke^{|x|θ_k/2} + Δπe^{Δ(θ_1 + θ_2)/2} = 1 for both examples of the
  class. The two equations for the end of the race are solved without integration in time. The first
  term of the sum is χ, the share of XoR in the output.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float
from matplotlib.figure import Figure
from pydantic import Field

from ..._precision import compiled
from ..._types import Array, Keys
from ...dynamics import gradient_flow
from ...experiments._frame import Progress, Tables, make_run, parameters_of_run
from ...experiments._keys import Key, keys_from_parameters
from ...experiments._parameters import Parameters as BaseParameters
from ...experiments.claims import (
    ClaimCollector,
    agree,
    claims_from_source,
    follows_power_law,
    join_numbers,
    max_error_below,
    most_seeds,
)
from ...experiments.figures import (
    POINT_STYLE,
    diagonal,
    draw_collapse,
    label_axes,
    panels,
    phase_diagram,
    shades,
    styled,
)
from ...networks import fully_connected
from ...tasks import xor

_TIE = float(np.sqrt(2 / 3))
"""Margin Δ at which both rates are equal, Δ/2 = √(2 + Δ²)/4."""
_STEP, _STEPS = 0.1, 120  # after 12 τ 0.2 % of the units, all weak, are still turning
_SMALL = 1e-3
"""Largest σ at which every network has its transition within the range of margins."""
_DRAWS = 2000
"""Number of networks resampled from the units of all networks, to estimate the chance spread."""
_MARGINS, _SCALES = (0.6, 0.75, 0.9, 1.05), (1e-3, 1e-6)
"""Margins Δ and scales σ at which networks are trained."""


class Parameters(BaseParameters):
    """Grid of margins and scales, with the same networks at every point."""

    seeds: int = Field(default=1000, ge=50, le=20_000)
    """Number of networks at every point of the grid."""

    width: int = Field(default=64, ge=16, le=1024)
    """Number H of hidden units of each network."""

    points: int = Field(default=25, ge=9, le=101)
    """Number of margins Δ from 0.65 to 1.15, and of scales σ from 10⁻¹² to 10⁻²."""

    trained: int = Field(default=8, ge=2)
    """Number of networks that are also trained, at four margins and two scales."""


QUICK: dict[str, Any] = {"seeds": 200, "points": 13, "trained": 4}


@make_run("race/outcomes")
def run(parameters: Parameters, key: Key, progress: Progress) -> Tables:
    """Let units turn at each margin, solve the race from every scale, and train a few networks."""
    keys, points, found = keys_from_parameters(parameters, key), parameters.points, []
    margins, scales = np.linspace(0.65, 1.15, points), np.geomspace(1e-12, 1e-2, points)
    network = fully_connected(3, parameters.width, activation="relu", scale=1.0, key=keys)
    u, v = (np.asarray(part, float) for part in network.parts)
    for k, margin in enumerate(margins):
        progress(f"margin {margin:.3g}", 0.7 * k / points)
        kappa = _turned(u, v[..., 0], margin)
        strength = kappa.sum(axis=1)
        chi = _race(scales[:, None, None] ** 2 * strength, margin)
        found.append(_row(kappa, margin, chi))
    table = xr.concat(found, xr.Variable("margin", margins))
    progress("training", 0.7)
    few = keys[: parameters.trained]
    rows = [_trained(margin, parameters.width, few) for margin in _MARGINS]
    trained = xr.concat(rows, xr.Variable("margin", list(_MARGINS)))
    seed = parameters.seed + np.arange(len(keys))
    return {
        "map": table.assign_coords(scale=scales, seed=seed),
        "trained": trained.assign_coords(scale=list(_SCALES), seed=seed[: len(few)]),
    }


@compiled()
def _turning(
    u: Float[Array, "unit 3"],
    v: Float[Array, " unit"],
    x: Float[Array, "4 3"],
    y: Float[Array, " 4"],
) -> tuple[Array, Array]:
    """Integrate units independently of each other; each step is exact while gates stay the same."""

    def step(_: Any, unit: tuple[Array, Array]) -> tuple[Array, Array]:
        u, v = unit
        drive = ((u @ x.T > 0) * (y / 4)) @ x
        rate = jnp.linalg.norm(drive, axis=-1)
        n = drive / jnp.where(rate > 0, rate, 1.0)[:, None]
        along, c, s = jnp.sum(u * n, axis=-1), jnp.cosh(rate * _STEP), jnp.sinh(rate * _STEP)
        return u + n * ((c - 1) * along + s * v)[:, None], c * v + s * along

    return jax.lax.fori_loop(0, _STEPS, step, (u, v))


def _turned(
    u: Float[np.ndarray, "seed unit 3"], v: Float[np.ndarray, "seed unit"], margin: float
) -> Float[np.ndarray, "seed unit 6"]:
    """Return κ of every unit in the column of its pathway: four examples, classes y = 1 and −1."""
    x, y = _examples(margin)
    u, w = (np.asarray(part) for part in _turning(u.reshape(-1, 3), v.ravel(), x, y))
    own = np.sign(w)[:, None] == y
    on = u @ x.T > 0
    ready = on.any(axis=1) & ~(on & ~own).any(axis=1)
    alone = on.sum(axis=1) == 1
    n = on @ x
    along = np.sum(u * n, axis=1) / np.maximum(np.linalg.norm(n, axis=1), 1e-300)
    rate = np.where(alone, np.sqrt(2 + margin**2) / 4, margin / 2)
    kappa = ready * ((along + np.abs(w)) / 2) ** 2 * np.exp(-2 * rate * _STEP * _STEPS)
    place = np.where(alone, np.argmax(on, axis=1), np.where(w > 0, 4, 5))
    return (kappa[:, None] * (place[:, None] == np.arange(6))).reshape(*v.shape, 6)


def _examples(margin: float) -> tuple[np.ndarray, np.ndarray]:
    task = xor(margin)
    return np.asarray(task.x, float), np.asarray(task.y, float)[:, 0]


def _race(strength: Float[np.ndarray, "*batch 6"], margin: float) -> Float[np.ndarray, "*batch"]:
    """Return the final χ by Newton steps on a convex sum of exponentials."""
    length, y = np.sqrt(2 + margin**2), _examples(margin)[1]
    chi = np.zeros(strength.shape[:-1])
    for class_, place in ((1.0, 4), (-1.0, 5)):
        pi = np.maximum(strength[..., [*np.flatnonzero(y == class_), place]], 1e-300)
        alone = -np.log(length * pi[..., :2]) * 2 / length, -np.log(margin * pi[..., 2]) / margin
        theta = np.minimum(alone[0], alone[1][..., None])  # θ if one pathway learned alone
        for _ in range(30):
            one = length * pi[..., :2] * np.exp(length * theta / 2)
            all_ = margin * pi[..., 2] * np.exp(margin * theta.sum(axis=-1) / 2)
            left, a, b = 1 - one - all_[..., None], one * length / 2, all_ * margin / 2
            other = a[..., ::-1]
            det = a[..., 0] * a[..., 1] + b * a.sum(axis=-1)
            by = (other * left + b[..., None] * (left - left[..., ::-1])) / det[..., None]
            theta = theta + np.clip(by, -3, 3)
        chi += (length * pi[..., :2] * np.exp(length * theta / 2)).mean(axis=-1) / 2
    return chi


def _row(kappa: np.ndarray, margin: float, chi: np.ndarray) -> xr.Dataset:
    """Return the outcomes at one margin, with the statistics of units that the theory needs.

    - `per_unit`: mean strength of a pathway, divided by the number of units.
    - `varies`: standard deviation of the lead of linear pathways over networks whose units are
      drawn independently from the units of all networks.
    """
    units = kappa.reshape(-1, 6)
    means = units[:, :4].sum(axis=-1).mean(), units[:, 4:].sum(axis=-1).mean()
    drawn = np.random.default_rng(0).integers(len(units), size=(_DRAWS, kappa.shape[1]))
    strength = np.maximum(units[drawn].sum(axis=1), 1e-300)
    lead = _lead(strength[:, :4], strength[:, 4:], margin)
    return xr.Dataset(
        {
            "chi": (("scale", "seed"), chi),
            "per_unit": ("pathway", [means[0] / 4, means[1] / 2]),
            "varies": ((), lead[(strength > 1e-300).all(axis=1)].std()),
        },
        {"pathway": ["example", "class"]},
    )


def _lead(of_examples: Any, of_classes: Any, margin: float) -> np.ndarray:
    """Return the lead of linear pathways: θ of examples minus θ of classes, at half of the output.

    Pathways of strength π reach half of the output at |x|πe^{|x|θ/2} = 1/2 (an example) and at
    Δπe^{Δθ} = 1/2 (a class). θ is averaged over pathways of each kind.
    """
    length = np.sqrt(2 + margin**2)
    linear = np.log(2 * margin * of_classes).mean(axis=-1) / margin
    return linear - np.log(2 * length * of_examples).mean(axis=-1) * 2 / length


def _trained(margin: float, width: int, keys: Keys) -> xr.Dataset:
    """Train networks to convergence, and solve the race from their initial weights."""
    task, (x, y), scales = xor(margin), _examples(margin), np.array(_SCALES)
    network = fully_connected(3, width, activation="relu", scale=scales[:, None], key=keys)
    # The winning rate s is smallest where both rates are equal, s = _TIE/2. Strengths grow from
    # σ² to 1 as e^{2st}; the rest of the time is for convergence.
    times = np.array([0.0, (2 * np.log(1 / scales.min()) + 10) / _TIE])
    final = gradient_flow(network, task, times).network.predict(x * [1, 1, 0])[..., -1, :, 0]
    u, v = (np.asarray(part, float) for part in network.parts)
    strength = np.stack(
        [_turned(*pair, margin).sum(axis=1) for pair in zip(u, v[..., 0], strict=True)]
    )
    over = "scale", "seed"
    return xr.Dataset(
        {
            "seen": (over, (2 + margin**2) / 2 * np.mean(final * y, axis=-1)),
            "raced": (over, _race(strength, margin)),
        }
    )


@claims_from_source("Saxe, slides", "“Example: transition to nonlinearity”")
def claims(run: xr.DataTree, claim: ClaimCollector) -> None:
    """Check the predicted winners, and the margin at which each network has its transition."""
    width, trained = parameters_of_run(run, Parameters).width, run["trained"].ds
    data = run["map"].ds.sel(scale=slice(None, _SMALL))
    tie, spread, own = *_theory(data, width), _crossing(_against(data["chi"]))
    middle = own.median("seed")
    # Four standard errors of a mean are three of a median.
    few = data.sizes["seed"]
    within = 4 * float(spread.max()) / np.sqrt(few)
    wins = (trained[name] > 0.5 for name in ("seen", "raced"))
    claim(
        "winner",
        "the race from the initial weights of a network predicts whether its XoR or its linear "
        "pathways win in training",
        most_seeds(next(wins) == next(wins), 0.9, of="networks"),
        note=f"Δ = {join_numbers(_MARGINS)}, σ = {join_numbers(_SCALES)}",
    )
    claim(
        "winner-share",
        "the race from initial weights predicts χ, the share of XoR in the output, averaged over "
        "seeds",
        # The race keeps the direction of the pathway of a class. In training, this pathway turns if
        # its two examples have unequal strengths, which raises χ by about the tolerance.
        max_error_below(
            trained["seen"].mean("seed"), trained["raced"].mean("seed"), within=width**-0.5
        ),
        note="mean error over all networks: "
        f"{join_numbers((trained['seen'] - trained['raced']).mean().values, 2)}",
    )
    claim(
        "changeover-margin",
        "half of the networks turn from the XoR to the linear solution at the margin Δ where "
        "pathways of mean strength tie in the race",
        max_error_below(middle, tie, within=within),
        headline=True,
        note=f"{own.sizes['seed']} networks, σ up to {_SMALL:g}; Δ = "
        f"{join_numbers(tie.values[::6])}",
    )
    claim(
        "equal-rates",
        "the solution turns linear at the margin Δ = √(2/3), where XoR and linear pathways learn "
        f"at equal rates, σ = {float(tie['scale'][-1]):.2g}",
        agree(middle[-1], _TIE, within=within),
        wrong="Δ = √(2/3) is the limit of small weights; at finite σ XoR also wins at larger "
        "margins, because more units turn to examples than to classes",
        instead=agree(middle[-1], float(tie[-1]), within=within),
    )
    far = data["scale"] <= 1e-6
    size = np.log(1 / (width * data["scale"] ** 2))[far]
    claim(
        "approach-to-limit",
        "the margin of the transition approaches √(2/3) as 1/ln(1/Hσ²), H the number of hidden "
        "units, σ their initial scale",
        follows_power_law(size, (middle - _TIE)[far], -1.0, within=0.15),
        note="the next order is smaller by another factor 1/ln(1/Hσ²)",
    )
    claim(
        "spread-of-seeds",
        "networks differ in the margin of their transition because units join pathways by chance: "
        "networks of randomly drawn units have the same standard deviation",
        # Three standard errors, plus 0.05 for the neglected curvature of the race.
        agree(own.std("seed"), spread, within=0.05 + 3 / np.sqrt(2 * few), relative=True),
        note=f"standard deviations {join_numbers(own.std('seed').values[::6], 2)}",
    )


def _against(chi: xr.DataArray) -> xr.DataArray:
    """Return the logarithmic odds of a linear solution, which are smooth across the boundary."""
    chi = chi.clip(1e-12, 1 - 1e-12)
    return xr.DataArray(np.log((1 - chi) / chi))


def _theory(data: xr.Dataset, width: int) -> tuple[xr.DataArray, xr.DataArray]:
    """Return the margin at which pathways of mean strength tie, at each scale, and its spread."""
    pi = width * data["scale"] ** 2 * data["per_unit"].transpose("margin", "pathway")
    pi = pi.transpose("margin", "scale", "pathway")
    rows = zip(pi.values[..., :1], pi.values[..., 1:], data["margin"].values, strict=True)
    coordinates = {name: data[name] for name in ("margin", "scale")}
    lead = xr.DataArray(np.stack([_lead(*row) for row in rows]), coordinates, [*coordinates])
    tie = _crossing(lead)
    slope = lead.differentiate("margin").interp(margin=tie)
    return tie, data["varies"].interp(margin=tie) / slope


def _crossing(rising: xr.DataArray) -> xr.DataArray:
    """Return the margin at which a function first crosses zero upwards, NaN if it never does."""
    rising = rising.transpose("margin", ...)
    values, margin = rising.values, rising["margin"].values
    up = (values[:-1] < 0) & (values[1:] >= 0)
    at = np.argmax(up, axis=0)
    low, high = (np.take_along_axis(values, (at + k)[None], axis=0)[0] for k in (0, 1))
    found = margin[at] + np.diff(margin)[at] * low / np.minimum(low - high, -1e-300)
    return rising.isel(margin=0, drop=True).copy(data=np.where(up.any(axis=0), found, np.nan))


@styled
def draw(run: xr.DataTree) -> Figure:
    """Plot the map of winners, trained against predicted χ, and all scales on one curve."""
    width = parameters_of_run(run, Parameters).width
    data, trained = run["map"].ds, run["trained"].ds
    title = f"{data.sizes['seed']:,} networks of {width} ReLU units: XoR or linear"
    figure, (where, each, own) = panels(title, 3)
    won = (data["chi"] > 0.5).mean("seed").assign_attrs(long_name="share of XoR networks")
    won["margin"].attrs["long_name"] = "margin Δ"
    won["scale"].attrs["long_name"] = "initial weights σ"
    tie, spread = _theory(data, width)
    phase_diagram(where, won, tie, x="margin", cmap="RdBu", vmin=0, vmax=1)
    where.axvline(_TIE, color="white", lw=1.5, ls=":")
    where.set_title("dashed: race of mean strengths; dotted: equal rates")
    for margin, shade, label in shades(trained["margin"].values, "Δ ="):
        one = trained.sel(margin=margin)
        each.plot(
            one["raced"].values.ravel(), one["seen"].values.ravel(), **POINT_STYLE, color=shade
        )
        each.plot([], [], **POINT_STYLE, color=shade, label=label)
    diagonal(each, [0.0, 1.0])
    words = "share χ of XoR in the output, predicted from initial weights"
    label_axes(each, words, "share χ of XoR after training", "χ of every trained network")
    small = data.sel(scale=slice(None, _SMALL))
    small = small.isel(scale=slice(None, None, small.sizes["scale"] // 3))
    over = np.linspace(-3, 3, 61)
    apart_ = (_crossing(_against(small["chi"])) - tie) / spread
    from scipy.stats import norm

    apart_ = apart_.assign_coords(scale=[float(f"{sigma:.1g}") for sigma in small["scale"]])
    above = (apart_ > xr.DataArray(over, {"deviation": over}, ("deviation",))).mean("seed")
    normal = xr.DataArray(norm.sf(over), {"deviation": over}, ("deviation",))
    x = above["deviation"].assign_attrs(long_name="margin − boundary, in standard deviations")
    above.attrs["long_name"] = "share of XoR networks"
    draw_collapse(own, above, x, normal, over="scale", symbol="σ =")
    label_axes(own, title="all scales on one curve", theory="normal distribution")
    return figure
