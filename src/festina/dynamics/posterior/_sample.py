"""Sample weights from a posterior with several chains, and continue interrupted chains."""

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

_EVERY = 60.0  # seconds between two checkpoints
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
    r"""Sample the weights of a network from their posterior given the examples of a task.

    The network is $f(x) = N^{-\gamma}\sum_i a_i\phi(z_i)$, see
    `festina.networks.WidthScaledNetwork`. The priors are $W \sim N(0, 1)$ and
    $a \sim N(0, \sigma_a^2)$. The likelihood is $\exp(-|Y - f|^2/2T')$, summed over examples. The
    non-lazy scaling has γ = 1 and $T' = T/N$; the lazy scaling has γ = ½ and $T' = T$.

    Chains start at samples of the prior, and the temperature falls geometrically from 1 to T. The
    sampled variables are W and a/σ_a, whose prior is white. Input directions orthogonal to all
    examples are left out: their posterior is the prior, from which `Posterior.networks` draws them.

    **Arguments:**

    - `task`: task with a finite number of examples of equal weight, for example from
      `festina.tasks.classification`.
    - `width`, `depth`: number $N$ of units in a hidden layer, and number $L$ of hidden layers.
    - `activation`: nonlinearity φ, one of the names "linear", "erf", "erf-sigmoid" and "relu" of
      `festina.theory.coding`, or your own function.
    - `temperature`: final temperature T > 0.
    - `scaling`: `"non-lazy"` or `"lazy"`.
    - `readout_variance`: σ_a², by default $P^{-1/L}$ for $P$ examples; a lazy network has no
      default.
    - `chains`: number of chains.
    - `anneal`, `burn`, `moves`, `thin`: number of moves while cooling, number of moves to settle at
      T, and number of moves of sampling, of which every `thin`-th is stored.
    - `method`: `"hmc"` takes Hamiltonian moves with an acceptance test (BlackJAX), so the posterior
      is exact for any step size. `"langevin"` takes gradient descent with momentum and noise,
      $\ddot\theta = -\nabla V - \gamma\dot\theta + \sqrt{2\gamma}\xi$, without rejections; its
      moments have an error of order `step`². With `anneal=0`, the log of `"langevin"` shows how a
      network learns from its prior.
    - `leapfrog`: number of leapfrog steps in a move, by default 20, or 30 for several hidden
      layers.
    - `step`, `jitter`: initial step size, and its relative variation from move to move.
    - `acceptance`: target acceptance; each chain adapts its step size to it before sampling only.
    - `friction`: friction γ of the Langevin dynamics.
    - `precision`: `"double"` or the faster `"single"`.
    - `checkpoint`: folder for checkpoints, saved every minute, at the end and at an interrupt.
      `festina.dynamics.posterior.continue_sampling` resumes from checkpoints with identical
      results.
    - `progress`: function that is called with a text and the fraction of the moves that is done.
    - `key`: random key, or an array with one key for each chain.

    **Returns:**

    A `festina.dynamics.posterior.Posterior` with the stored weights of all chains.

    **Example:**

    >>> import jax, numpy as np
    >>> from festina.dynamics.posterior import sample
    >>> from festina.tasks import from_arrays
    >>> task = from_arrays(np.eye(2), np.eye(2))
    >>> options = dict(chains=2, anneal=4, burn=4, moves=8, thin=2, method="langevin")
    >>> drawn = sample(task, width=3, temperature=0.1, key=jax.random.key(0), **options)
    >>> drawn.readout.shape  # chain, draw, output, unit
    (2, 4, 2, 3)
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
    """Resume interrupted chains, or add moves to finished chains.

    The result is identical to sampling all moves in one call.

    **Arguments:**

    - `run`: posterior, a run that `festina.load` returned, or the folder of a saved run.
    - `moves`: number of moves to add to the planned ones.
    - `activation`: required if the activation is a function and the run was loaded from disk.
    - `checkpoint`: folder for checkpoints; the default is the folder that `run` names.
    - `progress`: function that is called with a text and the fraction of the moves that is done.

    **Returns:**

    The `festina.dynamics.posterior.Posterior` with the earlier and the new draws.

    **Example:**

    >>> import jax, numpy as np
    >>> from festina.dynamics.posterior import continue_sampling, sample
    >>> from festina.tasks import from_arrays
    >>> task = from_arrays(np.eye(2), np.eye(2))
    >>> options = dict(chains=2, anneal=4, burn=4, moves=8, thin=2, method="langevin")
    >>> drawn = sample(task, width=3, temperature=0.1, key=jax.random.key(0), **options)
    >>> drawn.draws, continue_sampling(drawn, moves=8).draws
    (4, 8)
    """
    folder = run if isinstance(run, str | os.PathLike) else None
    if folder is None or (checkpoint is not None and Path(checkpoint) != Path(folder)):
        _refuse(checkpoint)
    if isinstance(run, str | os.PathLike):
        run = load(run)
        if checkpoint is None and {*run.children} - {"simulation"}:
            raise ValueError(
                f"'{folder}' also contains {', '.join(run.children)}, which saving the chains "
                "would delete. Choose another folder as `checkpoint`."
            )
        checkpoint = folder if checkpoint is None else checkpoint
    if isinstance(run, Posterior):
        if activation is not None and code_activation(activation)[1] is not run.model.function:
            raise ValueError(
                "`run` is in memory and already has its activation, "
                f"{run.model.activation!r}. Leave out `activation`."
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
            f"'{checkpoint}' exists already. Use `continue_sampling` to resume its chains, or "
            "choose another folder as `checkpoint`."
        )


def _from_dataset(run: "xr.Dataset | xr.DataTree", activation: CodeActivation | None) -> Posterior:
    """Return the posterior stored in a dataset; a custom activation is not stored: pass it."""
    import xarray as xr

    if isinstance(run, xr.DataTree):
        run = run.children.get("simulation", run).to_dataset()
    said: dict[str, Any] = dict(run.attrs)
    if said.get("kind") != "posterior":
        raise ValueError(
            "`run` must be a posterior that `festina.dynamics.posterior.sample` returned."
        )
    if activation is None and said["activation"] not in NAMED:
        raise ValueError(
            f"The activation of this posterior, {said['activation']!r}, is a function of your own, "
            "which is not stored on disk. Pass the function as `activation`."
        )
    name, function = code_activation(said["activation"] if activation is None else activation)
    if name != said["activation"]:
        raise ValueError(
            f"`activation` is {name!r}, but the posterior was sampled with {said['activation']!r}."
        )
    of = lambda named: run[named].values
    # The basis is stored, because its computation by SVD depends on the machine.
    basis, depth = of("basis"), int(said["depth"])
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
    """Return chains whose positions are samples of the white prior."""
    key = check_keys(key)
    if key.shape not in ((), (chains,)):
        raise ValueError(
            f"`key` must be one key, such as jax.random.key(0), or one key for each of the "
            f"{chains} chains, got keys of shape {key.shape}."
        )
    keys = key if key.shape else jax.random.split(key, chains)
    # Keys of any kind are converted to one kind, whose words can be stored on disk.
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
        needed("blackjax.mcmc.hmc")  # raise before anything is compiled
    done: list[tuple[Chains, dict]] = []  # pairs, because an interrupt may come at any line
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
                f"The chains are saved in '{checkpoint}'. `continue_sampling` resumes them."
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
