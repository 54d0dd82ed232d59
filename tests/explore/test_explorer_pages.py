"""Test the pages of the explorer in a real browser."""

import re

import pytest

from browser import SCREENS, chromium, empty_page, overflow
from explorer import explorer

pytestmark = [SCREENS, pytest.mark.xdist_group("explorer in a browser")]
_PATIENCE = 60_000  # milliseconds; programs may have to be compiled


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with explorer(tmp_path_factory.mktemp("runs")) as running:
        yield running


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture
def page(browser, served, screen):
    with empty_page(browser, screen, served.address, "blob:") as opened:
        opened.set_default_timeout(_PATIENCE)
        opened.goto(served.address + "/scene/chain?depth=3")
        opened.locator(".agreement:not(:empty)").wait_for()
        yield opened


def text(page, where):
    return page.locator(where).inner_text()


def test_a_scene_fits_the_screen_and_says_how_well_theory_agrees(page):
    assert overflow(page) <= 0
    assert re.search(r"differs by .* % at most; up to 0.01 % is expected", text(page, ".agreement"))
    assert "With 3 layers" in text(page, ".notice")
    assert page.locator("canvas").count() >= 3


def test_a_knob_changes_sentence_code_and_address(page):
    page.locator("[name=depth]").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_text("With 4 layers").wait_for()
    page.locator("summary").click()
    assert "depth, strength, target, spread = 4," in text(page, ".python")
    assert "depth=4" in page.url
    page.reload()
    page.get_by_text("With 4 layers").wait_for()


def test_training_plays_and_pauses(page):
    clock = page.locator(".clock")
    page.locator("h1").click()
    page.keyboard.press("Space")
    page.locator('.play[aria-pressed="true"]').wait_for()
    page.wait_for_timeout(300)
    page.keyboard.press("Space")
    page.locator('.play[aria-pressed="false"]').wait_for()
    at = int(clock.input_value())
    assert 0 < at < 1000
    assert text(page, ".now").startswith("t = ")


@pytest.mark.parametrize("kind", ["png", "svg", "csv"])
def test_a_plot_is_downloaded(page, kind, tmp_path):
    with page.expect_download() as download:
        page.locator(f'[data-save="{kind}"]').first.click(force=True)
    path = tmp_path / "plot"
    download.value.save_as(path)
    data = path.read_bytes()
    assert data.startswith({"png": b"\x89PNG", "svg": b"<svg", "csv": b"product."}[kind])
    if kind == "csv":
        head, first, *rest = data.decode().splitlines()
        assert head.startswith("product.0.x,product.0.y")
        assert len(rest) == 200
        assert float(first.split(",")[1]) == pytest.approx(1e-3)


def test_lecture_mode_is_ruled_by_the_keyboard(page):
    page.locator(".large").click()
    assert "lecture" in page.locator("body").get_attribute("class")
    page.keyboard.press("ArrowDown")
    assert page.evaluate_handle("document.activeElement").get_property("name").json_value() == (
        "strength"
    )
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    page.get_by_text("With 4 layers").wait_for()


def test_every_control_has_a_name(page):
    nameless = page.evaluate(
        """[...document.querySelectorAll("button, input, select, a, [role=img]")].filter((each) =>
        !(each.labels?.[0]?.textContent ?? each.getAttribute("aria-label") ?? each.textContent)
        .trim()).map((each) => each.outerHTML)"""
    )
    assert nameless == []


def test_a_value_out_of_range_is_explained(browser, served, screen):
    with empty_page(browser, screen, served.address) as opened:
        opened.goto(served.address + "/scene/chain?depth=1000000000")
        opened.locator(".agreement:not(:empty)").wait_for(timeout=_PATIENCE)
        assert "`depth` must be at most 6, got 1000000000." in text(opened, ".problem")
