"""Tests that runs are saved and loaded bit for bit, or that an error says in one line why not."""

import dataclasses
import datetime
import errno
import json
import math
import os
import pickle
import platform
import tempfile
import zlib
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import jax
import numpy as np
import pytest
import xarray as xr
import zarr.codecs
from hypothesis import given, settings
from numpy.typing import ArrayLike

import festina
from festina._run import FORMAT_VERSION, RunError, _manifest, _save, load, save
from helpers import printed, untyped

LINE = festina.tasks.linear_teacher([[1.0, 1.0]])
NAN_WITH_PAYLOAD = np.array([0x7FF8_0000_0000_1234, 0xFFF8_0000_0000_0001], np.uint64).view(float)


def small_run(offset: float = 0.0) -> xr.DataTree:
    """Return a run with a named index, a labelled axis, a scalar and a nested node."""
    simulation = xr.Dataset(
        {
            "loss": (("seed", "time"), np.arange(6.0).reshape(2, 3) + offset, {"units": "days"}),
            "converged": ("seed", np.array([True, False])),
            "rank": ((), 2),
        },
        coords={
            "time": [0.0, 0.5, 1.0],
            "unit": ["u₁", "", "unit three"],
            "scale": ("seed", [1e-3, 1e-2]),
            "network": "ReLU",
        },
        attrs={"loss_convention": "half mean square"},
    )
    theory = xr.Dataset({"loss": ("time", np.array([np.nan, -0.0, np.inf]))})
    return xr.DataTree.from_dict(
        {
            "/": xr.Dataset(attrs={"experiment": "saddles/figure-1g", "parameters": "{}"}),
            "/simulation": simulation,
            "/simulation/final": xr.Dataset({"empty": (("mode", "unit"), np.zeros((0, 3)))}),
            "/theory": theory,
        }
    )


def array(run: xr.DataTree, path: str) -> xr.DataArray:
    found = run[path]
    assert isinstance(found, xr.DataArray)
    return found


def dataset_of(run: xr.DataTree, path: str) -> xr.Dataset:
    found = run[path]
    assert isinstance(found, xr.DataTree)
    return found.to_dataset(inherit=False)


def bits(variable: xr.DataArray) -> tuple:
    """Return everything that makes two variables equal, with NaN payloads and signs of zero."""
    values = variable.values
    content = values.tolist() if values.dtype.kind == "U" else (values.dtype, values.tobytes())
    return variable.dims, values.shape, values.dtype.kind, content, variable.attrs


def assert_same(loaded: xr.DataTree, run: xr.DataTree) -> None:
    assert loaded.groups == run.groups
    for path in run.groups:
        a, b = dataset_of(loaded, path), dataset_of(run, path)
        assert list(a.variables) == list(b.variables)
        assert set(a.coords) == set(b.coords)
        assert set(a.xindexes) == set(b.xindexes)
        for name in b.variables:
            assert bits(a[name]) == bits(b[name])


def sign_again(folder: Path, **changes: object) -> None:
    """Make the manifest match changed files, as a forger or a newer festina would."""
    files = {
        file.relative_to(folder).as_posix(): {
            "bytes": file.stat().st_size,
            "crc32": f"{zlib.crc32(file.read_bytes()):08x}",
        }
        for file in sorted(folder.rglob("*"), key=lambda file: (len(file.parts), file))
        if file.is_file() and file.name != "festina.json"
    }
    manifest = json.loads((folder / "festina.json").read_text()) | {"files": files} | changes
    (folder / "festina.json").write_text(json.dumps(manifest))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return save(small_run(), tmp_path / "run.zarr")


# Saving and loading


def test_a_run_comes_back_bit_for_bit_in_its_order(saved):
    loaded = load(saved)
    assert_same(loaded, small_run())
    assert loaded.attrs["experiment"] == "saddles/figure-1g"
    assert loaded["simulation"].attrs == {"loss_convention": "half mean square"}
    assert array(loaded, "simulation/loss").sel(time=0.5).shape == (2,)


