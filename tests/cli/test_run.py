"""Test `festina run`: flags, parameter files, presets, and the contents of a run folder."""

import json
import tomllib

import pytest

from festina.cli._parameters import resolve
from festina.experiments import load_experiment
from festina.experiments._runner import in_force, run_experiment

from . import toy

FILES = ["claims.json", "figure.pdf", "figure.png", "parameters.toml", "run.zarr"]
FIELDS = [
    *("experiment", "preset", "id", "words", "source", "at", "predicted", "measured", "tolerance"),
    *("holds", "verdict", "expected", "broken", "correction", "wrong", "instead", "note"),
]


def parameters(folder):
    return toy.Parameters(**tomllib.loads((folder / "parameters.toml").read_text()))


def test_a_run_folder_is_complete_and_numbered(festina, here):
    for number in ("001", "002"):
        outcome = festina("run", "toy/one")
        assert outcome.status == 0
        folder = here / "runs" / "toy" / "one" / number
        assert sorted(path.name for path in folder.iterdir()) == FILES
        for name in ("figure.png", "figure.pdf"):
            assert f"runs/toy/one/{number}/{name}" in outcome.out.splitlines()
    assert sorted(path.name for path in folder.parent.iterdir()) == ["001", "002"]


def test_a_run_records_versions_date_device_and_seeds(festina, here):
    import matplotlib
    import numpy

    from festina import __version__, load

    festina("run", "toy/one", "--seed", "5", "--out", "a")
    told = load(here / "a").attrs
    versions = {"numpy": numpy.__version__, "matplotlib": matplotlib.__version__}
    assert versions.items() <= told["versions"].items()
    assert {"python", "jax", "jaxlib", "scipy", "xarray"} <= told["versions"].keys()
    assert told["festina_version"] == __version__
    assert told["date"].startswith("20")
    assert told["device"].endswith("CPU cores")
    assert told["system"].strip()
    assert told["parameters"]["seed"] == 5


def test_the_table_says_what_holds(festina):
    outcome = festina("run", "toy/one", "--claims")
    assert "holds with a correction" in outcome.out
    assert "does not hold, as known" in outcome.out
    assert "[width] as printed" in outcome.out  # brackets are not interpreted as markup
    assert "toy/one" in outcome.out.splitlines()
    assert "3 claims: 1 holds, 1 holds with a correction, 1 known not to hold, 0 broken." in (
        outcome.out
    )


def test_without_claims_an_experiment_is_a_line(festina):
    (line,) = (
        line
        for line in festina("run", "toy/one").out.splitlines()
        if line.strip().startswith("toy/one")
    )
    cells = [cell for cell in line.split("  ") if cell]
    assert [cell.strip() for cell in cells] == [
        "toy/one",
        "a loss that falls",
        "0.006738",
        "0.006738",
        "1 holds, 1 corrected, 1 known not to",
    ]


def test_a_broken_claim_is_shown_and_is_no_failure_of_the_run(festina):
    outcome = festina("run", "toy/one", "--ending", "wrong")
    assert outcome.status == 0
    assert "broken toy/one#decay: the loss falls as e^-t: predicted 0.0067379, measured 1.0067" in (
        outcome.out
    )
    assert "1 broken" in outcome.out
    assert "Changed parameters: --ending wrong." in outcome.out


def test_settings_are_shown_as_they_are_typed(festina, monkeypatch):
    monkeypatch.setattr(toy, "PRESETS", {"grey": {"white": False, "variances": (0.5, 2.0)}})
    assert (
        "--preset grey: --no-white --variances 0.5 2\n" in festina("run", "toy/one", "--help").out
    )
    line = "run toy/one --preset grey --spectrum 3 0.25 --ending wrong --samples 20"
    assert (
        "Changed parameters: --samples 20, --spectrum 3 0.25, --variances 0.5 2, --no-white, "
        "--ending wrong." in festina(*line.split()).out
    )


