"""A run while it trains, or from its checkpoints: where its loss rests, and on what."""
