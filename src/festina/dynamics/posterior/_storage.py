"""A posterior with named axes, and back."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from ...networks._code_activations import NAMED, CodeActivation, code_activation
from ._model import Model
from ._moves import Chains
from ._plan import Plan
from ._posterior import LOG, Posterior

if TYPE_CHECKING:
    import xarray as xr

_STATE = {
    "position": ("weight",),
    "momentum": ("momentum_weight",),
    "log_step": (),
    "words": ("word",),
}


def to_dataset(posterior: Posterior) -> "xr.Dataset":
    import xarray as xr

    model, chains = posterior.model, posterior.chains
    drawn = ("chain", "draw")
    weights = {
        f"weights_{k + 1}": ((*drawn, "unit", "direction" if k == 0 else "unit_below"), each)
        for k, each in enumerate(posterior.weights)
    }
    log = {
        f"log_{name}": (("chain", "save"), posterior.log[name], {"long_name": words})
        for name, words in LOG.items()
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
            "precision": "single" if posterior.readout.dtype == np.float32 else "double",
            "loss_convention": "½|Y − f|², summed over examples",
            "notes": list(posterior.notes),
        },
    )


def from_dataset(run: "xr.Dataset | xr.DataTree", activation: CodeActivation | None) -> Posterior:
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
        plan=Plan(**{field.name: said[field.name] for field in dataclasses.fields(Plan)}),
        readout_variance=said["readout_variance"],
        inputs=of("inputs"),
        targets=of("targets"),
        reduced=of("reduced"),
        basis=basis,
        weights=tuple(of(f"weights_{k + 1}") for k in range(depth)),
        readout=of("readout"),
        log={"move": of("move")} | {each: of(f"log_{each}") for each in LOG},
        chains=Chains(
            **{each: of(f"state_{each}") for each in _STATE}, move=np.asarray(int(said["moved"]))
        ),
        notes=tuple(said["notes"]),
    )


def to_arviz(posterior: Posterior) -> "xr.DataTree":
    import xarray as xr

    data, seen, drawn = posterior.to_dataset(), posterior.observables(), ("chain", "draw")
    axes = {"chain": data["chain"].values, "draw": data["draw"].values}
    names = ["readout", *(str(name) for name in data if str(name).startswith("weights_"))]
    found = {name: data[name].variable for name in names}
    for name, values in seen.items():
        if name in ("trace_U", "outputs") or name.startswith("kernel"):
            inner = ("sample", "output" if name == "outputs" else "sample_other")
            found[name] = xr.Variable((*drawn, *inner[: values.ndim - 2]), values)
    stats = {
        "lp": (drawn, -posterior.kept("potential")),
        "loss": (drawn, posterior.kept("loss")),
        "acceptance_rate": (drawn, posterior.kept("acceptance")),
        "step_size": (drawn, posterior.kept("step")),
        "diverging": (drawn, posterior.kept("divergent") > 0),
    }
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(found, coords=axes),
            "sample_stats": xr.Dataset(stats, coords=axes),
            "observed_data": xr.Dataset({"targets": data["targets"].variable}),
        }
    )
