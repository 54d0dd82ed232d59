"""Test `festina reproduce` with several processes: killed, interrupted, on a full disk."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from festina._memory import memory
from festina.cli._reproduce._engines import usual_processes
from festina.cli._reproduce._jobs import jobs_of
from festina.cli._reproduce._time_left import TimeLeft
from festina.experiments import find_entry, load_experiment

from .conftest import TOY, everything
from .test_reproduce import label

PRESETS = 'PRESETS = {"printed": {"width": 3, "samples": 20}}'
pytestmark = pytest.mark.skipif(os.name == "nt", reason="processes and signals of POSIX")


def experiment(file: Path, *widths: int, **presets: str) -> list[str]:
    """Write an experiment with presets, and return the labels of its runs."""
    each = {f"width-{k}": {"width": k} for k in widths} | {
        name: {"ending": ending} for name, ending in presets.items()
    }
    text = TOY.read_text()
    assert PRESETS in text
    file.write_text(text.replace(PRESETS, f"PRESETS = {each!r}"))
    return [file.stem, *(f"{file.stem} ({name})" for name in each)]


def claims_in(folder: Path) -> list[dict]:
    return json.loads((folder / "claims.json").read_text())


def alive(process: str) -> bool:
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().split()[2]
    except OSError:
        return False


def test_a_process_that_is_killed_fails_alone(festina, here):
    labels = experiment(here / "größe.py", 3, dies="killed") + experiment(here / "other.py", 2)
    both = ("größe.py", "other.py")
    outcome = festina("reproduce", *both, "--processes", "2", "--out", "Läufe von heute")
    assert outcome.status == 1
    reason = (
        "Its process ended unexpectedly, by signal 9. If the memory is full, use fewer "
        "`--processes`."
    )
    assert f"festina: größe (dies) failed: {reason}" in outcome.err.splitlines()
    ends = [line for line in outcome.err.splitlines() if " of 5 runs" in line]
    assert sorted(line.partition(": ")[0] for line in ends) == sorted(labels)
    assert "1 holds, 1 corrected, 1 known not to (" in ends[-1]
    assert ends[-1].endswith("5 of 5 runs.")
    top = here / "Läufe von heute"
    entries = claims_in(top)
    assert list(dict.fromkeys(map(label, entries))) == labels  # the order is that of the request
    (failed,) = (entry for entry in entries if entry["verdict"] == "failed")
    assert label(failed) == "größe (dies)"
    assert failed["note"] == reason
    assert [name for name in everything(here) if ".festina" in name] == []
    # A run in one process, in another order, makes the same claims
    festina("reproduce", "other.py", "--processes", "1", "--out", "b")
    assert claims_in(here / "b") == [e for e in entries if e["experiment"] == "other"]


@pytest.mark.parametrize(
    "signals",
    [
        (signal.SIGKILL,),
        pytest.param((signal.SIGKILL, signal.SIGINT), marks=pytest.mark.slow),
        pytest.param((signal.SIGINT, signal.SIGKILL, signal.SIGKILL), marks=pytest.mark.slow),
    ],
)
def test_killed_at_random_it_goes_on_and_trains_nothing_twice(
    signals, process, festina, here, monkeypatch
):
    labels = experiment(here / "one.py", *range(2, 6)) + experiment(here / "two.py", 6)
    command = ("reproduce", "one.py", "two.py", "--out", "a", "--processes", "2")
    log, chance = here / "log", random.Random(len(signals))
    log.touch()
    environment = os.environ | {"TOY_LOG": str(log), "TOY_NAP": "0.5"}

    def lines():
        return [line.split() for line in log.read_text().splitlines()]

    in_flight = 0
    for sign in signals:
        with process(*command, env=environment) as running:
            wanted = len(lines()) + chance.randint(2, 3)
            while len(lines()) < wanted:
                assert running.poll() is None, running.stderr.read()
                time.sleep(0.01)
            time.sleep(chance.uniform(0.0, 0.5))
            running.send_signal(sign)
            out, _ = running.communicate(timeout=60)
        deadline = time.monotonic() + 20
        while any(alive(process) for _, process in lines()):
            assert time.monotonic() < deadline, "processes outlive the command"
            time.sleep(0.02)
        in_flight += 2
        finished = [name for name in labels if (here / "a" / folder(name) / "claims.json").exists()]
        verdicts = {"failed", "interrupted", "not run"}
        entries = claims_in(here / "a") if (here / "a" / "claims.json").exists() else []
        told = {label(entry) for entry in entries if entry["verdict"] not in verdicts}
        if sign == signal.SIGINT:
            assert running.returncode == 130
            assert f"Interrupted: {len(told)} of 7 runs are finished" in out
            assert told == {*finished}
            missing = [entry["verdict"] for entry in entries if label(entry) not in told]
            assert missing.count("interrupted") <= 2
            assert "failed" not in missing
            assert [name for name in everything(here) if ".festina" in name] == []
        assert told <= {*finished}  # after SIGKILL, a run may have ended a moment ago
    monkeypatch.setenv("TOY_LOG", str(log))
    outcome = festina("reproduce", "one.py", "two.py", "--out", "a")
    assert outcome.status == 0, outcome.err
    assert "7 of 7 runs." in outcome.out
    assert len(lines()) <= 7 + in_flight  # only runs under way at a kill are repeated
    assert festina("reproduce", "one.py", "two.py", "--out", "b").status == 0
    assert (here / "a" / "claims.json").read_text() == (here / "b" / "claims.json").read_text()
    assert [name for name in everything(here) if ".festina" in name] == []


def folder(name: str) -> str:
    return name.replace(" (", "-").rstrip(")")


@pytest.fixture
def small_disk(here):
    """Return a folder on a disk with little space."""
    disk = here / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=500k", "tmpfs", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small disk can be mounted by root only")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_keeps_what_is_finished(festina, here, small_disk, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(here))
    labels = experiment(here / "one.py", *range(2, 7))
    outcome = festina("reproduce", "one.py", "--out", "disk/a", "--processes", "1")
    assert outcome.status == 1
    assert "No space left on device" in outcome.err
    top = small_disk / "a"
    finished = [name for name in labels if (top / folder(name)).exists()]
    assert 0 < len(finished) < len(labels)
    told = {label(entry) for entry in claims_in(top) if entry["verdict"] != "not run"}
    assert told
    subprocess.run(["mount", "-o", "remount,size=9m", str(small_disk)], check=True)
    outcome = festina("reproduce", "one.py", "--out", "disk/a", "--processes", "1")
    assert outcome.status == 0
    assert f"6 of 6 runs. {len(finished)} of them w" in outcome.out
    festina("reproduce", "one.py", "--out", "b", "--processes", "1")
    assert claims_in(top) == claims_in(here / "b")


def test_a_report_that_cannot_be_written_stops_no_training(festina, here):
    experiment(here / "one.py", 2)
    (here / "a" / "report.html").mkdir(parents=True)
    outcome = festina("reproduce", "one.py", "--out", "a")
    assert outcome.status == 0
    assert "2 of 2 runs." in outcome.out
    complaints = [line for line in outcome.err.splitlines() if line.startswith("festina: ")]
    assert len(complaints) == 1
    assert "report.html' is a folder" in complaints[0]


@pytest.mark.parametrize(
    ("cores", "memory", "accelerated", "expected"),
    [(2, 8e9, False, 2), (8, 13e9, False, 4), (2, 1e9, False, 1), (8, 99e9, True, 1)],
)
def test_cores_and_memory_limit_the_processes(cores, memory, accelerated, expected, monkeypatch):
    for name, value in {"_lanes.cores": cores, "_lanes.accelerated": accelerated}.items():
        monkeypatch.setattr(f"festina.{name}", lambda value=value: value)
    monkeypatch.setattr("festina._memory.memory", lambda: memory)
    assert usual_processes() == expected


@pytest.mark.parametrize(
    ("own", "limits"),
    [
        ("0::/job/step", {"job/step/memory.max": "max", "job/memory.max": "1234567"}),
        (  # version 1 has a folder for each controller, and a large number for no limit
            "3:cpu,cpuacct:/other\n2:memory:/job/step",
            {
                "memory/job/step/memory.limit_in_bytes": "9223372036854771712",
                "memory/job/memory.limit_in_bytes": "1234567",
                "memory/other/memory.limit_in_bytes": "5",
            },
        ),
        ("2:memory:/of/the/host", {"memory/memory.limit_in_bytes": "1234567"}),
        ("2:hugetlb,memory:/job\n0::/job", {"memory/job/memory.limit_in_bytes": "1234567"}),
        ("2:memory:/job\n0::/job", {"job/memory.max": "1234567"}),
    ],
    ids=["version-2", "version-1", "docker", "both-1", "both-2"],
)
def test_a_container_limits_memory(own, limits, tmp_path, monkeypatch):
    for name, limit in limits.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(f"{limit}\n")
    (tmp_path / "own").write_text(f"{own}\n")
    monkeypatch.setattr("festina._memory._GROUPS", tmp_path / "groups")
    monkeypatch.setattr("festina._memory._OWN", tmp_path / "own")
    assert memory() == 1234567
    monkeypatch.setattr("festina._memory._OWN", tmp_path / "none")
    assert memory() > 1234567


def test_the_time_left_follows_from_measured_times():
    left = TimeLeft({"a": 300.0, "b": 300.0, "c": 600.0}, processes=2)
    assert left.seconds(0.0) == 600.0  # the longest run
    left.begin("c", 0.0)
    left.begin("a", 0.0)
    assert left.seconds(100.0) == 500.0
    assert left.end("a", 150.0) == 150.0  # half as long as expected
    ratio = (30 + 150) / (30 + 300)
    assert left.seconds(150.0) == pytest.approx(600 * ratio - 150)
    left.end("c", 300.0)
    assert left.seconds(300.0) == pytest.approx(300 * (30 + 450) / (30 + 900))
    left.begin("b", 300.0)
    assert left.seconds(1300.0) == 100.0  # it takes longer than expected


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_the_time_left_of_reproduce_all_quick_is_right_within_a_factor(processes):
    # Seconds of `festina reproduce all --quick` with two processes on two cores.
    measured = json.loads(Path(__file__).with_name("quick_seconds.json").read_text())
    (job,) = jobs_of(load_experiment("saddles/lemma-6"), True, {}, alone=False)
    experiment = lambda name: replace(job.experiment, entry=find_entry(name))
    jobs = [replace(job, label=name, experiment=experiment(name)) for name in measured]
    waiting = sorted(jobs, key=lambda job: -job.seconds)
    left = TimeLeft({job.label: job.seconds for job in jobs}, processes)
    now, running, estimates = 0.0, {}, []
    while waiting or running:
        while waiting and len(running) < processes:
            label = waiting.pop(0).label
            left.begin(label, now)
            running[label] = now + measured[label]
        estimates.append((now, left.seconds(now)))
        ended = min(running, key=running.__getitem__)
        now = running.pop(ended)
        left.end(ended, now)
    ratios = [estimate / (now - at) for at, estimate in estimates if 120 <= at <= now - 20]
    assert min(ratios) > 1 / 1.5
    assert max(ratios) < 1.5
