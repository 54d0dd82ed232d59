"""Help, lists and errors do not pay for JAX."""

import json
import os
import subprocess
import sys

import pytest

HEAVY = {"jax", "numpy", "scipy", "xarray", "zarr", "matplotlib", "equinox", "pydantic"}

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
        ("run --help", 0),
        ("run saddles/figure-1x", 2),
        ("run saddles/figure-1x --width 100", 2),
        ("cite saddles/figure-1b", 0),
        ("reproduce --help", 0),
        ("reproduce sadles", 2),
        ("lst", 2),
    ],
)
def test_light_commands(line, status):
    done = subprocess.run(
        [sys.executable, "-c", CHECK, *line.split()], capture_output=True, text=True, check=True
    )
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["status"] == status
    assert not HEAVY.intersection(report["modules"])
    assert report["cpu"] < 0.5


def test_the_reader_of_a_list_may_leave(process):
    with process("list", real=True) as running:
        running.stdout.close()
        assert running.stderr.read() == ""
