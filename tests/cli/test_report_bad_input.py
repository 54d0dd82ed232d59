"""Test reports of runs that are damaged, foreign, too many or in the wrong place."""

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from festina import _run
from festina.report import _page, _section, read_sections
from festina.report._page import render

from .conftest import TOY
from .test_report import page
from .test_report import run as run

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
TEXTS = ("experiment", "preset", "id", "words", "source", "at", "note", "correction", "wrong")
ENTRY = dict.fromkeys(TEXTS, "") | {"verdict": "holds", "broken": False, "instead": None}
ENTRY |= {"predicted": 1.0, "measured": 1.0, "tolerance": 0.1, "holds": True}
DAMAGES = {
    "truncated chunk": lambda store: _cut(_chunk(store)),
    "missing chunk": lambda store: _chunk(store).unlink(),
    "missing metadata": lambda store: (store / "zarr.json").unlink(),
    "truncated metadata": lambda store: _cut(store / "zarr.json"),
    "half-written": lambda store: (store / "festina.json").unlink(),
    "truncated list of files": lambda store: _cut(store / "festina.json"),
    "newer format": lambda store: (store / "festina.json").write_text(
        '{"format_version": 99, "festina_version": "9.0", "files": {"zarr.json": {}}}'
    ),
}


def _chunk(store):
    return next(path for path in store.glob("simulation/loss/c/**/*") if path.is_file())


def _cut(file):
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """Return a folder with a saved run of an experiment that festina does not know."""
    folder = tmp_path_factory.mktemp("foreign")
    data = xr.DataTree(xr.Dataset({"loss": ("time", np.ones(3))}))
    data.attrs |= {"experiment": "theirs", "parameters": {"width": 3}}
    _run.save(data, folder / "run.zarr")
    (folder / "figure.png").write_bytes(b"a picture")
    (folder / "claims.json").write_text("[]")
    return folder


@given(st.sampled_from(sorted(ENTRY)), JSON, st.booleans())
def test_any_claims_make_a_page_or_one_readable_line(foreign, name, value, whole):
    entries = value if whole else [ENTRY | {name: value}]
    (foreign / "claims.json").write_text(json.dumps(entries))
    (section,) = read_sections([foreign])
    assert "</html>" in render([section])
    assert len(section.claims) + len(section.problem.splitlines()) == (entries != [])
    assert not section.problem or "claims.json cannot be read" in section.problem


NAMES = ("experiment", "preset", "parameters", "file", "date", "device", "seconds", "versions")


@given(st.sampled_from(NAMES), JSON | st.dictionaries(st.text(), JSON, max_size=3))
def test_any_attributes_make_a_page_or_one_readable_line(foreign, name, value):
    store = foreign / "run.zarr"
    root = json.loads((store / "zarr.json").read_text())
    root["attributes"][name] = value
    content = json.dumps(root).encode()
    listed = json.loads((store / "festina.json").read_text())
    with pytest.MonkeyPatch.context() as patch:  # as if the stranger had computed the checksum
        patch.setattr(_run._load, "read_files", lambda *_: [("zarr.json", content)])
        assert listed["format_version"] == 1
        (section,) = read_sections([foreign])
    assert "</html>" in render([section])
    assert len(section.problem.splitlines()) <= 1


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_store_keeps_its_claims(festina, run, damage):
    DAMAGES[damage](run / "run.zarr")
    outcome = festina("report", str(run))
    seen = page(run / "report.html")
    assert "the loss falls as e^-t" in seen.text
    if "chunk" not in damage:  # a report reads no chunks
        assert outcome.status == 1
        assert f"{run}" in seen.text or f"{run.name}" in seen.text
        assert "Traceback" not in outcome.err
        (section,) = read_sections([run])
        assert section.label == "toy/one"
        assert len(section.problem.splitlines()) == 1


