"""Test structured worlds: spectra in closed form against brute force and random draws."""

import itertools

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from festina.tasks.worlds import chain, clusters, graph, grid, ring, torus, tree
from helpers import untyped

COUPLED = {"coupling": 0.8, "precision": 0.3}

WORLDS = {
    "binary tree": lambda: tree([2, 2, 2], 0.1),
    "uneven tree": lambda: tree([3, 2, 4], [0.3, 0.2, 0.05]),
    "tree with an only child": lambda: tree([2, 1, 3], [0.2, 0.1, 0.3]),
    "rigid tree": lambda: tree([2, 3], [0.2, 0.0]),
    "forgetful tree": lambda: tree([2, 3], [0.5, 0.1]),
    "chain": lambda: chain(7, **COUPLED),
    "single item": lambda: chain(1),
    "odd ring": lambda: ring(9, **COUPLED),
    "even ring": lambda: ring(12, **COUPLED),
    "grid": lambda: grid(4, 5, **COUPLED),
    "square torus": lambda: torus(4, 4, **COUPLED),
    "torus": lambda: torus(4, 5, **COUPLED),
    "clusters": lambda: clusters([3, 5, 2, 1], **COUPLED),
    "graph": lambda: graph(random_weights(7, 0), precision=0.4),
    "hidden nodes": lambda: graph(random_weights(8, 1), precision=0.4, items=[6, 1, 3, 0]),
    "two components": lambda: graph(np.kron(np.eye(2), 1 - np.eye(3)), precision=0.5),
}


def random_weights(nodes, seed):
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.exponential(size=(nodes, nodes)) * (rng.random((nodes, nodes)) < 0.6), 1)
    return weights + weights.T


def spectrum(world):
    return [kind.eigenvalue for kind in world.kinds], world.multiplicities.tolist()


# ---- every world --------------------------------------------------------------------------------


@pytest.fixture(params=WORLDS, name="made")
def _made(request):
    return WORLDS[request.param]()


def test_modes_are_orthonormal_eigenvectors(made):
    c, v = made.eigenvalues, made.modes
    assert np.abs(made.covariance @ v - c * v).max() < 1e-12 * max(c[0], 1)
    assert np.abs(v.T @ v - np.eye(made.items)).max() < 1e-12
    assert (np.diff(c) <= 0).all()
    assert np.allclose(c, np.linalg.eigvalsh(made.covariance)[::-1], rtol=0, atol=1e-12 * c[0])
    assert np.array_equal(c, [made.kinds[kind].eigenvalue for kind in made.kind])


def test_exact_features_have_the_covariance_and_the_singular_values(made):
    features = made.items + 3
    y = made.exact_features(features)
    assert y.shape == (features, made.items)
    assert np.abs(y.T @ y / features - made.covariance).max() < 1e-12 * made.eigenvalues[0]
    s = np.linalg.svd(y, compute_uv=False)
    assert np.allclose(s, made.singular_values(features), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["uneven tree", "rigid tree", "clusters", "hidden nodes"])
def test_draws_have_the_covariance(name):
    """An entry of the sample covariance has a standard deviation of at most √(2/N) max C."""
    made, features = WORLDS[name](), 20_000
    y = made.sample(features, key=jax.random.key(1))
    assert y.shape == (features, made.items)
    assert y.dtype == np.float64
    spread = np.sqrt(2 / features) * np.diagonal(made.covariance).max()
    assert np.abs(y.T @ y / features - made.covariance).max() < 5 * spread
    assert not np.array_equal(y, made.sample(features, key=jax.random.key(2)))


def test_items_have_places_of_their_own(made):
    distances = np.linalg.norm(made.position[:, None] - made.position, axis=-1)
    assert distances.shape == (made.items, made.items)
    assert (distances + np.eye(made.items) > 0).all()


def test_worlds_cannot_be_changed(made):
    for array in (made.covariance, made.position, made.kinds[0].modes):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1.0


# ---- trees --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("branching", "flip", "c", "multiplicity"),
    [
        ([2, 2, 2], 0.1, [3.507776, 1.410624, 0.8208, 0.36], [1, 1, 2, 4]),
        ([3, 2, 4], [0.3, 0.2, 0.05], [5.342896, 4.223152, 2.2636, 0.19], [1, 2, 3, 18]),
        ([4, 3], 0.15, [4.1409, 1.2597, 0.51], [1, 3, 8]),
    ],
)
def test_spectra_of_trees(branching, flip, c, multiplicity):
    found, count = spectrum(tree(branching, flip))
    assert np.allclose(found, c, rtol=0, atol=1e-12)
    assert count == multiplicity


