"""Programs kept by name: the second process does not trace, and never runs what is out of date."""

import dataclasses
import functools
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import monitoring
from jax.experimental.compilation_cache.compilation_cache import reset_cache

import festina
from festina import _cache, _programs
from festina.networks import activation, fully_connected
from festina.networks._activations import leaky_relu, power

PROCESS = """
import sys
import jax, numpy as np
from jax import monitoring
import festina
from festina._objective import Data
from festina.networks import Neuron, activation, layer
from festina.theory.saddles._loss_function import value_and_gradient

events = []
monitoring.register_event_duration_secs_listener(lambda event, *_, **__: events.append(event))
festina.compilation_cache(sys.argv[1])
network = layer(Neuron(activation("tanh")), np.ones((2, 3)), np.ones((2, 1)))
rng = np.random.default_rng(0)
data = Data(rng.normal(size=(9, 3)), rng.normal(size=(9, 1)), np.ones(9))
events.clear()
with jax.enable_x64(True):
    loss, slope = value_and_gradient(network.structure, rng.normal(size=8), data)
traces = sum(event.endswith("jaxpr_trace_duration") for event in events)
print(traces, np.asarray(loss).tobytes().hex(), np.asarray(slope).tobytes().hex())
"""

PANEL = """
import collections, sys
from jax import monitoring
from festina.cli._main import carry_out

events = collections.Counter()
monitoring.register_event_listener(lambda event, **_: events.update([event]))
monitoring.register_event_duration_secs_listener(
    lambda event, *_, fun_name="", **__: events.update([f"{event} {fun_name}"])
)
status = carry_out(["run", "saddles/figure-1b", "--quiet", "--out", sys.argv[1]])
print(status, sum(n for event, n in events.items() if "backend_compile" in event))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A copy of the source, which nobody edits in the meantime."""
    root = tmp_path_factory.mktemp("source")
    source = Path(festina.__file__).parent
    shutil.copytree(source, root / "festina", ignore=shutil.ignore_patterns("__pycache__"))
    for file in root.rglob("*.py"):
        os.utime(file, (0, 0))
    return root


