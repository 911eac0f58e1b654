# SPDX-License-Identifier: Apache-2.0
"""unittest's main for the tests in Python: a line a case for tests/tally behind what the cases
print, and the exit status that ctest knows: 77 when everything was skipped."""

import sys
import unittest


class Result(unittest.TextTestResult):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.passed = []

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed.append(test)


class Runner(unittest.TextTestRunner):
    resultclass = Result


def case_of(test):
    """The test that a part of it (subTest) belongs to; of setUpClass its own name."""
    return getattr(test, "test_case", test).id().removeprefix("__main__.")


def outcomes_of(result):
    """By case: one of which any part failed has failed, one of which any was skipped was skipped."""
    outcomes = {case_of(test): "ok" for test in result.passed}
    for test, reason in result.skipped:
        outcomes[case_of(test)] = "skipped: " + " ".join(reason.split())
    for test, _ in [*result.failures, *result.errors, *((t, "") for t in result.unexpectedSuccesses)]:
        outcomes[case_of(test)] = "failed"
    return outcomes


def main():
    result = unittest.main(module="__main__", exit=False, verbosity=2, testRunner=Runner).result
    outcomes = outcomes_of(result)
    for name, outcome in outcomes.items():
        print(f"case: {name}: {outcome}")
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if outcomes and all(o.startswith("skipped") for o in outcomes.values()) else 0)