def trained(
    scale: ArrayLike, seeds: int, *, steps: int | None = 3, **options: Any
) -> festina.dynamics.Trajectory:
    """Train two networks; equal shapes in all tests share one compiled program."""
    key = festina.seeds(seeds)
    network = festina.networks.fully_connected(2, 3, scale=scale, key=key)
    return festina.gradient_descent(network, LINE, 0.1, steps, **options)


def test_a_trajectory_or_a_dataset_is_the_simulation_of_a_run(tmp_path):
    trajectory = trained(0.1, 2)
    dataset = trajectory.to_dataset()
    for name, run in {"trajectory": trajectory, "dataset": dataset}.items():
        loaded = load(save(run, tmp_path / name))
        xr.testing.assert_identical(loaded["simulation"].to_dataset(), dataset)


def test_a_sweep_of_scales_has_the_seeds_last(tmp_path):
    scales = np.array([1e-3, 0.5])
    sweep = trained(scales[:, None], 1)
    loaded = dataset_of(load(save(sweep, tmp_path / "run")), "simulation")
    assert loaded["loss"].dims == ("scale", "seed", "save")
    size = np.sqrt((loaded["u"].isel(save=0, seed=0) ** 2).mean(("unit", "input")))
    np.testing.assert_allclose(size / size[0], scales / scales[0], rtol=1e-12)
    renamed = dataset_of(load(save(sweep, tmp_path / "new", dims=("size", "draw"))), "simulation")
    xr.testing.assert_identical(renamed, loaded.rename(scale="size", seed="draw"))
    with pytest.raises(ValueError, match=r"batch axes \(2, 1\), got \('seed',\)"):
        save(sweep, tmp_path / "few", dims=("seed",))
    assert not (tmp_path / "few").exists()


@pytest.mark.parametrize(
    ("shape", "seeds", "names"),
    [
        ((1, 1), 2, ("scale", "seed")),
        ((2, 1, 1), 1, ("scale", "batch_1", "seed")),
        ((1, 2, 1, 1), 1, ("batch_0", "scale", "batch_2", "seed")),
    ],
)
def test_a_batch_of_many_axes_can_be_saved(tmp_path, shape, seeds, names):
    batch = trained(np.full(shape, 0.1), seeds)
    loaded = array(load(save(batch, tmp_path / "run")), "simulation/loss")
    assert loaded.dims == (*names, "save")
    np.testing.assert_array_equal(loaded, batch.loss)


def test_how_a_trajectory_was_made_is_saved_with_it(tmp_path):
    run = trained(0.1, 2, steps=None, max_steps=5, converged=1e-3)
    attributes = load(save(run, tmp_path / "run"))["simulation"].attrs
    assert attributes == run.lane(1).to_dataset().attrs
    expected = {"method": "gradient descent", "learning_rate": 0.1, "loss_convention": "half"}
    expected |= {"converged": 1e-3, "max_steps": 5}
    assert attributes.items() >= expected.items()
    asked = trained(0.1, 2, steps=3).to_dataset().attrs
    assert asked["steps"] == 3
    assert "max_steps" not in asked


def test_what_a_deep_network_is_made_of_is_saved_with_it(tmp_path):
    run = trained(0.1, 2)
    weights = [np.ones((*run.loss.shape, *shape)) for shape in ((3, 2), (3, 3), (1, 3))]
    unit = festina.networks.NeuronUnit("tanh")
    deep = festina.networks.deep_network_from(unit, weights, activations="relu", skips=((1, 2),))
    run = dataclasses.replace(run, weights=lambda which: deep)
    attributes = load(save(run, tmp_path / "run"))["simulation"].attrs
    assert attributes == run.to_dataset().attrs
    assert "tanh" in attributes["unit"]
    assert attributes["activations"] == ["relu"]
    assert attributes["skips"] == [[1, 2]]


def test_axes_that_have_names_are_not_named_again(tmp_path):
    run = small_run()
    for named in (run, dataset_of(run, "simulation"), array(run, "simulation/loss")):
        with pytest.raises(ValueError, match=f"`dims` .* is a {type(named).__name__}"):
            save(untyped(named), tmp_path / "run", dims=("seed",))


