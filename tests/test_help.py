"""Tests of public names and signatures: no internals, and readable types of arguments."""

import importlib
import inspect

import pytest

import festina

PACKAGES = ("networks", "tasks", "dynamics", "theory.linear", "theory.saddles", "theory.decisions")
PACKAGES += ("theory.coding", "dynamics.posterior", "diagnose")
SPELLED_OUT = ("numpy._typing", "jaxlib._jax.Array, '...'] | ", "Callable[[jax.")


def public(package):
    module = importlib.import_module(f"festina.{package}")
    return {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}


@pytest.mark.parametrize("package", PACKAGES)
def test_long_unions_are_called_by_their_names(package):
    functions = {name: each for name, each in public(package).items() if inspect.isfunction(each)}
    assert functions or package == "dynamics"
    long = {
        name: str(inspect.signature(each))
        for name, each in functions.items()
        if any(part in str(inspect.signature(each)) for part in SPELLED_OUT)
    }
    assert long == {}


def test_the_aliases_are_what_help_shows():
    shown = str(inspect.signature(festina.networks.fully_connected))
    assert "activation: ActivationLike = 'linear'" in shown
    assert "scale: ArrayLike = 1e-06, key: Keys" in shown
    assert "unit: UnitLike, u: ArrayLike" in str(inspect.signature(festina.networks.layer_from))


@pytest.mark.parametrize("package", ["networks", "tasks"])
def test_machinery_is_not_on_show(package):
    machinery = [
        name
        for name in public(package)
        if "Structure" in name or "Algebra" in name or name.startswith("measure_")
    ]
    assert machinery == []
    assert not {"AbstractView", "Defects", "Statistics", "Featured"} & set(public(package))
