"""Test weights in files: they are loaded by name, and no code in the file is executed."""

import pickle
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import festina
from festina.own import named_weights, read_checkpoint, save_weights, with_weights
from festina.own._files import read_data
from helpers import untyped

torch = pytest.importorskip("torch")


def module(width=3):
    return torch.nn.Sequential(
        torch.nn.Linear(2, width), torch.nn.Tanh(), torch.nn.Linear(width, 1)
    )


def tree(seed=0):
    first, second = jax.random.split(jax.random.key(seed))
    return {"layers": [jax.random.normal(first, (3, 2)), jax.random.normal(second, (1, 3))]}


def same(model, other):
    mine, its = named_weights(model), named_weights(other)
    return mine.keys() == its.keys() and all(
        np.array_equal(np.asarray(mine[name]), np.asarray(its[name])) for name in mine
    )


@pytest.mark.parametrize("suffix", [".pt", ".safetensors", ".npz"])
@pytest.mark.parametrize("make", [module, tree])
def test_weights_come_back(make, suffix, tmp_path):
    if suffix == ".safetensors":
        pytest.importorskip("safetensors")
    model, file = make(), tmp_path / f"run-2-step-0400{suffix}"
    save_weights(file, model)
    found = read_checkpoint(file)
    assert (found.step, found.loss) == (400, None)
    other = tree(1) if make is tree else module()
    assert not same(model, other)
    assert same(with_weights(other, found.weights), model)
    assert not same(model, other)  # weights were loaded into a copy


def test_an_equinox_module_is_a_tree():
    equinox = pytest.importorskip("equinox")
    one, two = (equinox.nn.MLP(2, 1, 4, 1, key=jax.random.key(k)) for k in (0, 1))
    names = named_weights(one)
    assert "layers.0.weight" in names
    x = jnp.ones(2)
    assert with_weights(two, names)(x) == one(x)


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model"])
@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod."])
def test_a_checkpoint_of_training_says_when_and_how_well(key, prefix, tmp_path):
    model = module()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    weights = {prefix + name: each for name, each in model.state_dict().items()}
    saved = {key: weights, "optimizer": optimizer.state_dict(), "global_step": 30}
    torch.save(saved | {"loss": torch.tensor(0.25)}, tmp_path / "last.ckpt")
    found = read_checkpoint(tmp_path / "last.ckpt")
    assert (found.step, found.loss) == (30, 0.25)
    assert same(with_weights(module(), found.weights), model)
    assert found.optimizer is not None
    assert found.optimizer["state"].keys() == optimizer.state_dict()["state"].keys()


class Trap:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (Path(self.path),)


@pytest.mark.parametrize("kind", ["module", "trap", "npz"])
def test_what_would_be_executed_is_refused(kind, tmp_path):
    sprung, file = tmp_path / "sprung", tmp_path / ("a.npz" if kind == "npz" else "a.pt")
    if kind == "npz":
        np.savez(file, x=np.array([Trap(sprung)], dtype=object))
    else:
        torch.save(module() if kind == "module" else {"weights": Trap(sprung)}, file)
    with pytest.raises(
        ValueError, match=r"holds other objects than weights.*model\.state_dict\(\)"
    ):
        read_checkpoint(file)
    assert not sprung.exists()


def test_bad_files(tmp_path):
    def complaint(name, content=b""):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=name) as error:
            read_checkpoint(tmp_path / name)
        return str(error.value)

    assert "must end in one of .pt, " in complaint("a.h5")
    for name in ("a.npz", "a.safetensors"):
        assert "cannot be read as ." in complaint(name, b"nothing of the kind")
    assert "holds other objects than weights" in complaint("b.pt", pickle.dumps(Trap("never")))
    torch.save({"notes": "none", "epoch": 3}, tmp_path / "c.pt")
    with pytest.raises(ValueError, match=r"under one of state_dict, .*it holds 'notes', 'epoch'"):
        read_checkpoint(tmp_path / "c.pt")
    with pytest.raises(ValueError, match="There is no file"):
        read_checkpoint(tmp_path / "nothing.pt")
    np.savez(tmp_path / "d.npz", inputs=np.ones(3))
    with pytest.raises(ValueError, match="inputs 'x' and targets 'y', it holds 'inputs'"):
        read_data(tmp_path / "d.npz")


