"""How an experiment says its claims, one by one."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ._claim import Claim, Judgement

if TYPE_CHECKING:
    import xarray as xr

Claims: TypeAlias = "Callable[[xr.DataTree], list[Claim]]"
Body: TypeAlias = "Callable[[xr.DataTree, Ledger], None]"


class Ledger(list[Claim]):
    """Takes down what an experiment claims: `say(words, judgement, where, …)`."""

    def __init__(self, experiment: str, source: str, place: str):
        super().__init__()
        self.experiment, self.source, self.place = experiment, source, place

    def __call__(
        self,
        words: str,
        judged: Judgement,
        at: str = "",
        *,
        corrected: str = "",
        wrong: str = "",
        instead: Judgement | None = None,
        note: str = "",
        headline: bool = False,
    ) -> None:
        """Claim it.

        **Arguments:**

        - `words`: the statement.
        - `at`: where in the source it stands, if not where the experiment does.
        - `corrected`: the correction under which it holds.
        - `wrong`: why it is known not to hold; `instead` is then the judgement of what is right,
          which must hold for the claim not to be broken.
        - `note`: what else a reader wants to know.
        - `headline`: whether this is the claim that stands for the experiment in one line; if
          none says so, it is the first.
        """
        if bool(wrong) != (instead is not None):
            raise TypeError(f"'{words}': what is `wrong` is held to what is right `instead`.")
        right = "" if instead is None else _in_words(instead)
        silent = "" if judged.is_told else "nothing was measured"
        parts = filter(None, (corrected, wrong, right, silent, note, judged.remark))
        self.append(
            Claim(
                self.experiment,
                words,
                f"{self.source}, {at or self.place}",
                judged,
                corrected,
                wrong,
                instead,
                "; ".join(parts),
                headline,
            )
        )


def asserts(source: str, place: str) -> Callable[[Body], Claims]:
    """Make the `claims` of an experiment from a body `(run, say)` that says them one by one."""

    def wrap(body: Body) -> Claims:
        @functools.wraps(body)
        def claims(run: "xr.DataTree") -> list[Claim]:
            ledger = Ledger(str(run.attrs["experiment"]), source, place)
            body(run, ledger)
            return list(ledger)

        return claims

    return wrap


def _in_words(judged: Judgement) -> str:
    told = lambda value: f"{value:.5g}" if isinstance(value, float) else str(value)
    kept = "" if judged.holds else ", which does not hold either"
    return f"instead {told(judged.predicted)}, measured {told(judged.measured)}{kept}"
