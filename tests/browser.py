"""Chromium for tests of pages. Modules that import this one are skipped where it is missing."""

import contextlib
import shutil

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright")
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_CHROMIUM = next(filter(None, map(shutil.which, _NAMES)), None)
if _CHROMIUM is None:
    pytest.skip("needs Chromium", allow_module_level=True)

SCREENS = pytest.mark.parametrize(
    "screen", [(1280, 900), (390, 844)], ids=["laptop", "phone"], scope="module"
)


@contextlib.contextmanager
def chromium():
    """Start Chromium, without its services that use a network."""
    quiet = ("quic", "background-networking", "component-update", "sync")
    flags = ["--no-sandbox", "--disable-dev-shm-usage", *(f"--disable-{each}" for each in quiet)]
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=_CHROMIUM, args=flags)
        yield opened
        opened.close()


@contextlib.contextmanager
def empty_page(browser, screen, *homes):
    """Open an empty page; console errors and requests outside of `homes` fail at the end.

    `homes` are the beginnings of all addresses that may be requested.
    """
    width, height = screen
    page = browser.new_page(viewport={"width": width, "height": height})
    wrong = []
    page.on(
        "console",
        lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda sent: wrong.append(sent.url[:200]))
    yield page
    page.close()
    assert [each for each in wrong if not each.startswith((*homes, "data:"))] == []


def overflow(page):
    """Return by how many pixels a page is wider than the screen."""
    return page.evaluate("document.documentElement.scrollWidth - innerWidth")
