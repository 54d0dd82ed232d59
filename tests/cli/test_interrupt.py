"""Test that Ctrl-C gives one line and exit status 130, and leaves no file behind."""

import os
import signal

import pytest

from . import toy
from .conftest import everything


def test_an_interruption_leaves_nothing(festina, here):
    outcome = festina("run", "toy/one", "--ending", "interrupt")
    assert outcome.status == 130
    assert outcome.complaint == "Interrupted. Nothing unfinished is left behind."
    assert everything(here) == []


def turned_into_an_error(*_, **__):
    """Raise the error that compiled code makes of an interruption of its Python callback."""
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        raise RuntimeError("CpuCallback error") from None


def swallowed(*arguments, **options):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        return toy_run(*arguments, **options)


toy_run = toy.run


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("run", [turned_into_an_error, swallowed])
def test_an_interruption_is_recognised_in_disguise(run, festina, here, monkeypatch):
    monkeypatch.setattr(toy, "run", run)
    before = signal.getsignal(signal.SIGINT)
    for command in ("run toy/one", "reproduce toy"):
        outcome = festina(*command.split())
        assert outcome.status == 130
        assert outcome.err.splitlines()[-1].startswith("festina: Interrupted")
        assert ("Interrupted" in outcome.out) == command.startswith("reproduce")
    assert everything(here) == []
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("number", "status", "ending", "sign"),
    [
        pytest.param(signal.SIGINT, 130, "slow", "chatter", marks=pytest.mark.slow),
        (signal.SIGTERM, 143, "slow", "chatter"),
        (signal.SIGINT, 130, "compiled", "under way"),
    ],
)
def test_a_real_signal(number, status, ending, sign, process, here):
    with process("run", "toy/one", "--ending", ending) as running:
        while sign not in (line := running.stderr.readline()):
            assert line, "ended too early"
        assert any(name.startswith("runs/toy/one/.festina-") for name in everything(here))
        running.send_signal(number)
        out, err = running.communicate(timeout=20)
    assert running.returncode == status
    assert out == ""
    assert err == "festina: Interrupted. Nothing unfinished is left behind.\n"
    assert everything(here) == []
