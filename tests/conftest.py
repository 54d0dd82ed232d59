"""Shapes in annotations are checked while tests run; MNIST-like data and caches stay out of them."""

from jaxtyping import install_import_hook

# Before anything of festina is imported.
install_import_hook("festina", "beartype.beartype")
