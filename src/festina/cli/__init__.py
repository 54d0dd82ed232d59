"""The command line. A command imports slow modules only when it runs."""

from ._main import main as main
