"""Print lines and tables on standard output."""

import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ._folder import shorter

if TYPE_CHECKING:
    from festina.experiments import Claim
    from festina.experiments._perform import Done

_UNWRAPPED = 100_000  # columns if standard output is not a terminal
_MANY = 6
_FEW = 2  # most numbers of an array shown in a line
_NUMBERS = 14
NARROW = 110
CRAMPED = 72  # on screens with fewer columns, a table of claims would break words
_VERDICT = len("does not hold, as known")
_VERDICT_IN_TWO_LINES = len("does not hold,")

_CLAIM = ("claim", "predicted", "measured", "tolerance", "verdict")

Failures = Sequence[tuple[str, str]]


def console() -> Console:
    """Return standard output with the width of the terminal, or of the variable `COLUMNS`.

    In a file or a pipe, lines are not wrapped: each row of a table is one line.
    """
    width = shutil.get_terminal_size((_UNWRAPPED, 0)).columns
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def print_wrapped(line: str, *, indent: int = 0) -> None:
    """Print a line, wrapped between words; paths and links are never broken."""
    width = shutil.get_terminal_size((_UNWRAPPED, 0)).columns
    wrap = textwrap.TextWrapper(
        width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
    print(wrap.fill(line) if len(line) > width else line)


def plain_table(*columns: str, **options: Any) -> Table:
    """Return a table whose first column, the names, is never wrapped."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, **options)
    for column in columns:
        table.add_column(column, overflow="fold", no_wrap=column == columns[0])
    return table


def print_results(
    results: "Sequence[Done]",
    failures: Failures = (),
    *,
    every_claim: bool = False,
    every_picture: bool = False,
    total: str = "",
) -> None:
    """Print a line for each experiment, then failures, broken claims, paths of figures and totals.

    With `every_claim`, tables of all claims replace the lines. With `every_picture`, the path of
    every figure is printed, also of several results.
    """
    screen = console()
    claims = [claim for done in results for claim in done.claims]
    if every_claim:
        for name, group in groupby(claims, key=lambda claim: claim.label):
            screen.print(Text(name, style="bold", no_wrap=True, overflow="ignore"))
            screen.print(claims_table(list(group), width=screen.width))
    else:
        _print_lines(screen, results)
    for label, reason in failures:
        screen.print(Text.assemble((f"{label} failed", "bold red"), f": {reason}"))
    for claim in claims:
        if claim.broken and not every_claim:
            seen = f"predicted {number(claim.predicted)}, measured {number(claim.measured)}"
            preset = f" ({claim.preset})" if claim.preset else ""
            words = f" {claim.name}{preset}: {claim.words}: {seen}"
            screen.print(Text.assemble(("broken", "bold red"), words))
    if len(results) == 1 and results[0].remark:
        screen.print(Text(results[0].remark))
    if len(results) == 1 or every_picture:
        for picture in (picture for done in results for picture in done.pictures):
            print(shorter(picture))
    elif results:
        above = results[0].folder.parent
        if any(done.folder.parent != above for done in results):  # several sources
            above = above.parent / "*"
        print(f"Figures: {shorter(above / '*' / 'figure.png')}")
    screen.print(Text(f"{total}{summary(claims, failures) if results or failures else ''}"))


def _print_lines(screen: Console, results: "Sequence[Done]") -> None:
    """Print for each experiment what it shows, its headline claim and the counts of verdicts.

    On a narrow screen each experiment takes two lines.
    """
    from festina.experiments.claims import headline_claim

    table = plain_table("experiment", "shows", "predicted", "measured", "claims")
    for done in results:
        first = headline_claim(done.claims)
        predicted = number(first.predicted, 4, _FEW) if first else ""
        measured = _seen(first) if first else ""
        style = "bold red" if any(claim.broken for claim in done.claims) else ""
        counts = Text(counted(done.claims), style=style)
        if screen.width >= NARROW:
            table.add_row(done.label, done.shows, predicted, measured, counts)
        else:
            told = f"  predicted {predicted}, measured {measured}" if first else ""
            screen.print(Text.assemble((done.label, "bold"), told))
            screen.print(Text.assemble(f"  {done.shows}; ", counts))
    if table.row_count:
        screen.print(table)


def claims_table(claims: "Sequence[Claim]", *, width: int) -> Table | Group:
    """Return the table of all claims of an experiment, for a screen of `width`.

    On a narrow screen each claim takes a few lines instead of a row.
    """
    if width == _UNWRAPPED:
        table = plain_table("id", *_CLAIM, "source", "note")
        for claim in claims:
            numbers = (claim.predicted, claim.measured, claim.tolerance)
            words = (_verdict(claim), claim.place, " ".join(claim.remarks.split()))
            table.add_row(claim.id, claim.words, *map(number, numbers), *words)
        return table
    if width < CRAMPED:
        return Group(*map(_in_lines, claims))
    table = plain_table(*_CLAIM)
    # Only the column of claims wraps: columns of numbers can shrink a little, and the verdict has a
    # fixed width. A minimal width would push the last column off the screen.
    claim, predicted, measured, _, verdict = table.columns
    claim.no_wrap = False
    predicted.max_width = measured.max_width = _NUMBERS
    verdict.width = _VERDICT if width >= NARROW else _VERDICT_IN_TWO_LINES
    for claim in claims:
        text = Text(claim.words)
        for detail in filter(None, (claim.id, claim.place, claim.remarks)):
            text.append(f"\n{detail}", style="dim")
        numbers = map(number, (claim.predicted, claim.measured, claim.tolerance))
        table.add_row(text, *map(Text, numbers), _verdict(claim))
    return table


def _in_lines(claim: "Claim") -> Group:
    """Return a claim as lines: identifier and place, statement, numbers and verdict, remarks."""
    predicted, measured = number(claim.predicted), number(claim.measured)
    numbers = f"predicted {predicted}, measured {measured}, tolerance {number(claim.tolerance)}: "
    details = [Text(claim.words), Text.assemble(numbers, _verdict(claim))]
    if claim.remarks:
        details.append(Text(claim.remarks, style="dim"))
    head = Text.assemble((claim.id, "bold"), f", {claim.place}" * bool(claim.place))
    return Group(head, *(Padding(each, (0, 0, 0, 2), expand=False) for each in details))


def _seen(claim: "Claim") -> str:
    """Return the measured value of a claim; for a share of seeds, the number of seeds."""
    counted = re.match(r"\d+ of \d+ ", claim.judged.remark)
    return claim.judged.remark if counted else number(claim.measured, 4, _FEW)


def summary(claims: "Iterable[Claim]", failures: Failures = ()) -> str:
    """Return the number of claims of each kind, in a line."""
    holding, corrected, known, broken = counts = _counts(claims)
    parts = [
        f"{holding} {'holds' if holding == 1 else 'hold'}" * bool(holding),
        f"{corrected} {'holds' if corrected == 1 else 'hold'} with a correction" * bool(corrected),
        f"{known} known not to hold" * bool(known),
        f"{broken} broken",
        f"{len(failures)} experiment{'s' * (len(failures) > 1)} failed" * bool(failures),
    ]
    total = sum(counts)
    return f"{total} claim{'s' * (total != 1)}: {', '.join(filter(None, parts))}."


def counted(claims: "Iterable[Claim]") -> str:
    """Return the number of claims of each kind in a few words."""
    holding, corrected, known, broken = _counts(claims)
    words = (
        f"{holding} {'holds' if holding == 1 else 'hold'}",
        f"{corrected} corrected" * bool(corrected),
        f"{known} known not to" * bool(known),
        f"{broken} broken" * bool(broken),
    )
    return ", ".join(filter(None, words))


def _counts(claims: "Iterable[Claim]") -> tuple[int, int, int, int]:
    """Count claims: holds, holds with a correction, known not to hold, broken."""
    kinds = ("holds", "holds with a correction", "does not hold", "broken")
    seen = ["broken" if claim.broken else claim.verdict for claim in claims]
    holding, corrected, known, broken = (seen.count(kind) for kind in kinds)
    return holding, corrected, known, broken


def number(value: Any, digits: int = 5, many: int = _MANY) -> str:
    """Return a value as text: its first `many` numbers, each with so many `digits`."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    if isinstance(value, str | int) or not isinstance(value, Sequence):
        return str(value)
    shown = [number(entry, digits) for entry in value[:many]]
    more = [f"… ({len(value)} in all)" if many == _MANY else "…"] if len(value) > many else []
    return ", ".join(shown + more)


def _verdict(claim: "Claim") -> Text:
    if claim.broken:
        words = "not as known" if claim.wrong else "does not hold"
        return Text(f"{words}: broken", style="bold red")
    if claim.verdict == "does not hold":
        return Text("does not hold, as known", style="yellow")
    return Text(claim.verdict, style="green" if claim.verdict == "holds" else "yellow")
