"""Write animations to GIF and MP4 files."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib import rc_context
from matplotlib.animation import FFMpegWriter, FuncAnimation, PillowWriter

from ._ffmpeg import ffmpeg

if TYPE_CHECKING:
    from .._registry import Progress

_DPI = 130
_COLOURS = 64


class _SmallGif(PillowWriter):
    """Write frames with one common palette, so that only moving parts differ between frames."""

    def finish(self) -> None:
        from PIL import Image

        drawn: list[Image.Image] = self._frames  # pyright: ignore[reportAttributeAccessIssue]
        if not drawn:  # drawing the first frame failed with its own error
            return
        # The last frame contains every colour, because nothing that was drawn disappears.
        palette = drawn[-1].convert("RGB").quantize(_COLOURS, Image.Quantize.FASTOCTREE)
        colours, paper = palette.getpalette() or [], palette.getpixel((0, 0))
        assert isinstance(paper, int)
        colours[3 * paper : 3 * paper + 3] = 255, 255, 255  # quantising makes white slightly grey
        palette.putpalette(colours)
        frames = [
            frame.convert("RGB").quantize(palette=palette, dither=Image.Dither.NONE)
            for frame in drawn
        ]
        frames[0].save(
            self.outfile,
            save_all=True,
            append_images=frames[1:],
            duration=int(1000 / self.fps),
            loop=0,
        )


def save_animation(
    animation: FuncAnimation,
    path: str | os.PathLike[str],
    *,
    size: tuple[float, float] | None = None,
    dpi: float | None = None,
    progress: "Progress | None" = None,
) -> None:
    """Write an animation to a GIF or MP4 file.

    **Arguments:**

    - `animation`: matplotlib animation, for example from `animate` of a
      `festina.experiments.Experiment`.
    - `path`: file that ends in `.gif` or `.mp4`. MP4 needs ffmpeg, which the optional dependency
      `festina[video]` installs.
    - `size`: width and height in inches; the default is the size of the animation's figure.
    - `dpi`: dots per inch; the default is 130.
    - `progress`: function that is called with a text and the fraction of the frames that are drawn.

    **Example:**

    >>> import pathlib, tempfile
    >>> from matplotlib.animation import FuncAnimation
    >>> from festina.experiments.figures import panels, save_animation
    >>> figure, ax = panels("Growth")
    >>> animation = FuncAnimation(figure, lambda k: ax.plot([0, k], [0, 1]), frames=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_animation(animation, folder + "/growth.gif", size=(2.0, 2.0))
    ...     pathlib.Path(folder, "growth.gif").read_bytes()[:3]
    b'GIF'
    """
    path = Path(path)
    rate: Any = 1000 / animation._interval  # pyright: ignore[reportAttributeAccessIssue]
    program = ffmpeg() if path.suffix == ".mp4" else None
    if path.suffix == ".gif":
        writer = _SmallGif(fps=rate)
    elif path.suffix == ".mp4":
        if program is None:
            raise ValueError(
                f"'{path}' needs ffmpeg, which is not installed. Install it with pip install "
                "'festina[video]', or write a .gif file."
            )
        writer = FFMpegWriter(fps=rate)
    else:
        raise ValueError(f"`path` must end in .gif or .mp4, got '{path}'.")
    if size is not None:
        animation._fig.set_size_inches(*size)  # pyright: ignore[reportAttributeAccessIssue]
    with rc_context({"animation.ffmpeg_path": program or "ffmpeg"}):
        animation.save(path, writer=writer, dpi=dpi or _DPI, progress_callback=_told(progress))


def _told(progress: "Progress | None") -> Callable[[int, int | None], None] | None:
    """Return matplotlib's callback, which takes the index of a frame and the number of frames."""
    if progress is None:
        return None
    return lambda k, count: progress(
        f"drawing frame {k + 1}" + f" of {count}" * bool(count), (k + 1) / count if count else 0.0
    )
