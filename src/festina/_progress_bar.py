"""Show the progress of a function in a notebook or on a terminal."""

import html
import sys
import time
from collections.abc import Callable

_EVERY = 0.1  # seconds between two updates
_CELLS = 30  # characters of a full bar


def progress_bar() -> Callable[[str, float], None]:
    """Return a progress bar, for the argument `progress` of any function that has one.

    The bar appears below the cell of a Jupyter notebook, and as a line of a terminal. If standard
    error goes to a file, no bar is shown. Make a new bar for each call.

    **Example:**

    >>> import festina
    >>> task, key = festina.tasks.xor(), festina.seeds(2)
    >>> network = festina.networks.fully_connected(2, 8, activation="relu", scale=0.1, key=key)
    >>> run = festina.gradient_flow(network, task, t_end=5.0, progress=festina.progress_bar())
    """
    show = _in_notebook() or _on_terminal
    shown = 0.0

    def update(words: str, fraction: float) -> None:
        nonlocal shown
        fraction, now = min(max(float(fraction), 0.0), 1.0), time.monotonic()
        if fraction == 1.0 or now - shown >= _EVERY:
            shown = now
            show(words, fraction)

    return update


def _in_notebook() -> Callable[[str, float], None] | None:
    """Return a function that shows a bar in the output of this cell; None outside notebooks."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import HTML, display  # pyright: ignore[reportMissingImports]

    handle = display(HTML(""), display_id=True)

    def show(words: str, fraction: float) -> None:
        text = f"{fraction:.0%} {html.escape(words)}"
        handle.update(HTML(f'<progress max="1" value="{fraction:.3f}"></progress> {text}'))

    return show


def _on_terminal(words: str, fraction: float) -> None:
    if not sys.stderr.isatty():
        return
    bar = ("━" * round(_CELLS * fraction)).ljust(_CELLS)
    end = "\n" if fraction == 1.0 else ""
    print(f"\r\x1b[2K{bar} {fraction:4.0%} {words}", end=end, file=sys.stderr, flush=True)
