"""Test sweeps killed at random moments: no finished piece is lost or repeated."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

SCRIPT = """
import sys
import festina
from functions import logged

festina.sweep(logged, {"a": sys.argv[2], "b": sys.argv[3]}, sys.argv[1], processes=2)
"""

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")


class Sweep:
    """A sweep in a separate process, with its store and its log."""

    def __init__(self, folder, shape):
        self.store, self.log, self.shape = folder / "s.zarr", folder / "log", shape
        self.log.touch()

    def start(self):
        axes = [f"0:{n - 1}:{n}" for n in self.shape]
        here = os.pathsep.join((str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")))
        return subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(self.store), *axes],
            env=os.environ | {"SWEEP_LOG": str(self.log), "PYTHONPATH": here},
        )

    def lines(self):
        return [tuple(map(int, line.split())) for line in self.log.read_text().splitlines()]

    def done(self):
        """Return the finished pieces, after a check that each has all its values."""
        data = xr.open_zarr(self.store, chunks=None)
        # Read first: the status is written after the values
        done = (data["status"] == "done").values
        assert set(np.unique(data["status"].values.astype(object))) <= {"done", "waiting"}
        if "product" in data:
            expected = data["a"] * data["b"]
            assert np.array_equal(data["product"].values[done], expected.values[done])
            rows = (data["a"] + data["b"]).values[done]
            assert np.array_equal(data["curve"].values[done], np.repeat(rows[:, None], 3, axis=1))
        return {tuple(map(int, place)) for place in np.argwhere(done)}


def alive(process):
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().split()[2]
    except OSError:
        return False


@pytest.mark.parametrize(
    ("shape", "kills"),
    [((6, 6), 4), pytest.param((20, 20), 10, marks=pytest.mark.slow)],
    ids=["36 pieces", "400 pieces"],
)
def test_killed_again_and_again(shape, kills, tmp_path):
    sweep, chance = Sweep(tmp_path, shape), random.Random(0)
    pieces = shape[0] * shape[1]
    loads, stopped, failures = Counter(), threading.Event(), []

    def look():
        """Read the store continuously while the sweep runs."""
        while not stopped.is_set():
            if sweep.store.exists():
                try:
                    sweep.done()
                    loads.update(["loads"])
                except BaseException as error:
                    failures.append(error)
                    return
            time.sleep(0.05)

    reader = threading.Thread(target=look)
    reader.start()
    running, in_flight = sweep.start(), 0
    try:
        for kill in range(kills):
            wanted = len(sweep.lines()) + chance.randint(1, max(2, pieces // kills))
            while len(lines := sweep.lines()) < wanted and running.poll() is None:
                time.sleep(chance.uniform(0.001, 0.02))
            if running.poll() is not None:
                break
            if kill % 2:
                os.kill(lines[-1][2], signal.SIGKILL)  # the process of the latest piece
                in_flight += 1
                continue
            running.kill()
            running.wait()
            in_flight += 2
            done, before = sweep.done(), len(sweep.lines())
            deadline = time.monotonic() + 20
            while any(map(alive, {line[2] for line in lines})):
                assert time.monotonic() < deadline, "processes outlive the one that started them"
                time.sleep(0.05)
            running = sweep.start()
            while len(sweep.lines()) == before and running.poll() is None:
                time.sleep(0.01)
            assert not done & {line[:2] for line in sweep.lines()[before:]}
        assert running.wait(timeout=300) == 0
    finally:
        stopped.set()
        running.kill()
        reader.join()
    assert not failures
    assert len(sweep.done()) == pieces
    computed = Counter(line[:2] for line in sweep.lines())
    assert len(computed) == pieces
    print(f"{computed.total()} computed for {pieces}, {loads['loads']} loads, {kills} kills")
    assert computed.total() <= pieces + in_flight  # only pieces interrupted by a kill are repeated
    assert loads["loads"] > 0
