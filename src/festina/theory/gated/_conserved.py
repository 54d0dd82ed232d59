"""What gradient flow conserves in a gated network."""

import numpy as np
from jaxtyping import Float

from ...networks import Gated
from ._samples import check_gated


def conserved_quantities(network: Gated) -> dict[str, Float[np.ndarray, "*batch _ _"]]:
    r"""Return $\sum_{e \to v} W_e W_e^\top - \sum_{e \leftarrow v} W_e^\top W_e$ of every hidden
    node v.

    Constant under gradient flow whatever the gates: both sums change by
    $\langle g_v b_v a_v^\top\rangle$ plus its transpose, a_v being what arrives at v and b_v what
    comes back.
    """
    check_gated(network)
    weights = dict(zip(network.plan.edges, map(np.asarray, network.parts), strict=True))
    found = {}
    for node in (name for name, _ in network.plan.nodes if name not in network.plan.outputs):
        into = [w @ w.swapaxes(-1, -2) for (_, target), w in weights.items() if target == node]
        out_of = [w.swapaxes(-1, -2) @ w for (source, _), w in weights.items() if source == node]
        found[node] = np.sum(into, axis=0) - np.sum(out_of, axis=0)
    return found
