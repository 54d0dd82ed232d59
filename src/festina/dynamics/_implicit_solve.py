r"""Solve $(\sigma + \partial^2 L)\,x = b$, once for each stage of an implicit step.

A layer is a sum over units, $f = \sum_i f_i(\theta_i)$. The Hessian of its loss is therefore a sum
of one block for each unit and a low-rank matrix that couples the units,

$$\partial^2 L = \mathrm{diag}_i(S_i) + J^\top J, \qquad
S_i = -\langle (y - f)\,\partial^2 f_i\rangle, \quad
J = \sqrt{w}\,(\partial f_1, \dots, \partial f_H),$$

with one row of $J$ for each (pseudo-)sample and output. Woodbury's identity needs only the inverses
of the blocks and of one matrix with as many rows as $J$, so the cost is linear in the width. A unit
of small weights has a small block and small rows of $J$. The solution for a small unit is accurate
relative to the size of this unit, because rounding errors of large units do not enter.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float

from .._objective import Data
from .._types import Array, Column, Number
from ..networks._contract import pair
from ..networks._structure import AbstractStructure, Structure
from ._program import Field

Solve = Callable[[Column], Column]
"""Function from b to the solution x, in every lane."""

# Largest matrix for which the elimination is unrolled when it is compiled.
_WRITTEN_OUT = 4


def implicit_solve(field: Field, weights: Column, shift: Number) -> Solve:
    """Return the function that solves for x, by units or by the whole Hessian if it is smaller."""
    if not isinstance(field.structure, Structure):
        return _as_one(hessian(field, weights), shift)
    blocks, rows = unit_curvature(field.structure, weights, field.data)
    if len(rows) < len(weights):
        return _by_units(blocks, rows, shift)
    return _as_one(assembled(blocks, rows), shift)


def derivatives_per_solve(structure: AbstractStructure) -> int:
    """Return the number of derivatives of the gradient in a Hessian: one per weight of a unit."""
    return structure.size // (structure.width if isinstance(structure, Structure) else 1)


def _by_units(
    blocks: Float[Array, "d d unit *lane"], rows: Float[Array, "row weight *lane"], shift: Number
) -> Solve:
    units, lanes = blocks.shape[1:], len(shift.shape)
    inverse = invert(blocks + shift * _eye(len(blocks), 1 + lanes))
    # B⁻¹Jᵀ, and the inverse of I + J B⁻¹Jᵀ.
    spread = jnp.einsum("ab...,rb...->ra...", inverse, rows.reshape(-1, *units))
    spread = spread.reshape(rows.shape)
    coupling = invert(pair(rows, spread) + _eye(len(rows), lanes))

    def solve(b: Column) -> Column:
        alone = jnp.sum(inverse * b.reshape(1, *units), axis=1).reshape(b.shape)
        read = jnp.einsum("rw...,w...->r...", rows, alone)
        back = jnp.einsum("rs...,s...->r...", coupling, read)
        return alone - jnp.einsum("r...,rw...->w...", back, spread)

    return solve


def _as_one(matrix: Float[Array, "weight weight *lane"], shift: Number) -> Solve:
    inverse = invert(matrix + shift * _eye(len(matrix), len(shift.shape)))
    return lambda b: jnp.einsum("wx...,x...->w...", inverse, b)


def hessian(field: Field, weights: Column) -> Float[Array, "weight weight *lane"]:
    """Return the Hessian of any network, from one derivative of the gradient for each weight."""
    along = _eye(len(weights), weights.ndim - 1) * jnp.ones_like(weights)
    slope = lambda direction: jax.jvp(lambda w: -field(w)[1], (weights,), (direction,))[1]
    return jax.vmap(slope)(along)


def assembled(
    blocks: Float[Array, "d d unit *lane"], rows: Float[Array, "row weight *lane"]
) -> Float[Array, "weight weight *lane"]:
    """Return the Hessian of a layer from the units' blocks and the coupling rows."""
    width, lanes = blocks.shape[2], blocks.ndim - 3
    same = jnp.eye(width).reshape(1, width, 1, width, *(1,) * lanes)
    diagonal = jnp.moveaxis(blocks, 2, 1)[:, :, :, None] * same
    gram = jnp.einsum("rw...,rx...->wx...", rows, rows)
    return diagonal.reshape(gram.shape) + gram