def test_weights_of_another_model_are_named():
    given = named_weights(module(5))
    with pytest.raises(ValueError, match=r"of another model: '0.weight' has shape \(5, 2\) there"):
        with_weights(module(), given)
    given = {"fc1.weight": torch.ones(3, 2)}
    with pytest.raises(ValueError, match=r"lacks '0.bias' and it has 'fc1.weight', which"):
        with_weights(module(), given)
    with pytest.raises(ValueError, match=r"lacks '0.bias'\.$"):
        with_weights(module(), {"0.weight": torch.ones(3, 2)})


@pytest.mark.parametrize("suffix", [".pt", ".safetensors", ".npz"])
@pytest.mark.parametrize("short", [module().bfloat16(), {"w": jnp.ones(3, jnp.bfloat16) / 3}])
def test_short_numbers_come_back(short, suffix, tmp_path):
    save_weights(tmp_path / f"a{suffix}", short)
    weights = read_checkpoint(tmp_path / f"a{suffix}").weights
    zeros = {name: each * 0 for name, each in named_weights(short).items()}
    model = zeros if isinstance(short, dict) else module().bfloat16()
    found, right = (named_weights(each) for each in (with_weights(model, weights), short))
    for name, each in right.items():
        assert found[name].dtype == each.dtype
        assert bool((found[name] == each).all())


def test_arrays_of_numpy_stay_arrays_of_numpy_in_their_precision(tmp_path):
    model = {"file": np.array([1 / 3]), "count": np.array([2**40]), "swapped": np.ones(2, ">f8")}
    for suffix in (".pt", ".npz"):
        save_weights(tmp_path / f"a{suffix}", model)
        weights = read_checkpoint(tmp_path / f"a{suffix}").weights
        found = with_weights({name: 0 * each for name, each in model.items()}, weights)
        for name, each in model.items():
            assert type(found[name]) is np.ndarray
            np.testing.assert_array_equal(found[name], each)


BAD_WEIGHTS = {
    "'w' has type float64, and the model's type int": (np.ones(2, int), np.array([0.5, 1.0])),
    "'w' has type complex128": (np.ones(2), np.array([1.0, 1j])),
    "float32 cannot hold": (np.ones(2, "f4"), np.array([1.0, 1e40])),
    "`weights` has masked values in 'w'": (np.ones(2), np.ma.array([1.0, 2.0], mask=[False, True])),
    "`weights` has objects in 'w'": (np.ones(2), np.array([1.0, 2.0], dtype=object)),
    "`weights` must hold arrays, 'w' is a list": (np.ones(2), [1.0, 2.0]),
    "`model` has objects in 'w'": (np.array([1.0, 2.0], dtype=object), np.ones(2)),
}


@pytest.mark.parametrize("words", BAD_WEIGHTS)
def test_numbers_that_a_model_does_not_hold_are_refused(words):
    have, given = BAD_WEIGHTS[words]
    with pytest.raises(ValueError, match=words):
        with_weights({"w": have}, {"w": given})


def test_two_arrays_of_one_name_are_refused():
    with pytest.raises(ValueError, match=r"two arrays called 'a\.b'"):
        named_weights({"a.b": np.ones(2), "a": {"b": np.zeros(2)}})


def test_bad_paths_models_and_steps(tmp_path, as_a_user):
    with pytest.raises(ValueError, match="`path` must be the name of a file, got NoneType"):
        read_checkpoint(untyped(None))
    with pytest.raises(ValueError, match="`model` is a dict without arrays"):
        save_weights(tmp_path / "a.npz", {})
    with pytest.raises(ValueError, match="`weights` must be a dict of arrays"):
        with_weights({"w": np.ones(2)}, untyped(None))
    torch.save({"model": {"w": torch.ones(1)}, "step": float("nan")}, tmp_path / "a.pt")
    assert read_checkpoint(tmp_path / "a.pt").step is None


@pytest.mark.parametrize("suffix", [".pt", ".safetensors", ".npz"])
def test_counts_of_a_normalisation_come_back_as_the_one_number_they_are(suffix, tmp_path):
    if suffix == ".safetensors":
        pytest.importorskip("safetensors")
    model = torch.nn.Sequential(*module()[:1], torch.nn.BatchNorm1d(3))
    model(torch.ones(2, 2))
    save_weights(tmp_path / f"a{suffix}", model)
    found = with_weights(model, read_checkpoint(tmp_path / f"a{suffix}").weights)
    assert found[1].num_batches_tracked == 1