TYPES = ["?", "i1", "i8", "u2", "u8", "f2", "f4", "f8", "c8", "c16", "U3"]
NAMES = st.text("abcxyzλ_1", min_size=1, max_size=4)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
ATTRIBUTES = st.dictionaries(st.text(max_size=5), JSON, max_size=2)


@st.composite
def datasets(draw: st.DrawFn) -> xr.Dataset:
    names = draw(st.lists(NAMES, max_size=3, unique_by=str.casefold))
    variables = {}
    for name in names:
        dtype = np.dtype(draw(st.sampled_from(TYPES)))
        # Surrogates are not valid text, and NumPy drops null characters at the end of a string.
        letters = st.text(
            st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=3
        )
        values = draw(hnp.arrays(dtype, SHAPES, elements=letters if dtype.kind == "U" else None))
        dims = [f"{name}-{axis}" for axis in range(values.ndim)]
        variables[name] = xr.Variable(dims, values, draw(ATTRIBUTES))
    dataset = xr.Dataset(variables, attrs=draw(ATTRIBUTES))
    return dataset.set_coords(draw(st.sets(st.sampled_from(names))) if names else [])


@settings(max_examples=25, deadline=None)
@given(st.dictionaries(NAMES.map(str.casefold), datasets(), max_size=3))
def test_any_tree_comes_back_bit_for_bit(nodes):
    run = xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in nodes.items()})
    with tempfile.TemporaryDirectory() as folder:
        loaded = load(save(run, Path(folder) / "run.zarr"))
    assert_same(loaded, run)
    for name in nodes:
        assert loaded[name].attrs == run[name].attrs


@pytest.mark.parametrize(
    "values",
    [
        np.full(3, -0.0),
        np.full(3, complex(-0.0, -0.0)),
        np.zeros(3),
        np.full(3, np.nan),
        NAN_WITH_PAYLOAD,
        np.array([np.nextafter(0.0, 1.0), -np.inf]),
        np.asfortranarray(np.arange(12.0).reshape(3, 4))[::2, ::-1],
    ],
    ids=[
        "negative zeros",
        "complex negative zeros",
        "zeros",
        "NaN",
        "NaN with payload",
        "subnormal",
        "strided",
    ],
)
def test_floats_that_a_store_may_take_for_its_fill_value(values, tmp_path):
    run = xr.DataTree(xr.Dataset({"v": (("a", "b")[: values.ndim], values)}))
    assert bits(array(load(save(run, tmp_path / "r")), "v")) == bits(array(run, "v"))


def test_other_forms_of_text_and_numbers_become_the_usual_ones(tmp_path):
    forms = {
        "objects": np.array(["a", "bcd"], dtype=object),
        "variable": np.array(["a", "bcd"], dtype=np.dtypes.StringDType()),
        "big_endian": np.array([1.0, 2.0], dtype=">f8"),
    }
    run = xr.DataTree(xr.Dataset({name: ("x", values) for name, values in forms.items()}))
    loaded = load(save(run, tmp_path / "r"))
    for name in ("objects", "variable"):
        assert array(loaded, name).dtype == np.dtype("U3")
        assert array(loaded, name).values.tolist() == ["a", "bcd"]
    assert array(loaded, "big_endian").dtype == np.dtype(float)
    assert array(loaded, "big_endian").values.tolist() == [1.0, 2.0]


class Duck:
    """Array-like object that is not a NumPy array, like arrays of JAX."""

    def __array__(self, dtype=None, copy=None):
        return np.arange(2, dtype=dtype)


