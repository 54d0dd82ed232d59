"""What is measured on the networks of Figure 3, and what is predicted for them."""

import numpy as np
import xarray as xr
from jaxtyping import Float, Real

from ....diagnose import effective_width, plateaus
from ....networks import Layer
from ....tasks import Task
from ._lessons import Lesson
from ._narrow import accuracy, difference, narrow_networks
from ._pairs import descent_rate

STAGES = ("plateau", "second drop", "end")
"""Where networks are reduced: between the drops, when the second one is over, and at the end."""

THRESHOLD = 0.1
"""Size of a singular value of U by which its growth is timed: small enough to be exponential."""

_PLATEAUS = 3


def curves(lesson: Lesson) -> xr.Dataset:
    """Loss and leading singular values of the first layer over training."""
    return xr.Dataset(
        {
            "loss": ("save", lesson.loss),
            "singular_value": (("save", "rank"), lesson.singular_value),
        },
        coords={"step": ("save", lesson.step), "rank": 1 + np.arange(3)},
    )


def staircase(lesson: Lesson, learning_rate: float) -> xr.Dataset:
    """Plateaus by the loss alone, and when and how fast each singular value grows.

    Of a loss with other than three plateaus only their number is told.
    """
    found = plateaus(lesson.step.astype(float), lesson.loss)
    clean = len(found) == _PLATEAUS

    def told(values: np.ndarray, count: int) -> np.ndarray:
        return np.asarray(values, float) if clean else np.full(count, np.nan)

    return xr.Dataset(
        {
            "count": ((), len(found)),
            "level": ("plateau", told(found.level, _PLATEAUS)),
            "start": ("plateau", told(found.start, _PLATEAUS)),
            "end": ("plateau", told(found.end, _PLATEAUS)),
            "rest": ("plateau", told(found.time, _PLATEAUS)),
            "drop_step": ("mode", told(found.drop_time, _PLATEAUS - 1)),
            "passage": (
                "mode",
                [passage(lesson.step, s, THRESHOLD) for s in lesson.singular_value.T[:2]],
            ),
            "growth": ("mode", [_growth(lesson, mode, learning_rate) for mode in range(2)]),
        }
    )


def passage(
    steps: Real[np.ndarray, " save"], values: Float[np.ndarray, " save"], threshold: float
) -> float:
    """Step at which values first pass the threshold, interpolated in ln between saves.

    NaN if they never do, or have done so from the start.
    """
    above = int(np.argmax(values > threshold))
    if above == 0:
        return np.nan
    pair = slice(above - 1, above + 1)
    return float(np.interp(np.log(threshold), np.log(values[pair]), steps[pair]))


def _growth(lesson: Lesson, mode: int, learning_rate: float) -> float:
    """Rate of its exponential growth in t = 2ηn, from well above noise to half the threshold."""
    values = lesson.singular_value[:, mode]
    grown = int(np.argmax(values > THRESHOLD / 2))
    small = values[:grown]
    among = np.flatnonzero(small > 10 * lesson.singular_value[0, 0])
    if len(among) < 2:
        return np.nan
    t = 2 * learning_rate * lesson.step[among]
    return float(np.polyfit(t, np.log(small[among]), 1)[0])


def predicted(
    network: Layer, sigma_yx: Float[np.ndarray, "output input"], learning_rate: float
) -> xr.Dataset:
    r"""The same from the data and the initial weights of a linear network alone.

    Mode k of Σ_yx starts with $c_{ki} = (q_k\cdot v_i + r_k\cdot u_i)/\sqrt2$ in unit i, and grows
    by $1 + 2\eta s_k$ a step (Theorem 4 and Eq. 35), half of it in U. As if nothing
    else were learned: Σ_xx is so ill conditioned that the first mode, when it has been learned, has
    hardly changed what is left of the second.
    """
    q, s, r = np.linalg.svd(sigma_yx, full_matrices=False)
    c = (np.asarray(network.v) @ q + np.asarray(network.u) @ r.T) / np.sqrt(2)
    initial = np.linalg.norm(c, axis=0) / np.sqrt(2)
    return xr.Dataset(
        {
            "singular_value": ("mode", s),
            "growth": ("mode", descent_rate(s, learning_rate)),
            "passage": ("mode", np.log(THRESHOLD / initial) / np.log1p(2 * learning_rate * s)),
        }
    )


def narrowed(lesson: Lesson, steps: xr.Dataset, judged: Task, test: Task) -> xr.Dataset:
    """Networks of width one and two that come closest to the wide one, at each of the stages.

    - `error`: root mean square of f − f_h over training images, for h = 0, 1, 2; targets have
      size one.
    - `test_error`, `accuracy`, `narrow_accuracy`: on the test set, for h = 2.
    - `ray_width`: how many units the nearest invariant manifold has without optimising.
    """
    errors = np.full((len(STAGES), 3), np.nan)
    tests = np.full((4, len(STAGES)), np.nan)
    if int(steps["count"]) == _PLATEAUS:
        rest, settled = float(steps["rest"][1]), float(steps["start"][2])
        for stage, step in enumerate((rest, settled, lesson.step[-1])):
            single = lesson.networks[int(np.searchsorted(lesson.step, step))]
            wide = single.with_parts(*(np.asarray(part, float) for part in single.parts))
            outputs, tested = wide.predict(judged.x), wide.predict(test.x)
            errors[stage, 0] = difference(outputs, np.zeros_like(outputs))
            one, two = narrow_networks(wide, (1, 2), judged)
            for width, narrow in ((1, one), (2, two)):
                errors[stage, width] = difference(outputs, narrow.predict(judged.x))
            guessed = two.predict(test.x)
            tests[:, stage] = (
                difference(tested, guessed),
                accuracy(tested, test),
                accuracy(guessed, test),
                effective_width(wide, judged).width,
            )
    names = ("test_error", "accuracy", "narrow_accuracy", "ray_width")
    return xr.Dataset(
        {
            "error": (("stage", "width"), errors),
            **{name: ("stage", values) for name, values in zip(names, tests, strict=True)},
        },
        coords={"stage": list(STAGES), "width": [0, 1, 2]},
    )
