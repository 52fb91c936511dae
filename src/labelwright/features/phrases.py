"""Phrases as a tree of words, found in sentences: of dictionaries, and the texts of segments."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.offsets import offsets_from
from labelwright.errors import ModelFileError, OptionError
from labelwright.modelfile import TensorReader, check_distinct, pack_strings, unpack_strings
from labelwright.parallel import computed_once

Array = NDArray[Any]
# of all phrases in a file: so many, and so many for each node of their tree
MOST_WORDS = 1 << 20, 64


@dataclass(frozen=True, eq=False)
class Phrases:
    """Phrases as a tree of words: node 0 is the beginning, node i + 1 is reached from parent[i] by
    word[i]."""

    words: list[str]  # [W]
    parent: Array  # [nodes - 1]
    word: Array  # [nodes - 1]
    ptr: Array  # [nodes + 1]
    feature: Array  # features of the phrase that ends at node i: feature[ptr[i]:ptr[i+1]]

    @computed_once
    def index(self) -> "PhraseIndex":
        """What finds the phrases in sentences."""
        order = np.argsort(self.edges, kind="stable")
        number = {word: i for i, word in enumerate(self.words)}
        return PhraseIndex(
            number, self.edges[order], (order + 1).astype(np.int32), np.diff(self.ptr) > 0
        )

    @property
    def edges(self) -> Array:
        """The edges of the tree as numbers, node * W + word [nodes - 1]."""
        return self.parent.astype(np.int64) * max(len(self.words), 1) + self.word

    def __reduce__(self) -> tuple[Any, ...]:
        """What a pickle holds: all but what is quickly made again."""
        return Phrases, (self.words, self.parent, self.word, self.ptr, self.feature)

    def text(self, node: int) -> tuple[str, ...]:
        """The words of the phrase that ends at a node."""
        words: list[str] = []
        while node > 0:
            words.append(self.words[int(self.word[node - 1])])
            node = int(self.parent[node - 1])
        return tuple(reversed(words))

    def depths(self) -> list[int]:
        """The number of words on the way to each node."""
        depths = [0]
        for parent in self.parent.tolist():
            depths.append(depths[parent] + 1)
        return depths

    def owned(self) -> Iterator[tuple[int, int]]:
        """Nodes with their features."""
        nodes = np.repeat(np.arange(len(self.ptr) - 1), np.diff(self.ptr))
        return zip(nodes.tolist(), self.feature.tolist(), strict=True)

    def lists(self, names: Sequence[str]) -> dict[str, list[tuple[str, ...]]]:
        """The phrases of dictionaries of these names, which are the first features."""
        lists: dict[str, list[tuple[str, ...]]] = {name: [] for name in names}
        for node, feature in self.owned():
            if feature < len(names):
                lists[names[feature]].append(self.text(node))
        return lists

    def tensors(self) -> dict[str, Array]:
        stored: dict[str, Array] = {
            name: getattr(self, name) for name in ("parent", "word", "ptr", "feature")
        }
        stored["text"], stored["offsets"] = pack_strings(self.words)
        return stored


class PhraseIndex(NamedTuple):
    """What finds phrases in sentences: made of their tree once."""

    number: dict[str, int]  # of each word
    edge: Array  # [nodes - 1]  node * W + word, in order,
    node: Array  # [nodes - 1]  and the node that each leads to
    marked: Array  # [nodes]  does a phrase with features end here?

    def find(self, words: Array, offsets: Array, max_length: int, n_rows: int) -> Array:
        """The node where the phrase of each row of segments ends [rows]; 0 where it is none.  words
        [T] are numbers."""
        ends = np.zeros(n_rows, np.int32)
        edges = self.edge, self.node, self.marked
        phrase_ends(words, offsets, max_length, max(len(self.number), 1), *edges, ends)
        return ends

    def node_of(self, phrase: Sequence[str]) -> int:
        """The node where a phrase ends; 0 where the tree has none such."""
        node = 0
        for word in phrase:
            wanted = node * max(len(self.number), 1) + self.number.get(word, -1)
            at = int(np.searchsorted(self.edge, wanted))
            if word not in self.number or at == len(self.edge) or self.edge[at] != wanted:
                return 0
            node = int(self.node[at])
        return node


def rows_of(offsets: Array, max_length: int) -> Array:
    """The first row of segments of each token [T], and the number of all rows: those that end at a
    token follow each other, the token alone first."""
    ends = np.arange(1, offsets[-1] + 1) - np.repeat(offsets[:-1], np.diff(offsets))
    return offsets_from(np.minimum(ends, max_length))


def features_by_phrase(
    lists: Mapping[str, Iterable[tuple[str, ...]]],
) -> dict[tuple[str, ...], list[int]]:
    """The numbers of the dictionaries that hold each phrase."""
    features: dict[tuple[str, ...], list[int]] = {}
    for number, phrases in enumerate(lists.values()):
        for phrase in phrases:
            numbers = features.setdefault(phrase, [])
            if number not in numbers:
                numbers.append(number)
    return features


def make_phrases(features: Mapping[tuple[str, ...], list[int]]) -> Phrases:
    """The tree of these phrases with their features."""
    words: dict[str, int] = {}
    edges: dict[tuple[int, int], int] = {}
    owned: dict[int, list[int]] = {}
    for phrase, numbers in features.items():
        node = 0
        for word in phrase:
            edge = node, words.setdefault(word, len(words))
            node = edges.setdefault(edge, len(edges) + 1)
        owned[node] = numbers
    sizes = [len(owned.get(node, ())) for node in range(len(edges) + 1)]
    feature = [f for node in range(len(edges) + 1) for f in owned.get(node, ())]
    ends = np.array(list(edges), np.int32).reshape(-1, 2)
    ptr = offsets_from(sizes)
    return Phrases(
        list(words), ends[:, 0].copy(), ends[:, 1].copy(), ptr, np.array(feature, np.int32)
    )


def read_phrases(tensors: TensorReader, n_dictionaries: int, n_texts: int) -> Phrases:
    """The tree of phrases in a file: parents before their children, each text once."""
    words = unpack_strings(tensors["text"], tensors["offsets"], tensors.prefix.rstrip("."))
    check_distinct(tensors.prefix.rstrip("."), words)
    n = len(tensors.array("parent", np.int32, None))
    parent = tensors.indices("parent", np.int32, np.arange(1, n + 1), n)
    word = tensors.indices("word", np.int32, len(words), n)
    feature = tensors.indices("feature", np.int32, n_dictionaries + n_texts, None)
    ptr = tensors.pointers("ptr", n + 1, len(feature))
    texts = feature[feature >= n_dictionaries]
    if len(texts) != n_texts or (n_texts and np.bincount(texts - n_dictionaries).max() > 1):
        raise ModelFileError(
            f"tensor {tensors.prefix}feature: expected each text of a segment once"
        )
    phrases = Phrases(words, parent, word, ptr, feature)
    if ptr[1] > 0:
        raise ModelFileError(f"tensor {tensors.prefix}ptr: expected no phrase without words")
    if len(np.unique(phrases.edges)) < n:
        raise ModelFileError(
            f"tensor {tensors.prefix}word: expected a tree in which the words after a node differ"
        )
    n_words = int(np.diff(ptr) @ np.array(phrases.depths(), np.int64))
    if n_words > MOST_WORDS[0] + MOST_WORDS[1] * n:  # a chain of n nodes could spell out n * n / 2
        raise ModelFileError(
            f"tensor {tensors.prefix}parent: the phrases have {n_words:,} words, too many for such "
            "a tree"
        )
    return phrases


def checked_dictionaries(dictionaries: Any) -> dict[str, list[tuple[str, ...]]]:
    """Name -> phrases as tuples of words."""
    if dictionaries is None:
        return {}
    if not isinstance(dictionaries, Mapping):
        raise OptionError(
            f"dictionaries: expected {{name: phrases}}, got {type(dictionaries).__name__}"
        )
    checked: dict[str, list[tuple[str, ...]]] = {}
    for name, phrases in dictionaries.items():
        if isinstance(phrases, str | bytes) or not isinstance(phrases, Iterable):
            raise OptionError(
                f"dictionaries: {name!r}: expected a list of phrases, got {type(phrases).__name__}"
            )
        checked[str(name)] = []
        for phrase in phrases:
            words = tuple(phrase.split()) if isinstance(phrase, str) else phrase
            if (
                not isinstance(words, tuple | list)
                or not all(isinstance(word, str) for word in words)
                or not words
            ):
                raise OptionError(
                    f"dictionaries: {name!r}: expected phrases of words, as strings or lists, got "
                    f"{phrase!r:.40}"
                )
            checked[str(name)].append(tuple(words))
    return checked


def phrase_ends(
    word: Array, offsets: Array, longest: int, n_words: int, edge: Array, node_of_edge: Array,
    marked: Array, ends: Array,
) -> None:  # fmt: skip
    """Fill for every row of segments the node of a tree of phrases that its words lead to; 0 where
    that is not marked.

    The phrases that begin at all tokens are followed at once, one word longer in each step."""
    lengths = np.diff(offsets)
    place = np.arange(len(word)) - np.repeat(offsets[:-1], lengths)  # of each token in its sentence
    sizes = np.minimum(place + 1, longest)
    row = np.cumsum(sizes) - sizes  # of each token alone
    left = np.repeat(offsets[1:], lengths)
    start, node = np.flatnonzero(word >= 0), np.int64(0)
    for length in range(1, longest + 1):
        token = start + length - 1
        asked = node * n_words + word[token]
        at = np.searchsorted(edge, asked)
        alive = (
            (word[token] >= 0) & (edge.take(at, mode="clip") == asked)
            if len(edge)
            else np.zeros(len(at), np.bool_)
        )
        start, node = start[alive], node_of_edge[at[alive]].astype(np.int64)
        if not len(start):
            return
        here = marked[node]
        ends[row[start[here] + length - 1] + length - 1] = node[here]
        alive = start + length < left[start]
        start, node = start[alive], node[alive]