def test_a_feature_that_flips_is_enumerated():
    """Enumerate all sign patterns of all edges with their probabilities."""
    epsilon = np.array([0.2, 0.35])
    edges = [(1, 0, 0), (2, 0, 0), (3, 1, 1), (4, 1, 1), (5, 2, 1), (6, 2, 1)]
    covariance = np.zeros((4, 4))
    for flips in itertools.product((False, True), repeat=len(edges)):
        value, probability = np.ones(7), 1.0
        for (node, parent, level), flipped in zip(edges, flips, strict=True):
            value[node] = -value[parent] if flipped else value[parent]
            probability *= epsilon[level] if flipped else 1 - epsilon[level]
        covariance += probability * np.outer(value[3:], value[3:])
    assert np.allclose(tree([2, 2], epsilon).covariance, covariance, rtol=0, atol=1e-14)


trees = st.lists(st.integers(1, 4), min_size=1, max_size=4).flatmap(
    lambda branching: st.tuples(
        st.just(branching),
        st.lists(
            st.one_of(st.floats(0, 0.5), st.sampled_from([0.0, 0.5])),
            min_size=len(branching),
            max_size=len(branching),
        ),
    )
)


@given(trees)
def test_any_tree(drawn):
    branching, flip = drawn
    made = tree(branching, flip)
    c, v = made.eigenvalues, made.modes
    assert np.abs(made.covariance @ v - c * v).max() < 1e-12 * c[0]
    assert v.shape == (made.items, made.items)
    assert np.allclose(np.diagonal(made.covariance), 1.0, rtol=0, atol=1e-14)
    assert c.min() >= 0
    levels = [int(kind.name.removeprefix("level ")) for kind in made.kinds]
    assert levels == sorted(levels)
    # Eigenvalues c_m > c_{m+1} differ if some features flip at level m, and leaves depend on it.
    if all(0.01 < e < 0.49 for e in flip):
        assert (np.diff([kind.eigenvalue for kind in made.kinds]) < 0).all()


def test_levels_that_never_flip_or_always_forget_are_degenerate():
    rigid = [kind.eigenvalue for kind in tree([2, 2, 2], [0.1, 0.0, 0.1]).kinds]
    assert rigid[2] == rigid[3] < rigid[1]
    forgetful = [kind.eigenvalue for kind in tree([2, 2, 2], [0.1, 0.5, 0.1]).kinds]
    assert forgetful[0] == forgetful[1] == forgetful[2] > forgetful[3]
    still = [kind.eigenvalue for kind in tree([2, 2, 2], 0.0).kinds]
    assert still == [8.0, 0.0, 0.0, 0.0]


def test_ancestors_of_leaves():
    made = tree([3, 1, 2], 0.1)
    assert made.groups.tolist() == [
        [0, 0, 0, 0, 0, 0],
        [0, 0, 1, 1, 2, 2],
        [0, 0, 1, 1, 2, 2],
        [0, 1, 2, 3, 4, 5],
    ]
    level = {kind.name: kind.modes for kind in made.kinds}
    assert "level 2" not in level  # a level of single children adds no mode
    assert np.allclose(level["level 1"][::2], level["level 1"][1::2])


def test_features_of_a_tree_are_signs_that_inherit():
    made = tree([2, 2], [0.3, 0.0])
    y = made.sample(500, key=jax.random.key(0))
    assert set(np.unique(y)) == {-1.0, 1.0}
    assert np.array_equal(y[:, 0], y[:, 1])
    assert np.mean(y[:, 0] != y[:, 2]) == pytest.approx(2 * 0.3 * 0.7, abs=0.07)


def test_sampled_singular_values_of_a_tree():
    made = tree([2, 2, 2], 0.1)
    y = made.sample(20_000, key=jax.random.key(0))
    s = np.linalg.svd(y, compute_uv=False) / np.sqrt(20_000)
    assert np.abs(s - np.sqrt(made.eigenvalues)).max() < 0.02


# ---- Markov random fields -----------------------------------------------------------------------


