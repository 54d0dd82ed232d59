"""Test the pages of experiments: their forms, and runs that are started, queued and cancelled."""

import functools
import json
import os
import shlex
import time
from pathlib import Path
from urllib.parse import unquote

import pytest

pytest.importorskip("bokeh", reason="needs the extra explore")
from websockets.exceptions import InvalidStatus

import festina.experiments
from cli import toy
from cli.conftest import everything
from explorer import explorer
from festina import papers
from festina.cli._flags import application
from festina.cli._parameters import resolve
from festina.experiments import Experiment, experiment_names, load_experiment
from festina.explore import _runner
from festina.explore._form import checked, fields, starts

TOY = "toy/one"
ONE = Experiment(toy.EXPERIMENTS[0], toy.Parameters, {}, toy.run, toy.claims, toy.draw)


def reader(experiment: Experiment):
    """Return a function that reads the parameters from a command as the command line does."""
    seen = []

    def command(preset=None, quick=False, **flags):
        seen.append(resolve(experiment, preset=preset, quick=quick, flags=flags))
        return 0

    read = application(experiment, command)

    def parsed(shell: str):
        tokens = shlex.split(shell)
        assert tokens[:3] == ["festina", "run", experiment.name]
        read(tokens[3:])
        return seen[-1]

    return parsed


def executed(python: str):
    """Return the parameters that the shown code makes, without running the experiment."""
    code, _, rest = python.partition("run = ")
    assert rest
    shown: dict = {}
    exec(code, shown)
    return shown["parameters"]


@pytest.mark.parametrize("source", ["linear", "race", "haste", "coding", "saddles"])
def test_forms_of_all_experiments(source, monkeypatch):
    """Defaults, presets and quick versions are valid, and mean the same in all notations."""
    # The shown code loads its experiment again
    monkeypatch.setattr("festina.experiments.load_experiment", functools.cache(load_experiment))
    for name in (each for each in experiment_names() if each.startswith(f"{source}/")):
        experiment = festina.experiments.load_experiment(name)
        given = fields(experiment)
        assert {each.name for each in given} == set(experiment.parameters.model_fields)
        assert all(each.words for each in given), name
        buttons = starts(experiment)
        assert buttons["defaults"] == {each.name: each.default for each in given}
        assert len(buttons) == 1 + bool(experiment.quick) + len(experiment.presets)
        parsed = reader(experiment)
        wanted = {"defaults": {}, "quick": experiment.quick, **experiment.presets}
        for button, values in buttons.items():
            found = checked(experiment, values)
            assert found.parameters == experiment.parameters(**wanted[button]), name
            assert found.problems == {}
            assert parsed(found.shell) == found.parameters
            assert executed(found.python) == found.parameters
            assert len(shlex.split(found.shell)) <= (3 if button == "defaults" else 5)


def test_changed_values_mean_the_same_everywhere():
    experiment = load_experiment("saddles/figure-1b")
    values = starts(experiment)["printed"] | {
        "samples": " 64 ",
        "seeds": "3",
        "loss": "half",
        "input_covariance": "1 .5  '2'",
    }
    found = checked(experiment, values)
    assert found.parameters is not None
    assert found.parameters.model_dump()["input_covariance"] == (1.0, 0.5, 2.0)
    assert reader(experiment)(found.shell) == executed(found.python) == found.parameters


def test_the_command_of_a_toy_has_every_kind_of_parameter():
    values = {
        "width": "4",
        "samples": "20",
        "spectrum": "3 2 1e-9",
        "teacher": "1 2 3 4",
        "variances": "0.5 2",
        "white": False,
        "activation": "tanh",
        "initial_scale": "1e-20",
    }
    found = checked(ONE, values)
    assert found.problems == {}
    assert reader(ONE)(found.shell) == found.parameters
    assert "--no-white" in found.shell
    assert "--teacher 1 2 3 4" in found.shell


