"""Test the site that `make docs` builds in a real browser, without a network."""

import pytest

from browser import SCREENS, chromium, empty_page, overflow
from built_site import BUILT, PAGES, SITE

pytestmark = [SCREENS, *BUILT]


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture
def page(browser, screen):
    with empty_page(browser, screen, SITE.as_uri()) as opened:
        yield opened


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_the_screen_and_its_formulae_are_drawn(page, name):
    page.goto((SITE / name).as_uri())
    assert overflow(page) <= 0
    assert page.locator(".katex-error").count() == 0
    formulae = page.locator(".math")
    assert page.locator(".math .katex").count() >= formulae.count()
    broken = "[...document.images].filter((one) => one.complete && !one.naturalWidth).length"
    assert page.evaluate(broken) == 0


def test_the_search_works_from_disk(page):
    page.goto((SITE / "search.html").as_uri() + "?q=plateaus")
    page.locator("#search-results li").first.wait_for(timeout=10_000)
    assert "plateaus" in page.locator("#search-results").inner_text().lower()


def test_some_page_has_formulae(page):
    page.goto((SITE / "theory" / "saddles.html").as_uri())
    assert page.locator(".katex").count() > 20
