"""Seeds whose training ended before it converged, in a line."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr


def unconverged(run: "xr.DataTree") -> str:
    """How many seeds broke off, and how the first of them ended; nothing if none did."""
    if "simulation" not in run.children or "message" not in run["simulation"]:
        return ""
    table = run["simulation"].to_dataset()
    left = table.isel(seed=~table["ending"].isin(["converged", "finished"]).values)
    if not (count := left.sizes["seed"]):
        return ""
    total = table.sizes["seed"]
    return (
        f"{count} of {total} seed{'s' * (total > 1)} did not converge. "
        f"Seed {left['seed'].values[0]}: {left['message'].values[0]}"
    )