@pytest.mark.parametrize(
    ("values", "place", "sentence"),
    [
        ({"width": "x"}, "width", "`width` must be a whole number, got 'x'."),
        ({"width": ""}, "width", "`width` must be a whole number, got ''."),
        ({"width": "0"}, "width", "`width` must be at least 1, got 0."),
        ({"width": "1e99"}, "width", "`width` must be a whole number, got 1e99."),
        ({"initial_scale": "nan"}, "initial_scale", "must be a finite number"),
        ({"activation": "rellu"}, "activation", "Did you mean 'relu'?"),
        ({"spectrum": ""}, "spectrum", "must be a list of values"),
        ({"spectrum": "1 'x"}, "spectrum", "`spectrum[1]` must be a number"),
        ({"variances": "1"}, "variances", "`variances[1]` must be given"),
        ({"variances": "1 -1"}, "variances", "`variances[1]` must be more than 0, got -1."),
        ({"teacher": "1 2 3"}, "teacher", "`teacher[1][1]` must be given"),
        ({"teacher": "1 2 3 4 5"}, "teacher", "at most 2 values"),
        ({"white": "perhaps"}, "white", "must be true or false"),
        ({"samples": "3"}, "", "`samples` is 3, below the width 10."),
        ({"withd": "3"}, "", "Did you mean 'width'?"),
    ],
)
def test_invalid_values_are_explained_beside_their_field(values, place, sentence):
    found = checked(ONE, values)
    assert list(found.problems) == [place]
    assert sentence in found.problems[place]
    assert (found.parameters, found.shell, found.python) == (None, "", "")


class Page:
    """An open page of the toy experiment."""

    def __init__(self, socket):
        self.socket, self.count = socket, 0

    def send(self, kind: str, keep: bool = False, **values) -> None:
        self.count += 1
        wish = {"kind": kind, "n": self.count, "values": values, "keep": keep}
        self.socket.send(json.dumps(wish))

    def until(self, kind: str, **wanted) -> dict:
        """Return the next message with these entries."""
        while True:
            message = json.loads(self.socket.recv(60))
            if message["kind"] == kind and all(message[k] == v for k, v in wanted.items()):
                return message


@pytest.fixture
def runs(tmp_path):
    return tmp_path / "runs"


@pytest.fixture
def client(runs, monkeypatch):
    monkeypatch.setattr(papers, "EXPERIMENTS", toy.EXPERIMENTS)
    with explorer(runs) as opened:
        yield opened


def opened(client) -> Page:
    return Page(client.socket(f"/live-run?experiment={TOY}"))


def ends(running: int) -> bool:
    """Wait until a process has ended, for two seconds at most."""
    for _ in range(200):
        if not Path(f"/proc/{running}").exists():
            return True
        time.sleep(0.01)
    return False


@pytest.fixture
def started(monkeypatch):
    """Return the list of the processes of experiments, in their order."""
    numbers = []

    class Noted(_runner.Server):
        def __init__(self):
            super().__init__()
            numbers.append(self._process.pid)

    monkeypatch.setattr(_runner, "Server", Noted)
    return numbers


def test_a_run_is_shown_with_its_section(client, runs):
    with client.socket(f"/live-run?experiment={TOY}") as socket:
        page = Page(socket)
        page.send("check", width="3")
        assert page.until("checked")["shell"] == "festina run toy/one --width 3"
        page.send("run", width="0")
        assert "at least 1" in page.until("checked")["problems"]["width"]
        page.send("run", width="3", seeds="2")
        assert page.until("run", state="running")["label"] == TOY
        done = page.until("run", state="done")
        assert done["run"] == "toy/one/001"
        page.send("run", width="4", ending="value")  # the same process, and a message of the run
        failed = page.until("run", state="failed")
        assert failed["words"] == "the learning rate 3 is above the stability limit 2"
        page.send("run", ending="bug")
        words = "Unexpected TypeError: cannot add apples and pears."
        assert page.until("run", state="failed")["words"] == words
    kinds = {"claims.json", "figure.png", "figure.pdf", "figure.svg", "parameters.toml", "run.zarr"}
    folder = runs / "toy/one"
    assert {path.name for path in (folder / "001").iterdir()} == kinds
    assert [path.name for path in folder.iterdir()] == ["001"]
    status, text, _ = client.get("/section?run=toy/one/001")
    assert status == 200
    assert text.startswith('<article id="toy/one"')
    assert "<svg" in text
    assert "the loss falls as e^-t" in text
    status, text, _ = client.get("/report?run=toy/one/001")
    assert (status, "1 run</title>" in text) == (200, True)
    assert "/report?run=toy/one/001" in unquote(client.get("/")[1])  # one of the last runs


