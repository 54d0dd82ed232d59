"""Entry point of `festina`: run a command; turn every error into one line and an exit status."""

import contextlib
import gc
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from festina._signals import interruptible
from festina._signals import status as status_of

from ._complaint import Complaint, complain, notes

if TYPE_CHECKING:
    import cyclopts

COMMANDS = (
    *("list", "run", "show", "cite", "reproduce", "report", "pack", "sweep", "watch", "forecast"),
    *("shrink", "explore", "doctor", "help"),
)

HELP = """Predicts how a neural network learns, trains it, and compares prediction with training.

Start with `festina list`, then `festina run NAME`. The parameters of an experiment are flags;
`festina run NAME --help` lists them, and `festina sweep` runs an experiment over a grid of them.
`festina watch`, `festina forecast` and `festina shrink` analyse a training run of your own.
`festina explore` opens pages in the browser where knobs move theory and training together.
`festina doctor` checks the installation.
"""


def main(tokens: Sequence[str] | None = None) -> NoReturn:
    """Run the `festina` command line and exit.

    The exit status is 0 after success. The exit status is 1 if `festina reproduce` found a broken
    claim or a failed experiment, or if pieces of a sweep failed. The exit status is 2 if the
    command could not be carried out; one line on standard error gives the reason. The exit status
    is 130 after Ctrl-C.
    """
    # Imports create half a million permanent objects: searching them for garbage takes half a
    # second and finds none.
    gc.set_threshold(1_000_000, *gc.get_threshold()[1:])
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the shell closed this stream (`>&-`)
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    try:
        status = carry_out(list(sys.argv[1:] if tokens is None else tokens))
    except KeyboardInterrupt as interruption:  # before the command has begun
        complain("Interrupted.")
        status = status_of(interruption)
    if "jax" in sys.modules:
        # The normal shutdown of the interpreter takes half a second, and crashes if a compiled
        # program is still running. All files are written by now.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # the stream is closed
                stream.flush()
        os._exit(status)
    sys.exit(status)


def carry_out(tokens: list[str]) -> int:
    """Carry out one command line and return its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # escape Greek letters that the terminal cannot show
            stream.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue]
    import cyclopts

    debug = "--debug" in tokens
    try:
        with interruptible():
            result = application()(tokens)
            sys.stdout.flush()
        return int(result or 0)
    except KeyboardInterrupt as interruption:
        kept = " ".join(notes(interruption)) or "Nothing unfinished is left behind."
        complain(f"Interrupted. {kept}", debug=debug)
        return status_of(interruption)
    except BrokenPipeError:  # the reader, `head` for example, closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except cyclopts.CycloptsError as error:
        from ._words import usage

        complain(usage(error, COMMANDS), debug=debug)
    except Exception as error:
        from festina.experiments._describe import describe

        complain(describe(error), debug=debug)
    return 2


def application() -> "cyclopts.App":
    """Return the application with all commands."""
    import cyclopts

    import festina
    from festina.experiments import unknown

    from ._cite import cite
    from ._doctor import doctor
    from ._explore import explore
    from ._forecast import forecast
    from ._help import flow
    from ._list import list_experiments
    from ._pack import pack
    from ._report import report
    from ._reproduce import reproduce
    from ._run import run
    from ._show import show
    from ._shrink import shrink
    from ._sweep import sweep
    from ._watch import watch

    app = cyclopts.App(
        name="festina",
        help=flow(HELP),
        help_format="plaintext",
        version=festina.__version__,
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
        result_action="return_value",
    )

    def help_page(*command: str) -> int:
        """Show this page, or the help of a command: `festina help run` is `festina run --help`."""
        if command and command[0] not in COMMANDS:
            raise Complaint(unknown("command", command[0], COMMANDS))
        return app([*command, "--help"]) or 0

    functions = (list_experiments, run, show, cite, reproduce, report, pack, sweep)
    functions += (watch, forecast, shrink, explore, doctor, help_page)
    for order, (name, function) in enumerate(zip(COMMANDS, functions, strict=True)):
        # `run` and `sweep` parse their flags themselves: the flags depend on the experiment.
        own = {"help_flags": (), "version_flags": ()} if function in (run, sweep) else {}
        app.command(function, name=name, help=flow(function.__doc__), sort_key=order, **own)
    app.register_install_completion_command(help="Let the shell complete commands and names.")
    return app