def test_spectrum_of_a_ring():
    c = [3.33333333, 1.94416606, 0.90909091, 0.52631579, 0.37037037, 0.30435465, 0.28571429]
    found, count = spectrum(ring(12, **COUPLED))
    assert np.allclose(found, c, rtol=0, atol=1e-8)
    assert count == [1, 2, 2, 2, 2, 2, 1]


def test_spectrum_of_a_grid():
    c = [3.33333333, 1.6513291, 1.30101753, 0.93092364, 0.71145372]
    assert np.allclose(grid(4, 5, **COUPLED).eigenvalues[:5], c, rtol=0, atol=1e-8)


def test_spectrum_of_a_torus():
    c = [3.33333333, 0.71145372, 0.71145372, 0.52631579, 0.52631579]
    made = torus(4, 5, **COUPLED)
    assert made.multiplicities.sum() == 20
    assert np.allclose(made.eigenvalues[:5], c, rtol=0, atol=1e-8)


def test_spectrum_of_clusters():
    made = clusters([3, 5, 2], **COUPLED)
    found = {kind.name: kind.eigenvalue for kind in made.kinds}
    uniform = [found[f"cluster {n}"] for n in range(3)]
    assert np.allclose(uniform, [2.57142857, 2.81045752, 2.34567901], rtol=0, atol=1e-8)
    assert found["within clusters"] == pytest.approx(0.90909091, abs=1e-8)
    assert made.multiplicities.tolist() == [1, 1, 1, 7]
    assert made.groups.tolist() == [[0, 0, 0, 1, 1, 1, 1, 1, 2, 2]]


def test_sampled_eigenvalues_of_a_field():
    made = ring(12, **COUPLED)
    y = made.sample(40_000, key=jax.random.key(3))
    c = np.linalg.eigvalsh(y.T @ y / 40_000)[::-1]
    assert np.abs(c / made.eigenvalues - 1).max() < 0.05


def test_hidden_nodes_are_integrated_out():
    """The precision of visible nodes is a Schur complement, the Gaussian marginal."""
    weights, g = random_weights(8, 2), 0.7
    seen, hidden = [5, 2, 7], [0, 1, 3, 4, 6]
    full = np.diag(weights.sum(1)) - weights + g * np.eye(8)
    a, b, d = (full[np.ix_(p, q)] for p, q in ((seen, seen), (seen, hidden), (hidden, hidden)))
    marginal = a - b @ np.linalg.inv(d) @ b.T
    made = graph(weights, precision=g, items=seen)
    assert np.allclose(made.covariance, np.linalg.inv(marginal), rtol=1e-12)


@pytest.mark.parametrize("name", ["chain", "ring", "grid", "torus", "clusters"])
def test_lattices_are_graphs(name):
    made = {
        "chain": lambda: chain(5, **COUPLED),
        "ring": lambda: ring(6, **COUPLED),
        "grid": lambda: grid(3, 4, **COUPLED),
        "torus": lambda: torus(3, 4, **COUPLED),
        "clusters": lambda: clusters([2, 3], **COUPLED),
    }[name]()
    weights = np.zeros((7, 7)) if name == "clusters" else np.zeros((made.items,) * 2)
    edges = {
        "chain": [(i, i + 1) for i in range(4)],
        "ring": [(i, (i + 1) % 6) for i in range(6)],
        "grid": [(4 * i + j, 4 * i + j + 1) for i in range(3) for j in range(3)]
        + [(4 * i + j, 4 * i + 4 + j) for i in range(2) for j in range(4)],
        "torus": [(4 * i + j, 4 * i + (j + 1) % 4) for i in range(3) for j in range(4)]
        + [(4 * i + j, 4 * ((i + 1) % 3) + j) for i in range(3) for j in range(4)],
        "clusters": [(0, 5), (1, 5), (2, 6), (3, 6), (4, 6)],
    }[name]
    for i, j in edges:
        weights[i, j] = weights[j, i] = 0.8
    general = graph(weights, precision=0.3, items=list(range(made.items)))
    assert np.allclose(made.covariance, general.covariance, rtol=1e-12)
    assert np.allclose(made.eigenvalues, general.eigenvalues, rtol=1e-10)


def test_equal_eigenvalues_of_a_graph_are_one_kind():
    # a complete graph has 1/g once, 1/(5 + g) four times
    made = graph(1 - np.eye(5), precision=0.5)
    assert made.multiplicities.tolist() == [1, 4]
    assert [kind.name for kind in made.kinds] == ["mode 0", "modes 1 to 4"]
    assert np.allclose([k.eigenvalue for k in made.kinds], [2.0, 1 / 5.5], rtol=1e-14)


