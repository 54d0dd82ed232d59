"""Write animations to files."""

import os
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.animation import FFMpegWriter, FuncAnimation, PillowWriter

from ._ffmpeg import ffmpeg

_DPI = 130
_COLOURS = 64


class _SmallGif(PillowWriter):
    """Frames with one palette for all: neighbouring ones then differ only where something moved."""

    def finish(self) -> None:
        from PIL import Image

        drawn: list[Image.Image] = self._frames  # pyright: ignore[reportAttributeAccessIssue]
        if not drawn:  # drawing the first one failed, and says why itself
            return
        # The last frame has every colour that there is: nothing that was drawn goes away.
        palette = drawn[-1].convert("RGB").quantize(_COLOURS, Image.Quantize.FASTOCTREE)
        colours, paper = palette.getpalette() or [], palette.getpixel((0, 0))
        assert isinstance(paper, int)
        colours[3 * paper : 3 * paper + 3] = 255, 255, 255  # the mean of nearly white ones is less
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
) -> None:
    """Write what an experiment's `animate` returns, as a GIF or an MP4.

    `experiment = festina.experiments.load_experiment("saddles/figure-1b")`, then
    `save_animation(experiment.animate(run), "weights.gif")`.

    **Arguments:**

    - `animation`: of `matplotlib.animation`.
    - `path`: ends in `.gif`, or in `.mp4`, which needs ffmpeg (the extra `video` has it).
    - `size`: width and height in inches, instead of the animation's own.
    """
    path = Path(path)
    rate: Any = 1000 / animation._interval  # pyright: ignore[reportAttributeAccessIssue]
    program = ffmpeg() if path.suffix == ".mp4" else None
    if path.suffix == ".gif":
        writer = _SmallGif(fps=rate)
    elif path.suffix == ".mp4":
        if program is None:
            raise ValueError(
                f"'{path}' needs ffmpeg, which is not installed: pip install "
                "'festina[video]' installs it. Or write a .gif."
            )
        writer = FFMpegWriter(fps=rate)
    else:
        raise ValueError(f"`path` must end in .gif or .mp4, got '{path}'.")
    if size is not None:
        animation._fig.set_size_inches(*size)  # pyright: ignore[reportAttributeAccessIssue]
    with rc_context({"animation.ffmpeg_path": program or "ffmpeg"}):
        animation.save(path, writer=writer, dpi=_DPI)
