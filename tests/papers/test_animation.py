"""Test the animation of Figure 1: frames are dense where the loss changes."""

import functools

import numpy as np
import pytest
from PIL import Image
from PIL.GifImagePlugin import GifImageFile

from festina.experiments import load_experiment, save_animation
from festina.papers.saddles.panels._animate import _path

PANEL = "saddles/figure-1b"


@functools.cache
def made():
    experiment = load_experiment(PANEL)
    return experiment.run(experiment.parameters(seed=3, seeds=2, width=10))


@functools.cache
def path():
    from festina.papers.saddles.figure_1._b import PANEL as panel

    reading = panel.reading(made())
    return reading, *_path(reading, 0)


def test_every_panel_moves():
    for letter in "bcdefg":
        assert load_experiment(f"saddles/figure-1{letter}").animate is not None


@pytest.mark.slow
def test_frames_are_equally_far_apart_along_the_path():
    _, step, loss, dots = path()
    moved = np.diff(loss) / (loss[0] - loss[-1])
    # No frame skips much of the loss, and few frames show the same loss.
    assert np.abs(moved).max() < 0.05
    assert np.mean(np.diff(step) > 0) > 0.8
    clock = np.interp(np.linspace(0, step[-1], len(step)), step, loss)
    assert np.abs(np.diff(clock)).max() > 3 * np.abs(np.diff(loss)).max()
    assert dots.shape == (len(step), 10, 2)


def test_the_path_is_that_of_the_run():
    reading, step, loss, dots = path()
    simulation = reading.simulation.isel(seed=0)
    np.testing.assert_allclose(dots[0], simulation["u"].values[0])
    np.testing.assert_allclose(loss, np.interp(step, simulation["step"], simulation["loss"]))


def test_it_rests_on_the_plateau():
    reading, step, loss, _ = path()
    rest = loss[:-1][np.diff(step) == 0]
    assert len(rest) > 5
    assert np.abs(rest - reading.theory["level"].values[1]).min() < 1e-3


@pytest.mark.slow
def test_a_small_gif_that_moves(tmp_path):
    animate = load_experiment(PANEL).animate
    assert animate is not None
    save_animation(animate(made()), tmp_path / "a.gif")
    assert (tmp_path / "a.gif").stat().st_size < 1.5e6
    with Image.open(tmp_path / "a.gif") as picture:
        assert isinstance(picture, GifImageFile)
        assert picture.n_frames > 80
        picture.seek(0)
        first = np.asarray(picture.convert("RGB"), float)
        picture.seek(picture.n_frames - 1)
        last = np.asarray(picture.convert("RGB"), float)
    assert np.abs(first - last).max() > 100
    assert (first[0, 0] == 255).all()
