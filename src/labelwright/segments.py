"""Segmentations: which segments a sentence may have, what features they have, and what labels they are written as.

Labels of a chunk scheme are read as conlleval does: every chunk is a segment, and so is every single token outside of
chunks (type O, the last of the types).  Other labels are the types themselves, and maximal runs of one are segments.
Every candidate, a run of up to max_length tokens, has a row of scores, with a column for each type; kernels.segments
says in which order.
"""

import functools
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.schemes import ALIASES, boundaries, convert, detect_scheme, join_label, split_label
from labelwright.corpus.table import Corpus
from labelwright.dag import Dag
from labelwright.errors import OptionError
from labelwright.features.extract import EXTRACTORS, Extractor, Tensors, kind_of
from labelwright.features.incidence import NO_VALUES, Incidence, Longs
from labelwright.features.layered import Slots, encode_with_slots
from labelwright.kernels import segments as kernels
from labelwright.modelfile import pack_strings, unpack_strings
from labelwright.passing import Layered

Array = NDArray[Any]
MAX_ROWS = 1 << 27  # candidates in the training data: each needs about twenty bytes
PLACES = "BIES"  # first, inner, last and only token of a segment
# The place whose label depends on whether the neighbour, before or behind, is of the same type.
TOUCHY = {"iob1": "B", "ioe1": "E"}
PARTNERS = {"L": ("S", "U"), "U": ("E", "L")}  # who writes L writes U, too: BILOU


class Segments(NamedTuple):
    """Segments of sentences, in order."""

    start: Array  # [n]  first token
    end: Array  # [n]  the token behind the last
    kind: Array  # [n]  type


# -- types and labels -------------------------------------------------------------------------------------------------


class SegmentSpace(NamedTuple):
    """The types of segments, and the labels of the tokens in them (those that a model's space_ has)."""

    labels: tuple[str, ...]  # those of the training data, then others that the scheme writes for the same types
    scheme: str | None
    types: tuple[str, ...]  # [L]  the last is O where labels follow a scheme
    max_length: int

    @property
    def n_types(self) -> int:
        return len(self.types)

    @property
    def n_long(self) -> int:
        """How many types (the first ones) may have more than one token."""
        return self.n_types - (self.scheme is not None)

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of the columns of rows of tokens."""
        long = self.types[: self.n_long]
        names = [join_label(place, kind) for place in PLACES for kind in long]
        return (*names, "O") if self.scheme is not None else tuple(names)

    @property
    def follows(self) -> Array:
        """Which type may follow which [L+1, L+1]; the last index is the outside of the sentence, which begins it."""
        found = np.ones((self.n_types + 1, self.n_types + 1), np.bool_)
        found[:, -1] = False
        if self.scheme in (None, "io"):  # neighbours of one type would be one segment
            long = np.arange(self.n_long)
            found[long, long] = False
        return found

    def written(self, kind: int, length: int, before: bool = False, after: bool = False) -> tuple[str, ...]:
        """The labels of a segment, which may touch others of its type before and behind it."""
        spelt = spelling(self)
        labels = _written(self.scheme, self.types[kind], kind < self.n_long, length, before, after)
        return tuple(spelt.get(label, label) for label in labels)

    def labels_of(self, found: Segments) -> list[str]:
        """The labels of one sentence."""
        labels: list[str] = []
        spelt = spelling(self)
        kinds = found.kind.tolist()
        lengths = (found.end - found.start).tolist()
        around = zip([-1, *kinds[:-1]], kinds, [*kinds[1:], -1], lengths, strict=True)
        for before, kind, after, length in around:
            own = self.types[kind], kind < self.n_long, length, before == kind, after == kind
            labels += [spelt.get(label, label) for label in _written(self.scheme, *own)]
        return labels


@functools.lru_cache(maxsize=1 << 14)
def _written(scheme: str | None, kind: str, long: bool, length: int, before: bool, after: bool) -> tuple[str, ...]:
    if not long or scheme is None:
        return (kind,) * length
    letters = "S" if length == 1 else "B" + "I" * (length - 2) + "E"
    window = ["S"] * before + list(letters) + ["S"] * after
    labels = convert([[join_label(letter, kind) for letter in window]], "bioes", scheme)[0]
    return tuple(labels[before : before + length])


@functools.lru_cache(maxsize=64)
def spelling(space: SegmentSpace) -> dict[str, str]:
    """How the training data spell each label of a scheme: with L for E and U for S (BILOU), M for I (BMES).

    What they do not have is spelt as in other types, and with its partner's letter where there are none."""
    if space.scheme is None:
        return {}
    found: dict[str, str] = {}
    letters: dict[str, str] = {}  # of each place
    for label in space.labels:
        letter, kind = split_label(label)
        place = ALIASES.get(letter, letter)
        found.setdefault(join_label(place, kind), label)
        letters.setdefault(place, letter)
    for letter in list(letters.values()):
        if letter in PARTNERS:
            letters.setdefault(*PARTNERS[letter])
    for place, kind in itertools.product(PLACES, space.types[: space.n_long]):
        found.setdefault(join_label(place, kind), join_label(letters.get(place, place), kind))
    return found


