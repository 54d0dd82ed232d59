"""Help pages from docstrings."""

from typing import Any


def flow(text: str | None) -> str:
    """Paragraphs without the line breaks of the source: the terminal wraps them itself."""
    paragraphs = (text or "").strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def page(command: str, text: str | None, usage: str, **more: Any) -> None:
    """The help of a command whose flags are those of what it is given."""
    from cyclopts import App

    App(
        name=command,
        help=flow(text),
        usage=f"Usage: festina {command} {usage}",
        help_format="plaintext",
        help_flags=(),
        version_flags=(),
        **more,
    ).help_print([])
