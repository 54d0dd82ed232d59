"""Test effective widths of PyTorch models: planted saddles are found, moving networks rejected."""

import itertools
import os

import numpy as np
import pytest

from festina.diagnose import effective_width

torch = pytest.importorskip("torch")
nn = torch.nn


def half(outputs, targets):
    return 0.5 * (outputs - targets).square().sum(-1).mean()


def rested(model, x, y, loss, steps=300):
    """Train until the network rests."""
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=steps, line_search_fn="strong_wolfe", tolerance_change=1e-14
    )

    def closure():
        optimizer.zero_grad()
        value = loss(model(x), y)
        value.backward()
        return value

    optimizer.step(closure)
    return model


def mlp(*sizes, activation=nn.Tanh):
    layers = []
    for wide, next_wide in itertools.pairwise(sizes):
        layers += [nn.Linear(wide, next_wide), activation()]
    return nn.Sequential(*layers[:-1]).double()


def widened(narrow, copies, activation=nn.Tanh):
    """Return the same function with several copies of every hidden unit."""
    shapes = [layer.weight.shape for layer in narrow[::2]]
    hidden = [shape[0] * copies for shape in shapes[:-1]]
    wide = mlp(shapes[0][1], *hidden, shapes[-1][0], activation=activation)
    last = len(shapes) - 1
    for at, (few, many) in enumerate(zip(narrow[::2], wide[::2], strict=True)):
        rows, columns = (1 if at == last else copies), (1 if at == 0 else copies)
        many.weight.data = few.weight.data.repeat(rows, columns) / columns
        many.bias.data = few.bias.data.repeat(rows)
    return wide


@pytest.fixture(scope="module")
def data():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(300, 4, generator=g, dtype=torch.double)
    return x, torch.tanh(x @ torch.randn(4, 3, generator=g, dtype=torch.double)) @ torch.randn(
        3, 2, generator=g, dtype=torch.double
    )


def test_copies_of_a_rested_network_are_a_fixed_point_and_what_moves_is_none(data):
    x, y = data
    torch.manual_seed(1)
    wide = widened(rested(mlp(4, 1, 2), x, y, half), 8)
    found = effective_width(wide, x, y=y, loss=half)
    assert found.layers == (("0", 8, 1),)
    assert found.kind == "equal"
    assert found.confirmed is True
    assert found.slope < 1e-3
    assert np.isclose(found.loss, found.narrow_loss, rtol=1e-3)
    with torch.no_grad():
        for weight in wide.parameters():
            weight += 0.3 * torch.randn(weight.shape, dtype=torch.double)
    moved = effective_width(wide, x, y=y, loss=half, tolerance=0.3)
    assert moved.confirmed is False
    assert "the network moves" in str(moved)


def test_cross_entropy_rests_where_its_own_minimum_is(data):
    x, y = data
    torch.manual_seed(2)
    labels = (y[:, 0] + 0.8 * torch.randn(len(y), dtype=torch.double) > 0).long()
    loss = nn.CrossEntropyLoss()
    wide = widened(rested(mlp(4, 1, 2), x, labels, loss), 6)
    assert effective_width(wide, x, y=labels, loss=loss).confirmed is True
    # For another loss the same network is not at rest.
    assert effective_width(wide, x, y=y, loss=half).confirmed is False


def test_all_layers_are_narrowed_at_once(data):
    x, y = data
    torch.manual_seed(3)
    wide = widened(rested(mlp(4, 2, 1, 2), x, y, half), 6)
    found = effective_width(wide, x)
    assert found.layers == (("0", 12, 2), ("2", 6, 1))
    assert found.confirmed is None


def test_small_weights_in_a_deep_network_are_no_units(data):
    """Layer by layer nearly all units would count, but outputs scale as the cube of weights."""
    x, y = data
    torch.manual_seed(4)
    model = mlp(4, 20, 20, 2, activation=nn.ReLU)
    with torch.no_grad():
        for weight in model.parameters():
            weight *= 0.02 if weight.ndim > 1 else 0.0
        model[-1].bias.copy_(y.mean(0))
    found = effective_width(model, x, y=y, loss=half)
    assert found.widths == (0, 0)
    assert found.kind == "zero"
    assert found.confirmed is True


def test_what_is_frozen_does_not_move(data):
    """Frozen weights have a gradient but do not move; only the last layer was trained."""
    x, y = data
    torch.manual_seed(6)
    model = mlp(4, 6, 2)
    model[0].requires_grad_(False)
    rested(model, x, y, half)
    found = effective_width(model, x, y=y, loss=half)
    assert found.slope < 1e-3
    assert found.rests
    model[0].requires_grad_(True)
    assert effective_width(model, x, y=y, loss=half).slope > 0.1
    model.requires_grad_(False)
    none = effective_width(model, x, y=y, loss=half)
    assert none.confirmed is none.rests is None
    assert "no trained weights" in str(none)


@pytest.mark.parametrize("kind", ["arrays", "dataset", "loader"])
def test_targets_belong_to_their_inputs_whatever_the_order(kind):
    """Samples are subsampled with their targets, without using the run's random numbers."""
    torch.manual_seed(7)
    model = mlp(4, 6, 2)
    x = torch.randn(5000, 4, dtype=torch.double)
    y = model(x).detach() + 0.01
    pairs = torch.utils.data.TensorDataset(x, y)
    given = {
        "arrays": (x, y),
        "dataset": (pairs, None),
        "loader": (torch.utils.data.DataLoader(pairs, batch_size=64, shuffle=True), None),
    }[kind]
    before = torch.get_rng_state()
    found = effective_width(model, given[0], y=given[1], loss=half, tune=False)
    assert torch.equal(before, torch.get_rng_state())
    assert found.loss == pytest.approx(0.01**2, rel=1e-6)
    assert "4096 of 5000 samples were used" in found.notes


@pytest.mark.parametrize("bias", [0.0, 20.0, pytest.param(60.0, marks=pytest.mark.slow)])
def test_a_bias_of_the_outputs_is_no_units_work(data, bias):
    x, y = data
    torch.manual_seed(5)
    model = widened(rested(mlp(4, 2, 2), x, y, half), 3)
    with torch.no_grad():
        model[-1].bias += bias
    assert effective_width(model, x).widths == effective_width(model, x, y=y + bias).widths == (2,)


@pytest.mark.slow
@pytest.mark.skipif("FESTINA_DATA" not in os.environ, reason="FESTINA_DATA names no MNIST folder")
def test_the_plateaus_of_two_digits_are_one_and_two_units():
    """With 784 inputs, units are similar in their responses, not in the angles of their weights."""
    from festina.tasks import mnist_digits

    train = mnist_digits((3, 5))
    x, y = (torch.tensor(each[:1000]).float() for each in (train.x, train.y))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(784, 200, bias=False), nn.ReLU(), nn.Linear(200, 2, bias=False))
    for weight in model.parameters():
        nn.init.normal_(weight, std=1e-5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    found = {}
    for step in range(801):
        if step in (20, 220, 800):
            found[step] = effective_width(model, x, y=y, loss=half)
        optimizer.zero_grad()
        half(model(x), y).backward()
        optimizer.step()
    assert [each.widths for each in found.values()] == [(0,), (1,), (2,)]
    # At the end the loss still falls by a tenth in hundreds of steps.
    assert [each.confirmed for each in found.values()] == [True, True, False]