@functools.lru_cache(maxsize=64)
def label_table(space: SegmentSpace) -> Array:
    """The label of each place of each type, not touching and touching its own kind [2, L, 4]."""
    index = {label: code for code, label in enumerate(space.labels)}
    found = np.empty((2, space.n_types, len(PLACES)), np.int64)
    for touching, kind in itertools.product((0, 1), range(space.n_types)):
        one, two, three = (space.written(kind, n, bool(touching), bool(touching)) for n in (1, 2, 3))
        # Of segments that are too long to be, the label does not matter.
        found[touching, kind] = [index.get(label, 0) for label in (two[0], three[1], two[-1], one[0])]
    return found


def label_of_role(space: SegmentSpace) -> Array:
    """The label that each role is written as [R]; an error where that depends on the neighbours."""
    if space.scheme in TOUCHY:
        raise OptionError(
            f"labels: in {space.scheme} they depend on the neighbours of a segment, so a layer above cannot be passed "
            'their probabilities; use iob2 labels (labelwright convert, or scheme = "iob2" in the layer\'s table of a '
            "recipe), or passing='best'"
        )
    return _untouched(space)


def _untouched(space: SegmentSpace) -> Array:
    """The label that each role is written as [R] where no segment of its type is beside it."""
    table = label_table(space)[0]  # [L, places]
    return np.concatenate([table[: space.n_long, :3].T.reshape(-1), table[:, 3]])


def read_segments(
    labels: Sequence[str], codes: Array, offsets: Array, scheme: str | None
) -> tuple[tuple[str, ...], Segments]:
    """The types of these labels, and the segments of sentences given by label codes [T]."""
    edge = len(labels)
    if scheme is None:
        types = tuple(labels)
        type_of = np.arange(edge + 1)
        starts = ends = type_of[:, None] != type_of[None, :]
    else:
        table = boundaries(labels)
        types = (*table.types, "O")
        type_of = np.where(table.type_of < 0, len(types) - 1, table.type_of)
        outside = table.type_of < 0  # each token of its own
        starts, ends = table.starts | outside[None, :], table.ends | outside[:, None]
    before, after = np.full(len(codes), edge), np.full(len(codes), edge)
    before[1:], after[:-1] = codes[:-1], codes[1:]
    first = offsets[:-1][np.diff(offsets) > 0]
    before[first] = edge
    after[np.append(first[1:], len(codes))[: len(first)] - 1] = edge
    start = np.flatnonzero(starts[before, codes])
    return types, Segments(start, np.flatnonzero(ends[codes, after]) + 1, type_of[codes[start]])


def segment_space(
    labels: Sequence[str], codes: Array, offsets: Array, pairs: Any, max_length: int | None
) -> tuple[SegmentSpace, Segments]:
    """The space of the labels of training data, and their segments."""
    scheme = detect_scheme(labels, pairs=pairs)
    types, found = read_segments(labels, codes, offsets, scheme)
    if len(types) < 2:
        raise OptionError(f"labels: segments need two different types of labels at least, got only {labels[0]!r}")
    space = SegmentSpace(tuple(labels), scheme, types, max_length or int((found.end - found.start).max()))
    check_sizes(found, offsets, space.max_length)
    names = dict.fromkeys(labels)
    for kind, n, touching in itertools.product(
        range(len(types)), range(1, min(space.max_length, 3) + 1), (False, True)
    ):
        names |= dict.fromkeys(space.written(kind, n, touching, touching))
    return space._replace(labels=tuple(names)), found


