"""Segmentations: the segments that a sentence may have, their rows of scores, and the labels they are written as.

Labels of a chunk scheme are read as conlleval does: every chunk is a segment, and so is every single token outside of
chunks (type O, the last of the types).  Other labels are the types themselves, and maximal runs of one are segments.
Every candidate, a run of up to max_length tokens, has a row of scores, with a column for each type; kernels.segments
says in which order.
"""

import functools
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.labels import text_of
from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.schemes import ALIASES, boundaries, convert, detect_scheme, join_label, split_label
from labelwright.errors import CorpusError, ModelFileError, OptionError
from labelwright.kernels import segments as kernels
from labelwright.modelfile import HeaderReader
from labelwright.structures.dag import Dag, LabelledArcs, LabelledGraph, labelled_graph

Array = NDArray[Any]
MAX_ROWS = 1 << 27  # candidates in the training data, or in sentences encoded at once: each needs about twenty bytes
MAX_SENTENCE_ROWS = 1 << 22  # candidates of a sentence that is tagged,
MAX_SENTENCE_ARCS = 1 << 25  # and arcs of its graph: each needs about ninety bytes
LONGEST_SEGMENT = 1 << 16  # tokens; no training data within MAX_ROWS have a longer one
OPEN = 8  # tokens of a segment where labels are unknown and no longer one is known
SHORT, MULTIPLE = 128, 32  # tokens of sentences whose arcs are kept, for lengths that are multiples
PLACES = "BIES"  # first, inner, last and only token of a segment
# The place whose label depends on whether the neighbouring segment, before or after, is of the same type.
TOUCHY = {"iob1": "B", "ioe1": "E"}
PARTNERS = {"L": ("S", "U"), "U": ("E", "L")}  # who writes L writes U, too: BILOU


class Segments(NamedTuple):
    """Segments of sentences, in order."""

    start: Array  # [n]  first token
    end: Array  # [n]  the token after the last
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
    def shape(self) -> tuple[int, int, int]:
        """What kernels know of the space: types, those that may be long, and the most tokens."""
        return self.n_types, self.n_long, self.max_length

    @property
    def has_neighbours(self) -> bool:
        """Can two segments of one type be side by side?  Without a scheme, and in `io`, they would be one."""
        return self.scheme not in (None, "io")

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of the columns of rows of tokens [R]: first, inner, last or only token of a segment of each type."""
        long = self.types[: self.n_long]
        names = [join_label(place, kind) for place in PLACES for kind in long]
        return (*names, "O") if self.scheme is not None else tuple(names)

    @property
    def n_roles(self) -> int:
        return 3 * self.n_long + self.n_types

    @property
    def follows(self) -> Array:
        """Which type may follow which [L+1, L+1]; the last index is the outside of the sentence, which begins it."""
        permitted = np.ones((self.n_types + 1, self.n_types + 1), np.bool_)
        permitted[:, -1] = False
        if not self.has_neighbours:
            np.fill_diagonal(permitted[: self.n_long, : self.n_long], False)
        return permitted

    def written(self, kind: int, length: int, before: bool = False, after: bool = False) -> tuple[str, ...]:
        """The labels of a segment, which may touch others of its type before and after it."""
        spelt = spelling(self)
        labels = _written(self.scheme, self.types[kind], kind < self.n_long, length, before, after)
        return tuple(spelt.get(label, label) for label in labels)

    def labels_of(self, segments: Segments) -> list[str]:
        """The labels of one sentence."""
        labels: list[str] = []
        spelt = spelling(self)
        kinds = segments.kind.tolist()
        lengths = (segments.end - segments.start).tolist()
        around = zip([-1, *kinds[:-1]], kinds, [*kinds[1:], -1], lengths, strict=True)
        for before, kind, after, length in around:
            arguments = self.types[kind], kind < self.n_long, length, before == kind, after == kind
            labels += [spelt.get(label, label) for label in _written(self.scheme, *arguments)]
        return labels


@functools.lru_cache(maxsize=1 << 14, typed=True)
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

    Labels that are missing are spelt as in other types, or else with the partner's letter."""
    if space.scheme is None:
        return {}
    spelt: dict[str, str] = {}
    letters: dict[str, str] = {}  # of each place
    for label in space.labels:
        letter, kind = split_label(label)
        place = ALIASES.get(letter, letter)
        spelt.setdefault(join_label(place, kind), label)
        letters.setdefault(place, letter)
    for letter in list(letters.values()):
        if letter in PARTNERS:
            letters.setdefault(*PARTNERS[letter])
    for place, kind in itertools.product(PLACES, space.types[: space.n_long]):
        spelt.setdefault(join_label(place, kind), join_label(letters.get(place, place), kind))
    return spelt


