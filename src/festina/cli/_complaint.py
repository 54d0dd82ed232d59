"""One line on standard error for everything that goes wrong."""

import sys
import traceback


class Complaint(Exception):
    """What was expected, what came, and the likely way out: a sentence or two for the user."""


def one_line(text: object) -> str:
    return " ".join(str(text).split())


def describe(error: BaseException) -> str:
    """An error in one line. Ours carry a message for the user; any other one is named."""
    return one_line(" ".join([_words(error), *notes(error)]))


def notes(error: BaseException) -> list[str]:
    """Return what was added to an error, such as what was kept, without JAX's own remark."""
    added = getattr(error, "__notes__", ())
    return [note for note in added if "JAX has removed its internal frames" not in note]


def _words(error: BaseException) -> str:
    from festina.experiments._invalid import told

    text = one_line(told(error))
    if isinstance(error, OSError) and error.strerror:
        place = f" '{error.filename}'" if error.filename else ""
        return f"Cannot use{place}: {error.strerror}."
    if isinstance(error, Complaint | ValueError | OSError) and text:
        return text
    kind = type(error).__name__
    return f"Unexpected {kind}: {text or 'no message'} (`--debug` shows the traceback)."


def complain(text: str, *, debug: bool = False) -> None:
    """Say `text` on standard error; with `debug`, after the traceback of the error at hand."""
    if debug and sys.exc_info()[0] is not None:
        traceback.print_exc()
    print(f"festina: {one_line(text)}", file=sys.stderr, flush=True)
