"""The experiments on balanced networks: the exact solution and the regimes of learning."""

import functools
import re

import jax
import numpy as np
import pytest
import xarray as xr
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from pydantic import ValidationError

from experiments import are_apart, broken, is_whole, reloaded
from festina.papers import load

NAMES = (
    "linear/partitioned-solution",
    "linear/exponential-to-sigmoidal",
    "linear/regimes",
    "linear/delayed-rich",
)
each = pytest.mark.parametrize("name", NAMES)
# Minutes of compilation; the solution itself is tested in theory/linear.
pytestmark = pytest.mark.slow

HELD_OUT = {
    "linear/partitioned-solution": {
        "seed": 40,
        "seeds": 2,
        "balances": (-3.0, -0.2, 0.5, 2.0, 9.0),
        "singular_values": (2.0, 0.6),
    },
    "linear/exponential-to-sigmoidal": {
        "seed": 7,
        "seeds": 1,
        "balances": (0.0, 0.3, 6.0),
        "singular_values": (3.0, 1.0, 0.5),
        "initial_strength": 0.003,
    },
    "linear/regimes": {
        "seed": 11,
        "balances": (-16.0, 0.0, 16.0),
        "singular_values": (1.6, 0.7, 0.5),
        "scale": 0.1,
    },
    "linear/delayed-rich": {
        "seed": 23,
        "seeds": 3,
        "balances": (20.0, 50.0),
        "singular_values": (2.0, 0.7),
        "inputs": 3,
    },
}


OTHER_SIZES = {
    "linear/partitioned-solution": {
        "seeds": 2,
        "balances": (-3.0, 0.5),
        "singular_values": (2.0, 1.1, 0.6),
        "wide": 5,
    },
    "linear/regimes": {
        "seeds": 5,
        "balances": (-16.0, 0.0, 16.0),
        "singular_values": (1.6, 0.8),
        "wide": 3,
    },
}
"""Where compiling for other sizes takes longer than the rest of the tests."""


@functools.cache
def usual(name):
    """With the default parameters: what users see."""
    experiment = load(name)
    return experiment.run(experiment.parameters())


@functools.cache
def held_out(name):
    """Other seeds and values than those that the experiment was made with."""
    experiment = load(name)
    return experiment.run(experiment.parameters(**HELD_OUT[name]))


def verdicts(name, run):
    return {claim.claim: claim.verdict for claim in load(name).claims(run)}


def tampered(run, group, variable, change):
    """A copy of a run with one quantity changed."""
    copy = run.copy(deep=True)
    table = copy[group].to_dataset()
    table[variable] = change(table[variable])
    copy[group] = xr.DataTree(table)
    return copy


def is_legible(figure: Figure) -> bool:
    """Nothing is cut off at the edge of the figure, and no panel lies on another."""
    return is_whole(figure) and are_apart([ax.get_window_extent() for ax in figure.axes])


def covered(figure: Figure) -> list[str]:
    """Legends with a drawn point of a curve under them."""
    FigureCanvasAgg(figure).draw()
    found = []
    for ax in figure.axes:
        if (legend := ax.get_legend()) is None:
            continue
        box = legend.get_window_extent()
        for line in ax.lines:
            points = ax.transData.transform(np.column_stack(line.get_data()).astype(float))
            if len(points) and any(box.contains(*point) for point in points):
                found.append(ax.get_title())
    return found


# What every one of them does


@each
def test_no_claim_is_broken(name):
    claims = load(name).claims(usual(name))
    assert len(claims) >= 6
    assert [claim for claim in claims if claim.broken] == []


@each
def test_no_claim_is_broken_for_other_seeds_and_values(name):
    claims = load(name).claims(held_out(name))
    assert len(claims) >= 6
    assert [claim for claim in claims if claim.broken] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHER_SIZES)
def test_no_claim_is_broken_for_other_sizes(name):
    experiment = load(name)
    run = experiment.run(experiment.parameters(**OTHER_SIZES[name]))
    assert broken(experiment, run) == []
    assert is_legible(experiment.draw(run))


@each
def test_a_saved_run_gives_the_same_claims(name, tmp_path):
    experiment, run = load(name), held_out(name)
    assert isinstance(experiment.draw(reloaded(experiment, run, tmp_path)), Figure)


@each
@pytest.mark.parametrize("which", [usual, held_out])
def test_the_figure_is_legible(name, which):
    figure = load(name).draw(which(name))
    assert is_legible(figure)
    for ax in figure.axes:
        assert ax.images or (ax.get_xlabel() and (ax.get_ylabel() or ax is not figure.axes[0]))
    assert any(line.get_linestyle() == "--" for ax in figure.axes for line in ax.lines)


