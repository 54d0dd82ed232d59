"""The command line. Nothing heavy is imported before a command needs it."""

from ._main import main as main
