"""Test that finished runs are kept, remains of killed runs are removed, and no run is repeated."""

import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from festina._run._beside import held, hidden

from . import toy
from .conftest import everything
from .test_reproduce import RUNS, second  # noqa: F401
from .test_run import FILES

SAVED = ["parameters.toml", "run.zarr"]


def full(*_, **__):
    raise OSError(28, "No space left on device")


def bug(*_):
    raise TypeError("cannot draw apples")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("place", "failure", "there"),
    [
        ("tests.cli.toy.draw", bug, ["claims.json", *SAVED]),
        ("tests.cli.toy.claims", bug, SAVED),
        ("festina.experiments._runner.write_figure", full, ["claims.json", *SAVED]),
        ("festina.experiments._runner.write_claims", full, SAVED),
    ],
)
def test_a_failure_after_training_loses_none_of_it(
    place, failure, there, festina, here, monkeypatch
):
    with monkeypatch.context() as patch:
        home, _, name = place.removeprefix("tests.cli.").rpartition(".")
        patch.setattr(toy if home == "toy" else sys.modules[home], name, failure)
        outcome = festina("run", "toy/one", "--seed", "3")
    assert outcome.status == 2
    assert "apples" in outcome.complaint or "No space" in outcome.complaint
    assert outcome.complaint.endswith("The run is kept: `festina show runs/toy/one/001` draws it.")
    assert names(here / "runs/toy/one/001") == there
    monkeypatch.setattr(toy, "run", None)
    assert festina("show", "runs/toy/one/001").status == 0
    assert names(here / "runs/toy/one/001") == FILES


