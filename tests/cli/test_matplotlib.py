"""Importing Matplotlib, for commands."""

import subprocess
import sys

SCRIPT = """
from festina.cli._matplotlib import without_documentation

with without_documentation():
    import matplotlib.lines
from matplotlib import artist

assert "Properties:" not in matplotlib.lines.Line2D.__init__.__doc__
assert "Properties:" in artist.kwdoc(matplotlib.lines.Line2D)
assert matplotlib.lines.Line2D([0, 1], [0, 1], color="C1").get_color() == "C1"
"""


def test_artists_work_without_the_texts_on_them():
    """In a process of its own: in this one Matplotlib may be imported already."""
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)
