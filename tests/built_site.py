"""The site that `make docs` builds, and what tests of its pages need."""

from pathlib import Path

import pytest

SITE = Path(__file__).parents[1] / "docs" / "_build"
PAGES = [
    page.relative_to(SITE).as_posix()
    for page in sorted(SITE.rglob("*.html"))
    if "_static" not in page.parts
]
BUILT = [
    pytest.mark.slow,
    pytest.mark.skipif(not PAGES, reason="needs docs/_build, which `make docs` builds"),
]