def test_seeds_that_did_not_converge_are_counted(festina):
    line = "run toy/one --seeds 3 --seed 5 --ending {} --out {}"
    outcome = festina(*line.format("early", "a").split())
    remark = "2 of 3 seeds did not converge. Seed 6: Stopped at step 10."
    assert outcome.status == 0
    assert remark in outcome.out.splitlines()
    assert remark in festina("show", "a").out.splitlines()
    assert "converge" not in festina(*line.format("well", "b").split()).out
    assert "converge" not in festina("run", "toy/one", "--ending", "early", "--json").out


def test_the_file_of_another_experiment_is_refused(festina, here):
    file = here / "other.toml"
    file.write_text("# toy/two, festina 0.1.0. Run it again with\nwidth = 3\n")
    outcome = festina("run", "toy/one", "--parameters", str(file), "--out", "a")
    assert outcome.status == 2
    assert "was written for toy/two, not for toy/one" in outcome.err
    assert not (here / "a").exists()
    file.write_text("width = 3\n")
    assert festina("run", "toy/one", "--parameters", str(file), "--out", "a").status == 0


def test_claims_json_has_its_fields_as_plain_values(festina, here):
    festina("run", "toy/one", "--out", "a", "--width", "7")
    claims = json.loads((here / "a" / "claims.json").read_text())
    assert [list(claim) for claim in claims] == [FIELDS] * 3
    assert claims[1]["predicted"] == [7]
    assert claims[1]["measured"] == [7]
    assert [claim["id"] for claim in claims] == ["decay", "width", "direction"]
    assert [claim["correction"] for claim in claims] == ["", "Eq. 3 lacks a factor of two", ""]
    assert claims[2]["wrong"] == "it falls"
    assert claims[2]["instead"]["holds"] is True
    assert claims[0]["instead"] is None
    assert {(claim["source"], claim["at"]) for claim in claims} == {("Toy", "Figure 1")}


ROWS = ("the loss falls as e^-t", "[width] as printed", "the text says it rises")


@pytest.mark.parametrize(
    ("tokens", "shown"),
    [
        (["toy/one", "--claims", "width"], [1]),
        (["toy/one", "--claims", "direction", "decay", "--seed", "2"], [0, 2]),
        (["toy/one", "--claims", "toy/one#width"], [1]),
        (["toy/one#width"], [1]),
        (["--seed", "2", "toy/one#width", "--claims", "decay"], [0, 1]),
        (["toy/one", "--claims"], [0, 1, 2]),
    ],
)
def test_claims_are_chosen_by_identifier(tokens, shown, festina, here):
    outcome = festina("run", *tokens, "--out", "a")
    assert outcome.status == 0
    assert [row in outcome.out for row in ROWS] == [k in shown for k in range(3)]
    assert f"{len(shown)} claim" in outcome.out.splitlines()[-1]
    assert len(json.loads((here / "a" / "claims.json").read_text())) == 3
    chosen = festina("show", "a", "--json", "--claims", *(["width"] if shown == [1] else []))
    assert len(json.loads(chosen.out)) == (1 if shown == [1] else 3)


def test_json_of_a_claim_is_its_entry(festina, here):
    outcome = festina("run", "toy/one#width", "--json", "--out", "a")
    assert json.loads(outcome.out) == json.loads((here / "a" / "claims.json").read_text())[1:2]


def test_json_is_all_that_is_on_standard_output(festina, here):
    outcome = festina("run", "toy/one", "--json", "--out", "a")
    assert outcome.out == (here / "a" / "claims.json").read_text()
    assert "chatter" in outcome.err


def test_without_a_terminal_progress_is_a_line_and_quiet_is_none(festina):
    assert festina("run", "toy/one").err.startswith("toy/one: starting")
    assert "toy/one" not in festina("run", "toy/one", "--quiet").err


def test_the_same_run_gives_the_same_bytes(festina, here):
    for name in ("a", "b"):
        festina("run", "toy/one", "--seed", "3", "--out", name)
    for file in ("claims.json", "figure.pdf", "figure.png", "parameters.toml"):
        assert (here / "a" / file).read_bytes() == (here / "b" / file).read_bytes()