def segments_in(space: SegmentSpace, labels: Sequence[str], codes: Array, offsets: Array) -> Segments:
    """The segments of label sequences, in terms of a space that there is already."""
    index = {label: code for code, label in enumerate(space.labels)}
    codes = np.array([index.get(label, -1) for label in labels], np.int64)[codes]
    if (codes < 0).any():
        new = next(label for label in labels if label not in index)
        raise OptionError(f"labels: no label {new!r} in this model, expected one of {', '.join(space.labels)}")
    return read_segments(space.labels, codes, offsets, space.scheme)[1]


def check_sizes(found: Segments, offsets: Array, max_length: int) -> None:
    """Refuse segments that are too long, and more candidates than there is memory for."""
    length = found.end - found.start
    longest = int(length.max(initial=0))
    if longest > max_length:
        sentence = int(np.searchsorted(offsets, found.start[np.argmax(length)], side="right")) - 1
        raise OptionError(
            f"max_length: sentence {sentence} has a segment of {longest} tokens, got max_length={max_length}; "
            f"use {longest} or more, or None"
        )
    n_rows = int(row_offsets(offsets, max_length)[-1])
    if n_rows > MAX_ROWS:
        raise OptionError(
            f"max_length: there are {n_rows:,} runs of up to {max_length} tokens, more than {MAX_ROWS:,}; use "
            "fewer sentences, a smaller max_length (where segments permit it), or a CRF"
        )


# -- rows and arcs ----------------------------------------------------------------------------------------------------


