"""Describe an error in one line."""

from .._complaint import Complaint, notes, one_line
from ._invalid import told


def describe(error: BaseException, hint: str = " (`--debug` shows the traceback)") -> str:
    """Return an error in one line: its message, after its type if the error is unexpected.

    `hint` follows the message of an unexpected error.
    """
    return one_line(" ".join([_words(error, hint), *notes(error)]))


def _words(error: BaseException, hint: str) -> str:
    text = one_line(told(error))
    if isinstance(error, OSError) and error.strerror:
        place = f" '{error.filename}'" if error.filename else ""
        return f"Cannot use{place}: {error.strerror}."
    if isinstance(error, Complaint | ValueError | OSError) and text:
        return text
    kind = type(error).__name__
    return f"Unexpected {kind}: {text or 'no message'}{hint}."