def test_every_kind_of_flag(festina, here):
    flags = (
        "--seeds 2 --seed=5 --width 12 --initial-scale 1e-2 --activation tanh --samples 50 "
        "--spectrum 3 2 -1 --teacher 1 2 -3 4 --no-white --out a"
    )
    assert festina("run", "toy/one", *flags.split()).status == 0
    assert parameters(here / "a") == toy.Parameters(
        seeds=2,
        seed=5,
        width=12,
        initial_scale=0.01,
        activation="tanh",
        samples=50,
        spectrum=(3, 2, -1),
        teacher=((1, 2), (-3, 4)),
        white=False,
    )


def test_flags_may_come_before_the_name_and_with_underscores(festina, here):
    festina("run", "--initial_scale", "0.5", "toy/one", "--out", "a")
    assert parameters(here / "a").initial_scale == 0.5


def test_flags_go_before_file_before_preset_before_defaults(festina, here):
    (here / "mine.toml").write_text("samples = 30\nwidth = 4\n")
    tokens = ["run", "toy/one", "--preset", "printed", "--parameters", "mine.toml", "--width", "5"]
    assert festina(*tokens, "--out", "a").status == 0
    # The preset sets width 3 and 20 samples.
    assert parameters(here / "a") == toy.Parameters(width=5, samples=30)


def test_parameters_can_be_read_back_over_a_preset(festina, here):
    festina("run", "toy/one", "--preset", "printed", "--samples", "none", "--out", "a")
    text = (here / "a" / "parameters.toml").read_text()
    assert "# Number of hidden units.\nwidth = 3\n" in text
    assert 'samples = "none"' in text
    tokens = ("--preset", "printed", "--parameters", "a/parameters.toml")
    festina("run", "toy/one", *tokens, "--out", "b")
    assert parameters(here / "b") == parameters(here / "a") == toy.Parameters(width=3)


def test_a_preset_is_named_in_the_claims(festina, here):
    festina("run", "toy/one", "--preset", "printed", "--out", "a")
    claims = json.loads((here / "a" / "claims.json").read_text())
    assert {(claim["experiment"], claim["preset"]) for claim in claims} == {("toy/one", "printed")}


def test_an_empty_folder_will_do(festina, here):
    (here / "a").mkdir()
    assert festina("run", "toy/one", "--out", "a").status == 0
    assert (here / "a" / "claims.json").exists()


def test_help_shows_every_parameter_with_docstring_default_bounds_and_choices(festina):
    outcome = festina("run", "toy/one", "--help")
    assert outcome.status == 0
    words = " ".join(outcome.out.replace("│", " ").split())
    for text in (
        "--initial-scale FLOAT",
        "has a docstring that is longer than one line of the source. (more than 0)",
        "[default: 0.001]",
        "[choices: linear, relu, tanh]",
        "(each more than 0) [default: 1 1]",
        "--samples INT",
        "[default: none]",
        "--preset printed: --width 3 --samples 20",
        "--parameters PATH",
        "--out PATH",
        "--claims",
        "--quiet",
        "--json",
        "--debug",
    ):
        assert text in words


def test_a_parameter_cannot_take_a_flag_of_the_command_line():
    with pytest.raises(TypeError, match="a parameter cannot be called out"):

        class Bad(toy.Common):
            out: int = 1


def test_a_preset_that_was_taken_back_is_no_label():
    experiment = load_experiment("saddles/figure-1b")
    printed = resolve(experiment, preset="printed", flags={"seeds": 3})
    assert in_force(experiment, "printed", printed) == "printed"
    changed = resolve(experiment, preset="printed", flags={"teacher": "identity"})
    assert in_force(experiment, "printed", changed) is None
    assert in_force(experiment, None, printed) is None


def test_an_unknown_preset_is_found_before_training():
    experiment = load_experiment("saddles/figure-1b")
    with pytest.raises(ValueError, match=r"^Unknown preset 'print'\. Did you mean 'printed'\?"):
        run_experiment(experiment, experiment.parameters(), preset="print")
