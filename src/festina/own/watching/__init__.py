"""Find plateaus of a run, and the network on each, while it trains or from checkpoints."""
