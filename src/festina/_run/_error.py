"""The error of saving and loading."""


class RunError(ValueError):
    """Error for a run that cannot be saved or loaded; the message is one line.

    **Example:**

    >>> import festina
    >>> try:
    ...     festina.load("no-such-run")
    ... except festina.RunError as error:
    ...     print(error)
    There is no run at 'no-such-run': the path does not exist.
    """
