"""Run folders, and what commands say about them."""

from pathlib import Path

from festina._run._beside import shorter as shorter
from festina._run._building import Building as Building
from festina._run._building import free as free
from festina._run._building import make as make
from festina._run._building import numbered as numbered
from festina._run._building import remove_empty as remove_empty
from festina._run._building import sweep as sweep
from festina._run._building import unwritable as unwritable

from ._complaint import Complaint

WITHOUT_IDENTIFIERS = "was written by an older festina, whose claims had no identifiers"


def refuse_without_identifiers(folder: Path) -> None:
    """Raise `Complaint` if the claims of a run are identified by their sentences."""
    from festina.experiments._identifiers import is_without_identifiers

    if is_without_identifiers(folder):
        raise Complaint(
            f"'{folder}' {WITHOUT_IDENTIFIERS}, and cannot be shown. The folder is left unchanged; "
            f"the first lines of '{folder / 'parameters.toml'}' say how to repeat the run."
        )
