"""What tests of several experiments do to them."""


def broken(experiment, run):
    """The claims of a run that fail although they are known to hold."""
    return [claim.claim for claim in experiment.claims(run) if claim.broken]


def altered(run, group, name, change, **where):
    """The run with one variable changed, at the given labels."""
    copy = run.copy(deep=True)
    values = copy[group][name]
    values.loc[where] = change(values.loc[where])
    return copy
