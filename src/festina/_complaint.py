"""The error for invalid inputs, and parts of the messages of errors."""


class Complaint(Exception):
    """An invalid input: the message says what was expected, what was given, and what to do."""


def one_line(text: object) -> str:
    """Return a text with every run of white space as one space."""
    return " ".join(str(text).split())


def notes(error: BaseException) -> list[str]:
    """Return the notes of an error, such as the place of the saved run, without JAX's own note."""
    added = getattr(error, "__notes__", ())
    return [note for note in added if "JAX has removed its internal frames" not in note]
