"""Formulae become HTML while the site is built, so that pages need no script and no network."""

import functools
import json
import os
from pathlib import Path

from docutils import nodes
from py_mini_racer import JSEvalException, MiniRacer
from sphinx.errors import ExtensionError
from sphinx.util import logging

logger = logging.getLogger(__name__)
KATEX = Path(__file__).parents[1] / "_static" / "katex" / "katex.min.js"


@functools.cache
def engine(process):
    """Return a JavaScript engine with KaTeX: each process needs one of its own."""
    racer = MiniRacer()
    racer.eval(KATEX.read_text(encoding="utf-8"))
    return racer


def formula(display):
    def visit(self, node):
        text = json.dumps(node.astext())
        options = json.dumps({"displayMode": display, "throwOnError": True, "strict": "error"})
        try:
            html = engine(os.getpid()).eval(f"katex.renderToString({text}, {options})")
        except JSEvalException as error:
            logger.warning("%s", str(error).splitlines()[0], location=node)
        else:
            self.body.append(f'<div class="math">{html}</div>' if display else html)
        raise nodes.SkipNode

    return visit, None


def check(app):
    if not KATEX.exists():
        raise ExtensionError("KaTeX is missing: build the site with `make docs`, which fetches it.")


def setup(app):
    app.connect("builder-inited", check)
    app.add_html_math_renderer("katex", formula(False), formula(True))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
