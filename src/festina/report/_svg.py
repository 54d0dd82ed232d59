"""Clean an SVG file of matplotlib, so that a page can contain it without trusting its author.

A run folder may come from a stranger. The cleaned figure holds shapes, embedded pictures and
nothing else: no scripts, no events, no links to other files.
"""

import json
import re
import xml.etree.ElementTree as ET

_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
_TAGS = frozenset(
    {"svg", "g", "path", "use", "defs", "clipPath", "rect", "image", "circle", "pattern", "symbol"}
)
_ATTRIBUTES = frozenset(
    {"viewBox", "d", "transform", "style", "x", "y", "width", "height", "clip-path", "opacity"}
    | {"cx", "cy", "r", "fill", "stroke", "preserveAspectRatio", "patternUnits"}
)
_ROLES = ("theory", "training")
"""Identifiers of `THEORY_STYLE` and `SIMULATION_STYLE`, which become classes."""


def cleaned(text: str, prefix: str, words: str) -> str:
    """Return an SVG file as an element of a page, with `prefix` before all its identifiers.

    `words` describe the figure to a screen reader. `ValueError` is raised if the text is not SVG.
    """
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise ValueError(f"the figure is not valid SVG: {error}") from error
    if root.tag != f"{_SVG}svg":
        raise ValueError("the figure is not SVG")
    clean = _element(root, prefix)
    del clean.attrib["width"], clean.attrib["height"]  # the page chooses the size
    clean.attrib |= {"role": "img", "aria-label": words}
    return ET.tostring(clean, encoding="unicode")


def _element(element: ET.Element, prefix: str) -> ET.Element:
    clean = ET.Element(element.tag.removeprefix(_SVG))
    for name, value in element.attrib.items():
        if name == "id":
            clean.attrib |= _identity(value, prefix)
        elif name == _LINK and value.startswith("#"):
            clean.set("href", f"#{prefix}{value[1:]}")
        elif name == _LINK and value.startswith("data:image/png;base64,"):
            clean.set("href", value)
        elif name in _ATTRIBUTES and (safe := _local(value, prefix)) is not None:
            clean.set(name, safe)
    children = (child for child in element if child.tag.removeprefix(_SVG) in _TAGS)
    clean.extend(_element(child, prefix) for child in children)
    return clean


def _identity(value: str, prefix: str) -> dict[str, str]:
    """Return the identifier, the class or the marks of axes that stand for an identifier."""
    if value in _ROLES:
        return {"class": value}
    if value.startswith("axes {"):
        try:
            return {"data-axes": json.dumps(json.loads(value.removeprefix("axes ")))}
        except ValueError:
            return {}
    return {"id": f"{prefix}{value}"}


def _local(value: str, prefix: str) -> str | None:
    """Return the value with prefixed references, or `None` if it refers to another file."""
    value = re.sub(r"url\(#", f"url(#{prefix}", value)
    refers = re.findall(r"url\(.?", value, re.IGNORECASE)
    return None if "\\" in value or any(each != "url(#" for each in refers) else value
