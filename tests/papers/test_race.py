"""Test experiments on the neural race: drawn units, and initial conditions."""

import functools

import numpy as np
import pytest
from PIL import Image
from PIL.GifImagePlugin import GifImageFile

from festina.experiments import load_experiment, save_animation
from festina.papers.race import _transition, _xor
from festina.tasks import xor
from small import SMALL


@functools.cache
def made():
    return _xor.run(_xor.Parameters(**SMALL["race/xor"]))


@pytest.mark.slow
def test_units_run_from_chance_to_the_four_examples():
    places = _xor._places(made()["units"].ds).values
    out = np.linalg.norm(places, axis=-1)
    assert out[-1].max() == pytest.approx(1.0)
    assert out[0].max() < 0.6
    far = out[-1] > 0.9
    diagonal = np.abs(places[-1][far]).min(axis=-1) / np.abs(places[-1][far]).max(axis=-1)
    assert far.sum() >= 4
    assert diagonal.min() > 0.8
    quadrants = {tuple(np.sign(place)) for place in places[-1][far]}
    assert len(quadrants) == 4


def test_pathways_start_with_the_strengths_of_their_units():
    x = np.asarray(xor(0.5).x)
    u = np.vstack((2 * x, [[0.0, 0.1, 3.0], [0.0, 0.0, -1.0], [0.0, 0.0, -2.0]]))
    v = np.array([[1.0], [-1.0], [3.0], [1.0], [1.0], [-2.0], [-1.0]])
    length, up = 2 * np.sqrt(2.25), np.hypot(0.1, 3.0)
    starts = _transition._starts(u, v, x)
    np.testing.assert_allclose(starts, [length, 2 * length, 2 * length, length, up, 4.0])


@pytest.mark.slow
def test_the_race_moves(tmp_path):
    animate = load_experiment("race/xor").animate
    assert animate is not None
    save_animation(animate(made()), tmp_path / "race.gif")
    with Image.open(tmp_path / "race.gif") as picture:
        assert isinstance(picture, GifImageFile)
        assert picture.n_frames > 50
    assert (tmp_path / "race.gif").stat().st_size < 3e6
