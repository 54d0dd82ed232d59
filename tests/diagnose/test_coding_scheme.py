"""Test `coding_scheme` on draws from theory, on controls, and against direct computation."""

from collections import Counter
from itertools import chain
from typing import get_args

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from festina.diagnose import coding_scheme
from festina.diagnose._coding_scheme import Verdict, _evidence, _two_values
from planted_codes import TRUTH, drawn, labels_of, phi, setting
from trained_codes import cases

SIZES = {
    "linear": (8, 15, 20, 7, 10, 9, 12, 11, 14, 6),
    "erf": (20, 10, 15, 12, 11, 9, 9, 10, 13, 9),
    "erf-sigmoid": (25, 15),
    "relu": (40, 25),
}


def look(h, labels, **how):
    return coding_scheme(h, labels, **{"resamples": 4, "shuffles": 50, **how})


@pytest.mark.parametrize("gains", [0.0, 0.3])
@pytest.mark.parametrize("activation", TRUTH)
def test_draws_from_theory(activation, gains):
    """Classes are ten or two, of unequal sizes, and each unit has a random gain."""
    sizes, rng = SIZES[activation], np.random.default_rng(5)
    h = drawn(activation, sizes, 150, rng) * rng.lognormal(0, gains, 150)
    found = look(h, labels_of(sizes), resamples=20)
    assert found.verdict == TRUTH[activation]
    missed = np.exp(-found.evidence.outliers) if found.verdict == "sparse" else 0.0
    # Draws without an outlier are missed
    assert found.confidence >= 1 - missed - 3 * np.sqrt(missed / 20)
    assert look(h, rng.permutation(labels_of(sizes))).verdict == "none"


@given(st.sampled_from(sorted(TRUTH)), st.integers(0, 99), st.sampled_from([1e-60, 1.0, 1e60]))
@settings(max_examples=8, deadline=None)
def test_order_names_and_scale_do_not_matter(activation, seed, scale):
    sizes, rng = SIZES[activation][:3], np.random.default_rng(seed)
    h, labels = drawn(activation, sizes, 120, rng), labels_of(sizes)
    first = look(h, labels)
    units, examples = rng.permutation(h.shape[1]), rng.permutation(len(h))
    names = rng.permutation(["owl", "cat", "dog"])
    again = look(scale * h[examples][:, units], names[labels][examples])
    assert again.verdict == first.verdict == TRUTH[activation]
    for name in "class_share", "participation", "gaussian_participation", "outlier_share":
        seen, before = getattr(again.evidence, name), getattr(first.evidence, name)
        assert seen == pytest.approx(before, rel=1e-9)
    back = [list(again.classes).index(name) for name in names[: len(sizes)]]
    np.testing.assert_allclose(again.responses[:, back] / scale, first.responses[units])


@given(
    st.sampled_from(sorted(TRUTH)), st.integers(2, 10), st.integers(30, 120), st.integers(50, 500)
)
@settings(max_examples=8, deadline=None)
def test_lazy_networks_have_none(activation, classes, examples, units):
    rng = np.random.default_rng([classes, examples, units])
    h = phi(activation, rng.standard_normal((examples, units)))
    assert look(h, np.arange(examples) % classes).verdict == "none"


@given(st.sampled_from(sorted(TRUTH)), st.integers(2, 6), st.floats(0.5, 3.0))
@settings(max_examples=8, deadline=None)
def test_random_features_have_no_more_than_inputs(activation, classes, noise):
    rng, labels = np.random.default_rng([classes, int(100 * noise)]), np.arange(60) % classes
    x = rng.standard_normal((classes, 40))[labels] + noise * rng.standard_normal((60, 40))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    h = phi(activation, x @ rng.standard_normal((40, 300)))
    found = look(h, labels, x=x)
    assert found.verdict == "none"
    assert look(h, labels).evidence.class_share == found.evidence.class_share > 0
    assert found.evidence.inherited is not None
    assert found.evidence.inherited > found.evidence.class_share - 0.05
    words = rng.choice([-1.0, 1.0], size=(classes, 300))[labels]
    assert look(h + 3 * words, labels, x=x).verdict == "redundant"


def test_a_verdict_from_labels_alone_says_so():
    """Random features of clustered inputs seem analog from labels alone, but not given inputs."""
    rng = np.random.default_rng(4)
    labels = np.repeat(np.arange(3), 20)
    x = rng.normal(size=(3, 30))[labels] + 0.3 * rng.normal(size=(60, 30))
    h = np.tanh(x @ rng.normal(size=(30, 200)) / np.sqrt(30))
    alone, beside = look(h, labels), look(h, labels, x=x)
    assert (alone.verdict, beside.verdict) == ("analog", "none")
    assert "based on labels alone" in str(alone)
    assert "give `x=`" in alone.note
    assert beside.note == look(rng.permutation(h), labels).note == ""


def test_words_under_noise_and_what_melts():
    """Codewords of three classes survive noise of their size, but not a large spread of units."""
    rng, labels = np.random.default_rng(0), np.repeat(range(3), 20)
    words, spread = rng.choice([-1.0, 1.0], size=(3, 200)), rng.standard_normal((3, 200))
    noise = rng.standard_normal((60, 200))
    seen = [
        look((words + part * spread)[labels] + noise, labels, resamples=20)
        for part in (0.0, 0.5, 3.0)
    ]
    assert [each.verdict for each in seen[::2]] == ["redundant", "analog"]
    assert np.all(np.diff([each.evidence.bimodality for each in seen]) < 0)
    assert seen[0].confidence == seen[2].confidence == 1
    assert sum(seen[1].votes.values()) == pytest.approx(1)


