"""Moves of many chains at once: Hamiltonian moves with an acceptance test, or Langevin moves."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, UInt32

from ..._types import Array
from ._extra import needed
from ._model import Data, Model, loss, potential

_GAIN = 0.02  # change of the log step size for each move that is accepted with certainty

KIND = "threefry2x32"  # kind of random keys, which gives the same numbers on every machine


class Chains(NamedTuple):
    """State of all chains, from which sampling continues with identical results.

    - `position`: whitened weights of each chain.
    - `momentum`: momentum of Langevin chains; empty for Hamiltonian chains, which draw it anew.
    - `log_step`: logarithm of the step size of each chain.
    - `words`: integers that make up each chain's random key; the key of a move also depends on its
      number.
    - `move`: number of moves so far.
    """

    position: Float[Array, "chain weight"]
    momentum: Float[Array, "chain _"]
    log_step: Float[Array, " chain"]
    words: UInt32[Array, "chain _"]
    move: Int[Array, ""]


class Settings(NamedTuple):
    """Settings of the plan as arrays, so that other values need no compilation."""

    temperature: Array
    hottest: Array
    anneal: Array
    warm: Array
    leapfrog: Array
    jitter: Array
    friction: Array
    acceptance: Array


Target = Callable[[Array], Array]
_Moved = tuple[Array, Array, Array, Array]  # position, momentum, acceptance, whether it diverged


def hamiltonian(
    key: Array, position: Array, momentum: Array, target: Target, step: Array, settings: Settings
) -> _Moved:
    """Make one move of Hamiltonian Monte Carlo with unit masses (BlackJAX)."""
    hmc = needed("blackjax.mcmc.hmc")
    start = hmc.init(position, target)
    masses = jnp.ones_like(position)
    end, info = hmc.build_kernel()(key, start, target, step, masses, settings.leapfrog)
    return end.position, momentum, info.acceptance_rate, info.is_divergent


def langevin(
    key: Array, position: Array, momentum: Array, target: Target, step: Array, settings: Settings
) -> _Moved:
    r"""Make `leapfrog` steps of $\ddot\theta = -\nabla V - \gamma\dot\theta + \sqrt{2\gamma}\,\xi$.

    Half a step of friction and noise comes before and after each leapfrog step. A Langevin move is
    rejected only if its weights are not finite. The returned acceptance is the probability with
    which the test of Hamiltonian moves would accept; it measures the error due to the step size.
    """
    slope = jax.value_and_grad(target)
    kept = jnp.exp(-0.5 * settings.friction * step)
    drawn = jnp.sqrt(1.0 - kept**2)

    def one(k: Array, carry: tuple) -> tuple:
        x, p, level, g, accepted = carry
        first, second = jax.random.normal(jax.random.fold_in(key, k), (2, *p.shape), p.dtype)
        p = kept * p + drawn * first
        before = level - 0.5 * jnp.sum(p**2)
        p = p + 0.5 * step * g
        x = x + step * p
        level, g = slope(x)
        p = p + 0.5 * step * g
        after = level - 0.5 * jnp.sum(p**2)
        accepted = accepted + jnp.exp(jnp.minimum(after - before, 0.0))
        return x, kept * p + drawn * second, level, g, accepted

    level, g = slope(position)
    start = (position, momentum, level, g, jnp.zeros_like(level))
    x, p, level, _, accepted = jax.lax.fori_loop(0, settings.leapfrog, one, start)
    broken = ~(jnp.isfinite(level) & jnp.all(jnp.isfinite(x)) & jnp.all(jnp.isfinite(p)))
    share = jnp.where(broken, 0.0, accepted / settings.leapfrog)
    return jnp.where(broken, position, x), jnp.where(broken, momentum, p), share, broken


@functools.partial(jax.jit, static_argnames=("model", "method"))
def advance(
    model: Model, method: str, data: Data, settings: Settings, chains: Chains, stop: Array
) -> tuple[Chains, dict[str, Float[Array, " chain"]]]:
    """Move all chains up to the move number `stop`, and return their log entries."""
    dtype = chains.position.dtype
    kernel = hamiltonian if method == "hmc" else langevin

    def move(number: Array, carry: tuple) -> tuple:
        chains, seen = carry
        share = jnp.clip((number + 1) / jnp.maximum(settings.anneal, 1), 0.0, 1.0)
        ratio = settings.temperature / settings.hottest
        temperature = (settings.hottest * ratio**share).astype(dtype)
        target = lambda position: -potential(model, data, temperature, position)

        def one(words: Array, position: Array, momentum: Array, log_step: Array) -> tuple:
            key = jax.random.fold_in(
                jax.random.wrap_key_data(jnp.asarray(words), impl=KIND), number
            )
            first, second = jax.random.split(key)
            low, high = 1.0 - settings.jitter, 1.0 + settings.jitter
            step = jnp.exp(log_step) * jax.random.uniform(first, (), dtype, low, high)
            return step, kernel(second, position, momentum, target, step, settings)

        step, (position, momentum, accepted, divergent) = jax.vmap(one)(
            chains.words, chains.position, chains.momentum, chains.log_step
        )
        settled = jnp.maximum(number - settings.anneal, 0)
        gain = jnp.where(number < settings.warm, _GAIN / (1.0 + settled / 50.0), 0.0)
        excess = (accepted - settings.acceptance) / (1.0 - settings.acceptance)
        log_step = chains.log_step + gain.astype(dtype) * jnp.maximum(excess, -4.0)
        chains = chains._replace(position=position, momentum=momentum, log_step=log_step)
        new = jnp.stack((accepted, divergent, step * settings.leapfrog))
        return chains, seen + new.astype(dtype)

    none = jnp.zeros((3, len(chains.log_step)), dtype)
    chains, seen = jax.lax.fori_loop(chains.move, stop, move, (chains, none))
    accepted, divergent, duration = seen
    cold = functools.partial(potential, model, data, settings.temperature)
    note = {
        "loss": jax.vmap(functools.partial(loss, model, data))(chains.position),
        "potential": jax.vmap(cold)(chains.position),
        # `chains.move` is still the number of moves before this call.
        "acceptance": accepted / jnp.maximum(stop - chains.move, 1),
        "divergent": divergent,
        "duration": duration,
    }
    return chains._replace(move=stop), note
