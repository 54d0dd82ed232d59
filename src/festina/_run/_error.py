"""What saving and loading complain with."""


class RunError(ValueError):
    """A run that cannot be saved or loaded; the message is one line."""
