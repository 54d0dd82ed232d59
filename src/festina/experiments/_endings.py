"""Summarise in one line the seeds whose training ended before it converged."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr


def unconverged(run: "xr.DataTree") -> str:
    """Return the number of seeds that did not converge, and how the first of them ended.

    Each training run of the experiment gets one sentence. The text is empty if all seeds converged.
    """
    tables = {name: group.to_dataset() for name, group in run.children.items()}
    lines = [_line(name, table) for name, table in tables.items() if "message" in table]
    return " ".join(filter(None, lines))


def _line(name: str, table: "xr.Dataset") -> str:
    left = table.isel(seed=~table["ending"].isin(["converged", "finished"]).values)
    if not (count := left.sizes["seed"]):
        return ""
    total, where = table.sizes["seed"], "" if name == "simulation" else f" of '{name}'"
    return (
        f"{count} of {total} seed{'s' * (total > 1)}{where} did not converge. "
        f"Seed {left['seed'].values[0]}: {left['message'].values[0]}"
    )
