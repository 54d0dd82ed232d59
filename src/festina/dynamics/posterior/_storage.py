"""Convert a posterior to xarray data sets with named axes."""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

    from ._posterior import Posterior

LOG = {
    "loss": "½|Y − f|²",
    "potential": "minus log posterior at the final temperature",
    "acceptance": "mean acceptance over moves since the last log entry",
    "divergent": "number of moves that diverged since the last log entry",
    "step": "step size of the integrator, before jitter",
    "duration": "time of the dynamics since the last log entry",
}

STATE = {
    "position": ("weight",),
    "momentum": ("momentum_weight",),
    "log_step": (),
    "words": ("word",),
}


def to_dataset(posterior: "Posterior") -> "xr.Dataset":
    """Return a data set with the draws, the log and the state of the chains."""
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
        for name, axes in STATE.items()
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


def to_arviz(posterior: "Posterior") -> "xr.DataTree":
    """Return the draws in ArviZ's groups `posterior`, `sample_stats` and `observed_data`."""
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
