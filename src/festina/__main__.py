"""`python -m festina` is `festina`."""

from .cli import main

main()
