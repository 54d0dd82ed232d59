"""Shapes in annotations are checked while tests run, and hypothesis draws the same everywhere."""

import gc
import os
from importlib.metadata import version
from pathlib import Path

# Threads of PyTorch and BLAS would wait for cores on which other workers run: small products then
# take ten times as long, and forecasts count what a gradient costs. Before they are imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Workers compile nothing that another one has, nor does the next run. Before JAX is imported.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "xla")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
# Most programs run once and briefly: more than half of all time went into making them fast. A flag
# that XLA does not know ends the process, hence the version.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
    + (
        " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
        if version("jaxlib").startswith("0.10.")
        else ""
    ),
)

import jax
import jaxtyping
import pytest
from hypothesis import settings

# Before anything of festina is imported.
jaxtyping.install_import_hook("festina", "beartype.beartype")

# Programs are large trees of objects that live until the end: looking through them takes longer
# than all they could give back.
gc.set_threshold(100_000, 50, 100)

# A failure that nobody can repeat helps nobody.
settings.register_profile("festina", derandomize=True, deadline=None)
settings.load_profile("festina")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Tests of a file stay in one process, since most of their time is tracing, but for those that
    name a group of their own."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Programs are given back before there are so many that the system maps no more memory for
    them (65,530 pieces, about nine a program): what comes then is a segmentation fault."""
    if nextitem is None or group(nextitem) == group(item):
        return
    pieces = Path("/proc/self/maps")
    if pieces.exists() and pieces.read_bytes().count(b"\n") > 20_000:
        jax.clear_caches()
        gc.collect()  # programs refer to each other in circles


def group(item):
    return item.get_closest_marker("xdist_group").args


@pytest.fixture
def as_a_user():
    """Without the check of annotations, which a user does not have: what do our own checks say?"""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def double():
    """Float64 in the test itself; festina's own functions need no such help."""
    with jax.enable_x64(True):
        yield
