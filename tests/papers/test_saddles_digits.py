"""Test Figure 3 and Table 1 without images: parameters and errors."""

import pytest

from festina.experiments import load_experiment

NAMES = ("saddles/figure-3", "saddles/table-1")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (("35",), "two different digits such as 3/5, got '35'"),
        (("3/3",), "two different digits"),
        (("3/5", "3/5"), "one or more different pairs"),
        ((), "one or more different pairs"),
    ],
)
def test_pairs_that_are_none(name, pairs, words):
    with pytest.raises(ValueError, match=words):
        load_experiment(name).parameters(pairs=pairs)


def test_without_mnist_one_line_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("FESTINA_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("festina.tasks._mnist_files._MIRROR", "http://127.0.0.1:9/")
    for name in NAMES:
        experiment = load_experiment(name)
        with pytest.raises(ValueError, match="Set the environment variable FESTINA_DATA"):
            experiment.run(experiment.parameters())
