"""How changes of labels in one layer of a cascade affect the labels of the layer above."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from labelwright.errors import CorpusError

Labels = Sequence[Sequence[str]]  # [N][T]
NEAR = 1  # tokens around a changed label whose upper labels are compared


class Versions(NamedTuple):
    """The labels of one layer: the true ones, and those of two versions of a tagger."""

    gold: Labels
    before: Labels
    after: Labels


class LabelChange(NamedTuple):
    """One change of a label in the lower layer, as NN -> VB, with the number of tokens by
    outcome."""

    before: str
    after: str
    right: int  # more upper labels at the token and beside it are correct than before,
    wrong: int  # fewer are,
    same: int  # or equally many
    corrected: int  # the lower label itself became correct,
    broken: int  # or was correct and is no longer

    @property
    def n(self) -> int:
        """The number of tokens with this change."""
        return self.right + self.wrong + self.same


def label_changes(lower: Versions, upper: Versions) -> list[LabelChange]:
    """All changes of labels in the lower layer, the most frequent first, by what changed near them
    in the upper one.

    >>> lower = Versions(gold=[["D", "N", "V"]], before=[["D", "V", "V"]], after=[["D", "N", "V"]])
    >>> upper = Versions(gold=[["B", "I", "O"]], before=[["B", "O", "O"]], after=[["B", "I", "O"]])
    >>> label_changes(lower, upper)
    [LabelChange(before='V', after='N', right=1, wrong=0, same=0, corrected=1, broken=0)]
    """
    n_tokens = [len(sentence) for sentence in lower.gold]
    for layer, versions in (("lower", lower), ("upper", upper)):
        for name, labels in zip(Versions._fields, versions, strict=True):
            if [len(sentence) for sentence in labels] != n_tokens:
                raise CorpusError(
                    f"{layer}, {name}: expected as many labels in every sentence as the gold "
                    "labels have"
                )
    seen: dict[tuple[str, str], Counter[str]] = {}
    for low, high in zip(zip(*lower, strict=True), zip(*upper, strict=True), strict=True):
        # 1: became right, -1: became wrong
        gains = [(b == g) - (a == g) for g, a, b in zip(*high, strict=True)]
        for t, (gold, before, after) in enumerate(zip(*low, strict=True)):
            if before == after:
                continue
            near = sum(gains[max(0, t - NEAR) : t + NEAR + 1])
            counts = seen.setdefault((before, after), Counter())
            counts["right" if near > 0 else "wrong" if near < 0 else "same"] += 1
            counts["corrected"] += after == gold
            counts["broken"] += before == gold
    changes = [
        LabelChange(*pair, *(counts[name] for name in LabelChange._fields[2:]))
        for pair, counts in seen.items()
    ]
    return sorted(changes, key=lambda change: (-change.n, change.before, change.after))