def rows_before(end: Array, max_length: int) -> Array:
    """How many rows of a sentence stand before those of segments that end before token `end` (1 or more)."""
    full = np.maximum(end - 1 - max_length, 0)
    short = end - 1 - full
    return np.asarray(short * (short + 1) // 2 + full * max_length)


def row_offsets(offsets: Array, max_length: int) -> Longs:
    """Where the rows of segments of each sentence begin [N+1]."""
    sizes = rows_before(np.diff(offsets) + 1, max_length)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def rows_of(found: Segments, offsets: Array, max_length: int) -> Array:
    """The row of each of these segments."""
    sentence = np.searchsorted(offsets, found.start, side="right") - 1
    end = found.end - offsets[sentence]
    rows = row_offsets(offsets, max_length)[sentence] + rows_before(end, max_length)
    return np.asarray(rows + found.end - found.start - 1)


class Arcs(NamedTuple):
    """What the arcs of a graph of segments stand for (kernels.segments.write_graph)."""

    dag: Dag
    first: Array  # [A]  first token
    length: Array  # [A]  number of tokens; 0: a move
    kind: Array  # [A]  type
    before: Array  # [A]  type before a move, L at the beginning; -1 of a segment

    def of(self, T: int, space: SegmentSpace) -> "Arcs":
        """The arcs of a shorter sentence, which are the first of these."""
        L = space.n_types
        A, V = kernels.before_moves(L, space.n_long, space.max_length, T), 1 + 2 * T * L
        sinks = np.arange(V - L, V, dtype=np.int32)
        whole = self.dag
        dag = Dag(whole.source[:A], whole.target[:A], V, whole.sources, sinks)
        return Arcs(dag, self.first[:A], self.length[:A], self.kind[:A], self.before[:A])

    def segments(self, path: Array) -> Segments:
        """The segments on a path."""
        own = path[self.length[path] > 0]
        return Segments(self.first[own], self.first[own] + self.length[own], self.kind[own])


def arcs_of(space: SegmentSpace, T: int) -> Arcs:
    """The arcs of T tokens."""
    L, n_long, longest = space.n_types, space.n_long, space.max_length
    A = kernels.before_moves(L, n_long, longest, T)
    source, target, first, length, kind, before = np.empty((6, A), np.int32)
    kernels.write_graph(L, n_long, longest, T, source, target, first, length, kind, before)
    V = 1 + 2 * T * L
    dag = Dag(source, target, V, np.zeros(1, np.int32), np.arange(V - L, V, dtype=np.int32))
    return Arcs(dag, first, length, kind, before)


def permitted_arcs(space: SegmentSpace, arcs: Arcs, permitted: Array) -> Array:
    """Which arcs [A] leave every token one of its permitted labels [T, labels]."""
    table, touchy = label_table(space), TOUCHY.get(space.scheme or "")
    T = len(permitted)
    free = permitted[:, table[0]] | permitted[:, table[1]]  # [T, L, places]
    if touchy == "E":  # nothing touches the last token from behind
        free[-1] = permitted[-1][table[0]]
    begin, inner, end, single = (free[:, :, PLACES.index(place)] for place in PLACES)
    shut = np.concatenate([np.zeros((1, space.n_types), np.int64), np.cumsum(~inner, axis=0)])  # [T+1, L]
    first, length, kind = arcs.first, arcs.length, arcs.kind
    last = np.maximum(first + length - 1, first)
    long = begin[first, kind] & end[last, kind] & (shut[last, kind] == shut[np.minimum(first + 1, T), kind])
    found = np.where(length > 1, long, np.where(length == 1, single[first, kind], True))
    move = length == 0
    same = (arcs.before == kind).astype(np.int64)
    if touchy == "B":
        found[move] &= permitted[first, table[same, kind, PLACES.index("B")]][move]
    elif touchy == "E":
        move &= first > 0
        label = table[same[move], arcs.before[move], PLACES.index("E")]
        found[move] &= permitted[first[move] - 1, label]
    return np.asarray(found)


def label_marginals(space: SegmentSpace, roles: Array, arcs: Arcs, p: Array) -> Array:
    """P(label at t) [T, labels] from P(role at t) [T, R] and P(arc) [A]."""
    table, touchy, n = label_table(space), TOUCHY.get(space.scheme or ""), space.n_long
    found = np.zeros((len(roles), len(space.labels)))
    np.add.at(found.T, _untouched(space), roles.T)
    if touchy is not None:  # what touches its own kind has another label
        place = PLACES.index(touchy)
        own = np.flatnonzero((arcs.length == 0) & (arcs.before == arcs.kind) & (arcs.kind < n))
        token, kind = arcs.first[own] - (touchy == "E"), arcs.kind[own]
        np.add.at(found, (token, table[0, kind, place]), -p[own])
        np.add.at(found, (token, table[1, kind, place]), p[own])
    return np.clip(found, 0.0, 1.0)


# -- features ---------------------------------------------------------------------------------------------------------


class Phrases(NamedTuple):
    """Phrases as a tree of words: node 0 is the beginning, node i + 1 is reached from parent[i] by word[i]."""

    words: list[str]  # [W]
    parent: Array  # [nodes - 1]
    word: Array  # [nodes - 1]
    ptr: Array  # [nodes + 1]
    feature: Array  # features of the phrase that ends at node i: feature[ptr[i]:ptr[i+1]]

    def find(self, values: Sequence[str], codes: Array, offsets: Array, max_length: int) -> tuple[Segments, Array]:
        """All runs of tokens that are phrases with features, and the nodes where they end."""
        index = {word: i for i, word in enumerate(self.words)}
        number = np.array([index.get(value, -1) for value in values], np.int64)[codes]
        W = max(len(self.words), 1)
        known = self.parent.astype(np.int64) * W + self.word
        order = np.argsort(known, kind="stable")
        known = known[order]
        stop = np.repeat(offsets[1:], np.diff(offsets))
        start, node = np.arange(len(codes)), np.zeros(len(codes), np.int64)
        starts, lengths, nodes = [], [], []
        for length in range(1, max_length + 1):
            alive = start + length <= stop[start]
            start, node = start[alive], node[alive]
            word = number[start + length - 1]
            at = np.minimum(np.searchsorted(known, node * W + word), max(len(known) - 1, 0))
            alive = (word >= 0) & (known[at] == node * W + word) if len(known) else word < -1
            start, node = start[alive], order[at[alive]] + 1
            marked = self.ptr[node + 1] > self.ptr[node]
            starts.append(start[marked])
            lengths.append(np.full(len(starts[-1]), length))
            nodes.append(node[marked])
        first = np.concatenate(starts)
        return Segments(first, first + np.concatenate(lengths), first * 0), np.concatenate(nodes)

    def text(self, node: int) -> tuple[str, ...]:
        """The words of the phrase that ends at a node."""
        words: list[str] = []
        while node > 0:
            words.append(self.words[int(self.word[node - 1])])
            node = int(self.parent[node - 1])
        return tuple(reversed(words))


def make_phrases(features: Mapping[tuple[str, ...], list[int]]) -> Phrases:
    """The tree of these phrases with their features."""
    words: dict[str, int] = {}
    edges: dict[tuple[int, int], int] = {}
    owned: dict[int, list[int]] = {}
    for phrase, own in features.items():
        node = 0
        for word in phrase:
            edge = node, words.setdefault(word, len(words))
            node = edges.setdefault(edge, len(edges) + 1)
        owned[node] = own
    sizes = [len(owned.get(node, ())) for node in range(len(edges) + 1)]
    feature = [f for node in range(len(edges) + 1) for f in owned.get(node, ())]
    ends = np.array(list(edges), np.int32).reshape(-1, 2)
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return Phrases(list(words), ends[:, 0].copy(), ends[:, 1].copy(), ptr, np.array(feature, np.int32))


class SegmentFeatures:
    """Features of tokens, as another extractor makes them, and behind them those of segments: their length, the
    dictionaries that have them, and their text where it was a segment in the training data."""

    kind: ClassVar[str] = "segments"

    def __init__(self, tokens: Extractor, max_length: int, dictionaries: Sequence[str], n_texts: int, phrases: Phrases):
        self.tokens, self.max_length, self.dictionaries = tokens, max_length, list(dictionaries)
        self.n_texts, self.phrases, self.mark = n_texts, phrases, tokens.mark

    @classmethod
    def learn(
        cls, tokens: Extractor, X: Any, found: Segments, space: SegmentSpace, min_count: int, dictionaries: Any
    ) -> "SegmentFeatures":
        """Texts of the training segments that are seen often enough, and the phrases of dictionaries."""
        lists = _checked_dictionaries(dictionaries)
        own: dict[tuple[str, ...], list[int]] = {}
        words = _words(X)
        if words is None:
            if lists:
                raise OptionError(f"dictionaries: need words, but the sentences are {tokens.kind}; leave them out")
            return cls(tokens, space.max_length, (), 0, make_phrases({}))
        for number, phrases in enumerate(lists.values()):
            for phrase in phrases:
                features = own.setdefault(phrase, [])
                if number not in features:
                    features.append(number)
        flat = words.tokens(words.input_names[0])
        chunks = found.kind < space.n_long
        bounds = zip(found.start[chunks].tolist(), found.end[chunks].tolist(), strict=True)
        seen = Counter(tuple(flat[a:b]) for a, b in bounds)
        texts = [text for text, count in seen.items() if count >= min_count]
        for number, text in enumerate(texts, len(lists)):
            own.setdefault(text, []).append(number)
        return cls(tokens, space.max_length, list(lists), len(texts), make_phrases(own))

    @property
    def n_features(self) -> int:
        return self.tokens.n_features + self.max_length + len(self.dictionaries) + self.n_texts

    @property
    def always(self) -> range:
        """Features that have a weight for every type, seen or not: lengths and dictionaries."""
        first = self.tokens.n_features
        return range(first, first + self.max_length + len(self.dictionaries))

    def encode(self, X: Any) -> tuple[dict[str, Incidence], Longs]:
        layers, _, offsets = self.encode_with_slots(X)
        return layers, offsets

    def encode_with_slots(self, X: Any) -> tuple[dict[str, Incidence], Slots, Longs]:
        """As of LayeredFeatures: the slots of the features of tokens."""
        layers, slots, offsets = encode_with_slots(self.tokens, X)
        return layers | {"segment": self.incidence(X, offsets)}, slots, offsets

    def incidence(self, X: Any, offsets: Longs) -> Incidence:
        """The features of all candidates: length is a key, the rest is their own."""
        longest, ends = self.max_length, np.arange(1, offsets[-1] + 1)
        ends -= np.repeat(offsets[:-1], np.diff(offsets))  # of each token, in its sentence
        sizes = np.minimum(ends, longest)
        keys = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        counts, feature = np.zeros(len(keys), np.int64), np.empty(0, np.int32)
        words = _words(X) if len(self.phrases.feature) else None
        if words is not None:
            name = words.input_names[0]
            found, node = self.phrases.find(words.values(name), words.codes(name), offsets, longest)
            row = rows_of(found, offsets, longest)
            ptr, node = self.phrases.ptr, node[np.argsort(row, kind="stable")]
            sizes = ptr[node + 1] - ptr[node]
            counts[np.sort(row)] = sizes
            within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            feature = self.phrases.feature[np.repeat(ptr[node], sizes) + within]
        first = self.tokens.n_features
        return Incidence(
            keys.astype(np.int32)[:, None],
            np.arange(longest + 1, dtype=np.int64),
            np.arange(first, first + longest, dtype=np.int32),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            (feature + (first + longest)).astype(np.int32),
            NO_VALUES,
        )

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
        raise OptionError("a segment model cannot grow; fit it again on all data")

    def numbers_in(self, merged: Any) -> Longs:
        raise OptionError("a segment model cannot grow; fit it again on all data")

    def dictionary_phrases(self) -> dict[str, list[tuple[str, ...]]]:
        """The dictionaries, as they were given."""
        found: dict[str, list[tuple[str, ...]]] = {name: [] for name in self.dictionaries}
        for place in np.flatnonzero(self.phrases.feature < len(self.dictionaries)):
            node = int(np.searchsorted(self.phrases.ptr, place, side="right")) - 1
            found[self.dictionaries[self.phrases.feature[place]]].append(self.phrases.text(node))
        return found

    def tensors(self) -> Tensors:
        found = self.tokens.tensors()
        phrases = self.phrases
        found["phrases.text"], found["phrases.offsets"] = pack_strings(phrases.words)
        for name in ("parent", "word", "ptr", "feature"):
            found[f"phrases.{name}"] = getattr(phrases, name)
        return found

    def header(self) -> dict[str, Any]:
        own = {"tokens": self.tokens.kind, "max_length": self.max_length, "dictionaries": self.dictionaries}
        return self.tokens.header() | {"segments": own | {"n_texts": self.n_texts}}

    @classmethod
    def restore(cls, tensors: Tensors, header: dict[str, Any]) -> "SegmentFeatures":
        own = header["segments"]
        tokens = EXTRACTORS[own["tokens"]].restore(tensors, header)
        words = unpack_strings(tensors["phrases.text"], tensors["phrases.offsets"])
        phrases = Phrases(words, *(tensors[f"phrases.{name}"] for name in ("parent", "word", "ptr", "feature")))
        return cls(tokens, own["max_length"], own["dictionaries"], own["n_texts"], phrases)


def _words(X: Any) -> Corpus | None:
    """The words of sentences, where they have any."""
    if isinstance(X, Layered):
        return _words(X.X)
    if isinstance(X, Corpus):
        return X
    return Corpus.from_sequences(X) if kind_of(X) == "columns" else None


def _checked_dictionaries(dictionaries: Any) -> dict[str, list[tuple[str, ...]]]:
    """Name -> phrases as tuples of words."""
    if dictionaries is None:
        return {}
    if not isinstance(dictionaries, Mapping):
        raise OptionError(f"dictionaries: expected {{name: phrases}}, got {type(dictionaries).__name__}")
    found: dict[str, list[tuple[str, ...]]] = {}
    for name, phrases in dictionaries.items():
        if isinstance(phrases, str | bytes) or not isinstance(phrases, Iterable):
            raise OptionError(f"dictionaries: {name!r}: expected a list of phrases, got {type(phrases).__name__}")
        found[str(name)] = []
        for phrase in phrases:
            words = tuple(phrase.split()) if isinstance(phrase, str) else phrase
            if not isinstance(words, tuple | list) or not all(isinstance(word, str) for word in words) or not words:
                raise OptionError(
                    f"dictionaries: {name!r}: expected phrases of words, as strings or lists, got {phrase!r:.40}"
                )
            found[str(name)].append(tuple(words))
    return found
