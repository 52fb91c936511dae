"""Programs written for python-crfsuite and sklearn-crfsuite run on labelwright unchanged.

import labelwright.compat

# from here on, `import pycrfsuite` and `import sklearn_crfsuite` give labelwright
labelwright.compat.replace()

python -m labelwright.compat script.py arguments   # runs a program so, without an edit
"""

import sys
import warnings
from importlib import import_module

REPLACED = {  # the modules of the originals, and where their names are here
    "pycrfsuite": {"_dumpparser": ".tagger", "_logparser": ".log", "_pycrfsuite": ""},
    "sklearn_crfsuite": {"_fileresource": "", "estimator": "", "trainer": ""}
    | dict.fromkeys(("metrics", "scorers", "utils"), ".metrics"),
}


def replace() -> None:
    """Put labelwright's versions of pycrfsuite and sklearn_crfsuite into `sys.modules`.

    Call it before the program imports either of them: names that were imported from the originals
    stay as they are."""
    for name in REPLACED:
        before = sys.modules.get(name)
        if before is not None and not before.__name__.startswith(__name__):
            warnings.warn(
                f"{name} was imported before labelwright.compat.replace(): what was taken from it "
                "stays the original",
                RuntimeWarning,
                stacklevel=2,
            )
        sys.modules[name] = import_module(f"{__name__}.{name}")
        register(name, name)


def register(original: str, name: str) -> None:
    """Let the modules of an original be imported as modules of this name."""
    for part, module in REPLACED[original].items():
        sys.modules[f"{name}.{part}"] = import_module(f"{__name__}.{original}{module}")


def restore() -> None:
    """Undo `replace`: the next import finds the originals again."""
    for name in [name for name in sys.modules if name.partition(".")[0] in REPLACED]:
        if getattr(sys.modules[name], "__name__", "").startswith(__name__):
            del sys.modules[name]
