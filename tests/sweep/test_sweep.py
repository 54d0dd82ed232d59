"""Test that the grid of a function or an experiment is computed once, and resumed."""

import contextlib
import itertools
import shutil
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pydantic
import pytest
import xarray as xr
import zarr

import festina
from festina import _processes
from festina.experiments import load_experiment
from festina.experiments.claims import Claim, Judgement
from festina.sweeps import _local, _store, _sweep, _work
from festina.sweeps._grid import TEXT, Grid, axis, length
from festina.sweeps._store import open_store
from festina.sweeps._work import Outcome
from small import SMALL

from . import functions

TOY = str(Path(__file__).parents[1] / "cli" / "toy.py")


def test_processes_and_one_process_find_the_same(tmp_path):
    over = {"a": "0:4:5", "b": [0.5, 10.0]}
    said = []
    data = festina.sweep(
        functions.uneven,
        over,
        tmp_path / "two.zarr",
        processes=2,
        progress=lambda *words: said.append(words),
    )
    alone = festina.sweep(functions.uneven, over, tmp_path / "none.zarr", processes=0)
    assert data.drop_vars("seconds").equals(alone.drop_vars("seconds"))
    assert data["sum"].dims == ("a", "b")
    good = data.sel(a=[0, 1, 2, 4])
    assert np.array_equal(good["sum"], good["a"] + good["b"])
    assert np.array_equal(data["drops"].sel(a=4, b=10.0), [0, 10, 20, 30])
    assert np.array_equal(data["drops"].sel(a=1, b=10.0), [0, np.nan, np.nan, np.nan], True)
    assert data["word"].sel(b=0.5).values.tolist() == ["even", "odd", "even", "", "even"]
    assert data["status"].sel(b=0.5).values.tolist() == ["done"] * 3 + ["failed", "done"]
    assert str(data["reason"].sel(a=3, b=0.5).values).startswith("ValueError: three is bad (func")
    assert np.isfinite(data["seconds"]).all()
    assert said[0] == ("0 of 10 pieces", 0.0)
    assert said[-1] == ("10 of 10 pieces, 2 failed", 1.0)


def test_axes_together_are_arrays(tmp_path):
    data = festina.sweep(
        functions.at_once,
        {"scale": "1e-3:1:log:4", "depth": "2,3"},
        tmp_path / "s.zarr",
        seeds=3,
        together=("scale", "seed"),
        processes=0,
    )
    assert data["x"].dims == ("scale", "depth", "seed")
    assert np.allclose(data["x"], data["scale"] * data["depth"] + data["seed"])
    assert np.allclose(data["pair"].isel(pair_1=1) + data["scale"], 0)
    assert data["status"].dims == ("depth",)


def test_rows_are_known_by_their_names(tmp_path):
    data = festina.sweep(functions.labelled, {"a": "1,0,2"}, tmp_path / "s.zarr", processes=0)
    assert data["status"].values.tolist() == ["done"] * 3
    value = data["value"].sel(time=0.5)
    assert np.array_equal(value.sel(row="rank"), [0, np.nan, 2], equal_nan=True)
    assert np.array_equal(value.sel(row="width"), [np.nan, np.nan, 0], equal_nan=True)


def test_coordinates_that_no_result_has_are_left_out(tmp_path):
    """The sweep has its own coordinate for the points, so the result's coordinate is dropped."""
    function = lambda a: xr.Dataset({"y": ("a", 2.0 * a)}, {"a": a, "time": [0.0, 1.0]})
    over = {"a": "1,2"}
    data = festina.sweep(function, over, tmp_path / "s.zarr", together="a", processes=0)
    assert data["y"].values.tolist() == [2.0, 4.0]
    assert set(data.coords) == {"a"}


def test_functions_of_a_script_are_sent(tmp_path):
    offset = 3.0
    data = festina.sweep(
        lambda a: {"y": a + offset}, {"a": [1.0]}, tmp_path / "s.zarr", processes=1
    )
    assert data["y"].values.tolist() == [4.0]


