"""What to label next (active learning), and which labels of the training data to look at again."""

from labelwright.active.annotator_files import Correction, corrected, read_corrections
from labelwright.active.ranking import MEASURES, RankedSentence, rank
from labelwright.active.suspicious import Doubt, Doubts, doubts

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
