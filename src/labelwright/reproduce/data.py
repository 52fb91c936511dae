"""The corpora of the experiments, cut and written as the papers describe them."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from labelwright import Corpus, read_columns
from labelwright.features.builtin import BUILTIN

CHUNKS = ("B-NP", "I-NP")
ABSTRACTS = 16_807  # the first sentence of abstract 1,801 of jnlpba
HELD_OUT = 894  # the last tenth of CoNLL-2000's training part, where a paper names no development data


def read_part(folder: Path, corpus: str, part: str, names: str) -> Corpus:
    """The training or test part of a corpus, compressed or not."""
    path = folder / corpus / f"{part}.txt"
    return read_columns(path if path.exists() else path.with_suffix(".txt.xz"), names=names.split(","))


def without_affixes(template: str) -> str:
    """The lines of a built-in template for words and POS tags, without its prefixes and suffixes."""
    return "\n".join(line for line in BUILTIN[template](2) if "fix" not in line)


class Parts(NamedTuple):
    """What an experiment trains on, makes its choices on, and tests on once."""

    train: Corpus
    dev: Corpus
    test: Corpus
    whole: Corpus  # what the final models are trained on

    def first(self, train: int, rest: int) -> "Parts":
        """Smaller parts, for a quick run."""
        cut = self.train.take(slice(0, train))
        return Parts(cut, self.dev.take(slice(0, rest)), self.test.take(slice(0, rest)), cut)


def normalised(words: list[str]) -> list[str]:
    """Words in lower case, with runs of digits as one 0.

    >>> normalised(["In", "1,204", "B-17s"])
    ['in', '0,0', 'b-0s']
    """
    return [re.sub(r"\d+", "0", word.lower()) for word in words]


def base_nps(folder: Path, columns: tuple[str, ...], words: Callable[[list[str]], list[str]] = list) -> Parts:
    """NP chunking: CoNLL-2000 with every label but B-NP and I-NP mapped to O, these columns, words rewritten."""
    whole, test = (
        _base_nps(read_part(folder, "conll2000", part, "word,pos,chunk"), columns, words) for part in ("train", "test")
    )
    return Parts(whole.take(slice(0, len(whole) - HELD_OUT)), whole.take(slice(-HELD_OUT, None)), test, whole)


def _base_nps(corpus: Corpus, columns: tuple[str, ...], words: Callable[[list[str]], list[str]]) -> Corpus:
    inputs = {"word": list(map(words, corpus.column("word"))), "pos": corpus.column("pos")}
    rows = [list(zip(*sentence, strict=True)) for sentence in zip(*(inputs[name] for name in columns), strict=True)]
    labels = [[y if y in CHUNKS else "O" for y in sentence] for sentence in corpus.y]
    return Corpus.from_sequences(rows, labels)


def biomedical(folder: Path) -> Parts:
    """Bio-NER: 1,800 abstracts to train on, 200 for development, 404 to test on."""
    whole, test = (read_part(folder, "jnlpba", part, "word,pos,tag") for part in ("train", "test"))
    train = whole.take(slice(0, ABSTRACTS))
    return Parts(train, whole.take(slice(ABSTRACTS, None)), test, train)