def test_where_a_process_cannot_be_started_none_is_left(tmp_path, monkeypatch):
    processes, start = [], _processes._started

    def started():
        if len(processes) == 2:
            raise OSError("too many processes")
        processes.append(start())
        return processes[-1]

    monkeypatch.setattr(_processes, "_started", started)
    with pytest.raises(OSError, match="too many"):
        festina.sweep(functions.labelled, {"a": "0,1,2"}, tmp_path / "s.zarr", processes=3)
    assert [process.poll() for process in processes] == [-9, -9]


def test_a_piece_that_kills_its_process_is_recorded(tmp_path):
    data = festina.sweep(functions.deadly, {"a": "0:2:3"}, tmp_path / "s.zarr", processes=1)
    assert data["status"].values.tolist() == ["done", "failed", "done"], data["reason"].values
    assert (
        str(data["reason"].values[1]) == "3 processes died while computing it, the last by signal 6"
    )


@pytest.fixture
def counted(tmp_path):
    """Return a function that fails at the values in a set, the list of its calls, and the set."""
    calls, bad = [], {2}

    def function(a):
        calls.append(a)
        if a in bad:
            raise RuntimeError("no")
        return {"y": a}

    store = tmp_path / "s.zarr"
    again = lambda **more: festina.sweep(function, {"a": "0:4:5"}, store, processes=0, **more)
    return again, calls, bad


def test_what_is_done_is_not_repeated(counted):
    again, calls, bad = counted
    again()
    again()
    assert calls == [0, 1, 2, 3, 4]
    bad.clear()
    again()
    assert calls == [0, 1, 2, 3, 4]
    data = again(retry=True)
    assert calls == [0, 1, 2, 3, 4, 2]
    assert data["y"].values.tolist() == [0, 1, 2, 3, 4]
    assert set(data["status"].values) == {"done"}
    assert set(data["reason"].values) == {""}


def test_pieces_to_try_again_wait_also_after_a_kill(counted, tmp_path):
    again, calls, bad = counted
    again()
    bad.clear()
    data = xr.open_zarr(tmp_path / "s.zarr", chunks=None)
    grid = Grid({"a": tuple(data["a"].values.tolist())})
    made_by, code = data.attrs["sweep"], data.attrs["code"][-1]
    with open_store(tmp_path / "s.zarr", grid, made_by, code, changed=False) as store:
        store.forget_failures()
    again()
    assert calls == [0, 1, 2, 3, 4, 2]


def test_what_is_fixed_may_be_nan(tmp_path):
    calls = []

    def function(a, b):
        calls.append(a)
        return {"y": a}

    for _ in range(2):
        given = {"parameters": {"b": np.nan}, "processes": 0}
        festina.sweep(function, {"a": "1,2"}, tmp_path / "s.zarr", **given)
    assert calls == [1, 2]


def test_the_store_of_a_function_without_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = []
    tell = lambda words, fraction: said.append(words)
    festina.sweep(lambda a: {"y": a}, {"a": [1]}, processes=0, progress=tell)
    assert said == ["0 of 1 piece", "1 of 1 piece"]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["lambda"]


@pytest.mark.parametrize("returned", [None, {"y": object()}, {"y": 1j}, {"status": 1.0}])
def test_results_that_cannot_be_kept_stop_a_sweep_that_has_none(returned, tmp_path):
    """A first piece whose result cannot be stored stops the sweep; later such pieces only fail.

    A mended function needs no flag.
    """
    calls, store = [], tmp_path / "s.zarr"

    def wrong(a):
        calls.append(a)
        return returned

    with pytest.raises(ValueError, match=r"must return|of type|the store reserves") as stopped:
        festina.sweep(named(wrong), {"a": "0:4:5"}, store, processes=0)
    assert calls == [0]
    assert stopped.value.__notes__ == [f"0 of 5 pieces are in '{store}'."]
    mended = named(lambda a: {"y": a} if a != 3 else returned)
    data = festina.sweep(mended, {"a": "0:4:5"}, store, processes=0)
    assert data["status"].values.tolist() == ["done", "done", "done", "failed", "done"]