def test_an_interruption_while_drawing_loses_nothing_either(festina, here, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(toy, "draw", interrupted)
    outcome = festina("run", "toy/one")
    assert outcome.status == 130
    assert outcome.complaint == (
        "Interrupted. The run is kept: `festina show runs/toy/one/001` draws it."
    )
    assert names(here / "runs/toy/one/001") == ["claims.json", *SAVED]


def test_a_run_that_finds_no_room_is_kept_elsewhere(festina, here, monkeypatch):
    from festina import _run

    save, tries = _run.save, []

    def first_full(run, path):
        tries.append(path)
        return full() if len(tries) == 1 else save(run, path)

    monkeypatch.setattr(_run, "save", first_full)
    monkeypatch.setattr(tempfile, "tempdir", str(here))
    outcome = festina("run", "toy/one", "--out", "a")
    assert "No space left on device" in outcome.complaint
    (kept,) = here.iterdir()
    assert outcome.complaint.endswith(f"The run is kept: `festina show {kept}` draws it.")
    assert names(kept) == SAVED
    assert festina("show", str(kept)).status == 0
    monkeypatch.setattr(_run, "save", full)
    assert festina("run", "toy/one", "--out", "b").complaint.startswith("Cannot write to 'b'")
    assert not (here / "b").exists()


def test_reproduce_goes_on_after_a_failure_of_a_figure(festina, here, second, monkeypatch):  # noqa: F811
    second(draw=bug)
    outcome = festina("reproduce", "toy")
    assert outcome.status == 1
    assert "The run is kept" in outcome.err
    top = here / "runs/reproduce-toy/001"
    assert {*names(top)} == {"claims.json", "report.html", *RUNS}
    second(draw=toy.draw, run=None)
    monkeypatch.setattr(toy, "run", None)
    outcome = festina("reproduce", "toy")
    assert outcome.status == 0
    assert "4 of 4 runs. 4 of them were already finished" in outcome.out
    assert names(top / "two") == sorted([*FILES, "figure.svg"])
    assert names(top.parent) == ["001"]


@pytest.mark.parametrize("out", [[], ["--out", "a"]])
def test_what_is_there_is_not_trained_again(out, festina, here, monkeypatch):
    before = festina("reproduce", "toy", "--seeds", "2", "--claims", *out).out
    monkeypatch.setattr(toy, "run", None)
    after = festina("reproduce", "toy", "--seeds", "2", "--claims", *out)
    assert after.status == 0
    said = (
        "4 of them were already finished, with the same parameters and the same code: "
        "`--fresh` trains again. "
    )
    assert said in " ".join(after.out.split())
    assert " ".join(after.out.split()).replace(said, "") == " ".join(before.split())


@pytest.mark.slow
def test_other_parameters_presets_and_code_are_trained(festina, here, monkeypatch):
    from festina.experiments import _runner

    def trained(*tokens):
        count = []
        monkeypatch.setattr(
            toy, "run", lambda *a, run=toy_run, **k: count.append(1) or run(*a, **k)
        )
        outcome = festina("reproduce", "toy/one", *tokens)
        assert outcome.status == 0
        return len(count), len(list((here / "runs/reproduce-toy-one").iterdir()))

    toy_run = toy.run
    assert trained() == (2, 1)
    assert trained() == (0, 1)
    assert trained("--seed", "2") == (2, 2)
    assert trained("--seeds", "2") == (2, 3)
    assert trained("--seed", "2") == (0, 3)  # an earlier folder, not the newest
    assert trained("--quick") == (1, 4)
    monkeypatch.setattr(toy, "PRESETS", {"printed": {"width": 4, "samples": 20}})
    assert trained() == (2, 5)
    monkeypatch.setattr(_runner, "code", lambda file: "another")
    assert trained() == (2, 6)
    monkeypatch.setattr("festina.__version__", "99")
    assert trained() == (2, 7)
    assert trained("--fresh") == (2, 8)


def test_a_folder_of_other_runs_is_taken(festina, here):
    festina("reproduce", "toy", "--out", "a")
    for flags in (["--seed", "1"], ["--fresh"], ["--quick"]):
        complaint = festina("reproduce", "toy", "--out", "a", *flags).complaint
        assert "exists and is not empty" in complaint


posix = pytest.mark.skipif(os.name == "nt", reason="files are held as on POSIX")


def killed(process, sign, *tokens, **environment):
    with process(*tokens, env=os.environ | environment) as running:
        seen = 0
        while seen < sign:
            line = running.stderr.readline()
            assert line, "ended too early"
            seen += "chatter" in line
        running.send_signal(signal.SIGKILL)
        running.communicate(timeout=20)


@pytest.mark.slow
@posix
def test_what_is_killed_is_cleared_away_by_the_next_command(process, festina, here):
    killed(process, 1, "run", "toy/one", "--ending", "slow")
    assert any(name.startswith("runs/toy/one/.festina-") for name in everything(here))
    killed(process, 1, "reproduce", "toy", "--processes", "1", TOY_SLOW="10")
    left = everything(here)
    assert any(name.startswith("runs/reproduce-toy/001/.festina-") for name in left)
    assert "runs/toy" not in left
    festina("run", "toy/two")
    assert names(here / "runs") == ["toy"]
    assert names(here / "runs/toy") == ["two"]
    assert names(here / "runs/toy/two") == ["001"]


@posix
def test_what_others_are_making_stays(festina, here):
    (here / "runs/toy/one").mkdir(parents=True)
    (here / "runs/reproduce-toy/001").mkdir(parents=True)
    (here / "runs/mine").mkdir()  # an empty folder that festina did not make
    with (
        hidden(here / "runs/toy/one/run", Path.mkdir) as folder,
        held(here / "runs/reproduce-toy/001"),
    ):
        festina("reproduce", "toy", "--seeds", "2")
        assert folder.is_dir()
        assert names(here / "runs/reproduce-toy") == ["001", "002"]
        complaint = festina("reproduce", "toy", "--out", "runs/reproduce-toy/001").complaint
        assert complaint.startswith("Another festina process writes to")
    assert not folder.exists()
    festina("run", "toy/two")
    assert names(here / "runs") == ["mine", "reproduce-toy", "toy"]
    assert names(here / "runs/reproduce-toy") == ["002"]  # folder 001 was empty and is removed
