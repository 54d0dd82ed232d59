"""`festina pack`, and what `festina show` prints of a pack."""

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ._complaint import Complaint, complain
from ._folder import Building, refuse_without_identifiers, shorter, unwritable
from ._options import Debug, switch

if TYPE_CHECKING:
    from festina.experiments._perform import Done


def pack(
    run: Annotated[
        Path,
        Parameter(
            name="RUN", help="A run folder, or a folder of `festina reproduce` with several runs."
        ),
    ],
    /,
    *,
    out: Annotated[
        Path | None,
        Parameter(
            help="File to write. The default is named after the run, such as ./race-xor-001.zip."
        ),
    ] = None,
    force: Annotated[bool, switch("Overwrite the file.")] = False,
    experiment: Annotated[
        Path | None,
        Parameter(
            help="The experiment file that made the run, if the file is your own and was moved. "
            "festina does not execute it."
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Write one file with everything about a run, to send or to archive.

    The file holds the data of the run, its parameters, claims, figures and animations, your
    experiment file with the files that it imports from its folder, and the versions of festina,
    Python and other packages in the format RO-Crate. Other files of the run folder stay out.

    `festina show FILE` prints the contents without executing anything, `festina show FILE --out
    FOLDER` unpacks them, and `festina report FILE` makes a page of them. Any program that opens zip
    files unpacks the file too.
    """
    from festina._run._pack import write_pack
    from festina.experiments._crate import attributes_of, crate, files_to_pack, with_imports
    from festina.report._section import run_folders

    top = (run.parent if run.suffix == ".zarr" else run).expanduser()
    if (run.expanduser() / "status" / "zarr.json").is_file():
        raise Complaint(
            f"'{run}' is the store of a sweep, and festina packs run folders. The store holds all "
            "results and xarray reads it anywhere: copy it as it is."
        )
    runs = run_folders([top])
    for each in runs:
        refuse_without_identifiers(each)
    if not runs:
        raise Complaint(f"'{run}' has no finished run. `festina run` makes one.")
    known = attributes_of(runs)
    made_by = _own_files(known, experiment)
    own = list(dict.fromkeys(file for each in made_by.values() for file in with_imports(each)))
    if twice := [name for name, count in Counter(file.name for file in own).items() if count > 1]:
        raise Complaint(f"Two files are called '{twice[0]}': pack the runs one by one.")
    target = (out or Path(f"{_name(top, known)}.zip")).expanduser()
    if target.is_dir():
        raise Complaint(f"`--out` must be a file, got the folder '{target}'.")
    if target.exists() and not force:
        raise Complaint(
            f"'{target}' exists already. Overwrite it with `--force`, or choose another `--out`."
        )
    files = files_to_pack(top, runs, own)
    try:
        write_pack(files, crate(top, files, known), target)
    except OSError as error:
        raise unwritable(target, error) from error
    _warn(files, known, made_by)
    size = target.stat().st_size / 1e6
    print(f"{shorter(target.absolute())}: {len(runs)} run{'s' * (len(runs) != 1)}, {size:.3g} MB.")


def look(
    packs: Sequence[Path],
    out: Path | None,
    *,
    every_claim: bool,
    chosen: Sequence[str],
    json: bool,
) -> None:
    """Print claims and parameters of packs as they were packed; unpack a pack into `out`."""
    from festina._run._pack import unpack, unpacked
    from festina.experiments._runner import choose, claims_json
    from festina.report._section import run_folders

    from ._table import print_results

    if out is not None and len(packs) > 1:
        raise Complaint("`--out` unpacks one file: unpack several files one by one.")
    shown: list[Done] = []
    details: list[str] = []
    with contextlib.ExitStack() as stack:
        for each in packs:
            if out is None:
                folder = stack.enter_context(unpacked(each.expanduser()))
            else:
                with Building(out, numbered_in=Path()) as building:
                    unpack(each.expanduser(), building.path)
                    folder = building.finish()
            for home in run_folders([folder]):
                done, detail = _contents(home, each, keep=out is not None)
                shown.append(done)
                details.append(detail)
    wanted = {claim.name for claim in choose([c for d in shown for c in d.claims], chosen)}
    shown = [replace(d, claims=[c for c in d.claims if c.name in wanted]) for d in shown]
    if json:
        print(claims_json(claim.to_json() for done in shown for claim in done.claims), end="")
        return
    print_results(shown, every_claim=every_claim, every_picture=True)
    print("\n".join(details))
    if out is not None:
        folder = shorter(out.expanduser().absolute())
        if len(shown) == 1:
            print(f"Unpacked: `festina show {folder}` draws the figures again.")
        else:
            print(f"Unpacked {len(shown)} runs: `festina report {folder}` makes a page of them.")


def _contents(home: Path, pack: Path, *, keep: bool) -> "tuple[Done, str]":
    """Return the claims and figures of an unpacked run, and lines on how it was made."""
    from festina.experiments import experiment_names, find_entry
    from festina.experiments._perform import Done
    from festina.experiments.claims._claim import claim_from_json, labelled, printable
    from festina.report._stored import stored_attributes, stored_claims

    known = stored_attributes(home)
    label = printable(labelled(known.experiment, known.preset or ""))
    own = known.experiment not in experiment_names()
    shows = "an experiment of your own" if own else find_entry(known.experiment).shows
    try:
        claims = list(map(claim_from_json, stored_claims(home)))
    except FileNotFoundError:
        claims = []
    except ValueError as error:
        raise Complaint(f"The claims in '{pack}' cannot be read: {error}.") from error
    pictures = [file for file in sorted(home.iterdir()) if file.stem in ("figure", "animation")]
    packages = {"festina": known.festina_version, **known.versions}
    lines = [
        f"{label}: " + ", ".join(f"{k} = {dumps(v)}" for k, v in known.parameters.items()),
        f"made {known.date} on {', '.join(filter(None, (known.device, known.system)))}, with "
        + ", ".join(f"{package} {version}" for package, version in packages.items()),
    ]
    if known.file:
        file = Path(known.file).name
        lines.append(f"experiment file {file}: executed only after `--experiment {file}`")
    if not keep:
        lines.append(f"figures: {', '.join(file.name for file in pictures) or 'none'}")
    told = "\n  ".join(map(printable, lines))
    return Done(label, shows, claims, home, pictures if keep else []), told


def _own_files(known: dict[Path, dict[str, Any]], experiment: Path | None) -> dict[Path, Path]:
    """Return the user's experiment file that made each run, by run folder."""
    from festina.experiments._own_file import file_of_run

    found: dict[Path, Path] = {}
    for folder, attributes in known.items():
        if not attributes.get("file"):
            continue
        path = experiment or file_of_run(attributes, folder)
        if path is None or not path.is_file():
            name = path or Path(str(attributes["file"])).name
            raise Complaint(
                f"'{folder}' was made by '{name}', which is not below this folder. Give its path: "
                f"`--experiment {name}`. The file is packed and not executed."
            )
        found[folder] = path
    return found


def _name(top: Path, known: dict[Path, dict[str, Any]]) -> str:
    """Return the name of a pack without suffix, such as race-xor-001."""
    parts = top.resolve().parts
    name = str(known[top]["experiment"]).replace("/", "-") if top in known else parts[-2]
    return name if name.endswith(f"-{parts[-1]}") else f"{name}-{parts[-1]}"


def _warn(
    files: dict[str, Path], known: dict[Path, dict[str, Any]], made_by: dict[Path, Path]
) -> None:
    """Print remarks on packed files that are not as the reader of the pack expects."""
    from festina._run._code import code

    changed = (file for run, file in made_by.items() if code(str(file)) != known[run].get("code"))
    for file in dict.fromkeys(changed):
        complain(f"'{file.name}' or festina has changed since the run was made.")
    home = str(Path.home()).encode()
    if named := [name for name, path in files.items() if home in path.read_bytes()]:
        complain(f"The path of your home folder is in {', '.join(named)}, and so in the pack.")
