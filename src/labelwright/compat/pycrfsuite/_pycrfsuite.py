"""All public names, where programs that look for the compiled module of python-crfsuite expect them."""

from labelwright.compat.pycrfsuite.items import ItemSequence
from labelwright.compat.pycrfsuite.tagger import Tagger
from labelwright.compat.pycrfsuite.trainer import BaseTrainer, CRFSuiteError, Trainer

CRFSUITE_VERSION = "0.12.2"  # whose behaviour and model files these are

__all__ = ["CRFSUITE_VERSION", "BaseTrainer", "CRFSuiteError", "ItemSequence", "Tagger", "Trainer"]
