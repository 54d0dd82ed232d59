"""Let a report read files of `festina pack` like the folders that were packed.

Paths are relative to the working folder where possible, because reports are sent to others.
"""

import functools
import shlex
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from .._run._beside import shorter
from .._run._pack import unpacked

if TYPE_CHECKING:
    from ._section import Section

_Read = Callable[[Sequence[Path | str]], "list[Section]"]


def with_packs(read: _Read) -> _Read:
    """Decorate a function that reads folders so that it also reads packs, unpacked for the call."""

    @functools.wraps(read)
    def read_all(folders: Sequence[Path | str]) -> "list[Section]":
        with ExitStack() as stack:
            places = dict[Path, Path]()
            for given in (shorter(Path(folder).expanduser()) for folder in folders):
                is_pack = given.is_file()
                place = shorter(stack.enter_context(unpacked(given))) if is_pack else given
                places[place] = given
            sections = read([*places])
        for folder, given in places.items():
            if folder != given:
                sections = [_of_pack(section, folder, given) for section in sections]
        return sections

    return read_all


def _of_pack(section: "Section", folder: Path, pack: Path) -> "Section":
    """Return a section with the place of its run after unpacking, if it is of this pack."""
    if not section.folder.is_relative_to(folder):
        return section
    target = pack.with_suffix("")
    unpack = shlex.join(["festina", "show", str(pack), "--out", str(target)])
    return replace(
        section,
        folder=target / section.folder.relative_to(folder),
        shell=f"{unpack}\n{section.shell}",
        anchor=section.anchor.replace(str(folder), str(target)),
        problem=section.problem.replace(str(folder), str(target)),
        left_out=section.left_out.replace(str(folder), str(target)),
    )
