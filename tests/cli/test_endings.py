"""Test that every training of an experiment reports seeds whose training broke off."""

import xarray as xr

from festina.experiments._endings import unconverged


def table(*endings: str) -> xr.Dataset:
    return xr.Dataset(
        {
            "ending": ("seed", list(endings)),
            "message": ("seed", [f"It {ending}." for ending in endings]),
        },
        {"seed": range(5, 5 + len(endings))},
    )


def line(**groups: xr.Dataset) -> str:
    return unconverged(xr.DataTree.from_dict(dict(groups)))


def test_nothing_is_said_where_nothing_broke_off():
    assert line(simulation=table("converged", "finished"), theory=xr.Dataset()) == ""


def test_seeds_are_counted_and_the_first_is_quoted():
    said = line(simulation=table("converged", "diverged", "out of steps"))
    assert said == "2 of 3 seeds did not converge. Seed 6: It diverged."


def test_every_training_has_its_line():
    said = line(simulation=table("diverged"), cleaner=table("converged", "diverged"))
    assert said == (
        "1 of 1 seed did not converge. Seed 5: It diverged. "
        "1 of 2 seeds of 'cleaner' did not converge. Seed 6: It diverged."
    )