@functools.lru_cache(maxsize=64)
def label_table(space: SegmentSpace) -> Array:
    """The label of each place of each type, not touching and touching a segment of the same type [2, L, 4]."""
    index = {label: code for code, label in enumerate(space.labels)}
    labels = np.empty((2, space.n_types, len(PLACES)), np.int64)
    for touching, kind in itertools.product((0, 1), range(space.n_types)):
        one, two, three = (space.written(kind, n, bool(touching), bool(touching)) for n in (1, 2, 3))
        # The labels of segments that are too long do not matter.
        labels[touching, kind] = [index.get(label, 0) for label in (two[0], three[1], two[-1], one[0])]
    return labels


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
        outside = table.type_of < 0  # each token is a segment
        starts, ends = table.starts | outside[None, :], table.ends | outside[:, None]
    before, after = np.full(len(codes), edge), np.full(len(codes), edge)
    before[1:], after[:-1] = codes[:-1], codes[1:]
    first = offsets[:-1][np.diff(offsets) > 0]
    before[first] = edge
    after[np.append(first[1:], len(codes))[: len(first)] - 1] = edge
    start = np.flatnonzero(starts[before, codes])
    return types, Segments(start, np.flatnonzero(ends[codes, after]) + 1, type_of[codes[start]])


def segment_space(
    labels: Sequence[str],
    codes: Array,
    offsets: Array,
    pairs: Any,
    max_length: int | None,
    unknown: Array | None = None,
) -> tuple[SegmentSpace, Segments]:
    """The space of the labels of training data, and their segments; the codes of `unknown` tokens [T] are O."""
    scheme = detect_scheme(labels, pairs=pairs)
    types, segments = read_segments(labels, codes, offsets, scheme)
    if len(types) < 2:
        raise OptionError(f"labels: segments need at least two types of labels, got only {labels[0]!r}")
    longest = max_length or int((segments.end - segments.start).max())
    space = SegmentSpace(tuple(labels), scheme, types, longest)
    if max_length is None and unknown is not None and unknown.any():
        space = space._replace(max_length=max(longest, _longest_open(segments, offsets, unknown, space.n_long)))
    return _with_all_labels(space), segments


def grown_space(
    old: SegmentSpace, labels: Sequence[str], codes: Array, offsets: Array, max_length: int | None
) -> tuple[SegmentSpace, Segments]:
    """A space with the labels, types and lengths of further data added, and the segments of these."""
    names = list(dict.fromkeys([*old.labels, *labels]))
    codes = np.array([names.index(label) for label in labels], np.int64)[codes]
    types, segments = read_segments(names, codes, offsets, old.scheme)
    longest = max_length or int((segments.end - segments.start).max())
    grown = old._replace(labels=tuple(names), types=types, max_length=max(old.max_length, longest))
    return _with_all_labels(grown), segments


def _with_all_labels(space: SegmentSpace) -> SegmentSpace:
    """The space with all labels that its scheme writes for its types."""
    names = dict.fromkeys(space.labels)
    lengths = range(1, min(space.max_length, 3) + 1)
    for kind, n, touching in itertools.product(range(space.n_types), lengths, (False, True)):
        names |= dict.fromkeys(space.written(kind, n, touching, touching))
    return space._replace(labels=tuple(names))


