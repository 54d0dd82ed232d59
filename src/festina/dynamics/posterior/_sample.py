"""`sample` and `continue_sampling`: chains to their end, or to where they were interrupted."""

import os
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from ..._checks import whole_number
from ..._run import load, save
from ..._types import Keys
from ...networks._build import check_keys
from ...networks._code_activations import NAMED, CodeActivation, code_activation
from ...networks._width_scaled_network import Scaling, checked_scaling, readout_variance_of
from ...tasks import AbstractTask
from ...tasks._classes import examples_of
from .._worker import Progress
from ._cores import advanced
from ._extra import needed
from ._model import Data, Model, reduce
from ._moves import KIND, Chains, Settings
from ._notes import oddities
from ._plan import Method, Plan
from ._posterior import Posterior
from ._storage import LOG, STATE

if TYPE_CHECKING:
    import xarray as xr

Precision = Literal["double", "single"]

_EVERY = 60.0  # seconds between two savings
_ACCEPTANCE = {"hmc": 0.8, "langevin": 0.99}


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

    $f(x) = N^{-\gamma}\sum_i a_i\phi(z_i)$ (see `networks.WidthScaledNetwork`) with priors $W \sim
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
      `continue_sampling` goes on from it, bit for bit.
    - `progress`: called with words and the fraction done.
    """
    x, y = examples_of(task)
    width, depth = whole_number("width", width), whole_number("depth", depth)
    scaling, chains = checked_scaling(scaling), whole_number("chains", chains)
    if precision not in ("double", "single"):
        raise ValueError(f'`precision` must be "double" or "single", got {precision!r}.')
    plan = Plan(
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
        acceptance=_ACCEPTANCE.get(method, 0.5) if acceptance is None else acceptance,
    )
    _refuse(checkpoint)
    name, function = code_activation(activation)
    variance = readout_variance_of(readout_variance, len(y), depth, scaling)
    reduced, basis = reduce(x)
    model = Model(width, reduced.shape[1], y.shape[1], depth, name, function, scaling)
    state = _prior(model, plan, chains, key, precision)
    dtype = state.position.dtype
    posterior = Posterior(
        model=model,
        plan=plan,
        readout_variance=variance,
        inputs=x,
        targets=y,
        reduced=reduced,
        basis=basis,
        weights=tuple(np.zeros((chains, 0, *shape), dtype) for shape in model.shapes[:-1]),
        readout=np.zeros((chains, 0, *model.shapes[-1]), dtype),
        log={"move": np.zeros(0, dtype=int)} | {each: np.zeros((chains, 0)) for each in LOG},
        chains=state,
        notes=oddities(reduced, y, linear=name == "linear"),
    )
    return _drive(posterior, checkpoint, progress)


def continue_sampling(
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
    folder = run if isinstance(run, str | os.PathLike) else None
    if folder is None or (checkpoint is not None and Path(checkpoint) != Path(folder)):
        _refuse(checkpoint)
    if isinstance(run, str | os.PathLike):
        run = load(run)
        if checkpoint is None and {*run.children} - {"simulation"}:
            raise ValueError(
                f"'{folder}' holds more than chains ({', '.join(run.children)}), which would be "
                "lost: give another folder as `checkpoint`."
            )
        checkpoint = folder if checkpoint is None else checkpoint
    if isinstance(run, Posterior):
        if activation is not None and code_activation(activation)[1] is not run.model.function:
            raise ValueError(
                f"`run` is in memory and knows its activation, {run.model.activation!r}: leave "
                "`activation` out."
            )
    else:
        run = _from_dataset(run, activation)
    more = whole_number("moves", moves, least=0)
    if more % run.plan.thin:
        raise ValueError(f"`moves` must be a multiple of `thin`, {run.plan.thin}, got {more}.")
    longer = replace(run.plan, moves=run.plan.moves + more)
    return _drive(replace(run, plan=longer), checkpoint, progress)


def _refuse(checkpoint: str | os.PathLike[str] | None) -> None:
    if checkpoint is not None and Path(checkpoint).exists():
        raise FileExistsError(
            f"'{checkpoint}' exists already: `continue_sampling` goes on with the chains that are "
            "there. For others choose another folder."
        )


def _from_dataset(run: "xr.Dataset | xr.DataTree", activation: CodeActivation | None) -> Posterior:
    """The way back; a function of one's own is not on disk and has to be given again."""
    import xarray as xr

    if isinstance(run, xr.DataTree):
        run = run.children.get("simulation", run).to_dataset()
    said: dict[str, Any] = dict(run.attrs)
    if said.get("kind") != "posterior":
        raise ValueError("`run` is no posterior: `festina.dynamics.posterior.sample` makes one.")
    if activation is None and said["activation"] not in NAMED:
        raise ValueError(
            f"This posterior is of the activation {said['activation']!r}, a function of your own "
            "that is not on disk: give it as `activation`."
        )
    name, function = code_activation(said["activation"] if activation is None else activation)
    if name != said["activation"]:
        raise ValueError(f"`activation` is {name!r}, the posterior is of {said['activation']!r}.")
    of = lambda named: run[named].values
    basis, depth = of("basis"), int(said["depth"])  # another machine's directions may be others
    sizes = int(said["width"]), basis.shape[1], run.sizes["output"], depth
    return Posterior(
        model=Model(*sizes, name, function, said["scaling"]),
        plan=Plan(**{field.name: said[field.name] for field in fields(Plan)}),
        readout_variance=said["readout_variance"],
        inputs=of("inputs"),
        targets=of("targets"),
        reduced=of("reduced"),
        basis=basis,
        weights=tuple(of(f"weights_{k + 1}") for k in range(depth)),
        readout=of("readout"),
        log={"move": of("move")} | {each: of(f"log_{each}") for each in LOG},
        chains=Chains(
            **{each: of(f"state_{each}") for each in STATE}, move=np.asarray(int(said["moved"]))
        ),
        notes=tuple(said["notes"]),
    )


