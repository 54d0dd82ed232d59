"""Shapes in annotations are checked while tests run, and hypothesis draws the same everywhere."""

import jax
import jaxtyping
import pytest
from hypothesis import settings

# Before anything of festina is imported.
jaxtyping.install_import_hook("festina", "beartype.beartype")

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
