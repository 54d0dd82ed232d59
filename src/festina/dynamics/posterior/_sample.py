"""`sample` and `resume`: chains to their end, or to where they were interrupted."""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from ..._run import load, save
from ..._types import Keys
from ...networks._bayesian import Scaling, checked_scaling, readout_variance_of
from ...networks._code_activations import CodeActivation, code_activation
from ...networks._given import whole_number
from ...tasks import AbstractTask
from ...tasks._classes import examples_of
from .._worker import Progress
from ._model import Data, Model, reduce
from ._moves import KIND, Chains, Note, Settings, advance
from ._notes import oddities
from ._plan import Method, Plan, plan
from ._posterior import Posterior

if TYPE_CHECKING:
    import xarray as xr

Precision = Literal["double", "single"]

_EVERY = 60.0  # seconds between two savings


def sample(
    task: AbstractTask,
    *,
    width: int,
    temperature: float,
    activation: CodeActivation = "linear",
    depth: int = 1,
    scaling: Scaling = "non-lazy",
    readout_variance: float | None = None,
    chains: int = 4,
    anneal: int = 800,
    burn: int = 400,
    moves: int = 800,
    thin: int = 10,
    leapfrog: int | None = None,
    method: Method = "hmc",
    step: float = 0.05,
    jitter: float = 0.2,
    friction: float = 1.0,
    acceptance: float | None = None,
    precision: Precision = "double",
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    key: Keys,
) -> Posterior:
    r"""Weights of a network given examples, drawn from their posterior.

    $f(x) = N^{-\gamma}\sum_i a_i\phi(z_i)$ (see `networks.BayesianNetwork`) with priors $W \sim
    N(0, 1)$, $a \sim N(0, \sigma_a^2)$ and likelihood $\exp(-|Y - f|^2/2T')$, summed over examples;
    $T' = T/N$ in the non-lazy scaling (γ = 1) and T in the lazy one (γ = ½).

    Chains start at draws from the prior and are cooled geometrically from T = 1. They move in
    (W, a/σ_a), in which the prior is white, with unit masses. Directions that no example has are
    left out, which is exact: they keep their prior, and `Posterior.networks` draws them.

    - `"hmc"`: Hamiltonian moves of `leapfrog` steps (BlackJAX), accepted or not, so that the
      posterior is exact for any step.
    - `"langevin"`: learning as the physicist sees it, gradient descent with momentum and noise:
      $\ddot\theta = -\nabla V - \gamma\dot\theta + \sqrt{2\gamma}\xi$, nothing rejected. Moments
      are off by the order of step². With `anneal=0` its log is how a network learns from scratch.

    **Arguments:**

    - `task`: finite, all examples alike; `tasks.classification` makes one of classes.
    - `width`, `depth`: N and L. `activation`: φ by its name in `theory.coding`, or a function.
    - `temperature`: T > 0.
    - `readout_variance`: σ_a², by default $P^{-1/L}$; a lazy network has no default.
    - `chains`: how many, side by side.
    - `anneal`, `burn`, `moves`, `thin`: moves while cooling, settling at T, and sampling, of which
      every `thin`-th is kept.
    - `leapfrog`: steps of a move, 20, or 30 with more than one hidden layer.
    - `step`, `jitter`, `acceptance`: the first step; how much it varies from move to move; and the
      acceptance to which it is adapted, chain by chain, before sampling and never after.
    - `friction`: γ of Langevin's dynamics.
    - `precision`: `"single"` is faster, and the run says so.
    - `checkpoint`: a folder to save chains to, every minute and when they end or are interrupted;
      `resume` goes on from it, bit for bit.
    - `progress`: called with words and the fraction done.
    """
    x, y = examples_of(task)
    width, depth = whole_number("width", width), whole_number("depth", depth)
    scaling, chains = checked_scaling(scaling), whole_number("chains", chains)
    if precision not in ("double", "single"):
        raise ValueError(f'`precision` must be "double" or "single", got {precision!r}.')
    planned = plan(
        temperature=temperature,
        anneal=anneal,
        burn=burn,
        moves=moves,
        thin=thin,
        leapfrog=(20 if depth == 1 else 30) if leapfrog is None else leapfrog,
        method=method,
        step=step,
        jitter=jitter,
        friction=friction,
        acceptance=acceptance,
    )
    if checkpoint is not None and Path(checkpoint).exists():
        raise FileExistsError(
            f"'{checkpoint}' exists already: `resume` goes on with the chains that are there. For "
            "new ones choose another folder."
        )
    name, function = code_activation(activation)
    variance = readout_variance_of(readout_variance, len(y), depth, scaling)
    reduced, basis = reduce(x)
    model = Model(width, reduced.shape[1], y.shape[1], depth, name, function, scaling)
    with _computing(precision) as dtype:
        state = _prior(model, chains, key, method, step, dtype)
    none = {n: np.zeros((chains, 0)) for n in ("loss", "potential", "acceptance", "step")}
    none |= {"duration": np.zeros((chains, 0)), "divergent": np.zeros((chains, 0), dtype=int)}
    posterior = Posterior(
        model=model,
        plan=planned,
        readout_variance=variance,
        inputs=x,
        targets=y,
        reduced=reduced,
        basis=basis,
        weights=tuple(np.zeros((chains, 0, *shape), dtype) for shape in model.shapes[:-1]),
        readout=np.zeros((chains, 0, *model.shapes[-1]), dtype),
        log=none | {"move": np.zeros(0, dtype=int), "temperature": np.zeros(0)},
        chains=state,
        precision=precision,
        notes=oddities(reduced, y, linear=name == "linear"),
    )
    return _drive(posterior, checkpoint, progress)


