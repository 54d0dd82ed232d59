"""The command line. Slow imports wait until a command needs them."""

from ._main import main as main
