"""Test progress bars of notebooks and terminals."""

import os
import pty
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

import festina


@pytest.fixture
def notebook(monkeypatch):
    """Return the contents that a notebook shows; a stand-in for IPython collects them."""
    contents = []
    handle = SimpleNamespace(update=contents.append)
    module, display = ModuleType("IPython"), ModuleType("IPython.display")
    vars(module)["get_ipython"] = lambda: SimpleNamespace(kernel="a kernel")
    vars(display).update(HTML=str, display=lambda thing, display_id: handle)
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return contents


def test_a_notebook_shows_one_bar_that_training_fills(notebook, capsys):
    task, key = festina.tasks.xor(), festina.seeds(2)
    network = festina.networks.fully_connected(2, 8, activation="relu", scale=0.1, key=key)
    festina.gradient_flow(network, task, t_end=5.0, progress=festina.progress_bar())
    assert 'value="1.000"' in notebook[-1]
    assert "trained 2 of 2" in notebook[-1]
    assert capsys.readouterr().err == ""


def test_words_are_escaped(notebook):
    festina.progress_bar()("<script>", 0.5)
    assert notebook == ['<progress max="1" value="0.500"></progress> 50% &lt;script&gt;']


def test_a_file_shows_no_bar(capsys):
    festina.progress_bar()("training", 0.5)
    assert capsys.readouterr().err == ""


def test_a_terminal_shows_one_line(tmp_path):
    script = "import festina; bar = festina.progress_bar(); bar('one', 0.5); bar('two', 1.0)"
    above, below = pty.openpty()
    subprocess.run([sys.executable, "-c", script], stderr=below, check=True, cwd=tmp_path)
    os.close(below)
    seen = os.read(above, 10_000).decode()
    os.close(above)
    assert seen.count("\n") == 1
    assert seen.rstrip().endswith(f"{'━' * 30} 100% two")
