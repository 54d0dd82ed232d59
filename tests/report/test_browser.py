"""Test the report in a real browser, without a network."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from browser import SCREENS, chromium, empty_page, overflow
from festina.experiments import Experiment, ExperimentEntry, ExperimentRun, Parameters
from festina.experiments.claims import agree, claims_from_source
from festina.experiments.figures import SIMULATION_STYLE, THEORY_STYLE
from festina.report import write_report

pytestmark = SCREENS


@claims_from_source("Toy", "Figure 1")
def claims(run, claim):
    claim("right", "one is one", agree(1.0, 1.0))
    claim("corrected", "one is almost one", agree(1.1, 1.0, within=0.2), corrected="almost")
    claim("broken", "one is two", agree(1.0, 2.0))


def draw(run):
    figure = Figure(figsize=(5, 3))
    ax = figure.subplots()
    ax.plot([0.0, 10.0], [0.0, 2.0], **SIMULATION_STYLE)
    ax.plot([0.0, 10.0], [0.0, 2.1], **THEORY_STYLE)
    ax.set(xlim=(0, 10), ylim=(0, 2))
    return figure


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Return a report with two runs of different sources."""
    home = tmp_path_factory.mktemp("runs")
    for name in ("toy/one", "other/two"):
        entry = ExperimentEntry(name, "an example", "Toy", 1, "")
        experiment = Experiment(entry, Parameters, {}, xr.DataTree, claims, draw)
        data = xr.DataTree(xr.Dataset({"loss": ("time", np.ones(3))}))
        data.attrs |= {"experiment": name, "parameters": Parameters().model_dump()}
        run, folder = ExperimentRun(experiment, data), home / name
        folder.mkdir(parents=True)
        run.save(folder, Parameters())
        run.write_claims(folder)
        run.write_figure(folder / "figure", formats=("svg",))
    write_report([home], home / "report.html")
    return (home / "report.html").as_uri()


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture
def page(browser, report, screen):
    with empty_page(browser, screen, report) as opened:
        opened.goto(report)
        yield opened


def test_nothing_is_wider_than_the_screen(page):
    assert overflow(page) <= 0


def test_claims_are_filtered_by_verdict_source_and_words(page):
    shown = page.locator(".shown")
    assert shown.inner_text() == "6 of 6 claims"
    page.click('button[data-verdict="holds"]')
    assert shown.inner_text() == "4 of 6 claims"
    assert not page.locator("tr[data-verdict='holds']").first.is_visible()
    page.click('button[data-group="toy"]')
    assert shown.inner_text() == "2 of 6 claims"
    assert page.locator("article:visible").count() == 1
    page.fill(".search", "ALMOST one")
    assert shown.inner_text() == "1 of 6 claims"


def test_a_link_to_a_claim_shows_it_although_it_is_filtered(page, report):
    page.fill(".search", "nothing has these words")
    page.goto(f"{report}#toy/one/broken")
    row = page.locator("tr.here")
    assert row.get_attribute("id") == "toy/one/broken"
    assert row.is_visible()
    top = page.evaluate("document.querySelector('.here').getBoundingClientRect().top")
    assert 0 <= top < page.viewport_size["height"]


def test_theory_and_training_can_be_hidden(page):
    for name in ("theory", "training"):
        lines = page.locator(f"svg .{name}")
        assert lines.first.is_visible()
        page.click(f'button[data-hides="{name}"]')
        assert not lines.first.is_visible()


def test_the_pointer_reads_off_values(page):
    svg = page.locator("figure svg").first
    svg.scroll_into_view_if_needed()
    line = page.locator("svg .training path").first.bounding_box()
    page.mouse.move(line["x"] + line["width"] / 2, line["y"] + line["height"] / 2)
    x, y = page.locator("figcaption output").first.inner_text().replace(",", "").split()[1::2]
    assert float(x) == pytest.approx(5.0, abs=0.1)
    assert float(y) == pytest.approx(1.0, abs=0.03)


def test_a_figure_is_enlarged_and_zoomed(page):
    page.locator(".enlarge").first.click()
    width = lambda: float(page.locator("dialog svg").get_attribute("viewBox").split()[2])
    whole = width()
    page.click('[data-zoom="in"]')
    assert width() < whole
    page.click('[data-zoom="all"]')
    assert width() == whole
    page.click('[data-zoom="close"]')
    assert not page.locator("dialog").is_visible()


def test_the_page_is_light_or_dark(page):
    colour = lambda: page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = colour()
    page.click(".theme")
    assert colour() != light
    page.reload()
    assert colour() != light  # the choice is kept
    page.click(".theme")


def test_a_button_copies_the_command(page):
    page.locator("article summary").first.click()
    page.locator("button.copy").first.click()
    page.locator("button.copy", has_text="copied").wait_for()
    assert "festina run" in page.evaluate("getSelection().toString()")


def test_values_are_read_off_in_the_enlarged_figure(page):
    page.locator(".enlarge").first.click()
    line = page.locator("dialog .training path").first.bounding_box()
    page.mouse.move(line["x"] + line["width"] / 2, line["y"] + line["height"] / 2)
    x, y = page.locator("dialog output").inner_text().replace(",", "").split()[1::2]
    assert float(x) == pytest.approx(5.0, abs=0.1)
    assert float(y) == pytest.approx(1.0, abs=0.03)


def test_a_printed_page_has_claims_and_no_buttons(page):
    page.emulate_media(media="print")
    assert page.locator("tr[id]:visible").count() == 6
    assert page.locator("button:visible").count() == 0


def test_a_dark_page_is_printed_on_white(page):
    colour = lambda: page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    assert colour() != "rgb(255, 255, 255)"
    page.emulate_media(media="print")
    assert colour() == "rgb(255, 255, 255)"
