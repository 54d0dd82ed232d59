"""From lazy to rich: the balance between two layers decides whether features are learned."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

import numpy as np
from bokeh.plotting import figure

from ...diagnose import passage_time, tangent_kernel_distance
from ...dynamics import gradient_flow
from ...networks import DeepLinear, lambda_balanced
from ...tasks import from_moments, linear_teacher, signed_tree_features
from ...theory.linear import BalancedFlow, balanced_flow
from .._plots import curves, heat, plot
from .._scene import Numbers, Progress, SceneKnobs, choice, slider

COMPARED = "the course of loss and kernel"
_NETWORKS, _TIMES, _ITEMS = 3, 61, 8


class Knobs(SceneKnobs):
    balance: float = slider("balance λI = W₂ᵀW₂ − W₁W₁ᵀ", 0.0, -5.0, 5.0, step=0.1)
    scale: float = slider("initial scale σ of the weights", 0.1, 0.01, 0.3, log=True)
    widths: Literal["8-8-8 square", "8-4-4 funnel", "4-4-8 inverted", "8-4-8 bottleneck"] = choice(
        "widths: inputs-hidden-outputs", "8-8-8 square"
    )
    ratio: float = slider("target: strength ratio of successive levels", 2.0, 1.2, 2.5, step=0.1)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Return the numbers of inputs, hidden units and outputs."""
        inputs, hidden, outputs = map(int, self.widths.split()[0].split("-"))
        return inputs, hidden, outputs


WARM = [Knobs(widths=widths) for widths in ("8-4-8 bottleneck", "4-4-8 inverted", "8-4-4 funnel")]


def plots() -> list[figure]:
    """Return the plots: loss and kernel over time, similarity of inputs and of outputs."""
    learning = plot("Loss and kernel", "time t/τ", "relative value", time=True)
    for number in range(_NETWORKS):
        legend = () if number else ("loss / initial loss", "kernel: 1 − cos(K(0), K(t))")
        curves(learning, f"learning{number}", columns=("loss", "kernel"), legend=legend)
    made = [learning]
    for name, what in (("inputs", "inputs, W₁ᵀW₁"), ("outputs", "outputs, W₂W₂ᵀ")):
        matrix = plot(
            f"Similarity of {what}", "above the diagonal: theory", f"{name} (red: similar)"
        )
        heat(matrix, name, _ITEMS, seed="theory", half="upper")
        heat(matrix, name, _ITEMS, half="lower")
        for axis in matrix.axis:
            axis.update(major_tick_line_color=None, major_label_text_alpha=0.0)
        made.append(matrix)
    return made


def theory(knobs: Knobs) -> Numbers:
    """Return the exact solution from the initial weights of each network."""
    times = _times(knobs)
    solution = _flow(knobs)(times)
    loss, moved = np.asarray(solution.loss()), np.asarray(solution.kernel_distance())
    grams = np.asarray(solution.input_gram)[0], np.asarray(solution.output_gram)[0]
    return _numbers(times, loss, moved, grams, np.triu_indices(_ITEMS, 1))


def train(knobs: Knobs, progress: Progress) -> Iterator[Numbers]:
    """Train three networks with random weights of the same balance."""
    times, task = _times(knobs), linear_teacher(_correlation(knobs))
    run = gradient_flow(_networks(knobs), task, times, rtol=1e-6, progress=progress)
    moved = tangent_kernel_distance(run, np.eye(knobs.sizes[0]))
    first, second = (np.asarray(weight)[0] for weight in run.network.weights)
    grams = np.einsum("thi,thj->tij", first, first), np.einsum("toh,tph->top", second, second)
    yield _numbers(times, run.loss, moved, grams, np.tril_indices(_ITEMS))


def allowed(knobs: Knobs) -> float | None:
    return 1e-5


def notice(knobs: Knobs, theory: Numbers) -> str:
    (loss, moved), lam = theory.compared[:, 0], knobs.balance
    times, end = _times(knobs), float(moved[-1])
    half = float(passage_time(times, loss, loss[0] / 2))
    turned = float(passage_time(times, -moved, -end / 2))
    inputs, hidden, outputs = knobs.sizes
    minus = lambda number: f"{number:g}".replace("-", "−")
    large, small, side, count = (
        ("second", "first", "outputs", outputs)
        if lam > 0
        else ("first", "second", "inputs", inputs)
    )
    if end < 0.05 and abs(lam) >= 2:
        return (
            f"Lazy: the kernel moves by only {end:.1g}, while the loss is halved at t/τ = "
            f"{half:.2g}. At λ = {minus(lam)} the {large} layer has the larger weights and already "
            f"spans all {count} {side}: learning in the small {small} layer suffices."
        )
    if end < 0.05:
        return (
            f"Nearly lazy: the kernel grows, but its direction changes by only {end:.1g}. At λ = "
            f"{minus(lam)} the {large} layer starts with about equal weights along all {count} "
            f"{side}, so no direction has to be found. Raise |λ| for a kernel that does not change "
            "at all."
        )
    if turned > 2 * half and hidden < count:
        return (
            f"Delayed rich: the loss is halved at t/τ = {half:.2g}, but the kernel has changed "
            f"halfway only at {turned:.2g}. The larger {large} layer spans {hidden} of {count} "
            f"{side}, in random directions. It must rotate towards the tree, so the blocks appear "
            "late."
        )
    return (
        f"Rich: the kernel ends at a distance of {end:.2g} from its start. At balance λ = "
        f"{minus(lam)} neither layer is large enough at the start to learn the target alone. Both "
        "layers grow together, and the blocks of the tree appear in both, broad before fine."
    )


