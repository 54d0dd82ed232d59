"""Test the pages of saved runs: the list, reports, and folders that are damaged or hostile."""

import json
import os
import re
import shutil
import time
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import xarray as xr

pytest.importorskip("bokeh", reason="needs the extra explore")
import festina
from explorer import Explorer, explorer
from festina.explore._runs import places, summary

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c6360000002000001e221bc330000000049454e44ae426082"
)


def claim(experiment: str, verdict: str = "holds", words: str = "the loss falls") -> dict:
    numbers = {"predicted": 1.0, "measured": 1.0, "tolerance": 0.1, "holds": verdict == "holds"}
    texts = dict.fromkeys(("preset", "source", "at", "note", "correction", "wrong"), "")
    known = {"experiment": experiment, "id": "falls", "words": words, "verdict": verdict}
    return {**known, **texts, **numbers, "broken": verdict != "holds", "instead": None}


def saved(folder: Path, experiment: str = "race/xor", **entry: str) -> Path:
    """Write a small run with one claim and a picture."""
    parameters = json.dumps({"seeds": 2, "seed": 0})
    known = {"experiment": experiment, "preset": "", "parameters": parameters}
    known |= {"date": "2026-11-20T01:02:03+00:00", "versions": {"jax": "0.8"}, "file": ""}
    tree = xr.DataTree(xr.Dataset({"loss": ("time", np.ones(3))}, attrs=known))
    festina.save(tree, folder / "run.zarr")
    (folder / "claims.json").write_text(json.dumps([claim(experiment, **entry)]))
    (folder / "figure.png").write_bytes(PIXEL)
    (folder / "figure.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><path d="M0 0 L9 9"/></svg>'
    )
    return folder


@pytest.fixture(scope="module")
def top(tmp_path_factory):
    return tmp_path_factory.mktemp("top")


@pytest.fixture(scope="module")
def opened(top):
    with explorer(top / "runs") as client:
        yield client


@pytest.fixture
def runs(top):
    """Return the folder of runs, which does not exist at first."""
    yield top / "runs"
    for path in top.iterdir():
        path.unlink() if path.is_file() else shutil.rmtree(path)


def names(client: Explorer, path: str = "/runs") -> list[str]:
    status, text, _ = client.get(path)
    assert status == 200
    return re.findall(r'name="run" value="([^"]*)"', text)


def test_missing_empty_and_wrong_folders_are_explained(opened, runs):
    assert "There is no folder" in opened.get("/runs")[1]
    runs.mkdir()
    assert "There are no runs" in opened.get("/runs")[1]
    (runs / "race/xor/001/run.zarr/deeper").mkdir(parents=True)
    assert "is not a run: it contains no `festina.json`" in opened.get("/runs")[1]
    shutil.rmtree(runs)
    runs.write_text("a file")
    status, text, _ = opened.get("/runs")
    assert (status, "is a file and not a folder" in text) == (200, True)


def test_runs_are_listed_newest_first_and_found_by_words(opened, runs):
    for k, (name, entry) in enumerate(
        {"race/xor/001": "holds", "mine/9": "does not hold", "race/xor/002": "holds"}.items()
    ):
        folder = saved(runs / name, "haste/why" if name == "mine/9" else "race/xor", verdict=entry)
        os.utime(folder / "run.zarr", (1000 + k, 1000 + k))
    assert names(opened) == ["race/xor/002", "mine/9", "race/xor/001"]
    assert names(opened, "/runs?q=WHY+broken") == ["mine/9"]
    assert names(opened, "/runs?q=xor+2026-11-20") == ["race/xor/002", "race/xor/001"]
    assert "No run contains the words &#39;&lt;x&gt;&#39;" in opened.get("/runs?q=%3Cx%3E")[1]
    text = opened.get("/runs?q=xor")[1]
    assert "2 of 3 runs" in text
    assert "1 holds" in text
    assert 'src="/run-picture?run=race%2Fxor%2F002"' in text
    status, _, headers = opened.get("/run-picture?run=race/xor/002")
    assert (status, headers["content-type"]) == (200, "image/png")
    (runs / "race/xor/002/claims.json").write_text(json.dumps([claim("race/xor", "does not hold")]))
    assert names(opened, "/runs?q=broken") == ["race/xor/002", "mine/9"]  # read again


def test_two_runs_are_compared(opened, runs):
    saved(runs / "race/xor/001")
    saved(runs / "race/xor/002", verdict="does not hold", words="<script>alert(1)</script>")
    os.utime(runs / "race/xor/001/run.zarr", (1000, 1000))
    status, text, headers = opened.get("/report?run=race/xor/002&run=race/xor/001")
    assert status == 200
    assert "1 of 1 verdicts changed" in text
    assert text.index("race/xor/001</td>") < text.index("race/xor/002</td>")  # the older one first
    assert "<script>alert" not in text
    policy = headers["content-security-policy"]
    assert "script-src 'sha256-" in policy
    assert "unsafe-inline'; script-src" in policy
    status, text, _ = opened.get("/section?run=race/xor/002")
    assert (status, text.startswith("<article")) == (200, True)
    assert "<script>" not in text
    assert "script-src 'self'" in opened.get("/runs")[2]["content-security-policy"]


