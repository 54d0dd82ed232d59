"""Render the templates of the explorer."""

import functools
from typing import Any

import jinja2
from starlette.responses import HTMLResponse


@functools.cache
def environment() -> jinja2.Environment:
    """Return the environment of all templates of the explorer."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("festina.explore"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page from a template."""
    text = environment().get_template(template).render(**values)
    # Names of files and texts of strangers may contain characters that UTF-8 lacks.
    return HTMLResponse(text.encode("utf-8", "replace"), status)


def sorry(words: str, status: int = 404) -> HTMLResponse:
    """Return a page with one sentence about what is wrong."""
    return page("sorry.html", status, title="This page cannot be shown", here="", words=words)
