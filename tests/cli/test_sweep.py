"""Test `festina sweep`: grids on the command line."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
import xarray as xr

from .conftest import TOY, everything

MINE = '''
import time

def energy(scale, depth, pause=0.0):
    """What a scale costs."""
    time.sleep(pause)
    if scale < 0:
        raise ValueError("no such scale")
    return {"energy": scale**depth, "word": "any"}

def at_once(scale, seed):
    if min(seed) < 0:
        raise ValueError("no such seed")
    return {"y": scale + seed}

def nothing(scale):
    pass

def word(a):
    return {"word": ["any"]}

def to_file(a, out="any"):
    return {"y": a}

def helpful(a, help=2):
    return {"y": a}

def several(a, sizes=(1, 2)):
    return {"total": sum(sizes)}

def field(h, k=2):
    return {"y": h * k}
'''


@pytest.fixture
def mine(here, monkeypatch):
    """Write a module under a new name, because imported modules stay in memory between tests."""
    monkeypatch.delitem(sys.modules, "sweepable", raising=False)
    (here / "sweepable.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(here))


def test_an_experiment_over_its_parameters(festina, here):
    line = ("sweep", str(TOY), "--over", "width=3,5", "activation=relu,tanh", "--seeds", "2")
    outcome = festina(*line, "--processes", "1", "--quiet")
    assert outcome.status == 0, outcome.err
    lines = [line.rstrip() for line in outcome.out.splitlines() if line.strip()]
    assert lines[0].startswith("toy over width 2 × activation 2: 4 pieces, ")
    assert "claim      holds at       measured from  median    to" in outcome.out
    assert "decay      4 of 4 pieces  0.006738       0.006738  0.006738" in outcome.out
    assert "width      4 of 4 pieces  3              4         5" in outcome.out
    assert "direction  0 of 4 pieces" in outcome.out
    assert lines[-2] == "4 of 4 pieces are done."
    (store,) = here.glob("runs/toy/sweep-*.zarr")
    assert lines[-1] == f'xarray.open_zarr("{store.relative_to(here)}") reads all results.'
    data = xr.open_zarr(store, chunks=None)
    assert data["holds"].dims == ("width", "activation", "claim")
    assert data["activation"].values.tolist() == ["relu", "tanh"]
    again = festina(*line, "--json", "--quiet", "--processes", "0", "--changed")
    assert json.loads(again.out) == {
        "store": str(store.relative_to(here)),
        "pieces": 4,
        "done": 4,
        "failed": 0,
        "failures": [],
    }


def test_a_preset_gives_way_to_an_axis(festina, here):
    line = ("sweep", str(TOY), "--over", "width=3", "--processes", "0", "--out", "s.zarr")
    assert festina(*line, "--preset", "printed").status == 0
    swept = xr.open_zarr("s.zarr", chunks=None).attrs["sweep"]
    assert (swept["width"], swept["samples"]) == ("[3]", "20")
    assert "`width` is swept over and given one" in festina(*line, "--width", "4").complaint


def test_pieces_that_fail_are_told_and_tried_again(festina, mine, here):
    line = ("sweep", "sweepable:energy", "--over", "scale=-2:1:4", "depth=2", "--out", "s.zarr")
    line += ("--processes", "1")
    outcome = festina(*line)
    assert outcome.status == 1
    assert "energy  0     0.5     1" in outcome.out
    said = (
        "2 failed, the first at scale -2, depth 2: ValueError: no such scale (sweepable.py, line 8)"
    )
    assert said in outcome.out
    assert "2 of 4 pieces are done. `--retry` computes failed pieces again." in outcome.out
    told = json.loads(festina(*line, "--retry", "--json").out)
    assert [each["at"] for each in told["failures"]] == [
        {"scale": -2, "depth": 2},
        {"scale": -1, "depth": 2},
    ]


def test_a_function_of_arrays(festina, mine, here):
    line = (
        "sweep sweepable:at_once --over scale=0:1:3 --seeds 4 --together scale seed --processes 0"
    )
    assert festina(*line.split(), "--out", "s.zarr").status == 0
    data = xr.open_zarr("s.zarr", chunks=None)
    assert data["y"].equals((data["scale"] + data["seed"]).astype(float))
    assert data["status"].dims == ()


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "Missing NAME of an experiment or a function"),
        ("--over width=1,2", "Missing NAME of an experiment or a function"),
        ("toy/on --over width=1", "Did you mean"),
        ("toy/one", "in `over` (`--over`). There are: seeds, "),
        ("toy/one --over width", "`--over` takes NAME=VALUES"),
        ("toy/one --over width=1 width=2", "NAME=VALUES, each NAME once"),
        ("toy/one --over widht=1,2", "Unknown parameter 'widht'. Did you mean 'width'?"),
        ("toy/one --over width=0,2", "`width` must be at least 1, got 0."),
        ("toy/one --over width=1:2:3", "`width` must be a whole number, got 1.5."),
        ("toy/one --over activation=relu,rleu", "`activation` must be 'linear', 'relu'"),
        ("toy/one --over samples=5,20", "`samples` is 5, below the width 10."),
        ("toy/one --over width=", "`width` has no values, so the grid has no points"),
        ("toy/one --over width=1,2 --processes many", "of at least 0, got 'many'"),
        ("toy/one --over width=1,2 --processes -1", "`processes` must be a whole number"),
        ("toy/one --over width=1:10000:10000 seed=0:9999:10000", "100,000,000 points (width 10"),
        ("toy/one --over width=1:200:200 seed=0:99:100", "20,000 pieces. At 1 s each, as usual"),
        ("nowhere:function --over width=1,2", "'nowhere' cannot be imported"),
        ("sweepable.py:energy --over scale=1", "did you mean 'sweepable:energy'?"),
        ("./sweepable.py:energy --over scale=1", "did you mean 'sweepable:energy'?"),
        ("./a//b/../mine.py:energy --over scale=1", "did you mean 'a.mine:energy'?"),
        ("toy/one --over width=1,2 --scheduler slurm", "`sbatch` is not found"),
    ],
)
def test_what_cannot_be_swept(line, words, festina, here):
    outcome = festina("sweep", *line.split())
    assert outcome.status == 2
    assert words in outcome.complaint
    assert everything(here) == []


def test_help_has_the_flags_of_the_experiment(festina):
    page = festina("sweep", "toy/one", "--help").out
    assert "--over" in page
    assert "--initial-scale" in page
    assert "--scheduler" in page
    assert "--animation" not in page
    assert "--together" not in page


def test_help_without_a_name_has_the_flags(festina):
    page = festina("sweep", "--help").out
    assert "Run an experiment, or your own function" in page
    for flag in ("--over", "--together", "--seeds", "--scheduler", "--retry", "--out"):
        assert flag in page


def test_help_of_a_function_is_its_own(festina, mine):
    page = festina("sweep", "sweepable:energy", "--help").out
    assert "What a scale costs." in page
    assert "--depth" in page
    assert "Default: 0.0." in page
    assert "Required, unless it is an axis of --over." in page
    assert page.index("Arguments of the function") < page.index("Flags of the command")


def test_arguments_that_stay_the_same_are_flags(festina, mine, here):
    line = "sweep sweepable:energy --over scale=0:2:3 --processes 0 --quiet --out s.zarr --depth"
    assert festina(*line.split(), "3").status == 0
    assert xr.open_zarr("s.zarr", chunks=None)["energy"].values.tolist() == [0, 1, 8]
    assert "`depth` is 3 there, 2 here" in festina(*line.split(), "2").complaint
    several = "sweep sweepable:several --over a=1 --processes 0 --quiet --out t.zarr --sizes 3 4.5"
    assert festina(*several.split()).status == 0
    assert xr.open_zarr("t.zarr", chunks=None)["total"].values.tolist() == [7.5]
    misspelt = festina("sweep", "sweepable:energy", "--over", "scale=1", "--dept", "3")
    assert misspelt.complaint == "Unknown flag '--dept'. Did you mean '--depth'?"


@pytest.mark.parametrize(("function", "name"), [("to_file", "out"), ("helpful", "help")])
def test_an_argument_that_is_called_like_a_flag_is_refused(function, name, festina, mine, here):
    outcome = festina("sweep", f"sweepable:{function}", "--over", "a=1,2", f"--{name}", "x")
    assert outcome.status == 2
    assert f"has an argument `{name}`, and `--{name}` is a flag" in outcome.complaint
    assert not (here / "x").exists()


def test_arguments_may_be_single_letters(festina, mine, here):
    line = "sweep sweepable:field --over k=1,2 --h 3 --processes 0 --quiet --out s.zarr"
    outcome = festina(*line.split())
    assert outcome.status == 0, outcome.err
    assert xr.open_zarr("s.zarr", chunks=None)["y"].values.tolist() == [3, 6]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:9",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("slrum", "127.0.0.1:99999")),
    ],
)
def test_nobody_at_an_address_is_one_line(address, process, mine, here):
    line = f"sweep sweepable:energy --over scale=1 depth=2 --quiet --scheduler {address}"
    with process(*line.split(), real=True) as running:
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"festina: No scheduler answers at '{address}'.")
    assert ("Did you mean 'slurm'?" in err) == (address == "slrum")


def test_a_function_of_which_nothing_can_be_kept_stops_at_once(festina, mine, here):
    line = "sweep sweepable:nothing --over scale=0:9:10 --processes 1 --quiet --out s.zarr"
    outcome = festina(*line.split())
    assert outcome.status == 2
    assert "must return a dictionary of numbers" in outcome.complaint
    assert "it returned NoneType. 0 of 10 pieces are in" in outcome.complaint
    assert outcome.complaint.endswith("s.zarr'.")
    assert done(here / "s.zarr") == 0


def test_words_are_told_too(festina, mine, here):
    line = "sweep sweepable:word --over a=1 --together a --processes 0"
    out = festina(*line.split()).out
    assert "word over a 1: 1 piece, " in out
    assert "word    text" in out
    assert "1 of 1 piece is done." in out


def test_a_failure_without_axes_has_no_place(festina, mine, here):
    line = "sweep sweepable:at_once --over scale=1 seed=-1 --together scale seed --processes 0"
    assert "\n1 failed: ValueError: no such seed (sweepable.py" in festina(*line.split()).out


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(process, mine, here):
    line = "sweep sweepable:energy --over scale=0:1:4 depth=2 pause=0.5 --out s.zarr --processes 1"
    with process(*line.split(), real=True) as running:
        while not done(here / "s.zarr"):
            assert running.poll() is None
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=20)
    assert running.returncode == 130
    assert out == ""
    last = err.splitlines()[-1]
    assert last.startswith("festina: Interrupted. ")
    assert last.endswith(
        " of 4 pieces are in '" + str(here / "s.zarr") + "'; run the same sweep again to resume."
    )
    before = done(here / "s.zarr")
    with process(*line.split(), real=True) as running:
        out, err = running.communicate(timeout=60)
    assert running.returncode == 0
    assert "4 of 4 pieces are done." in out
    assert f"energy: {before} of 4 pieces" in err


def done(store: Path) -> int:
    if not store.exists():
        return 0
    return int((xr.open_zarr(store, chunks=None)["status"] == "done").sum())