def test_attributes_come_back_as_plain_python(tmp_path):
    attributes = {
        "integer": np.int32(3),
        "real": np.float32(0.5),
        "truth": np.True_,
        "nothing": None,
        "nan": math.nan,
        "nested": {"inf": [np.inf, -math.inf], "array": np.eye(2), "tuple": (1, "two")},
        "scalar_array": np.array(2.0),
        "empty": np.array([]),
        "duck": Duck(),
    }
    run = xr.DataTree(xr.Dataset({"v": ("x", [1.0], attributes)}, attrs=attributes))
    loaded = load(save(run, tmp_path / "r"))
    for got in (loaded.attrs, loaded["v"].attrs):
        assert math.isnan(got["nan"])
        rest = {key: value for key, value in got.items() if key in attributes and key != "nan"}
        assert rest == {
            "integer": 3,
            "real": 0.5,
            "truth": True,
            "nothing": None,
            "nested": {
                "inf": [math.inf, -math.inf],
                "array": [[1.0, 0.0], [0.0, 1.0]],
                "tuple": [1, "two"],
            },
            "scalar_array": 2.0,
            "empty": [],
            "duck": [0, 1],
        }
        assert type(got["integer"]) is int
        assert type(got["real"]) is float
        assert type(got["truth"]) is bool
    metadata = (tmp_path / "r" / "zarr.json").read_text()
    assert "NaN" not in metadata  # NaN is not valid JSON
    assert "Infinity" not in metadata


def test_attributes_that_mean_something_to_xarray_mean_nothing_here(tmp_path):
    attributes = {"units": "days since 2000-01-01", "dtype": "bool", "scale_factor": 2.0}
    attributes |= {"_FillValue": 1.0, "coordinates": "time"}
    run = xr.DataTree(xr.Dataset({"v": ("time", [1.0, 2.0], attributes)}))
    assert_same(load(save(run, tmp_path / "r")), run)


def test_the_root_is_stamped_in_the_file_and_not_in_the_callers_tree(tmp_path):
    run = small_run()
    run.attrs["format_version"] = 99
    loaded = load(save(run, tmp_path / "r"))
    assert loaded.attrs["format_version"] == FORMAT_VERSION
    assert loaded.attrs["festina_version"] == festina.__version__
    assert run.attrs["format_version"] == 99
    assert "festina_version" not in run.attrs


def test_a_run_says_when_and_with_which_packages_it_was_made(tmp_path):
    run = small_run()
    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    save(run, tmp_path / "a")
    made = load(tmp_path / "a")
    assert before <= datetime.datetime.fromisoformat(made.attrs["date"])
    assert datetime.datetime.fromisoformat(made.attrs["date"]) <= datetime.datetime.now(
        datetime.UTC
    )
    for package in (jax, np, xr):
        assert made.attrs["versions"][package.__name__] == package.__version__
    assert made.attrs["versions"]["python"] == platform.python_version()
    assert "date" not in run.attrs
    made.attrs |= {"date": "2020-01-01T00:00:00+00:00", "versions": {"jax": "0.1"}}
    save(made, tmp_path / "b")  # saving again keeps date and versions
    again = load(tmp_path / "b").attrs
    assert (again["date"], again["versions"]) == ("2020-01-01T00:00:00+00:00", {"jax": "0.1"})


def test_inherited_coordinates_are_stored_once_and_taken_along_with_a_branch(tmp_path):
    time = xr.Dataset(coords={"time": [0.0, 1.0]})
    run = xr.DataTree.from_dict({"/": time, "/a": xr.Dataset({"v": ("time", [1.0, 2.0])})})
    whole = load(save(run, tmp_path / "whole"))
    assert not (tmp_path / "whole" / "a" / "time").exists()
    assert whole["a"]["v"].sel(time=1.0) == 2.0
    assert load(save(run.children["a"], tmp_path / "branch"))["v"].sel(time=1.0) == 2.0


def test_a_loaded_run_is_in_memory_writable_and_can_be_saved_again(saved, tmp_path):
    loaded = load(saved)
    for file in saved.rglob("*"):
        if file.is_file():
            file.unlink()
    array(loaded, "simulation/loss").values[0, 0] = 7.0
    again = load(save(loaded, tmp_path / "again"))
    assert array(again, "simulation/loss").values[0, 0] == 7.0