def unit_curvature(
    structure: Structure, weights: Column, data: Data
) -> tuple[Float[Array, "d d unit *lane"], Float[Array, "row weight *lane"]]:
    """Return the block S_i of every unit, over its d weights u and v, and the coupling rows J.

    Since f_i is linear in v_i, only derivatives by u are needed. Units do not interact in f_i, so
    one derivative along the a-th weight of all units at once gives the derivative of each unit.
    """
    width, lanes = structure.width, weights.shape[1:]
    samples, outputs = data.y.shape
    inputs = math.prod(structure.weight_shape)
    theta = weights.reshape(-1, width, *lanes)
    u, v = theta[:inputs], theta[inputs:].reshape(outputs, -1, width, *lanes)
    root = jnp.sqrt(data.weight)
    psi = data.psi * root.reshape(-1, *(1,) * (data.psi.ndim - 1))

    # For a response that is linear in ψ, differentiate the coefficients c(u), without samples.
    ahead = structure.unit.fixed_features
    reader = psi.reshape(samples * v.shape[1], -1)

    def code(u: Float[Array, "input unit *lane"]) -> Float[Array, "code unit *lane"]:
        shaped = u.reshape(*structure.weight_shape, *u.shape[1:])
        if ahead:
            return structure.unit.coefficients(shaped).reshape(-1, *u.shape[1:])
        responses = structure.unit.response(data.psi, shaped).reshape(samples, -1)
        return (root[:, None] * responses).reshape(-1, *u.shape[1:])

    def read(code: Float[Array, "code *rest"]) -> Float[Array, "sample read *rest"]:
        """Return √w φ(x; u_i), or a derivative of it."""
        read = jnp.tensordot(reader, code, 1) if ahead else code
        return read.reshape(samples, -1, *code.shape[1:])

    along = _eye(inputs, 1 + len(lanes)) * jnp.ones_like(u)
    forward = lambda function, out: jax.vmap(
        lambda e: jax.jvp(function, (u,), (e,))[1], out_axes=out
    )(along)
    r, slope = read(code(u)), read(forward(code, 1))  # (sample, read, …), (sample, read, input, …)
    f = jnp.einsum("sr...,or...->so...", r, v).sum(axis=2)
    e = (root[:, None] * data.y).reshape(samples, outputs, *(1,) * len(lanes)) - f

    wanted = jnp.einsum("so...,or...->sr...", e[:, :, None], v).reshape(-1, width, *lanes)
    wanted = jnp.tensordot(reader, wanted, ((0,), (0,))) if ahead else wanted
    s_uu = -forward(jax.grad(lambda u: jnp.sum(wanted * code(u))), 0)
    s_uv = -jnp.einsum("so...,sra...->aor...", e[:, :, None], slope)
    s_uv = s_uv.reshape(inputs, -1, width, *lanes)
    s_vv = jnp.zeros((s_uv.shape[1], *s_uv.shape[1:]))
    upper = jnp.concatenate((s_uu, s_uv), axis=1)
    lower = jnp.concatenate((jnp.swapaxes(s_uv, 0, 1), s_vv), axis=1)
    blocks = jnp.concatenate((upper, lower), axis=0)

    by_u = jnp.einsum("sra...,or...->soa...", slope, v)
    own = jnp.eye(outputs).reshape(1, outputs, outputs, *(1,) * (r.ndim - 1))
    by_v = (own * r[:, None, None]).reshape(samples, outputs, *s_vv.shape[1:])
    rows = jnp.concatenate((by_u, by_v), axis=2)
    return blocks, rows.reshape(samples * outputs, *weights.shape)


def invert(matrix: Float[Array, "n n *rest"]) -> Float[Array, "n n *rest"]:
    """Invert many small matrices at once, by Gauss–Jordan elimination without pivoting.

    A pivot is almost never exactly zero. With a pivot of zero, the error of the step is not finite
    and the step is rejected.
    """
    n = len(matrix)
    index = jnp.arange(n).reshape(-1, *(1,) * (matrix.ndim - 2))

    def eliminate(p: Any, a: Array) -> Array:
        here = index == p
        pivot = a[p, p]
        row, column = jnp.where(here, 1.0, a[p]) / pivot, a[:, p]
        a = jnp.where(here[None], 0.0, a) - column[:, None] * row[None]
        return jnp.where(here[:, None], row[None], a)

    # If unrolled, XLA would recompute early eliminations for each later one.
    if n > _WRITTEN_OUT:
        return jax.lax.fori_loop(0, n, eliminate, matrix)
    for p in range(n):
        matrix = eliminate(p, matrix)
    return matrix


def _eye(n: int, axes: int) -> Array:
    return jnp.eye(n).reshape(n, n, *(1,) * axes)
