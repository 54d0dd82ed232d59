"""festina predicts how a neural network learns, trains it, and shows where the two agree."""

__version__ = "0.1.0"
