"""Test invalid input of `shrink` and `effective_width`, and defaults for incomplete input."""

import numpy as np
import pytest

import festina
from festina._narrowing._samples import arrays
from festina.diagnose import effective_width

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
        (mlp(nn.LayerNorm(6)), X, "No hidden layer.*normalised over units"),
        (mlp(nn.GroupNorm(2, 6)), X, "No hidden layer.*normalised over units"),
        (mlp(), X[:, :2], "does not take these inputs"),
        (mlp(), X[:1], "at least two samples"),
        (mlp(), X / 0, "not finite"),
        (mlp(), 3, "got int"),
        (mlp(), (each for each in X), "got generator"),
        (mlp(), [], "at least two samples"),
        (mlp(), (X, X[:, :2]), "give `x` without targets"),
        (mlp(), {"x": X}, "does not take these inputs"),
        (Noisy(), X, "other outputs when it is run again"),
        (broken(), X, "not finite"),
    ],
)
def test_clear_words(model, x, words):
    with pytest.raises(ValueError, match=words):
        festina.shrink(model, x)


@pytest.mark.parametrize("look", [festina.shrink, effective_width])
@pytest.mark.parametrize("x", [None, (X, None), {"x": X, "mask": (None,)}, (), {}])
def test_inputs_that_are_not_there(look, x):
    words = "arrays, one row for each sample, got (NoneType|tuple|dict)"
    with pytest.raises(ValueError, match=words):
        look(mlp(), x)
    with pytest.raises(ValueError, match=words):
        arrays(x)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tolerance": 0.0}, "must be positive"),
        ({"tolerance": float("nan")}, "must be a number"),
        ({"steps": 0}, "whole number"),
        ({"widths": 7}, "only 6 units"),
        ({"widths": [1, 2]}, "one number for each hidden layer, '0'"),
        ({"widths": {"1": 2}}, "one number for each hidden layer, '0'"),
        ({"apply": len}, "got a PyTorch module, which is called itself"),
    ],
)
def test_clear_words_about_options(given, words):
    with pytest.raises(ValueError, match=words):
        festina.shrink(mlp(), X, **given)


def test_models_that_do_not_run_as_they_are_given():
    mixed = mlp()
    mixed[0].double()
    with pytest.raises(ValueError, match="`model` does not take these inputs"):
        festina.shrink(mixed, X, widths=2)
    weights = {"first": np.ones((3, 2)), "second": []}
    with pytest.raises(ValueError, match="`model` does not take these inputs"):
        festina.shrink(weights, X.numpy(), apply=lambda w, x: x @ w["first"].T @ w["second"].T)


def test_losses_that_say_nothing():
    y = torch.zeros(40, 2)
    with pytest.raises(ValueError, match="give `y`"):
        effective_width(mlp(), X, loss=nn.MSELoss())
    with pytest.raises(ValueError, match="40 inputs and 5 targets"):
        effective_width(mlp(), X, y=y[:5], loss=nn.MSELoss())
    with pytest.raises(ValueError, match="`loss` failed for these outputs and targets"):
        effective_width(
            mlp(), X, y=torch.zeros(40, 3), loss=lambda outputs, y: (outputs - y).mean()
        )
    with pytest.raises(ValueError, match="leave `y` out"):
        effective_width(mlp(), torch.utils.data.TensorDataset(X, y), y=y, loss=nn.MSELoss())
    with pytest.raises(ValueError, match="The loss must be finite, got nan"):
        effective_width(mlp(), X, y=y, loss=lambda outputs, y: (outputs - y).mean() * float("nan"))
    with pytest.raises(ValueError, match="same value for the same arguments"):
        effective_width(
            mlp(), X, y=y, loss=lambda outputs, y: outputs.square().mean() * torch.rand(())
        )


def test_dropout_and_batch_norm_are_judged_in_evaluation_mode_and_stay_in_training():
    model = mlp(nn.BatchNorm1d(6), nn.Dropout(0.5))
    model(X)
    found = festina.shrink(model, X, widths=3, steps=20)
    assert "dropout off and batch norm with its running means" in str(found)
    assert model.training
    assert found.model.training
    assert found.model[1].num_features == len(found.model[1].running_var) == 3
    found.model(X)


