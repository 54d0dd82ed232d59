"""Print a table that counts the outcomes of all inputs, collected from all processes."""

from collections import Counter

KINDS = ("refused", "raised", "warned", "right", "kept")


def pytest_terminal_summary(terminalreporter):
    counts = {
        report.nodeid: Counter(dict(report.user_properties)["fuzz"])
        for reports in terminalreporter.stats.values()
        for report in reports
        if "fuzz" in dict(getattr(report, "user_properties", ()))
    }
    if not counts:
        return
    line = terminalreporter.write_line
    width = max(map(len, counts)) - len("tests/fuzz/test_fuzz.py::test_inputs[]")
    width = max(width, 10)
    line(f"\n{'function':{width}}" + "".join(f"{kind:>9}" for kind in KINDS))
    for name, count in sorted(counts.items()):
        short = name.partition("[")[2][:-1]
        line(f"{short:{width}}" + "".join(f"{count[kind]:9}" for kind in KINDS))
    total = sum(counts.values(), Counter())
    line(f"{'all ' + str(total.total()):{width}}" + "".join(f"{total[kind]:9}" for kind in KINDS))