def _longest_open(segments: Segments, offsets: Array, unknown: Array, n_long: int) -> int:
    """How many tokens a segment may need where labels are unknown: the longest run of unknown tokens and segments
    beside them, but no more than OPEN; in any case a segment and the unknown tokens next to it, where it may begin or
    end."""
    n = len(unknown)
    edge, free = np.zeros(n + 1, np.bool_), np.append(unknown, False)
    edge[offsets] = True
    long = segments.kind < n_long
    start, end = segments.start[long], segments.end[long]
    wider = end - start + (free[start - 1] & ~edge[start]) + (free[end] & ~edge[end])
    taken = unknown | np.repeat(long, segments.end - segments.start)
    begins = np.flatnonzero(edge[:-1] | np.append(True, taken[1:] != taken[:-1]))  # runs of tokens within sentences
    runs = np.diff(np.append(begins, n))[np.logical_or.reduceat(unknown, begins)]
    return max(int(wider.max(initial=1)), min(int(runs.max()), OPEN))


def read_segment_space(header: HeaderReader, labels: tuple[str, ...], scheme: str | None) -> SegmentSpace:
    """The space that a model file describes: its types are those of the labels under the scheme."""
    if text_of(header.listed("labels")) != text_of(labels) or header["scheme"] != scheme:
        raise ModelFileError(f"{header.place}: its labels or scheme are not those of the model")
    types = labels if scheme is None else (*boundaries(labels).types, "O")
    if text_of(header.listed("types")) != text_of(types) or len(types) < 2:
        raise header.refuse("types", f"two types or more, those of the labels ({', '.join(text_of(types)):.60})")
    if header.get("n_latent", 1) != 1:
        raise ModelFileError(f"{header.place}: latent states of segments (n_latent) are gone")
    return SegmentSpace(labels, scheme, types, header.whole("max_length", 1, LONGEST_SEGMENT))


def segments_in(space: SegmentSpace, labels: Sequence[str], codes: Array, offsets: Array) -> Segments:
    """The segments of label sequences, by the types of an existing space."""
    index = {label: code for code, label in enumerate(space.labels)}
    codes = np.array([index.get(label, -1) for label in labels], np.int64)[codes]
    if (codes < 0).any():
        new = next(label for label in labels if label not in index)
        raise OptionError(f"labels: no label {new!r} in this model, expected one of {', '.join(text_of(space.labels))}")
    return read_segments(space.labels, codes, offsets, space.scheme)[1]


def check_rows(offsets: Array, max_length: int) -> None:
    """Refuse more candidates than there is memory for."""
    n_rows = int(row_offsets(offsets, max_length)[-1])
    if n_rows > MAX_ROWS:
        raise OptionError(
            f"max_length: there are {n_rows:,} runs of up to {max_length} tokens, more than {MAX_ROWS:,}; use "
            "fewer sentences, a smaller max_length, or a CRF"
        )


def check_sentences(offsets: Array, max_length: int) -> None:
    """Refuse to encode sentences with more candidates than there is memory for, one sentence or all of them."""
    n_tokens = np.diff(offsets).max(initial=0)
    n_rows = int(rows_before(n_tokens + 1, max_length))
    if n_rows > MAX_SENTENCE_ROWS:
        raise CorpusError(
            f"X: a sentence of {n_tokens:,} tokens has {n_rows:,} runs of up to {max_length:,} tokens (max_length), "
            f"more than {MAX_SENTENCE_ROWS:,}; use shorter sentences, or train with a smaller max_length"
        )
    check_rows(offsets, max_length)


def check_arcs(space: SegmentSpace, T: int) -> None:
    """Refuse a sentence of T tokens whose graph has more arcs than there is memory for."""
    n_arcs = int(kernels.before_transitions(*space.shape, T))
    if n_arcs > MAX_SENTENCE_ARCS:
        raise CorpusError(
            f"X: a sentence of {T:,} tokens has a graph of {n_arcs:,} arcs (max_length {space.max_length:,}, "
            f"{space.n_types:,} types), more than {MAX_SENTENCE_ARCS:,}; use shorter sentences, or train with a "
            "smaller max_length or fewer types"
        )


