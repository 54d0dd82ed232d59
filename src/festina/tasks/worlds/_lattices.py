"""Chains, rings, grids and tori: worlds on lattices, whose modes are waves."""

import itertools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ..._checks import whole_number
from ._graphs import check_process, circle, markov_covariance
from ._world import ModeGroup, World, cosines, world


def chain(items: int, *, coupling: float = 1.0, precision: float = 1.0) -> World:
    r"""Return a world of items in a row with free ends.

    The process is the Markov random field of `graph` on a path. The modes are cosines (DCT-II) with
    the eigenvalues

    $$c_k = \frac1{g + 2w\,(1 - \cos\frac{\pi k}P)}.$$

    **Arguments:**

    - `items`: number $P$ of items.
    - `coupling`: weight $w$ of the edges between neighbours.
    - `precision`: $g = 1/\sigma^2 > 0$, which bounds the overall level of a feature.

    **Returns:**

    A `World` with one kind of modes for each number of half waves $k$.

    **Example:**

    >>> from festina.tasks.worlds import chain
    >>> chain(3).eigenvalues
    array([1.  , 0.5 , 0.25])
    """
    items = whole_number("items", items, 1)
    position = np.stack([np.arange(items) - (items - 1) / 2, np.zeros(items)], axis=1)
    return _lattice("chain", (items,), False, coupling, precision, position)


def ring(items: int, *, coupling: float = 1.0, precision: float = 1.0) -> World:
    r"""Return a world of items on a closed ring, like the hours of a day.

    The process is the Markov random field of `graph` on a cycle. The modes are Fourier waves with
    the eigenvalues

    $$c_k = \frac1{g + 2w\,(1 - \cos\frac{2\pi k}P)}.$$

    **Arguments:**

    - `items`: number $P$ of items, at least 3.
    - `coupling`: weight $w$ of the edges between neighbours.
    - `precision`: $g = 1/\sigma^2 > 0$, which bounds the overall level of a feature.

    **Returns:**

    A `World` with one kind of modes for each number of waves $k = 0, \dots, \lfloor P/2\rfloor$.
    Each kind has a cosine and a sine, except k = 0 and k = P/2, which have a cosine only.

    **Example:**

    >>> from festina.tasks.worlds import ring
    >>> world = ring(4)
    >>> world.eigenvalues
    array([1.        , 0.33333333, 0.33333333, 0.2       ])
    >>> world.multiplicities
    array([1, 2, 1])
    """
    items = whole_number("items", items, 3)
    position = circle(2 * np.pi * np.arange(items) / items)
    return _lattice("ring", (items,), True, coupling, precision, position)


def grid(rows: int, columns: int, *, coupling: float = 1.0, precision: float = 1.0) -> World:
    r"""Return a world of items on a rectangular lattice with free edges.

    The process is the Markov random field of `graph` on a square lattice. The modes are products of
    two cosines, with k and l half waves and the eigenvalues

    $$c_{kl} = \frac1{g + 2w\,(1 - \cos\frac{\pi k}{P_1}) + 2w\,(1 - \cos\frac{\pi l}{P_2})}.$$

    **Arguments:**

    - `rows`, `columns`: numbers $P_1, P_2$; item $iP_2 + j$ is in row $i$ and column $j$.
    - `coupling`: weight $w$ of the edges between neighbours.
    - `precision`: $g = 1/\sigma^2 > 0$, which bounds the overall level of a feature.

    **Returns:**

    A `World` with one kind of modes for each pair $(k, l)$.

    **Example:**

    >>> from festina.tasks.worlds import grid
    >>> [(kind.name, round(kind.eigenvalue, 3)) for kind in grid(2, 2).kinds]
    [('wave 0, 0', 1.0), ('wave 0, 1', 0.333), ('wave 1, 0', 0.333), ('wave 1, 1', 0.2)]
    """
    rows = whole_number("rows", rows, 1)
    columns = whole_number("columns", columns, 1)
    return _lattice("grid", (rows, columns), False, coupling, precision, _plane(rows, columns))


