"""Fuzz tests: call every public function with corrupted arguments, by `make fuzz`."""
