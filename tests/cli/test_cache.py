"""Test the compilation cache: a second process loads what the first process compiled."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from festina._cache import discard_programs

PROGRAM = """
import collections, sys
import jax
from jax import monitoring
from festina._cache import compilation_cache

events = collections.Counter()
monitoring.register_event_listener(lambda event, **_: events.update([event.split("/")[-1]]))
for place in sys.argv[1:] or [None]:
    folder = compilation_cache(place or None)
    jax.jit(lambda x: x + 1)(1.0)

@jax.jit
def program(x):
    return jax.lax.while_loop(lambda x: x[0] < 100, lambda x: 1.1 * x + jax.numpy.sin(x) ** 2, x)

program(jax.numpy.arange(1.0, 4.0)).block_until_ready()
print(folder, events["cache_hits"], events["cache_misses"])
"""

SCRIPT = """
import collections
import numpy as np
from jax import monitoring
import festina

events = collections.Counter()
monitoring.register_event_listener(lambda event, **_: events.update([event.split("/")[-1]]))
folder = festina.compilation_cache()
network = festina.networks.fully_connected(2, 3, 2, scale=0.1, key=festina.seeds(3))
task = festina.tasks.linear_teacher(np.eye(2))
festina.gradient_flow(network, task, t_end=1.0)
festina.gradient_descent(network, task, 0.01, 10).final.predict(np.eye(2))
print(folder, events["cache_hits"], events["cache_misses"])
"""


def run(*arguments, program=PROGRAM, **variables):
    unset = ("FESTINA_CACHE", "JAX_COMPILATION_CACHE_DIR", "XDG_CACHE_HOME")
    environment = {k: v for k, v in os.environ.items() if k not in unset}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *arguments],
        capture_output=True,
        text=True,
        env=environment | variables,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    folder, hits, misses = done.stdout.split()
    return folder, int(hits), int(misses)


def test_the_second_process_compiles_nothing(tmp_path):
    place = str(tmp_path / "new" / "cache")
    first = run(FESTINA_CACHE=place)
    second = run(FESTINA_CACHE=place)
    assert first[:2] == (place, 0)
    assert first[2] > 0
    assert second == (place, first[2], 0)


@pytest.mark.slow
def test_nor_does_a_script_that_trains(tmp_path):
    place = str(tmp_path / "cache")
    first = run(program=SCRIPT, FESTINA_CACHE=place)
    assert first[:2] == (place, 0)
    assert run(program=SCRIPT, FESTINA_CACHE=place) == (place, first[2], 0)
    # Programs to draw weights, to start, for the two kinds of steps, and to predict
    assert first[2] >= 5


def test_a_damaged_entry_is_compiled_again(tmp_path):
    place = tmp_path / "cache"
    run(str(place))
    for entry in place.glob("*-cache"):
        entry.write_bytes(b"cut short")
    assert run(str(place))[1] == 0


@pytest.mark.parametrize(
    "variable",
    ["JAX_COMPILATION_CACHE_DIR", pytest.param("XDG_CACHE_HOME", marks=pytest.mark.slow)],
)
def test_the_folder_that_the_user_chose(variable, tmp_path):
    folder, _, misses = run(**{variable: str(tmp_path)})
    assert Path(folder).is_relative_to(tmp_path)
    assert misses > 0
    assert any(Path(folder).iterdir())


def test_off(tmp_path):
    assert run(FESTINA_CACHE="off", XDG_CACHE_HOME=str(tmp_path)) == ("None", 0, 0)
    assert not any(tmp_path.iterdir())


def test_off_wins_over_what_jax_was_told(tmp_path):
    off = run(FESTINA_CACHE="off", JAX_COMPILATION_CACHE_DIR=str(tmp_path))
    assert off == ("None", 0, 0)
    assert not any(tmp_path.iterdir())


def test_a_folder_chosen_after_off_is_used(tmp_path):
    place = str(tmp_path / "cache")
    folder, _, misses = run("", place, FESTINA_CACHE="off")
    assert folder == place
    assert misses > 0
    assert any(Path(place).iterdir())


def test_what_the_user_switched_off_stays_off(tmp_path):
    variables = {"FESTINA_CACHE": "off", "JAX_ENABLE_COMPILATION_CACHE": "false"}
    assert run("", str(tmp_path), **variables)[1:] == (0, 0)
    assert not any(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path):
    (tmp_path / "file").touch()
    assert run(FESTINA_CACHE=str(tmp_path / "file" / "below")) == ("None", 0, 0)


def test_programs_are_discarded_only_near_the_limit_of_mappings(monkeypatch):
    cleared = []
    monkeypatch.setattr(jax, "clear_caches", lambda: cleared.append(True))
    monkeypatch.setattr("festina._cache._MOST_MAPPINGS", 10**9)
    discard_programs()
    assert cleared == []
    monkeypatch.setattr("festina._cache._MOST_MAPPINGS", 0)
    discard_programs()
    assert cleared == [True]
