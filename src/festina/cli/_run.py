"""`festina run`."""

import difflib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from festina.experiments import (
    Experiment,
    experiment_groups,
    experiment_names,
    find_entry,
    load_experiment,
)

from ._complaint import Complaint, complain
from ._folder import free, sweep
from ._help import page


def _completed(_: Any) -> list[tuple[str, str]]:
    from festina.experiments import _registry

    return [(entry.name, entry.shows) for entry in _registry.entries()]


def run(
    *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True, completer=_completed)],
) -> int:
    """Run an experiment: simulate, predict, check the claims, draw the figures.

    NAME is an experiment of `festina list`, or your own experiment file, such as ./mine.py. The
    parameters of the experiment are flags; `festina run NAME --help` lists them.

    The results go to a new folder ./runs/NAME/001, 002, … run.zarr and parameters.toml are written
    as soon as training has ended; claims.json, figure.png and figure.pdf follow. If claims or
    figures fail, `festina show` makes them from the saved run. One line summarises the run.
    --claims prints all claims. `festina run NAME#ID` and `festina run NAME --claims ID` print the
    claim with the identifier ID.

    The exit status is 0 if the run was made, whatever the verdicts are. In contrast, the exit
    status of `festina reproduce` is 1 if a claim is broken.
    """
    if not any(_is_name(token) for token in tokens):
        tokens = tuple(part for token in tokens for part in _parts(token))
    name = _name(tokens)
    if name is None:
        if {"--help", "-h"} & set(tokens):
            every = "Experiments: " + ", ".join(experiment_names())
            page("run", run.__doc__, "NAME [FLAGS]", help_epilogue=every)
            return 0
        raise Complaint(
            "Missing NAME of an experiment, for example: festina run "
            f"{experiment_names()[0]}. `festina list` shows all experiments."
        )
    if name in experiment_groups():
        raise Complaint(
            f"'{name}' is a source of many experiments, expected one: `festina reproduce {name}` "
            f"runs all of them, `festina list {name}` lists them."
        )
    find_entry(name)
    rest = list(tokens)
    rest.remove(name)
    experiment = load_experiment(name)

    from ._flags import application

    command = application(experiment, lambda **given: _run(experiment, **given))
    return command(rest) or 0  # the command returns `None` after printing help


def _is_name(token: str) -> bool:
    return token in experiment_names() or token.endswith(".py")


def _parts(token: str) -> tuple[str, ...]:
    """Split the full name of a claim, such as `saddles/figure-1b#drop-times`."""
    name, _, id = token.partition("#")
    return (name, "--claims", id) if id and _is_name(name) else (token,)


def _name(tokens: tuple[str, ...]) -> str | None:
    """Return the token that names the experiment: an existing name, or else the likeliest token."""
    files = [token for token in tokens if token.endswith(".py")]
    for known in (experiment_names(), experiment_groups(), files):
        for token in tokens:
            if token in known:
                return token
    words = [token for token in tokens if not token.startswith("-")]
    if tokens and tokens[0] in words:
        return tokens[0]
    return next(
        (w for w in words if "/" in w or difflib.get_close_matches(w, experiment_names())), None
    )


def _run(
    experiment: Experiment,
    *,
    preset: str | None = None,
    parameters: Path | None = None,
    quick: bool = False,
    animation: bool = False,
    mp4: bool = False,
    out: Path | None = None,
    claims: list[str] | None = None,
    quiet: bool = False,
    json: bool = False,
    debug: bool = False,
    **flags: Any,
) -> int:
    from festina.experiments._perform import kept, perform
    from festina.experiments._runner import check_identifiers, choose, claims_json
    from festina.experiments.claims._claim import labelled

    from ._animation import moving_picture
    from ._parameters import changed, resolve
    from ._progress import Progress
    from ._table import print_results

    chosen = resolve(experiment, preset=preset, quick=quick, file=parameters, flags=flags)
    picture = moving_picture(experiment, animation=animation, mp4=mp4)
    experiment.check_packages()
    if experiment.identifiers is not None:
        names = [f"{experiment.name}#{id}" for id in experiment.identifiers]
        check_identifiers(claims or (), [*experiment.identifiers, *names])
    sweep(*([] if out is None else [free(out).parent]))  # before the first progress message
    if quick and not experiment.quick and not quiet:
        complain(f"{experiment.name} has no quick version; --quick changes nothing.")
    with Progress(quiet=quiet) as progress:
        progress.stage(labelled(experiment.name, preset or ""))
        done = perform(
            experiment,
            chosen,
            preset=preset,
            picture=picture,
            out=out,
            numbered_in=Path("runs", experiment.name),
            progress=progress,
        )
    try:
        shown = replace(done, claims=choose(done.claims, claims or ()))
    except ValueError as error:
        error.add_note(kept(done.folder))
        raise
    if json:
        print(claims_json(claim.to_json() for claim in shown.claims), end="")
        return 0
    changes = changed(experiment, chosen) if any(claim.broken for claim in done.claims) else []
    note = f"Changed parameters: {', '.join(changes)}. The theory may not hold for these values. "
    print_results([shown], every_claim=claims is not None, total=note if changes else "")
    return 0