def test_a_damaged_run_does_not_spoil_the_others(opened, runs):
    saved(runs / "race/xor/001")
    damaged = {
        "002/claims.json": b"\xff\x00{",
        "003/claims.json": b"[" * 100_000,
        "004/run.zarr/festina.json": b"{",
        "005/run.zarr/zarr.json": b"not JSON",
        "006/parameters.toml": b"\xff",
        "007/figure.svg": b"<svg",
        "008/claims.json": b"[[]]",
    }
    for name, content in damaged.items():
        folder = saved(runs / "race/xor" / name[:3])
        (folder / name[4:]).write_bytes(content)
    (saved(runs / "race/xor/009") / "claims.json").unlink()
    saved(runs / "race/xor/010", experiment="<b>\N{SNOWMAN}")
    assert len(names(opened)) == 10
    text = opened.get("/runs")[1]
    assert "is damaged: &#39;zarr.json&#39;" in text
    assert "claims.json cannot be read: missing." in text
    assert "<b>\N{SNOWMAN}" not in text
    for k in range(1, 11):
        status, text, _ = opened.get(f"/report?run=race/xor/{k:03d}")
        assert (status, "Traceback" in text) == (200, False)
        assert opened.get(f"/section?run=race/xor/{k:03d}")[0] == 200


@pytest.mark.skipif(os.name == "nt", reason="names of files are Unicode there")
def test_names_that_are_not_text(opened, runs):
    saved(runs / os.fsdecode(b"strange \xff & <i>") / "001")
    saved(runs / "race/xor/a&b;c#d%41")
    status, text, _ = opened.get("/runs")
    assert (status, "<i>" in text) == (200, False)
    (href,) = re.findall(r'href="(/report\?run=race[^"]*)"><b>', text)
    status, text, _ = opened.get(href)
    assert (status, "1 run</title>" in text) == (200, True)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "..",
        "../secret",
        "race/../../secret",
        "race/xor/../xor/001",
        "/etc",
        "~",
        "race/xor",
        "race/xor/001/run.zarr",
        "race/xor/999",
        "race/xor/linked",
        "linked/001",
        "race/xor/001\0",
        "a" * 5000,
        "\N{SNOWMAN}",
        "%2e%2e/secret",
    ],
)
def test_only_runs_below_the_folder_are_opened(opened, runs, name):
    saved(runs.parent / "secret", words="a secret")
    saved(runs / "race/xor/001")
    (runs / "race/xor/linked").symlink_to(runs.parent / "secret")
    (runs / "linked").symlink_to(runs / "race/xor")
    assert names(opened) == ["race/xor/001"]
    for page in ("report", "section", "run-picture"):
        status, text, _ = opened.get(f"/{page}?run={quote(name)}")
        assert status == 404
        assert "a secret" not in text
        assert "Traceback" not in text


@pytest.mark.skipif(os.name == "nt", reason="needs links and pipes")
@pytest.mark.parametrize("name", ["figure.png", "claims.json", "figure.svg", "run.zarr/zarr.json"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_links_and_pipes_in_a_run_are_not_opened(opened, runs, name, kind):
    secret = runs.parent / "secret.txt"
    secret.write_text("a secret")
    file = saved(runs / "race/xor/001") / name
    file.unlink()
    if kind == "link":
        file.symlink_to(secret)
    else:
        os.mkfifo(file)
    assert "is a link or a special file" in opened.get("/runs")[1]
    for page in ("report", "section", "run-picture"):
        status, text, _ = opened.get(f"/{page}?run=race/xor/001")
        assert (status, "is a link or a special file" in text) == (404, True)


def test_a_store_elsewhere_is_not_listed(opened, runs):
    saved(runs.parent / "other")
    (runs / "race/xor/001").mkdir(parents=True)
    (runs / "race/xor/001/run.zarr").symlink_to(runs.parent / "other/run.zarr")
    assert names(opened) == []
    assert opened.get("/report?run=race/xor/001")[0] == 404


def test_a_thousand_runs_are_turned_page_by_page(opened, runs):
    first = saved(runs / "race/xor/0001")
    for k in range(2, 1001):
        shutil.copytree(first, runs / f"race/xor/{k:04d}", copy_function=os.link)
    start = time.process_time()
    found, _ = places(runs)
    [summary(place) for place in found[:50]]
    assert time.process_time() - start < 1
    pages = [names(opened, f"/runs?page={k}") for k in (1, 2, 20)]
    assert [len(each) for each in pages] == [50, 50, 50]
    assert len({name for each in pages for name in each}) == 150
    assert names(opened, "/runs?page=99999999999999999999") == pages[2]
    assert names(opened, "/runs?page=x") == pages[0]
    assert names(opened, "/runs?q=0777") == ["race/xor/0777"]
    text = opened.get("/runs?q=xor&page=2")[1]
    assert "page 2 of 20" in text
    assert 'href="/runs?q=xor&amp;page=3"' in text
    many = "&".join(f"run={name}" for name in pages[0])
    assert "at most 20 runs" in opened.get(f"/report?{many}")[1]


def test_a_run_that_vanishes(runs):
    saved(runs / "race/xor/001")
    (place,), _ = places(runs)
    shutil.rmtree(runs)
    assert "No such file" in summary(place).problem
