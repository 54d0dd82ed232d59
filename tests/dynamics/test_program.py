"""What is compiled for a training, and how often."""

import jax
import numpy as np
from jax import monitoring

from festina import gradient_descent
from festina.networks import fully_connected
from festina.tasks import task


def test_all_chunks_of_a_training_are_one_program():
    """A step's numbers must come out with the types with which they go in."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(9, 3))
    network = fully_connected(3, 2, scale=0.1, key=jax.random.key(0))
    traced = []
    listen = lambda event, duration_secs, **about: traced.append((event, about.get("fun_name")))
    monitoring.register_event_duration_secs_listener(listen)
    try:
        # More steps than are recorded at once.
        gradient_descent(network, task(x, x[:, :1]), 0.01, steps=1500)
    finally:
        monitoring.unregister_event_duration_listener(listen)
    assert sum(e.endswith("jaxpr_trace_duration") and f == "advance" for e, f in traced) == 1
