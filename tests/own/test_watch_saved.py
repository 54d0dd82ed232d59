"""Test saved watches and tables of losses: values are restored, and no code is executed."""

import pickle
import types

import jax.numpy as jnp
import numpy as np
import pytest

import festina
from festina.own._files import read_losses

torch = pytest.importorskip("torch")


def trained(model, steps=30):
    torch.manual_seed(1)
    x, y = torch.randn(20, 3), torch.randn(20, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    watch = festina.watch(model, optimizer, epoch=100)
    for _ in range(steps):
        loss = torch.nn.functional.mse_loss(model(x), y)
        watch.log(loss)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return watch


def mlp():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))


@pytest.fixture
def seen():
    return trained(mlp())


def same(one, other):
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def check(seen, other):
    assert np.array_equal(other.curve, seen.curve)
    assert other.epoch == 100
    assert list(other.steps_with_weights) == list(seen.steps_with_weights)
    for step in (0, 7, 30):
        assert same(other.network(step), seen.network(step))
    assert str(other.stairs()) == str(seen.stairs())


def test_a_saved_watch_comes_back(seen, tmp_path):
    seen.save(tmp_path / "run.zarr")
    check(seen, festina.own.read_watch(tmp_path / "run.zarr", mlp()))
    alone = festina.own.read_watch(tmp_path / "run.zarr")
    assert alone.steps_with_weights == []
    assert str(alone.plateaus()) == str(seen.plateaus())
    norms = festina.load(tmp_path / "run.zarr")["gradient_norm/gradient_norm"].to_numpy()
    assert np.array_equal(norms, seen.gradient_norm[1])
    with pytest.raises(ValueError, match="is of another model: it lacks 'bias'"):
        festina.own.read_watch(tmp_path / "run.zarr", torch.nn.Linear(3, 4))
    wrong = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
    with pytest.raises(ValueError, match=r"'0.weight' has shape \(4, 3\) there and \(5, 3\) in"):
        festina.own.read_watch(tmp_path / "run.zarr", wrong)


def test_weights_in_short_precision_come_back(tmp_path):
    networks = [{"w": jnp.full(3, k / 3, jnp.bfloat16)} for k in range(4)]
    festina.own.from_checkpoints(networks, [4.0, 3.0, 2.0, 1.0]).save(tmp_path / "run.zarr")
    other = festina.own.read_watch(tmp_path / "run.zarr", networks[0]).network(2)
    assert other["w"].dtype == jnp.bfloat16
    assert np.array_equal(other["w"], networks[2]["w"])


def test_a_pickled_watch_comes_back_closed(seen):
    other = pickle.loads(pickle.dumps(seen))
    check(seen, other)
    other.log(1.0)
    assert len(other.curve[0]) == 30
    seen.log(1.0)  # the original watch still records
    assert len(seen.curve[0]) == 31


def test_a_model_that_cannot_be_pickled_is_named_in_one_line():
    model = mlp()
    model.helper = lambda x: x
    with pytest.raises(TypeError, match=r"because its model cannot be: .*`watch.save\(path\)`"):
        pickle.dumps(trained(model, 2))


def test_other_folders_are_no_runs(tmp_path):
    import xarray as xr

    festina.save(xr.Dataset({"a": ("b", [1.0])}), tmp_path / "other.zarr")
    with pytest.raises(ValueError, match=r"holds no run that `watch\.save` saved"):
        festina.own.read_watch(tmp_path / "other.zarr")


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        ("abc", "got str 'abc'"),
        (None, "got NoneType"),
        (1j, "got complex"),
        (True, "got bool"),
        ([1.0], "got list"),
        (np.zeros(2), r"got shape \(2,\): log its mean"),
        (torch.tensor(1j), "got the type torch.complex64"),
        (torch.tensor(True), "got the type torch.bool"),
        (types.SimpleNamespace(loss=1.0), "got SimpleNamespace: log its `.loss`"),
    ],
)
def test_losses_that_are_no_number(loss, words, seen):
    with pytest.raises(ValueError, match=words):
        seen.log(loss)
    assert len(seen.curve[0]) == 30


@pytest.mark.parametrize("loss", [2, 2.0, np.float32(2), np.array([2.0]), torch.tensor([2])])
def test_losses_of_any_library(loss, seen):
    seen.log(loss)
    assert seen.curve[1][-1] == 2.0


TABLES = {
    "1.5\n2.5\n": ([0, 1], [1.5, 2.5]),
    "10,1.5\n20,2.5\n": ([10, 20], [1.5, 2.5]),
    "step,loss\n10,1.5\n20,2.5\n": ([10, 20], [1.5, 2.5]),
    "epoch;step;train_loss;val_loss\n0;10;1.5;\n0;15;;9\n0;20;2.5;\n": ([10, 20], [1.5, 2.5]),
    "Wall time,Step,Value\n0.1,10,1.5\n0.2,20,nan\n": ([10, 20], [1.5, np.nan]),
}


@pytest.mark.parametrize("text", TABLES)
def test_tables(text, tmp_path):
    (tmp_path / "losses.csv").write_text(text)
    steps, losses = read_losses(tmp_path / "losses.csv")
    assert steps == TABLES[text][0]
    assert np.array_equal(losses, TABLES[text][1], equal_nan=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("step,loss\n", "has no losses"),
        ("step,loss\n1,abc\n", "got 'abc' in line 2"),
        ("1,2,3\n", "3 columns without names"),
        ("step,a,b\n1,2,3\n", "one column of losses, got 'step', 'a', 'b'"),
        ("epoch,step,loss\n0,0,3\n0,99,2\n1,0,1\n", "got 0 after 99 of 'step' in line 4"),
        ("epoch,loss\n0,3\n0,2\n", "got 0 after 0 of 'epoch' in line 3"),
        ("5,3\n4,2\n", "got 4 after 5 in line 2"),
    ],
)
def test_bad_tables(text, words, tmp_path):
    (tmp_path / "losses.csv").write_text(text)
    with pytest.raises(ValueError, match=words):
        read_losses(tmp_path / "losses.csv")


def test_gradients_are_looked_at_less_often_as_a_run_goes_on():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    model(torch.ones(1, 2)).sum().backward()
    watches = [festina.watch(model, optimizer, every=every) for every in (None, 1)]
    for _ in range(1000):
        optimizer.step()
    sparse, dense = (watch.gradient_norm[0] for watch in watches)
    assert len(dense) == 1000
    assert sparse[:128].tolist() == list(range(128))
    assert len(sparse) < 450
    assert np.all(np.diff(sparse) <= 1 + sparse[:-1] / 128)