def too_long(segments: Segments, max_length: int) -> Array:
    """Which segments have more tokens than they may."""
    return np.asarray(segments.end - segments.start > max_length)


def cut_segments(segments: Segments, offsets: Array, space: SegmentSpace) -> Segments:
    """Segments of up to max_length tokens: longer ones are cut, where the labels can write that."""
    long = too_long(segments, space.max_length)
    if not long.any():
        return segments
    if not space.has_neighbours:
        sentence = int(np.searchsorted(offsets, segments.start[np.argmax(long)], side="right")) - 1
        raise OptionError(
            f"max_length: sentence {sentence} has a segment of more than {space.max_length} tokens, which these labels "
            "cannot write as two segments of one type side by side; use a larger max_length, or None"
        )
    return _cut(segments, space.max_length)


def _cut(segments: Segments, limit: int) -> Segments:
    """Segments of more than `limit` tokens as several: all but the last of them have `limit`."""
    n_parts = -(-(segments.end - segments.start) // limit)
    end, kind = (np.repeat(values, n_parts) for values in (segments.end, segments.kind))
    number = np.arange(len(end)) - np.repeat(np.cumsum(n_parts) - n_parts, n_parts)  # among the parts of one
    start = np.repeat(segments.start, n_parts) + number * limit
    return Segments(start, np.minimum(start + limit, end), kind)


# -- rows and arcs ----------------------------------------------------------------------------------------------------


def rows_before(end: Array, max_length: int) -> Array:
    """The number of rows of a sentence before those of segments that end before token `end` (1 or more)."""
    full = np.maximum(end - 1 - max_length, 0)
    short = end - 1 - full
    return np.asarray(short * (short + 1) // 2 + full * max_length)


def row_offsets(offsets: Array, max_length: int) -> Array:
    """Where the rows of segments of each sentence begin [N+1]."""
    sizes = rows_before(np.diff(offsets) + 1, max_length)
    return offsets_from(sizes)


def rows_of(segments: Segments, offsets: Array, max_length: int) -> Array:
    """The row of each of these segments."""
    sentence = np.searchsorted(offsets, segments.start, side="right") - 1
    end = segments.end - offsets[sentence]
    rows = row_offsets(offsets, max_length)[sentence] + rows_before(end, max_length)
    return np.asarray(rows + segments.end - segments.start - 1)


class Arcs(NamedTuple):
    """The meaning of the arcs of a graph of segments (kernels.segments.write_graph)."""

    dag: Dag
    first: Array  # [A]  first token
    length: Array  # [A]  number of tokens; 0: a transition
    kind: Array  # [A]  type
    before: Array  # [A]  type before a transition, L at the beginning; -1 for a segment

    def of(self, T: int, space: SegmentSpace) -> "Arcs":
        """The arcs of a shorter sentence, which are the first of these."""
        A, Q = kernels.before_transitions(*space.shape, T), 1 + 2 * T * space.n_types
        sinks = np.arange(Q - space.n_types, Q, dtype=np.int32)
        whole = self.dag
        dag = Dag(whole.source[:A], whole.target[:A], Q, whole.sources, sinks)
        return Arcs(dag, self.first[:A], self.length[:A], self.kind[:A], self.before[:A])

    def segments(self, path: Array) -> Segments:
        """The segments on a path."""
        arcs = path[self.length[path] > 0]
        return Segments(self.first[arcs], self.first[arcs] + self.length[arcs], self.kind[arcs])


def arcs_of(space: SegmentSpace, T: int) -> Arcs:
    """The arcs of T tokens."""
    return _arcs_of(*space.shape, T)


def arcs_for(space: SegmentSpace, T: int) -> Arcs:
    """The arcs of T tokens or of some more; those of short sentences are made once."""
    if T > SHORT:
        return arcs_of(space, T)
    return _kept_arcs(*space.shape, -(-T // MULTIPLE) * MULTIPLE)


def _arcs_of(S: int, n_long: int, longest: int, T: int) -> Arcs:
    A = kernels.before_transitions(S, n_long, longest, T)
    source, target, first, length, kind, before = np.empty((6, A), np.int32)
    kernels.write_graph(S, n_long, longest, T, source, target, first, length, kind, before)
    Q = 1 + 2 * T * S
    dag = Dag(source, target, Q, np.zeros(1, np.int32), np.arange(Q - S, Q, dtype=np.int32))
    return Arcs(dag, first, length, kind, before)


_kept_arcs = functools.lru_cache(maxsize=4)(_arcs_of)


def permitted_arcs(space: SegmentSpace, arcs: Arcs, permitted: Array) -> Array:
    """Which arcs [A] leave every token one of its permitted labels [T, labels]."""
    table, touchy = label_table(space), TOUCHY.get(space.scheme or "")
    T = len(permitted)
    free = permitted[:, table[0]] | permitted[:, table[1]]  # [T, L, places]
    if touchy == "E":  # no segment follows the last token
        free[-1] = permitted[-1][table[0]]
    begin, inner, end, single = (free[:, :, PLACES.index(place)] for place in PLACES)
    shut = np.concatenate([np.zeros((1, space.n_types), np.int64), np.cumsum(~inner, axis=0)])  # [T+1, L]
    first, length, kind = arcs.first, arcs.length, arcs.kind
    last = np.maximum(first + length - 1, first)
    long = begin[first, kind] & end[last, kind] & (shut[last, kind] == shut[np.minimum(first + 1, T), kind])
    allowed = np.where(length > 1, long, np.where(length == 1, single[first, kind], True))
    transition = length == 0
    same = (arcs.before == arcs.kind).astype(np.int64)
    if touchy == "B":
        allowed[transition] &= permitted[first, table[same, kind, PLACES.index("B")]][transition]
    elif touchy == "E":
        transition &= first > 0
        label = table[same[transition], arcs.before[transition], PLACES.index("E")]
        allowed[transition] &= permitted[first[transition] - 1, label]
    return np.asarray(allowed)


def wrong_labels(space: SegmentSpace, arcs: Arcs, allowed: Array, cost: Array) -> Array:
    """The sum of costs [T] over the tokens of each arc [A] whose label is none of the allowed ones [T, labels]; a label
    that depends on the neighbour of a segment counts on the transition to it, or from it."""
    table, touchy, T = label_table(space), TOUCHY.get(space.scheme or ""), len(cost)
    wrong = np.where(allowed[:, table], 0.0, cost[:, None, None, None])  # [T, 2, L, places]
    begin, inner, end, single = (wrong[:, 0, :, PLACES.index(place)].copy() for place in PLACES)
    if touchy == "B":
        begin[:] = single[:] = 0.0
    elif touchy == "E":
        end[:-1] = single[:-1] = 0.0  # no segment follows the last token
    before = np.concatenate([np.zeros((1, space.n_types)), np.cumsum(inner, axis=0)])  # [T+1, L]
    first, length, kind = arcs.first, arcs.length, arcs.kind
    last = np.maximum(first + length - 1, first)
    within = before[last, kind] - before[np.minimum(first + 1, T), kind]
    long = begin[first, kind] + within + end[last, kind]
    costs = np.where(length > 1, long, np.where(length == 1, single[first, kind], 0.0))
    if touchy is not None:
        transition = (length == 0) & ((touchy == "B") | (first > 0))
        same = (arcs.before == arcs.kind).astype(np.int64)[transition]
        token = first[transition] - (touchy == "E")
        of = (kind if touchy == "B" else arcs.before)[transition]
        costs[transition] = wrong[token, same, of, PLACES.index(touchy)]
    return costs


def label_marginals(space: SegmentSpace, roles: Array, arcs: Arcs, p: Array) -> Array:
    """P(label at t) [T, labels] from P(role at t) [T, R] and P(arc) [A]."""
    table, touchy = label_table(space), TOUCHY.get(space.scheme or "")
    marginals = np.zeros((len(roles), len(space.labels)))
    np.add.at(marginals.T, _untouched(space), roles.T)
    if touchy is not None:  # segments that touch one of the same type have another label
        place = PLACES.index(touchy)
        touching = np.flatnonzero((arcs.before == arcs.kind) & (arcs.kind < space.n_long))
        token, kind = arcs.first[touching] - (touchy == "E"), arcs.kind[touching]
        np.add.at(marginals, (token, table[0, kind, place]), -p[touching])
        np.add.at(marginals, (token, table[1, kind, place]), p[touching])
    return np.clip(marginals, 0.0, 1.0)


# -- labelled graphs ---------------------------------------------------------------------------------------------------


def graph_of_segments(arcs: Arcs, scores: Array, space: SegmentSpace) -> LabelledGraph:
    """Segmentations: transitions read nothing; a segment of several tokens goes through nodes of its own, which it
    shares with longer ones from the same token on."""
    if space.scheme in TOUCHY:
        raise OptionError(
            f"constraints: in {space.scheme} the labels of a segment depend on its neighbours, so a SemiCRF takes no "
            "rules on them; use iob2 labels (labelwright convert)"
        )
    first, length, kind = (array.astype(np.int64) for array in (arcs.first, arcs.length, arcs.kind))
    source, target, n_nodes = arcs.dag.source.astype(np.int64), arcs.dag.target.astype(np.int64), arcs.dag.n_nodes
    inner = _InnerNodes(space, n_nodes, n_nodes // (2 * space.n_types))
    label = {place: label_table(space)[0, :, PLACES.index(place)] for place in PLACES}
    none, one, long = length == 0, length == 1, length > 1
    parts = [
        LabelledArcs(source[none], target[none], scores[none], kind[none] * 0 - 1, first[none]),
        LabelledArcs(source[one], target[one], scores[one], label["S"][kind[one]], first[one]),
        LabelledArcs(
            inner.node(first[long], kind[long], length[long] - 1),
            target[long],
            scores[long],
            label["E"][kind[long]],
            first[long] + length[long] - 1,
        ),
        *inner.arcs(label["B"], label["I"]),
    ]
    return labelled_graph(parts, inner.end, arcs.dag.sinks.astype(np.int64))


class _InnerNodes:
    """Nodes inside segments: of each type that may be long, from each token on, after each number of tokens."""

    def __init__(self, space: SegmentSpace, first: int, T: int):
        (self.S, self.n_long, self.longest), self.T, self.first = space.shape, T, first

    @property
    def end(self) -> int:
        return self.first + self.T * self.n_long * self.longest

    def node(self, start: Array, kind: Array, n_read: Array) -> Array:
        """The node of a segment from `start` on of which so many tokens are read, 1 or more."""
        return np.asarray(self.first + (start * self.n_long + kind) * self.longest + n_read - 1)

    def arcs(self, opening: Array, going: Array) -> list[LabelledArcs]:
        """The arcs into these nodes: they read the first label of a segment, or an inner one, and cost nothing."""
        start, kind, n_read = (array.reshape(-1) for array in np.indices((self.T, self.n_long, self.longest)))
        parts = []
        for labels, chosen in (
            (opening, (n_read == 0) & (start + 1 < self.T) & (self.longest > 1)),
            (going, (n_read > 0) & (n_read + 1 < self.longest) & (start + n_read + 1 < self.T)),
        ):
            i, x, k = start[chosen], kind[chosen], n_read[chosen]
            begin = 1 + 2 * i * self.S + x  # as kernels.segments numbers them
            source = np.where(k == 0, begin, self.node(i, x, k))
            parts.append(LabelledArcs(source, self.node(i, x, k + 1), np.zeros(len(i)), labels[x], i + k))
        return parts
