"""`python -m festina.cli` is `festina`."""

from ._main import main

main()
