"""Benchmarks of festina against the code that a user would write instead. Run `make bench`."""
