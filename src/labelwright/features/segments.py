"""Features of segments: their length, the dictionaries that contain them, and their text if seen in training."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.table import Corpus
from labelwright.errors import OptionError
from labelwright.features.dictionaries import Entities, HeldOut, hold_out
from labelwright.features.encoded import other_kind
from labelwright.features.extract import EXTRACTORS, ColumnFeatures, Extractor, Tensors, few_tokens, kind_of
from labelwright.features.incidence import NO_VALUES, Incidence, Longs
from labelwright.features.layered import Slots, encode_with_slots
from labelwright.features.phrases import (
    PhraseIndex,
    Phrases,
    checked_dictionaries,
    features_by_phrase,
    index_of,
    make_phrases,
    read_phrases,
    rows_of,
)
from labelwright.locks import computed_once
from labelwright.structures.passing import Layered
from labelwright.structures.segments import LONGEST_SEGMENT, Segments, SegmentSpace, check_sentences
from labelwright.validation import HeaderReader, TensorReader

Array = NDArray[Any]
MOST_FEATURES = 1 << 31


class SegmentFeatures:
    """Features of tokens, made by another extractor, then those of segments: their length, the dictionaries that
    contain them, and their text if it was a segment in the training data."""

    kind: ClassVar[str] = "segments"

    def __init__(self, tokens: Extractor, max_length: int, dictionaries: Sequence[str], n_texts: int, phrases: Phrases):
        self.tokens, self.max_length, self.dictionaries = tokens, max_length, list(dictionaries)
        self.n_texts, self.phrases, self.mark = n_texts, phrases, tokens.mark

    @classmethod
    def learn(
        cls, tokens: Extractor, X: Any, segments: Segments, space: SegmentSpace, min_count: int, dictionaries: Any
    ) -> "SegmentFeatures":
        """Texts of the training segments that are seen often enough, and the phrases of dictionaries."""
        lists = checked_dictionaries(dictionaries)
        words = _words(X)
        if words is None:
            if lists:
                raise OptionError(f"dictionaries: need words, but the sentences are {tokens.kind}; leave them out")
            return cls(tokens, space.max_length, (), 0, make_phrases({}))
        features_of = features_by_phrase(lists)
        flat = words.tokens(words.input_names[0])
        chunks = segments.kind < space.n_long
        bounds = zip(segments.start[chunks].tolist(), segments.end[chunks].tolist(), strict=True)
        seen = Counter(tuple(flat[a:b]) for a, b in bounds)
        texts = [text for text, count in seen.items() if count >= min_count]
        for number, text in enumerate(texts, len(lists)):
            features_of.setdefault(text, []).append(number)
        return cls(tokens, space.max_length, list(lists), len(texts), make_phrases(features_of))

    @property
    def n_features(self) -> int:
        return self.tokens.n_features + self.max_length + len(self.dictionaries) + self.n_texts

    @property
    def always(self) -> range:
        """Features that have a weight for every type, seen or not: lengths and dictionaries."""
        first = self.tokens.n_features
        return range(first, first + self.max_length + len(self.dictionaries))

    def encode(self, X: Any) -> tuple[dict[str, Incidence], Longs]:
        incidences, _, offsets = self.encode_with_slots(X)
        return incidences, offsets

    def encode_with_slots(self, X: Any) -> tuple[dict[str, Incidence], Slots, Longs]:
        """As in LayeredFeatures: the slots of token features."""
        incidences, slots, offsets = encode_with_slots(self.tokens, X)
        check_sentences(offsets, self.max_length)
        return incidences | {"segment": self.incidence(X, offsets)}, slots, offsets

    def held_out(self, X: Any, segments: Segments, space: SegmentSpace) -> HeldOut | None:
        """What of the dictionaries does not count in training on these segments."""
        words = _words(X) if self.dictionaries else None
        if words is None:
            return None
        chunks = segments.kind < space.n_long
        found = (part[chunks] for part in segments)
        entities = Entities(words.tokens(words.input_names[0]), words.offsets, space.types, *found)
        return hold_out(self.dictionary_phrases(), self._index, entities, fold=False)

    def incidence(self, X: Any, offsets: Longs, held: HeldOut | None = None) -> Incidence:
        """The features of all candidates: the length is a key, the others are token features."""
        longest, rows = self.max_length, rows_of(offsets, self.max_length)
        keys = np.arange(rows[-1], dtype=np.int32) - np.repeat(rows[:-1].astype(np.int32), np.diff(rows))
        counts, feature = np.zeros(len(keys), np.int64), np.empty(0, np.int32)
        words = self._word_numbers(X) if len(self.phrases.feature) else None
        if words is not None:
            ends = self._index.find(words, offsets, longest, len(keys))
            row = np.flatnonzero(ends)
            ptr, node = self.phrases.ptr, ends[row]
            sizes = ptr[node + 1] - ptr[node]
            within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            feature = self.phrases.feature[np.repeat(ptr[node], sizes) + within]
            row, node = np.repeat(row, sizes), np.repeat(node, sizes)
            if held is not None:
                of_texts = feature >= len(self.dictionaries)
                token = np.searchsorted(rows, row, side="right") - 1
                counted = of_texts | held.counts(np.where(of_texts, 0, feature), node, token)
                row, feature = row[counted], feature[counted]
            counts = np.bincount(row, minlength=len(keys))
        first = self.tokens.n_features
        return Incidence(
            keys[:, None],
            np.arange(longest + 1, dtype=np.int64),
            np.arange(first, first + longest, dtype=np.int32),
            offsets_from(counts),
            (feature + (first + longest)).astype(np.int32),
            NO_VALUES,
        )

    @computed_once
    def _index(self) -> PhraseIndex:
        return index_of(self.phrases)

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds: all but what is quickly made again."""
        return {name: value for name, value in self.__dict__.items() if name != "_index"}

    def _word_numbers(self, X: Any) -> Longs | None:
        """The number of each word [T], -1 where it is unknown; None where there are no words."""
        number = self._index.number
        few = few_tokens(X, len(self.tokens.names)) if isinstance(self.tokens, ColumnFeatures) else None
        if few is not None:
            return np.array([number.get(word, -1) for word in few[0][0]], np.int64)
        words = _words(X)
        if words is None:
            return None
        name = words.input_names[0]
        known: Longs = np.array([number.get(word, -1) for word in words.values(name)], np.int64)
        return np.asarray(known[words.codes(name)])

    def name(self, feature: int) -> str:
        number = feature - self.tokens.n_features
        if number < 0:
            return self.tokens.name(feature)
        if number < self.max_length:
            return f"length={number + 1}"
        number -= self.max_length
        if number < len(self.dictionaries):
            return f"dictionary={self.dictionaries[number]}"
        place = np.flatnonzero(self.phrases.feature == number)[0]
        node = int(np.searchsorted(self.phrases.ptr, place, side="right")) - 1
        return f"text={' '.join(self.phrases.text(node))}"

    @property
    def segment_names(self) -> list[tuple[str, Any]]:
        """What each feature of segments is about: a length, a dictionary, or a text (its words)."""
        phrases, n = self.phrases, len(self.dictionaries)
        nodes = np.repeat(np.arange(len(phrases.ptr) - 1), np.diff(phrases.ptr)).tolist()
        texts = {f: phrases.text(node) for f, node in zip(phrases.feature.tolist(), nodes, strict=True) if f >= n}
        return [
            *(("length", number) for number in range(1, self.max_length + 1)),
            *(("dictionary", name) for name in self.dictionaries),
            *(("text", texts[number]) for number in range(n, n + self.n_texts)),
        ]

    def segment_numbers_in(self, other: "SegmentFeatures") -> Longs:
        """The number of each feature of segments in another extractor, or -1."""
        index = {name: number for number, name in enumerate(other.segment_names, other.tokens.n_features)}
        return np.array([index.get(name, -1) for name in self.segment_names], np.int64)

    def merged(self, new: Extractor) -> "SegmentFeatures":
        """These features, then the further ones of the new extractor; the dictionaries are the same."""
        if not isinstance(new, SegmentFeatures):
            raise other_kind(self, new)
        if new.dictionaries != self.dictionaries:
            raise OptionError("dictionaries: a trained SemiCRF keeps those of its training; fit again to change them")
        texts = dict.fromkeys(text for each in (self, new) for kind, text in each.segment_names if kind == "text")
        features_of = features_by_phrase(self.dictionary_phrases())
        for number, text in enumerate(texts, len(self.dictionaries)):
            features_of.setdefault(text, []).append(number)
        tokens, longest = self.tokens.merged(new.tokens), max(self.max_length, new.max_length)
        return SegmentFeatures(tokens, longest, self.dictionaries, len(texts), make_phrases(features_of))

    def numbers_in(self, merged: "SegmentFeatures") -> Longs:
        """The numbers [F] of these features in an extractor that was merged from this one."""
        return np.concatenate([self.tokens.numbers_in(merged.tokens), self.segment_numbers_in(merged)])

    def reduced(self, used: NDArray[np.bool_]) -> "tuple[SegmentFeatures, NDArray[np.bool_]]":
        """Without the features [F] that are not used, and which of them are left: lengths and dictionaries stay."""
        n, first = self.tokens.n_features, self.always.stop
        tokens, left = self.tokens.reduced(used[:n])
        phrases, shift = self.phrases, len(self.dictionaries)
        number = np.concatenate([np.arange(shift), np.where(used[first:], np.cumsum(used[first:]) - 1 + shift, -1)])
        nodes = np.repeat(np.arange(len(phrases.ptr) - 1), np.diff(phrases.ptr)).tolist()
        features_of: dict[tuple[str, ...], list[int]] = {}
        for node, feature in zip(nodes, number[phrases.feature].tolist(), strict=True):
            if feature >= 0:
                features_of.setdefault(phrases.text(node), []).append(feature)
        n_texts = int(used[first:].sum())
        left = np.concatenate([left, np.ones(first - n, np.bool_), used[first:]])
        smaller = make_phrases(features_of)
        return SegmentFeatures(tokens, self.max_length, self.dictionaries, n_texts, smaller), left

    def dictionary_phrases(self) -> dict[str, list[tuple[str, ...]]]:
        """The dictionaries, as they were given."""
        return dict(zip(self.dictionaries, self.phrases.by_owner(len(self.dictionaries)), strict=True))

    @property
    def cell_kinds(self) -> tuple[str, ...]:
        return (*self.tokens.cell_kinds, "segment")

    def tensors(self) -> Tensors:
        return self.tokens.tensors() | {f"phrases.{name}": array for name, array in self.phrases.tensors().items()}

    def header(self) -> dict[str, Any]:
        sizes = {"max_length": self.max_length, "dictionaries": self.dictionaries, "n_texts": self.n_texts}
        return self.tokens.header() | {"segments": {"tokens": self.tokens.kind} | sizes}

    @classmethod
    def restore(cls, tensors: TensorReader, header: HeaderReader) -> "SegmentFeatures":
        sizes = header.part("segments")
        tokens = EXTRACTORS[sizes.one_of("tokens", tuple(EXTRACTORS))].restore(tensors, header)
        dictionaries, n_texts = sizes.names("dictionaries"), sizes.whole("n_texts", 0, MOST_FEATURES)
        phrases = read_phrases(tensors.part("phrases."), len(dictionaries), n_texts)
        return cls(tokens, sizes.whole("max_length", 1, LONGEST_SEGMENT), dictionaries, n_texts, phrases)


def _words(X: Any) -> Corpus | None:
    """The words of sentences, where they have any."""
    if isinstance(X, Layered):
        return _words(X.X)
    if isinstance(X, Corpus):
        return X
    return Corpus.from_sequences(X) if kind_of(X) == "columns" else None
