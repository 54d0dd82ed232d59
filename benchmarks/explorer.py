"""The explorer in Chromium: from a slider to the painted theory, and to the last trained network.

Times are milliseconds in the browser, as medians (and maxima) over random positions of the knobs.
The table begins with the time from the start of the command to the first picture, without and with
compiled programs on disk.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

from .timing import table

_MOVES = 20
_PATIENCE = 120_000  # milliseconds
_FLAGS = ("no-sandbox", "disable-quic", "disable-background-networking", "disable-sync")


def measure() -> dict[str, Any]:
    """Return cold starts in seconds, and for each scene the milliseconds of every move."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, _browser() as page:
        for name in ("first start", "later start"):
            start = time.monotonic()
            with _explorer(folder) as address:
                page.goto(address + "scene/staircase")
                page.locator(".notice:not(:empty)").wait_for(timeout=_PATIENCE)
                found[name] = time.monotonic() - start
        print(f"First picture: {found['first start']:.1f} s, then {found['later start']:.1f} s\n")
        rows = []
        with _explorer(folder) as address:
            page.goto(address)
            cards = page.locator('.cards a[href^="/scene/"]')
            for scene in [each.get_attribute("href") for each in cards.all()]:
                assert scene is not None
                found[scene] = theory, training = _moves(page, address.rstrip("/") + scene)
                cells = (f"{np.median(each):.0f} ({max(each):.0f})" for each in (theory, training))
                rows.append([scene.removeprefix("/scene/"), *cells])
    table(["scene", "theory painted, ms", "last training, ms"], rows)
    return found


def _moves(page: Page, address: str) -> tuple[list[float], list[float]]:
    """Move random sliders; return the times to the theory and to the last trained network."""
    page.goto(address)
    page.locator(".agreement:not(:empty)").wait_for(timeout=_PATIENCE)
    page.locator(".status:empty").wait_for(timeout=_PATIENCE, state="attached")  # all compiled
    rng, sliders = np.random.default_rng(0), page.locator('.knobs input[type="range"]').all()
    theory, training = [], []
    for _ in range(_MOVES):
        slider = sliders[rng.integers(len(sliders))]
        page.evaluate("window.painted.length = 0")
        slider.evaluate(
            """(it, part) => { it.value = +it.min + part * (it.max - it.min);
            it.dispatchEvent(new Event("input", {bubbles: true})); }""",
            float(rng.random()),
        )
        while not any(kind == "trained" for kind, _ in page.evaluate("window.painted")):
            page.wait_for_timeout(50)
        times: list[tuple[str, float]] = page.evaluate("window.painted")
        theory.append(max(ms for kind, ms in times if kind == "theory"))
        training.append(max(ms for kind, ms in times if re.match("training", kind)))
    return theory, training


@contextlib.contextmanager
def _explorer(folder: str) -> Iterator[str]:
    """Start `festina explore` with its compiled programs in a folder; return its address."""
    cache = {"JAX_COMPILATION_CACHE_DIR": str(Path(folder, "xla"))}
    command = [sys.executable, "-m", "festina", "explore", "--no-browser", "--runs", folder]
    with subprocess.Popen(
        command, env=os.environ | cache, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = re.search(r"http://\S+/", process.stdout.readline())
        assert said is not None
        try:
            yield said[0]
        finally:
            process.terminate()


@contextlib.contextmanager
def _browser() -> Iterator[Page]:
    with sync_playwright() as started:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        flags = [f"--{each}" for each in _FLAGS]
        opened = started.chromium.launch(executable_path=path, args=flags)
        yield opened.new_page(viewport={"width": 1280, "height": 800})
        opened.close()
