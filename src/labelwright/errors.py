"""Everything that labelwright raises on purpose: one base class, one clear line each."""

import errno
import sys
from functools import cache

_REASONS = {
    errno.ENOENT: "no such file",
    errno.EISDIR: "is a folder, expected a file",
    errno.EBADF: "it is closed",
}


class LabelwrightError(ValueError):
    """Base of all errors that a user can mend; its text says where, what came, what was expected.

    It is one line: names that come from files may contain line ends, and codes that move a
    terminal's cursor."""

    def __str__(self) -> str:
        text = super().__str__()
        return (
            text
            if text.isprintable()
            else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
        )


class CorpusError(LabelwrightError):
    """A data file or a list of sequences is not what it should be."""


class TemplateError(LabelwrightError):
    """A feature template cannot be read; the text names the line and the column."""


class ModelFileError(LabelwrightError):
    """A model file is damaged, foreign, or cannot be written."""


def reason_of(error: Exception) -> str:
    """Why a file cannot be read or written, in a few words; ValueError is what Python raises for
    paths that none can have, and for bytes that are no text."""
    if isinstance(error, UnicodeDecodeError):
        number = error.object.count(b"\n", 0, error.start) + 1
        return f"line {number} is not UTF-8; convert the file first"
    if isinstance(error, ValueError) and not isinstance(error, OSError):
        return f"no path ({str(error).splitlines()[0]})"
    if lacks_memory(error):
        return "not enough memory"
    reason: str = getattr(error, "strerror", None) or str(error)
    return _REASONS.get(getattr(error, "errno", None) or 0, reason[:1].lower() + reason[1:])


def lacks_memory(error: BaseException | None) -> bool:
    """Whether memory was lacking, also where a module could not be imported for want of it."""
    while error is not None:
        if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            return True
        # what the loader of shared libraries says
        if isinstance(error, ImportError) and "failed to map segment" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def unreadable(kind: type[LabelwrightError], name: object, error: Exception) -> LabelwrightError:
    """The one line about a file that cannot be read."""
    return kind(f"{name}: cannot read: {reason_of(error)}")


def unforeseen(name: object, error: Exception, advice: str) -> ModelFileError:
    """One line for whatever a made file can cause that no check has foreseen."""
    if lacks_memory(error):
        return ModelFileError(f"{name}: not enough memory to read it ({type(error).__name__})")
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return ModelFileError(f"{name}: the file does not fit together ({what:.80}); {advice}")


class OptionError(LabelwrightError):
    """An argument is out of range or contradicts another."""


class ClusterError(LabelwrightError, ConnectionError):
    """A cluster has lost its scheduler or its workers, or has workers that are of no use."""


class NotFittedError(LabelwrightError, AttributeError):
    """The model must be trained (or loaded) before it can label; where scikit-learn is loaded, also
    its `NotFittedError`."""

    def __new__(cls, *args: object) -> "NotFittedError":
        theirs = getattr(sys.modules.get("sklearn.exceptions"), "NotFittedError", None)
        return super().__new__(
            cls if theirs is None or cls is not NotFittedError else _derived(theirs), *args
        )

    def __reduce__(self) -> tuple[type["NotFittedError"], tuple[object, ...]]:
        return NotFittedError, self.args  # another process may not have loaded scikit-learn


@cache
def _derived(theirs: type[Exception]) -> type[NotFittedError]:
    return type(
        "NotFittedError",
        (NotFittedError, theirs),
        {"__doc__": NotFittedError.__doc__, "__module__": __name__},
    )