@each
@pytest.mark.parametrize("which", [usual, held_out])
def test_no_legend_covers_a_curve(name, which):
    assert covered(load(name).draw(which(name))) == []


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        (NAMES[0], {"balances": (1.0, -1.0)}, "increasing"),
        (NAMES[0], {"wide": 2}, "funnel would be square"),
        (NAMES[0], {"balances": (0.0, 5000.0)}, "too many steps"),
        (NAMES[0], {"singular_values": (1.0, 0.0)}, "positive"),
        (NAMES[1], {"balances": (-1.0, 1.0)}, "not be negative"),
        (NAMES[1], {"initial_strength": 0.5}, "a twentieth"),
        (NAMES[1], {"singular_values": (1.0, 2.0)}, "not increase"),
        (NAMES[2], {"balances": (-20.0, 0.0, 30.0)}, "opposites"),
        (NAMES[2], {"balances": (-2.0, 0.0, 2.0)}, "nothing is lazy"),
        (NAMES[2], {"singular_values": (1.0,)}, "cannot turn"),
        (NAMES[2], {"balances": (-20.0, -1.0, 1.0, 20.0)}, "contain 0"),
        (NAMES[3], {"inputs": 3}, "only a funnel"),
        (NAMES[3], {"balances": (-20.0, 80.0)}, "no delay"),
        (NAMES[3], {"balances": (70.0, 80.0)}, "twice"),
        (NAMES[3], {"balances": (80.0, 500.0)}, "too long to train"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(name, values, words):
    with pytest.raises(ValidationError, match=words):
        load(name).parameters(**values)


@pytest.mark.parametrize("name", [NAMES[1], NAMES[3]])
def test_a_key_gives_other_networks_and_the_same_verdicts(name):
    experiment = load(name)
    run = experiment.run(experiment.parameters(**HELD_OUT[name]), key=jax.random.key(3))
    assert not run.equals(held_out(name))
    assert broken(experiment, run) == []


# The partitioned solution


# W₂W₁ at t = 1.5 and traces of both Gram matrices, integrated by another program.
TABLE = {
    ("square", -5.0): (
        (1.19980716, 0.39979965, -0.29973259, 0.79982290),
        (10.44353924, 0.44353924),
    ),
    ("square", 0.0): (
        (0.76626960, 0.30694931, -0.00761931, 0.31347572),
        (1.12463477, 1.12463477),
    ),
    ("funnel", -5.0): (
        (1.24633756, 0.37585170, 0.17494267, -0.36681346, 0.83422609, -0.13142064),
        (10.48786971, 0.48786971),
    ),
    ("funnel", 1.0): (
        (1.15965680, 0.35486235, 0.47302298, -0.26872148, 0.73050236, -0.56088642),
        (1.46261402, 3.46261402),
    ),
    ("inverted", 1.0): (
        (1.18446368, -0.30764567, 0.33425315, 0.76284001, 0.29038470, -0.27431084),
        (1.35509181, 3.35509181),
    ),
    ("inverted", 5.0): (
        (1.24633756, -0.36681346, 0.37585170, 0.83422609, 0.17494267, -0.13142064),
        (0.48786971, 10.48786971),
    ),
}


@pytest.mark.parametrize(("shape", "balance"), TABLE)
@pytest.mark.parametrize("route", ["trained", "theory"])
def test_reference_values_of_the_fixed_networks(shape, balance, route):
    table = usual(NAMES[0])[shape].to_dataset()
    both = table[route].sel(balance=balance).sel(time=1.5, method="nearest", tolerance=1e-9).values
    inputs = table.attrs["inputs"]
    learned, traces = TABLE[shape, balance]
    np.testing.assert_allclose(both[inputs:, :inputs].ravel(), learned, atol=1e-7)
    inward, outward = np.trace(both[:inputs, :inputs]), np.trace(both[inputs:, inputs:])
    np.testing.assert_allclose((inward, outward), traces, atol=1e-7)


def test_the_misprint_is_a_correction_and_large():
    run = usual(NAMES[0])
    claims = [claim for claim in load(NAMES[0]).claims(run) if "as printed is most" in claim.claim]
    assert [claim.verdict for claim in claims] == ["holds with a correction"] * 2
    for claim in claims:
        printed = re.search(r"as printed gives (\S+)", claim.note)
        assert printed
        assert abs(float(printed.group(1)) - claim.measured) > 0.1
    for shape in ("funnel", "inverted"):
        random = run[f"random_{shape}"].to_dataset()
        wrong = random["printed"].max("seed")
        assert float(wrong.sel(balance=0.0)) < 1e-6
        assert (wrong.where(wrong["balance"] != 0, drop=True) > 1e-4).all()


def test_networks_that_follow_the_printed_form_would_break_the_claims():
    run = usual(NAMES[0])
    printed = run["funnel"].to_dataset()["printed"]
    fooled = tampered(run, "funnel", "trained", lambda trained: printed.fillna(trained))
    found = verdicts(NAMES[0], fooled)
    assert found["funnel: training follows QQᵀ(t), every λ (largest difference)"] == "does not hold"
    assert (
        found["funnel: an entry of QQᵀ where Eq. (15) as printed is most wrong"] == "does not hold"
    )


def test_only_one_sign_of_the_determinant_gets_stuck():
    loss = usual(NAMES[0])["obstruction"].to_dataset()["loss"].isel(sample=-1)
    np.testing.assert_allclose(loss.sel(sign=-1.0), 0.7**2 / 2, atol=1e-6)
    assert float(loss.sel(sign=1.0).max()) < 1e-6


# From exponential to sigmoidal


def test_times_of_marks_agree_with_quadrature():
    import scipy.integrate

    from festina.papers.linear.balanced._exponential_to_sigmoidal import time_to

    for balance in (0.0, 0.03, 2.0):
        slowness = lambda a, lam=balance: 1 / (np.hypot(lam, 2 * a) * (1.5 - a))
        expected, _ = scipy.integrate.quad(slowness, 0.01, 1.2, epsabs=1e-12, epsrel=1e-12)
        found = time_to(np.array([1.2]), np.array([1.5]), 0.01, balance)
        np.testing.assert_allclose(found, [expected], rtol=1e-9)


def test_the_shape_goes_from_a_sigmoid_to_an_exponential():
    claims = load(NAMES[1]).claims(usual(NAMES[1]))
    (shape,) = (claim for claim in claims if claim.claim.startswith("wait over rise"))
    assert np.all(np.diff(shape.measured) < 0)
    s, a0 = 2.0, 0.01
    sigmoid = np.log(0.1 * (s - a0) / (0.9 * a0)) / (2 * np.log(9))
    assert shape.measured[0] == pytest.approx(sigmoid, rel=1e-3)
    assert shape.measured[-1] == pytest.approx(np.log(10 / 9) / np.log(9), rel=0.05)


def test_a_curve_of_another_balance_is_noticed():
    run = usual(NAMES[1])
    shifted = tampered(run, "curves", "strength", lambda a: a.roll(balance=1, roll_coords=False))
    found = verdicts(NAMES[1], shifted)
    assert (
        found["λ = 0: every mode follows its closed form (largest difference)"] == "does not hold"
    )


# Regimes


def test_regimes_by_shape_and_sign():
    run = usual(NAMES[2])
    end = lambda shape, sign: float(
        run[shape].to_dataset()["kernel_distance"].sel(balance=30.0 * sign).median()
    )
    lazy = [end("square", 1), end("square", -1), end("funnel", 1), end("inverted", -1)]
    rich = [end("funnel", -1), end("inverted", 1)]
    assert max(lazy) < 1e-3
    assert min(rich) > 0.3


def test_a_kernel_that_moves_on_the_lazy_side_is_noticed():
    run = usual(NAMES[2])
    moved = tampered(
        run,
        "funnel",
        "kernel_distance",
        lambda k: k.isel(balance=slice(None, None, -1)).assign_coords(balance=k["balance"]),
    )
    found = verdicts(NAMES[2], moved)
    assert found["funnel: regimes for large λ < 0 and large λ > 0"] == "does not hold"


def test_items_of_the_tree_resemble_each_other_in_the_rich_regime():
    run = usual(NAMES[2])
    rich, lazy = (
        run[f"items_{name}"].to_dataset()["after"].values for name in ("equal", "first_large")
    )
    near, far = rich[0, 1] / rich[0, 0], rich[0, 4] / rich[0, 0]
    assert near > 0.1 > abs(far)
    assert abs(lazy[0, 1] / lazy[0, 0]) < 0.01


# Delayed rich


def test_times_part_as_the_square_of_the_balance():
    from festina.papers.linear.balanced._delayed_rich_claims import drop_times, turn_times

    run = usual(NAMES[3])
    curves, slow = run["curves"].to_dataset(), run["slow"].to_dataset()
    ratio = np.median(turn_times(curves), axis=1) / np.median(drop_times(curves, slow), axis=1)
    assert ratio[-1] / ratio[-2] == pytest.approx(16.0, rel=0.05)


def test_a_kernel_that_turns_with_the_loss_is_noticed():
    run = usual(NAMES[3])
    curves = run["curves"].to_dataset()
    fallen = 1 - curves["loss"] / curves["loss"].isel(sample=0)
    early = tampered(run, "curves", "kernel_distance", lambda k: fallen * k.isel(sample=-1))
    found = verdicts(NAMES[3], early)
    broken = [claim for claim, verdict in found.items() if verdict == "does not hold"]
    assert any("follows the exact solution" in claim for claim in broken)
    assert any("half-change time" in claim for claim in broken)
