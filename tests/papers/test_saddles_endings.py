"""Test the time axis of panels: it ends where the loss no longer changes."""

import json
from collections.abc import Sequence

import numpy as np
import pytest
import xarray as xr

from festina.papers.saddles.figure_1._b import PANEL
from festina.papers.saddles.panels._draw import _span, draw_panel
from festina.papers.saddles.panels._reading import Reading

LEVELS = (5.0, 1.0, 0.0)


def reading(*seeds: tuple[str, Sequence[float], Sequence[float]]) -> Reading:
    """Return a panel with these seeds: the ending, steps and losses of each.

    As in a real run, seeds are padded with copies of their last sample.
    """
    saves = np.array([len(steps) for _, steps, _ in seeds])

    def padded(rows):
        return np.stack([np.pad(row, (0, saves.max() - len(row)), "edge") for row in rows])

    step, loss = (padded([seed[part] for seed in seeds]) for part in (1, 2))
    middles = (np.add(LEVELS[:-1], LEVELS[1:]) / 2).tolist()
    drops = [
        [
            next((s for s, x in zip(*seed[1:], strict=True) if x <= level), np.nan)
            for level in middles
        ]
        for seed in seeds
    ]
    weights = ("seed", "save", "unit", "weight"), 1e-300 * np.ones((*step.shape, 3, 2))
    over = ("seed", "save")
    groups = {
        "simulation": xr.Dataset(
            {
                "loss": (over, loss),
                "saves": ("seed", saves),
                "ending": ("seed", [seed[0] for seed in seeds]),
                "u": weights,
                "v": weights,
            },
            {"seed": np.arange(len(seeds)), "step": (over, step)},
        ),
        "plateaus": xr.Dataset({"count": ("seed", np.full(len(seeds), 2))}),
        "theory": xr.Dataset({"level": ("plateau", list(LEVELS))}),
        "drops": xr.Dataset({"step": (("seed", "fall"), drops)}),
    }
    run = xr.DataTree.from_dict(groups)
    run.attrs["parameters"] = json.dumps({"seeds": len(seeds)})
    return PANEL.reading(run)


LEARNED = ("converged", [0, 100, 400, 2000], [5.0, 1.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("ending", "steps", "losses", "span"),
    [
        # On a plateau, close to the last drop, and far from it
        ("out of steps", [0, 100, 3000], [5.0, 1.0, 1.0], (3060, "linear")),
        ("finished", [0, 100, 90000], [5.0, 1.0, 1.0], (91800, "log")),
        # Oscillating, and low at the last sample
        ("out of steps", [0, 100, 2000, 2900, 3000], [5.0, 0.2, 0.0, 0.2, 0.0], (3060, "linear")),
        # Converged up to the last digits
        ("out of steps", [0, 100, 3000, 90000], [5.0, 0.2, 1e-4, 1e-5], (500, "linear")),
        ("diverged", [0, 100, 200], [5.0, 1.0, 1e200], (500, "linear")),
    ],
)
def test_who_did_not_converge_is_shown_to_the_end(ending, steps, losses, span):
    assert _span(reading(LEARNED)) == (500, "linear")
    assert _span(reading(LEARNED, (ending, steps, losses))) == span


def test_nothing_is_drawn_after_the_end_of_training():
    """The axis ends with training if seeds stop soon after their last drop."""
    stopped = ("out of steps", [0, 100, 400, 420], [5.0, 1.0, 0.4, 0.3])
    assert _span(reading(stopped, stopped)) == (pytest.approx(428.4), "linear")


def test_a_seed_that_diverges_leaves_through_the_top():
    diverged = ("diverged", [0, 100, 200], [5.0, 1.0, 1e200])
    loss = draw_panel(reading(LEARNED, diverged), "1B").axes[0]
    assert loss.get_ylim()[1] < 2 * LEVELS[0]
    assert sorted(np.max(line.get_xdata()) for line in loss.lines[:2]) == [200, 2000]


def test_a_network_that_does_not_move_is_drawn_without_a_warning():
    figure = draw_panel(reading(("saddle", [0], [5.0])), "1B")
    figure.canvas.draw()
    assert figure.axes[0].get_xlim() == (0, 1)
