"""Docstrings are written in Markdown: MyST parses them, and autodoc places the result."""

import re

from docutils.utils import new_document
from myst_parser.parsers.sphinx_ import MystParser
from sphinx.util.docutils import SphinxDirective

NOTE = re.compile(r'^!!! (\w+) "(.*)"\n\n?((?:(?: {4}.*)?(?:\n|\Z))+)', re.MULTILINE)
EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
ARRAY = re.compile(r"(\w+)\[jaxlib\._jax\.Array, ('[^']*')\] \| \1\[ndarray, \2\]")


class Markdown(SphinxDirective):
    """Parse the content as Markdown."""

    has_content = True

    def run(self):
        document = new_document(self.content.source(0), self.state.document.settings)
        text = NOTE.sub(admonition, "\n".join(self.content))
        MystParser().parse(EXAMPLE.sub(r"```pycon\n\g<0>\n```", text), document)
        return document.children


def admonition(note):
    body = re.sub(r"(?m)^ {4}", "", note[3]).rstrip()
    return f":::{{admonition}} {note[2]}\n:class: {note[1]}\n\n{body}\n:::\n"


def as_markdown(app, what, name, obj, options, lines):
    """Wrap a docstring in the directive above."""
    if any(line.strip() for line in lines):
        lines[:] = ["", ".. markdown::", "", *("   " + line for line in lines), ""]


def short_types(app, what, name, obj, options, signature, returns):
    """Show `Float[Array, "…"]` as it is written, not the union that jaxtyping makes of it."""

    def short(text):
        return text and ARRAY.sub(r"\1[Array, \2]", text).replace("Array | ndarray", "Array")

    return short(signature), short(returns)


def setup(app):
    app.add_directive("markdown", Markdown)
    app.connect("autodoc-process-docstring", as_markdown)
    app.connect("autodoc-process-signature", short_types)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
