"""Test every scene: theory against training, and the code that the page shows."""

import numpy as np
import pytest

pytest.importorskip("bokeh", reason="needs the extra explore")
from festina.explore._scene import SceneKnobs, controls, difference
from festina.explore.scenes import SCENES, load_scene

NAMES = [each.name for each in SCENES]
scenes = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.xdist_group(n)) for n in NAMES]
)


def ignore(words: str, fraction: float) -> None:
    pass


def positions(knobs: type[SceneKnobs], count: int, seed: int) -> list[SceneKnobs]:
    """Return random positions of all knobs, as a hand at the sliders would choose them."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        values = {}
        for each in controls(knobs):
            if each.kind != "slider":
                choices = each.choices or (False, True)
                values[each.name] = choices[rng.integers(len(choices))]
                continue
            least, most, step, _ = each.ends
            at = min(least + step * rng.integers(round((most - least) / step) + 1), most)
            value = float(f"{10**at:.3g}") if each.log else float(f"{at:.6g}")
            values[each.name] = round(value) if each.whole else value
        found.append(knobs(**values))
    return found


def check_agreement(name: str, count: int, seed: int) -> None:
    scene = load_scene(name)
    for knobs in positions(scene.knobs, count, seed):
        theory, allowed = scene.theory(knobs), scene.allowed(knobs)
        trained = list(scene.train(knobs, ignore))
        assert trained, knobs
        for each in (theory, *trained):
            values = [
                each.compared,
                *(a for g in (each.columns, each.frames) for c in g.values() for a in c.values()),
            ]
            assert all(np.isfinite(value).all() for value in values), knobs
        if allowed is not None:
            apart = [difference(theory, each) for each in trained]
            assert max(apart) <= allowed, f"{knobs}: {max(apart):.3g} > {allowed:.3g}"


@scenes
def test_theory_and_training_agree(name):
    check_agreement(name, 3, seed=1)


@pytest.mark.slow
@scenes
def test_theory_and_training_agree_at_twenty_positions(name):
    check_agreement(name, 20, seed=2)


@scenes
def test_the_shown_code_gives_the_plotted_numbers(name):
    scene = load_scene(name)
    for knobs in [scene.knobs(), *positions(scene.knobs, 2, seed=3)]:
        theory = scene.theory(knobs)
        first = next(iter(scene.train(knobs, ignore)))
        shown: dict = {}
        exec(scene.words(knobs, theory)["python"], shown)
        scale = np.abs(theory.compared).max()
        np.testing.assert_allclose(shown["predicted"], theory.compared, rtol=0, atol=1e-6 * scale)
        np.testing.assert_allclose(shown["measured"], first.compared, rtol=0, atol=1e-6 * scale)


@scenes
def test_every_number_has_its_place_in_a_plot(name):
    scene = load_scene(name)
    knobs = scene.knobs()
    places = {}
    for plot in scene.plots():
        for renderer in plot.renderers:
            source = renderer.data_source  # pyright: ignore[reportAttributeAccessIssue]
            places.setdefault(source.name, set()).update(source.data)
    numbers = {"theory": scene.theory(knobs)} | dict(enumerate(scene.train(knobs, ignore)))
    for seed, each in numbers.items():
        for group in (each.columns, each.frames):
            for source, columns in group.items():
                assert set(columns) <= places.get(f"{source}.{seed}", set()), f"{source}.{seed}"
        assert (each.times is None) == (not each.frames)


@scenes
def test_what_to_notice_changes_with_the_knobs(name):
    scene = load_scene(name)
    chosen = [scene.knobs(), *positions(scene.knobs, 6, seed=4)]
    said = {scene.words(knobs, scene.theory(knobs))["notice"] for knobs in chosen}
    assert len(said) > 1
    assert all(10 < len(words) < 400 for words in said)
