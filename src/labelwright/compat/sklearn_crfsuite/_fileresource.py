"""Where the model of an estimator is stored: a file of the user's, or a temporary one that is made when asked for."""

import os
import tempfile
import weakref
from typing import Any

DATA = "__FILE_RESOURCE_DATA__"  # of the contents, in pickles of sklearn-crfsuite


class FileResource:
    """A model file; `name` is its path, None where there is no model."""

    def __init__(self, filename: str | None = None, keep_tempfiles: bool = False, data: bytes | None = None):
        self.filename, self.keep_tempfiles, self.data = filename, keep_tempfiles, data

    @property
    def name(self) -> str | None:
        if self.filename is None and self.data is not None:
            number, self.filename = tempfile.mkstemp(".crfsuite", "model")
            with os.fdopen(number, "wb") as file:
                file.write(self.data)
            if not self.keep_tempfiles:
                weakref.finalize(self, _removed, self.filename)
        return self.filename

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over what a pickle of sklearn-crfsuite holds."""
        self.filename = None if state.get("auto", True) else state.get("name")
        self.keep_tempfiles, self.data = state.get("keep_tempfiles", False), state.get(DATA)


def _removed(path: str) -> None:
    if os.path.exists(path):
        os.unlink(path)
