"""Run the command line: `python -m festina` is the same as the command `festina`."""

from .cli import main

main()
