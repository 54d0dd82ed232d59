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
    save_axes,
    targets,
)


def forecast(
    file: File,
    /,
    *,
    model: Model,
    loss: Loss,
    data: Data,
    lr: Annotated[Number, Parameter(help="Learning rate.")],
    optimizer: Annotated[
        Literal["sgd", "adam", "adamw"], Parameter(help="What the run is trained by.")
    ] = "sgd",
    momentum: Annotated[Number | None, Parameter(help="Of SGD; 0 unless said.")] = None,
    betas: Annotated[
        tuple[Number, Number] | None,
        Parameter(help="Of Adam and AdamW; 0.9 0.999 unless said.", negative_iterable=()),
    ] = None,
    weight_decay: Annotated[
        Number | None, Parameter(help="Weight decay; what is usual for the optimiser unless said.")
    ] = None,
    max_gradients: Annotated[
        Whole, Parameter(help="Gradients of the loss that it may cost.")
    ] = "2000",
    figure: Figure = None,
    debug: Debug = False,
) -> None:
    """Say when a run of your own leaves its plateau, and what comes then.

    Training goes on in a copy, with few gradients of the whole data. The state of Adam and of
    momentum is read from the checkpoint, where it has one.
    """
    rate = number("--lr", lr)
    options: dict[str, Any] = {}
    if weight_decay is not None:
        options["weight_decay"] = number("--weight-decay", weight_decay)
    if momentum is not None:
        options["momentum"] = number("--momentum", momentum, most=1.0)
    if betas is not None:
        options["betas"] = tuple(number("--betas", each, most=1.0) for each in betas)
    if other := options.keys() & {"betas" if optimizer == "sgd" else "momentum"}:
        raise Complaint(f"`--{other.pop()}` does not go with `--optimizer {optimizer}`.")
    most = int(number("--max-gradients", max_gradients, least=1.0))
    import festina
    from festina.own import load_weights, read_checkpoint

    made_by = made("--model", model)
    found = read_checkpoint(file)
    network = load_weights(made_by, found.weights, origin=f"'{file}'")
    criterion = loss_of(loss)
    x, y = data_for(network, data)
    rule = _rule(network, optimizer, rate, options, found.optimizer)
    seen = festina.forecast(network, criterion, rule, (x, targets(y, data)), max_gradients=most)
    print(seen)
    if figure is not None:
        save_axes(seen.draw(), figure)


def _rule(
    network: Any, name: str, rate: float, options: dict[str, Any], state: dict[str, Any] | None
) -> Any:
    """The optimiser, with the state that it had."""
    from festina import own
    from festina.own._pytorch import is_module, torch

    names = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW"}
    if not is_module(network):
        return getattr(own, names[name])(lr=rate, **options)
    rule = getattr(torch().optim, names[name])(network.parameters(), lr=rate, **options)
    if state is not None:
        kept = [dict(group) for group in rule.param_groups]
        rule.load_state_dict(state)
        for group, asked in zip(rule.param_groups, kept, strict=True):
            group.update({key: value for key, value in asked.items() if key != "params"})
    return rule
