"""Handwritten digits, a few classes at a time."""

from collections.abc import Sequence

import numpy as np

from .._checks import whole_numbers
from ._mnist_files import Split, read_split
from ._task import Task, from_arrays


def mnist_digits(digits: Sequence[int] = (3, 5), *, split: Split = "train") -> Task:
    r"""Return the task to tell MNIST digits apart: pixels in [0, 1], one-hot targets as in
    `digits`.

    Inputs are the 28 × 28 pixels in a row, neither centred nor scaled otherwise; as Zhang, Saxe &
    Latham's Figure 3 and Table 1 have them.

    The files are looked for in the folder that the environment variable `FESTINA_DATA` names (or
    `mnist` in there), then in the user's cache for festina, and are downloaded to the latter, with
    their checksums, where they are in neither.

    **Arguments:**

    - `digits`: two or more different ones. Only their images are taken.
    - `split`: `"train"` (60,000 images of all digits) or `"test"` (10,000).

    **Returns:**

    A finite `Task` with inputs `(784,)`, one output for each of `digits`, and the label `digit`.
    """
    chosen = whole_numbers("digits", digits, 0)
    different = len(set(chosen)) == len(chosen) >= 2
    if not different or not set(chosen) <= set(range(10)):
        raise ValueError(
            f"`digits` must be two or more different digits from 0 to 9, got {tuple(digits)}."
        )
    if split not in ("train", "test"):
        raise ValueError(f'`split` must be "train" or "test", got {split!r}.')
    images, labels = read_split(split)
    among = np.isin(labels, chosen)
    missing = set(chosen) - set(labels[among].tolist())
    if missing:
        raise ValueError(
            f"There is no image of {', '.join(map(str, sorted(missing)))} in MNIST's {split} files."
        )
    x = images[among].reshape(-1, images[0].size) / 255.0
    digit = labels[among]
    y = (digit[:, None] == np.array(chosen)).astype(float)
    return from_arrays(x, y, labels={"digit": digit})
