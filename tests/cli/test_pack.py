"""Test `festina pack`, and `festina show` and `festina report` of its files."""

import json
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from festina._run import RunError
from festina._run._pack import METADATA, PACK_VERSION, unpack
from festina.cli._main import COMMANDS

from . import toy
from .conftest import TOY, everything
from .test_run import FILES


@pytest.fixture
def packed(saved, here):
    """Return the file of a packed run of a toy experiment."""
    saved("run toy/one --quick --animation --out a", "pack a")
    return here / "toy-one-a.zip"


@pytest.fixture
def own(festina, here):
    """Return the file of a packed run of an experiment in a user's file, which imports another."""
    (here / "of_mine.py").write_text("WIDTH = 3\n")
    (here / "mine.py").write_text(f"import of_mine\n{TOY.read_text()}")
    festina("run", "mine.py", "--out", "b")
    assert festina("pack", "b").status == 0
    return here / "mine-b.zip"


def contents(file):
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(file, members):
    """Write a zip file with these members, in this order."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file


def test_a_pack_holds_the_run(packed, here):
    members = contents(packed)
    data = {f"run.zarr/{name}" for name in everything(here / "a/run.zarr")}
    assert {name for name in members if not name.startswith("run.zarr/")} == {
        *("animation.gif", METADATA, *FILES)
    } - {"run.zarr"}
    assert {name for name in members if name.startswith("run.zarr/")} <= data
    for name in members.keys() - {METADATA}:
        assert members[name] == (here / "a" / name).read_bytes()


def test_metadata_describe_every_file_and_the_software(packed):
    members = contents(packed)
    crate = json.loads(members[METADATA])
    assert crate["@context"] == "https://w3id.org/ro/crate/1.2/context"
    entities = {entity["@id"]: entity for entity in crate["@graph"]}
    assert len(entities) == len(crate["@graph"])
    root = entities[entities[METADATA]["about"]["@id"]]
    assert {"name", "description", "datePublished", "license"} <= root.keys()
    parts = {part["@id"] for part in root["hasPart"]}
    outside = {name for name in members if not name.startswith("run.zarr/")} - {METADATA}
    assert parts == {*outside, "run.zarr/"}
    (action,) = (one for one in crate["@graph"] if one["@type"] == "CreateAction")
    named = [entities[link["@id"]] for link in action["instrument"]]
    assert {"festina", "python", "jax", "numpy"} <= {one["name"] for one in named}
    assert all(one["version"] for one in named)
    assert "CPU" in action["description"]
    assert '"seed": 0' in action["description"]
    links = [link for one in crate["@graph"] for key in one for link in _links(one[key])]
    assert {*links} <= entities.keys() | {"https://w3id.org/ro/crate/1.2"}


def _links(value):
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, dict):
            yield each["@id"]


def test_the_same_run_gives_the_same_bytes(packed, festina, here):
    before = packed.read_bytes()
    os.utime(here / "a" / "figure.png", (1e9, 1e9))
    shutil.copytree(here / "a", here / "elsewhere" / "a")
    assert festina("pack", "elsewhere/a", "--out", "again.zip").status == 0
    assert (here / "again.zip").read_bytes() == before
    with zipfile.ZipFile(here / "again.zip") as archive:
        assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_a_pack_names_no_folder_of_its_author(packed, own, festina, here):
    festina("report", "a")
    (here / "a" / "notes.txt").write_text("private")
    assert festina("pack", "a", "--force").status == 0
    for file in (packed, own):
        for name, content in contents(file).items():
            assert str(here).encode() not in content, name
            assert str(Path.home()).encode() not in content or name.endswith(".py"), name
    assert not {"notes.txt", "report.html", "figure.svg.bak"} & contents(packed).keys()


def test_a_home_folder_in_a_packed_file_is_told(own, festina, here):
    text = (here / "mine.py").read_text()
    (here / "mine.py").write_text(f"{text}\n# {Path.home()}/data\n")
    outcome = festina("pack", "b", "--force")
    assert outcome.status == 0
    assert "festina: The path of your home folder is in mine.py, and so in the pack." in outcome.err


def test_changed_code_is_told(own, festina, here):
    from festina._run._code import code

    (here / "mine.py").write_text((here / "mine.py").read_text() + "\n# changed\n")
    code.cache_clear()  # as in a new process
    outcome = festina("pack", "b", "--force")
    assert "festina: 'mine.py' or festina has changed since the run was made." in outcome.err


def test_no_file_is_replaced_unasked(packed, festina, here):
    before = packed.read_bytes()
    outcome = festina("pack", "a")
    assert outcome.status == 2
    assert outcome.complaint == (
        "'toy-one-a.zip' exists already. Overwrite it with `--force`, or choose another `--out`."
    )
    assert "must be a file" in festina("pack", "a", "--out", "a").complaint
    assert packed.read_bytes() == before
    assert festina("pack", "a", "--force").status == 0


def test_a_full_disk_leaves_no_part_of_a_pack(packed, festina, here, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    before, names = packed.read_bytes(), everything(here)
    monkeypatch.setattr("festina._run._pack.shutil.copyfileobj", full)
    assert "No space left on device" in festina("pack", "a", "--force").complaint
    assert packed.read_bytes() == before
    assert everything(here) == names


def test_show_prints_what_was_packed_and_executes_nothing(packed, festina, here, monkeypatch):
    for name in ("run", "claims", "draw"):
        monkeypatch.setattr(toy, name, None)
    shutil.rmtree(here / "a")
    names = everything(here)
    outcome = festina("show", "toy-one-a.zip", "--claims")
    assert outcome.status == 0
    for text in ("the loss falls as e^-t", "does not hold, as known", "width = 4", "numpy 2"):
        assert text in outcome.out
    assert "figures: animation.gif, figure.pdf, figure.png" in outcome.out
    assert everything(here) == names
    entries = json.loads(contents(packed)["claims.json"])
    assert json.loads(festina("show", "toy-one-a.zip", "--json").out) == entries
    one = festina("show", "toy-one-a.zip", "--json", "--claims", "decay")
    assert [entry["id"] for entry in json.loads(one.out)] == ["decay"]
    assert "Did you mean 'decay'" in festina("show", str(packed), "--claims", "decai").complaint


def test_show_unpacks_the_run(packed, festina, here, monkeypatch):
    monkeypatch.setattr(toy, "run", None)
    before = {name: (here / "a" / name).read_bytes() for name in ("figure.png", "claims.json")}
    shutil.rmtree(here / "a")
    outcome = festina("show", "toy-one-a.zip", "--out", "c")
    assert outcome.status == 0
    assert "c/figure.png" in outcome.out
    assert {name: (here / "c" / name).read_bytes() for name in before} == before
    assert festina("show", "c", "--slide").status == 0
    assert "is not empty" in festina("show", "toy-one-a.zip", "--out", "c").complaint


def test_code_in_a_pack_is_executed_only_if_it_is_named(own, festina, here, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.copy(own, elsewhere)
    os.chdir(elsewhere)
    members = contents(elsewhere / "mine-b.zip")
    assert {"mine.py", "of_mine.py"} <= members.keys()
    assert festina("show", "mine-b.zip", "--out", "c").status == 0
    assert "made by 'mine.py'" in festina("show", "c").complaint
    assert festina("show", "c", "--experiment", "c/mine.py").status == 0
    for flag in ("--slide", "--animation", "--size 4x4", "--experiment c/mine.py"):
        complaint = festina("show", "mine-b.zip", *flag.split()).complaint
        assert complaint == (
            "'mine-b.zip' is a file, and figures are drawn from run folders. Unpack a file of "
            "`festina pack` with `festina show mine-b.zip --out FOLDER`, then use FOLDER."
        )


def test_an_experiment_file_elsewhere_must_be_named(own, festina, here):
    (here / "below").mkdir()
    shutil.move(here / "mine.py", here / "below" / "mine.py")
    complaint = festina("pack", "b", "--out", "new.zip").complaint
    assert "was made by 'mine.py', which is not below this folder" in complaint
    line = "pack b --out new.zip --experiment below/mine.py"
    assert festina(*line.split()).status == 0
    assert "mine.py" in contents(here / "new.zip")


def test_files_of_two_experiments_are_packed_together(festina, here):
    for name in ("one.py", "two.py"):
        (here / name).write_text(TOY.read_text())
        assert festina("run", name, "--quiet", "--out", f"both/{name[:3]}").status == 0
    outcome = festina("pack", "both", "--out", "both.zip")
    assert outcome.status == 0
    assert "has changed" not in outcome.err
    assert {"one.py", "two.py"} <= contents(here / "both.zip").keys()
    assert "Unpacked 2 runs: `festina report c`" in festina("show", "both.zip", "--out", "c").out


def test_files_of_one_name_are_not_packed_together(festina, here):
    for name in ("a", "b"):
        (here / name).mkdir()
        (here / name / "mine.py").write_text(TOY.read_text())
        festina("run", f"{name}/mine.py", "--quiet", "--out", f"both/{name}")
    complaint = festina("pack", "both", "--out", "both.zip").complaint
    assert complaint == "Two files are called 'mine.py': pack the runs one by one."


def test_an_experiment_file_that_is_not_python(own, festina, here):
    (here / "of_mine.py").write_text("WIDTH = = 3\n")
    assert "of_mine.py' is not valid Python" in festina("pack", "b", "--force").complaint


def test_runs_of_reproduce_are_packed_together(festina, here):
    festina("reproduce", "toy", "--quiet")
    assert festina("pack", "runs/reproduce-toy/001").status == 0
    outcome = festina("show", "reproduce-toy-001.zip")
    assert outcome.status == 0
    for label in ("toy/one", "toy/one (printed)", "toy/two", "toy/two (printed)"):
        assert f"\n{label}: " in outcome.out
    assert festina("report", "reproduce-toy-001.zip").status == 0
    text = (here / "report.html").read_text()
    assert "toy/two+printed" in text


def test_a_report_of_a_pack_says_how_to_unpack_it(packed, festina, here):
    shutil.rmtree(here / "a")
    assert festina("report", "toy-one-a.zip").status == 0
    text = (here / "report.html").read_text()
    assert "festina show toy-one-a.zip --out toy-one-a\n" in text
    assert "festina run toy/one --seeds" in text
    assert "<svg" in text
    assert "/festina-" not in text


def test_a_report_names_no_temporary_folder_below_the_working_folder(
    packed, festina, here, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(here))
    assert festina("report", str(here / packed.name), "--out", "page.html").status == 0
    assert "festina show toy-one-a.zip --out toy-one-a\n" in (here / "page.html").read_text()


def test_a_sweep_is_no_run(festina, here):
    festina("sweep", "toy/one", "--over", "width=2,3", "--out", "s.zarr", "--quiet")
    assert festina("pack", "s.zarr").complaint == (
        "'s.zarr' is the store of a sweep, and festina packs run folders. The store holds all "
        "results and xarray reads it anywhere: copy it as it is."
    )
    assert "does not exist" in festina("pack", "nowhere").complaint
    (here / "notes").write_text("mine")
    assert "'notes' has no finished run" in festina("pack", "notes").complaint


BAD_NAMES = ["../x", "/x", "a/../../x", "C:/x", "..\\x"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_no_name_leads_out_of_the_folder(name, packed, festina, here):
    members = contents(packed)
    written(packed, {**members, name: b"escaped"})
    names = everything(here.parent)
    for command in ("show {} --out c", "report {}"):
        complaint = festina(*command.format(packed.name).split()).complaint
        assert complaint.startswith(f"'{packed.name}' is not unpacked: the name ")
        assert "leads out of the folder" in complaint
    assert everything(here.parent) == names


def test_links_are_refused(packed, festina):
    members = contents(packed)
    with zipfile.ZipFile(packed, "a") as archive:
        link = zipfile.ZipInfo("link")
        link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    assert "'link' in it is a link or a device" in festina("show", packed.name).complaint
    assert "link" not in members


def test_two_files_of_one_name_are_refused(packed, festina):
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(packed, "a") as archive:
        archive.writestr("claims.json", "[]")
    assert "two files of one name" in festina("show", packed.name).complaint


def test_a_large_pack_is_refused(packed, festina, monkeypatch):
    size = sum(map(len, contents(packed).values()))
    monkeypatch.setattr("festina._run._pack.LARGEST", size - 1)
    complaint = festina("show", packed.name).complaint
    assert "it declares" in complaint
    assert "a pack holds at most" in complaint
    monkeypatch.setattr("festina._run._pack.LARGEST", 10)
    assert "Pack fewer runs" in festina("pack", "a", "--out", "new.zip").complaint


def test_more_than_the_declared_size_is_not_written(packed, here):
    """Change the declared size of a member of 10 MB to 10 bytes, as in a zip bomb."""
    members = contents(packed)
    written(packed, {**members, "figure.svg": bytes(10_000_000)})
    raw = packed.read_bytes()
    large, small = (10_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little")
    assert raw.count(large) == 2  # before the content, and in the table at the end
    packed.write_bytes(raw.replace(large, small))
    (here / "c").mkdir()
    with pytest.raises(RunError, match="is damaged"):
        unpack(packed, here / "c")
    sizes = [path.stat().st_size for path in (here / "c").rglob("*") if path.is_file()]
    assert sum(sizes) < 1_000_000


def damaged(file, change):
    raw = bytearray(file.read_bytes())
    change(raw)
    file.write_bytes(bytes(raw))


def test_a_truncated_or_altered_pack_is_damaged(packed, festina):
    whole = packed.read_bytes()
    damaged(packed, lambda raw: raw.__delitem__(slice(len(raw) // 2, None)))
    assert "no complete zip file" in festina("show", packed.name).complaint
    with zipfile.ZipFile(written(packed, contents_of(whole, packed))) as archive:
        at = archive.getinfo("claims.json").header_offset + 30 + len("claims.json")
    damaged(packed, lambda raw: raw.__setitem__(slice(at + 5, at + 30), bytes(25)))
    assert f"'{packed.name}' is damaged: " in festina("show", packed.name).complaint


def contents_of(raw, file):
    file.write_bytes(raw)
    return contents(file)


def test_files_that_are_no_pack(packed, festina, here):
    (here / "notes.txt").write_text("notes")
    (here / "empty.zip").write_bytes(b"")
    for name in ("notes.txt", "empty.zip"):
        assert f"'{name}' is not a pack: " in festina("show", name).complaint
        assert f"'{name}' is not a pack: " in festina("report", name).complaint
    members = contents(packed)
    for metadata in (None, b"", b"[]", b"{}", b'{"@graph": []}', b"[" * 100_000):
        other = {METADATA: metadata} if metadata is not None else {}
        written(packed, {**{k: v for k, v in members.items() if k != METADATA}, **other})
        complaint = festina("show", packed.name).complaint
        assert "is not a pack: it contains no `ro-crate-metadata.json` that" in complaint


@pytest.mark.parametrize("name", ["claims.json", "parameters.toml", "run.zarr/festina.json"])
def test_a_missing_file_is_named(name, packed, festina):
    written(packed, {k: v for k, v in contents(packed).items() if k != name})
    complaint = festina("show", packed.name).complaint
    assert Path(name).name in complaint
    assert "/festina-" not in complaint.replace("/festina.json", "")


def test_missing_data_are_named(packed, festina):
    members = contents(packed)
    data = next(name for name in members if "/c/" in name)
    written(packed, {k: v for k, v in members.items() if k != data})
    complaint = festina("show", packed.name).complaint
    assert "is incomplete" in complaint
    assert data.removeprefix("run.zarr/") in complaint
    assert f"'{packed.name}/run.zarr'" in complaint


def test_a_pack_of_a_newer_festina(packed, festina):
    members = contents(packed)
    newer = f"urn:festina:pack:{PACK_VERSION + 1}".encode()
    members[METADATA] = members[METADATA].replace(
        f"urn:festina:pack:{PACK_VERSION}".encode(), newer
    )
    written(packed, members)
    complaint = festina("show", packed.name).complaint
    assert "was written by a newer festina in format 2" in complaint
    assert "pip install --upgrade festina" in complaint


def test_claims_of_a_stranger_do_not_control_the_terminal(packed, festina):
    members = contents(packed)
    entries = json.loads(members["claims.json"])
    entries[0]["words"] = "\x1b[31mred\x07"
    members["claims.json"] = json.dumps(entries).ljust(len(members["claims.json"])).encode()
    repacked(packed, members)
    outcome = festina("show", packed.name, "--claims")
    assert outcome.status == 0
    assert "[31mred" in outcome.out
    assert not {"\x1b", "\x07"} & {*outcome.out}


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '[{"id": "x"}]', "null"])
def test_unreadable_claims_are_a_line(text, packed, festina):
    repacked(packed, {**contents(packed), "claims.json": text.encode()})
    assert "claims" in festina("show", packed.name).complaint


def repacked(file, members):
    """Write a pack whose metadata list the sizes of the given members."""
    crate = json.loads(members[METADATA])
    for entity in crate["@graph"]:
        if entity["@id"] in members and "contentSize" in entity:
            entity["contentSize"] = str(len(members[entity["@id"]]))
    return written(file, {**members, METADATA: json.dumps(crate)})


def test_names_with_spaces_and_umlauts(festina, here):
    (here / "mein Versuch.py").write_text(TOY.read_text())
    festina("run", "mein Versuch.py", "--out", "Läufe von gestern")
    assert festina("pack", "Läufe von gestern", "--out", "Päckchen 1.zip").status == 0
    assert festina("show", "Päckchen 1.zip", "--out", "c d").status == 0
    assert (here / "c d" / "mein Versuch.py").exists()


def test_unzip_gives_a_run_folder(packed, festina, here):
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(here / "by hand")
    assert festina("show", "by hand").status == 0


def test_help_of_pack_is_light():
    assert "pack" in COMMANDS
    command = "import sys; from festina.cli._main import carry_out; carry_out(['pack', '--help']); "
    command += "print({'jax', 'xarray', 'jinja2'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "set()"
