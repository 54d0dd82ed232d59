"""Test that an experiment in a user's file can be run, reproduced and shown, or is refused."""

import json
import shutil

import pytest

import festina as library
from festina._run._code import code
from festina.experiments import load_experiment

from .conftest import TOY, everything
from .test_run import FILES


@pytest.fixture
def mine(here):
    """Return a copy of the toy experiment in a file that belongs to no package."""
    shutil.copy(TOY, here / "mine.py")
    return here / "mine.py"


def test_a_file_is_run_reproduced_and_shown(festina, here, mine):
    outcome = festina("run", "./mine.py", "--width", "7", "--seeds", "2")
    assert outcome.status == 0
    assert "Toy experiment in NumPy" in outcome.out
    folder = here / "runs" / "mine" / "001"
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert "Number of hidden units" in festina("run", "mine.py", "--help").out
    again = ("run", "mine.py", "--parameters", str(folder / "parameters.toml"), "--out", "b")
    assert festina(*again).status == 0
    assert (here / "b" / "claims.json").read_text() == (folder / "claims.json").read_text()
    before = (folder / "figure.pdf").read_bytes()
    (folder / "figure.pdf").unlink()
    assert festina("show", str(folder)).status == 0
    assert (folder / "figure.pdf").read_bytes() == before
    for said in ("2 of 2 runs. All", "2 of 2 runs. 2 of them were already finished"):
        outcome = festina("reproduce", "./mine.py")
        assert outcome.status == 0
        assert said in " ".join(outcome.out.split())
    top = here / "runs" / "reproduce-mine" / "001"
    claims = json.loads((top / "claims.json").read_text())
    made_by = {(claim["experiment"], claim["preset"]) for claim in claims}
    assert made_by == {("mine", ""), ("mine", "printed")}
    mine.write_text(mine.read_text() + "\n# Another thought.\n")
    code.cache_clear()  # as in a new process, start with an empty cache
    assert "already finished" not in festina("reproduce", "./mine.py").out


def test_a_folder_loads_like_the_store_in_it(festina, here, mine):
    festina("run", "mine.py", "--out", "a")
    whole, store = library.load(here / "a"), library.load(here / "a" / "run.zarr")
    assert whole.identical(store)
    claims = load_experiment(str(mine)).claims(whole)
    assert [claim.to_json() | {"experiment": "mine"} for claim in claims] == json.loads(
        (here / "a" / "claims.json").read_text()
    )


def test_only_a_file_below_here_or_one_that_is_named_is_executed(
    festina, here, mine, monkeypatch, tmp_path_factory
):
    festina("run", "mine.py", "--out", "a")
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    complaint = festina("show", str(here / "a")).complaint
    assert "was made by 'mine.py', which is not below this folder" in complaint
    assert str(here) not in complaint
    assert "`--experiment mine.py`" in complaint
    named = ("show", str(here / "a"), "--experiment", str(mine), "--out", "b")
    assert festina(*named).status == 0
    assert sorted(path.name for path in (elsewhere / "b").iterdir()) == ["mine.pdf", "mine.png"]


def test_a_saved_run_holds_no_path_of_the_machine(festina, here, mine, monkeypatch):
    below = here / "experiments"
    below.mkdir()
    shutil.move(mine, below / "mine.py")
    assert festina("run", "experiments/mine.py", "--out", "a").status == 0
    for path in (here / "a").rglob("*"):
        assert path.is_dir() or str(here).encode() not in path.read_bytes(), path
    assert "# festina run mine.py --parameters" in (here / "a" / "parameters.toml").read_text()
    monkeypatch.chdir(here.parent)  # the file is also found from the parent folder
    assert festina("show", str(here / "a"), "--out", str(here / "b")).status == 0
    monkeypatch.chdir(here / "b")  # the file is not below this folder
    assert "made by 'mine.py'" in festina("show", "../a").complaint


def test_a_file_that_came_with_a_strangers_run_is_not_executed(festina, here, mine):
    festina("run", "mine.py", "--out", "a")
    (here / "a" / "mine.py").write_text("raise SystemExit('executed')")
    (here / "b").mkdir()
    shutil.move(mine, here / "b" / "mine.py")  # the same text at another path
    assert "made by 'mine.py'" in festina("show", "a").complaint


BAD = {
    "x = 1": "is not an experiment: it does not define `Parameters`, `run`, `claims`, `draw`.",
    "x =": "cannot be imported: SyntaxError: invalid syntax",
    "import nothing_of_that_name": "cannot be imported: ModuleNotFoundError: No module named",
}


@pytest.mark.parametrize("text", BAD)
@pytest.mark.parametrize("command", ["run ./bad.py", "run bad.py --help"])
def test_a_file_that_is_no_experiment(text, command, festina, here):
    (here / "bad.py").write_text(text)
    outcome = festina(*command.split())
    assert BAD[text] in outcome.complaint
    assert outcome.status == 2
    assert [name for name in everything(here) if "__pycache__" not in name] == ["bad.py"]


def test_two_claims_of_one_identifier_are_refused_before_the_run(festina, here, mine):
    mine.write_text(mine.read_text().replace('"direction"', '"decay"'))
    lines = [k for k, line in enumerate(mine.read_text().splitlines(), 1) if "claim(" in line]
    outcome = festina("run", "mine.py")
    assert outcome.complaint == (
        f"Two claims are called 'decay': mine.py:{lines[0]} and mine.py:{lines[2]}. "
        "Rename one of them."
    )
    assert outcome.status == 2
    assert not (here / "runs").exists()


def test_an_identifier_that_only_the_run_knows_is_refused_after_it(festina, here, mine):
    mine.write_text(mine.read_text().replace('"direction"', 'str("direction")'))
    assert festina("run", "mine.py", "--claims", "direction", "--out", "a").status == 0
    complaint = festina("run", "mine.py", "--claims", "directions", "--out", "b").complaint
    assert complaint == (
        "Unknown claim 'directions'. Did you mean 'direction'? The run is kept: `festina show b` "
        "draws it."
    )
    assert festina("show", "b", "--claims", "direction").status == 0


def test_what_lies_beside_it_can_be_imported(festina, here, mine):
    (here / "of_mine.py").write_text("WIDTH = 3\n")
    mine.write_text(f"import of_mine\n{mine.read_text()}\nPRESETS = {{'w': {{'width': 3}}}}\n")
    assert festina("run", "mine.py", "--preset", "w").status == 0
