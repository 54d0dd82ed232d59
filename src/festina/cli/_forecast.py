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
        Number | None, Parameter(help="Learning rate; that in the checkpoint unless said.")
    ] = None,
    optimizer: Annotated[
        Literal["sgd", "adam", "adamw"] | None,
        Parameter(help="What the run is trained by; that in the checkpoint, or sgd, unless said."),
    ] = None,
    momentum: Annotated[Number | None, Parameter(help="Of SGD.")] = None,
    nesterov: Annotated[
        bool | None, Parameter(help="Whether the momentum of SGD is Nesterov's.")
    ] = None,
    betas: Annotated[
        tuple[Number, Number] | None, Parameter(help="Of Adam and AdamW.", negative_iterable=())
    ] = None,
    weight_decay: Annotated[Number | None, Parameter(help="Weight decay.")] = None,
    batch: Annotated[
        Whole | None, Parameter(help="Size of mini-batches; all samples at once unless said.")
    ] = None,
    max_gradients: Annotated[
        Whole, Parameter(help="Gradients of the loss that it may cost.")
    ] = "2000",
    insist: Annotated[
        bool, Parameter(help="Go on where training on would be cheaper.", negative="")
    ] = False,
    figure: Figure = None,
    debug: Debug = False,
) -> None:
    """Say when a run of your own leaves its plateau, and what comes then.

    The forecast integrates the training dynamics ahead of the run, with few gradients on all of the
    data. Where the checkpoint has the state of an optimiser of PyTorch, its rates are read, and the
    moments of Adam. Options override it, and the defaults are PyTorch's.
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
    """The optimiser, with the state that it had, and the options that were given."""
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
            raise Complaint(f"`--{option}` does not go with `--optimizer {name}`.")
    if len(saved) > 1:
        raise Complaint(
            f"The optimiser in the checkpoint has {len(saved)} groups of weights, and not which "
            "weights are in which. Ask `festina.forecast` in Python, with the optimiser."
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
    """Which optimisers have such groups, the likeliest first."""
    if not groups:
        return "sgd", "adam", "adamw"
    group = groups[0]
    if "amsgrad" in group and "betas" in group:
        decoupled = group.get("decoupled_weight_decay")  # earlier PyTorch does not say
        return ("adam", "adamw") if decoupled is None else (("adam", "adamw")[decoupled],)
    return ("sgd",) if "dampening" in group else ()
