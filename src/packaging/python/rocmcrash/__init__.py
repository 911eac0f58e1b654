# SPDX-License-Identifier: Apache-2.0
"""Finds the programs of this environment; everything else is in the programs."""

import os
import sys
import sysconfig


def program():
    """The path of rocmcrash: of this environment, of --user, or beside --target. None: it is not there."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = [os.path.join(package, "bin"), sysconfig.get_path("scripts"),
               sysconfig.get_path("scripts", os.name + "_user"), os.path.dirname(sys.executable)]
    paths = [os.path.join(folder, "rocmcrash") for folder in folders if folder]
    return next((path for path in paths if os.access(path, os.X_OK)), None)
