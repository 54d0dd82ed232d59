"""Test the figure of `coding/width` on given numbers, without training."""

import numpy as np
import xarray as xr

from festina.papers.coding import _width


def test_its_level_has_a_name():
    parameters = _width.Parameters(activations=("linear",))
    widths, over = np.array(parameters.widths), ("width", "chain")
    contrast = (over, 1 + np.outer(2 / widths, [0.9, 1.1]))
    linear = xr.Dataset({"contrast": contrast, "theory": 1.0}, {"width": widths})
    prior = linear.rename(width="variance").assign_coords(variance=list(parameters.variances))
    prior["theory"] = ("variance", np.ones(3))
    run = xr.DataTree.from_dict({"linear": linear, "prior": prior})
    run.attrs["parameters"] = parameters.model_dump_json()
    legend = _width.draw(run).axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["linear", "5 %", "$∝ 1/N$, fitted"]
