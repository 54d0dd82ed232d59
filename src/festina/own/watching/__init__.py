"""Runs while they train, or from their checkpoints: plateaus, and the network there."""
