"""Test docstrings of parameters, which are their help texts."""

from typing import Annotated

import pytest

from festina.experiments import Parameters
from festina.experiments._parameters import check_decreasing, check_increasing


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


class Swept(Parameters):
    widths: Annotated[tuple[int, ...], check_increasing(3)] = (3, 10)
    scales: Annotated[tuple[float, ...], check_decreasing(0.01, 1e-9)] = (1e-3, 1e-4)


@pytest.mark.parametrize(
    "wrong",
    [{"widths": w} for w in [(), (3,), (2, 5), (5, 5), (10, 3)]]
    + [{"scales": s} for s in [(1e-3,), (0.1, 1e-3), (1e-3, 1e-3), (1e-4, 1e-3), (1e-3, 1e-10)]],
)
def test_numbers_in_order_are_asked_for_in_words(wrong):
    (name,) = wrong
    order = {"widths": "increasing", "scales": "decreasing"}[name]
    with pytest.raises(ValueError, match=f"2 or more {order} numbers"):
        Swept(**wrong)
    assert Swept(widths=(3, 4, 7), scales=(0.01, 1e-9)).widths == (3, 4, 7)
