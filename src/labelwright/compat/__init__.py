"""Programs written for python-crfsuite and sklearn-crfsuite run on labelwright unchanged.

import labelwright.compat

labelwright.compat.replace()  # from here on, `import pycrfsuite` and `import sklearn_crfsuite` give labelwright

python -m labelwright.compat script.py arguments   # runs a program so, without an edit
"""

import importlib
import sys
import warnings

REPLACED = {
    "pycrfsuite": ("_dumpparser", "_logparser", "_pycrfsuite"),
    "sklearn_crfsuite": ("_fileresource", "estimator", "metrics", "scorers", "trainer", "utils"),
}


def replace() -> None:
    """Put labelwright's versions of pycrfsuite and sklearn_crfsuite into `sys.modules`.

    Call it before the program imports either of them: names that were imported from the originals stay as they are."""
    for name, parts in REPLACED.items():
        before = sys.modules.get(name)
        if before is not None and not before.__name__.startswith(__name__):
            warnings.warn(
                f"{name} was imported before labelwright.compat.replace(): what was taken from it stays the original",
                RuntimeWarning,
                stacklevel=2,
            )
        here = f"{__name__}.{name}"
        sys.modules[name] = importlib.import_module(here)
        for part in parts:
            if part != "scorers":  # needs scikit-learn: imported when the program asks for it
                sys.modules[f"{name}.{part}"] = importlib.import_module(f"{here}.{part}")


def restore() -> None:
    """Undo `replace`: the next import finds the originals again."""
    for name in [name for name in sys.modules if name.partition(".")[0] in REPLACED]:
        if getattr(sys.modules[name], "__name__", "").startswith(__name__):
            del sys.modules[name]