def python(knobs: Knobs) -> str:
    inputs, hidden, outputs = knobs.sizes
    flip = (
        "same = np.linalg.det(product) * np.linalg.det(correlation) > 0\n"
        "product[~same, 0] *= -1  # otherwise λ = 0 cannot learn the target\n"
    )
    return f"""\
import numpy as np
import festina
from festina.theory import linear

inputs, hidden, outputs = {knobs.sizes}
balance, scale, ratio = {knobs.balance}, {knobs.scale}, {knobs.ratio}
trees = [festina.tasks.signed_tree_features(n.bit_length() - 1) for n in (inputs, outputs)]
right, left = (tree / np.linalg.norm(tree, axis=1, keepdims=True) for tree in trees)
strengths = ratio ** -np.array([0.0, 0, 1, 1, 2, 2, 2, 2])[:hidden]
correlation = (left[:hidden].T * strengths) @ right[:hidden]

rng = np.random.default_rng(0)
second = rng.standard_normal(({_NETWORKS}, outputs, hidden))
first = rng.standard_normal(({_NETWORKS}, hidden, inputs))
product = scale**2 * second @ first
{flip if inputs == hidden == outputs else ""}networks = festina.networks.lambda_balanced(
    (inputs, hidden, outputs), balance=np.full({_NETWORKS}, balance), product=product
)

times = {_end(knobs)} * np.linspace(0, 1, {_TIMES}) ** 2
task = festina.tasks.from_moments(correlation)
exact = linear.balanced_flow(networks, task, balance=balance)(times)
predicted = np.stack([exact.loss() / exact.loss()[:, :1], exact.kernel_distance()])
run = festina.gradient_flow(networks, festina.tasks.linear_teacher(correlation), times, rtol=1e-6)
moved = festina.diagnose.tangent_kernel_distance(run, np.eye(inputs))
measured = np.stack([run.loss / run.loss[:, :1], moved])
"""


def shell(knobs: Knobs) -> str:
    name = "regime-map" if "bottleneck" in knobs.widths else "regimes"
    return f"festina run linear/{name}" + f" --scale {knobs.scale}" * (name == "regimes")


def _numbers(
    times: np.ndarray,
    loss: np.ndarray,
    moved: np.ndarray,
    grams: tuple[np.ndarray, np.ndarray],
    cells: tuple[np.ndarray, np.ndarray],
) -> Numbers:
    """Return curves of every network, and half of the similarity matrices of the first one."""
    frames = {}
    for name, gram in zip(("inputs", "outputs"), grams, strict=True):
        repeats = _ITEMS // gram.shape[-1]  # four rows are drawn as eight
        whole = (gram / np.abs(gram).max()).repeat(repeats, axis=1).repeat(repeats, axis=2)
        frames[name] = {"value": whole[:, cells[0], cells[1]]}
    loss = loss / loss[:, :1]
    columns = {
        f"learning{number}": {"x": times, "loss": one, "kernel": other}
        for number, (one, other) in enumerate(zip(loss, moved, strict=True))
    }
    return Numbers(np.stack([loss, moved]), columns, frames, times)


def _correlation(knobs: Knobs) -> np.ndarray:
    """Return a target whose modes are the splits of a tree of inputs and a tree of outputs."""
    inputs, hidden, outputs = knobs.sizes
    strengths = knobs.ratio ** -np.array([0.0, 0, 1, 1, 2, 2, 2, 2])[:hidden]
    right, left = (_tree(size)[:hidden] for size in (inputs, outputs))
    return (left.T * strengths) @ right


def _tree(items: int) -> np.ndarray:
    features = signed_tree_features(items.bit_length() - 1)
    return features / np.linalg.norm(features, axis=1, keepdims=True)


def _networks(knobs: Knobs) -> DeepLinear:
    inputs, hidden, outputs = knobs.sizes
    rng = np.random.default_rng(0)
    second = rng.standard_normal((_NETWORKS, outputs, hidden))
    first = rng.standard_normal((_NETWORKS, hidden, inputs))
    product = knobs.scale**2 * second @ first
    if inputs == hidden == outputs:
        # At λ = 0 the sign of the determinant is conserved.
        same = np.linalg.det(product) * np.linalg.det(_correlation(knobs)) > 0
        product[~same, 0] *= -1
    return lambda_balanced(knobs.sizes, balance=np.full(_NETWORKS, knobs.balance), product=product)


def _flow(knobs: Knobs) -> BalancedFlow:
    task = from_moments(_correlation(knobs))
    return balanced_flow(_networks(knobs), task, balance=knobs.balance)


def _end(knobs: Knobs) -> float:
    return _settled(knobs.model_dump_json())


@lru_cache(16)
def _settled(text: str) -> float:
    """Return the time at which loss and kernel hardly change any more, to two digits."""
    knobs = Knobs.model_validate_json(text)
    times = np.append(0.0, np.geomspace(1e-2, 1e5, _TIMES - 1))
    solution = _flow(knobs)(times)
    still = np.ones(_TIMES, dtype=bool)
    for curve in (np.asarray(solution.loss()), np.asarray(solution.kernel_distance())):
        rest = np.abs(curve - curve[:, -1:]) / np.ptp(curve, axis=1, keepdims=True)
        still &= (rest < 0.02).all(axis=0)
    return float(f"{1.2 * times[np.flatnonzero(~still)[-1] + 1]:.2g}")


def _times(knobs: Knobs) -> np.ndarray:
    return _end(knobs) * np.linspace(0, 1, _TIMES) ** 2
