# SPDX-License-Identifier: Apache-2.0
"""Counts attacks and those that succeeded, for the table at the end of tests/run (tests/tally)."""

import contextlib


class Attacks:
    """with Attacks("kind") as attacks: with attacks.one("name"): checks that fail if the attack succeeds.

    A check that fails counts as an attack that succeeded; the other attacks still run. At the end the
    table's line is printed, and the first failure is raised with the names of all.
    """

    def __init__(self, kind):
        self.kind, self.tried, self.failures = kind, 0, []

    @contextlib.contextmanager
    def one(self, name):
        self.tried += 1
        try:
            yield
        except AssertionError as failure:
            self.failures.append((str(name), failure))

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        # The line is also printed if something else failed.
        print(f"attack-table: {self.kind} | {self.tried} | {len(self.failures)}", flush=True)
        if error is None and self.failures:
            names = ", ".join(name for name, _ in self.failures[:20])
            raise AssertionError(f"{len(self.failures)} of {self.tried} attacks succeeded: {names}") from self.failures[0][1]
        return False
