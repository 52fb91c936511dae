"""What to label next (active learning), and which labels of the training data to look at again."""

from labelwright.active.ranking import RankedSentence, rank
from labelwright.active.suspicious import Doubt, Doubts, doubts
from labelwright.active.uncertainty import MEASURES

__all__ = ["MEASURES", "Doubt", "Doubts", "RankedSentence", "doubts", "rank"]