@pytest.mark.parametrize(("processes", "left"), [(0, (", 240 s left", "120 s")), (4, ("", "30 s"))])
def test_the_time_that_is_left_is_that_of_pieces_that_are_done(
    processes, left, tmp_path, monkeypatch
):
    """Each piece takes 30 s by a fake clock. Failures and the first piece of a process do not
    count.
    """
    clock = SimpleNamespace(perf_counter=partial(next, itertools.count(0.0, 30.0)))
    monkeypatch.setattr(_work, "time", clock)
    side_by_side = lambda work, grid, todo, processes: _local.here(work, grid, todo)
    monkeypatch.setattr(_sweep, "side_by_side", side_by_side)
    monkeypatch.setattr(_sweep, "duration", "{:.0f} s".format)

    def function(a, file):
        if a == 8 and not file.exists():
            raise KeyboardInterrupt
        return {"y": 1 / max(0, a - 1)}

    def sweep():
        said, given = [], {"parameters": {"file": tmp_path / "again"}, "processes": processes}
        given["progress"] = lambda words, fraction: said.append(words)
        with contextlib.suppress(KeyboardInterrupt):
            festina.sweep(function, {"a": "0:11:12"}, tmp_path / "s.zarr", **given)
        return said

    said = sweep()
    assert said[:3] == ["0 of 12 pieces", "1 of 12 pieces, 1 failed", "2 of 12 pieces, 2 failed"]
    assert said[3] == "3 of 12 pieces, 2 failed"
    assert said[4] == f"4 of 12 pieces, 2 failed{left[0]}"
    assert said[-1] == f"8 of 12 pieces, 2 failed, {left[1]} left"
    (tmp_path / "again").touch()
    assert sweep()[0] == said[-1]


@pytest.mark.parametrize("processes", [1, 3])
def test_the_time_that_is_left_does_not_count_compilation(processes, tmp_path, monkeypatch):
    """The first piece of each process takes ten minutes, every later piece one second."""
    seconds = iter([600.0] * processes + [1.0] * 30)
    ticks = itertools.chain.from_iterable((0.0, each) for each in seconds)
    clock = SimpleNamespace(perf_counter=partial(next, ticks))
    monkeypatch.setattr(_work, "time", clock)
    monkeypatch.setattr(
        _sweep, "side_by_side", lambda work, grid, todo, processes: _local.here(work, grid, todo)
    )
    said = []
    festina.sweep(
        named(lambda a: {"y": a}),
        {"a": "1:30:30"},
        tmp_path / "s.zarr",
        processes=processes,
        progress=lambda words, fraction: said.append(words),
    )
    assert all("left" not in words for words in said[: processes + 1])
    for done, words in list(enumerate(said))[processes + 1 : -1]:
        assert words == f"{done} of 30 pieces, {-(-(30 - done) // processes)} s left"


def test_an_interruption_says_how_to_go_on(tmp_path):
    def function(a):
        if a == 2 and not (tmp_path / "again").exists():
            raise KeyboardInterrupt
        return {"y": a}

    sweep = lambda: festina.sweep(function, {"a": "0:4:5"}, tmp_path / "s.zarr", processes=0)
    with pytest.raises(KeyboardInterrupt) as stopped:
        sweep()
    assert stopped.value.__notes__[0].startswith("2 of 5 pieces are in '")
    assert stopped.value.__notes__[0].endswith("'; run the same sweep again to resume.")
    (tmp_path / "again").touch()
    assert sweep()["y"].values.tolist() == [0, 1, 2, 3, 4]


