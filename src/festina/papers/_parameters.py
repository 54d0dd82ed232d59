"""What every experiment's parameters have in common."""

from pydantic import BaseModel, ConfigDict, Field


class Parameters(BaseModel):
    """Frozen, validated, and written to `parameters.toml` beside each run.

    The docstring under a field is its help text on the command line.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )

    seeds: int = Field(default=8, ge=1)
    """How many independent initialisations are trained."""

    seed: int = Field(default=0, ge=0)
    """The first random seed; everything random in the run follows from it."""
