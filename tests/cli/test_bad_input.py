"""Test that wrong input gives one error line and exit status 2, and leaves no file behind."""

import os
import re
import shutil

import pytest

from festina.cli import _folder

from .conftest import everything

BAD_COMMAND_LINES = {
    "lst": "Unknown command 'lst'. Did you mean 'list'?",
    "run toy/onne": "Unknown experiment 'toy/onne'. Did you mean 'toy/one'?",
    "run toy/": "Unknown experiment 'toy/'. Did you mean one of toy/one, ",
    "run one": "Unknown experiment 'one'. Did you mean 'toy/one'?",
    "run toy": "'toy' is a source of many experiments, expected one: `festina reproduce ",
    "run --quick toy": "'toy' is a source of many experiments",
    "run --width 3 toy/onne": "Unknown experiment 'toy/onne'. Did you mean 'toy/one'?",
    "run": "Missing NAME of an experiment, for example: festina run toy/one.",
    "run toy/one --widht 3": "Unknown flag '--widht'. Did you mean '--width'?",
    "run toy/one -w 3": "Unknown flag '-w'. Did you mean one of --width, --white?",
    "run toy/one --sp 3": "Unknown flag '--sp'. Did you mean '--spectrum'?",
    "hlep": "Unknown command 'hlep'. Did you mean 'help'?",
    "help lst": "Unknown command 'lst'. Did you mean 'list'?",
    "help run toy/onne": "Unknown experiment 'toy/onne'. Did you mean 'toy/one'?",
    "explain": "Unknown command 'explain'. There are: list, run, show, cite, reproduce, ",
    "run toy/one --size 3": "Unknown flag '--size'. There are: --seeds, ",
    "run ./mine.py": "There is no file './mine.py' with an experiment.",
    "reproduce mine.py": "There is no file 'mine.py' with an experiment.",
    "show a --size 16:9": "`--size` must be width x height in inches, such as 8x4.5, got '16:9'.",
    "show a --size 16x0": "`--size` must be 0.5 to 200 inches, got '0'.",
    "show a --dpi many": "`--dpi` must be 1 to 2400 dots per inch, got 'many'.",
    "show a --dpi nan": "`--dpi` must be 1 to 2400 dots per inch, got 'nan'.",
    "show a --format gif": "`--format` must be one of 'png', 'pdf', 'svg', got 'gif'.",
    "run toy/one extra": "Unexpected 'extra': give values after a --flag.",
    "run toy/one --width": "`--width` needs a value.",
    "run toy/one --spectrum": "`--spectrum` needs a value.",
    "run toy/one --teacher 1 2 3": "`--teacher` needs 4 values, got 3.",
    "run toy/one --width 1 --width 2": "`--width` is given more than once.",
    "run toy/one --width -3": "`--width` must be at least 1, got -3.",
    "run toy/one --width 2.7": "`--width` must be a whole number, got 2.7.",
    "run toy/one --width none": "`--width` must be a whole number, got 'none'.",
    "run toy/one --width many": "`--width` must be a whole number, got 'many'.",
    "run toy/one --initial-scale 0": "`--initial-scale` must be more than 0, got 0.",
    "run toy/one --initial-scale nan": "`--initial-scale` must be a finite number, got nan.",
    "run toy/one --initial-scale inf": "`--initial-scale` must be a finite number, got inf.",
    "run toy/one --spectrum 1 x": "`--spectrum[1]` must be a number, got 'x'.",
    "run toy/one --spectrum none": "`--spectrum[0]` must be a number, got 'none'.",
    "run toy/one --variances 1 -1": "`--variances[1]` must be more than 0, got -1.",
    "run toy/one --variances 0 1": "`--variances[0]` must be more than 0, got 0.",
    "run toy/one --variances 1 x": "`--variances[1]` must be a number, got 'x'.",
    "run toy/one --variances 1 inf": "`--variances[1]` must be a finite number, got inf.",
    "run toy/one --variances 1 none": "`--variances[1]` must be a number, got 'none'.",
    "run toy/one --variances none": "`--variances` must be a list of values, got 'none'.",
    "run toy/one --variances 1": "`--variances` needs 2 values, got 1.",
    "run toy/one --variances 1 1 1 --width 3": "`--variances` needs 2 values, got 3.",
    "run toy/one --width=3 4": "`--width` needs 1 value, got 2.",
    "run toy/one --white False": (
        "`--white` takes no value, got 'False': `--no-white` is its opposite."
    ),
    "run toy/one --no-white 1": "`--no-white` takes no value, got '1': `--white` is its opposite.",
    "run toy/one --quiet yes": "`--quiet` takes no value, got 'yes'.",
    "run toy/one --white=maybe": "`--white` must be true or false, got 'maybe'.",
    "run toy/one --activation rely": (
        "`--activation` must be one of 'linear', 'relu', 'tanh', got 'rely'. Did you mean 'relu'?"
    ),
    "run toy/one --samples 3": "`samples` is 3, below the width 10.",
    "run toy/one --seeds 0": "`--seeds` must be at least 1, got 0.",
    "run toy/one --preset prnted": "Unknown preset 'prnted'. Did you mean 'printed'?",
    "run toy/one --parameters no.toml": "Cannot read `--parameters` 'no.toml': No such file",
    "run toy/one --out": "`--out` needs a value.",
    "run toy/one --claims decai": "Unknown claim 'decai'. Did you mean 'decay'?",
    "run toy/one --claims toy/one#with": "Unknown claim 'toy/one#with'. Did you mean 'toy/one#w",
    "run toy/one#with": "Unknown claim 'with'. Did you mean 'width'?",
    "run toy/onne#width": "Unknown experiment 'toy/onne#width'. Did you mean 'toy/one'?",
    "reproduce toy --claims decai": "Unknown claim 'decai'. Did you mean 'decay'?",
    "run toy/one --ending value": "the learning rate 3 is above the stability limit 2",
    "run toy/one --ending bug": "Unexpected TypeError: cannot add apples and pears",
    "list tyo": "Unknown source 'tyo'. Did you mean 'toy'?",
    "cite toy/onne": "Unknown experiment or run folder 'toy/onne'. Did you mean 'toy/one'?",
    "show nowhere": "There is no run in 'nowhere': 'nowhere/run.zarr' does not exist.",
    "show": "Missing RUN of `festina show`.",
    "reproduce tyo": "Unknown source 'tyo'. Did you mean 'toy'?",
    "reproduce nosuch": "Unknown source 'nosuch'. There are: toy, all.",
    "reproduce toy/onne": "Unknown source 'toy/onne'. Did you mean 'toy/one'?",
    "reproduce": "Missing SOURCE of `festina reproduce`.",
    "reproduce toy --seeds 0": "`--seeds` must be at least 1, got 0.",
    "reproduce toy --processes 0": "`--processes` must be a whole number of at least 1, got '0'.",
    "reproduce toy --processes 2.5": "`--processes` must be a whole number of at least 1, got '2",
    "reproduce toy --seed 1.5": "`--seed` must be a whole number, got 1.5.",
}


