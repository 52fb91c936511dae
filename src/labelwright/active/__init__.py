"""What to label next (active learning), and which labels of the training data to look at again."""

from labelwright.active.corrections import Correction, corrected, read_corrections
from labelwright.active.ranking import RankedSentence, rank
from labelwright.active.suspicious import Doubt, Doubts, doubts
from labelwright.active.uncertainty import MEASURES

__all__ = [
    "MEASURES",
    "Correction",
    "Doubt",
    "Doubts",
    "RankedSentence",
    "corrected",
    "doubts",
    "rank",
    "read_corrections",
]
