"""Segmentations: the segments that a sentence may have, their rows of scores, and the labels they
are written as.

Labels of a chunk scheme are read as conlleval does: every chunk is a segment, and so is every
single token outside of chunks (type O, the last of the types).  Other labels are the types
themselves, and maximal runs of one are segments. Every candidate, a run of up to max_length tokens,
has a row of scores, with a column for each type; kernels.segments says in which order.
"""

import functools
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.labels import text_of
from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.schemes import (
    ALIASES,
    boundaries,
    convert,
    detect_scheme,
    join_label,
    split_label,
)
from labelwright.errors import CorpusError, ModelFileError, OptionError
from labelwright.kernels import segments as kernels
from labelwright.modelfile import HeaderReader
from labelwright.parallel import computed_once
from labelwright.structures.dag import (
    Dag,
    LabelledGraph,
    Reading,
    joined_reading,
    labelled_graph,
    reading_of,
)

Array = NDArray[Any]
# candidates in the training data, or in sentences encoded at once: each needs about twenty bytes
MAX_ROWS = 1 << 27
MAX_SENTENCE_ROWS = 1 << 22  # candidates of a sentence that is tagged,
MAX_SENTENCE_ARCS = 1 << 25  # and arcs of its graph: each needs about ninety bytes
LONGEST_SEGMENT = 1 << 16  # tokens; no training data within MAX_ROWS have a longer one
OPEN = 8  # tokens of a segment where labels are unknown and no longer one is known
SHORT, MULTIPLE = 128, 32  # tokens of sentences whose arcs are kept, for lengths that are multiples
PLACES = "BIES"  # first, inner, last and only token of a segment
# The place whose label depends on whether the neighbouring segment, before or after, is of the same
# type.
TOUCHY = {"iob1": "B", "ioe1": "E"}
PARTNERS = {"L": ("S", "U"), "U": ("E", "L")}  # who writes L writes U, too: BILOU


class Segments(NamedTuple):
    """Segments of sentences, in order."""

    start: Array  # [n]  first token
    end: Array  # [n]  the token after the last
    kind: Array  # [n]  type


# -- types and labels ------------------------------------------------------------------------------


class SegmentSpace(NamedTuple):
    """The types of segments, and the labels of the tokens in them (those that a model's space_
    has)."""

    # those of the training data, then others that the scheme writes for the same types
    labels: tuple[str, ...]
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
        """Can two segments of one type be side by side?  Without a scheme, and in `io`, they would
        be one."""
        return self.scheme not in (None, "io")

    @property
    def roles(self) -> tuple[str, ...]:
        """Names of the columns of rows of tokens [R]: first, inner, last or only token of a segment
        of each type."""
        long = self.types[: self.n_long]
        names = [join_label(place, kind) for place in PLACES for kind in long]
        return (*names, "O") if self.scheme is not None else tuple(names)

    @property
    def n_roles(self) -> int:
        return 3 * self.n_long + self.n_types

    @property
    def follows(self) -> Array:
        """Which type may follow which [L+1, L+1]; the last index is the outside of the sentence,
        which begins it."""
        permitted = np.ones((self.n_types + 1, self.n_types + 1), np.bool_)
        permitted[:, -1] = False
        if not self.has_neighbours:
            np.fill_diagonal(permitted[: self.n_long, : self.n_long], False)
        return permitted

    def written(
        self, kind: int, length: int, before: bool = False, after: bool = False
    ) -> tuple[str, ...]:
        """The labels of a segment, which may touch others of its type before and after it."""
        spelt = spelling(self)
        labels = _written(self.scheme, self.types[kind], kind < self.n_long, length, before, after)
        return tuple(spelt.get(label, label) for label in labels)

    def labels_of(self, segments: Segments) -> list[str]:
        """The labels of one sentence."""
        kinds, lengths = segments.kind.tolist(), (segments.end - segments.start).tolist()
        around = zip([-1, *kinds[:-1]], kinds, [*kinds[1:], -1], lengths, strict=True)
        written = (
            self.written(kind, n, before == kind, after == kind)
            for before, kind, after, n in around
        )
        return [label for labels in written for label in labels]


