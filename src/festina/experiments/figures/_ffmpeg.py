"""The program that writes MP4 files, which not every machine has."""

import shutil


def ffmpeg() -> str | None:
    """Return the path of ffmpeg: that on PATH, else that of the extra `video`, or `None`."""
    if (own := shutil.which("ffmpeg")) is not None:
        return own
    try:
        import imageio_ffmpeg  # pyright: ignore[reportMissingImports]

        return imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError):  # not installed, or without a program for this machine
        return None
