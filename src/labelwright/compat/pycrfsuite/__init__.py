"""The interface of python-crfsuite on labelwright: `Trainer`, `Tagger`, `ItemSequence`.

Model files are CRFsuite's own, so they may come from and go to programs that use the original."""

from labelwright.compat.pycrfsuite._pycrfsuite import (
    CRFSUITE_VERSION,
    BaseTrainer,
    CRFSuiteError,
    ItemSequence,
    Tagger,
    Trainer,
)

__all__ = ["CRFSUITE_VERSION", "BaseTrainer", "CRFSuiteError", "ItemSequence", "Tagger", "Trainer"]