@functools.lru_cache(maxsize=1 << 14, typed=True)
def _written(
    scheme: str | None, kind: str, long: bool, length: int, before: bool, after: bool
) -> tuple[str, ...]:
    if not long or scheme is None:
        return (kind,) * length
    letters = "S" if length == 1 else "B" + "I" * (length - 2) + "E"
    window = ["S"] * before + list(letters) + ["S"] * after
    labels = convert([[join_label(letter, kind) for letter in window]], "bioes", scheme)[0]
    return tuple(labels[before : before + length])


@functools.lru_cache(maxsize=64)
def spelling(space: SegmentSpace) -> dict[str, str]:
    """How the training data spell each label of a scheme: with L for E and U for S (BILOU), M for I
    (BMES).

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
    """The label of each place of each type, not touching and touching a segment of the same type
    [2, L, 4]."""
    index = {label: code for code, label in enumerate(space.labels)}
    labels = np.empty((2, space.n_types, len(PLACES)), np.int64)
    for touching, kind in itertools.product((0, 1), range(space.n_types)):
        one, two, three = (
            space.written(kind, n, bool(touching), bool(touching)) for n in (1, 2, 3)
        )
        # The labels of segments that are too long do not matter.
        labels[touching, kind] = [
            index.get(label, 0) for label in (two[0], three[1], two[-1], one[0])
        ]
    return labels


def label_of_role(space: SegmentSpace) -> Array:
    """The label that each role is written as [R]; an error where that depends on the neighbours."""
    if space.scheme in TOUCHY:
        raise OptionError(
            f"labels: in {space.scheme} they depend on the neighbours of a segment, so a layer "
            "above cannot be passed "
            'their probabilities; use iob2 labels (labelwright convert, or scheme = "iob2" in the '
            "layer's table of a "
            "recipe), or passing='best'"
        )
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
    """The space of the labels of training data, and their segments; the codes of `unknown` tokens
    [T] are O."""
    scheme = detect_scheme(labels, pairs=pairs)
    types, segments = read_segments(labels, codes, offsets, scheme)
    if len(types) < 2:
        raise OptionError(
            f"labels: segments need at least two types of labels, got only {labels[0]!r}"
        )
    longest = max_length or int((segments.end - segments.start).max())
    space = SegmentSpace(tuple(labels), scheme, types, longest)
    if max_length is None and unknown is not None and unknown.any():
        space = space._replace(
            max_length=max(longest, _longest_open(segments, offsets, unknown, space.n_long))
        )
    return _with_all_labels(space), segments


def grown_space(
    old: SegmentSpace, labels: Sequence[str], codes: Array, offsets: Array, max_length: int | None
) -> tuple[SegmentSpace, Segments]:
    """A space with the labels, types and lengths of further data added, and the segments of
    these."""
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
    """How many tokens a segment may need where labels are unknown: the longest run of unknown
    tokens and segments beside them, but no more than OPEN; in any case a segment and the unknown
    tokens next to it, where it may begin or end."""
    n = len(unknown)
    edge, free = np.zeros(n + 1, np.bool_), np.append(unknown, False)
    edge[offsets] = True
    long = segments.kind < n_long
    start, end = segments.start[long], segments.end[long]
    wider = end - start + (free[start - 1] & ~edge[start]) + (free[end] & ~edge[end])
    taken = unknown | np.repeat(long, segments.end - segments.start)
    # runs of tokens within sentences
    begins = np.flatnonzero(edge[:-1] | np.append(True, taken[1:] != taken[:-1]))
    runs = np.diff(np.append(begins, n))[np.logical_or.reduceat(unknown, begins)]
    return max(int(wider.max(initial=1)), min(int(runs.max()), OPEN))


def read_segment_space(
    header: HeaderReader, labels: tuple[str, ...], scheme: str | None
) -> SegmentSpace:
    """The space that a model file describes: its types are those of the labels under the scheme."""
    if text_of(header.listed("labels")) != text_of(labels) or header["scheme"] != scheme:
        raise ModelFileError(f"{header.place}: its labels or scheme are not those of the model")
    types = labels if scheme is None else (*boundaries(labels).types, "O")
    if text_of(header.listed("types")) != text_of(types) or len(types) < 2:
        raise header.refuse(
            "types", f"two types or more, those of the labels ({', '.join(text_of(types)):.60})"
        )
    if header.get("n_latent", 1) != 1:
        raise ModelFileError(f"{header.place}: latent states of segments (n_latent) are gone")
    return SegmentSpace(labels, scheme, types, header.whole("max_length", 1, LONGEST_SEGMENT))


def segments_in(
    space: SegmentSpace, labels: Sequence[str], codes: Array, offsets: Array
) -> Segments:
    """The segments of label sequences, by the types of an existing space."""
    index = {label: code for code, label in enumerate(space.labels)}
    codes = np.array([index.get(label, -1) for label in labels], np.int64)[codes]
    if (codes < 0).any():
        new = next(label for label in labels if label not in index)
        raise OptionError(
            f"labels: no label {new!r} in this model, expected one of "
            f"{', '.join(text_of(space.labels))}"
        )
    return read_segments(space.labels, codes, offsets, space.scheme)[1]


def check_rows(offsets: Array, max_length: int) -> None:
    """Refuse more candidates than there is memory for."""
    n_rows = int(row_offsets(offsets, max_length)[-1])
    if n_rows > MAX_ROWS:
        raise OptionError(
            f"max_length: there are {n_rows:,} runs of up to {max_length} tokens, more than "
            f"{MAX_ROWS:,}; use fewer sentences, a smaller max_length, or a CRF"
        )


def check_sentences(offsets: Array, max_length: int) -> None:
    """Refuse to encode sentences with more candidates than there is memory for, one sentence or all
    of them."""
    n_tokens = np.diff(offsets).max(initial=0)
    n_rows = int(rows_before(n_tokens + 1, max_length))
    if n_rows > MAX_SENTENCE_ROWS:
        raise CorpusError(
            f"X: a sentence of {n_tokens:,} tokens has {n_rows:,} runs of up to {max_length:,} "
            f"tokens (max_length), more than {MAX_SENTENCE_ROWS:,}; use shorter sentences, or "
            "train with a smaller max_length"
        )
    check_rows(offsets, max_length)


def check_arcs(space: SegmentSpace, T: int) -> None:
    """Refuse a sentence of T tokens whose graph has more arcs than there is memory for."""
    n_arcs = kernels.before_transitions(*space.shape, T)
    if n_arcs > MAX_SENTENCE_ARCS:
        raise CorpusError(
            f"X: a sentence of {T:,} tokens has a graph of {n_arcs:,} arcs (max_length "
            f"{space.max_length:,}, {space.n_types:,} types), more than {MAX_SENTENCE_ARCS:,}; use "
            "shorter sentences, or train with a smaller max_length or fewer types"
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
            f"max_length: sentence {sentence} has a segment of more than {space.max_length} "
            "tokens, which these labels cannot write as two segments of one type side by side; use "
            "a larger max_length, or None"
        )
    limit = space.max_length  # the tokens of all parts of a segment but the last
    n_parts = -(-(segments.end - segments.start) // limit)
    end, kind = (np.repeat(values, n_parts) for values in (segments.end, segments.kind))
    # among the parts of one
    number = np.arange(len(end)) - np.repeat(np.cumsum(n_parts) - n_parts, n_parts)
    start = np.repeat(segments.start, n_parts) + number * limit
    return Segments(start, np.minimum(start + limit, end), kind)


# -- rows and arcs ---------------------------------------------------------------------------------


def rows_before(end: Array, max_length: int) -> Array:
    """The number of rows of a sentence before those of segments that end before token `end` (1 or
    more)."""
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


class SpanArcs(NamedTuple):
    """Arcs that stand for spans."""

    arc: Array  # [n]
    start: Array  # [n]
    end: Array  # [n]
    kind: Array  # [n]  which of the types of spans


class Places(NamedTuple):
    """Where the arcs and rows of T tokens are."""

    segments: Array  # [T]  the first arc of the segments that end with each token,
    rows: Array  # [T]  the first row of them,
    transitions: Array  # [T-1]  and the first arc of the transitions after it
    n_arcs: int


def places_of(L: int, n: int, longest: int, T: int) -> Places:
    sizes = np.minimum(np.arange(1, T + 1), longest)  # of segments that end with each token
    arcs = L + (sizes - 1) * n
    ends = L + np.cumsum(arcs + L * L)  # after the transitions
    return Places(
        ends - arcs - L * L, np.cumsum(sizes) - sizes, ends[:-1] - L * L, int(ends[-1]) - L * L
    )


def of_length(places: Places, d: int, L: int, n: int) -> tuple[Array, int]:
    """The arcs of all segments of d tokens [T - d + 1, types], and how many types there are."""
    width = L if d == 1 else n
    skipped = 0 if d == 1 else L + (d - 2) * n
    return (places.segments[d - 1 :] + skipped)[:, None] + np.arange(width), width


def write_graph(
    n_types: int, n_long: int, longest: int, T: int, source: Array, target: Array, first: Array,
    length: Array, kind: Array, before: Array,
) -> None:  # fmt: skip
    """Fill the arcs [A] of T tokens: their nodes, first token, number of tokens (0: a transition),
    type and, of a transition, the type before it (L: the beginning; of a segment -1)."""
    L, x = n_types, np.arange(n_types)
    source[:L], target[:L], first[:L], length[:L], kind[:L], before[:L] = 0, 1 + x, 0, 0, x, L
    if T == 0:
        return
    places = places_of(L, n_long, longest, T)
    for d in range(1, min(T, longest) + 1):
        at, width = of_length(places, d, L, n_long)
        i, types = np.arange(T - d + 1)[:, None], x[:width]
        source[at], target[at] = 1 + 2 * i * L + types, 1 + (2 * (i + d) - 1) * L + types
        first[at], length[at], kind[at], before[at] = i, d, types, -1
    at = places.transitions[:, None, None] + (x * L)[:, None] + x
    p = np.arange(1, T)[:, None, None]
    source[at], target[at] = 1 + (2 * p - 1) * L + x[:, None], 1 + 2 * p * L + x
    first[at], length[at], kind[at], before[at] = p, 0, x, x[:, None]


class Arcs:
    """The graph of the segmentations of T tokens, and the meaning of its arcs
    (write_graph)."""

    def __init__(
        self, space: SegmentSpace, T: int, arrays: Sequence[Array], longer: "Arcs | None" = None
    ):
        self.space, self.T, self._longer = space, T, longer
        source, target = arrays[:2]
        # [A]  of a transition: length 0; else before -1
        self.first, self.length, self.kind, self.before = arrays[2:]
        Q = 1 + 2 * T * space.n_types
        self.dag = Dag(
            source,
            target,
            Q,
            np.zeros(1, np.int32),
            np.arange(Q - space.n_types, Q, dtype=np.int32),
        )

    def of(self, T: int) -> "Arcs":
        """The arcs of a shorter sentence, which are the first of these."""
        if T == self.T:
            return self
        A = kernels.before_transitions(*self.space.shape, T)
        arrays = (*self.dag[:2], self.first, self.length, self.kind, self.before)
        return Arcs(self.space, T, [array[:A] for array in arrays], self)

    @computed_once
    def reading(self) -> Reading:
        """The labels that arcs give to tokens.  One that depends on the neighbour of a segment is
        read by the transition to it (iob1), or from it (ioe1)."""
        touchy = TOUCHY.get(self.space.scheme or "")
        if self._longer is None:
            return _reading(self, touchy)
        whole = self._longer.reading
        n = np.searchsorted(whole.arc, len(self.first))
        reading = Reading(*(values[:n] for values in whole))
        return reading if touchy != "E" else joined_reading([reading, _last_labels(self)])

    @computed_once
    def spans(self) -> SpanArcs:
        """The segments of types that may be long."""
        if self._longer is not None:
            whole = self._longer.spans
            n = np.searchsorted(whole.arc, len(self.first))
            return SpanArcs(*(values[:n] for values in whole))
        arc = np.flatnonzero((self.length > 0) & (self.kind < self.space.n_long))
        return SpanArcs(arc, self.first[arc], self.first[arc] + self.length[arc], self.kind[arc])


def _reading(arcs: Arcs, touchy: str | None) -> Reading:
    """What the arcs of a sentence that may go on read."""
    table = label_table(arcs.space)  # [2, L, places]
    segment, transition = np.flatnonzero(arcs.length > 0), np.flatnonzero(arcs.length == 0)
    first, length, kind = arcs.first[segment], arcs.length[segment], arcs.kind[segment]
    if touchy is None:
        return reading_of(segment, first, length, table[0, kind])
    if touchy == "E":
        transition = transition[arcs.first[transition] > 0]
    same = (arcs.before == arcs.kind)[transition].astype(np.int64)
    here, of = arcs.first[transition], arcs.kind[transition]
    if touchy == "E":
        here, of = here - 1, arcs.before[transition]
    beside = Reading(transition, here, here + 1, table[same, of, PLACES.index(touchy)])
    # of what the segment reads
    places = [PLACES.index(place) for place in ("IIEE" if touchy == "B" else "BIIB")]
    within = reading_of(segment, first + (touchy == "B"), length - 1, table[0, kind][:, places])
    reading = joined_reading([within, beside])
    return reading if touchy == "B" else joined_reading([reading, _last_labels(arcs)])


def _last_labels(arcs: Arcs) -> Reading:
    """The labels at the end of the sentence, where no transition follows (ioe1)."""
    arc = np.flatnonzero((arcs.length > 0) & (arcs.first + arcs.length == arcs.T))
    end = np.full(len(arc), arcs.T)
    return Reading(arc, end - 1, end, label_table(arcs.space)[0, arcs.kind[arc], PLACES.index("E")])


def arcs_of(space: SegmentSpace, T: int) -> Arcs:
    """The arcs of T tokens."""
    arrays = np.empty((6, kernels.before_transitions(*space.shape, T)), np.int32)
    write_graph(*space.shape, T, *arrays)
    return Arcs(space, T, list(arrays))


_kept_arcs = functools.lru_cache(maxsize=4)(arcs_of)


def arcs_for(space: SegmentSpace, T: int) -> Arcs:
    """The arcs of T tokens or of some more; those of short sentences are made once."""
    return arcs_of(space, T) if T > SHORT else _kept_arcs(space, -(-T // MULTIPLE) * MULTIPLE)


# -- labelled graphs -------------------------------------------------------------------------------


def graph_of_segments(arcs: Arcs, scores: Array) -> LabelledGraph:
    """Segmentations: transitions read nothing; a segment of several tokens goes through nodes of
    its own, which it shares with longer ones from the same token on."""
    space = arcs.space
    if space.scheme in TOUCHY:
        raise OptionError(
            f"constraints: in {space.scheme} the labels of a segment depend on its neighbours, so "
            "a SemiCRF takes no rules on them; use iob2 labels (labelwright convert)"
        )
    first, length, kind = (array.astype(np.int64) for array in (arcs.first, arcs.length, arcs.kind))
    source, target, n_nodes = (
        arcs.dag.source.astype(np.int64),
        arcs.dag.target.astype(np.int64),
        arcs.dag.n_nodes,
    )
    begin, inner, end, only = label_table(space)[0].T  # [L] each
    S, n_long, longest = space.shape

    def inside(start: Array, kind: Array, n_read: Array) -> Array:
        """The node of a segment from `start` on of which so many tokens are read, 1 or more."""
        return np.asarray(n_nodes + (start * n_long + kind) * longest + n_read - 1)

    long, many = length > 1, np.arange(len(length))
    label = np.where(length == 0, -1, np.where(long, end[kind], only[kind]))
    source = np.where(long, inside(first, kind, length - 1), source)
    whole = np.where(length == 0, -1, many)
    parts = [(source, target, scores, label, first + np.maximum(length - 1, 0), whole)]
    start, x, n_read = (array.reshape(-1) for array in np.indices((arcs.T, n_long, longest)))
    further = (n_read + 1 < longest) & (start + n_read + 1 < arcs.T)
    i, x, k = start[further], x[further], n_read[further]
    opens = k == 0
    # begin(i, x), as kernels.segments numbers nodes
    origin = np.where(opens, 1 + 2 * i * S + x, inside(i, x, k))
    nothing = np.zeros(len(i))
    parts.append(
        (
            origin,
            inside(i, x, k + 1),
            nothing,
            np.where(opens, begin[x], inner[x]),
            i + k,
            i * 0 - 1,
        )
    )
    source, target, score, label, token, whole = map(np.concatenate, zip(*parts, strict=True))
    graph = Dag(
        source, target, n_nodes + arcs.T * n_long * longest, arcs.dag.sources, arcs.dag.sinks
    )
    return labelled_graph(graph, score, label, token, whole)
