"""Check before the run whether its animation can be made."""

from festina.experiments import Experiment
from festina.experiments.figures._ffmpeg import ffmpeg

from ._complaint import Complaint


def moving_picture(experiment: Experiment, *, animation: bool, mp4: bool) -> str | None:
    """Return the format of the requested animation, `gif` or `mp4`; `None` without a request."""
    if not (animation or mp4):
        return None
    if experiment.animate is None:
        raise Complaint(f"{experiment.name} has no animation; leave out `--animation` and `--mp4`.")
    if not mp4:
        return "gif"
    if ffmpeg() is None:
        raise Complaint(
            "`--mp4` needs ffmpeg, which is not installed: pip install 'festina[video]'. Without "
            "ffmpeg, `--animation` writes a GIF."
        )
    return "mp4"