def test_runs_of_the_same_folder_name_that_cannot_be_read_are_kept_apart(festina, here):
    for name in ("a", "b"):
        (here / name / "001" / "run.zarr").mkdir(parents=True)
    assert festina("report", "a", "b").status == 1
    seen = page(here / "report.html")
    assert {"a/001", "b/001"} <= {*seen.ids}
    assert len(seen.ids) == len({*seen.ids})
    assert "verdicts changed" not in seen.text


def test_an_experiment_of_another_version_hides_no_other_run(festina, run, here):
    claims = json.loads((run / "claims.json").read_text())
    (here / "b" / "run.zarr").mkdir(parents=True)
    gone = [claim | {"experiment": "toy/of-another-version"} for claim in claims]
    (here / "b" / "claims.json").write_text(json.dumps(gone))
    (here / "c" / "run.zarr").mkdir(parents=True)
    festina("report", str(run), "b", "c")
    assert {"toy/one", "toy/of-another-version", "c"} <= {*page(here / "report.html").ids}


def test_a_run_of_a_file_that_is_gone(festina, here):
    shutil.copy(TOY, here / "mine.py")
    festina("run", "mine.py", "--quiet", "--out", "a")
    (here / "mine.py").unlink()
    assert festina("report", "a").status == 0
    assert "festina run mine.py --seeds" in page(here / "a" / "report.html").text


@pytest.mark.parametrize("name", ["search", "page", "50%", "zoom", "<b>", "a b", "ü"])
def test_any_name_of_an_experiment_is_an_anchor(foreign, name):
    (foreign / "claims.json").write_text(json.dumps([ENTRY | {"id": "%"}]))
    (section,) = read_sections([foreign])
    from .test_report import Page

    seen = Page(render(_named([section, section], name)))
    assert len(seen.ids) == len({*seen.ids})


def _named(sections, name):
    from dataclasses import replace

    return [*_section._with_anchors(replace(each, experiment=name) for each in sections)]


def test_pictures_without_room_are_named(festina, run, monkeypatch):
    (run / "animation.gif").write_bytes(b"GIF89a" + bytes(3000))
    monkeypatch.setattr(_section, "LARGEST", 3500)
    outcome = festina("report", str(run))
    assert outcome.status == 0
    for picture in ("figure.png", "figure.svg"):
        (run / picture).unlink(missing_ok=True)
    seen = page(run / "report.html").text
    for said in (seen, " ".join(outcome.out.split())):
        assert "figure.svg' is left out, because the pictures of a page have at most" in said
        assert "animation.gif' is left out" in said
    assert "1 run is shown without figure or animation" in seen
    monkeypatch.setattr(_section, "_LARGEST", 100)
    assert "MB of one picture" in festina("report", str(run)).out


def test_an_animation_is_embedded(festina, run):
    festina("show", str(run), "--animation")
    festina("report", str(run))
    assert 'src="data:image/gif;base64,' in (run / "report.html").read_text()


def test_missing_folders_of_the_target_are_made(festina, run, here):
    assert festina("report", str(run), "--out", "new/folder/ä b.html").status == 0
    assert "toy/one" in page(here / "new" / "folder" / "ä b.html").ids


def test_a_file_as_the_folder_of_the_target(festina, run, here):
    (here / "notes").write_text("mine")
    complaint = festina("report", str(run), "--out", "notes/report.html").complaint
    assert "Cannot write to 'notes/report.html'" in complaint


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission(festina, run):
    run.chmod(0o500)
    assert "Permission denied" in festina("report", str(run)).complaint
    run.chmod(0o700)


def test_a_full_disk_keeps_the_older_report(festina, run, monkeypatch):
    festina("report", str(run))
    before = (run / "report.html").read_text()
    names = sorted(run.iterdir())

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        complaint = festina("report", str(run)).complaint
    assert "No space left on device" in complaint
    assert (run / "report.html").read_text() == before
    assert sorted(run.iterdir()) == names


def test_a_report_is_recognised_without_reading_all_of_it(tmp_path):
    (tmp_path / "other.html").write_text(" " * 2000 + _page.GENERATOR)
    with pytest.raises(ValueError, match="is not a report"):
        _page.check_target(tmp_path / "other.html")
