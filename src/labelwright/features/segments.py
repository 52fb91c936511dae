"""Features of segments: their length, the dictionaries that contain them, and their text if seen in
training."""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import numpy as np

from labelwright.corpus.offsets import offsets_from, runs_of
from labelwright.corpus.table import Corpus
from labelwright.errors import OptionError
from labelwright.features.extract import EXTRACTORS, ColumnFeatures, few_tokens, kind_of
from labelwright.features.incidence import (
    NO_VALUES,
    Bools,
    Composed,
    Extractor,
    Incidence,
    Longs,
    Part,
    Slots,
    Tensors,
)
from labelwright.features.phrases import (
    Phrases,
    checked_dictionaries,
    features_by_phrase,
    make_phrases,
    read_phrases,
    rows_of,
)
from labelwright.features.sources import Entities, HeldOut, hold_out
from labelwright.modelfile import HeaderReader, TensorReader
from labelwright.structures.passing import Layered
from labelwright.structures.segments import LONGEST_SEGMENT, Segments, SegmentSpace, check_sentences

Phrase = tuple[str, ...]
MOST_FEATURES = 1 << 31


class SegmentTexts(Part):
    """What segments are: of a length, in dictionaries, or of a text that was a segment in the
    training data.

    Features are lengths, then dictionaries, then texts; in `phrases` dictionaries and texts count
    from 0."""

    cell_kinds = ("segment",)

    def __init__(
        self, max_length: int, dictionaries: Sequence[str], n_texts: int, phrases: Phrases
    ):
        self.max_length, self.dictionaries = max_length, list(dictionaries)
        self.n_texts, self.phrases = n_texts, phrases
        # features that have a weight for every type, seen or not
        self.n_always = max_length + len(self.dictionaries)
        self.n_features = self.n_always + n_texts

    @classmethod
    def of(
        cls, max_length: int, lists: dict[str, list[Phrase]], texts: Collection[Phrase]
    ) -> "SegmentTexts":
        """The phrases of dictionaries, and these texts."""
        features_of = features_by_phrase(lists)
        for number, text in enumerate(texts, len(lists)):
            features_of.setdefault(text, []).append(number)
        return cls(max_length, list(lists), len(texts), make_phrases(features_of))

    @property
    def names(self) -> list[tuple[str, Any]]:
        """What each feature is about: a length, a dictionary, or a text (its words)."""
        n = len(self.dictionaries)
        texts = {
            feature: self.phrases.text(node)
            for node, feature in self.phrases.owned()
            if feature >= n
        }
        return [
            *(("length", number) for number in range(1, self.max_length + 1)),
            *(("dictionary", name) for name in self.dictionaries),
            *(("text", texts[number]) for number in range(n, n + self.n_texts)),
        ]

    def name(self, feature: int) -> str:
        kind, what = self.names[feature]
        return f"{kind}={' '.join(what) if kind == 'text' else what}"

    def merged(self, new: "SegmentTexts") -> "SegmentTexts":
        """These features, then the further texts of the new part; the dictionaries are the same."""
        if new.dictionaries != self.dictionaries:
            raise OptionError(
                "dictionaries: a trained SemiCRF keeps those of its training; fit again to change "
                "them"
            )
        texts = dict.fromkeys(
            text for each in (self, new) for kind, text in each.names if kind == "text"
        )
        return SegmentTexts.of(max(self.max_length, new.max_length), self.lists(), texts)

    def numbers_in(self, other: "SegmentTexts") -> Longs:
        index = {name: number for number, name in enumerate(other.names)}
        return np.array([index.get(name, -1) for name in self.names], np.int64)

    def reduced(self, used: Bools) -> "tuple[SegmentTexts, Bools]":
        """Without the texts that are not used, and which features are left: lengths and
        dictionaries stay."""
        left = np.concatenate([np.ones(self.n_always, np.bool_), used[self.n_always :]])
        texts = [
            text
            for (kind, text), keep in zip(self.names, left.tolist(), strict=True)
            if keep and kind == "text"
        ]
        return SegmentTexts.of(self.max_length, self.lists(), texts), left

    def lists(self) -> dict[str, list[Phrase]]:
        """The dictionaries, as they were given."""
        return self.phrases.lists(self.dictionaries)

    def incidence(
        self, words: Longs | None, offsets: Longs, first: int, held: HeldOut | None = None
    ) -> Incidence:
        """The features of all candidates, counted from `first`: the length is a key, the others are
        token features. words [T] are numbers, -1 where they are unknown."""
        longest, rows = self.max_length, rows_of(offsets, self.max_length)
        keys = np.arange(rows[-1], dtype=np.int32) - np.repeat(
            rows[:-1].astype(np.int32), np.diff(rows)
        )
        counts, feature = np.zeros(len(keys), np.int64), np.empty(0, np.int32)
        if words is not None:
            ends = self.phrases.index.find(words, offsets, longest, len(keys))
            row = np.flatnonzero(ends)
            ptr, node = self.phrases.ptr, ends[row]
            owner, place = runs_of(ptr[node], ptr[node + 1] - ptr[node])
            row, node, feature = row[owner], node[owner], self.phrases.feature[place]
            if held is not None:
                of_texts = feature >= len(self.dictionaries)
                token = np.searchsorted(rows, row, side="right") - 1
                counted = of_texts | held.counts(np.where(of_texts, 0, feature), node, token)
                row, feature = row[counted], feature[counted]
            counts = np.bincount(row, minlength=len(keys))
        return Incidence(
            keys[:, None],
            np.arange(longest + 1, dtype=np.int64),
            np.arange(first, first + longest, dtype=np.int32),
            offsets_from(counts),
            (feature + (first + longest)).astype(np.int32),
            NO_VALUES,
        )

    def tensors(self) -> Tensors:
        return {f"phrases.{name}": array for name, array in self.phrases.tensors().items()}

    def header(self) -> dict[str, Any]:
        sizes = {
            "max_length": self.max_length,
            "dictionaries": self.dictionaries,
            "n_texts": self.n_texts,
        }
        return {"segments": sizes}


