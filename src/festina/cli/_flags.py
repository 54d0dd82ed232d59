"""Turn the parameters of an experiment into flags."""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import cyclopts
from cyclopts import Group, Parameter

from festina.experiments import Experiment
from festina.experiments._flags import bounds, flag_name, setting, shown

from ._options import Animation, Claims, Debug, Json, Mp4, Number, Out, Quick, Quiet, Whole

_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_PARAMETERS = Group("Parameters of the experiment", sort_key=0)
_COMMON = Group("Flags of the command", sort_key=1)


def application(
    experiment: Experiment,
    command: Callable[..., int],
    *,
    verb: str = "run",
    common: Mapping[str, Any] | None = None,
) -> cyclopts.App:
    """Return the command `festina VERB NAME`, with flags for parameters and the `common` flags.

    `command` receives only the flags that were given, as keyword arguments.
    """
    entry = experiment.entry
    flags = {**_common(experiment), **(common or {})}
    return command_of(
        entry.name,
        f"{entry.shows[:1].upper()}{entry.shows[1:]}.\n\n{entry.source}.{_presets(experiment)}",
        f"Usage: festina {verb} {entry.typed} [FLAGS]",
        [*_own(experiment), *keywords({k: v for k, v in flags.items() if v is not None})],
        command,
    )


def command_of(
    name: str,
    text: str,
    usage: str,
    parameters: list[inspect.Parameter],
    command: Callable[..., int],
) -> cyclopts.App:
    """Return a command with flags that are computed from an experiment or a function."""

    def run(**given: Any) -> int:
        return command(**given)

    run.__signature__ = inspect.Signature(parameters)  # pyright: ignore[reportFunctionMemberAccess]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app = cyclopts.App(
        name=name,
        help=text,
        usage=usage,
        help_format="plaintext",
        version_flags=(),
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
        result_action="return_value",
        group_parameters=_COMMON,
    )
    app["--help"].show = False
    app.default(run)
    return app


def _own(experiment: Experiment) -> list[inspect.Parameter]:
    parameters, explained = [], experiment.parameters.docstrings()
    for name, field in experiment.parameters.model_fields.items():
        default = field.get_default(call_default_factory=True)
        annotation = Annotated[
            _typed(field.annotation) | None,
            Parameter(
                name=flag_name(name),
                help=f"{explained.get(name, '')}{_in_brackets(bounds(field))}",
                group=_PARAMETERS,
                consume_multiple=1 if get_origin(field.annotation) in (list, tuple) else None,
                negative_iterable=(),
                show_default=shown(default),
            ),
        ]
        parameters.append(inspect.Parameter(name, _KEYWORD, default=None, annotation=annotation))
    return parameters


def _common(experiment: Experiment) -> dict[str, Any]:
    presets = ", ".join(experiment.presets) or "none for this experiment"
    return {
        "preset": Annotated[
            str | None, Parameter(help=f"Named set of parameters; available: {presets}.")
        ],
        "parameters": Annotated[
            Path | None,
            Parameter(
                help="TOML file of parameters, such as the parameters.toml of a run folder. Flags "
                "override this file; this file overrides --preset."
            ),
        ],
        "quick": Quick,
        "animation": Animation,
        "mp4": Mp4,
        "out": Out,
        "claims": Claims,
        "quiet": Quiet,
        "json": Json,
        "debug": Debug,
    }


def keywords(annotations: Mapping[str, Any]) -> list[inspect.Parameter]:
    """Return keyword-only parameters for flags; the default of a switch is false."""
    return [
        inspect.Parameter(
            name, _KEYWORD, default=False if get_args(kind)[0] is bool else None, annotation=kind
        )
        for name, kind in annotations.items()
    ]


def _presets(experiment: Experiment) -> str:
    named = {f"--preset {name}": values for name, values in experiment.presets.items()}
    if experiment.quick:
        named["--quick"] = experiment.quick
    lines = []
    for name, values in named.items():
        settings = " ".join(setting(key, value) for key, value in values.items())
        lines.append(f"{name}: {settings}")
    return "\n\n" + "\n".join(lines) if lines else ""


def _typed(annotation: Any) -> Any:
    """Return the type that cyclopts parses: numbers stay text, which pydantic converts.

    Bounds on entries of a tuple are dropped, because cyclopts would check them with messages of
    its own.
    """
    if get_origin(annotation) is Annotated:
        return _typed(get_args(annotation)[0])
    if annotation in (int, float):
        return Whole if annotation is int else Number
    parts = tuple(_typed(part) for part in get_args(annotation))
    origin: Any = get_origin(annotation)
    if origin in (Union, UnionType):
        return Union[parts]  # noqa: UP007
    if origin in (list, tuple):
        return origin[parts]  # pyright: ignore[reportInvalidTypeArguments]
    return annotation


def _in_brackets(words: str) -> str:
    return f" ({words})" if words else ""
