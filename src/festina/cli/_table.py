"""Tables on standard output."""

import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from festina.papers import Claim

_PLAIN_WIDTH = 140
_MANY = 6
_NUMBERS = 14
_NARROW = 110
_CRAMPED = 72  # columns, below which a number of five digits breaks in its exponent
_VERDICT = len("does not hold, as known")
_VERDICT_IN_TWO_LINES = len("does not hold,")


def console() -> Console:
    """Standard output; wide where no terminal says how wide it is."""
    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)


def plain_table(*columns: str, **options: Any) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, **options)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def print_claims(claims: "Sequence[Claim]", failures: Sequence[tuple[str, str]] = ()) -> None:
    """All claims in a table, and how many there are of each kind."""
    screen = console()
    screen.print(claims_table(claims, failures, width=screen.width))
    print(summary(claims, failures))


def claims_table(
    claims: "Sequence[Claim]", failures: Sequence[tuple[str, str]] = (), *, width: int
) -> Table:
    """All claims, under the name of their experiment, and what failed, for a screen of `width`."""
    table = plain_table(
        "claim", "predicted", "measured", "tolerance", "verdict", collapse_padding=True
    )
    # On a narrow terminal it is the claim that wraps: numbers have little width to lose, and the
    # verdict, whose width is fixed, none. A least width would push the last column off the screen.
    _, predicted, measured, _, verdict = table.columns
    predicted.max_width = measured.max_width = _NUMBERS
    verdict.width = _VERDICT if width >= _NARROW else _VERDICT_IN_TWO_LINES
    digits = 5 if width >= _CRAMPED else 3
    for name, group in groupby(claims, key=lambda claim: claim.experiment):
        table.add_section()
        table.add_row(Text(name, style="bold"))
        for claim in group:
            text = Text(claim.claim)
            for detail in filter(None, (claim.source, claim.note)):
                text.append(f"\n{detail}", style="dim")
            table.add_row(
                text,
                Text(number(claim.predicted, digits)),
                Text(number(claim.measured, digits)),
                Text(number(claim.tolerance, digits)),
                _verdict(claim),
            )
    for name, reason in failures:
        table.add_section()
        text = Text(name, style="bold")
        text.append(f"\n{reason}", style="not bold red")
        table.add_row(text, "", "", "", Text("failed", style="bold red"))
    return table


def summary(claims: "Iterable[Claim]", failures: Sequence[tuple[str, str]] = ()) -> str:
    """How many claims there are of each kind, in a line."""
    claims = list(claims)
    broken = sum(claim.broken for claim in claims)
    holding = sum(claim.verdict == "holds" for claim in claims)
    corrected = sum(claim.verdict == "holds with a correction" for claim in claims)
    counts = {
        "holds" if holding == 1 else "hold": holding,
        f"{'holds' if corrected == 1 else 'hold'} with a correction": corrected,
        "known not to hold": sum(c.verdict == "does not hold" and not c.broken for c in claims),
    }
    parts = [f"{count} {words}" for words, count in counts.items() if count]
    parts += [f"{broken} broken"]
    if failures:
        parts.append(f"{len(failures)} experiment{'s' * (len(failures) > 1)} failed")
    return f"{len(claims)} claim{'s' * (len(claims) != 1)}: {', '.join(parts)}."


def number(value: Any, digits: int = 5) -> str:
    """Five digits are enough to read; `claims.json` has them all."""
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    if isinstance(value, str | int) or not isinstance(value, Sequence):
        return str(value)
    shown = [number(entry, digits) for entry in value[:_MANY]]
    more = [f"… ({len(value)} in all)"] if len(value) > _MANY else []
    return ", ".join(shown + more)


def _verdict(claim: "Claim") -> Text:
    if claim.broken:
        words = "not as known" if claim.wrong else "does not hold"
        return Text(f"{words}: broken", style="bold red")
    if claim.verdict == "does not hold":
        return Text("does not hold, as known", style="yellow")
    return Text(claim.verdict, style="green" if claim.verdict == "holds" else "yellow")