def test_pytorch_that_is_missing_is_named(monkeypatch, tmp_path):
    (tmp_path / "a.pt").touch()
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ValueError, match=r"not installed: pip install 'festina\[torch\]'"):
        read_checkpoint(tmp_path / "a.pt")


def course(steps=1200, rate=0.1):
    """Train a linear network in JAX on two directions that are learned one after the other."""
    targets = jnp.diag(jnp.array([3.0, 0.6]))

    def loss(model, x, y):
        first, second = model["layers"]
        return jnp.sum((second @ first - targets) ** 2) / 2

    first, second = jax.random.split(jax.random.key(0))
    model = {"layers": [jax.random.normal(k, (2, 2)) * 1e-3 for k in (first, second)]}

    @jax.jit
    def step(model):
        value, gradient = jax.value_and_grad(loss)(model, None, None)
        return jax.tree.map(lambda w, g: w - rate * g, model, gradient), value

    models, losses = [], []
    for _ in range(steps // 4):
        models.append(model)
        for _ in range(4):
            model, value = step(model)
            losses.append(float(value))
    return models, losses


def test_a_run_in_jax_from_its_checkpoints():
    models, losses = course()
    run = festina.own.from_checkpoints(models, losses, at=range(0, 1200, 4))
    product = lambda model, x: x @ model["layers"][0].T @ model["layers"][1].T
    stairs = run.stairs(np.eye(2), apply=product)
    assert [stair.layers for stair in stairs] == [(("['layers'][0]", 2, k),) for k in (1, 1, 2)]
    assert stairs[1].level == pytest.approx(0.18, rel=1e-2)
    assert stairs[1].confirmed is None
    assert all(stair.step is not None and stair.step % 4 == 0 for stair in stairs)
    shuffled = np.random.default_rng(0).permutation(1200)
    again = festina.own.from_checkpoints(
        [0], np.array(losses)[shuffled], steps=shuffled, at=[3], read=lambda _: models[3]
    )
    np.testing.assert_array_equal(again.curve[1], run.curve[1])
    assert again.network(3) is models[3]


def test_checkpoints_may_lie_between_whole_steps():
    run = festina.own.from_checkpoints(["early", "late"], [1.0, 0.5], steps=[0.25, 0.75])
    assert run.steps_with_weights == [0.25, 0.75]
    assert run.network(0.75) == "late"


def test_checkpoints_that_do_not_fit(as_a_user):
    with pytest.raises(ValueError, match="There are 1 checkpoints and 2 steps at which"):
        festina.own.from_checkpoints([0], [1.0, 0.5])
    with pytest.raises(ValueError, match=r"`losses` has shape \(2,\) and `steps` \(3,\)"):
        festina.own.from_checkpoints([0, 1], [1.0, 0.5], steps=[0, 1, 2])
    with pytest.raises(ValueError, match="`at` has the step 0 more than once"):
        festina.own.from_checkpoints([0, 1], [1.0, 0.5], at=[0, 0])
    with pytest.raises(ValueError, match="`steps` has the step 1 more than once, expected one los"):
        festina.own.from_checkpoints([0], [3.0, 2.0, 1.0], at=[0], steps=[0, 1, 1])
    with pytest.raises(ValueError, match="`steps` must be finite, got nan"):
        festina.own.from_checkpoints([0, 1], [1.0, 0.5], steps=[0, np.nan])
    with pytest.raises(ValueError, match="`checkpoints` must be a list of networks, got dict"):
        festina.own.from_checkpoints(untyped({0: "a", 1: "b"}), [1.0, 0.5])
    with pytest.raises(ValueError, match="`read` must be a function"):
        festina.own.from_checkpoints([0, 1], [1.0, 0.5], read=untyped(True))
    with pytest.raises(ValueError, match="one or more steps"):
        festina.own.from_checkpoints([], [])
    with pytest.raises(ValueError, match="no checkpoint of step 7"):
        festina.own.from_checkpoints([0, 1], [1.0, 0.5]).network(7)