def test_parts_without_an_edge_between_them_are_independent():
    made = graph(np.kron(np.eye(2), 1 - np.eye(3)), precision=0.5)
    assert np.all(made.covariance[:3, 3:] == 0)
    assert made.multiplicities.tolist() == [2, 4]


# ---- bad input ----------------------------------------------------------------------------------


ASYMMETRIC = np.array([[0.0, 1.0], [0.5, 0.0]])
PAIR = np.array([[0.0, 1.0], [1.0, 0.0]])


def test_a_graph_that_is_symmetric_to_rounding_is_symmetric():
    rng = np.random.default_rng(0)
    factor = rng.uniform(size=(5, 7))
    weights = factor @ np.diag(rng.uniform(size=7)) @ factor.T  # symmetric up to rounding
    np.fill_diagonal(weights, 0.0)
    weights[0, 1] = np.nextafter(weights[1, 0], 2.0)
    found, exact = graph(weights), graph((weights + weights.T) / 2)
    assert np.allclose(found.covariance, exact.covariance, rtol=1e-14)
    weights[0, 1] *= 1 + 1e-10
    with pytest.raises(ValueError, match="symmetric"):
        graph(weights)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tree([], 0.1), "`branching` must list"),
        (lambda: tree([2, 0], 0.1), "`branching` must list"),
        (lambda: tree(untyped([2, 1.5]), 0.1), "`branching` must list"),
        (lambda: tree([2, 2], [0.1, 0.1, 0.1]), "one for each of the 2 levels"),
        (lambda: tree([2, 2], 0.6), r"between 0 and 1/2, got 0.6.*1 − ε"),
        (lambda: tree([2, 2], -0.1), "between 0 and 1/2"),
        (lambda: tree([2, 2], np.nan), "between 0 and 1/2"),
        (lambda: ring(2), "`items` must be a whole number from 3 up, got 2"),
        (lambda: chain(0), "`items` must be a whole number from 1 up"),
        (lambda: grid(3, 0), "`columns` must be a whole number from 1 up"),
        (lambda: torus(2, 5), "`rows` must be a whole number from 3 up"),
        (lambda: ring(untyped(np.nan)), "`items` must be a whole number from 3 up, got nan"),
        (lambda: ring(untyped(np.inf)), "`items` must be a whole number from 3 up, got inf"),
        (lambda: ring(5, precision=0.0), "Laplacian is singular"),
        (lambda: ring(5, precision=1e-15), "1e-15 is too small for edges that sum up to 2"),
        (lambda: ring(5, coupling=-1.0), "`coupling`, the weight of the edges, must be positive"),
        (lambda: clusters([]), "at least one cluster"),
        (lambda: clusters(untyped(3)), r"must be a list, the items of each cluster, got 3.*\[3\]"),
        (lambda: clusters([3, 0]), "`sizes` must be a whole number from 1 up"),
        (lambda: clusters([3], precision=-1.0), "Laplacian is singular"),
        (lambda: graph(np.ones((2, 3))), "square matrix"),
        (lambda: graph(ASYMMETRIC), r"symmetric, the largest asymmetry is 0.5.*w \+ w.T"),
        (lambda: graph(-PAIR), "must not be negative, the smallest is -1"),
        (lambda: graph([[0.0, np.inf], [np.inf, 0.0]]), "`weights` must be finite"),
        (lambda: graph(np.ones((2, 2))), "zero on the diagonal"),
        (lambda: graph(PAIR, precision=0.0), "Laplacian is singular"),
        (lambda: graph(PAIR, items=[0, 0]), "different nodes from 0 to 1"),
        (lambda: graph(PAIR, items=[2]), "different nodes from 0 to 1"),
        (lambda: graph(PAIR, items=[]), "different nodes from 0 to 1"),
        (lambda: ring(5).exact_features(4), "at least the number of items, 5"),
        (lambda: ring(5).singular_values(0), "`features` must be a whole number"),
        (lambda: ring(5).sample(0, key=jax.random.key(0)), "`features` must be a whole number"),
        (lambda: ring(5).sample(3, key=untyped(0)), "`key` must be a JAX random key"),
    ],
)
@pytest.mark.usefixtures("as_a_user")
def test_bad_worlds(make, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        make()