TWO_DEPTHS = SMALL["linear/depth"] | {"network_depths": (2, 4), "seeds": 2}


@pytest.fixture(scope="module")
def depth(tmp_path_factory):
    """Return the store and a sweep of an experiment whose claims contain numbers of its
    parameters.
    """
    store = tmp_path_factory.mktemp("sweep") / "depth.zarr"
    how = {"parameters": TWO_DEPTHS, "processes": 0}
    return store, lambda **more: festina.sweep(
        "linear/depth", {"layer_strength": [0.4, 0.5]}, store, **how, **more
    )


def test_a_claim_is_one_row_whatever_its_words_say(depth):
    _, sweep = depth
    data = sweep()
    assert data["reason"].values.tolist() == ["", ""]
    experiment = load_experiment("linear/depth")
    known: dict[str, Any] = TWO_DEPTHS | {"layer_strength": 0.4}
    run = experiment.run(experiment.parameters(**known))
    assert data["claim"].values.tolist() == [claim.id for claim in experiment.claims(run)]
    assert np.isfinite(data["holds"]).all()


def test_a_store_whose_claims_are_sentences_is_left_alone(depth):
    store, sweep = depth
    group = zarr.open_group(store, mode="r+", use_consolidated=False)
    claims = group["claim"]
    assert isinstance(claims, zarr.Array)
    claims[0] = "depth …: times to learn are those of the closed form"
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    for more in ({}, {"changed": True}, {"retry": True}):
        with pytest.raises(ValueError, match=r"depth\.zarr' was written by an older festina"):
            sweep(**more)
    assert {path: path.read_bytes() for path in store.rglob("*") if path.is_file()} == before


def test_labels_of_a_function_are_never_taken_for_one(tmp_path):
    one = named(lambda a: xr.Dataset({"y": ("claim", [a])}, {"claim": [f"layer {a}"]}))
    data = festina.sweep(one, {"a": [1, 2]}, tmp_path / "s", processes=0)
    assert data["claim"].values.tolist() == ["layer 1", "layer 2"]


def test_an_error_of_pydantic_is_a_sentence(tmp_path):
    class Own(pydantic.BaseModel):
        width: int = pydantic.Field(ge=1)

    def function(a):
        return {"y": Own(width=a).width}

    data = festina.sweep(named(function), {"a": [1, 0]}, tmp_path / "s", processes=0)
    reason = str(data["reason"].values[1])
    assert reason.startswith("ValidationError: `width` must be at least 1, got 0. (")
    assert "pydantic" not in reason


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        ([], np.empty((0, 0))),
        (["word"], np.empty((1, 0))),
        ([[1.0, 2.0], 3, "word"], [[1, 2], [3, np.nan], [np.nan, np.nan]]),
    ],
)
def test_a_row_for_each_claim_also_where_there_is_none(values, rows):
    np.testing.assert_array_equal(_work._rows(values), rows)


def test_a_claim_whose_prediction_is_words_keeps_what_was_measured(monkeypatch):
    judged = Judgement("≥ 0.75 of seeds", 0.9, "1 % test", True)
    made = SimpleNamespace(claims=[Claim("toy", "most", "words", "", "", judged)])
    monkeypatch.setattr("festina.experiments.load_experiment", lambda name: toy)
    monkeypatch.setattr("festina.experiments.run_experiment", lambda *how: made)
    toy = SimpleNamespace(parameters=lambda: None)
    found = _work.claims_at("toy")
    assert found["claim"].values.tolist() == ["most"]
    assert found["measured"].values.tolist() == [[0.9]]
    assert np.isnan(found["predicted"].values).tolist() == [[True]]


def test_what_a_function_cannot_be_given_by_name_is_unknown(tmp_path):
    by_place = lambda a, /: {"y": a}
    with pytest.raises(ValueError, match="Unknown parameter 'a'"):
        festina.sweep(by_place, {"a": [1, 2]}, tmp_path / "s.zarr")


