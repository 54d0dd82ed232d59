"""Test `festina report` and the page that it writes."""

import html.parser
import json
import shlex
import shutil

import pytest

from festina import _run
from festina.report import read_sections

from .conftest import TOY
from .test_reproduce import fail
from .test_reproduce import second as second


class Page(html.parser.HTMLParser):
    """Identifiers, links and texts of a page; a wrong nesting of elements fails."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.texts, self.open = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        known = dict(attrs)
        self.ids += filter(None, [known.get("id")])
        self.links += [known[name] for name in ("href", "src") if name in known]
        if tag not in ("meta", "link", "input", "img", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"script", "style"} & {*self.open}:
            self.texts.append(" ".join(data.split()))

    @property
    def text(self):
        return " ".join(filter(None, self.texts))


def page(path):
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture
def run(saved, here):
    saved("run toy/one --quiet --quick")
    return here / "runs" / "toy" / "one" / "001"


def test_a_page_holds_claims_figure_and_commands(festina, run):
    outcome = festina("report", str(run))
    assert outcome.status == 0
    assert "1 run: 1 × holds; 1 × holds with a correction" in outcome.out
    seen = page(run / "report.html")
    assert {"toy/one", "toy/one/decay"} <= {*seen.ids}
    assert "the loss falls as e^-t" in seen.text
    assert "festina run toy/one --seeds 2 --seed 0 --width 4" in seen.text
    assert "Number of hidden units." in seen.text
    assert "<svg" in (run / "report.html").read_text()


def test_the_page_refers_to_nothing_else(festina, run):
    festina("report", str(run))
    seen = page(run / "report.html")
    inside = [link for link in seen.links if link.startswith("#")]
    assert all(link.startswith(("#", "data:")) for link in seen.links)
    assert {link[1:] for link in inside if "/" in link} <= {*seen.ids}
    assert len(seen.ids) == len({*seen.ids})


QUOTED = """
class Parameters(Parameters):
    label: str = "plain"
    \"\"\"Any text.\"\"\"
"""


@pytest.mark.parametrize(
    "given",
    [
        ("toy/one", "--preset", "printed"),
        ("toy/one", "--spectrum", "3", "0.25", "--teacher", "1", "-2", "0.5", "1e-9", "--no-white"),
        ("sub folder/mine.py", "--label", 'it\'s "quoted"; $HOME'),
    ],
    ids=["preset", "lists", "own file"],
)
def test_the_commands_make_the_run_again(festina, here, given):
    (here / "sub folder").mkdir()
    (here / "sub folder" / "mine.py").write_text(TOY.read_text() + QUOTED)
    assert festina("run", *given, "--quiet", "--width", "3", "--out", "a").status == 0
    (section,) = read_sections(["a"])
    program, *words = shlex.split(section.shell)
    assert program == "festina"
    assert festina(*words, "--quiet", "--out", "b").status == 0
    expected = json.loads((here / "a" / "claims.json").read_text())
    assert json.loads((here / "b" / "claims.json").read_text()) == expected
    assert _run.attributes("b")["parameters"] == _run.attributes("a")["parameters"]
    names = {}
    exec(section.python, names)
    claims = [claim.to_json() for claim in names["run"].claims]
    assert json.loads(json.dumps(claims)) == expected


def test_two_runs_are_compared(festina, run, here):
    festina("run", "toy/one", "--quiet", "--ending", "wrong")
    outcome = festina("report", str(run), str(run.with_name("002")))
    assert outcome.status == 1
    seen = page(here / "report.html")
    assert "1 of 3 verdicts changed" in seen.text
    assert 'ending "well" "wrong"' in seen.text
    assert "toy/one+2/decay" in seen.ids


def test_reproduce_writes_a_report(festina, here):
    festina("reproduce", "toy", "--quiet")
    top = here / "runs" / "reproduce-toy" / "001"
    seen = page(top / "report.html")
    assert {"toy/one", "toy/one+printed", "toy/two", "toy/two+printed"} <= {*seen.ids}


def test_missing_runs_are_named(festina, here, second):
    second(run=fail(ValueError("no luck")))
    assert festina("reproduce", "toy", "--quiet", "--quick").status == 1
    seen = page(here / "runs" / "reproduce-toy" / "001" / "report.html")
    assert "failed: no luck" in seen.text
    assert {"toy/one", "toy/two"} <= {*seen.ids}


def test_markup_in_names_and_values_is_text(festina, run):
    entries = json.loads((run / "claims.json").read_text())
    attack = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    entries[0] |= {"id": f"{attack}", "words": attack, "note": attack, "measured": attack}
    (run / "claims.json").write_text(json.dumps(entries))
    text = (run / "parameters.toml").read_text().replace("hidden units", attack)
    (run / "parameters.toml").write_text(text)
    festina("report", str(run))
    text = (run / "report.html").read_text()
    assert "alert(1)" in text
    assert attack not in text
    assert "<img" not in text


def test_a_folder_with_spaces_and_umlauts(festina, run, here):
    there = here / "Läufe von gestern"
    shutil.copytree(run, there)
    festina("report", str(there))
    assert "Läufe von gestern" in page(there / "report.html").text


def test_a_damaged_run_is_a_problem_of_its_section(festina, run, here):
    festina("run", "toy/one", "--quiet")
    manifest = run / "run.zarr" / "festina.json"
    manifest.write_text(manifest.read_text()[:-30])
    outcome = festina("report", str(run.parent))
    assert outcome.status == 1
    assert "2 runs: 2 × holds; 2 × holds with a correction" in outcome.out
    assert "is damaged" in page(run.parent / "report.html").text or "incomplete" in outcome.out


@pytest.mark.parametrize("content", ["", "{}", "[1]", "[{}]", '[{"id": "decay"}]'])
def test_unreadable_claims_are_a_problem(festina, run, content):
    (run / "claims.json").write_text(content)
    outcome = festina("report", str(run))
    assert outcome.status == 1
    assert "claims.json cannot be read" in page(run / "report.html").text


def test_a_missing_figure_is_drawn_and_a_damaged_one_replaced(festina, run):
    festina("report", str(run))
    assert (run / "figure.svg").exists()
    (run / "figure.svg").write_text("<svg")
    festina("report", str(run))
    text = (run / "report.html").read_text()
    assert 'src="data:image/png;base64,' in text


def test_the_experiment_file_is_not_needed(festina, run, monkeypatch):
    from festina import papers

    festina("report", str(run))
    monkeypatch.setattr(papers, "EXPERIMENTS", ())
    (section,) = read_sections([run])
    assert "<svg" in section.figure
    assert section.claims[0]["id"] == "decay"


def test_other_files_are_not_overwritten(festina, run, here):
    mine = here / "notes.html"
    mine.write_text("<p>mine</p>")
    assert "is not a report" in festina("report", str(run), "--out", str(mine)).complaint
    assert mine.read_text() == "<p>mine</p>"
    assert festina("report", str(run)).status == 0
    assert festina("report", str(run)).status == 0  # a report is replaced
    assert "is a folder" in festina("report", str(run), "--out", str(here)).complaint


def test_a_folder_without_runs_is_one_line(festina, here):
    assert "has no finished run" in festina("report", str(here)).complaint
    assert "does not exist" in festina("report", "nowhere").complaint
