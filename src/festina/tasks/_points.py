"""Small data sets of two or four points."""

import numpy as np

from .._checks import number
from ._task import Task, from_arrays


def two_orthogonal_points() -> Task:
    """Return the task of two orthogonal inputs with the targets +1 and −1.

    The task appears in Figure 1D of Zhang, Saxe & Latham, after Boursier et al. (2022).

    **Example:**

    >>> from festina.tasks import two_orthogonal_points
    >>> task = two_orthogonal_points()
    >>> task.x @ task.x.T
    array([[1.25, 0.  ],
           [0.  , 5.  ]])
    """
    return from_arrays([[1.0, 0.5], [-1.0, 2.0]], [1.0, -1.0])


def figure_1e_points() -> Task:
    """Return four inputs, one along each axis, with the targets of the linear teacher of Figure 1C.

    The task appears in Figure 1E of Zhang, Saxe & Latham.

    **Example:**

    >>> from festina.tasks import figure_1e_points
    >>> task = figure_1e_points()
    >>> task.x.diagonal().round(3)
    array([2.   , 2.   , 2.828, 2.   ])
    """
    x = np.diag([2.0, 2.0, 2.0 * np.sqrt(2.0), 2.0])
    return from_arrays(x, x @ np.array([1.0, 1.0, -1.0, 1.0]) / np.sqrt(5))


def xor(delta: float | None = None) -> Task:
    r"""Return the XOR task: $y = -x_1 x_2$ for the four inputs $x_1, x_2 = \pm 1$.

    With `delta` there is a third input, $x_3 = \Delta\, y$, which makes the classes linearly
    separable: each class has the distance Δ from the plane $x_3 = 0$. With Δ = 0 the third input
    exists but is always zero. The label `example` numbers the inputs.

    **Example:**

    >>> import numpy as np
    >>> from festina.tasks import xor
    >>> task = xor(0.5)
    >>> np.column_stack((task.x, task.y))
    array([[-1. , -1. , -0.5, -1. ],
           [-1. ,  1. ,  0.5,  1. ],
           [ 1. , -1. ,  0.5,  1. ],
           [ 1. ,  1. , -0.5, -1. ]])
    """
    x = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    y = -np.prod(x, axis=1)
    if delta is not None:
        x = np.column_stack((x, number("delta", delta) * y))
    return from_arrays(x, y, labels={"example": np.arange(4)})
