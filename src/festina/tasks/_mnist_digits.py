"""Classification of some of MNIST's handwritten digits."""

from collections.abc import Sequence

import numpy as np

from .._checks import whole_numbers
from ._mnist_files import Split, read_split
from ._task import Task, from_arrays


def mnist_digits(digits: Sequence[int] = (3, 5), *, split: Split = "train") -> Task:
    r"""Return the task of classifying images of some MNIST digits, with one-hot targets.

    Inputs are vectors of the 28 × 28 pixels in [0, 1], not centred, as in Figure 3 and Table 1 of
    Zhang, Saxe & Latham.

    The files are read from the folder named by the environment variable `FESTINA_DATA` or its
    subfolder `mnist`, else from the user's cache for festina. Files that are in neither place are
    downloaded to the cache, and their checksums are verified.

    **Arguments:**

    - `digits`: two or more different digits. Images of other digits are left out.
    - `split`: "train" (60,000 images of all digits) or "test" (10,000 images).

    **Returns:**

    A finite `Task` with inputs `(784,)`, one output for each of the `digits` in the order given,
    and the label `digit`.

    **Example:**

    The example may download MNIST.

    >>> from festina.tasks import mnist_digits
    >>> mnist_digits((3, 5), split="test")  # doctest: +SKIP
    Task(1902 samples, inputs (784,), 2 outputs)
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
            " Replace the files with the published ones."
        )
    x = images[among].reshape(-1, images[0].size) / 255.0
    digit = labels[among]
    y = (digit[:, None] == np.array(chosen)).astype(float)
    return from_arrays(x, y, labels={"digit": digit})