def test_runs_wait_and_are_cancelled(client, runs, started):
    with (
        client.socket(f"/live-run?experiment={TOY}") as first,
        client.socket(f"/live-run?experiment={TOY}") as second,
        client.socket("/live-run?experiment=toy/two") as third,
    ):
        pages = [Page(each) for each in (first, second, third)]
        pages[0].send("run", ending="slow")
        pages[0].until("run", state="running", words="training", fraction=0.5)
        pages[0].send("run")
        assert "is under way" in pages[0].until("error")["words"]
        pages[1].send("run", ending="well")
        assert pages[1].until("run", state="waiting")["place"] == 1
        pages[2].send("run", seeds="2")
        assert pages[2].until("run", state="waiting")["place"] == 2
        pages[1].send("cancel")
        assert pages[1].until("run", state="cancelled")["words"] == "Cancelled before it began."
        assert pages[2].until("run", state="waiting", place=1)
        pages[1].send("run", seeds="3")
        assert pages[1].until("run", state="waiting")["place"] == 2
        assert any(path.name.startswith(".festina-") for path in (runs / "toy/one").iterdir())
        (running,) = started
        start = time.monotonic()
        pages[0].send("cancel")
        assert pages[0].until("run", state="cancelled")["words"] == "Cancelled."
        assert time.monotonic() - start < 2
        assert ends(running)
        assert pages[2].until("run", state="done")["run"] == "toy/two/001"
        assert pages[1].until("run", state="done")["run"] == "toy/one/001"
    assert [path for path in everything(runs) if Path(path).name.startswith(".")] == []
    assert len(started) == 2


@pytest.mark.slow
def test_a_run_that_is_killed_leaves_nothing(client, runs):
    with client.socket(f"/live-run?experiment={TOY}") as socket:
        page = Page(socket)
        page.send("run", ending="killed")
        assert "unexpectedly, by signal 9" in page.until("run", state="failed")["words"]
        assert not runs.exists()


def test_closing_the_page_cancels_its_run_unless_it_should_go_on(client, runs, monkeypatch):
    monkeypatch.setattr("festina.explore._live_run._GRACE", 0.5)
    # A loaded page may take the process for a moment, so the next page sees the run.
    with client.socket(f"/live-run?experiment={TOY}") as socket:
        page = Page(socket)
        page.send("run", ending="slow")
        page.until("run", state="running", words="training")
    with client.socket(f"/live-run?experiment={TOY}") as socket:  # the page was loaded again
        page = Page(socket)
        assert page.until("run", state="running")["shell"] == "festina run toy/one --ending slow"
        page.send("keep", keep=True)
        page.until("run", keep=True)
    time.sleep(1)
    with client.socket(f"/live-run?experiment={TOY}") as socket:
        page = Page(socket)
        page.until("run", state="running", keep=True)
        page.send("keep", keep=False)
        page.until("run", keep=False)
    deadline = time.monotonic() + 5
    while runs.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not runs.exists()


def test_the_process_is_ready_before_a_run_and_ends_with_the_explorer(runs, started, monkeypatch):
    monkeypatch.setattr(papers, "EXPERIMENTS", toy.EXPERIMENTS)
    with explorer(runs) as client:
        assert started == []  # the pages of scenes need none
        with client.socket(f"/live-run?experiment={TOY}") as socket:
            page = Page(socket)
            while not started:
                time.sleep(0.01)
            page.send("run", ending="slow")
            page.until("run", state="running", words="training")
    assert len(started) == 1
    assert ends(started[0])
    assert not runs.exists()


@pytest.mark.slow
def test_a_runs_folder_that_cannot_be_written(client, runs):
    runs.write_text("a file")
    with client.socket(f"/live-run?experiment={TOY}") as socket:
        page = Page(socket)
        page.send("run")
        words = page.until("run", state="failed")["words"]
    assert words.startswith("Cannot write to")
    assert words.endswith("Choose another folder with `--runs`.")


def test_messages_are_validated(client, monkeypatch):
    monkeypatch.setattr(_runner.Runner, "_work", lambda self: None)  # no process is needed
    messages = (
        *("", "{", "[]", "null", "[" * 30_000, '{"kind": "format"}', '{"kind": "check", "n": "1"}'),
        '{"kind": "run", "values": {"width": 3}}',
        '{"kind": "run", "values": [["width", "3"]]}',
        '{"kind": "run", "file": "/etc/passwd"}',
        '{"kind": "check", "values": {"width": "' + "9" * 20_000 + '"}}',
    )
    with client.socket(f"/live-run?experiment={TOY}") as socket:
        page = Page(socket)
        for message in messages:
            socket.send(message)
            assert "does not understand" in page.until("error")["words"]
        page.send("check")
        assert page.until("checked", n=1)["problems"] == {}