def test_an_experiment_keeps_its_claims(tmp_path):
    data = festina.sweep(
        TOY,
        {"width": "3,5", "ending": "well,wrong,value"},
        tmp_path / "s.zarr",
        seeds=2,
        processes=0,
    )
    assert data["status"].values.tolist() == [["done", "done", "failed"]] * 2
    holds = data["holds"].sel(claim="decay")
    assert np.array_equal(holds, [[1, 0, np.nan]] * 2, equal_nan=True)
    widths = data["measured"].sel(claim="width", ending="well").isel(entry=0)
    assert widths.values.tolist() == [3, 5]
    assert data.attrs["sweep"]["seeds"] == "2"


@pytest.mark.usefixtures("as_a_user")
@pytest.mark.parametrize(
    ("over", "options", "words"),
    [
        ({}, {}, "Missing axis: give several values"),
        ({"a": "1,2"}, {}, "also needs `b`"),
        ({"a": "1,2", "c": 3}, {}, "Unknown parameter 'c'. There are: a, b."),
        ({"a": "", "b": 1}, {}, "`a` has no values, so the grid has no points"),
        ({"a": [], "b": 1}, {}, "`a` has no values"),
        ({"a": "1:2:0", "b": 1}, {}, "`a` has no values"),
        ({"a": "1:2", "b": 1}, {}, "FROM:TO:log:NUMBER, got '1:2'"),
        ({"a": "0:2:log:3", "b": 1}, {}, "above zero on a logarithmic axis"),
        ({"a": "1:inf:3", "b": 1}, {}, "finite"),
        ({"a": [1.0, np.nan], "b": 1}, {}, "finite values, got nan"),
        ({"a": "1,1.0", "b": 1}, {}, "`a` has a value twice"),
        ({"a": "1,2", "b": 1}, {"parameters": {"b": 2}}, "`b` is swept over and given one value"),
        ({"a": "1,2", "b": 1}, {"seeds": 2}, "`seeds` adds an axis `seed`, but the function take"),
        ({"a": "1,2", "seed": 1}, {"seeds": 2}, "`seeds` adds an axis `seed`, but `over` has one"),
        ({"a": [object()], "b": 1}, {}, "`a` must be all numbers, all text, or all lists of these"),
        ({"a": [1, "a"], "b": 1}, {}, "`a` must be all numbers, all text, .*got 1, 'a'"),
        ({"a": [(1, None)], "b": 1}, {}, "`a` must be all numbers"),
        ({"a": "1,2", "b": 1}, {"together": ("c",)}, "Unknown axis 'c'"),
        ({"a": "1,2", "b": 1}, {"together": "both"}, "Unknown axis 'both'"),
        ({"a": "1,2", "b": 1}, {"processes": -1}, "`processes` must be a whole number"),
        ({"a": "1,2", "b": 1}, {"seeds": 0}, "`seeds` must be a whole number of at least 1"),
        (
            {"a": "0:1:10000", "b": "0:1:2"},
            {"processes": 2},
            "20,000 pieces.* 3 h on 2 processes.*yes",
        ),
        (
            {"a": "0:1:100000000", "b": 1},
            {"yes": True, "processes": 1},
            "100,000,000 points.*3 years",
        ),
    ],
)
def test_what_cannot_be_swept_is_refused_before_it_begins(over, options, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        festina.sweep(functions.uneven, over, tmp_path / "s.zarr", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("over", "options", "words"),
    [
        ({"widht": "1,2"}, {}, "Unknown parameter 'widht'. Did you mean 'width'?"),
        ({"width": "0,1"}, {}, "`width` must be at least 1, got 0."),
        ({"activation": "relu,rleu"}, {}, "'linear', 'relu' or 'tanh'"),
        ({"samples": "5,20"}, {}, "below the width 10"),
        ({"width": "3,3.0"}, {}, "`width` has a value twice, .*: 3.0, 3.0."),
        ({"width": "1,2"}, {"together": ("width",)}, "`together` is for functions"),
        ({"seeds": "1,2"}, {"seeds": 3}, "`seeds` is swept over and given"),
    ],
)
def test_parameters_are_those_of_the_experiment(over, options, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        festina.sweep(TOY, over, tmp_path / "s.zarr", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_store_of_something_else_is_refused(counted, tmp_path):
    again, *_ = counted
    again()
    store = tmp_path / "s.zarr"
    sweep = lambda function, over, **more: festina.sweep(function, over, store, processes=0, **more)
    with pytest.raises(ValueError, match=r"another sweep: `what` is function there, other here"):
        sweep(other, {"a": "0:4:5"})
    longer = r"`a` is \[0, 1, 2, 3, 4\] there, \[0, 1, 2\] here; `b` is not given there, 7 here"
    with pytest.raises(ValueError, match=longer):
        sweep(named(lambda a, b: {}), {"a": "0:2:3"}, parameters={"b": 7})
    with pytest.raises(ValueError, match=r"code was changed since.*`changed`"):
        sweep(named(lambda a: {"y": 2 * a}), {"a": "0:4:5"})
    data = sweep(named(lambda a: {"y": 2 * a}), {"a": "0:4:5"}, changed=True, retry=True)
    assert data["y"].values.tolist() == [0, 1, 4, 3, 4]
    assert len(data.attrs["code"]) == 2
    assert data.attrs["versions"]["numpy"] == np.__version__
    assert datetime.fromisoformat(data.attrs["date"]) <= datetime.now(UTC)
    (tmp_path / "notes").mkdir()
    with pytest.raises(ValueError, match="exists and is not a sweep"):
        festina.sweep(other, {"a": "1,2"}, tmp_path / "notes", processes=0)


def test_what_is_given_besides_tells_sweeps_apart(tmp_path):
    def function(a, task, factor=1.0):
        return {"y": factor * a * float(task.y.sum())}

    def sweep(number, **more):
        task = festina.tasks.linear_teacher(np.eye(1), np.array([[number]]))
        over, given = {"a": "1,2"}, {"parameters": {"task": task}, "processes": 0}
        return festina.sweep(partial(function, **more), over, tmp_path / "s.zarr", **given)

    sweep(1.0)
    sweep(1.0)
    with pytest.raises(ValueError, match=r"`task` is Task .* there, Task .* here"):
        sweep(2.0)
    with pytest.raises(ValueError, match="code was changed"):
        sweep(1.0, factor=2.0)


def other(a):
    return {"y": a}


def named(function):
    function.__name__ = "function"
    return function


def test_two_do_not_write_to_one_store(tmp_path):
    def function(a):
        with pytest.raises(ValueError, match="Another process writes to"):
            festina.sweep(named(other), {"a": "1,2"}, tmp_path / "s.zarr", processes=0)
        return {"y": a}

    data = festina.sweep(function, {"a": "1,2"}, tmp_path / "s.zarr", processes=0)
    assert set(data["status"].values) == {"done"}, data["reason"].values


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        (3.0, "must return a dictionary of numbers and arrays"),
        ({"status": 1}, "`status` is an axis or a name that the store"),
        ({"y": np.zeros(2)}, "`y` has axes ('y_0',) and type float64, in earlier pieces ()"),
        ({"y": "text"}, "in earlier pieces () and float64"),
        ({"y": object()}, "`y` is of type object"),
        ({"y": 1j}, "`y` is of type complex128, expected real numbers or text"),
        ({"y": 2**60}, "above 2⁵³"),
        (xr.Dataset({"z": ("a", [1.0])}), "an axis `a`, as the sweep has"),
        ({"time": 1.0}, "`time` is an axis"),
        (xr.Dataset({"z": ("row", [1.0, 2.0])}, {"row": ["p", "p"]}), "along `row` have the same"),
        (
            xr.Dataset({"t": ("time", [1.0])}, {"time": [7.0]}),
            "`time` differs from the coordinate of earlier",
        ),
    ],
)
def test_results_that_do_not_fit_are_failures(returned, reason, tmp_path):
    first = {"y": 1.0, "t": xr.DataArray([1.0], dims="time")}
    first = xr.Dataset(first, {"time": [3.0]})
    function = lambda a: first if a == 0 else returned
    data = festina.sweep(function, {"a": "0,1"}, tmp_path / "s.zarr", processes=0)
    assert data["status"].values.tolist() == ["done", "failed"]
    assert reason in str(data["reason"].values[1])


@pytest.mark.parametrize("code", ["c", "another"])
def test_what_was_under_way_when_killed_is_undone(code, tmp_path):
    """Arrays that were resized or created without an entry in the root metadata are removed."""
    grid, path = Grid({"a": (0, 1)}), tmp_path / "s.zarr"
    made = {"what": "f", "axes": ["a"], "a": [0, 1]}
    row = lambda n: Outcome({"row": (("k",), np.arange(float(n)))}, {}, 1.0)
    with open_store(path, grid, made, "c", changed=False) as store:
        store.put((0,), row(2))
    shutil.copy(path / "zarr.json", tmp_path / "before.json")
    with open_store(path, grid, made, "c", changed=False) as store:
        store.put((1,), Outcome({**row(4).values, "new": ((), np.array(1.0))}, {}, 1.0))
    shutil.copy(tmp_path / "before.json", path / "zarr.json")
    assert dict(xr.open_zarr(path, chunks=None).sizes) == {"a": 2, "k": 2}
    (path / "row" / "c.partial").touch()
    with open_store(path, grid, made, code, changed=True) as store:
        assert dict(xr.open_zarr(path, chunks=None).sizes) == {"a": 2, "k": 2}
        store.put((1,), row(3))
    data = xr.open_zarr(path, chunks=None)
    assert np.array_equal(data["row"], [[0, 1, np.nan], [0, 1, 2]], equal_nan=True)
    assert not list(path.rglob("*.partial"))
    assert set(data) == {"row", "status", "reason", "seconds"}


def test_a_piece_that_fails_has_no_values(tmp_path):
    """A failed piece has no values, even if a killed process had begun to write them."""
    grid, path, made = Grid({"a": (0, 1)}), tmp_path / "s.zarr", {"what": "f", "axes": "a"}
    whole = Outcome({"x": (("k",), np.arange(3.0)), "word": ((), np.array("w", TEXT))})
    with open_store(path, grid, made, "c", changed=False) as store:
        store.put((0,), whole)
        store._write((1,), whole)
    data = xr.open_zarr(path, chunks=None)
    assert data["status"].values.tolist() == ["done", "waiting"]
    assert data["word"].values.tolist() == ["w", "w"]
    with open_store(path, grid, made, "c", changed=False) as store:
        store.put((1,), Outcome(reason="it failed"))
    data = xr.open_zarr(path, chunks=None)
    assert data["status"].values.tolist() == ["done", "failed"]
    assert np.array_equal(data["x"], [[0, 1, 2], [np.nan] * 3], equal_nan=True)
    assert data["word"].values.tolist() == ["w", ""]


def test_another_process_was_quicker_to_make_the_store(tmp_path, monkeypatch):
    grid, made, make = Grid({"a": (0, 1)}), {"what": "f", "axes": ["a"]}, _store._make
    path, codes = tmp_path / "s.zarr", []

    def slowly(*arguments):
        make(*arguments)
        monkeypatch.setattr(_store, "_make", make)
        with open_store(path, grid, made, "c", changed=False) as store:
            codes.append(store.put((0,), Outcome({"y": ((), np.array(1.0))})))

    monkeypatch.setattr(_store, "_make", slowly)
    with open_store(path, grid, made, "c", changed=False) as store:
        assert store.known("status").tolist() == ["done", "waiting"]
    assert codes == [True]
    assert list(tmp_path.iterdir()) == [path]


def test_many_pieces_share_a_file(tmp_path):
    grid = Grid({"a": tuple(range(100)), "b": tuple(range(100)), "s": (0, 1)}, ("s",))
    made = {"what": "f", "axes": ["a"]}
    value = Outcome({"x": ((), np.array([1.0, 2.0]))}, {}, 1.0)
    with open_store(tmp_path / "s.zarr", grid, made, "c", changed=False) as store:
        for index in ((0, 0), (0, 1), (99, 99)):
            store.put(index, value)
    data = xr.open_zarr(tmp_path / "s.zarr", chunks=None)
    assert int((data["status"] == "done").sum()) == 3
    assert float(data["x"].sum()) == 9.0
    assert len([p for p in (tmp_path / "s.zarr" / "x").rglob("*") if p.is_file()]) == 3


@pytest.mark.slow
def test_few_files_also_for_grids_of_many_axes(tmp_path):
    """For 10,000 pieces on four axes, a file holds thousands of statuses or a few values of a
    result.
    """
    grid, path = Grid({name: tuple(range(10)) for name in "abcd"}), tmp_path / "s.zarr"
    files = lambda name: len([p for p in (path / name / "c").rglob("*") if p.is_file()])
    with open_store(path, grid, {"what": "f"}, "c", changed=False) as store:
        store.put((0,) * 4, Outcome({"x": ((), np.array(1.0))}))
        for array in (store._known["status"], store._arrays["x"]):
            array[...] = np.full(array.shape, "done" if array.name == "/status" else 1.0)
    assert files("status") == 2
    assert files("x") == 4000


@pytest.mark.parametrize(
    ("typed", "values"),
    [
        ("2,3,4", (2, 3, 4)),
        ("1:9:5", (1, 3, 5, 7, 9)),
        ("0:1:5", (0, 0.25, 0.5, 0.75, 1)),
        ("1e-2:1:log:3", (1e-2, 1e-1, 1)),
        ("relu, linear", ("relu", "linear")),
        ("1 0.5, 2 1", ((1, 0.5), (2, 1))),
        ("true,false,none", (True, False, "none")),
        ("8:32:log:3", (8.0, 16.0, 32.0)),
        (np.arange(2.0), (0.0, 1.0)),
        (jnp.arange(2.0), (0.0, 1.0)),
        (np.array(3.0), (3.0,)),
        ([(1, 2), (3,)], ((1, 2), (3,))),
        ((k for k in "ab"), ("a", "b")),
        (range(2), (0, 1)),
        (7, (7,)),
    ],
)
def test_values_as_they_are_typed(typed, values):
    assert axis("a", typed) == values
    assert length("a", typed) == (len(values) if hasattr(typed, "__len__") else 1)


def test_a_store_is_no_run_and_says_what_reads_it(tmp_path):
    festina.sweep(functions.labelled, {"a": [1, 2]}, tmp_path / "s.zarr", processes=0)
    with pytest.raises(festina.RunError, match="is the store of a sweep"):
        festina.load(tmp_path / "s.zarr")


def test_values_of_a_range_are_those_that_one_would_type():
    assert axis("a", "0:1:11") == tuple(k / 10 for k in range(11))
    assert axis("a", "2:512:log:9") == tuple(2.0**k for k in range(1, 10))
    for how in ("", "log:"):
        first, *_, last = axis("a", f"0.12345678901234567:1.2345678901234567:{how}3")
        assert (first, last) == (0.12345678901234567, 1.2345678901234567)
        assert axis("a", f"0.12345678901234567:1:{how}1") == (0.12345678901234567,)
