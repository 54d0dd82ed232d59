"""What tests of several experiments assert shows its values when it fails, as in a test."""

import pytest

pytest.register_assert_rewrite("experiments")
