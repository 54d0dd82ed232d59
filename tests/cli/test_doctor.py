"""Test `festina doctor`."""

import importlib.metadata

import jax


def test_it_reports_versions_devices_and_folders(festina):
    outcome = festina("doctor")
    assert outcome.status == 0
    lines = [line.split(maxsplit=1) for line in outcome.out.splitlines() if line.startswith("  ")]
    told = {name: rest for name, rest in lines if name not in ("CPU",)}
    assert told["jax"] == importlib.metadata.version("jax")
    assert told["devices"].startswith(f"{len(jax.devices())} × ")
    assert told["float64"] == "works"
    assert told["runs"] == "none in this folder"


def test_a_missing_extra_says_how_to_install_it(festina, monkeypatch):
    missing = importlib.metadata.PackageNotFoundError
    version = importlib.metadata.version

    def installed(package):
        if package == "blackjax":
            raise missing(package)
        return version(package)

    monkeypatch.setattr(importlib.metadata, "version", installed)
    outcome = festina("doctor")
    assert "missing blackjax: pip install 'festina[posterior]'" in outcome.out
    assert outcome.status == 0


def test_a_broken_jax_is_one_line(festina, monkeypatch):
    def fail():
        raise RuntimeError("no\ndriver")

    monkeypatch.setattr(jax, "devices", fail)
    outcome = festina("doctor")
    assert outcome.status == 1
    assert "jax          fails: no driver" in outcome.out
