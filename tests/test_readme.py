"""The README's Python runs, and prints what the README says it prints."""

import contextlib
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+\.\d+(?:e-?\d+)?", text)]


def test_the_ten_lines_print_what_the_readme_shows():
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(block("python"), {})
    shown = block("text")
    assert printed.getvalue().splitlines()[0] == shown.splitlines()[0]
    # Where the flow stops, and how close to zero, is the solver's business.
    steady = lambda text: [n for n in numbers(text) if n > 1e-3]
    assert steady(printed.getvalue()) == pytest.approx(steady(shown), rel=1e-3)


PAGES = [
    pytest.param(text, id=f"{page.stem}-{number}")
    for page in (README, *sorted((README.parent / "docs").glob("*.md")))
    for number, text in enumerate(
        re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    )
]


@pytest.mark.slow
@pytest.mark.parametrize("text", PAGES[1:])  # the first has a test of its own
def test_every_example_of_the_pages_runs(text, capsys):
    exec(text, {})
    assert capsys.readouterr().out


def test_every_link_in_the_readme_leads_somewhere():
    text = README.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(((?!http)[^)]+)\)", text) + re.findall(r'src="([^"]+)"', text):
        assert (README.parent / target).exists(), target
