"""Test `festina show`, `list` and `cite`."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from festina import papers
from festina.papers import _references

from . import toy

REAL = papers.EXPERIMENTS


@pytest.fixture
def made(saved, here):
    saved("run toy/one --preset printed --out a")
    return here / "a"


@pytest.mark.parametrize("what", ["a", "a/run.zarr"])
def test_show_redraws_without_running(what, made, festina, monkeypatch):
    monkeypatch.setattr(toy, "run", None)
    before = {path.name: path.read_bytes() for path in made.glob("figure.*")}
    for path in made.glob("figure.*"):
        path.unlink()
    outcome = festina("show", what)
    assert outcome.status == 0
    assert "toy/one (printed)" in outcome.out
    assert {path.name: path.read_bytes() for path in made.glob("figure.*")} == before


def test_show_elsewhere_leaves_the_run_alone(made, festina, here):
    before = {path: path.stat().st_mtime_ns for path in made.rglob("*")}
    assert festina("show", "a", "--out", "b/c").status == 0
    assert sorted(path.name for path in (here / "b" / "c").iterdir()) == [
        "toy-one-printed.pdf",
        "toy-one-printed.png",
    ]
    assert {path: path.stat().st_mtime_ns for path in made.rglob("*")} == before


def test_show_json_is_claims_json(made, festina):
    assert festina("show", "a", "--json").out == (made / "claims.json").read_text()


def test_a_folder_of_runs_names_them(made, festina, here):
    for number in range(10):
        shutil.copytree(made, here / "all" / str(number))
    complaint = festina("show", "all").complaint
    assert "There is no run in 'all'" in complaint
    assert "all/0, all/1" in complaint
    assert "all/7 and 2 more" in complaint
    assert "all/8" not in complaint
    (here / "empty").mkdir()
    assert "Runs below" not in festina("show", "empty").complaint


def test_cite_a_name_a_source_and_a_run(made, festina):
    one = _references.BIBTEX["zhang2025saddle"] + "\n"
    assert festina("cite", "toy/one").out == one
    assert festina("cite", "a").out == one
    both = festina("cite", "toy").out
    assert both.count("@") == 2
    assert "saxe2014exact" in both


def without_identifiers(folder):
    """Remove the identifiers of the claims in a folder, as in folders of older festina versions."""
    path = folder / "claims.json"
    claims = [{k: v for k, v in each.items() if k != "id"} for each in json.loads(path.read_text())]
    path.write_text(json.dumps(claims))


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_claims_without_identifiers_are_told_in_a_line(made, festina):
    without_identifiers(made)
    before = contents(made)
    for what in ("a", "a/run.zarr"):
        outcome = festina("show", what)
        assert outcome.status == 2
        assert outcome.complaint == (
            "'a' was written by an older festina, whose claims had no identifiers, and cannot be "
            "shown. The folder is left unchanged; the first lines of 'a/parameters.toml' say "
            "how to repeat the run."
        )
    assert contents(made) == before


@pytest.mark.parametrize("out", [[], ["--out", "b"]])
def test_reproduce_leaves_claims_without_identifiers_alone(out, festina, here):
    assert festina("reproduce", "toy/one", "--seeds", "2", *out).status == 0
    top = here / ("b" if out else "runs/reproduce-toy-one/001")
    for folder in (top, top / "one"):
        without_identifiers(folder)
    before = contents(top)
    outcome = festina("reproduce", "toy/one", "--seeds", "2", *out)
    older = f"'{top.relative_to(here)}' was written by an older festina, whose claims had no "
    older += "identifiers, and is left unchanged"
    if out:
        assert outcome.status == 2
        assert outcome.complaint == f"{older}; choose another folder."
    else:
        assert outcome.status == 0
        assert f"festina: {older}; all experiments are trained in a new folder.\n" in outcome.err
        assert (top.parent / "002" / "claims.json").exists()
    assert contents(top) == before


def test_an_unknown_claim_of_a_saved_run_offers_the_nearest(made, festina):
    before = contents(made)
    outcome = festina("show", "a", "--claims", "decai")
    assert outcome.status == 2
    assert outcome.complaint == "Unknown claim 'decai'. Did you mean 'decay'?"
    assert contents(made) == before


def test_a_run_of_another_version_says_how_to_make_it_again(made, festina, monkeypatch):
    def claims(run):
        return run["what no run had before"]

    monkeypatch.setattr(toy, "claims", claims)
    before = (made / "figure.png").read_bytes()
    outcome = festina("show", str(made))
    assert outcome.status == 2
    assert "another version of toy/one" in outcome.err
    assert f"--parameters {made / 'parameters.toml'}" in outcome.err
    assert (made / "figure.png").read_bytes() == before


def test_every_reference_of_every_experiment_exists():
    for entry in papers.EXPERIMENTS:
        assert entry.references
        for key in entry.references:
            assert f"{{{key}," in _references.BIBTEX[key]


def test_list_shows_every_experiment(festina):
    for tokens in (["list"], ["list", "toy"]):
        outcome = festina(*tokens)
        assert outcome.status == 0
        for text in ("toy/one", "Toy, Figure 2", "a loss that falls", "1 s"):
            assert text in outcome.out


@pytest.mark.parametrize("width", [40, 60, 80, 109])
def test_a_narrow_list_breaks_lines_between_words(width, festina, monkeypatch):
    monkeypatch.setattr(papers, "EXPERIMENTS", REAL)
    monkeypatch.setenv("COLUMNS", str(width))
    outcome = festina("list")
    assert outcome.status == 0, outcome.err
    lines = outcome.out.splitlines()
    assert max(map(len, lines)) <= width
    words = {word for entry in REAL for word in f"{entry.shows} {entry.source}".split()}
    assert words <= set(" ".join(lines).replace("(", " ").replace(")", " ").split()) | {
        word for word in words if {"(", ")"} & set(word)
    }


def test_a_table_in_a_pipe_has_a_line_for_each_row(festina, monkeypatch):
    monkeypatch.setattr(papers, "EXPERIMENTS", REAL)
    monkeypatch.delenv("COLUMNS")
    outcome = festina("list")
    assert outcome.status == 0, outcome.err
    lines = outcome.out.splitlines()
    for entry in REAL:
        (line,) = (line for line in lines if line.startswith(f" {entry.name} "))
        assert entry.source in line
        assert entry.shows in line


def test_claims_in_a_pipe_have_a_line_each(made, festina, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    out = festina("show", "a", "--claims").out
    for claim in json.loads((made / "claims.json").read_text()):
        (line,) = (line for line in out.splitlines() if claim["words"] in line)
        assert all(claim[field] in line for field in ("id", "verdict", "source", "at", "note"))
        assert claim["correction"] in line
        assert claim["wrong"] in line


def test_version_and_help(festina):
    from festina import __version__

    assert festina("--version").out.strip() == __version__
    for command in ("list", "run", "show", "cite", "reproduce"):
        assert command in festina("--help").out
        assert f"festina {command}" in festina(command, "--help").out
    assert "exit status" in " ".join(festina("reproduce", "--help").out.split())
    assert "toy/two" in festina("run", "--help").out


def test_help_is_a_command(festina):
    assert festina("help").out == festina("--help").out
    assert festina("help", "show").out == festina("show", "--help").out
    assert festina("help", "run", "toy/one").out == festina("run", "toy/one", "--help").out
    assert "help" in festina("--help").out


def test_every_format_in_the_folder_is_drawn_again(made, festina):
    old = {kind: f"old {kind}" for kind in ("png", "pdf", "svg")}
    for kind, text in old.items():
        (made / f"figure.{kind}").write_text(text)
    assert festina("show", "a", "--format", "png").status == 0
    for kind, text in old.items():
        assert (made / f"figure.{kind}").read_bytes() != text.encode()


def test_a_size(made, festina, here):
    from PIL import Image

    line = "show a --size 8x4.5 --dpi 100 --format png svg --out page --force"
    outcome = festina(*line.split())
    assert outcome.status == 0
    names = ["toy-one-printed.png", "toy-one-printed.svg"]
    assert sorted(path.name for path in (here / "page").iterdir()) == names
    with Image.open(here / "page" / "toy-one-printed.png") as picture:
        assert picture.size == (800, 450)
    assert [Path(line).name for line in outcome.out.splitlines()[-3:-1]] == names
    before = (here / "page" / "toy-one-printed.svg").read_bytes()
    festina(*line.split())
    assert (here / "page" / "toy-one-printed.svg").read_bytes() == before


def test_slides_of_several_runs(made, saved, festina, here):
    from PIL import Image

    festina("run", "toy/one", "--seed", "3", "--out", "b")
    festina("run", "toy/one", "--seed", "4", "--out", "c")
    saved("run toy/two --out d")
    before = contents(here)
    outcome = festina("show", "a", "b", "c", "d", "--slide")
    assert outcome.status == 0, outcome.err
    names = ["toy-one-b", "toy-one-c", "toy-one-printed", "toy-two"]
    kinds = ("pdf", "png")
    drawn = {path.name: path.read_bytes() for path in (here / "slides").iterdir()}
    assert sorted(drawn) == [f"{name}.{kind}" for name in names for kind in kinds]
    assert {here / path: before[path] for path in before} == before
    assert drawn["toy-one-b.png"] != drawn["toy-one-c.png"]
    with Image.open(here / "slides" / "toy-two.png") as picture:
        assert picture.size == (1920, 1080)
    assert [line for line in outcome.out.splitlines() if line.startswith("slides/")] == [
        f"slides/{names[k]}.{kind}" for k in (2, 0, 1, 3) for kind in ("png", "pdf")
    ]
    again = festina("show", "d", "--slide")
    assert again.status == 2
    assert again.complaint == (
        "'slides/toy-two.png' exists already. Overwrite it with `--force`, or choose another "
        "`--out`."
    )
    assert festina("show", "d", "--slide", "--force").status == 0


def test_runs_of_one_name_do_not_share_a_file(made, festina, here):
    shutil.copytree(made, here / "b" / "x")
    shutil.copytree(made, here / "c" / "x")
    complaint = festina("show", "b/x", "c/x", "--slide").complaint
    assert complaint == (
        "Two of the runs would be drawn to 'slides/toy-one-printed-x': draw them one by one, each "
        "with its own `--out`."
    )
    assert not (here / "slides").exists()


@pytest.mark.parametrize("flag", ["--size 8x4", "--dpi 100"])
def test_a_slide_has_its_own_size(flag, made, festina):
    complaint = festina("show", "a", "--slide", *flag.split()).complaint
    assert complaint.startswith("`--slide` has its own size; leave out")


def test_claims_of_several_runs(made, saved, festina, here):
    saved("run toy/two --out b")
    entries = json.loads(festina("show", "a", "b", "--json").out)
    assert entries == [
        entry for run in "ab" for entry in json.loads((here / run / "claims.json").read_text())
    ]
    one = json.loads(festina("show", "a", "b", "--json", "--claims", "decay").out)
    assert [entry["id"] for entry in one] == ["decay", "decay"]


def test_out_is_a_folder_and_no_file(made, festina, here):
    outcome = festina("show", "a", "--out", "slides/x.png")
    assert outcome.status == 2
    assert outcome.complaint == (
        "`--out` must be a folder, got the file 'slides/x.png': festina names the figures. "
        "Use `--out slides`."
    )
    assert not (here / "slides").exists()


def test_out_may_be_the_folder_of_the_run(made, festina):
    assert festina("show", "a", "--out", "./a/../a", "--format", "png").status == 0
    assert not list(made.glob("toy-one*"))


def test_list_as_json(festina):
    listed = json.loads(festina("list", "--json").out)
    assert [entry["name"] for entry in listed] == ["toy/one", "toy/two"]
    assert listed[0] == {
        "name": "toy/one",
        "source": "Toy, Figure 1",
        "shows": "a loss that falls",
        "seconds": 1.0,
        "references": ["zhang2025saddle"],
    }
    assert json.loads(festina("list", "toy", "--json").out) == listed


@pytest.mark.parametrize("words", [["run", ""], ["reproduce", "to"], ["cite", "toy/"]])
def test_the_shell_completes_names(words, festina):
    offered = [line.split("\t")[0] for line in festina("__complete", *words).out.splitlines()]
    assert {"toy/one", "toy/two"} <= set(offered)


def test_completion_is_installed(festina, here, monkeypatch):
    monkeypatch.setenv("HOME", str(here))
    assert festina("--install-completion", "--shell", "bash").status == 0
    (script,) = here.rglob("completions/festina")
    assert "reproduce" in script.read_text()


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX")
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize(("line", "status"), [("list", 0), ("lst", 2)])
def test_nobody_has_to_listen(line, status, closed):
    command = f"{sys.executable} -m festina {line} {closed}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert done.returncode == status
    assert "Traceback" not in done.stderr
    assert "Unexpected" not in done.stderr
