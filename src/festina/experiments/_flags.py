"""Write parameters as they are typed on the command line and in Python."""

import shlex
from collections.abc import Mapping
from typing import Any


def flag_name(name: str) -> str:
    """Return the flag of a parameter, such as `--initial-scale`."""
    return "--" + name.replace("_", "-")


def setting(name: str, value: Any) -> str:
    """Return a parameter and its value as typed on the command line."""
    if isinstance(value, bool):
        return flag_name(name) if value else flag_name(f"no_{name}")
    return f"{flag_name(name)} {shown(value)}"


def shown(value: Any) -> str:
    """Return a value, other than `True` and `False`, as typed on the command line."""
    if isinstance(value, list | tuple):
        return " ".join(shown(entry) for entry in value)
    if isinstance(value, float):
        return short if float(short := f"{value:g}") == value else repr(value)
    return "none" if value is None else shlex.quote(str(value))


def shell_command(typed: str, preset: str, values: Mapping[str, Any]) -> str:
    """Return the command that runs an experiment with these parameters.

    **Arguments:**

    - `typed`: name or file of the experiment.
    - `preset`: name of a preset, or `""`. The values override the preset.
    - `values`: parameters by name.
    """
    flags = [setting(name, value) for name, value in _named(values).items()]
    preset = shlex.join(["--preset", preset]) if preset else ""
    return " ".join(filter(None, (shlex.join(["festina", "run", typed]), preset, *flags)))


def python_code(typed: str, preset: str, values: Mapping[str, Any]) -> str:
    """Return code that runs an experiment with these parameters and prints its claims."""
    given = "".join(f"    {name}={value!r},\n" for name, value in _named(values).items())
    preset = f", preset={preset!r}" if preset else ""
    return (
        "from festina.experiments import load_experiment, run_experiment\n\n"
        f"experiment = load_experiment({typed!r})\n"
        f"parameters = experiment.parameters(\n{given})\n"
        f"run = run_experiment(experiment, parameters{preset})\n"
        "for claim in run.claims:\n"
        "    print(claim.id, claim.verdict, claim.predicted, claim.measured)\n"
        "figure = experiment.draw(run.data)"
    )


def _named(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with valid names: a stranger's name could be code."""
    return {name: value for name, value in values.items() if name.isidentifier()}
