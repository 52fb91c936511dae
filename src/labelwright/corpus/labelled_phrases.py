"""The phrases that the labels of a corpus mark."""

from collections import Counter

from labelwright.corpus.split_texts import labelled_spans
from labelwright.corpus.table import Corpus


def labelled_phrases(corpus: Corpus) -> dict[str, Counter[tuple[str, ...]]]:
    """How often each phrase, a tuple of words, is labelled, by type: a dictionary for each type.

    >>> corpus = Corpus.from_sequences([["In", "New", "York"], ["York"]], [["O", "B-LOC", "I-LOC"], ["B-LOC"]])
    >>> labelled_phrases(corpus)
    {'LOC': Counter({('New', 'York'): 1, ('York',): 1})}
    """
    phrases: dict[str, Counter[tuple[str, ...]]] = {}
    for words, labels in zip(corpus.column(corpus.input_names[0]), corpus.y, strict=True):
        for span in labelled_spans(labels):
            phrases.setdefault(span.type, Counter())[tuple(words[span.start : span.end])] += 1
    return dict(sorted(phrases.items()))
