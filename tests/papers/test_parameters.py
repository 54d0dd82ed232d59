"""Docstrings of parameters, which are their help texts."""

from festina.papers import Parameters


class Wide(Parameters):
    width: int = 3
    """Number of units,
    on two lines."""

    scale: float = 1.0

    seeds: int = 5
    """Few."""


class Silent(Wide):
    width: int = 4


def test_the_text_behind_a_field_is_its_docstring():
    explained = Wide.docstrings()
    assert explained["width"] == "Number of units, on two lines."
    assert explained["seeds"] == "Few."
    assert explained["seed"] == Parameters.docstrings()["seed"] != ""
    assert explained["scale"] == ""


def test_a_field_that_is_written_again_has_its_own_text_or_none():
    assert Silent.docstrings()["width"] == ""
    assert Silent.docstrings()["seeds"] == "Few."


def test_a_class_without_source_is_not_explained():
    made = type("Made", (Parameters,), {"__annotations__": {"width": int}, "width": 3})
    assert made.docstrings() == Parameters.docstrings()
