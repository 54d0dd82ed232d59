"""Smaller networks: planted units are found again, and nothing of the given one changes."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage

import festina
from festina.own._ward import ward

torch = pytest.importorskip("torch")
nn = torch.nn


def planted(activation=nn.ReLU, *, units=4, copies=6, inputs=10, noise=0.0, bias=True, seed=0):
    """A network in which every unit of a narrow one stands several times, with noise."""
    g = torch.Generator().manual_seed(seed)
    u = torch.randn(units, inputs, generator=g).repeat(copies, 1)
    v = torch.randn(2, units, generator=g).repeat(1, copies) / copies
    model = nn.Sequential(
        nn.Linear(inputs, units * copies, bias=bias),
        activation(),
        nn.Linear(units * copies, 2, bias=bias),
    )
    with torch.no_grad():
        model[0].weight.copy_(u + noise * torch.randn(u.shape, generator=g))
        model[2].weight.copy_(v)
        if bias:
            model[0].bias.copy_(0.5 * torch.randn(units, generator=g).repeat(copies))
    return model, torch.randn(600, inputs, generator=g)


def test_ward_with_equal_weights_is_that_of_scipy():
    """Directions within a right angle: none is turned around."""
    points = np.abs(np.random.default_rng(0).normal(size=(30, 3)))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    found = ward(points @ points.T, np.ones(30))
    theirs = linkage(points, "ward")
    assert np.allclose(np.sqrt(2 * found.cost), theirs[:, 2])
    for count in (2, 7, 20):
        label = found.clusters(count)[0]
        same = fcluster(theirs, count, "maxclust")
        assert np.array_equal(label[:, None] == label, same[:, None] == same)


def test_a_unit_of_weight_two_is_two_units():
    points = np.abs(np.random.default_rng(1).normal(size=(8, 3)))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    twice = np.concatenate((points, points[:3]))
    weight = np.ones(8)
    weight[:3] = 2.0
    heavy, double = ward(points @ points.T, weight), ward(twice @ twice.T, np.ones(11))
    assert np.allclose(double.cost[:3], 0.0)
    assert np.allclose(heavy.cost, double.cost[3:])


@pytest.mark.parametrize("activation", [nn.ReLU, nn.Tanh, nn.GELU])
def test_copies_become_one_and_the_error_falls_with_their_noise(activation):
    errors = []
    for noise in (1e-2, 1e-4):
        model, x = planted(activation, noise=noise)
        found = festina.shrink(model, x, widths=4, tune=False)
        errors.append(found.error)
    assert errors[1] < 1e-3
    assert errors[1] < 0.02 * errors[0]


def test_the_model_is_narrower_and_computes_what_is_said():
    model, x = planted(noise=0.02)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = festina.shrink(model, x, tolerance=0.02)
    assert found.widths == {"0": 4}
    assert found.model[0].out_features == found.model[2].in_features == 4
    other = torch.randn(2000, 10, generator=torch.Generator().manual_seed(9))
    with torch.no_grad():
        wide, narrow = model(other), found.model(other)
    error = ((wide - narrow).square().sum() / (wide - wide.mean(0)).square().sum()).sqrt()
    assert float(error) < 1.5 * found.error < 0.03
    assert model.training
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert "24 → 4 units" in str(found)


@pytest.mark.parametrize("seed", range(3))
def test_never_worse_than_magnitude_pruning(seed):
    """A network of the default initialisation, in which nothing is a copy of anything."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 3))
    found = festina.shrink(model, torch.randn(500, 6), widths=4)
    assert all(point.merged <= point.pruned for point in found.curve)
    assert found.error < 0.7 * found.pruned
