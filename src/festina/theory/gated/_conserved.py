"""Quantities that gradient flow conserves in a gated network."""

import numpy as np
from jaxtyping import Float

from ...networks import Gated
from ._samples import check_gated


def conserved_quantities(network: Gated) -> dict[str, Float[np.ndarray, "*batch _ _"]]:
    r"""Return the matrix that gradient flow conserves at each hidden node of a gated network.

    At a hidden node v with incoming edges $e \to v$ and outgoing edges $e \leftarrow v$, the matrix
    $\sum_{e \to v} W_e W_e^\top - \sum_{e \leftarrow v} W_e^\top W_e$ is constant for any gates.
    Each of the two sums changes by $\langle g_v b_v a_v^\top\rangle$ plus its transpose. Here $g_v$
    is the gate of v, $a_v$ its summed input and $b_v$ the error that is propagated back to v.

    **Example:**

    >>> from festina.networks import gated_from
    >>> from festina.theory.gated import conserved_quantities
    >>> conserved_quantities(gated_from({"x-h": [[1.0, 1.0]], "h-y": [[2.0]]}))  # 1 + 1 − 4
    {'h': array([[-2.]])}
    """
    check_gated(network)
    weights = dict(zip(network.plan.edges, map(np.asarray, network.parts), strict=True))
    found = {}
    for node in (name for name, _ in network.plan.nodes if name not in network.plan.outputs):
        into = [w @ w.swapaxes(-1, -2) for (_, target), w in weights.items() if target == node]
        out_of = [w.swapaxes(-1, -2) @ w for (source, _), w in weights.items() if source == node]
        found[node] = np.sum(into, axis=0) - np.sum(out_of, axis=0)
    return found
