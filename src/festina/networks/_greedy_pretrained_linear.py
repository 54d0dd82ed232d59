"""Initial weights after greedy layer-wise pretraining."""

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
    r"""Return a deep linear network whose hidden layers were pretrained greedily as autoencoders.

    Greedy pretraining (Saxe, McClelland & Ganguli 2014) trains each hidden layer as the first layer
    of a linear autoencoder of the activity below it, and keeps only this first layer. The
    autoencoder starts from small balanced weights that are aligned with the input modes V, and the
    product of its weights grows towards the identity. If training of an autoencoder with m layers
    stops when the product is a times the identity, the first layer is

    $$W_l = a^{1/m}\,R_l R_{l-1}^\top, \qquad R_0 = V,$$

    with random orthonormal columns in each $R_l$, l ≥ 1. The function computes the pretrained
    weights without training. The last layer, the readout, is not pretrained; it is drawn from N(0,
    scale²).

    **Arguments:**

    - `widths`: layer sizes from input to output. No hidden layer may be wider than the layer before
      it, because an autoencoder of k numbers learns only k hidden directions.
    - `fraction`: a, fraction of the identity at which pretraining stops, 0 < a ≤ 1.
    - `module_depth`: m, number of weight matrices of each autoencoder, at least 2.
    - `readout_scale`: standard deviation of the last layer's weights.
    - `input_modes`: V `(input, mode)`, by default the coordinate axes. If the first hidden layer is
      narrower than the input, the first columns of V are kept.
    - `key`: random key, or an array of keys for a batch.

    **Example:**

    >>> import jax
    >>> import numpy as np
    >>> from festina.networks import greedy_pretrained_linear
    >>> w1, w2 = greedy_pretrained_linear((3, 2, 1), fraction=0.81, key=jax.random.key(0)).weights
    >>> np.linalg.svd(w1, compute_uv=False)
    array([0.9, 0.9])
    """
    widths = check_widths(widths)
    *hidden, readout = layer_shapes(widths)
    if any(n_out > n_in for n_out, n_in in hidden):
        raise ValueError(
            "`widths` of hidden layers must not grow from layer to layer, because an autoencoder "
            f"learns only as many hidden directions as it has inputs; got {widths}."
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
