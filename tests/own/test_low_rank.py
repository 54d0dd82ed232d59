"""Test the low-rank form: planted ranks are found, and the smaller of two forms is returned."""

import re

import numpy as np
import pytest

import festina
from festina._narrowing._low_rank import factorised
from festina._narrowing._model import model_of
from festina._narrowing._narrow import Narrowest
from festina._narrowing._torch import TorchModel
from helpers import untyped

torch = pytest.importorskip("torch")
nn = torch.nn


def planted(rank=3, *, inputs=30, units=40, noise=0.0, seed=0):
    """Return a network whose first weights have a low rank, with different units, and inputs."""
    torch.manual_seed(seed)  # for the readouts
    g = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.double)
    model = nn.Sequential(nn.Linear(inputs, units), nn.Tanh(), nn.Linear(units, 2)).double()
    with torch.no_grad():
        low = draw(units, rank) @ draw(rank, inputs) / inputs**0.5
        model[0].weight.copy_(low + noise * draw(units, inputs))
        model[0].bias.copy_(draw(units))
    return model, draw(600, inputs)


def apart(model, other, x):
    with torch.no_grad():
        wide, small = model(x), other(x)
    return float(((wide - small).square().sum() / (wide - wide.mean(0)).square().sum()).sqrt())


def test_a_planted_rank_is_found_and_the_error_falls_with_the_noise():
    errors = []
    for noise in (1e-2, 1e-4):
        model, x = planted(noise=noise)
        found = festina.shrink(model, x, tolerance=0.1, tune=False)
        assert (found.form, found.ranks) == ("low rank", {"0": 3})
        assert found.widths == found.full == {"0": 40}
        assert type(found.model[0]) is nn.Sequential
        assert found.model[0][0].weight.shape == (3, 30)
        assert found.size == sum(each.numel() for each in found.model.parameters())
        other = torch.randn(500, 30, dtype=torch.double, generator=torch.Generator().manual_seed(7))
        assert found.error == pytest.approx(apart(model, found.model, other), rel=0.3)
        errors.append(found.error)
    assert errors[1] < 0.04 * errors[0]  # the noise is a hundredth; errors are known to 30 %
    assert re.search(r"layer 0: rank 3; \d+ of 1,322 weights", str(found))
    assert "low rank: no narrow form with fewer weights" in str(found)


@pytest.mark.parametrize("tune", [False, True])
def test_neither_form_alone_is_smaller_than_the_answer(tune):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 3))
    with torch.no_grad():
        model[0].weight.mul_(torch.linspace(3.0, 0.0, 16))
    x = torch.randn(200, 16)
    options = {"tolerance": 0.2, "tune": tune, "steps": 30}
    best = festina.shrink(model, x, **options)
    forms = [festina.shrink(model, x, form=form, **options) for form in ("narrow", "low rank")]
    assert [each.form for each in forms] == ["narrow", "low rank"]
    assert best.size <= min(each.size for each in forms)
    assert best.error <= 0.2
    assert best.size < best.full_size


def test_weighted_directions_beat_a_truncated_svd_of_the_same_size():
    """A truncated SVD is optimal for the weights (Eckart and Young), but not for the outputs."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 4)).double()
    x = torch.randn(500, 20, dtype=torch.double) * torch.linspace(2.0, 0.1, 20)
    found = festina.shrink(model, x, form="low rank", tolerance=0.3, tune=False)
    rank = found.ranks["0"]
    u, s, v = torch.linalg.svd(model[0].weight.detach(), full_matrices=False)
    cut = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 4)).double()
    cut.load_state_dict(model.state_dict())
    with torch.no_grad():
        cut[0].weight.copy_((u[:, :rank] * s[:rank]) @ v[:rank])
    assert found.error < apart(model, cut, x)


def test_energies_are_what_dropping_directions_costs():
    """First-order energies are exact for a linear network."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 10), nn.Linear(10, 12)).double()
    network = model_of(model, torch.randn(400, 12, dtype=torch.double))
    assert isinstance(network, TorchModel)
    narrowest = Narrowest(network)
    spectra = network.spectra(narrowest.fit)
    for rank in (1, 2):
        other = factorised(network, spectra, {"0": rank})
        difference = other.outputs(other.weights, narrowest.fit) - narrowest.fit.y
        cost = np.mean(np.sum(difference**2, axis=1))
        assert cost == pytest.approx(spectra["0"].energy[rank:].sum(), rel=1e-6)


def test_tuning_in_projected_inputs_has_the_slope_of_the_whole_network():
    model, x = planted(noise=1e-3)
    network = model_of(model, x)
    assert isinstance(network, TorchModel)
    narrowest = Narrowest(network)
    start = narrowest.start({"0": 8})
    for one in (start, narrowest.low_rank(0.5, tune=False)):
        assert one is not None
        made = one.network or network
        tuning = made.tuning(narrowest.fit, error=0.1 * narrowest.scale)
        inside = dict(tuning.inward(one.weights))
        first = "0.0.weight" if one.network else "0.weight"
        assert inside[first].shape[1] < 15  # of 30 inputs
        outside = tuning.outward(inside)
        value, slopes = made.slope(outside, narrowest.fit)
        there, inner = tuning.slope(inside)
        assert there == pytest.approx(value, rel=1e-3)
        spectrum = network.spectra(narrowest.fit)["0"]
        count = inside[first].shape[1]
        rows = spectrum.into[:count] / np.sqrt(spectrum.energy[:count])[:, None]
        assert np.allclose(inner[first], slopes[first] @ rows.T, rtol=1e-3, atol=1e-5)


class Direct(nn.Module):
    """A model that uses the weights of a layer directly, which fails for a factorised layer."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(12, 20), nn.Linear(20, 2)

    def forward(self, x):
        return self.down(torch.tanh(self.up(x))) + 1e-3 * self.up.weight.mean()


def test_models_that_take_no_low_rank_are_narrowed():
    torch.manual_seed(0)
    found = festina.shrink(Direct(), torch.randn(200, 12), tolerance=0.3, tune=False)
    assert found.form == "narrow"
    assert "the model takes no layers of low rank" in found.notes


def test_random_numbers_and_frozen_weights_are_left_alone():
    model, x = planted()
    model[0].weight.requires_grad_(False)
    state = torch.get_rng_state()
    found = festina.shrink(model, x, form="low rank", tolerance=0.1, steps=20)
    assert torch.equal(torch.get_rng_state(), state)
    trained = {name: each.requires_grad for name, each in found.model.named_parameters()}
    assert [name for name, each in trained.items() if not each] == ["0.0.weight", "0.1.weight"]


def test_bad_forms_and_sizes(as_a_user):
    model, x = planted()
    with pytest.raises(ValueError, match="`form` must be 'narrow' or 'low rank'"):
        festina.shrink(model, x, form=untyped("svd"))
    with pytest.raises(ValueError, match="No low-rank form of `model` has 35 weights or fewer"):
        festina.shrink(model, x, form="low rank", widths=1, tune=False)
    found = festina.shrink(model, x, form="low rank", widths=12, tune=False)
    narrow = festina.shrink(model, x, widths=12, tune=False)
    assert (found.form, narrow.form) == ("low rank", "narrow")
    assert found.size <= narrow.size
    assert found.error < narrow.error