def resume(
    run: "Posterior | xr.Dataset | xr.DataTree | str | os.PathLike[str]",
    *,
    moves: int = 0,
    activation: CodeActivation | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Posterior:
    """Go on with chains that were interrupted, or with more moves: as in one go, bit for bit.

    **Arguments:**

    - `run`: a posterior, what `festina.load` gave, or the folder that it was saved to, to which
      it is then saved again unless `checkpoint` says otherwise.
    - `moves`: how many more than were planned.
    - `activation`: needed where it is a function of your own and the run comes from disk.
    """
    if isinstance(run, str | os.PathLike):
        checkpoint = run if checkpoint is None else checkpoint
        run = load(run)
    if not isinstance(run, Posterior):
        from ._storage import from_dataset

        children = getattr(run, "children", {})
        run = from_dataset(children.get("simulation", run), activation)
    more = whole_number("moves", moves, least=0)
    if more % run.plan.thin:
        raise ValueError(f"`moves` must be a multiple of `thin`, {run.plan.thin}, got {more}.")
    return _drive(run.with_moves(more), checkpoint, progress)


@contextlib.contextmanager
def _computing(precision: str) -> Iterator[type]:
    with jax.enable_x64(precision == "double"):
        yield np.float64 if precision == "double" else np.float32


def _prior(
    model: Model, chains: int, key: Keys, method: Method, step: float, dtype: type
) -> Chains:
    typed = hasattr(key, "dtype") and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    if getattr(key, "dtype", None) == np.uint32:  # of `PRNGKey`
        key, typed = jax.random.wrap_key_data(key), True
    if not typed or key.shape not in ((), (chains,)):
        found = f"{key.shape} of them" if typed else repr(key)
        raise ValueError(
            f"`key` must be one key, jax.random.key(0), or one for each of the {chains} chains, "
            f"got {found}."
        )
    keys = key if key.shape else jax.random.split(key, chains)
    # Keys of whatever kind become one that a chain can carry along, on disk too.
    words = jax.vmap(lambda each: jax.random.bits(each, (2,), jnp.uint32))(keys)
    keys = jax.random.wrap_key_data(words, impl=KIND)
    draw = lambda k: jax.random.normal(jax.random.fold_in(k, 2**31), (2, model.size), dtype)
    position, momentum = np.moveaxis(np.asarray(jax.vmap(draw)(keys)), 1, 0)
    return Chains(
        position=position,
        momentum=momentum if method == "langevin" else momentum[:, :0],
        log_step=np.full(chains, np.log(step), dtype),
        alive=np.ones(chains, dtype=bool),
        words=np.asarray(words),
        move=np.asarray(0),
    )


def _drive(
    posterior: Posterior, checkpoint: str | os.PathLike[str] | None, progress: Progress | None
) -> Posterior:
    model, planned = posterior.model, posterior.plan
    drawn: list[np.ndarray] = []
    rows: list[dict[str, Any]] = []
    state, saved = posterior.chains, time.monotonic()
    # One name for all that belongs together: an interrupt may come between any two lines.
    latest = state, 0, 0

    def now() -> Posterior:
        chains, notes, draws = latest
        return _with(posterior, chains, drawn[:draws], rows[:notes])

    try:
        with _computing(posterior.precision) as dtype:
            deviation = np.asarray(np.sqrt(posterior.readout_variance), dtype)
            data = Data(posterior.reduced.astype(dtype), posterior.targets.astype(dtype), deviation)
            names = ("jitter", "friction", "acceptance", "temperature", "hottest")
            numbers = {each: np.asarray(getattr(planned, each), dtype) for each in names}
            counts = {n: np.asarray(getattr(planned, n)) for n in ("anneal", "warm", "leapfrog")}
            settings = Settings(**numbers, **counts)
            for stop in planned.stops(posterior.moved):
                step = np.exp(np.asarray(state.log_step))
                found, note = advance(
                    model, planned.method, data, settings, state, np.asarray(stop)
                )
                state, note = jax.tree.map(np.asarray, (found, note))
                row = note._asdict() | {"step": step, "move": stop}
                rows.append(row | {"temperature": planned.temperature_at(stop - 1)})
                if stop > planned.warm:
                    drawn.append(state.position)
                latest = state, len(rows), len(drawn)
                if progress is not None:
                    progress(_words(planned, stop, note, step), stop / planned.end)
                if checkpoint is not None and time.monotonic() - saved > _EVERY:
                    save(now().to_dataset(), checkpoint, overwrite=True)
                    saved = time.monotonic()
    except KeyboardInterrupt as interruption:
        if checkpoint is not None:
            save(now().to_dataset(), checkpoint, overwrite=True)
            interruption.add_note(f"Chains are at '{checkpoint}': `resume` goes on from there.")
        raise
    if checkpoint is not None:
        save(now().to_dataset(), checkpoint, overwrite=True)
    return now()


def _words(planned: Plan, stop: int, note: Note, step: np.ndarray) -> str:
    stage = planned.stage(stop - 1)
    at = f" at T = {planned.temperature_at(stop - 1):.3g}" if stage == "cooling" else ""
    return (
        f"{stage}{at}, move {stop} of {planned.end}, squared error {2 * note.loss.mean():.3g}, "
        f"acceptance {note.acceptance.mean():.2f}, step {step.mean():.2g}"
    )


def _with(
    before: Posterior,
    state: Chains,
    drawn: list[np.ndarray],
    rows: list[dict[str, Any]],
) -> Posterior:
    """What there was, with what has come since."""
    if not rows:
        return replace(before, chains=state)
    log = {}
    for name, values in before.log.items():
        new = np.stack([np.asarray(row[name]) for row in rows], axis=-1)
        log[name] = np.concatenate((values, new), axis=-1)
    weights, readout = before.weights, before.readout
    if drawn:
        *parts, white = before.model.split(np.stack(drawn, axis=1))
        deviation = np.asarray(np.sqrt(before.readout_variance), readout.dtype)
        weights = tuple(np.concatenate(pair, axis=1) for pair in zip(weights, parts, strict=True))
        readout = np.concatenate((readout, deviation * white), axis=1)
    return replace(before, chains=state, log=log, weights=weights, readout=readout)
