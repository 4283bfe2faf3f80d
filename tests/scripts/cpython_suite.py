"""Runs one module of CPython's own test suite and writes the outcome of every test to a file:

    cpython_suite.py MODULE FILE [PATTERN...]

One line per outcome: its kind and the test's name, and for skips the reason. With patterns, only the tests
whose name matches one. Two runs of one module can so be compared test by test."""

import faulthandler
import os
import sys
import tempfile
import unittest

from test import support


class Outcomes(unittest.TextTestResult):
    """Writes each outcome as it comes: what a crash or a hang leaves is still a list of what ran."""

    file = None

    def note(self, kind, test, more=""):
        name = str(test) if isinstance(test, unittest.suite._ErrorHolder) else test.id()
        print(kind, name, more.replace("\n", " "), file=self.file, flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note("pass", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note("fail", test)

    def addError(self, test, err):
        super().addError(test, err)
        self.note("error", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note("skip", test, reason)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.note("expected-failure", test)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note("unexpected-success", test)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note("fail" if issubclass(err[0], test.failureException) else "error", subtest)


def each(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        else:
            yield test


def main(module, file, *patterns):
    faulthandler.enable()
    support.verbose = True
    # What the tests ask for before they use a network, the CPU for long, and so on.
    support.use_resources = ["network", "urlfetch", "subprocess", "walltime"]
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{pattern}*" for pattern in patterns] or None
    # AF_VSOCK is not ours, and hangs where its modules are missing.
    suite = unittest.TestSuite(
        test for test in each(loader.loadTestsFromName(f"test.{module}")) if "VSOCK" not in test.id()
    )
    with open(file, "w") as Outcomes.file, tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        runner = unittest.TextTestRunner(verbosity=2, resultclass=Outcomes)
        runner.run(suite)
        os.chdir("/")
    print("done", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