@pytest.mark.parametrize("dtype", [*TYPES, "i2", "u4", ">f8", np.dtypes.StringDType()])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
def test_what_is_written_is_what_zarr_itself_would_write(dtype, shape, tmp_path):
    values = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    dims = ["first", "second"][: len(shape)]
    path = save(xr.DataTree(xr.Dataset({"v": (dims, values, {"α": [1, None]})})), tmp_path / "r")
    text = values.dtype.kind in "UT"
    zarr.create_array(
        tmp_path / "zarr",
        name="v",
        data=values.astype(np.dtypes.StringDType()) if text else values,
        dimension_names=dims or None,
        attributes={"α": [1, None]},
        chunks=tuple(max(1, n) for n in shape),
        compressors=None,
        serializer="auto" if text else zarr.codecs.BytesCodec(),
        config={"write_empty_chunks": True},
        zarr_format=3,
    )
    names = {f.relative_to(path).as_posix() for f in (path / "v").rglob("*") if f.is_file()}
    theirs = [f for f in (tmp_path / "zarr" / "v").rglob("*") if f.is_file()]
    assert names == {f.relative_to(tmp_path / "zarr").as_posix() for f in theirs}
    for name in names - {"v/zarr.json"}:
        assert (path / name).read_bytes() == (tmp_path / "zarr" / name).read_bytes()
    one, other = (json.loads((p / "v/zarr.json").read_text()) for p in (path, tmp_path / "zarr"))
    # Empty dimension names and empty transformers are optional in the format.
    assert {"storage_transformers": []} | one == {"dimension_names": []} | other


@pytest.mark.filterwarnings("ignore:Object at festina.json is not recognized")
def test_xarray_opens_a_run_by_itself(saved):
    run = small_run()
    del array(run, "simulation/loss").attrs["units"]  # xarray would convert to durations
    save(run, saved, overwrite=True)
    with xr.open_datatree(saved, engine="zarr", consolidated=False) as tree:
        assert set(tree["simulation"].coords) == {"time", "unit", "scale", "network"}
        assert array(tree, "simulation/unit").values.tolist() == ["u₁", "", "unit three"]
        for name in ("simulation/loss", "simulation/converged", "theory/loss"):
            assert bits(array(tree, name)) == bits(array(run, name))


def test_one_file_per_variable_besides_its_metadata_and_the_same_each_time(saved, tmp_path):
    names = [file for file in saved.rglob("*") if file.is_file()]
    assert len(names) == 1 + 4 + 2 * 9 - 1  # manifest, groups, variables (one is empty)
    run = small_run()
    run.attrs["date"] = load(saved).attrs["date"]  # the one thing that changes with the time
    again = save(run, tmp_path / "again")
    for name in names:
        assert name.read_bytes() == (again / name.relative_to(saved)).read_bytes()


def test_saving_needs_no_zarr(tmp_path):
    code = (
        "import sys, numpy as np, xarray as xr; from festina._run import save;"
        f"save(xr.DataTree(xr.Dataset({{'v': ('x', np.ones(3))}})), {str(tmp_path / 'r')!r});"
        "print({'zarr', 'numcodecs'} & set(sys.modules))"
    )
    assert printed(code).strip() == "set()"


def test_importing_the_module_is_cheap():
    code = (
        "import sys; import festina._run;"
        "print({'jax', 'xarray', 'zarr', 'pandas'} & set(sys.modules))"
    )
    assert printed(code).strip() == "set()"


# Atomic saving


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError])
@pytest.mark.parametrize(
    ("owner", "name", "call"),
    # Failures before and after the first file, in the middle, at the manifest, at each renaming.
    [
        (_save, "to_files", 1),
        (_manifest, "_checksum", 1),
        (_manifest, "_checksum", 9),
        (_manifest, "stamp", 1),
        (os, "replace", 1),
        (os, "replace", 2),
    ],
)
@pytest.mark.parametrize("old", [True, False], ids=["over an old run", "afresh"])
def test_a_failure_leaves_what_was_there(monkeypatch, tmp_path, failure, owner, name, call, old):
    path = tmp_path / "run.zarr"
    if old:
        save(small_run(), path)
    original, calls = getattr(owner, name), 0

    def failing(*arguments):
        nonlocal calls
        calls += 1
        if calls == call:
            raise failure("in the middle")
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, failing)
        try:
            save(small_run(offset=1.0), path, overwrite=old)
            failed = False
        except failure:
            failed = True
    assert failed == (calls >= call)
    assert os.listdir(tmp_path) == (["run.zarr"] if old or not failed else [])
    if old or not failed:
        assert_same(load(path), small_run(offset=0.0 if failed else 1.0))


