"""A plugin of pytest: writes the outcome of every test to the file $OUTCOMES as it comes, so that a crash or a hang
leaves a list of what ran. One line per event: start, pass, fail or skip, and the test's name."""

import os

FILE = open(os.environ["OUTCOMES"], "a", buffering=1)


def pytest_runtest_logstart(nodeid, location):
    FILE.write(f"start {nodeid}\n")


def pytest_runtest_logreport(report):
    # Setup, call and teardown: the test passes when its call does, and fails when one of them does.
    if report.failed:
        FILE.write(f"fail {report.nodeid}\n")
    elif report.skipped:
        FILE.write(f"skip {report.nodeid}\n")
    elif report.when == "call":
        FILE.write(f"pass {report.nodeid}\n")