def torus(rows: int, columns: int, *, coupling: float = 1.0, precision: float = 1.0) -> World:
    r"""Return a world of items on a rectangular lattice whose opposite edges are joined.

    The eigenvalues $c_{kl}$ are those of `grid` with $2\pi$ in place of $\pi$.

    **Arguments:**

    - `rows`, `columns`: numbers $P_1, P_2 \ge 3$; item $iP_2 + j$ is in row $i$ and column $j$.
    - `coupling`: weight $w$ of the edges between neighbours.
    - `precision`: $g = 1/\sigma^2 > 0$, which bounds the overall level of a feature.

    **Returns:**

    A `World` with one kind for each pair of wave numbers $(k, l)$, of one, two or four modes. The
    `position` puts items on a plane rectangle, where joined edges lie far apart.

    **Example:**

    >>> from festina.tasks.worlds import torus
    >>> world = torus(3, 3)
    >>> world.multiplicities
    array([1, 2, 2, 4])
    """
    rows = whole_number("rows", rows, 3)
    columns = whole_number("columns", columns, 3)
    return _lattice("torus", (rows, columns), True, coupling, precision, _plane(rows, columns))


class _Wave(NamedTuple):
    """Waves along one axis: their number, eigenvalue of the Laplacian with w = 1, and phases."""

    number: int
    stiffness: float
    phases: Float[np.ndarray, "item phase"]


def _lattice(
    name: str,
    shape: tuple[int, ...],
    periodic: bool,
    coupling: float,
    precision: float,
    position: Float[np.ndarray, "item 2"],
) -> World:
    """Return the world of a product of axes, whose Laplacians add up and whose modes multiply."""
    precision, coupling = check_process(precision, coupling)
    weights = np.zeros((1, 1))
    for size in shape:
        axis = _neighbours(size, periodic)
        weights = np.kron(weights, np.eye(size)) + np.kron(np.eye(len(weights)), axis)
    axes = [_fourier(size) if periodic else _half_waves(size) for size in shape]
    kinds = []
    for waves in itertools.product(*axes):
        modes = np.ones((1, 1))
        for wave in waves:
            modes = np.kron(modes, wave.phases)
        numbers = ", ".join(str(wave.number) for wave in waves)
        stiffness = math.fsum(wave.stiffness for wave in waves)
        kinds.append(ModeGroup(f"wave {numbers}", 1 / (precision + coupling * stiffness), modes))
    return world(
        f"{name} of {' × '.join(map(str, shape))}, w = {coupling:g}, g = {precision:g}",
        markov_covariance(coupling * weights, precision),
        kinds,
        position=position,
    )


def _neighbours(size: int, periodic: bool) -> Float[np.ndarray, "item item"]:
    step = np.eye(size, k=1)
    if periodic:
        step[-1, 0] = 1.0
    return step + step.T


def _half_waves(size: int) -> list[_Wave]:
    modes = cosines(size)
    return [
        _Wave(k, 2 * (1 - math.cos(math.pi * k / size)), modes[:, k : k + 1]) for k in range(size)
    ]


def _fourier(size: int) -> list[_Wave]:
    angle = 2 * np.pi * np.arange(size) / size
    waves = []
    for k in range(size // 2 + 1):
        phases = np.sqrt(2 / size) * np.stack([np.cos(k * angle), np.sin(k * angle)], axis=1)
        if k in (0, size / 2):  # the sine is zero, and the cosine is ±1
            phases = phases[:, :1] / np.sqrt(2)
        waves.append(_Wave(k, 2 * (1 - math.cos(2 * math.pi * k / size)), phases))
    return waves


def _plane(rows: int, columns: int) -> Float[np.ndarray, "item 2"]:
    i, j = np.divmod(np.arange(rows * columns), columns)
    return np.stack([j - (columns - 1) / 2, (rows - 1) / 2 - i], axis=1)
