"""Test that `effective_width`, `stairs` and `shrink` agree, in every library."""

import jax.numpy as jnp
import numpy as np
import pytest

import festina
from festina.diagnose import effective_width
from festina.networks import layer_from
from festina.theory.saddles import mechanism_of_unit

torch = pytest.importorskip("torch")

ACTIVATIONS = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh, "linear": torch.nn.Identity}
FUNCTIONS = {"relu": lambda a: jnp.maximum(a, 0.0), "tanh": jnp.tanh, "linear": lambda a: a}


def half(outputs, y):
    return 0.5 * ((outputs - y) ** 2).sum(-1).mean()


def setting(phi, width, seed):
    """Return a student with small weights and the data of a teacher with two unequal directions."""
    torch.manual_seed(seed)
    x = torch.randn(200, 4, dtype=torch.float64)
    y = torch.stack([3.0 * x[:, 0], x[:, 1]], dim=1)
    if phi != "linear":
        y = ACTIVATIONS[phi]()(y)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, width, bias=False),
        ACTIVATIONS[phi](),
        torch.nn.Linear(width, 2, bias=False),
    ).double()
    with torch.no_grad():
        for weights in model.parameters():
            weights.normal_(std=1e-3)
    return model, x, y


def trained(model, x, y, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    watch = festina.watch(model, optimizer)
    for _ in range(steps):
        loss = half(model(x), y)
        watch.log(loss)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return watch


@pytest.mark.parametrize("tolerance", [0.1, pytest.param(0.05, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("phi", "seed"), [("linear", 0), ("relu", 1), pytest.param("tanh", 2, marks=pytest.mark.slow)]
)
def test_the_same_width_whoever_asks_on_every_plateau(phi, seed, tolerance):
    model, x, y = setting(phi, 20, seed)
    watch = trained(model, x, y, 800)
    stairs = watch.stairs((x, y), loss=half, tolerance=tolerance)
    rows = [row for row in stairs.stairs if row.step is not None]
    assert len(rows) >= 2
    for row in rows:
        assert row.step is not None
        network = watch.network(row.step)
        found = effective_width(network, x, y=y, loss=half, tolerance=tolerance)
        assert row.layers == found.layers
        assert (row.kind or None) in (found.kind, "tuned", None)
        assert row.confirmed is found.confirmed
        assert found.error <= tolerance
        if found.width:
            small = festina.shrink(network, x, y=y, tolerance=tolerance, form="narrow")
            assert tuple(small.widths.values()) == found.widths
            assert small.model[0].out_features == found.narrow[0].out_features == found.width
    widths = [width for row in rows for *_, width in row.layers]
    assert widths == sorted(widths)
    assert widths[0] == 0 < widths[1]


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("width", [5, pytest.param(12, marks=pytest.mark.slow)])
@pytest.mark.parametrize("phi", ["relu", "linear", pytest.param("tanh", marks=pytest.mark.slow)])
def test_the_same_weights_have_one_width_in_every_library(phi, width, seed):
    """Three units are repeated with noise; widths agree at several tolerances."""
    rng = np.random.default_rng(seed)
    which = np.arange(width) % 3
    u = rng.normal(size=(3, 4))[which] + 0.02 * rng.normal(size=(width, 4))
    v = rng.normal(size=(width, 2))
    x = rng.normal(size=(150, 4))
    model, _, _ = setting(phi, width, seed)
    with torch.no_grad():
        model[0].weight.copy_(torch.as_tensor(u))
        model[2].weight.copy_(torch.as_tensor(v.T))
    y = model(torch.as_tensor(x)).detach().numpy()
    tree = {"first": u, "second": v.T}
    apply = lambda tree, x: FUNCTIONS[phi](x @ tree["first"].T) @ tree["second"].T
    answers = [
        effective_width(model, x, y=y),
        effective_width(tree, x, y=y, apply=apply),
        effective_width(layer_from(phi, u, v), x, y=y),
        effective_width(u, x, v=v, activation=phi, y=y),
    ]
    known = mechanism_of_unit(answers[2].narrow.unit).kinds
    for tolerance in (0.3, 0.1, 0.02):
        found = [each.at(tolerance) for each in answers]
        assert len({each.width for each in found}) == 1, [each.curve for each in found]
        np.testing.assert_allclose([each.scale for each in found], found[0].scale, rtol=1e-9)
        # A festina layer reports only the reductions that its units allow.
        assert set(found[2].kinds) == set(found[0].kinds) & set(known)
        assert found[1].kinds == found[0].kinds