class SegmentFeatures(Composed):
    """Features of tokens, made by another extractor, then those of segments."""

    kind: ClassVar[str] = "segments"
    stored: ClassVar[dict[str, str]] = {"tokens": "", "texts": ""}

    def __init__(self, tokens: Extractor, texts: SegmentTexts):
        self.tokens, self.texts, self.mark = tokens, texts, tokens.mark

    @classmethod
    def learn(
        cls,
        tokens: Extractor,
        X: Any,
        segments: Segments,
        space: SegmentSpace,
        min_count: int,
        dictionaries: Any,
    ) -> "SegmentFeatures":
        """Texts of the training segments that are seen often enough, and the phrases of
        dictionaries."""
        lists = checked_dictionaries(dictionaries)
        words = _words(X)
        if words is None:
            if lists:
                raise OptionError(
                    f"dictionaries: need words, but the sentences are {tokens.kind}; leave them out"
                )
            return cls(tokens, SegmentTexts.of(space.max_length, {}, ()))
        flat = words.tokens(words.input_names[0])
        chunks = segments.kind < space.n_long
        bounds = zip(segments.start[chunks].tolist(), segments.end[chunks].tolist(), strict=True)
        seen = Counter(tuple(flat[a:b]) for a, b in bounds)
        texts = [text for text, count in seen.items() if count >= min_count]
        return cls(tokens, SegmentTexts.of(space.max_length, lists, texts))

    @property
    def always(self) -> range:
        """Features that have a weight for every type, seen or not: lengths and dictionaries."""
        return range(self.tokens.n_features, self.tokens.n_features + self.texts.n_always)

    def encode_with_slots(self, X: Any) -> tuple[dict[str, Incidence], Slots, Longs]:
        incidences, slots, offsets = self.tokens.encode_with_slots(X)
        check_sentences(offsets, self.texts.max_length)
        return incidences | {"segment": self.incidence(X, offsets)}, slots, offsets

    def held_out(self, X: Any, segments: Segments, space: SegmentSpace) -> HeldOut | None:
        """What of the dictionaries does not count in training on these segments."""
        words = _words(X) if self.texts.dictionaries else None
        if words is None:
            return None
        chunks = segments.kind < space.n_long
        found = (part[chunks] for part in segments)
        entities = Entities(words.tokens(words.input_names[0]), words.offsets, space.types, *found)
        return hold_out(self.texts.lists(), self.texts.phrases.index, entities, fold=False)

    def incidence(self, X: Any, offsets: Longs, held: HeldOut | None = None) -> Incidence:
        words = self._word_numbers(X) if len(self.texts.phrases.feature) else None
        return self.texts.incidence(words, offsets, self.tokens.n_features, held)

    def _word_numbers(self, X: Any) -> Longs | None:
        """The number of each word [T], -1 where it is unknown; None where there are no words."""
        number = self.texts.phrases.index.number
        few = (
            few_tokens(X, len(self.tokens.names))
            if isinstance(self.tokens, ColumnFeatures)
            else None
        )
        if few is not None:
            return np.array([number.get(word, -1) for word in few[0][0]], np.int64)
        words = _words(X)
        if words is None:
            return None
        name = words.input_names[0]
        known: Longs = np.array([number.get(word, -1) for word in words.values(name)], np.int64)
        return np.asarray(known[words.codes(name)])

    def header(self) -> dict[str, Any]:
        header = super().header()
        return header | {"segments": {"tokens": self.tokens.kind} | header["segments"]}

    @classmethod
    def restore(cls, tensors: TensorReader, header: HeaderReader) -> "SegmentFeatures":
        sizes = header.part("segments")
        tokens = EXTRACTORS[sizes.one_of("tokens", tuple(EXTRACTORS))].restore(tensors, header)
        dictionaries, n_texts = (
            sizes.names("dictionaries"),
            sizes.whole("n_texts", 0, MOST_FEATURES),
        )
        phrases = read_phrases(tensors.part("phrases."), len(dictionaries), n_texts)
        longest = sizes.whole("max_length", 1, LONGEST_SEGMENT)
        return cls(tokens, SegmentTexts(longest, dictionaries, n_texts, phrases))


def _words(X: Any) -> Corpus | None:
    """The words of sentences, where they have any."""
    if isinstance(X, Layered):
        return _words(X.X)
    if isinstance(X, Corpus):
        return X
    return Corpus.from_sequences(X) if kind_of(X) == "columns" else None