@pytest.mark.parametrize("norm", [nn.LayerNorm(6), nn.GroupNorm(2, 6), nn.RMSNorm(6)], ids=str)
def test_units_that_are_normalised_together_are_left_alone(norm):
    """Only the layer behind the normalised units is narrowed; outputs stay the same."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 6), norm, nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2))
    with torch.no_grad():
        for each in (model[2].weight, model[2].bias):
            each[4:] = each[:4]  # every unit is doubled
    found = festina.shrink(model, X, form="narrow", tolerance=1e-3, tune=False)
    assert found.widths == {"2": 4}
    assert torch.equal(found.model[0].weight, model[0].weight)
    assert torch.allclose(found.model(X), model(X), atol=1e-4)
    assert "units before a normalisation over units are not merged" in found.notes


@pytest.mark.parametrize("zero", ["weights", "inputs"])
@pytest.mark.parametrize("look", [festina.shrink, effective_width])
def test_outputs_that_never_change_need_one_unit_at_most_and_no_warning(look, zero):
    """Constant outputs must not give a warning; warnings are errors in tests."""
    model = mlp()
    if zero == "weights":
        for each in model.parameters():
            each.data.zero_()
    inputs = X if zero == "weights" else torch.full_like(X, 0.3)
    found = look(model, inputs)
    if look is effective_width:
        assert found.layers[0][2] <= 1
        return
    assert found.widths == {"0": 1}
    assert torch.allclose(found.model(inputs), model(inputs), atol=1e-6)
    assert "the outputs are constant on these inputs" in str(found)


def test_frozen_weights_stay_frozen_and_loaders_are_read():
    model = mlp()
    model[0].weight.requires_grad_(False)
    pairs = torch.utils.data.TensorDataset(X, torch.zeros(40))
    ways = [X.numpy(), pairs, torch.utils.data.DataLoader(pairs, batch_size=7)]
    found = [festina.shrink(model, x, widths=4, tune=False) for x in ways]
    assert [each.requires_grad for each in found[0].model.parameters()] == [False, True, True, True]
    assert np.allclose([each.error * each.scale for each in found], found[0].error * found[0].scale)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize(
    "data", [pytest.param(torch.float32, marks=pytest.mark.slow), torch.float64]
)
def test_precision_is_given_back_and_the_error_is_that_of_it(dtype, data):
    model = mlp().to(dtype)
    found = festina.shrink(model, X.to(data), widths=5, tune=False)
    assert {each.dtype for each in found.model.parameters()} == {dtype}
    held = arrays(X, place=torch.as_tensor).x[::5].to(dtype)
    y = model(X.to(dtype)).detach()
    apart = (model(held) - found.model(held)).double().square().sum(1).mean().sqrt()
    scale = (y - y.mean(0)).double().square().sum(1).mean().sqrt()
    assert found.error == pytest.approx(apart.item() / scale.item(), rel=0.01)
    assert effective_width(model, X.to(data), y=y + 1, loss=nn.MSELoss()).loss == pytest.approx(
        1, rel=0.02
    )


class Jitter(nn.Module):
    """A model whose outputs vary by rounding, like sums of random order on an accelerator."""

    def __init__(self):
        super().__init__()
        self.layers = mlp()

    def forward(self, x):
        return self.layers(x) * (1 + 1e-9 * torch.randn((), dtype=torch.double))


def test_rounding_that_is_another_each_time_is_no_randomness():
    jitter = lambda: 1 + 1e-9 * torch.rand((), dtype=torch.double)
    loss = lambda outputs, y: nn.functional.mse_loss(outputs, y) * jitter()
    found = effective_width(Jitter(), X, y=torch.zeros(40, 2), loss=loss)
    assert found.layers[0][:2] == ("layers.0", 6)


def test_wrappers_are_taken_off():
    model = mlp()
    both = (nn.DataParallel(model), model)
    found, same = (festina.shrink(each, X, widths=3, tune=False).model for each in both)
    assert type(found) is nn.Sequential
    assert torch.equal(found[0].weight, same[0].weight)


class Named(nn.Module):
    """A model with named arguments and outputs in a dictionary, as in transformers."""

    def __init__(self):
        super().__init__()
        self.layers = mlp()

    def forward(self, inputs, scale):
        return {"loss": None, "logits": scale * self.layers(inputs)}


def test_batches_may_be_dicts():
    rows = [{"inputs": x, "scale": torch.tensor([2.0]), "labels": 1} for x in X]
    loader = torch.utils.data.DataLoader(rows, batch_size=7)
    found = effective_width(Named(), loader, loss=nn.functional.cross_entropy)
    logits = Named()(X, 2.0)["logits"]
    expected = nn.functional.cross_entropy(logits, torch.ones(40, dtype=torch.long)).item()
    assert found.loss == pytest.approx(expected, rel=1e-5)


def test_two_batches_are_no_inputs_and_targets():
    batch = {"inputs": X, "scale": torch.ones(40, 1), "labels": torch.ones(40, dtype=torch.long)}
    message = (
        r"two dicts with the same names \['inputs', 'scale', 'labels'\]: they look like two batches"
    )
    with pytest.raises(ValueError, match=message):
        effective_width(Named(), batch, y=batch)
    model = Named()
    rule = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match=message):
        festina.forecast(model, nn.functional.cross_entropy, rule, [batch, batch])


def test_classes_may_have_weights_in_single_precision():
    labels = (X[:, 0] > 0).long()
    loss = nn.CrossEntropyLoss(weight=torch.tensor([0.2, 0.8]))
    found = effective_width(mlp(), X, y=labels, loss=loss)
    assert found.loss == pytest.approx(loss(mlp()(X), labels).item(), rel=1e-5)


def test_a_picture():
    from matplotlib import pyplot as plt

    found = festina.shrink(mlp(), X, widths=2, tune=False)
    ax = found.draw()
    assert ax.get_xlabel() == "hidden units"
    assert len(ax.lines) == 3
    plt.close("all")


def test_what_is_said_of_layers_widths_and_progress():
    told = list[tuple[str, float]]()
    shrunk = festina.shrink(mlp(), X, steps=20, progress=lambda *each: told.append(each))
    assert str(shrunk).startswith("layer 0: 6 →")
    assert told
    assert all(words and 0.0 <= done <= 1.0 for words, done in told)
    alone = effective_width(mlp(), X, steps=20)
    assert f"layer 0: {alone.widths[0]} of 6 units" in str(alone)
    assert "without targets" in str(alone)
    assert "without targets" not in str(effective_width(mlp(), X, y=X[:, :2], steps=20))
