"""Test sweeps by Dask with a scheduler and two workers on this machine, one of which is killed."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

# Imported with their defaults, before a test changes settings
import dask_jobqueue as dask_jobqueue
import distributed as distributed
import numpy as np
import pytest
import xarray as xr
from dask import config as dask_config

import festina
from festina.sweeps import _dask
from festina.sweeps._work import Outcome, packed

from . import functions

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")


@pytest.fixture
def scheduler(tmp_path):
    """Start a scheduler and two workers; yield the address, their processes and a log file."""
    file, log = tmp_path / "scheduler.json", tmp_path / "log"
    log.touch()
    environment = os.environ | {"SWEEP_LOG": str(log), "PYTHONWARNINGS": "ignore"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)

    def start(kind, *options):
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *options]
        command += ["--scheduler-file", str(file), "--no-dashboard"]
        return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)

    started = [start("scheduler", "--host", "127.0.0.1", "--port", "0")]
    while not file.exists():
        assert started[0].poll() is None
        time.sleep(0.1)
    started += [start("worker", "--nthreads", "1", "--no-nanny") for _ in range(2)]
    yield json.loads(file.read_text())["address"], started, log
    for process in reversed(started):
        process.kill()
        process.wait()


def test_a_worker_is_killed_in_the_middle(scheduler, tmp_path, monkeypatch):
    address, (_, *workers), log = scheduler
    killed = []

    def watch(words, fraction):
        """Kill a worker after a third of the pieces, once both have computed some."""
        seen = {int(line.split()[2]) for line in log.read_text().splitlines()}
        if fraction > 0.3 and len(seen) == 2 and not killed:
            workers[0].send_signal(signal.SIGKILL)
            killed.append(words)

    over = {"a": "0:7:8", "b": "0:4:5"}
    store = tmp_path / "s.zarr"
    with dask_config.set({"distributed.comm.timeouts.connect": "2s"}):  # instead of half a minute
        data = festina.sweep(functions.logged, over, store, scheduler=address, progress=watch)
    assert killed
    assert workers[0].wait(timeout=10) == -signal.SIGKILL
    assert set(data["status"].values.ravel()) == {"done"}
    assert np.array_equal(data["product"], data["a"] * data["b"])
    computed = len(log.read_text().splitlines())
    # Pieces that the killed worker computed are repeated
    assert 40 <= computed <= 40 + 2 * _dask._AHEAD
    festina.sweep(functions.logged, over, store, scheduler=address)
    assert len(log.read_text().splitlines()) == computed

    monkeypatch.setattr(_dask, "versions", lambda: dict.fromkeys(("jax", "numpy", "xarray"), "0.1"))
    with pytest.raises(ValueError, match=r"The worker at tcp.* has jax .* and not 0.1, numpy"):
        festina.sweep(functions.logged, over, tmp_path / "other.zarr", scheduler=address)
    assert not (tmp_path / "other.zarr").exists()


@pytest.mark.slow
def test_the_scheduler_goes_away(scheduler, tmp_path):
    address, (process, *_), _ = scheduler

    def watch(words, fraction):
        if fraction > 0.3:
            process.kill()

    over, store = {"a": "0:7:8", "b": "0:4:5"}, tmp_path / "s.zarr"
    with pytest.raises(ValueError, match="scheduler is gone") as stopped:
        festina.sweep(functions.logged, over, store, scheduler=address, progress=watch)
    done = int((xr.open_zarr(store, chunks=None)["status"] == "done").sum())
    assert 12 < done < 40
    assert stopped.value.__notes__[0].startswith(f"{done} of 40 pieces are in ")


def test_a_worker_that_comes_late_is_held_to_the_same_versions():
    work, versions = packed(lambda a: {"y": a}), _dask._versions()
    assert isinstance(_dask._computed(versions, work, {"a": 1}, 0), Outcome)
    other = versions | {"jax": "0.0.1"}
    said = _dask._computed(other, work, {"a": 1}, 0)
    assert said == f"has jax {versions['jax']} and not 0.0.1"
    nothing = _dask._difference(ModuleNotFoundError("No module named 'festina'"), versions)
    assert nothing == "cannot run festina: ModuleNotFoundError: No module named 'festina'"


@pytest.mark.parametrize(
    "greeting", [pytest.param(b"", marks=pytest.mark.slow), b"HTTP/1.1 400 Bad Request"]
)
def test_another_server_at_the_address(greeting, tmp_path, monkeypatch):
    """A server that is not Dask gives an error, even if it waits for a request like a dashboard."""
    monkeypatch.setattr(_dask, "_PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            there, _ = server.accept()
            there.sendall(greeting)
            time.sleep(1.0)
            there.close()

        thread = threading.Thread(target=answer)
        thread.start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ValueError, match="No scheduler answers at"):
            festina.sweep(functions.uneven, {"a": 1, "b": 2}, tmp_path / "s", scheduler=address)
        thread.join()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nowhere", "tcp://nowhere.invalid:8786"])
def test_nobody_at_the_address(address, tmp_path, monkeypatch):
    """Dask is not called without a scheduler, because it would try for a long time to connect."""
    monkeypatch.setattr("dask.distributed.Client", type("Client", (), {}))
    with pytest.raises(ValueError, match=f"No scheduler answers at '{address}'.*dask scheduler"):
        festina.sweep(functions.uneven, {"a": 1, "b": 2}, tmp_path / "s.zarr", scheduler=address)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", ["dask.distributed", "dask_jobqueue.slurm"])
def test_without_dask_the_extra_is_named(missing, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ValueError, match=r"pip install 'festina\[cluster\]'"):
        festina.sweep(functions.uneven, {"a": 1, "b": 2}, tmp_path / "s.zarr", scheduler="slurm")


def test_slurm_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ValueError, match="no SLURM on this machine: `sbatch` is not found"):
        festina.sweep(functions.uneven, {"a": 1, "b": 2}, tmp_path / "s.zarr", scheduler="slurm")


SBATCH = """#!/bin/sh
cp "$1" "$JOBS.sh"
nohup sh "$JOBS.sh" > /dev/null 2>&1 < /dev/null &
echo $! >> "$JOBS"
echo "Submitted batch job $!"
"""


@pytest.mark.slow
def test_slurm(tmp_path, monkeypatch):
    """Run jobs submitted by dask-jobqueue in a fake queue that starts them here at once."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in {"sbatch": SBATCH, "scancel": '#!/bin/sh\nkill "$@"\n'}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("JOBS", str(tmp_path / "jobs"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    settings = {"cores": 1, "memory": "1GB", "interface": "lo", "log-directory": None}
    with dask_config.set({f"jobqueue.slurm.{name}": value for name, value in settings.items()}):
        data = festina.sweep(
            functions.uneven,
            {"a": 2, "b": "1,2"},
            tmp_path / "s.zarr",
            scheduler="slurm",
            processes=1,
        )
    assert data["sum"].values.tolist() == [[3, 4]]
    assert len(Path(tmp_path / "jobs").read_text().split()) == 1