def test_files_are_written_beside_the_target_and_hidden(monkeypatch, tmp_path):
    seen = []
    original = _manifest._checksum
    monkeypatch.setattr(
        _manifest,
        "_checksum",
        lambda content: seen.extend(os.listdir(tmp_path)) or original(content),
    )
    save(small_run(), tmp_path / "run.zarr")
    assert len(set(seen)) == 1
    assert seen[0].startswith(".")
    assert os.listdir(tmp_path) == ["run.zarr"]


def test_the_saved_folder_is_as_readable_as_any_other(saved, tmp_path):
    (tmp_path / "other").mkdir()
    assert saved.stat().st_mode == (tmp_path / "other").stat().st_mode


# Paths of saved runs


def test_parents_are_made_and_the_path_is_returned(tmp_path):
    path = tmp_path / "a" / "b" / "run.zarr"
    assert save(small_run(), str(path)) == path
    assert_same(load(str(path)), small_run())


def test_an_existing_path_is_not_replaced_unless_asked(saved):
    with pytest.raises(FileExistsError, match=r"exists already.*overwrite=True"):
        save(small_run(offset=1.0), saved)
    assert_same(load(saved), small_run())
    save(small_run(offset=1.0), saved, overwrite=True)
    assert_same(load(saved), small_run(offset=1.0))


def test_what_is_not_a_run_is_never_replaced(tmp_path):
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    save(small_run(), thesis, overwrite=True)  # overwriting an empty folder is allowed
    (thesis / "festina.json").rename(thesis / "chapter-1.tex")
    for path in (thesis, thesis / "chapter-1.tex"):
        with pytest.raises(FileExistsError, match="is not a run, so `overwrite=True` does not"):
            save(small_run(), path, overwrite=True)
    assert (thesis / "chapter-1.tex").exists()


def test_a_run_that_appeared_meanwhile_is_kept(monkeypatch, tmp_path):
    path = tmp_path / "run.zarr"
    original = _save.write_files

    def slow(files, folder):
        monkeypatch.setattr(_save, "write_files", original)
        save(small_run(), path)
        original(files, folder)

    monkeypatch.setattr(_save, "write_files", slow)
    with pytest.raises(FileExistsError, match="exists already"):
        save(small_run(offset=1.0), path)
    assert_same(load(path), small_run())
    assert os.listdir(tmp_path) == ["run.zarr"]


def test_a_link_to_a_run_stays_a_link(saved, tmp_path):
    (tmp_path / "latest").symlink_to(saved)
    save(small_run(offset=1.0), tmp_path / "latest", overwrite=True)
    assert (tmp_path / "latest").is_symlink()
    assert_same(load(saved), small_run(offset=1.0))


@pytest.mark.parametrize("code", ["EACCES", "EROFS"])
def test_a_read_only_folder_is_refused_before_any_work(monkeypatch, tmp_path, code):
    # Permissions do not bind root, who may run the tests, so the error is simulated.
    def mkdir(self, *arguments, **options):
        raise OSError(getattr(errno, code), "no", str(self))

    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr(_save, "to_files", lambda run: pytest.fail("worked in vain"))
    with pytest.raises(PermissionError, match=r"^No run can be saved in '.*': .* read-only\."):
        save(small_run(), tmp_path / "run.zarr")


@pytest.mark.parametrize("below", ["run.zarr", "a/run.zarr"])
def test_a_parent_that_is_a_file_is_refused_before_any_work(monkeypatch, tmp_path, below):
    (tmp_path / "file").touch()
    monkeypatch.setattr(_save, "to_files", lambda run: pytest.fail("worked in vain"))
    with pytest.raises(
        NotADirectoryError, match=r"^No run can be saved in '.*': this path is a file"
    ):
        save(small_run(), tmp_path / "file" / below)


