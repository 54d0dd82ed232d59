"""Shapes in annotations are checked while tests run, and hypothesis draws the same everywhere."""

import gc

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
