# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of redaction: a text as `rocmcrash redact` leaves it, and a table of what leaked or changed."""

import subprocess

from support import ROCMCRASH


def redact(text, *options, env=None):
    done = subprocess.run([ROCMCRASH, "redact", *options, "-"], input=text.encode("utf-8", "surrogateescape"),
                          capture_output=True, check=False, env=env, timeout=120)
    if done.returncode != 0:
        raise AssertionError(done.stderr.decode())
    return done.stdout.decode("utf-8", "surrogateescape")


def table(title, rows):
    print(title)
    for row in rows:
        print("  %-12s %8s %8s" % row)
