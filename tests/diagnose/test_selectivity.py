"""Test selectivity of units against brute force, planted units and chance."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from festina import seeds
from festina.diagnose import layer_nonlinearity, selectivity
from festina.networks import deep_linear, deep_network, fully_connected, gated_equivalent
from festina.tasks import from_arrays, objects_in_contexts

PARTS = "object", "context", "interaction", "within"


def design(objects, contexts, repeats=1):
    o, c, _ = np.indices((objects, contexts, repeats)).reshape(3, -1)
    return o, c


def look(h, o, c, **how):
    return selectivity(h, objects=o, contexts=c, **{"random": 0, **how})


@given(st.integers(2, 4), st.integers(2, 5), st.integers(1, 3), st.integers(0, 99))
@settings(max_examples=6, deadline=None)
def test_variance_is_split_as_by_least_squares(objects, contexts, repeats, seed):
    """The shares are those that nested least-squares fits explain."""
    o, c = design(objects, contexts, repeats)
    h = np.random.default_rng(seed).normal(size=(len(o), 3))
    found = look(h, o, c, threshold=0.0).units["anova"].values
    one = np.ones((len(o), 1))
    levels = (
        one,
        np.eye(objects)[o],
        np.eye(contexts)[c],
        np.eye(objects * contexts)[o * contexts + c],
    )
    terms, left = [], []
    for each in levels:
        terms.append(each)
        x = np.hstack(terms)
        left.append(np.sum((h - x @ np.linalg.lstsq(x, h)[0]) ** 2, axis=0))
    parts = [*(-np.diff(left, axis=0) / left[0]), left[-1] / left[0]]
    np.testing.assert_allclose(found, parts, atol=1e-12)


def test_pairs_of_any_number_by_their_means():
    o, c = design(3, 2, 2)
    h = np.maximum(np.random.default_rng(0).normal(size=(len(o), 4)), 0)
    some = np.r_[0:4, 5:12]  # one example is missing
    with pytest.raises(ValueError, match=r"from 1 to 2 examples.*`anova=\"means\"`"):
        look(h[some], o[some], c[some])
    found = look(h[some], o[some], c[some], anova="means").units["anova"]
    means = np.stack(
        [h[some][(o[some] == i) & (c[some] == j)].mean(0) for i in range(3) for j in range(2)]
    )
    whole = look(means, *design(3, 2), threshold=0.0).units["anova"]
    np.testing.assert_allclose(found[:3] / found[:3].sum("part"), whole[:3], atol=1e-12)
    even = look(h, o, c), look(h, o, c, anova="means")
    assert even[0].anova == even[1].anova
    assert np.isnan(look(h[some], o[some], c[some], anova=None).anova["object"])


@pytest.mark.parametrize("contexts", [3, 4, 5])
def test_planted_gatings(contexts):
    """Units that are active in k contexts are counted by strength, and dead units are excluded."""
    rng, (o, c) = np.random.default_rng(contexts), design(8, contexts)
    counts = np.r_[1 : contexts + 1]
    sets = [rng.permutation(contexts)[:k] for k in counts]
    h = np.stack([np.isin(c, each) * rng.uniform(0.5, 1, len(c)) for each in sets], axis=1)
    strength = rng.uniform(1, 2, contexts)
    found = look(np.hstack((0 * h, h)), o, c, strengths=np.tile(strength, 2))
    assert found.dead == contexts
    np.testing.assert_allclose(found.shares[1:], strength / strength.sum())
    assert found.contexts_on == pytest.approx(np.average(counts, weights=strength))
    assert found.mixed + found.modular + found.always == pytest.approx(1)
    every = {",".join(map(str, sorted(each))): np.isin(c, each) for each in sets}
    found = look(np.hstack((0 * h, h)), o, c, candidates=every)
    assert found.units["candidate"].values.tolist() == [*every]
    # The last unit is always active, like the candidate "all"
    np.testing.assert_allclose(found.units["alignment"], 1.0)
    assert found.units["unit"].values.tolist() == [*range(contexts, 2 * contexts)]
    even = look((h > 0) * 1.0, o, c).units
    np.testing.assert_allclose(even["purity"], 1 / counts)
    np.testing.assert_allclose(even["entropy"], np.log(counts) / np.log(contexts), atol=1e-12)
    np.testing.assert_allclose(even["object_entropy"], 1.0)


def test_agreement_is_cohens_kappa_and_chance_that_of_shuffled_examples():
    rng, (o, c) = np.random.default_rng(1), design(6, 3)
    on = rng.random((len(o), 40)) < rng.uniform(0.2, 0.8, 40)
    on[0] = True
    candidates = {"some": rng.random(len(o)) < 0.4, "first": c == 0, "all": np.full(len(o), True)}
    found = look(on * 1.0, o, c, candidates=candidates, shuffles=200)

    def kappa(a, b):
        observed, chance = np.mean(a == b), a.mean() * b.mean() + (1 - a.mean()) * (1 - b.mean())
        return (observed - chance) / (1 - chance) if chance < 1 else float(observed == 1)

    best = lambda unit: max(kappa(unit, each) for each in candidates.values())
    np.testing.assert_allclose(found.units["alignment"], [best(unit) for unit in on.T], atol=1e-12)
    shuffled = np.mean([[best(rng.permutation(unit)) for unit in on.T] for _ in range(20)])
    assert found.chance == pytest.approx(shuffled, abs=0.015)
    assert sum(found.candidates.values()) == pytest.approx(1)


# Recordings


def recording(seed, share=0.25, rate=5.0, units=80, repeats=12, objects=4, contexts=3):
    """Return spike counts above a resting rate; some units fire more for one object in one
    context.
    """
    rng, (o, c) = np.random.default_rng(seed), design(objects, contexts, repeats)
    mean = rate + rng.exponential(2.0, (objects, units))[o] * (rng.random(units) < 0.5)
    mean += rng.exponential(2.0, (contexts, units))[c] * (rng.random(units) < 0.5)
    conjunctive = np.arange(units) < share * units
    pair = rng.integers(objects, size=units), rng.integers(contexts, size=units)
    mean += 8 * conjunctive * (o[:, None] == pair[0]) * (c[:, None] == pair[1])
    return rng.poisson(mean).astype(float), o, c, conjunctive


@pytest.mark.parametrize("share", [0.0, 0.25, 0.6])
@pytest.mark.parametrize("given", ["counts", "rates", "scores", "single"])
def test_conjunctive_units_of_a_recording_are_counted(share, given):
    """The share of conjunctive units is found for counts, rates and z-scores.

    A warning says that thresholds were chosen by splitting the activities.
    """
    h, o, c, conjunctive = recording(int(10 * share), share)
    change = {
        "counts": lambda h: h,
        "rates": lambda h: 0.1 + h / 7,
        "scores": lambda h: (h - h.mean(axis=0)) / h.std(axis=0),
        "single": lambda h: np.float32(h / 7 - 1),
    }
    with pytest.warns(UserWarning, match='cut into two groups .threshold="split"'):
        found = look(change[given](h), o, c, anova=None)
    tested = found.units["interaction_chance"].values < 0.01
    assert not conjunctive.any() or tested[conjunctive].mean() > 0.9
    # Four standard errors above the level of the test, 0.01
    assert tested[~conjunctive].mean() < 0.08
    assert found.conjunctive == pytest.approx(tested.mean())
    assert abs(found.units["interaction"].values[~conjunctive].mean()) < 0.01
    counts = look(h, o, c, anova=None, threshold="split")
    same = found.units["contexts_on"].values == counts.units["contexts_on"].values
    assert same.mean() > 0.95  # all units but those with counts at the threshold


@given(st.integers(2, 4), st.integers(2, 4), st.integers(0, 99))
@settings(max_examples=6, deadline=None)
def test_the_interaction_is_tested_as_by_least_squares(objects, contexts, seed):
    """For unequal numbers of examples, the test compares squared errors of two fitted models."""
    from scipy.stats import f

    rng = np.random.default_rng(seed)
    o, c = (np.repeat(each, 3) for each in design(objects, contexts))
    keep = rng.random(len(o)) < 0.8
    keep[::3] = True  # each pair keeps an example
    o, c = o[keep], c[keep]
    h = rng.normal(size=(len(o), 3)) + np.eye(objects)[o, :1] * np.eye(contexts)[c, :1]
    found = look(h, o, c, anova=None, threshold=0.0).units
    one, pairs = np.ones((len(o), 1)), o * contexts + c
    models = (
        np.hstack((one, np.eye(objects)[o], np.eye(contexts)[c])),
        np.eye(objects * contexts)[pairs],
    )
    left = [np.sum((h - x @ np.linalg.lstsq(x, h)[0]) ** 2, axis=0) for x in models]
    free = len(o) - objects * contexts
    if not free:
        assert np.isnan(found["interaction"]).all()
        return
    more, noise = (objects - 1) * (contexts - 1), left[1] / free
    chance = f.sf((left[0] - left[1]) / more / noise, more, free)
    np.testing.assert_allclose(found["interaction_chance"], chance, rtol=1e-8)
    total = np.sum((h - h.mean(axis=0)) ** 2, axis=0)
    omega = (left[0] - left[1] - more * noise) / (total + noise)
    np.testing.assert_allclose(found["interaction"], omega, atol=1e-12)


def test_a_resting_rate_does_not_hide_where_units_are_on():
    """Planted gates are found above a resting rate and noise, beside units without a preference."""
    rng, (o, c) = np.random.default_rng(0), design(4, 3, 10)
    sets = [(0,), (0, 1), (1, 2), (0, 1, 2)]
    on = np.stack([np.isin(c, each) for each in sets], axis=1)
    h = 20 + 5 * on + rng.normal(size=on.shape)
    with pytest.warns(UserWarning, match="are zero in only 0.0% of all cases"):
        found = look(h, o, c)
    assert found.units["contexts_on"].values.tolist() == [1, 2, 2, 3]
    assert found.units["candidate"].values.tolist() == ["0", "0,1", "1,2", "0,1,2"]
    assert found.always == pytest.approx(1 / 4)


def test_networks_and_rectified_activities_rest_at_zero():
    o, c = design(4, 3)
    h = np.maximum(np.random.default_rng(0).normal(size=(12, 9)), 0)
    assert look(h, o, c).shares.tolist() == look(h, o, c, threshold=1e-3).shares.tolist()
    assert np.isnan(look(h, o, c).conjunctive)  # there is one example of each pair
    assert "conjunctive" not in str(look(h, o, c))


def test_random_features_are_the_baseline():
    """Units with random weights have the selectivity of the random baseline."""
    data = objects_in_contexts(8, 3)
    rows = np.random.default_rng(5).normal(size=(data.x.shape[1], 2000))
    found = selectivity(np.maximum(data.x @ rows, 0), data, random=2000)
    for name in ("contexts_on", "purity", "entropy", "alignment", "chance", "mixed"):
        off = 0.1 if name == "contexts_on" else 0.04  # at least four standard errors
        assert getattr(found, name) == pytest.approx(getattr(found.random, name), abs=off)
    other = selectivity(
        np.maximum(data.x @ rows, 0), objects=data.labels["object"], contexts=data.labels["context"]
    )
    assert found.random is not None
    assert other.random is not None
    assert other.random.entropy == pytest.approx(found.random.entropy, abs=0.04)
    text = str(found)
    assert "random features" in text
    assert f"{2000 - found.dead} units, {found.dead} dead" in text
    assert len(found.draw().patches) == 8
    one, two = (
        selectivity(rows.T[:24], data, key=jax.random.key(7), threshold=1e-3).random
        for _ in range(2)
    )
    assert one is not None
    assert two is not None
    assert one.alignment == two.alignment


@pytest.mark.slow
def test_of_networks_and_of_their_gated_copies():
    data = objects_in_contexts(4, 3)
    network = fully_connected(7, 20, 28, activation="relu", scale=1.0, key=seeds(1)[0])
    found = selectivity(network, data, random=0, least=0.0)
    h = np.maximum(data.x @ np.asarray(network.u).T, 0)
    strength = np.linalg.norm(network.u, axis=1) * np.linalg.norm(network.v, axis=1)
    plain = selectivity(h, data, strengths=strength, random=0, least=0.0)
    assert found.contexts_on == pytest.approx(plain.contexts_on)
    assert selectivity(
        gated_equivalent(network, data.x), data, random=0, least=0.0
    ).contexts_on == (pytest.approx(plain.contexts_on))
    deep = deep_network([7, 6, 5, 28], activations="relu", scale=1.0, key=seeds(1)[0])
    for layer, width in ((1, 6), (2, 5)):
        found = selectivity(deep, data, layer=layer, random=0)
        assert found.units.sizes["unit"] + found.dead == width


def test_labels_may_be_words_and_many():
    o, c = design(4, 12)
    h = np.maximum(np.random.default_rng(0).normal(size=(len(o), 6)), 0)
    found = look(h, np.array(list("abcd"))[o], c)
    assert len(found.candidates) == 12 + 12 + 1
    assert found.shares.shape == (13,)


OBJ, CTX = design(4, 3)
H = np.maximum(np.random.default_rng(0).normal(size=(12, 5)), 0)
WRONG = {
    "one context": (lambda: look(H, OBJ, 0 * CTX), "one context, .*two or more"),
    "one object": (lambda: look(H, 0 * OBJ, CTX), "one object"),
    "dead": (lambda: look(0 * H, OBJ, CTX), "All 5 units are silent for all examples"),
    "weak": (lambda: look(H, OBJ, CTX, strengths=np.zeros(5)), "silent or without strength"),
    "labels": (lambda: look(H, OBJ[:-1], CTX), r"each of 12 examples, got shape \(11,\)"),
    "transposed": (lambda: look(H.T, OBJ, CTX), "Rows of `activations` are examples, and col"),
    "contexts": (
        lambda: look(H, OBJ, CTX[:, None]),
        r"`contexts` must be one label for each of 12",
    ),
    "none": (lambda: selectivity(H), "`objects` must give the object"),
    "label": (
        lambda: selectivity(H, from_arrays(np.eye(12), np.eye(12), labels={"object": OBJ})),
        r"the task has only the labels \['object'\]",
    ),
    "missing": (
        lambda: look(H[1:], OBJ[1:], CTX[1:]),
        "1 of 12 pairs have no example, .*object 0 in context 0",
    ),
    "shape": (lambda: look(H[0], OBJ, CTX), r"\(example, unit\)"),
    "strengths": (lambda: look(H, OBJ, CTX, strengths=[1.0]), "each of 5 units"),
    "gating": (
        lambda: look(H, OBJ, CTX, candidates={"a": 0 * CTX}),
        "'a'.* is open for no example",
    ),
    "values": (lambda: look(H, OBJ, CTX, candidates={"a": CTX}), "0 or 1 for each of the 12"),
    "gatings": (lambda: look(H, OBJ, CTX, candidates=[CTX == 0]), "by name"),
    "threshold": (lambda: look(H, OBJ, CTX, threshold=1), "`threshold` must be from 0 to below 1"),
    "least": (lambda: look(H, OBJ, CTX, least=-1), "`least` must be from 0 to below 1"),
    "word": (
        lambda: look(H, OBJ, CTX, threshold="half"),
        '`threshold` must be a number or "split"',
    ),
    "anova": (lambda: look(H, OBJ, CTX, anova="type 3"), '"full", "means" or None'),
    "inputs": (lambda: look(H, OBJ, CTX, random=3, x=np.eye(3)), "the inputs of 12 examples"),
    "network": (lambda: selectivity(NETWORK), "finite `task`"),
    "layer": (
        lambda: selectivity(NETWORK, objects_in_contexts(4, 3), layer=2),
        "from 1 to 1, got 2",
    ),
    "kind": (
        lambda: selectivity(
            deep_linear([7, 3, 28], scale=1, key=seeds(1)[0]), objects_in_contexts(4, 3)
        ),
        "as an array",
    ),
    "linear": (
        lambda: layer_nonlinearity(
            deep_linear([7, 3, 28], scale=1, key=seeds(1)[0]), objects_in_contexts(4, 3)
        ),
        "must be a layer or `DeepNetwork` of neurons",
    ),
}
NETWORK = fully_connected(7, 4, 28, activation="relu", scale=1.0, key=seeds(1)[0])


@pytest.mark.parametrize("what", WRONG)
def test_bad_input_is_answered(what, as_a_user):
    ask, words = WRONG[what]
    with pytest.raises(ValueError, match=words):
        ask()


def test_what_rectifiers_take_away():
    data = objects_in_contexts(4, 3)
    network = deep_network([7, 6, 5, 28], activations="relu", scale=1.0, key=seeds(1)[0])
    found = layer_nonlinearity(network, data)
    w1, w2, w3 = (np.asarray(each) for each in network.weights)
    a1 = data.x @ w1.T
    h1 = np.maximum(a1, 0)
    a2 = h1 @ w2.T
    h2 = np.maximum(a2, 0)
    loss = lambda f: 0.5 * np.mean(np.sum((data.y - f) ** 2, axis=1))
    np.testing.assert_allclose(
        found.kept, [np.sum(h1**2) / np.sum(a1**2), np.sum(h2**2) / np.sum(a2**2)]
    )
    np.testing.assert_allclose(found.on, [np.mean(h1 > 0), np.mean(h2 > 0)])
    np.testing.assert_allclose(found.loss, [loss(np.maximum(a1 @ w2.T, 0) @ w3.T), loss(a2 @ w3.T)])
    assert found.network_loss == pytest.approx(loss(h2 @ w3.T))
    linear = fully_connected(7, 4, 28, scale=1.0, key=seeds(1)[0])
    straight = layer_nonlinearity(linear, data)
    assert straight.kept == pytest.approx(1)
    assert straight.loss == pytest.approx(straight.network_loss)
