# SPDX-License-Identifier: Apache-2.0
"""Found by every Python of the target through PYTHONPATH, before the user's own module of this name.

Starts the hook, takes this folder out of the search path, and loads the user's sitecustomize in
its own place; where there is none, the ImportError that site.py expects leaves no trace of us. Any
Python since 2.7 must be able to compile this file: the hook itself needs 3.8.
"""
import sys


def _start(folder):
    names = {"__name__": "rocmcrash_hook", "__builtins__": __builtins__}
    try:
        if sys.version_info >= (3, 8):  # not by an import, which -X importtime would list
            loader = sys.modules["_frozen_importlib_external"].SourceFileLoader(
                "rocmcrash_hook", folder + "/rocmcrash_hook.py")
            code = loader.get_code("rocmcrash_hook")
            # Tools that measure the program (coverage, profilers) leave out code that is no file.
            sys.modules["_imp"]._fix_co_filename(code, "<rocmcrash_hook>")
            exec(code, names)
            names["start"](folder)
    except Exception as error:  # the program comes first, whatever is wrong with our code
        if "trouble" in names:
            names["trouble"]("start", error)


def _leave(folder):
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    sys.path_importer_cache.pop(folder, None)
    sys.modules.pop("sitecustomize", None)


def _users_own():
    """As `import sitecustomize` would, for which it is this module's turn now."""
    bootstrap = sys.modules["_frozen_importlib"]
    spec = bootstrap._find_spec("sitecustomize", None)
    if spec is None:
        raise ModuleNotFoundError("No module named 'sitecustomize'", name="sitecustomize")
    bootstrap._load(spec)


_modern = sys.version_info >= (3, 8)
_start(__file__.rpartition("/")[0])
_leave(__file__.rpartition("/")[0])
if _modern:  # Python 2 has set all names here to None, because the module is gone
    _users_own()
else:
    import sitecustomize  # noqa: F401