@pytest.mark.parametrize("origin", [None, "http://example.org", "null"])
def test_other_pages_may_not_run_experiments(client, origin):
    with pytest.raises(InvalidStatus), client.socket(f"/live-run?experiment={TOY}", origin):
        pass


@pytest.mark.parametrize("name", ["", "toy/three", "../toy/one", "cli/toy.py", "/etc/passwd"])
def test_unknown_experiments_have_no_page(client, name):
    with pytest.raises(InvalidStatus), client.socket(f"/live-run?experiment={name}"):
        pass
    status, text, _ = client.get(f"/experiment/{name}")
    assert status == 404
    assert "Traceback" not in text


def test_own_files_are_not_executed(client, tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(f"open({str(tmp_path / 'trace')!r}, 'w')")
    assert client.get(f"/experiment/{mine}")[0] == 404
    with pytest.raises(InvalidStatus), client.socket(f"/live-run?experiment={mine}"):
        pass
    assert not (tmp_path / "trace").exists()


def test_values_of_the_address_are_put_into_the_form(client):
    text = client.get("/experiment/toy/one?width=%22%3E%3Cscript%3E&white=false&activation=tanh")[1]
    assert 'value="&#34;&gt;&lt;script&gt;"' in text
    assert "<option selected>tanh</option>" in text
    assert "checked" not in text.partition('name="white"')[2].partition(">")[0]
    assert "<script>" not in text


def test_all_experiments_are_listed_and_open(tmp_path):
    with explorer(tmp_path) as client:
        _, text, _ = client.get("/experiments")
        assert all(f'href="/experiment/{name}"' in text for name in experiment_names())
        for name in ("linear/learning-curves", "coding/schemes", "saddles/figure-3"):
            status, text, _ = client.get(f"/experiment/{name}")
            assert status == 200
            assert f'data-experiment="{name}"' in text
        assert "Did you mean &#39;race/xor&#39;?" in client.get("/experiment/race/xo")[1]


@pytest.mark.slow
def test_two_explorers_share_a_folder(client, runs):
    """Each run has its own folder, and cancelling one leaves the other alone."""
    with (
        explorer(runs) as other,
        client.socket(f"/live-run?experiment={TOY}") as first,
        other.socket(f"/live-run?experiment={TOY}") as second,
    ):
        pages = [Page(first), Page(second)]
        for page in pages:
            page.send("run", ending="slow")
            page.until("run", state="running", words="training")
        assert len(list((runs / TOY).iterdir())) == 2
        pages[0].send("cancel")
        pages[0].until("run", state="cancelled")
        pages[0].send("run")
        assert pages[0].until("run", state="done")["run"] == "toy/one/001"
        assert len(list((runs / TOY).iterdir())) == 2
        pages[1].send("cancel")
        pages[1].until("run", state="cancelled")
        pages[1].send("run")
        assert pages[1].until("run", state="done")["run"] == "toy/one/002"
    assert sorted(path.name for path in (runs / TOY).iterdir()) == ["001", "002"]


@pytest.mark.slow
def test_the_process_ends_if_no_page_needs_it(client, started, monkeypatch):
    monkeypatch.setattr(_runner, "_IDLE", 0.2)
    for _ in range(2):
        with client.socket(f"/live-run?experiment={TOY}") as socket:
            page = Page(socket)
            page.send("run")
            page.until("run", state="done")
        assert ends(started[-1])
    assert len(started) == 2


@pytest.mark.slow
def test_the_quickest_experiment_runs(tmp_path):
    with (
        explorer(tmp_path) as client,
        client.socket("/live-run?experiment=linear/exponential-to-sigmoidal") as socket,
    ):
        page = Page(socket)
        page.send("run", seeds="1")
        assert page.until("run", state="done")["run"] == "linear/exponential-to-sigmoidal/001"
    assert os.path.exists(tmp_path / "linear/exponential-to-sigmoidal/001/figure.svg")
