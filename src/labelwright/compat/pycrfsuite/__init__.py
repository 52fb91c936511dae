"""The interface of python-crfsuite on labelwright: `Trainer`, `Tagger`, `ItemSequence`.

Model files are CRFsuite's own, so they may come from and go to programs that use the original."""

from labelwright.compat import register
from labelwright.compat.pycrfsuite.tagger import ItemSequence, Tagger
from labelwright.compat.pycrfsuite.trainer import BaseTrainer, CRFSuiteError, Trainer

CRFSUITE_VERSION = "0.12.2"  # whose behaviour and model files these are

__all__ = ["CRFSUITE_VERSION", "BaseTrainer", "CRFSuiteError", "ItemSequence", "Tagger", "Trainer"]

register("pycrfsuite", __name__)