@pytest.mark.parametrize("line", BAD_COMMAND_LINES)
def test_one_line_and_nothing_left(line, festina, here):
    outcome = festina(*line.split())
    assert outcome.complaint.startswith(BAD_COMMAND_LINES[line])
    assert outcome.status == 2
    assert everything(here) == []


BAD_FILES = {
    "widht = 3": "`widht` in 'p.toml': Unknown parameter 'widht'. Did you mean 'width'?",
    "[width]\nx = 1": "`width` in 'p.toml' must be a whole number, got {'x': 1}.",
    "width = -1": "`width` in 'p.toml' must be at least 1, got -1.",
    "width = 2.5": "`width` in 'p.toml' must be a whole number, got 2.5.",
    "width = 'a'\nseed = -1": (
        "`seed` in 'p.toml' must be at least 0, got -1. "
        "`width` in 'p.toml' must be a whole number, got 'a'."
    ),
    "activation = 'rely'": (
        "`activation` in 'p.toml' must be 'linear', 'relu' or 'tanh', got 'rely'. "
        "Did you mean 'relu'?"
    ),
    "spectrum = [1, nan]": "`spectrum[1]` in 'p.toml' must be a finite number, got nan.",
    "variances = [1, -1]": "`variances[1]` in 'p.toml' must be more than 0, got -1.",
    "variances = [1, 1, 1]": ("`variances` in 'p.toml' must have at most 2 values, got [1, 1, 1]."),
    "variances = 'none'": "`variances` in 'p.toml' must be a list of values, got 'none'.",
    "teacher = [[1, 2], [3, 'x']]": "`teacher[1][1]` in 'p.toml' must be a number, got 'x'.",
    "teacher = [[1, 2], [3]]": "`teacher[1][1]` in 'p.toml' must be given",
    "seed = 1\nwidth = = 3": "`--parameters` 'p.toml' is not valid TOML: Invalid value (at line 2",
    "\xff": "`--parameters` 'p.toml' is not a text file in UTF-8",
    "": "`--parameters` 'p.toml' sets no parameter.",
    "# width = 3\n": "`--parameters` 'p.toml' sets no parameter.",
}