# Errors of saving


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        (xr.Dataset({"v": ("x", np.array([{}, None]))}), r"'n/v' has type object.*numbers, bool"),
        (xr.Dataset({"v": ("x", np.array(["2000"], "M8[ns]"))}), r"'n/v' has type datetime64"),
        (xr.Dataset({"v": ("x", np.array([b"bytes"]))}), r"'n/v' has type \|S5"),
        (xr.Dataset({"a\\b": 1.0}), r"'a\\\\b' in node '/n/' cannot be a name.*Rename it"),
        (xr.Dataset({1: ((), 1.0)}), r"1 in node '/n/' cannot be a name"),
        (xr.Dataset({"zarr.json": 1.0}), r"'zarr.json' in node '/n/' cannot be a name"),
        (xr.Dataset({"v": ((2,), [1.0])}), r"2 in node '/n/' cannot be a name"),
        (xr.Dataset(coords={"a b": 1.0}), r"coordinate 'a b' of node '/n/' has a space"),
        (
            xr.Dataset(attrs={"coordinates": ""}),
            r"xarray reserves the attribute 'coordinates' of node '/n/'",
        ),
        (xr.Dataset(attrs={"f": {"g": print}}), r"'g' of 'f' of node '/n/' has type builtin"),
        (
            xr.Dataset(attrs={"f": {1: 2}}),
            r"'f' of node '/n/' have the key 1, but keys must be strings",
        ),
        (xr.Dataset({"v": ((), 1.0, {"c": [1j]})}), r"'c' of 'n/v' has type complex"),
        (xr.Dataset(attrs={"t": np.array(["2000"], "M8[ns]")}), r"has type datetime64"),
    ],
)
def test_what_would_not_come_back_is_refused_by_name(tmp_path, dataset, message):
    with pytest.raises(RunError, match=message) as caught:
        save(xr.DataTree.from_dict({"/n": dataset}), tmp_path / "r")
    assert "\n" not in str(caught.value)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("run", [{"loss": 1.0}, np.ones(3), None, xr.Dataset], ids=str)
def test_what_is_no_run_is_refused(tmp_path, run):
    with pytest.raises(
        TypeError, match=r"DataTree, an xarray\.Dataset or a result of festina, got .*xr\.Dataset"
    ):
        save(run, tmp_path / "r")
    assert not os.listdir(tmp_path)


# Errors of loading


