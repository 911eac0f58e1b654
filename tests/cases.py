# SPDX-License-Identifier: Apache-2.0
"""unittest's main for the tests in Python: a line a case for tests/tally behind what the cases
print, and the exit status that ctest knows: 77 when everything was skipped."""

import concurrent.futures
import re
import subprocess
import sys
import unittest

SKIPPED = 77
FAILED = re.compile(r"^case: .*: failed$", re.M)


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


def names_of(suite):
    """A name for each case. Where the cases of a class share what setUpClass() makes, the name of the class."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from names_of(test)
        else:
            shared = type(test).setUpClass.__func__ is not unittest.TestCase.setUpClass.__func__
            yield type(test).__name__ if shared else case_of(test)


def run_alone(name):
    return subprocess.run([sys.executable, "-B", sys.argv[0], name], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)


def main_of_many(count):
    """Each case in a process of its own, `count` at a time, for cases that mostly wait."""
    names = list(dict.fromkeys(names_of(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))))
    statuses = set()
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        for name, done in zip(names, pool.map(run_alone, names)):
            print(done.stdout, end="", flush=True)
            if done.returncode not in (0, SKIPPED) and not FAILED.search(done.stdout):
                print(f"status {done.returncode}\ncase: {name}: failed", flush=True)
            statuses.add(done.returncode)
    sys.exit(0 if statuses <= {0, SKIPPED} and 0 in statuses else SKIPPED if statuses == {SKIPPED} else 1)


def main(side_by_side=1):
    """With arguments, unittest's own."""
    if side_by_side > 1 and len(sys.argv) == 1:
        main_of_many(side_by_side)
    result = unittest.main(module="__main__", exit=False, verbosity=2, testRunner=Runner).result
    outcomes = outcomes_of(result)
    for name, outcome in outcomes.items():
        print(f"case: {name}: {outcome}")
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if outcomes and all(o.startswith("skipped") for o in outcomes.values()) else 0)
