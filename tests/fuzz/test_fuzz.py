"""Test that no function returns a wrong result silently or fails without naming the argument."""

import inspect
import os
import resource
from collections import Counter
from importlib import import_module
from typing import cast

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from . import (  # noqa: F401
    coding,
    decisions,
    diagnosis,
    gated,
    linear,
    networks,
    own,
    saddles,
    tasks,
)
from .corruptions import corrupted
from .outcomes import outcome
from .rows import ROWS

INPUTS = int(os.environ.get("FUZZ_INPUTS", 20_000))
MODULES = (
    "theory.linear",
    "theory.saddles",
    "theory.gated",
    "theory.decisions",
    "theory.coding",
    "diagnose",
    "networks",
    "tasks",
    "own",
)
ELSEWHERE = {
    "own.hugging_face_callback",  # called by a trainer of another library; tested in tests/own
    "own.lightning_callback",
    "own.read_watch",  # reads a folder; tested in tests/own/test_watch_saved.py
    "tasks.mnist_digits",  # reads files; tested in tests/tasks
    "theory.coding.unit_slope_erf",  # a function of JAX
    "theory.coding.erf_sigmoid",
    "theory.decisions.draw_naive_animals",  # random; tested by statistics
    "theory.decisions.simulate_learning",
    "theory.saddles.task_with_fixed_point",
}
SHARE = sum(1 / row.cost for row in ROWS.values())


# Each row has its own group, so that processes share the work evenly.
EACH = [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in sorted(ROWS)]


@pytest.fixture
def bounded_memory():
    """Limit memory, so that a huge array raises an error instead of stopping the machine."""
    former = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, former[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, former)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", EACH)
def test_inputs(name, as_a_user, bounded_memory, record_property):
    row, counts = ROWS[name], Counter()

    @settings(
        max_examples=max(1, round(INPUTS / row.cost / SHARE)),
        database=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=cast("list[HealthCheck]", list(HealthCheck)),
    )
    @given(st.integers(0, 2**20), st.data())
    def ask(seed, data):
        with np.errstate(all="ignore"):
            given = data.draw(corrupted(row.arguments(np.random.default_rng(seed))))
        counts[outcome(row, *given)] += 1

    ask()
    record_property("fuzz", dict(counts))
    assert counts["right"] + counts["kept"], "every input was refused, so no result was checked"


def public(module):
    """Yield the names of all functions that take arguments."""
    package = import_module(f"festina.{module}")
    for name, value in vars(package).items():
        function = not name.startswith("_") and inspect.isfunction(value)
        if function and inspect.signature(value).parameters:
            yield f"{module}.{name}"


@pytest.mark.parametrize("module", MODULES)
def test_no_function_is_forgotten(module):
    assert {name for name in public(module) if name not in ROWS} <= ELSEWHERE