def run(package, program, *arguments, **variables):
    unset = ("FESTINA_CACHE", "JAX_COMPILATION_CACHE_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment | {"PYTHONPATH": str(package)} | variables,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_second_process_does_not_trace(package, tmp_path):
    traces, *first = run(package, PROCESS, tmp_path)
    assert int(traces) > 0
    traces, *second = run(package, PROCESS, tmp_path)
    assert int(traces) == 0
    assert second == first  # bit for bit


def test_edited_source_is_traced_again(package, tmp_path):
    _, loss, _ = run(package, PROCESS, tmp_path)
    edited = tmp_path / "edited"
    # Bytecode is known to be old by its time and size, and the edit changes neither.
    shutil.copytree(package, edited, ignore=shutil.ignore_patterns("__pycache__"))
    source = edited / "festina" / "_objective.py"
    text = source.read_text(encoding="utf-8")
    assert text.count("return 0.5 * jnp.sum(") == 1
    source.write_text(text.replace("return 0.5 * jnp.sum(", "return 1.0 * jnp.sum("), "utf-8")
    os.utime(source, (0, 0))

    traces, doubled, _ = run(edited, PROCESS, tmp_path)
    assert int(traces) > 0
    assert number(doubled) == 2 * number(loss)


def number(text):
    return np.frombuffer(bytes.fromhex(text))[0]


@pytest.mark.slow
def test_the_second_run_of_a_panel_compiles_nothing(package, tmp_path):
    cache = {"FESTINA_CACHE": str(tmp_path / "cache")}
    first = run(package, PANEL, tmp_path / "first", **cache)
    second = run(package, PANEL, tmp_path / "second", **cache)
    assert first[-2] == second[-2] == "0"
    assert int(first[-1]) > 0
    assert int(second[-1]) == 0
    for name in ("claims.json", "figure.png"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of this process's, which is as it was afterwards."""
    names = ("jax_compilation_cache_dir", *_cache._EAGER)
    before = {name: getattr(jax.config, name) for name in names}
    # Somebody may be writing the source while this runs; another process would be too careful.
    monkeypatch.setattr(_programs, "_STARTED", math.inf)
    festina.compilation_cache(tmp_path)
    yield tmp_path
    _cache.in_use = None
    for name, value in before.items():
        jax.config.update(name, value)
    reset_cache()


def as_another_process():
    """A program as a process finds it that has traced nothing yet."""

    def grow(x, y, *, factor):
        """With a loop and operations that are fused, as those that we keep have."""
        bend = lambda x: factor * x + jnp.sin(x) ** 2 + y
        return jax.lax.while_loop(lambda x: jnp.max(x) < 100.0, bend, x)

    return _programs.kept("factor")(grow)


def files(folder):
    programs = folder / "programs"
    return len(list(programs.iterdir())) if programs.exists() else 0


def traces(call):
    count = []
    listen = lambda event, *_, **__: count.append(event.endswith("jaxpr_trace_duration"))
    monitoring.register_event_duration_secs_listener(listen)
    try:
        result = call()
    finally:
        monitoring.unregister_event_duration_listener(listen)
    return sum(count), np.asarray(result)


X, Y = np.arange(1.0, 5.0), np.ones(4)


def test_one_program_for_each_setting_shape_and_precision(folder):
    program = as_another_process()
    with jax.enable_x64(True):
        expected = np.asarray(program(X, Y, factor=1.1))
        program(X, Y, factor=1.1)
        assert files(folder) == 1
        program(X, Y, factor=1.2)
        assert files(folder) == 2
        program(X[:2], Y[:2], factor=1.1)
        assert files(folder) == 3
    single = np.asarray(program(X, Y, factor=1.1))
    assert files(folder) == 4
    assert single.dtype == np.float32

    with jax.enable_x64(True):
        count, found = traces(lambda: as_another_process()(X, Y, factor=1.1))
        assert count == 0
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(program(X, factor=1.1, y=Y), expected)


@pytest.mark.parametrize(
    "damage", [lambda whole: whole[:-100], lambda whole: b"", lambda whole: b"of another" + whole]
)
def test_a_damaged_file_is_ignored(damage, folder):
    with jax.enable_x64(True):
        expected = np.asarray(as_another_process()(X, Y, factor=1.1))
        (file,) = (folder / "programs").iterdir()
        file.write_bytes(damage(file.read_bytes()))
        count, found = traces(lambda: as_another_process()(X, Y, factor=1.1))
        assert count > 0
        np.testing.assert_array_equal(found, expected)


def test_source_that_changes_while_we_run_keeps_nothing(folder, monkeypatch):
    """What was imported may not be what is there now."""
    _programs._here.cache_clear()
    newest = max(file.stat().st_mtime for file in Path(_programs.__file__).parent.glob("*.py"))
    monkeypatch.setattr(_programs, "_STARTED", newest)
    as_another_process()(X, Y, factor=1.1)
    assert files(folder) == 0


def test_what_jax_read_from_its_cache_runs_and_is_not_written(folder):
    with jax.enable_x64(True):
        expected = np.asarray(as_another_process()(X, Y, factor=1.1))
        shutil.rmtree(folder / "programs")
        for _ in range(2):
            found = np.asarray(as_another_process()(X, Y, factor=1.1))
            np.testing.assert_array_equal(found, expected)
        assert files(folder) == 0


def test_part_of_a_larger_program(folder):
    program = as_another_process()
    with jax.enable_x64(True):
        alone = np.asarray(program(X, Y, factor=1.1))
        together = jax.vmap(lambda x, y: program(x, y, factor=1.1))(X[None], Y[None])
        np.testing.assert_allclose(together[0], alone, rtol=1e-12)
    assert files(folder) == 1


@pytest.mark.parametrize(
    "special",
    [
        lambda: jax.debug_nans(True),
        lambda: jax.disable_jit(),
        lambda: jax.default_device(jax.devices()[0]),
        lambda: jax.default_matmul_precision("float32"),
    ],
)
def test_under_special_settings_programs_are_those_of_jax(special, folder):
    with special():
        as_another_process()(X, Y, factor=1.1)
    assert files(folder) == 0


def test_off(folder, monkeypatch):
    monkeypatch.setenv("FESTINA_CACHE", "off")
    try:
        festina.compilation_cache()
        as_another_process()(X, Y, factor=1.1)
        assert files(folder) == 0
    finally:
        festina.compilation_cache(folder)


def test_what_users_make_has_no_name(folder):
    program = _programs.kept("scale")(lambda x, *, scale: scale(x))
    program(X, scale=lambda x: 2 * x)
    assert files(folder) == 0
    for scale in (lambda x: x, functools.partial(softened, 2), test_off, activation(softened)):
        with pytest.raises(_programs._Nameless):
            _programs._name(scale)


def softened(x):
    """A scalar function of a user's."""
    return jnp.tanh(x)


def test_names_tell_everything_apart():
    ours = [
        power(1),
        power(2),
        power(5),
        leaky_relu(0.1),
        leaky_relu(0.1 + 1e-15),
        *map(activation, ("relu", "tanh", "erf", "sine", "sigmoid")),
        dataclasses.replace(power(2), power=None),  # not seen in its `repr`
        *(
            fully_connected(3, width, key=jax.random.key(0), activation=name).structure
            for width in (1, 2)
            for name in ("linear", "relu")
        ),
    ]
    assert len({_programs._name(each) for each in ours}) == len(ours)
