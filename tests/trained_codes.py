"""Networks with a code known from theory, trained by annealed Langevin dynamics.

Whitened weights have momenta, friction and noise (ABOBA: leapfrog with noise in the middle). The
temperature T falls from 1 to its final value and stays there, so that the final weights are a draw
from the posterior.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import erf

from planted_codes import TRUTH, labels_of

PHI = {
    "linear": lambda z: z,
    "erf": lambda z: erf(jnp.sqrt(jnp.pi) / 2 * z),
    "erf-sigmoid": lambda z: (1 + erf(jnp.sqrt(jnp.pi) / 2 * z)) / 2,
    "relu": lambda z: jnp.maximum(z, 0),
}


@partial(jax.jit, static_argnames=("activation", "width", "lazy", "steps"))
def trained(activation, x, y, key, *, width, temperature, lazy=False, steps=8_000):
    """Return activities `(example, unit)` before and after training, and the mean squared error."""
    spread, size = (1.0, width**-0.5) if lazy else (len(x) ** -0.5, 1 / width)
    sharp = 1.0 if lazy else width
    hidden = lambda w: PHI[activation](x @ w.T)
    missed = lambda q: y - size * spread * hidden(q[1]) @ q[0]
    energy = lambda q, t: sum((w**2).sum() for w in q) / 2 + sharp * (missed(q) ** 2).sum() / 2 / t
    force = jax.grad(energy)
    add = lambda a, b, s: jax.tree.map(lambda u, v: u + s * v, a, b)
    draw = lambda key: tuple(
        jax.random.normal(k, shape)
        for k, shape in zip(
            jax.random.split(key), ((width, y.shape[1]), (width, x.shape[1])), strict=True
        )
    )

    def step(state, now):
        (q, p), (t, key) = state, now
        dt = 0.25 * jnp.sqrt(t)
        q = add(q, p, dt / 2)
        kick, kept = force(q, t), jnp.exp(-dt)
        p = add(p, kick, -dt / 2)
        p = jax.tree.map(lambda u, n: kept * u + jnp.sqrt(1 - kept**2) * n, p, draw(key))
        p = add(p, kick, -dt / 2)
        return (add(q, p, dt / 2), p), None

    first, *keys = jax.random.split(key, 3)
    q = draw(first)
    cooled = jnp.geomspace(1.0, temperature, 2 * steps // 3)
    t = jnp.concatenate([cooled, jnp.full(steps - len(cooled), temperature)])
    (after, _), _ = jax.lax.scan(step, (q, draw(keys[0])), (t, jax.random.split(keys[1], steps)))
    return hidden(q[1]), hidden(after[1]), (missed(after) ** 2).mean()


def task(rng, sizes, other, clusters):
    """Return orthogonal inputs or a cluster of inputs per class, targets y₊, y₋, and classes."""
    which, m = labels_of(sizes), len(sizes)
    x = np.eye(len(which))
    if clusters:
        x = rng.standard_normal((m, 60))[which] + clusters * rng.standard_normal((len(which), 60))
        x = x - x.mean(axis=0)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = other + (1 - other) * np.eye(m)[which]
    return x, y, which


def cases(number):
    """Yield expected code, activities, classes, inputs and description of networks and controls."""
    rng = np.random.default_rng([22, number])
    activation = tuple(TRUTH)[number % 4]
    clusters = float(rng.uniform(1.0, 2.5)) if number // 4 % 3 == 2 else 0.0
    m = int(rng.choice([2, 3, 5, 10]))
    examples = int(rng.integers(max(45, 8 * m), 121))
    share = np.ones(m) if rng.integers(2) else rng.uniform(0.5, 1.5, m)
    sizes = np.maximum(np.round(examples * share / share.sum()).astype(int), 4)
    width = int(np.exp(rng.uniform(np.log(100), np.log(400))))
    other = -1 / (m - 1) if clusters or rng.integers(2) else 0.0
    spread = {"erf": 0.4185, "erf-sigmoid": 0.1046}.get(activation, 1.0)
    melts = np.sqrt(spread * min(sizes) / sum(sizes))
    temperature = float(melts * np.exp(rng.uniform(np.log(0.02), np.log(0.2))))
    x, y, which = task(rng, sizes, other, clusters)
    how = f"{number} {activation} m={m} P={len(x)} N={width} T={temperature:.3g} y-={other:.2g} "
    how += f"clusters {clusters:.1f}" if clusters else f"{sizes.tolist()}"
    key = jax.random.key(number, impl="rbg")
    given = {"width": width, "temperature": temperature}
    before, after, _ = trained(activation, x, y, key, **given)
    lazy = trained(activation, x, y, key, **given, lazy=True)[1]
    gains = rng.lognormal(0, 0.3, width)
    if activation != "relu" or not clusters:  # no theory for this case
        yield TRUTH[activation], after, which, x, f"{how} trained"
        yield TRUTH[activation], after * gains, which, x, f"{how} gains"
    yield "none", after, rng.permutation(which), x, f"{how} shuffled"
    yield "none", before, which, x, f"{how} random"
    yield "none", lazy, which, x, f"{how} lazy"
