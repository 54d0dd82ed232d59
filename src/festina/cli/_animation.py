"""Check whether an animation can be made, before the run."""

from festina.experiments import Experiment
from festina.experiments.figures._ffmpeg import ffmpeg

from ._complaint import Complaint


def moving_picture(experiment: Experiment, *, animation: bool, mp4: bool) -> str | None:
    """Return how an animation is written, `gif` or `mp4`; `None` if none is wanted."""
    if not (animation or mp4):
        return None
    if experiment.animate is None:
        raise Complaint(
            f"{experiment.name} has no animation; its figures are made without `--animation`."
        )
    if not mp4:
        return "gif"
    if ffmpeg() is None:
        raise Complaint(
            "`--mp4` needs ffmpeg, which is not installed: pip install 'festina[video]' installs "
            "it. `--animation` alone writes a GIF."
        )
    return "mp4"
