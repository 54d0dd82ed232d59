"""Initial weights that greedy layer-wise pretraining leaves."""

import itertools
from collections.abc import Sequence

import numpy as np

from .._checks import number, whole_number
from .._precision import float64
from .._types import ArrayLike, Keys
from ._build import check_batch, check_keys, check_scale, normals
from ._deep_linear import DeepLinear, check_widths, layer_shapes
from ._frames import check_frame, joined, orthonormal
from ._labels import seed_labels


@float64
def greedy_pretrained_linear(
    widths: Sequence[int],
    *,
    fraction: float = 0.99,
    module_depth: int = 2,
    readout_scale: ArrayLike = 1e-3,
    input_modes: ArrayLike | None = None,
    key: Keys,
) -> DeepLinear:
    r"""Return a `DeepLinear` pretrained layer by layer as autoencoders, with a small random
    readout.

    Greedy pretraining (Saxe, McClelland & Ganguli, 2014) trains each hidden layer as the first of a
    linear autoencoder of what the layer below hands on, and then drops the rest of that module.
    From small weights that are aligned with the modes V of the input, the autoencoder's product
    grows towards the identity in every mode: its correlation equals its input's variance, so that
    the target is one whatever the variance. Balanced, a module of m layers that is stopped where
    its product is the fraction a of the identity leaves

    $$W_l = a^{1/m}\,R_l R_{l-1}^\top, \qquad R_0 = V,$$

    with random frames $R_l$: nearly orthogonal, and in the form of `decoupled`. The readout has
    seen no target yet and is drawn from N(0, scale²). How long the modules take is
    that of a scalar chain of their depth from its initial strength to a; it is paid once per
    hidden layer.

    **Arguments:**

    - `widths`: layer sizes from input to output. No hidden layer may be wider than the one before:
      an autoencoder of k numbers brings only k hidden directions to life.
    - `fraction`: a, of the identity at which pretraining stops, above 0 and at most 1.
    - `module_depth`: m, weight matrices of one autoencoder, two or more.
    - `readout_scale`: standard deviation of the last layer.
    - `input_modes`: V `(input, mode)`, all of them or, in a narrow network, those that the first
      layer keeps; the coordinate axes by default, which for white inputs are as good as any.
    - `key`: randomness.
    """
    widths = check_widths(widths)
    *hidden, readout = layer_shapes(widths)
    if any(n_out > n_in for n_out, n_in in hidden):
        raise ValueError(
            "`widths` of hidden layers must not grow, because an autoencoder brings only as many "
            f"hidden directions to life as it has inputs: got {widths}."
        )
    if not 0 < (fraction := number("fraction", fraction)) <= 1:
        raise ValueError(f"`fraction` must lie above 0 and be at most 1, got {fraction}.")
    module_depth = whole_number("module_depth", module_depth, least=2)
    scales, key = check_scale(readout_scale, name="readout_scale"), check_keys(key)
    check_batch(scales, key, name="readout_scale")
    modes = np.eye(widths[0]) if input_modes is None else check_frame("input_modes", input_modes)
    kept = widths[1] if hidden else widths[0]
    if len(modes) != widths[0] or modes.shape[1] < kept:
        raise ValueError(
            f"`input_modes` must be ({widths[0]}, mode) with at least {kept} modes for widths "
            f"{widths}, got {modes.shape}."
        )
    *draws, last = normals(key, (*((n, n) for n, _ in hidden), readout))
    frames = [modes, *map(orthonormal, draws)]
    layers = (
        fraction ** (1 / module_depth) * after @ before[..., : len(after.T)].swapaxes(-1, -2)
        for before, after in itertools.pairwise(frames)
    )
    network = joined(*layers, scales[..., None, None] * last)
    return network.with_labels({"readout_scale": scales, **seed_labels(key)})
