"""A lexicon as a column: the labels that each word had in training, which `%each` reads one by one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from labelwright.corpus.partial_labels import known_labels
from labelwright.corpus.table import Column, Corpus
from labelwright.errors import ModelFileError
from labelwright.modelfile import read_strings, unpack_strings
from labelwright.validation import TensorReader, check_distinct

LEXICON = "lexicon"  # name of the column


class Lexicon:
    """The labels that each word (value of the first column) has had in training, as in `NN|VB`."""

    def __init__(self, words: dict[str, str]):
        self.words = words

    @classmethod
    def learn(cls, corpus: Corpus, gold: Sequence[Sequence[str]]) -> tuple["Lexicon", Corpus]:
        """The lexicon, and the training corpus with a column of the labels that each word has at *other* tokens: with
        the label of the token itself, the model would learn to trust the lexicon too much."""
        labels = known_labels([label for sentence in gold for label in sentence])
        order = {label: i for i, label in enumerate(dict.fromkeys(labels))}
        words = corpus.tokens(corpus.names[0])
        seen: dict[str, dict[str, int]] = {}
        for word, label in zip(words, labels, strict=True):
            had = seen.setdefault(word, {})
            if label is not None:
                had[label] = had.get(label, 0) + 1
        elsewhere = [
            _had({other: n - (other == label) for other, n in seen[word].items()}, order)
            for word, label in zip(words, labels, strict=True)
        ]
        lexicon = cls({word: _had(had, order) for word, had in seen.items()})
        return lexicon, _with_column(corpus, elsewhere)

    def column(self, corpus: Corpus) -> Corpus:
        """A corpus with one more column: the labels that each word has had, `?` for none."""
        had = [self.words.get(word, "?") for word in corpus.values(corpus.names[0])]
        return _with_column(corpus, [had[code] for code in corpus.codes(corpus.names[0]).tolist()])


def read_lexicon(tensors: TensorReader) -> Lexicon:
    """The lexicon of a model file."""
    words = read_strings(tensors, "lexicon")
    had = unpack_strings(tensors["lexicon.had"], tensors["lexicon.had.offsets"], f"{tensors.prefix}lexicon.had")
    check_distinct(f"{tensors.prefix}lexicon", words)
    if len(had) != len(words):
        raise ModelFileError(f"tensor {tensors.prefix}lexicon.had: expected {len(words)} strings, got {len(had)}")
    return Lexicon(dict(zip(words, had, strict=True)))


def _had(counts: Mapping[str, int], order: Mapping[str, int]) -> str:
    return "|".join(sorted((label for label, n in counts.items() if n > 0), key=order.__getitem__)) or "?"


def _with_column(corpus: Corpus, tokens: list[str]) -> Corpus:
    values = list(dict.fromkeys(tokens))
    index = {value: i for i, value in enumerate(values)}
    column = Column(values, np.array([index[value] for value in tokens], np.int32))
    return replace(corpus, names=(*corpus.names, LEXICON), columns=(*corpus.columns, column), raw=None)
