# SPDX-License-Identifier: Apache-2.0
"""Found by every Python of the target through PYTHONPATH, before the user's own module of this name.

Starts the hook, takes this folder out of the search path, and imports the user's sitecustomize in
its own place; where there is none, the ImportError that site.py expects leaves no trace of us. Any
Python since 2.7 must be able to compile this file: the hook itself needs 3.8.
"""
import sys


def _start():
    folder = __file__.rpartition("/")[0]
    try:
        if sys.version_info >= (3, 8):
            import rocmcrash_hook
            rocmcrash_hook.start(folder)
    except Exception:  # the program comes first, whatever is wrong with us
        pass
    sys.modules.pop("rocmcrash_hook", None)
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    sys.path_importer_cache.pop(folder, None)
    sys.modules.pop("sitecustomize", None)


_start()
import sitecustomize  # noqa: E402  the user's own, or the ImportError of having none
