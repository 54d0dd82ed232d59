"""How the scalar target of Figures 1C and 1E becomes the two of Figures 5B and 5D.

w*·x is a sum over four inputs: two patches of two taps each. The paper does not say in which way it
is split; the two outputs can have a patch each, or a kernel tap each.
"""

from typing import Literal

import numpy as np
from jaxtyping import Float

Split = Literal["tap", "patch"]

_OUTPUTS = {"patch": ((0, 1), (2, 3)), "tap": ((0, 2), (1, 3))}


def split_teacher(split: Split) -> Float[np.ndarray, "2 4"]:
    """W* (output, input): the weights (1, 1, −1, 1)/√5 of Figure 1C, divided among two outputs."""
    weights = np.array([1.0, 1.0, -1.0, 1.0]) / np.sqrt(5)
    teacher = np.zeros((2, 4))
    for output, inputs in enumerate(_OUTPUTS[split]):
        teacher[output, list(inputs)] = weights[list(inputs)]
    return teacher
