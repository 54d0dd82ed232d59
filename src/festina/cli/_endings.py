"""Seeds whose training ended before it converged, in a line."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr


def unconverged(run: "xr.DataTree") -> str:
    """How many seeds broke off, and how the first of them ended; nothing if none did."""
    tables = {name: group.to_dataset() for name, group in run.children.items()}
    lines = [_line(name, table) for name, table in tables.items() if "message" in table]
    return " ".join(filter(None, lines))


def _line(name: str, table: "xr.Dataset") -> str:
    each = table[["ending", "message"]].stack(lane=table["ending"].dims)
    left = each.isel(lane=~each["ending"].isin(["converged", "finished"]).values)
    if not left.sizes["lane"]:
        return ""
    total, where = each.sizes["lane"], "" if name == "simulation" else f" of '{name}'"
    return (
        f"{left.sizes['lane']} of {total} seed{'s' * (total > 1)}{where} did not converge. "
        f"Seed {left['seed'].values[0]}: {left['message'].values[0]}"
    )
