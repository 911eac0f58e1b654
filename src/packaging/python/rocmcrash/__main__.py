# SPDX-License-Identifier: Apache-2.0
"""python -m rocmcrash ...: the program itself, with this process's number, streams and signals."""

import os
import signal
import sys

from . import program

path = program()
if path is None:
    sys.stderr.write("rocmcrash: its program is not in this environment's bin/\n")
    sys.exit(125)
for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them, and what is ignored stays so for the target
    signal.signal(getattr(signal, name), signal.SIG_DFL)
try:
    os.execv(path, ["rocmcrash", *sys.argv[1:]])
except OSError as error:
    sys.stderr.write(f"rocmcrash: cannot run '{path}': {error.strerror}\n")
    sys.exit(125)
