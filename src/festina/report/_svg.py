"""Clean an SVG file of matplotlib, so that a page can contain it without trusting its author.

A run folder may come from a stranger. The cleaned figure holds shapes, embedded pictures and
nothing else: no scripts, no events, no links to other files.
"""

import json
import re
import xml.etree.ElementTree as ET
from typing import Literal

import pydantic
from typing_extensions import TypedDict  # pydantic needs this one on Python 3.11

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


class _Axes(TypedDict):
    box: tuple[float, float, float, float]
    scales: tuple[Literal["linear", "log"], Literal["linear", "log"]]
    limits: tuple[tuple[float, float], tuple[float, float]]


_AXES = pydantic.TypeAdapter(_Axes)
"""Marks of axes; see `experiments/figures/_marks.py`."""


def cleaned(text: str, prefix: str, words: str) -> str:
    """Return an SVG file as an element of a page, with `prefix` before all its identifiers.

    `words` describe the figure to a screen reader. `ValueError` is raised if the text is not SVG.
    """
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise ValueError(f"the figure is not valid SVG: {error}") from error
    view = re.fullmatch(r"[\d.]+ [\d.]+ ([\d.]+) [\d.]+", root.get("viewBox", ""))
    if root.tag != f"{_SVG}svg" or view is None:
        raise ValueError("the figure is not SVG with a view box")
    try:
        clean = _element(root, prefix)
        for name in ("width", "height"):  # the page chooses the size
            clean.attrib.pop(name, None)
        clean.attrib |= {"role": "img", "aria-label": words, "style": f"--width: {view[1]}"}
        return ET.tostring(clean, encoding="unicode")
    except RecursionError as error:
        raise ValueError("the elements of the SVG are nested too deeply") from error


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
            marks = _AXES.validate_json(value.removeprefix("axes "))
        except pydantic.ValidationError:
            return {}
        return {"data-axes": json.dumps(marks)}
    return {"id": f"{prefix}{value}"}


def _local(value: str, prefix: str) -> str | None:
    """Return the value with prefixed references, or `None` if it refers to another file."""
    value = re.sub(r"url\(#", f"url(#{prefix}", value)
    refers = re.findall(r"url\(.?", value, re.IGNORECASE)
    return None if "\\" in value or any(each != "url(#" for each in refers) else value
