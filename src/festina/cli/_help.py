"""Help pages from docstrings."""


def flow(text: str | None) -> str:
    """Paragraphs without the line breaks of the source: the terminal wraps them itself."""
    paragraphs = (text or "").strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
