"""Report every error as one line on standard error."""

import sys
import traceback


class Complaint(Exception):
    """An invalid input: the message says what was expected, what was given, and what to do."""


def one_line(text: object) -> str:
    """Return a text with every run of white space as one space."""
    return " ".join(str(text).split())


def describe(error: BaseException) -> str:
    """Return an error in one line: its message, after its type if the error is unexpected."""
    return one_line(" ".join([_words(error), *notes(error)]))


def notes(error: BaseException) -> list[str]:
    """Return the notes of an error, such as the place of the saved run, without JAX's own note."""
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
    """Print `text` to standard error; `debug` puts the traceback of the current error first."""
    if debug and sys.exc_info()[0] is not None:
        traceback.print_exc()
    print(f"festina: {one_line(text)}", file=sys.stderr, flush=True)