def test_few_units_that_speak_among_silent_ones():
    rng, labels = np.random.default_rng(0), np.repeat(range(4), 10)
    h = np.zeros((40, 100))
    h[:, :4] = np.eye(4)[labels] + 0.1 * rng.random((40, 4))
    found = look(h, labels)
    assert (found.verdict, found.evidence.outliers) == ("sparse", 4)
    assert found.evidence.participation == pytest.approx(0.04, rel=0.05)


@given(st.integers(2, 6), st.integers(0, 99))
@settings(max_examples=6, deadline=None)
def test_measures_by_other_routes(classes, seed):
    """Check participation by its Gaussian value, and the best split in two by brute force."""
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((20_000, classes)) @ rng.standard_normal((classes, classes))
    normal = rng.standard_normal(means.shape)
    twice = np.repeat(means.T, 2, axis=0), np.repeat(range(classes), 2)
    found, _ = _evidence(*twice, (0.0, 0.0), normal, rng, ((2,), (2,)))
    assert found.participation == pytest.approx(found.gaussian_participation, rel=0.06)
    assert abs(found.discreteness) < 0.05
    rows = means[:30]
    column = np.sort(rows[:, 0])
    splits = [column[:k].var() * k + column[k:].var() * (30 - k) for k in range(1, 30)]
    assert _two_values(rows)[0] == pytest.approx(
        np.log(min(splits) / (30 * column.var())), abs=1e-4
    )


def test_it_prints_and_draws_itself():
    labels = np.repeat(["cat", "dog", "owl"], 20)
    h = drawn("erf", (20, 20, 20), 100, np.random.default_rng(0))
    found = look(h, labels)
    lines = str(found).splitlines()
    assert lines[0] == "redundant: 100 units, 3 classes"
    assert lines[-2] == "resamples: redundant 100%"
    ax = found.draw()
    shown = np.asarray(ax.images[0].get_array())
    assert [each.get_text() for each in ax.get_yticklabels()] == ["cat", "dog", "owl"]
    np.testing.assert_allclose(np.sort(shown, axis=None), np.sort(found.responses, axis=None))
    assert (np.diff(np.sign(shown), axis=1) != 0).sum() < 30  # neighbouring units respond alike
    plt.close("all")


H, Y = np.random.default_rng(0).standard_normal((12, 9)), np.repeat(range(3), 4)


@pytest.mark.parametrize(
    ("h", "y", "how", "words"),
    [
        (H, np.zeros(12), {}, r"All examples are of one class, .*two or more"),
        (H, Y[:-1], {}, r"`labels` must be one label for each of 12 examples, got shape \(11,\)"),
        (
            H.T,
            Y,
            {},
            r"got shape \(12,\)\. `activations` must be \(example, unit\), got shape \(9, 12\)",
        ),
        (H, [[0], [1, 2]], {}, r"`labels` must be one label for each of 12"),
        (H, [*"abcdefghijk", None], {}, r"`labels` must be numbers or words"),
        (H, np.where(Y, Y, np.nan), {}, r"`labels` are not known for all"),
        (np.where(H > 1, np.nan, H), Y, {}, r"`activations` must be finite"),
        (np.zeros((12, 9)), Y, {}, r"constant: every unit responds alike to all 12 examples"),
        (1 + 1e-15 * H, Y, {}, r"constant: every unit responds alike to all 12 examples"),
        (H[:, :4], Y, {}, r"at least 8 units to classify a code, got 4"),
        (H, range(12), {}, r"Each of 12 examples is a class of its own"),
        (H[0], Y, {}, r"`activations` must be \(example, unit\)"),
        (H, Y, {"x": H[:5]}, r"`x` must be 12 examples"),
        (H, Y, {"resamples": 0}, r"`resamples` must be a whole number from 1"),
        (H, Y, {"shuffles": 0}, r"`shuffles` must be a whole number from 1"),
    ],
)
def test_bad_input(h, y, how, words):
    with pytest.raises(ValueError, match=words):
        coding_scheme(h, y, **how)


@pytest.mark.slow
@pytest.mark.parametrize(
    "study",
    [lambda: map(setting, range(1000, 1060)), lambda: chain(*map(cases, range(24, 36)))],
    ids=["draws from theory", "trained networks"],
)
def test_what_it_was_not_tuned_on(study):
    """At most one verdict in 20 is wrong for random class sizes, widths, temperatures and gains.

    A third of the settings, or more, have no code.
    """
    found, wrong = Counter(), []
    for truth, h, labels, x, how in study():
        said = look(np.asarray(h, float), labels, x=x).verdict
        found[truth, said] += 1
        wrong += [f"{how}: {said}"] * (said != truth)
    names = get_args(Verdict)
    print("", *names, sep="\t")
    for truth in names:
        print(truth, *(found[truth, said] for said in names), sep="\t")
    print(*wrong, sep="\n")
    assert len(wrong) <= found.total() / 20


def test_units_are_listed_by_codeword():
    rng, labels = np.random.default_rng(0), np.repeat(["cat", "dog", "owl"], 5)
    words = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]], bool)  # class by codeword
    word = rng.permutation(np.repeat([0, 1, 2], (12, 10, 8)))
    h = words[np.repeat([0, 1, 2], 5)][:, word] + 0.1 * rng.normal(size=(15, 30))
    found = look(h, labels)
    assert [*found.codewords] == [tuple(words[:, k].tolist()) for k in range(3)]  # largest first
    for k, units in enumerate(found.codewords.values()):
        assert units == np.flatnonzero(word == k).tolist()
    order = np.concatenate([*found.codewords.values()])
    assert sorted(order) == list(range(30))
