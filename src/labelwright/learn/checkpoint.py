"""Where the state of a training run is saved, so that a killed run can be resumed.

A run has one file.  What is trained on the way to it has files that are named after that one: `.2` for the second
random start, `.first1` for a model that is trained only to start from, `.stage1` for a stage of splitting and merging,
`.layer1` for a layer of a cascade, `.layer1.part2` for its second part of the jackknife.  Of parts that are finished
only the weights are kept; a run that is resumed takes them as they are.
"""

import os
import re
import time
import warnings
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from labelwright import modelfile
from labelwright.errors import ModelFileError, OptionError
from labelwright.settings import NOT_NEGATIVE
from labelwright.storage import remove_abandoned

Array = NDArray[Any]
FIRST = 1.0  # seconds of training before the first save
EVERY = 10.0
PARTS = r"(\.(first|stage|layer|part)?[0-9]+)*"  # what follows the name of the run in those of its parts
KEPT = "kept"  # the weights of a run that is finished


class Checkpoint:
    """The state of a run in one file, written after its first second and then periodically."""

    def __init__(self, place: "Checkpoints", fingerprint: str):
        self.place, self.fingerprint = place, fingerprint
        self.path, self.every = place.path, place.every
        self.is_written = False  # by this process
        self._wait = min(FIRST, self.every)
        self._last = time.monotonic()

    def due(self) -> bool:
        return time.monotonic() - self._last >= self._wait

    def write(self, state: dict[str, Array], header: dict[str, Any]) -> None:
        """Save; a full disk must not end the training, and is tried again."""
        self._last, self._wait = time.monotonic(), self.every
        try:
            modelfile.write(self.path, state, {"kind": "checkpoint", "fingerprint": self.fingerprint, **header})
            self.is_written = True
            self.place.begin()
        except ModelFileError as error:
            self.place.warn(f"{error}; training continues without a new checkpoint")

    def read(self) -> tuple[dict[str, Array], dict[str, Any]] | None:
        """What was saved, or None when there is nothing to resume."""
        if not self.path.exists():
            return None
        state, header = modelfile.read(self.path)
        if header.get("kind") != "checkpoint":
            raise ModelFileError(f"{self.path}: not a checkpoint of a training run")
        if header.get("fingerprint") != self.fingerprint:
            raise ModelFileError(
                f"{self.path}: made with other data or other settings; use the same ones, or delete it to start again"
            )
        return state, header


class Checkpoints:
    """The files of a run and of its parts.

    A run that starts anew removes those of an earlier one when it saves its first state, and warns of failures once."""

    def __init__(
        self,
        path: str | Path,
        every: float = EVERY,
        resume: bool = False,
        whole: "Checkpoints | None" = None,
        is_part: bool = False,
    ):
        self.path, self.every, self.resume = Path(path), every, resume
        self.whole = whole or self  # that of the whole run
        self.is_part = is_part  # other training follows, so that only its weights are kept once it is finished
        self._begun, self._warned = resume, False

    @classmethod
    def given(cls, checkpoint: Any, every: float, resume: bool) -> "Checkpoints | None":
        """What the arguments of `fit` ask for; `checkpoint` is a path, or that of a part."""
        if checkpoint is None or isinstance(checkpoint, Checkpoints):
            if resume:
                raise OptionError("resume: name the checkpoint to resume from")
            return checkpoint
        if not isinstance(checkpoint, str | os.PathLike):
            raise OptionError(f"checkpoint: expected a path, got {checkpoint!r:.40}")
        if not NOT_NEGATIVE.accepts(every):
            raise OptionError(f"checkpoint_every: expected seconds, 0 or more, got {every!r:.40}")
        return cls(Path(checkpoint), every, resume)

    def part(self, name: str) -> "Checkpoints":
        """Those of a part."""
        return Checkpoints(f"{self.path}.{name}", self.every, self.resume, self.whole, is_part=True)

    def start(self, number: int) -> "Checkpoints":
        """Those of a random start: the first one is the run itself."""
        if number == 1:
            return self
        return Checkpoints(f"{self.path}.{number}", self.every, self.resume, self.whole, self.is_part)

    def of(self, fingerprint: str) -> Checkpoint:
        """The file of the run itself."""
        return Checkpoint(self, fingerprint)

    def begin(self) -> None:
        """After the first save: remove what an earlier run left."""
        whole = self.whole
        if not whole._begun:
            whole._begun = True
            remove_checkpoints(whole.path, but=self.path)

    def warn(self, message: str) -> None:
        whole = self.whole
        if not whole._warned:
            whole._warned = True
            warnings.warn(message, RuntimeWarning, stacklevel=4)


def checkpoint_files(path: Path) -> list[Path]:
    """The checkpoints of a run and of its parts that are there."""
    if not path.parent.is_dir():
        return []
    pattern = re.compile(re.escape(path.name) + PARTS)
    return sorted(file for file in path.parent.iterdir() if pattern.fullmatch(file.name))


def remove_checkpoints(path: Path, but: Path | None = None) -> None:
    """Remove the checkpoints of a run and of its parts, and what killed processes left of them."""
    remove_abandoned(path, PARTS)
    for file in checkpoint_files(path):
        if file != but and file.is_file():
            file.unlink(missing_ok=True)
