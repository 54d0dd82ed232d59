"""Report every error as one line on standard error."""

import sys
import traceback

from festina._complaint import Complaint as Complaint
from festina._complaint import notes as notes
from festina._complaint import one_line as one_line


def complain(text: str, *, debug: bool = False) -> None:
    """Print `text` to standard error; `debug` puts the traceback of the current error first."""
    if debug and sys.exc_info()[0] is not None:
        traceback.print_exc()
    print(f"festina: {one_line(text)}", file=sys.stderr, flush=True)
