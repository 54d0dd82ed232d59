"""When the plateau that a run sits on is left."""
