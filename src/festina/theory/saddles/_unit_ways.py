r"""Ways of quadratic units to infinity, sorted into four kinds.

With $\tau = 2t$ and $w = \int v\,d\tau$ a unit is a particle on a concave hill,
$w'' = \frac12 F'(w)$ and $w'^2 = v^2 = F(w) = v_0^2 + \sum_k a_k^2(e^{2 s_k w} - 1)$. The time of
the unit is $\int dw/\sqrt F$ along its way. There are four kinds of way. Each kind has a coordinate
$y$ in which the integrand is smooth at turning points and where $F$ almost vanishes:

- `through`: $F > 0$ has a minimum at $w_c$ (both signs of $s_k$ occur). The coordinate is
  $w - w_c = \zeta\sinh y$.
- `bounce`: $F < 0$ around $w_c$, with a turning point at $w_1$. The coordinate is
  $w - w_c = (w_1 - w_c)\cosh y$, and $y$ changes sign when $v$ does.
- `wall`: only one sign of $s_k$ occurs, with a turning point at $w_1$. The coordinate is
  $w - w_1 = y^2$.
- `slope`: only one sign of $s_k$ occurs, without a turning point. The coordinate is $w = y$.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ._unit_hill import EPS, rise, summit, turning_distance, turning_point

# Parts of a unit or of the spectrum below this fraction of the whole are round-off.
ROUND_OFF = 8.0 * EPS

# The integral ends where the remaining way takes less than this fraction of 1/(|s|_max |θ|).
_TAIL = 1e-18


@dataclass(frozen=True, eq=False)
class Way:
    """Ways of one kind, mirrored such that each unit escapes towards w = +∞.

    The speed is v² = base + Σ_k [C_k (e^z − 1) − B_k z] with z = 2 s_k d and d = d(y), for y from
    `start` to `end`. `excess` is C − B, which is small compared with C and B near a double zero of
    F.
    """

    kind: Literal["through", "bounce", "wall", "slope"]
    unit: np.ndarray  # (n,) indices of these units among all units
    s: np.ndarray  # (n, mode)
    base: np.ndarray  # (n,)
    log_c: np.ndarray  # (n, mode)
    b: np.ndarray  # (n, mode)
    excess: np.ndarray  # (n, mode)
    scale: np.ndarray  # (n,) length in d(y)
    start: np.ndarray  # (n,)
    end: np.ndarray  # (n,)

    def __getitem__(self, rows: np.ndarray) -> "Way":
        return Way(
            self.kind,
            self.unit[rows],
            self.s[rows],
            self.base[rows],
            self.log_c[rows],
            self.b[rows],
            self.excess[rows],
            self.scale[rows],
            self.start[rows],
            self.end[rows],
        )


def ways(s: np.ndarray, a: np.ndarray, v: np.ndarray) -> list[Way]:
    """Return the ways of all units, sorted into the four kinds; omit units that never escape."""
    unit = np.arange(v.size)
    up, down = np.any(a[:, s > 0] > 0, axis=-1), np.any(a[:, s < 0] > 0, axis=-1)
    with np.errstate(divide="ignore"):
        log_a2 = 2.0 * np.log(a)

    # One sign of s: the hill is flat on the far side, and v² − Σ a² is the energy that remains when
    # a unit has climbed it.
    one = up ^ down
    mirror = np.where(up, 1.0, -1.0)
    left_over = v**2 - np.sum(a**2, axis=-1)
    turns = left_over < -ROUND_OFF * v**2
    wall = unit[one & turns]
    slope = unit[one & ~turns & (mirror * v > 0)]

    # Both signs: the hill has a summit at w_c; `height` is the energy of the unit above the summit.
    both = unit[up & down]
    centre = summit(s, log_a2[both])
    log_b = log_a2[both] + 2.0 * s * centre[:, None]
    climb = np.sum(rise(log_b, np.exp(log_b), 0.0, -2.0 * s * centre[:, None]), axis=-1)
    height = v[both] ** 2 - climb
    height = np.where(np.abs(height) > ROUND_OFF * np.maximum(v[both] ** 2, climb), height, 0.0)
    outward = v[both] * -centre > 0
    over = (height > 0) | ((height == 0) & outward)
    back = (height < 0) & (np.abs(centre) > ROUND_OFF)
    mirror[both] = np.where(over, np.sign(v[both]), -np.sign(centre))
    height, centre = np.abs(height), mirror[both] * centre

    s = mirror[:, None] * s
    v = mirror * v
    finish = _finish(s, log_a2)
    zero = np.zeros_like(a)
    ways = []
    if slope.size:
        c = a[slope] ** 2
        ways.append(
            Way(
                "slope", slope, s[slope], v[slope] ** 2, log_a2[slope], zero[slope], c,
                np.ones(slope.size), np.zeros(slope.size), finish[slope],
            )
        )  # fmt: skip
    if wall.size:
        d0 = turning_distance(s[wall], a[wall] ** 2, v[wall], np.full(wall.size, np.inf))
        log_c = log_a2[wall] - 2.0 * s[wall] * d0[:, None]
        ways.append(
            Way(
                "wall", wall, s[wall], np.zeros(wall.size), log_c, zero[wall], np.exp(log_c),
                np.ones(wall.size), np.sign(v[wall]) * np.sqrt(d0), np.sqrt(finish[wall] + d0),
            )
        )  # fmt: skip
    if over.any():
        i, x0, b = both[over], -centre[over], np.exp(log_b[over])
        curvature = np.sum(2.0 * s[i] ** 2 * b, axis=-1)
        # If F touches zero, ζ would be 0; a positive ζ is harmless because the unit moves away.
        zeta = np.maximum(np.sqrt(height[over] / curvature), EPS * np.abs(x0))
        ways.append(
            Way(
                "through", i, s[i], height[over], log_b[over], b, np.zeros_like(b), zeta,
                np.arcsinh(x0 / zeta), np.arcsinh((finish[i] + x0) / zeta),
            )
        )  # fmt: skip
    if back.any():
        i, x0, b = both[back], -centre[back], np.exp(log_b[back])
        d0, x1 = turning_point(s[i], a[i] ** 2, log_b[back], v[i], x0, height[back])
        excess = rise(log_b[back], 0.0, b, 2.0 * s[i] * x1[:, None])
        angle = lambda d: 2.0 * np.arcsinh(np.sqrt(d / (2.0 * x1)))
        ways.append(
            Way(
                "bounce", i, s[i], np.zeros(i.size), log_a2[i] - 2.0 * s[i] * d0[:, None], b,
                excess, x1, np.sign(v[i]) * angle(d0), angle(finish[i] + d0),
            )
        )  # fmt: skip
    return ways


def _finish(s: np.ndarray, log_a2: np.ndarray) -> np.ndarray:
    """Return w beyond which the remaining time, at most 1/(s_k a_k e^{s_k w}), is negligible."""
    with np.errstate(divide="ignore"):
        w = np.where(s > 0, (-np.log(_TAIL * np.abs(s)) - 0.5 * log_a2) / np.abs(s), np.inf)
    return w.min(axis=-1, initial=np.inf)
