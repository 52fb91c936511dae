"""Texts as sentences of tokens, and spans of tokens as entities: places in the text."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from labelwright.corpus.schemes import is_chunk_label
from labelwright.corpus.spans import Span, spans_of
from labelwright.corpus.table import Corpus
from labelwright.corpus.text import joined_text
from labelwright.corpus.tokenizer import Place, Tokenizer
from labelwright.errors import CorpusError


class Entity(NamedTuple):
    """A place in a text, in characters, with its type; taggers add how probable it is."""

    start: int  #: the first character in the text, from 0
    end: int  #: the character after the last
    type: str  #: such as PER
    text: str  #: the characters start to end
    probability: float | None = None  #: that exactly this span is an entity of this type; None where it is not known


class SplitTexts(NamedTuple):
    """Texts and their sentences; every text has one at least, which may be empty."""

    texts: list[str]
    places: list[list[Place]]  # [N][T]  where each token stands in its text
    text_of: list[int]  # [N]  the text that each sentence is of

    @property
    def words(self) -> list[list[str]]:
        """The tokens of every sentence."""
        return [
            [text[a:b] for a, b in tokens]
            for tokens, text in zip(self.places, map(self.texts.__getitem__, self.text_of), strict=True)
        ]

    def corpus(self, source: str, tokenizer: Tokenizer) -> Corpus:
        """The sentences as a corpus with one column."""
        return Corpus.from_sequences(self.words, names=["word"], source=source).split_by(tokenizer)

    def entities(self, spans: Sequence[Sequence[Span]], begin: int = 0) -> list[list[Entity]]:
        """The entities of each text that spans [N] of its sentences are; `begin` is where the first text begins."""
        by_text: list[list[Entity]] = [[] for _ in self.texts]
        for tokens, number, of_sentence in zip(self.places, self.text_of, spans, strict=True):
            text = self.texts[number]
            for span in of_sentence:
                a, b = tokens[span.start][0], tokens[span.end - 1][1]
                by_text[number].append(Entity(begin + a, begin + b, span.type, text[a:b], span.probability))
        return by_text

    def segmented(self, spans: Sequence[Sequence[Span]]) -> list[list[str]]:
        """The words of every sentence: its spans [N] and the tokens outside of them; _ for a space inside of a word."""
        rows = []
        for places, number, of_sentence in zip(self.places, self.text_of, spans, strict=True):
            inside = {t for span in of_sentence for t in range(span.start + 1, span.end)}
            starts = [t for t in range(len(places)) if t not in inside]
            words = (self.texts[number][places[a][0] : places[b - 1][1]] for a, b in pairwise([*starts, len(places)]))
            rows.append([joined_text(word.split()).replace(" ", "_") for word in words])
        return rows


def split_texts(texts: Iterable[str], tokenizer: Tokenizer) -> SplitTexts:
    """Split texts into sentences of tokens."""
    kept = [checked_text(text, f"text {n}") for n, text in enumerate(texts)]
    places, text_of = list[list[Place]](), list[int]()
    for number, text in enumerate(kept):
        sentences = tokenizer(text) or [[]]
        places += sentences
        text_of += [number] * len(sentences)
    return SplitTexts(kept, places, text_of)


def checked_text(text: Any, place: str) -> str:
    """A text; anything else is an error."""
    if not isinstance(text, str):
        got = "nothing" if text is None else f"{text!r:.60}"
        raise CorpusError(f"{place}: expected a text, got {got}")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise CorpusError(f"{place}: holds half of a surrogate pair, which is no character")
    return text


def labelled_spans(labels: Sequence[str]) -> list[Span]:
    """The spans that the labels of a sentence make; labels without a scheme are one for each token."""
    if all(map(is_chunk_label, labels)):
        return spans_of(labels)
    return [Span(t, t + 1, label) for t, label in enumerate(labels)]
