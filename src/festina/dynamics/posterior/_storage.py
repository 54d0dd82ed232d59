"""A posterior with named axes, and back."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from ...networks._code_activations import NAMED, CodeActivation, code_activation
from ._model import Model
from ._moves import Chains
from ._notes import oddities
from ._plan import Plan
from ._posterior import Posterior

if TYPE_CHECKING:
    import xarray as xr

_BY_CHAIN = ("loss", "potential", "acceptance", "divergent", "step", "duration")


def to_dataset(posterior: Posterior) -> "xr.Dataset":
    import xarray as xr

    model, chains = posterior.model, posterior.chains
    drawn = ("chain", "draw")
    weights = {
        f"weights_{k + 1}": ((*drawn, "unit", "direction" if k == 0 else "unit_below"), each)
        for k, each in enumerate(posterior.weights)
    }
    log = {
        f"log_{name}": (("chain", "save"), posterior.log[name], {"long_name": _WORDS[name]})
        for name in _BY_CHAIN
    }
    kept = {name: (drawn, posterior.kept(name)) for name in ("loss", "potential", "acceptance")}
    state = {
        f"state_{name}": (("chain", *axes), np.asarray(getattr(chains, name)))
        for name, axes in _STATE.items()
    }
    return xr.Dataset(
        {
            **kept,
            **weights,
            "readout": ((*drawn, "output", "unit"), posterior.readout),
            "inputs": (("sample", "input"), posterior.inputs),
            "targets": (("sample", "output"), posterior.targets),
            "basis": (("input", "direction"), posterior.basis),
            "reduced": (("sample", "direction"), posterior.reduced),
            **log,
            **state,
            "ending": ("chain", np.array([e.reason for e in posterior.endings], dtype=str)),
            "message": ("chain", np.array([e.message for e in posterior.endings], dtype=str)),
        },
        coords={
            "chain": np.arange(len(posterior.readout)),
            "draw": np.arange(posterior.draws),
            "move": ("save", posterior.log["move"]),
            "log_temperature": ("save", posterior.log["temperature"]),
        },
        attrs={
            **dataclasses.asdict(posterior.plan),
            "kind": "posterior",
            "activation": model.activation,
            "scaling": model.scaling,
            "width": model.width,
            "depth": model.depth,
            "readout_variance": posterior.readout_variance,
            "moved": posterior.moved,
            "precision": posterior.precision,
            "loss_convention": "½|Y − f|², summed over examples",
            "notes": list(posterior.notes),
        },
    )


_WORDS = {
    "loss": "½|Y − f|²",
    "potential": "minus log posterior at the final temperature",
    "acceptance": "mean over moves since the last note",
    "divergent": "moves that diverged since the last note",
    "step": "step of the integrator, before jitter",
    "duration": "time of the dynamics since the last note",
}
_STATE = {
    "position": ("weight",),
    "momentum": ("momentum_weight",),
    "log_step": (),
    "alive": (),
    "words": ("word",),
}


def from_dataset(data: "xr.Dataset | xr.DataTree", activation: CodeActivation | None) -> Posterior:
    """The way back; a function of one's own is not on disk and has to be given again."""
    said: dict[str, Any] = dict(data.attrs)
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
    x, y = data["inputs"].values, data["targets"].values
    basis = data["basis"].values  # not computed again: another machine may turn it
    reduced = data["reduced"].values
    depth = int(said["depth"])
    model = Model(
        int(said["width"]), basis.shape[1], y.shape[1], depth, name, function, said["scaling"]
    )
    fields = {field.name: said[field.name] for field in dataclasses.fields(Plan)}
    state = {each: data[f"state_{each}"].values for each in _STATE}
    log = {each: data[f"log_{each}"].values for each in _BY_CHAIN}
    log |= {"move": data["move"].values, "temperature": data["log_temperature"].values}
    return Posterior(
        model=model,
        plan=Plan(**fields),
        readout_variance=said["readout_variance"],
        inputs=x,
        targets=y,
        reduced=reduced,
        basis=basis,
        weights=tuple(data[f"weights_{k + 1}"].values for k in range(depth)),
        readout=data["readout"].values,
        log=log,
        chains=Chains(**state, move=np.asarray(int(said["moved"]))),
        precision=said["precision"],
        notes=oddities(reduced, y, linear=name == "linear"),
    )


def to_arviz(posterior: Posterior) -> "xr.DataTree":
    import xarray as xr

    data = posterior.to_dataset()
    seen = posterior.observables()
    drawn = ("chain", "draw")
    invariant = {
        "trace_U": (drawn, seen["trace_U"]),
        "outputs": ((*drawn, "sample", "output"), seen["outputs"]),
    }
    invariant |= {
        name: ((*drawn, "sample", "sample_other"), each)
        for name, each in seen.items()
        if name.startswith("kernel")
    }
    axes = {"chain": data["chain"].values, "draw": data["draw"].values}
    named = [name for name in data if str(name).startswith("weights_")]
    weights = data[[*named, "readout"]].drop_vars(["move", "log_temperature"], errors="ignore")
    stats = {
        "lp": (drawn, -posterior.kept("potential")),
        "loss": (drawn, posterior.kept("loss")),
        "acceptance_rate": (drawn, posterior.kept("acceptance")),
        "step_size": (drawn, posterior.kept("step")),
        "diverging": (drawn, posterior.kept("divergent") > 0),
    }
    return xr.DataTree.from_dict(
        {
            "posterior": weights.assign(invariant),
            "sample_stats": xr.Dataset(stats, coords=axes),
            "observed_data": data[["targets"]].drop_vars(list(data.coords), errors="ignore"),
        }
    )