def _prior(model: Model, plan: Plan, chains: int, key: Keys, precision: Precision) -> Chains:
    """Chains at draws from the prior, which is white."""
    key = check_keys(key)
    if key.shape not in ((), (chains,)):
        raise ValueError(
            f"`key` must be one key, jax.random.key(0), or one for each of the {chains} chains, "
            f"got {key.shape} of them."
        )
    keys = key if key.shape else jax.random.split(key, chains)
    # Keys of whatever kind become one that a chain can carry along, on disk too.
    words = jax.vmap(lambda each: jax.random.bits(each, (2,), jnp.uint32))(keys)
    keys = jax.random.wrap_key_data(words, impl=KIND)
    dtype = np.float64 if precision == "double" else np.float32
    draw = lambda k: jax.random.normal(jax.random.fold_in(k, 2**31), (2, model.size), dtype)
    with jax.enable_x64(precision == "double"):
        position, momentum = np.moveaxis(np.asarray(jax.vmap(draw)(keys)), 1, 0)
    return Chains(
        position=position,
        momentum=momentum if plan.method == "langevin" else momentum[:, :0],
        log_step=np.full(chains, np.log(plan.step), dtype),
        words=np.asarray(words),
        move=np.asarray(0),
    )


def _drive(
    posterior: Posterior, checkpoint: str | os.PathLike[str] | None, progress: Progress | None
) -> Posterior:
    plan, state = posterior.plan, posterior.chains
    if plan.method == "hmc":
        needed("blackjax.mcmc.hmc")  # before anything is compiled
    done: list[tuple[Chains, dict]] = []  # together: an interrupt may come between any two lines
    saved = time.monotonic()
    dtype = state.position.dtype
    deviation = np.sqrt(posterior.readout_variance)
    data = Data(*(np.asarray(a, dtype) for a in (posterior.reduced, posterior.targets, deviation)))
    kinds = {"anneal": int, "warm": int, "leapfrog": int}
    settings = Settings(
        *(np.asarray(getattr(plan, n), kinds.get(n, dtype)) for n in Settings._fields)
    )
    try:
        for stop in plan.stops(posterior.moved):
            step = np.exp(state.log_step)
            state, note = advanced(posterior.model, plan.method, data, settings, state, stop)
            note |= {"step": step, "move": stop}
            done.append((state, note))
            if progress is not None:
                progress(_words(plan, note), stop / plan.end)
            if checkpoint is not None and time.monotonic() - saved > _EVERY:
                save(posterior.followed_by(done).to_dataset(), checkpoint, overwrite=True)
                saved = time.monotonic()
    except KeyboardInterrupt as interruption:
        if checkpoint is not None:
            save(posterior.followed_by(done).to_dataset(), checkpoint, overwrite=True)
            interruption.add_note(
                f"Chains are at '{checkpoint}': `continue_sampling` goes on from there."
            )
        raise
    found = posterior.followed_by(done)
    if checkpoint is not None:
        save(found.to_dataset(), checkpoint, overwrite=True)
    return found


def _words(plan: Plan, note: dict) -> str:
    stop, stage = note["move"], plan.stage(note["move"] - 1)
    at = f" at T = {plan.temperature_at(stop - 1):.3g}" if stage == "cooling" else ""
    return (
        f"{stage}{at}, move {stop} of {plan.end}, squared error {2 * note['loss'].mean():.3g}, "
        f"acceptance {note['acceptance'].mean():.2f}, step {note['step'].mean():.2g}"
    )
