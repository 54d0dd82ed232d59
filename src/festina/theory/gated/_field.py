"""Integrate the race of two-layer pathways, along fixed or rotating directions."""

import functools
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ._settle import settle

NOTHING = 1e-9
_LARGEST = 100.0
_DENSE = 200  # largest number of weights for a stiff solver with a dense Jacobian


@dataclass(frozen=True, eq=False)
class Field:
    """Examples and gates of two-layer pathways, and their gradients at given maps A_p B_pᵀ."""

    x: Float[np.ndarray, "sample input"]
    y: Float[np.ndarray, "sample output"]
    weight: Float[np.ndarray, " sample"]
    gates: Float[np.ndarray, "gating sample"]

    @property
    def power(self) -> float:
        """Mean squared norm of the targets, ⟨‖y‖²⟩."""
        return float(self.weight @ np.sum(self.y**2, axis=1))

    @functools.cached_property
    def seen(self) -> Float[np.ndarray, "sample gated_input"]:
        """Gated inputs of all pathways, concatenated along columns."""
        return (self.gates.T[:, :, None] * self.x[:, None]).reshape(len(self.x), -1)

    def pull(
        self, maps: Float[np.ndarray, "gating input output"]
    ) -> Float[np.ndarray, "gating input output"]:
        """Return E(p)ᵀ of every pathway: the correlation of its gated input with the residual."""
        left = self.y - self.seen @ maps.reshape(-1, self.y.shape[1])
        return (self.seen.T @ (self.weight[:, None] * left)).reshape(maps.shape)

    @functools.cached_property
    def correlation(self) -> Float[np.ndarray, "gating input output"]:
        """Σ^yx(p)ᵀ of every pathway, the correlation of its gated input with the targets."""
        return self.pull(np.zeros((len(self.gates), self.x.shape[1], self.y.shape[1])))

    def explained(
        self, maps: Float[np.ndarray, "gating input output"]
    ) -> Float[np.ndarray, " gating"]:
        """Return the decrease of the loss due to each pathway."""
        return np.sum(maps * (self.correlation + self.pull(maps)) / 2, axis=(1, 2))

    def modes(self, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return v, S and u of a pathway: singular vectors as rows, and singular values."""
        v, s, u = np.linalg.svd(self.correlation[k], full_matrices=False)
        largest = np.sqrt(self.power * np.sum(self.weight @ self.x**2))
        seen = s > NOTHING * np.abs(self.gates[k]).max() * largest
        return v.T[seen], s[seen], u[seen]


class Ran(NamedTuple):
    """Strength and contribution of each pathway over time."""

    time: Float[np.ndarray, " time"]
    strength: Float[np.ndarray, "time gating"]
    explained: Float[np.ndarray, "time gating"]
    held: bool


def held(
    field: Field,
    modes: list[tuple[np.ndarray, np.ndarray, np.ndarray]],
    starts: Float[np.ndarray, " gating"],
    rtol: float,
) -> Ran | None:
    """Integrate the strengths along fixed directions; return None if the directions rotate."""
    v, s, u = (np.concatenate(each) for each in zip(*modes, strict=True))
    owner = np.repeat(np.arange(len(modes)), [len(each) for _, each, _ in modes])
    of = (owner[:, None] == np.arange(len(modes))) * 1.0
    seen = field.gates[owner].T * (field.x @ v.T)
    overlap = (seen * field.weight[:, None]).T @ seen * (u @ u.T)
    strength = lambda z: np.exp(np.minimum(z, _LARGEST))  # finite in overshooting trial steps
    time, logs = settle(
        lambda _, z: 2 * (s - strength(z) @ overlap),
        np.log(starts)[owner],
        strength,
        rate=s.max(),
        rtol=rtol,
        atol=rtol,
    )
    pi = np.exp(logs)
    outer = (v[:, :, None] * u[:, None, :]).reshape(len(v), -1)
    shape = (len(modes), v.shape[1], u.shape[1])
    for each in pi[:: max(1, len(pi) // 100)]:
        pull = field.pull(((each[:, None] * of).T @ outer).reshape(shape))
        inward = np.einsum("aio,ao->ai", pull[owner], u)
        outward = np.einsum("aio,ai->ao", pull[owner], v)
        along = np.sum(inward * v, axis=1, keepdims=True)
        turning = np.hstack((inward - along * v, outward - along * u))
        if np.abs(turning).max() > NOTHING * s.max():
            return None
    return Ran(time, pi @ of, pi * (s - 0.5 * pi @ overlap) @ of, True)


def free(field: Field, starts: Float[np.ndarray, " gating"], rtol: float) -> Ran:
    """Integrate all weights of the pathways, from isotropic initial weights."""
    # Outputs outside the span of the targets are never driven: a basis of the targets is enough.
    _, size, basis = np.linalg.svd(np.sqrt(field.weight)[:, None] * field.y, full_matrices=False)
    field = replace(field, y=field.y @ basis[size > NOTHING * size[0]].T)
    n = field.x.shape[1]
    both = n + field.y.shape[1]
    shape = (len(starts), both, both)
    maps = lambda z: z[:, :n] @ z[:, n:].swapaxes(1, 2)

    def velocity(_: float, flat: np.ndarray) -> np.ndarray:
        z = flat.reshape(shape)
        pull = field.pull(maps(z))
        return np.concatenate((pull @ z[:, n:], pull.swapaxes(1, 2) @ z[:, :n]), axis=1).ravel()

    def observe(flat: np.ndarray) -> np.ndarray:
        found = maps(flat.reshape(shape))
        return np.stack((np.linalg.svd(found, compute_uv=False).sum(1), field.explained(found)))

    # A strength is half the squared norm along the growing direction (u, v)/√2: hence the 2.
    start = np.sqrt(2 * starts)[:, None, None] * np.eye(both)
    time, seen = settle(
        velocity,
        start.ravel(),
        lambda flat: np.sum(flat.reshape(len(starts), -1) ** 2, axis=1),
        observe,
        rate=max(field.modes(k)[1].max(initial=0.0) for k in range(len(starts))),
        explicit=start.size > _DENSE,
        rtol=rtol,
        atol=rtol * np.sqrt(starts.min()),
    )
    return Ran(time, seen[:, 0], seen[:, 1], False)
