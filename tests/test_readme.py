"""Tests that the Python code of README and docs runs and prints the numbers shown."""

import contextlib
import io
import operator
import re
from pathlib import Path

import numpy as np
import pytest
from _pytest.mark import ParameterSet

import festina

README = Path(__file__).parent.parent / "README.md"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+\.\d+(?:e-?\d+)?", text)]


def same_numbers(printed: str, shown: str) -> bool:
    # Final values near zero depend on the steps of the solver.
    steady = [[n for n in numbers(text) if n > 1e-3] for text in (printed, shown)]
    return steady[0] == pytest.approx(steady[1], rel=1e-3) if any(steady) else printed == shown


def test_the_ten_lines_print_what_the_readme_shows():
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(block("python"), {})
    shown = block("text")
    assert printed.getvalue().splitlines()[0] == shown.splitlines()[0]
    assert same_numbers(printed.getvalue(), shown)


def test_the_table_of_the_readme_has_a_row_for_each_sample_and_no_other():
    (recipe,) = re.findall(r"`(data\[\[.*?to_dataframe.*?)`", README.read_text(encoding="utf-8"))
    scale = np.array([1e-1, 1e-4])[:, None]
    network = festina.networks.fully_connected(2, 3, 2, scale=scale, key=festina.seeds(2))
    task = festina.tasks.linear_teacher(np.diag([3.0, 1.0]))
    run = festina.gradient_flow(network, task, rtol=1e-4)
    assert run.saves.min() < run.saves.max()  # some rows are padded
    table = eval(recipe, {"data": run.to_dataset()})
    assert len(table) == run.saves.sum()
    for at in np.ndindex(2, 2):
        rows, lane = table.loc[float(scale[at[0], 0]), at[1]], run.lane(*at)
        np.testing.assert_array_equal(rows["loss"], lane.loss)
        np.testing.assert_array_equal(rows["time"], lane.time)


DOCS = README.parent / "docs"
MADE = {"api", "experiments", "gallery.md", "_build", "_static"}  # by `make docs`
PAGES = (
    README,
    *sorted(p for p in DOCS.rglob("*.md") if p.relative_to(DOCS).parts[0] not in MADE),
)
EXAMPLE = re.compile(r"```python\n(.*?)```\n(?:\n*```text\n(.*?)```)?", re.DOTALL)
LONG = {  # blocks that take more than a second, because they train or compile
    *("README-1", "own-activation-0", "own-covariance-0", "own-covariance-1", "own-gates-0"),
    *("own-runs-0", "own-runs-1", "own-runs-2", "own-runs-3", "own-task-0", "runs-and-tables-0"),
    "sweeps-1",
    *("which-width-0", "recordings-0", "recordings-1", "many-seeds-0", "start-0", "start-1"),
    *("coding-0", "coding-5", "gated-1", "gated-2", "gated-3", "haste-1", "linear-0", "linear-1"),
    *("linear-2", "linear-3", "saddles-2", "saddles-4", "saddles-5"),
}


def examples() -> list[ParameterSet]:
    """Return every Python block of README and docs, with the output shown below it."""
    return [
        pytest.param(
            text,
            shown,
            id=f"{page.stem}-{number}",
            marks=pytest.mark.slow if f"{page.stem}-{number}" in LONG else (),
        )
        for page in PAGES
        for number, (text, shown) in enumerate(EXAMPLE.findall(page.read_text(encoding="utf-8")))
    ]


@pytest.mark.parametrize(("text", "shown"), examples()[1:])  # the first block has its own test
def test_every_example_of_the_pages_runs(text, shown, capsys):
    exec(text, {})
    printed = capsys.readouterr().out
    assert printed or "print(" not in text, "a page shows what it computes"
    if shown:
        assert same_numbers(printed, shown)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(((?!http)[^)]+)\)", text) + re.findall(r'src="([^"]+)"', text):
        target = target.partition("#")[0]
        made = (page.parent / target).resolve().relative_to(README.parent).parts[1:2]
        assert (page.parent / target).exists() or MADE.intersection(made), target


@pytest.mark.parametrize("name", ["linear", "saddles", "gated", "haste", "coding", "own-runs"])
def test_the_table_of_a_page_names_functions_that_exist(name):
    (page,) = (page for page in PAGES if page.stem == name)
    text = page.read_text(encoding="utf-8")
    table = text[text.index("| you have") :].partition("\n\n")[0]
    calls = [row.split("|")[3] for row in table.splitlines()[2:] if row.startswith("|")]
    assert calls
    for call in re.findall(r"`([\w.]+)`", "".join(calls)):
        home = festina if call.startswith("festina.") else getattr(festina.theory, name)
        assert callable(operator.attrgetter(call.removeprefix("festina."))(home)), call
