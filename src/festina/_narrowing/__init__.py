"""Networks with fewer units that compute the same."""
