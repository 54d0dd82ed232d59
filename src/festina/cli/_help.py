"""Make help pages from docstrings."""

from typing import Any


def flow(text: str | None) -> str:
    """Return paragraphs without the line breaks of the source; the terminal wraps the lines."""
    paragraphs = (text or "").strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def page(command: str, text: str | None, usage: str, **more: Any) -> None:
    """Print the help of a command whose flags depend on its first argument."""
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
