"""Settings of all tests: shapes of annotations are checked, and hypothesis is deterministic."""

import gc
import os
import sys
from importlib.metadata import version
from pathlib import Path

# Set before PyTorch and BLAS are imported. Their threads would wait for cores of other test
# workers, small products would take ten times as long, and forecasts measure the cost of gradients.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Set before JAX is imported. Test workers and later test runs share compiled programs.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "xla")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
# Most compiled programs run once and briefly, so optimising them takes more time than it saves.
# Unknown flags end the process, and two of them depend on the version of XLA.
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

# Failures of assertions in this module, which several test files share, show their values.
pytest.register_assert_rewrite("experiments", "browser")

# Test workers, and the processes that tests start, share the bytecode of modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def _unless_nested(*, typechecker):
    """Return a decorator that checks annotations, except those of nested functions.

    A nested function is created, and would be decorated, at every call; this takes milliseconds.
    """
    checked = _jaxtyped(typechecker=typechecker)
    return lambda it: it if "<locals>" in getattr(it, "__qualname__", "") else checked(it)


# The hook decorates every function with `jaxtyping.jaxtyped`. It must be installed before festina
# is imported.
_jaxtyped, jaxtyping.jaxtyped = jaxtyping.jaxtyped, _unless_nested
jaxtyping.install_import_hook("festina", "beartype.beartype")

# Compiled programs are large trees of objects that live until the end of the tests, so frequent
# garbage collection costs much time and frees little memory.
gc.set_threshold(100_000, 50, 100)

# Failures of hypothesis must be reproducible.
settings.register_profile("festina", derandomize=True, deadline=None)
settings.load_profile("festina")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Keep the tests of a file in one process, which shares traced programs between them.

    Tests with an `xdist_group` mark keep their own group.
    """
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Discard compiled programs between groups of tests, before there are too many."""
    if nextitem is not None and group(nextitem) != group(item):
        from festina._cache import discard_programs

        discard_programs()


def group(item):
    return item.get_closest_marker("xdist_group").args


@pytest.fixture
def as_a_user():
    """Disable the check of annotations, as for a user, to test the library's own error messages."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def double():
    """Use float64 in the test itself; festina's functions always do."""
    with jax.enable_x64(True):
        yield
