"""What nobody should give, and what is assumed of what people do give."""

import numpy as np
import pytest

import festina
from festina.own.shrinking._widths import widths

torch = pytest.importorskip("torch")
nn = torch.nn

X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))


def mlp(*between):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 6), *between, nn.Tanh(), nn.Linear(6, 2))


class Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = mlp()

    def forward(self, x):
        return self.layers(x) + torch.randn(())


def broken():
    model = mlp()
    model[0].weight.data[0, 0] = float("nan")
    return model


@pytest.mark.parametrize(
    ("model", "x", "words"),
    [
        ("mlp", X, "must be a `torch.nn.Module`"),
        (nn.Linear(3, 2), X, "No hidden layer"),
        (mlp(nn.LayerNorm(6)), X, "No hidden layer"),
        (mlp(), X[:, :2], "does not take these inputs"),
        (mlp(), X[:1], "at least two samples"),
        (mlp(), X / 0, "must be finite"),
        (mlp(), 3, "got int"),
        (mlp(), [], "at least two samples"),
        (Noisy(), X, "other outputs when it is run again"),
        (broken(), X, "not finite"),
    ],
)
def test_clear_words(model, x, words):
    with pytest.raises(ValueError, match=words):
        festina.shrink(model, x)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tolerance": 0.0}, "must be positive"),
        ({"tolerance": float("nan")}, "must be a number"),
        ({"steps": 0}, "whole number"),
        ({"widths": 7}, "only 6 units"),
        ({"widths": [1, 2]}, "one for each hidden layer, '0'"),
        ({"widths": {"1": 2}}, "one for each hidden layer, '0'"),
        ({"apply": len}, "a module of PyTorch calls itself"),
    ],
)
def test_clear_words_about_options(given, words):
    with pytest.raises(ValueError, match=words):
        festina.shrink(mlp(), X, **given)


def test_losses_that_say_nothing():
    y = torch.zeros(40, 2)
    with pytest.raises(ValueError, match="give `y`"):
        widths(mlp(), X, loss=nn.MSELoss())
    with pytest.raises(ValueError, match="one target for each"):
        widths(mlp(), X, y=y[:5], loss=nn.MSELoss())
    with pytest.raises(ValueError, match="The loss is nan"):
        widths(mlp(), X, y=y, loss=lambda outputs, y: (outputs - y).mean() * float("nan"))
    with pytest.raises(ValueError, match="another value"):
        widths(mlp(), X, y=y, loss=lambda outputs, y: outputs.square().mean() * torch.rand(()))


def test_dropout_and_batch_norm_are_judged_in_evaluation_mode_and_stay_in_training():
    model = mlp(nn.BatchNorm1d(6), nn.Dropout(0.5))
    model(X)
    found = festina.shrink(model, X, widths=3, steps=20)
    assert "dropout off and batch norm with its running means" in str(found)
    assert model.training
    assert found.model.training
    assert found.model[1].num_features == len(found.model[1].running_var) == 3
    found.model(X)


def test_frozen_weights_stay_frozen_and_loaders_are_read():
    model = mlp()
    model[0].weight.requires_grad_(False)
    pairs = torch.utils.data.TensorDataset(X, torch.zeros(40))
    ways = [X.numpy(), pairs, torch.utils.data.DataLoader(pairs, batch_size=7)]
    found = [festina.shrink(model, x, widths=4, tune=False) for x in ways]
    assert [each.requires_grad for each in found[0].model.parameters()] == [False, True, True, True]
    assert np.allclose([each.error for each in found], found[0].error)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_precision_is_given_back(dtype):
    found = festina.shrink(mlp().to(dtype), X, widths=4, tune=False)
    assert {each.dtype for each in found.model.parameters()} == {dtype}


def test_a_picture():
    from matplotlib import pyplot as plt

    found = festina.shrink(mlp(), X, widths=2, tune=False)
    ax = found.draw()
    assert ax.get_xlabel() == "hidden units"
    assert len(ax.lines) == 3
    plt.close(ax.figure)