def refused(path: Path) -> str:
    with pytest.raises(RunError) as caught:
        load(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_a_path_without_a_run(saved, tmp_path):
    assert "does not exist" in refused(tmp_path / "nowhere")
    assert "this path is a file" in refused(saved / "zarr.json")
    assert load(tmp_path).identical(load(saved))  # the folder that `festina run` makes
    other = saved.rename(tmp_path / "other.zarr")
    assert f"Did you mean '{other}'?" in refused(tmp_path)
    assert "contains no `festina.json`" in refused(other / "simulation")
    xr.Dataset({"v": 1.0}).to_zarr(tmp_path / "foreign", zarr_format=3, consolidated=False)
    assert "is not a run: it contains no `festina.json`" in refused(tmp_path / "foreign")


def files_of_the_small_run() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = save(small_run(), Path(folder) / "run.zarr")
        return sorted(f.relative_to(path).as_posix() for f in path.rglob("*") if f.is_file())


@pytest.mark.parametrize("name", files_of_the_small_run())
def test_damage_to_any_one_file_is_noticed(saved, name):
    file = saved / name
    content = file.read_bytes()

    for length in {0, len(content) // 2, len(content) - 1}:
        file.write_bytes(content[:length])
        assert "is damaged" in refused(saved)
    if name != "festina.json":
        for position in {0, len(content) // 2, len(content) - 1}:
            flipped = bytearray(content)
            flipped[position] ^= 1
            file.write_bytes(flipped)
            assert f"'{name}' was altered after saving" in refused(saved)
        file.write_bytes(content + b" ")
        assert f"{len(content) + 1} bytes instead of {len(content)}" in refused(saved)
    file.unlink()
    assert ("is not a run" if name == "festina.json" else f"'{name}' is missing") in refused(saved)
    file.write_bytes(content)
    assert_same(load(saved), small_run())


@pytest.mark.parametrize(
    "changes",
    [
        {"format_version": "1"},
        {"format_version": True},
        {"format_version": 0},
        {"files": []},
        {"files": {}},
        {"files": {"zarr.json": 3}},
        {"files": {"zarr.json": {"bytes": 3}}},
    ],
    ids=str,
)
def test_a_manifest_that_makes_no_sense(saved, changes):
    sign_again(saved, **changes)
    assert "is damaged" in refused(saved)


def test_a_newer_format_is_refused_with_the_version_that_wrote_it(saved):
    sign_again(saved, format_version=FORMAT_VERSION + 1, festina_version="7.0.1", files="new")
    message = refused(saved)
    assert "was written by festina 7.0.1 in format 2" in message
    assert "reads only formats up to 1. Upgrade with `pip install --upgrade festina`" in message


def test_what_a_newer_festina_adds_is_loaded(saved):
    metadata = json.loads((saved / "zarr.json").read_text())
    metadata["attributes"] |= {"novelty": {"__tensor__": 1}, "festina_version": "1.9.0"}
    (saved / "zarr.json").write_text(json.dumps(metadata))
    extra = xr.Dataset({"rate": ("mode", [1.0, 2.0])})
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        # xarray compresses arrays and marks coordinates at the variables.
        extra.to_zarr(store, zarr_format=3, consolidated=False)
        store.rename(saved / "spectrum")
    sign_again(saved, festina_version="1.9.0", signature="unknown")
    loaded = load(saved)
    assert loaded.attrs["novelty"] == {"__tensor__": 1}
    assert array(loaded, "spectrum/rate").values.tolist() == [1.0, 2.0]
    assert bits(array(loaded, "theory/loss")) == bits(array(small_run(), "theory/loss"))


def test_stray_files_are_ignored(saved):
    (saved / ".DS_Store").write_bytes(b"x")
    (saved / "simulation" / "loss" / "notes.txt").write_text("seen")
    assert_same(load(saved), small_run())


# Loading executes nothing


class Bomb:
    def __init__(self, crater: Path):
        self.crater = crater

    def __reduce__(self):
        return os.mkdir, (str(self.crater),)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data_type": "object"}, r"'theory/loss' has type 'object', and only numbers"),
        ({"data_type": {"name": "null_terminated_bytes"}}, r"has type 'null_terminated_bytes'"),
        ({"codecs": [{"name": "numcodecs.pickle"}]}, r"'theory/loss' is stored with numcodecs"),
        ({"storage_transformers": [{"name": "x"}]}, r"'theory/loss' is stored with bytes"),
        ({"data_type": ["float64"]}, r"cannot be read"),
        ({"node_type": "program"}, r"cannot be read"),
        ({"dimension_names": None}, r"cannot be read"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_forged_run_is_refused_and_not_executed(saved, tmp_path, changes, message):
    bomb = pickle.dumps(Bomb(tmp_path / "crater"))
    loss = saved / "theory" / "loss"
    (loss / "c" / "0").write_bytes(bomb)
    metadata = json.loads((loss / "zarr.json").read_text()) | changes
    (loss / "zarr.json").write_text(json.dumps(metadata))
    sign_again(saved)
    with pytest.raises(RunError, match=message):
        load(saved)
    assert not (tmp_path / "crater").exists()
    pickle.loads(bomb)
    assert (tmp_path / "crater").exists()  # the pickle does execute code


def test_an_array_of_the_old_format_is_not_even_seen(saved, tmp_path):
    # Version 2 of the Zarr format has a pickle filter.
    old = saved / "old"
    old.mkdir()
    filters = [{"id": "pickle", "protocol": 5}]
    metadata = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "filters": filters}
    metadata |= {"compressor": None, "fill_value": None, "order": "C"}
    (old / ".zarray").write_text(json.dumps(metadata))
    (old / "0").write_bytes(pickle.dumps(Bomb(tmp_path / "crater")))
    sign_again(saved)
    assert "old" not in load(saved)
    assert not (tmp_path / "crater").exists()


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../zarr.json"])
def test_a_manifest_cannot_point_outside(saved, tmp_path, name):
    (tmp_path / "secret").touch()
    manifest = json.loads((saved / "festina.json").read_text())
    manifest["files"][name] = {"bytes": 0, "crc32": "00000000"}
    (saved / "festina.json").write_text(json.dumps(manifest))
    assert f"'{name}' is missing" in refused(saved)
