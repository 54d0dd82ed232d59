"""Find ffmpeg, the program that writes MP4 files."""

import shutil


def ffmpeg() -> str | None:
    """Return the path of ffmpeg from PATH or from the optional dependency `video`, or `None`."""
    if (own := shutil.which("ffmpeg")) is not None:
        return own
    try:
        import imageio_ffmpeg  # pyright: ignore[reportMissingImports]

        return imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError):  # not installed, or not available for this machine
        return None