@pytest.mark.parametrize("text", BAD_FILES)
def test_a_bad_parameter_file(text, festina, here):
    (here / "p.toml").write_text(text, encoding="latin-1")
    outcome = festina("run", "toy/one", "--parameters", "p.toml")
    assert outcome.complaint.startswith(BAD_FILES[text])
    assert outcome.status == 2
    assert everything(here) == ["p.toml"]


@pytest.mark.parametrize("command", ["run toy/one", "reproduce toy", "reproduce toy --fresh"])
def test_a_folder_that_is_taken(command, festina, here):
    (here / "a").mkdir()
    (here / "a" / "thesis.tex").touch()
    outcome = festina(*command.split(), "--out", "a")
    assert re.fullmatch("`--out` '.*a' exists and is not empty; .*", outcome.complaint)
    assert outcome.status == 2
    assert everything(here) == ["a", "a/thesis.tex"]


@pytest.mark.parametrize("command", ["run toy/one", "reproduce toy"])
@pytest.mark.parametrize("out", ["a", "a/b"])
def test_a_file_where_the_folder_should_be(command, out, festina, here):
    (here / "a").touch()
    outcome = festina(*command.split(), "--out", out)
    assert "a' exists and is not a folder" in outcome.complaint or (
        "Not a directory" in outcome.complaint
    )
    assert outcome.status == 2
    assert everything(here) == ["a"]


@pytest.mark.parametrize("command", ["run toy/one", "reproduce toy"])
@pytest.mark.parametrize("out", [[], ["--out", "a/b"]])
def test_a_read_only_folder_is_noticed_before_any_work(command, out, festina, here, monkeypatch):
    def refuse(path, *_, **__):
        raise PermissionError(13, "Permission denied", str(path))

    # Permissions would not stop root from writing
    monkeypatch.setattr(_folder.Path, "mkdir", refuse)
    outcome = festina(*command.split(), *out)
    monkeypatch.undo()
    assert re.match("Cannot write to '.*': Permission denied. Choose another", outcome.complaint)
    assert outcome.status == 2
    assert "chatter" not in outcome.err
    assert everything(here) == []


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
@pytest.mark.parametrize(
    ("command", "out"),
    [("reproduce toy", "a"), pytest.param("run toy/one", "a/b/c", marks=pytest.mark.slow)],
)
def test_a_folder_that_may_not_be_written(command, out, process, here):
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("root may write anywhere")
    # Without this capability, permissions also hold for root
    restricted = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
    (here / "a").mkdir(mode=0o555)
    with process(*command.split(), "--out", out, before=restricted) as running:
        _, err = running.communicate(timeout=60)
    assert running.returncode == 2
    assert "Permission denied. Choose another folder" in err
    assert everything(here) == ["a"]


def test_earlier_runs_survive_a_failure(festina, here):
    festina("run", "toy/one")
    before = everything(here)
    festina("run", "toy/one", "--ending", "bug")
    assert everything(here) == before


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ("run toy/one --ending bug", "TypeError: cannot add apples and pears"),
        ("run toy/one --width 0", "ValidationError"),
        ("run toy/one --widht 1", "UnknownOptionError"),
    ],
)
def test_debug_shows_the_traceback(command, error, festina):
    outcome = festina(*command.split(), "--debug")
    assert outcome.status == 2
    assert "Traceback" in outcome.err
    assert error in outcome.err
    assert outcome.err.splitlines()[-1].startswith("festina: ")


def test_a_damaged_run(festina, here):
    festina("run", "toy/one", "--out", "a")
    (here / "a" / "run.zarr" / "simulation" / "loss" / "zarr.json").write_text("{")
    for command in ("show", "cite"):
        outcome = festina(command, "a")
        assert "is damaged" in outcome.complaint
        assert outcome.status == 2


def test_something_else_than_a_run(festina, here):
    (here / "a" / "run.zarr").mkdir(parents=True)
    assert "is not a run" in festina("show", "a").complaint


def test_a_run_that_no_experiment_made(festina, here):
    from festina._run import load, save

    festina("run", "toy/one", "--out", "a")
    run = load(here / "a" / "run.zarr")
    del run.attrs["experiment"]
    save(run, here / "b" / "run.zarr")
    assert "was not made by an experiment" in festina("show", "b").complaint
    hint = "`festina show b --claims decay`"
    assert hint in festina("show", "b#decay").complaint
    run.attrs["experiment"] = "toy/onne"
    save(run, here / "c" / "run.zarr")
    assert festina("show", "c").complaint.startswith("Unknown experiment 'toy/onne'. Did you mean")
