"""Test `--animation`: an animation beside the figures, or one line that the experiment has none."""

import sys

import pytest
from PIL import Image

from festina.experiments import save_animation
from helpers import untyped

from . import toy
from .conftest import everything
from .test_run import FILES


def frames(path):
    with Image.open(path) as picture:
        return untyped(picture).n_frames


def test_run_writes_it_with_the_rest(festina, here):
    outcome = festina("run", "toy/one", "--animation", "--out", "a")
    assert outcome.status == 0
    assert sorted(path.name for path in (here / "a").iterdir()) == ["animation.gif", *FILES]
    assert "animation.gif" in outcome.out
    assert frames(here / "a" / "animation.gif") == 5


def test_without_the_flag_there_is_none(festina, here):
    festina("run", "toy/one", "--out", "a")
    assert not (here / "a" / "animation.gif").exists()


def test_show_makes_the_same_without_running(festina, here, monkeypatch):
    festina("run", "toy/one", "--animation", "--out", "a")
    before = (here / "a" / "animation.gif").read_bytes()
    monkeypatch.setattr(toy, "run", None)
    outcome = festina("show", "a", "--animation", "--out", "b")
    assert outcome.status == 0
    assert "toy-one.gif" in outcome.out
    assert (here / "b" / "toy-one.gif").read_bytes() == before
    assert sorted(path.name for path in (here / "b").iterdir()) == [
        "toy-one.gif",
        "toy-one.pdf",
        "toy-one.png",
    ]


def test_the_size_of_a_slide_is_that_of_the_animation_too(festina, here):
    festina("run", "toy/one", "--out", "a")
    assert festina("show", "a", "--animation", "--size", "4x2.25", "--dpi", "100").status == 0
    with Image.open(here / "a" / "figure.png") as figure:
        assert figure.size == (400, 225)
    with Image.open(here / "a" / "animation.gif") as picture:
        width, height = picture.size
    assert abs(width / height - 16 / 9) < 0.01
    assert width > 400  # at 130 dots per inch, the resolution of animations
    assert frames(here / "a" / "animation.gif") == 5


def test_an_animation_on_a_slide_has_the_pixels_of_the_figure(festina, here):
    festina("run", "toy/one", "--out", "a")
    assert festina("show", "a", "--animation", "--slide").status == 0
    for kind in ("png", "gif"):
        with Image.open(here / "slides" / f"toy-one.{kind}") as picture:
            assert picture.size == (1920, 1080)


@pytest.mark.parametrize("command", ["run toy/one --animation --out b", "show a --animation"])
def test_an_experiment_without_one_says_so_before_any_work(command, festina, here, monkeypatch):
    festina("run", "toy/one", "--out", "a")
    before = everything(here)
    monkeypatch.delattr(toy, "animate")
    monkeypatch.setattr(toy, "run", None)
    outcome = festina(*command.split())
    assert outcome.complaint.startswith("toy/one has no animation;")
    assert outcome.status == 2
    assert everything(here) == before


def test_an_mp4_has_the_same_frames(festina, here):
    import imageio_ffmpeg

    outcome = festina("run", "toy/one", "--mp4", "--out", "a")
    assert outcome.status == 0
    assert sorted(path.name for path in (here / "a").iterdir()) == ["animation.mp4", *FILES]
    count, _ = imageio_ffmpeg.count_frames_and_secs(here / "a" / "animation.mp4")
    assert count == 5


def test_an_mp4_needs_ffmpeg(festina, here, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    outcome = festina("run", "toy/one", "--mp4", "--out", "a")
    assert outcome.complaint.startswith("`--mp4` needs ffmpeg")
    assert outcome.status == 2
    assert everything(here) == []


def test_a_failure_in_the_middle_leaves_the_old_one(festina, here, monkeypatch):
    festina("run", "toy/one", "--animation", "--out", "a")
    before = (here / "a" / "animation.gif").read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("festina.experiments.figures._animation.PillowWriter.grab_frame", full)
    outcome = festina("show", "a", "--animation")
    assert "No space left on device" in outcome.complaint
    assert (here / "a" / "animation.gif").read_bytes() == before
    assert sorted(path.name for path in (here / "a").iterdir()) == ["animation.gif", *FILES]


def test_another_ending_is_refused(festina, here):
    run = toy.run(toy.Parameters(seeds=1))
    animation = toy.animate(run)
    with pytest.raises(ValueError, match=r"must end in \.gif or \.mp4, got '.*a\.png'"):
        save_animation(animation, here / "a.png")
    save_animation(animation, here / "a.gif")
    assert frames(here / "a.gif") == 5


def test_progress_names_the_frames(festina, here, monkeypatch):
    monkeypatch.setattr("festina.cli._progress._PLAIN_EVERY", 0.0)
    last = "toy/one: drawing frame 5 of 5 (100%)"
    assert last in festina("run", "toy/one", "--animation", "--out", "a").err.splitlines()
    outcome = festina("show", "a", "--slide", "--animation", "--out", "b")
    frames = [f"toy/one: drawing frame {k} of 5 ({k / 5:.0%})" for k in range(1, 6)]
    assert [line for line in outcome.err.splitlines() if "frame" in line] == frames
    assert festina("show", "a", "--slide", "--out", "c").err == ""
