"""Find networks with fewer units, or weights of low rank, that compute the same outputs."""
