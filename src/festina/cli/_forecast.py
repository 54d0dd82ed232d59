"""`festina forecast`."""

from typing import Annotated, Any, Literal

from cyclopts import Parameter

from ._complaint import Complaint
from ._options import Debug, Number, Whole
from ._own_runs import (
    Data,
    Figure,
    File,
    Loss,
    Model,
    data_for,
    loss_of,
    made,
    number,
    present,
    save_axes,
    targets,
)
from ._progress import Progress


def forecast(
    file: File,
    /,
    *,
    model: Model,
    loss: Loss,
    data: Data,
    lr: Annotated[
        Number | None, Parameter(help="Learning rate; by default the one in the checkpoint.")
    ] = None,
    optimizer: Annotated[
        Literal["sgd", "adam", "adamw"] | None,
        Parameter(help="Optimiser of the run; by default the one in the checkpoint, or else sgd."),
    ] = None,
    momentum: Annotated[Number | None, Parameter(help="Momentum of SGD.")] = None,
    nesterov: Annotated[
        bool | None, Parameter(help="Whether SGD uses Nesterov's momentum.")
    ] = None,
    betas: Annotated[
        tuple[Number, Number] | None,
        Parameter(help="Decay rates of Adam's moments, also for AdamW.", negative_iterable=()),
    ] = None,
    weight_decay: Annotated[Number | None, Parameter(help="Weight decay.")] = None,
    batch: Annotated[
        Whole | None, Parameter(help="Size of mini-batches; by default all samples at once.")
    ] = None,
    max_gradients: Annotated[
        Whole, Parameter(help="Largest number of gradients that the forecast may compute.")
    ] = "2000",
    insist: Annotated[
        bool,
        Parameter(help="Continue even if training itself would be cheaper.", negative=""),
    ] = False,
    figure: Figure = None,
    debug: Debug = False,
) -> None:
    """Predict when your own run will leave its plateau, and what comes next.

    The forecast integrates the training dynamics ahead of the run, with few gradients on all of the
    data. If the checkpoint holds the state of a PyTorch optimiser, the learning rate and Adam's
    moments are read from it. Options override the checkpoint; their defaults are PyTorch's.
    """
    given = {
        "lr": None if lr is None else number("--lr", lr),
        "momentum": None if momentum is None else number("--momentum", momentum, most=1.0),
        "nesterov": nesterov,
        "betas": betas and tuple(number("--betas", each, most=1.0) for each in betas),
        "weight_decay": None if weight_decay is None else number("--weight-decay", weight_decay),
    }
    options = {name: value for name, value in given.items() if value is not None}
    most = int(number("--max-gradients", max_gradients, least=1.0))
    size = None if batch is None else int(number("--batch", batch, least=1.0))
    present(file, data)
    import festina
    from festina.own import read_checkpoint, with_weights

    made_by = made("--model", model)
    found = read_checkpoint(file)
    network = with_weights(made_by, found.weights, origin=f"'{file}'")
    criterion = loss_of(loss)
    x, y = data_for(network, data)
    rule = _rule(network, optimizer, options, found.optimizer)
    pair = x, targets(y, data)
    with Progress() as progress:
        progress.stage("forecast")
        how = {"max_gradients": most, "batch": size, "insist": insist, "progress": progress}
        seen = festina.forecast(network, criterion, rule, pair, **how)
    print(seen)
    if figure is not None:
        save_axes(seen.draw(), figure)


_NAMES = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW"}
_OF = {"betas": ("adam", "adamw"), "momentum": ("sgd",), "nesterov": ("sgd",)}


def _rule(
    network: Any, name: str | None, options: dict[str, Any], state: dict[str, Any] | None
) -> Any:
    """Return the optimiser with its saved state and the given options."""
    from festina import own
    from festina._narrowing._pytorch import is_module, torch

    saved = state["param_groups"] if state and is_module(network) else []
    kinds = _kinds(saved)
    name = name or next(iter(kinds), "sgd")
    if name not in kinds:
        other = " or ".join(kinds) or "another optimiser than sgd, adam and adamw"
        raise Complaint(f"`--optimizer {name}`: the checkpoint has the state of {other}.")
    for option in options:
        if name not in _OF.get(option, (name,)):
            raise Complaint(f"`--{option}` does not go with `--optimizer {name}`: leave it out.")
    if len(saved) > 1:
        raise Complaint(
            f"The optimiser in the checkpoint has {len(saved)} groups of weights, expected one: "
            "the checkpoint does not record the members of each group. Call `festina.forecast` in "
            "Python with the optimiser."
        )
    if not saved and "lr" not in options:
        raise Complaint("`--lr` is needed: the checkpoint has no state of an optimiser.")
    if not is_module(network):
        return getattr(own, _NAMES[name])(**options)
    rule = getattr(torch().optim, _NAMES[name])(network.parameters(), lr=options.get("lr", 1.0))
    if saved:
        rule.load_state_dict(state)
    rule.param_groups[0].update(options)
    return rule


def _kinds(groups: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return the optimisers that save groups with the keys of `groups`, the likeliest first."""
    if not groups:
        return "sgd", "adam", "adamw"
    group = groups[0]
    if "amsgrad" in group and "betas" in group:
        decoupled = group.get("decoupled_weight_decay")  # missing in earlier versions of PyTorch
        return ("adam", "adamw") if decoupled is None else (("adam", "adamw")[decoupled],)
    return ("sgd",) if "dampening" in group else ()
