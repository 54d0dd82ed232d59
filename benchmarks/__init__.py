"""Side by side with what a user would write instead. Run with `make bench`."""
