"""Everything that labelwright raises on purpose: one base class, one clear line each."""

import sys
from functools import cache


class LabelwrightError(ValueError):
    """Base of all errors that a user can mend; its text says where, what came, what was expected.

    It is one line: names that come from files may contain line ends, and codes that move a terminal's cursor."""

    def __str__(self) -> str:
        text = super().__str__()
        return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


class CorpusError(LabelwrightError):
    """A data file or a list of sequences is not what it should be."""


class TemplateError(LabelwrightError):
    """A feature template cannot be read; the text names the line and the column."""


class ModelFileError(LabelwrightError):
    """A model file is damaged, foreign, or cannot be written."""


def unforeseen(name: object, error: Exception, advice: str) -> ModelFileError:
    """One line for whatever a made file can cause that no check has foreseen."""
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return ModelFileError(f"{name}: the file does not fit together ({what:.80}); {advice}")


class OptionError(LabelwrightError):
    """An argument is out of range or contradicts another."""


class NotFittedError(LabelwrightError, AttributeError):
    """The model must be trained (or loaded) before it can label; where scikit-learn is loaded, also its
    `NotFittedError`."""

    def __new__(cls, *args: object) -> "NotFittedError":
        return super().__new__(_for_scikit_learn() if cls is NotFittedError else cls, *args)

    def __reduce__(self) -> tuple[type["NotFittedError"], tuple[object, ...]]:
        return NotFittedError, self.args  # another process may not have loaded scikit-learn


def _for_scikit_learn() -> type[NotFittedError]:
    """The class to raise: ours, derived from scikit-learn's as well where that is loaded."""
    theirs = getattr(sys.modules.get("sklearn.exceptions"), "NotFittedError", None)
    return NotFittedError if theirs is None else _derived(theirs)


@cache
def _derived(theirs: type[Exception]) -> type[NotFittedError]:
    return type("NotFittedError", (NotFittedError, theirs), {"__doc__": NotFittedError.__doc__, "__module__": __name__})
