"""Test that help, lists and error messages do not import JAX."""

import json
import os

import pytest

from helpers import printed

HEAVY = {"jax", "numpy", "scipy", "xarray", "zarr", "matplotlib", "pydantic", "torch"}

CHECK = """
import json, resource, sys
from festina.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({
        "status": end.code,
        "modules": sorted(sys.modules),
        "cpu": used.ru_utime + used.ru_stime,
    }))
"""


@pytest.mark.skipif(os.name == "nt", reason="measures time as POSIX does")
@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("--help", 0),
        ("--version", 0),
        ("list", 0),
        ("list saddles", 0),
        ("list --json", 0),
        ("help", 0),
        ("run ./nothing.py", 2),
        ("reproduce ./nothing.py", 2),
        ("show nowhere --size 16x9", 2),
        ("__complete run saddles/", 0),
        ("run --help", 0),
        ("run saddles/figure-1x", 2),
        ("run saddles/figure-1x --width 100", 2),
        ("cite saddles/figure-1b", 0),
        ("reproduce --help", 0),
        ("reproduce sadles", 2),
        ("lst", 2),
        ("sweep --help", 0),
        ("sweep", 2),
        ("sweep saddles/figure-1x --over width=1,2", 2),
        ("watch --help", 0),
        ("watch a.pt --data d.npz", 2),
        ("forecast a.pt --lr fast --model a:b --loss c:d --data e.npz", 2),
        ("forecast a.safetensors --lr .1 --model a:b --loss c:d --data e.npz", 2),
        ("shrink a.pt --model a:b --data e.npz", 2),
        ("watch a.pt", 2),
        ("shrink a.pt --tolerance 7 --model a:b --data e.npz", 2),
    ],
)
def test_light_commands(line, status):
    report = json.loads(printed(CHECK, *line.split()).splitlines()[-1])
    assert report["status"] == status
    assert not HEAVY.intersection(report["modules"])
    assert report["cpu"] < 1.0  # importing JAX alone takes longer


def test_the_reader_of_a_list_may_leave(process):
    with process("list", real=True) as running:
        running.stdout.close()
        assert running.stderr.read() == ""


@pytest.mark.slow
def test_a_run_does_without_zarr(tmp_path):
    """Writing a run does not import Zarr, which would take a quarter of a second."""
    code = (
        "import sys; sys.modules['dask'] = None; from festina.cli._main import carry_out;"
        "status = carry_out(sys.argv[1:]);"
        "print(status, {'zarr'} & set(sys.modules))"
    )
    line = f"run saddles/figure-1b --seeds 1 --width 3 --quiet --out {tmp_path / 'out'}"
    assert printed(code, *line.split(), FESTINA_CACHE="off").splitlines()[-1] == "0 set()"
