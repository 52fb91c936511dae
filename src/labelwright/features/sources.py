"""What a template reads beside the columns of the data: dictionaries and word clusters, each as one
more column.

    %d[NAME], %d[row,NAME]        the tag of a token in the matches of a dictionary: B I E S, or O
    %c[NAME], %c[row,NAME,n]      the cluster of the word, or the first n letters of its name

Further columns come behind those of the data, in the order in which the template names them.

A dictionary (gazetteer) marks its longest matches, from left to right: B, I and E are the first,
inner and last word of a phrase, S is a phrase of one word, O is no match.  Words are compared
without case.

A dictionary made from the training data is right about every entity there, and about few of a new
text: a model would learn to trust it too much.  So where nearly all rare phrases of a type are in a
dictionary, it is held out: in training a phrase counts only if it is also an entity in another part
of the training data.  Where data are divided to test a model on one part, phrases that are entities
in that part alone do not count at all.
"""

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.partial_labels import known_labels
from labelwright.corpus.schemes import detect_scheme, pairs_of_codes
from labelwright.corpus.table import Column, Corpus
from labelwright.errors import ModelFileError, OptionError, TemplateError
from labelwright.features.incidence import (
    Ints,
    Longs,
    Part,
    Tensors,
    distinct_strings,
    packed_strings,
    paired_strings,
)
from labelwright.features.phrases import (
    PhraseIndex,
    Phrases,
    checked_dictionaries,
    features_by_phrase,
    make_phrases,
    read_phrases,
    rows_of,
)
from labelwright.features.template import NAME, Source, Template, parse_template
from labelwright.features.vocabulary import Columns
from labelwright.modelfile import HeaderReader, TensorReader, unpack_strings
from labelwright.parallel import computed_once
from labelwright.structures.segments import read_segments

Array = NDArray[Any]
Phrase = tuple[str, ...]

OUTSIDE, FIRST, INNER, LAST, SINGLE = range(5)
TAGS = ["O", "B", "I", "E", "S"]
PARTS = 5  # of the training data
SHARE = 0.8  # of the rare phrases of a type that a dictionary must have to be held out,
LEAST = 20  # and how many such phrases there must be
SEVERAL = -1  # parts of the training data
BLOCK_ROWS = 1 << 22  # segments that are looked up at once


# -- the entities of training data -----------------------------------------------------------------


class Entities(NamedTuple):
    """The labelled phrases of training data: chunks, or single tokens where labels follow no
    scheme."""

    words: Sequence[str]  # [T]
    offsets: Array  # [N+1]
    types: Sequence[Any]  # names of types
    start: Array  # [n]
    end: Array  # [n]
    kind: Array  # [n]

    @property
    def part_of_token(self) -> Array:
        """The part of the training data in which each token stands [T]; sentences are whole."""
        middle = self.offsets[:-1] * PARTS // max(int(self.offsets[-1]), 1)
        return np.repeat(middle, np.diff(self.offsets))


def entities_of(
    words: Sequence[str], labels: Sequence[Any], codes: Array, offsets: Array
) -> Entities:
    """The labelled phrases of sentences, given by label codes [T]."""
    scheme = detect_scheme(labels, pairs=pairs_of_codes(labels, codes, offsets))
    if scheme is None:
        tokens = np.arange(len(codes))
        return Entities(words, offsets, labels, tokens, tokens + 1, np.asarray(codes))
    types, segments = read_segments(labels, codes, offsets, scheme)
    inside = segments.kind < len(types) - 1
    return Entities(
        words, offsets, types, segments.start[inside], segments.end[inside], segments.kind[inside]
    )


class Seen(NamedTuple):
    """The phrases of training entities."""

    part: dict[Phrase, int]  # the part of the data in which a phrase is an entity, or SEVERAL
    kinds: dict[Phrase, set[int]]  # its types


def seen_in(entities: Entities, fold: bool) -> Seen:
    """The phrases of entities, in lower case where words are compared without case."""
    words = [word.casefold() for word in entities.words] if fold else list(entities.words)
    part: dict[Phrase, int] = {}
    kinds: dict[Phrase, set[int]] = {}
    parts = entities.part_of_token[entities.start].tolist()
    for a, b, kind, here in zip(
        entities.start.tolist(), entities.end.tolist(), entities.kind.tolist(), parts, strict=True
    ):
        phrase = tuple(words[a:b])
        if part.setdefault(phrase, here) != here:
            part[phrase] = SEVERAL
        kinds.setdefault(phrase, set()).add(kind)
    return Seen(part, kinds)


class DictionaryWarning(UserWarning):
    """A dictionary looks as if it was made from the data."""


class Share(NamedTuple):
    """How many of the rare phrases of each type, which are entities in one part of the data, a
    dictionary has."""

    rare: Array  # [types]
    known: Array  # [types]

    @property
    def suspect(self) -> Array:
        """The types whose rare phrases are nearly all in the dictionary [types]."""
        return np.asarray((self.rare >= LEAST) & (self.known >= SHARE * self.rare))

    def warn(self, name: str, types: Sequence[Any], so: str) -> None:
        """Warn that a dictionary looks as if it was made from the data, and say what follows."""
        k = int(np.argmax(np.where(self.suspect, self.known, -1)))
        has = f"has {self.known[k] / self.rare[k]:.0%} of the {self.rare[k]:,} rare phrases"
        made = f"that are labelled {types[k]} in the training data, as if it was made from them"
        warnings.warn(f"dictionary {name!r}: {has} {made}; {so}", DictionaryWarning, stacklevel=3)


def share_of(listed: Collection[Phrase], seen: Seen, n_types: int) -> Share:
    """How many of the rare phrases of each type are in a dictionary."""
    rare = [
        (kind, phrase)
        for phrase, part in seen.part.items()
        if part != SEVERAL
        for kind in seen.kinds[phrase]
    ]
    known = [kind for kind, phrase in rare if phrase in listed]
    counts = [
        np.bincount(np.array(kinds, np.int64), minlength=n_types)
        for kinds in ([k for k, _ in rare], known)
    ]
    return Share(*counts)


class HeldOut(NamedTuple):
    """Which phrases of a tree do not count in which part of the training data."""

    part: Array  # [dictionaries, nodes]  or SEVERAL
    part_of_token: Array  # [T]

    def counts(self, number: int | Array, node: Array, token: Array) -> Array:
        """Whether phrases (by their nodes) of dictionaries count where they begin or end with these
        tokens."""
        counted: Array = self.part[number, node] != self.part_of_token[token]
        return counted


def hold_out(
    lists: Mapping[str, Collection[Phrase]], index: PhraseIndex, entities: Entities, fold: bool
) -> HeldOut | None:
    """What of these dictionaries does not count in training: phrases that are entities in one part
    of the data alone, of types whose rare phrases are nearly all in the dictionary.  None where all
    counts."""
    if not lists:
        return None
    seen, part = (
        seen_in(entities, fold),
        np.full((len(lists), len(index.marked)), SEVERAL, np.int64),
    )
    rule = "in training a phrase counts only if it is labelled in another part of the data, too"
    for number, (name, phrases) in enumerate(lists.items()):
        listed = set(phrases)
        share = share_of(listed, seen, len(entities.types))
        if share.suspect.any():
            share.warn(name, entities.types, rule)
        for phrase in listed & seen.part.keys():
            if any(share.suspect[kind] for kind in seen.kinds[phrase]):
                part[number, index.node_of(phrase)] = seen.part[phrase]
    return HeldOut(part, entities.part_of_token) if (part != SEVERAL).any() else None


# -- dictionaries ----------------------------------------------------------------------------------


class Dictionaries:
    """Lists of phrases by name, and where their matches are in sentences."""

    def __init__(self, names: Sequence[str], phrases: Phrases):
        self.names, self.phrases, self.longest = list(names), phrases, max(phrases.depths())

    @classmethod
    def of(cls, given: Any) -> "Dictionaries":
        """Dictionaries as a user gives them, {name: phrases}."""
        lists = folded(given)
        return cls(list(lists), make_phrases(features_by_phrase(lists)))

    def lists(self) -> dict[str, list[Phrase]]:
        """The phrases of each dictionary, in lower case."""
        return self.phrases.lists(self.names)

    def tags(
        self, words: Sequence[str], codes: Array, offsets: Array, held: HeldOut | None = None
    ) -> list[Array]:
        """The tag [T] of each token for each dictionary, as numbers of TAGS; codes [T] are those of
        words."""
        tags = [np.zeros(int(offsets[-1]), np.int32) for _ in self.names]
        if not self.longest:
            return tags
        index = self.phrases.index
        numbers = np.array([index.number.get(word.casefold(), -1) for word in words], np.int64)[
            codes
        ]
        size = max(1, BLOCK_ROWS // self.longest)
        blocks = np.unique(np.searchsorted(offsets, np.arange(0, int(offsets[-1]), size))).tolist()
        for begin, end in pairwise([*blocks, len(offsets) - 1]):  # sentences
            first = int(offsets[begin])
            local = offsets[begin : end + 1] - first
            rows = rows_of(local, self.longest)
            nodes = index.find(
                numbers[first : int(offsets[end])], local, self.longest, int(rows[-1])
            )
            row = np.flatnonzero(nodes)
            last = np.searchsorted(rows, row, side="right") - 1
            start = last - (row - rows[last]) + first
            for number, marked in enumerate(self._marks):
                chosen = marked[nodes[row]]
                if held is not None:
                    chosen &= held.counts(number, nodes[row], start)
                _mark(start[chosen], last[chosen] + first, tags[number])
        return tags

    @computed_once
    def _marks(self) -> Array:
        """Which nodes are phrases of each dictionary [dictionaries, nodes]."""
        nodes = np.repeat(np.arange(len(self.phrases.ptr) - 1), np.diff(self.phrases.ptr))
        marks = np.zeros((len(self.names), len(self.phrases.ptr) - 1), np.bool_)
        marks[self.phrases.feature, nodes] = True
        return marks

    def __reduce__(self) -> tuple[Any, ...]:
        """What a pickle holds: all but what is quickly made again."""
        return Dictionaries, (self.names, self.phrases)


def folded(given: Any) -> dict[str, list[Phrase]]:
    """Dictionaries as a user gives them, in lower case."""
    lists = checked_dictionaries(given)
    return {
        name: [tuple(word.casefold() for word in phrase) for phrase in lists[name]]
        for name in lists
    }


def _mark(start: Array, last: Array, tags: Array) -> None:
    """Tag the longest of these matches that do not overlap, from left to right."""
    order = np.lexsort((-last, start))
    free = 0
    for a, b in zip(start[order].tolist(), last[order].tolist(), strict=True):
        if a < free:
            continue
        if a == b:
            tags[a] = SINGLE
        else:
            tags[a], tags[a + 1 : b], tags[b] = FIRST, INNER, LAST
        free = b + 1


# -- sources ---------------------------------------------------------------------------------------

UNKNOWN = "?"  # the cluster of a word that has none
# which give it
SETTINGS = {"dictionary": ("dictionaries", "--dictionary"), "clusters": ("clusters", "--clusters")}


class Given(NamedTuple):
    """What a tagger is given beside its training data: settings, and the labels, for what is held
    out in training."""

    dictionaries: Any = None  # {name: phrases}
    clusters: Any = None  # {name: {word: cluster}}
    vectors: Any = None  # {word: numbers}, or a file
    labels: tuple[Sequence[Any], Array] | None = None  # distinct labels, and their codes [T]
    # features.numbers.Numbers of a model that learns more: they are standardised already
    numbers: Any = None
    # are lines added for dictionaries that the template does not read?
    dictionary_lines: bool = True

    def names(self) -> list[Source]:
        """The sources that are given."""
        of_kind = {"dictionary": self.dictionaries, "clusters": self.clusters}
        return [Source(kind, str(name)) for kind, given in of_kind.items() for name in given or ()]


NOTHING = Given()

# word -> its cluster; a word that is missing is looked up in lower case
Clusters = Mapping[str, str]


class Sources(Part):
    """The dictionaries and clusters that a template reads: they make columns, and no features of
    their own."""

    cell_kinds = ()

    def __init__(
        self, order: Sequence[Source], dictionaries: Dictionaries, clusters: Mapping[str, Clusters]
    ):
        self.order, self.dictionaries, self.clusters = tuple(order), dictionaries, dict(clusters)

    @classmethod
    def of(cls, template: Template, given: Given) -> "Sources":
        """Those that a template reads, of what is given."""
        known, clusters = given.names(), {}
        for kind, name in template.sources:
            if Source(kind, name) not in known:
                names = [other.name for other in known if other.kind == kind]
                among = f"; known: {', '.join(names)}" if names else ""
                setting, option = SETTINGS[kind]
                raise TemplateError(
                    f"{template.name}: %{kind[0]}[{name}] reads {setting} that are not "
                    f"given{among}; give them by {setting}={{{name!r}: ...}} ({option} {name}=FILE)"
                )
            if kind == "clusters":
                table = given.clusters[name]
                if not isinstance(table, Mapping) or not all(
                    isinstance(s, str) for pair in table.items() for s in pair
                ):
                    raise OptionError(
                        f"clusters: {name!r}: expected {{word: cluster}} of strings, got "
                        f"{table!r:.40}"
                    )
                clusters[name] = dict(table)
        read = {source.name for source in template.sources if source.kind == "dictionary"}
        lists = {
            name: phrases
            for name, phrases in (given.dictionaries or {}).items()
            if str(name) in read
        }
        return cls(template.sources, Dictionaries.of(lists), clusters)

    def held_out(self, columns: Columns, given: Given) -> HeldOut | None:
        """What of the dictionaries does not count in training on these data."""
        if given.labels is None or not self.dictionaries.names:
            return None
        words = np.array([*columns.values[0], None], object)[columns.codes[0]].tolist()
        entities = entities_of(words, *given.labels, columns.offsets)
        return hold_out(
            self.dictionaries.lists(), self.dictionaries.phrases.index, entities, fold=True
        )

    def extended(self, columns: Columns, held: HeldOut | None = None) -> Columns:
        """The columns of the data, then those of the sources."""
        if not self.order:
            return columns
        made = self._made(columns.values[0], columns.codes[0], columns.offsets, held)
        values, codes = zip(*made, strict=True)
        return Columns([*columns.values, *values], [*columns.codes, *codes], columns.offsets)

    def extended_few(
        self, values: Sequence[Sequence[str]], offsets: Longs
    ) -> Sequence[Sequence[str]]:
        """The same of a few tokens, given by their values [columns][T]."""
        if not self.order:
            return values
        made = self._made(values[0], np.arange(len(values[0]), dtype=np.int32), offsets, None)
        return [*values, *([strings[code] for code in codes.tolist()] for strings, codes in made)]

    def _made(
        self, words: Sequence[str], codes: Ints, offsets: Longs, held: HeldOut | None
    ) -> list[tuple[list[str], Ints]]:
        """The column of each source: its values, and their numbers [T]."""
        tags = dict(
            zip(
                self.dictionaries.names,
                self.dictionaries.tags(words, codes, offsets, held),
                strict=True,
            )
        )
        made = []
        for kind, name in self.order:
            if kind == "dictionary":
                made.append((TAGS, tags[name]))
            else:
                clusters = self.clusters[name]
                made.append(
                    ([clusters.get(w) or clusters.get(w.lower(), UNKNOWN) for w in words], codes)
                )
        return made

    def tensors(self) -> Tensors:
        """dictionaries.*: the tree of all; clusters{i}.words, clusters{i}.names: words, and the
        cluster of each."""
        stored: Tensors = {}
        if self.dictionaries.names:
            stored |= {
                f"dictionaries.{name}": array
                for name, array in self.dictionaries.phrases.tensors().items()
            }
        for i, clusters in enumerate(self.clusters.values()):
            stored |= packed_strings(f"clusters{i}.words", list(clusters))
            stored |= packed_strings(f"clusters{i}.names", list(clusters.values()))
        return stored

    def header(self) -> dict[str, Any]:
        return (
            {"dictionaries": self.dictionaries.names, "clusters": list(self.clusters)}
            if self.order
            else {}
        )

    @classmethod
    def restore(cls, template: Template, tensors: TensorReader, header: HeaderReader) -> "Sources":
        """The sources of a model file: just those that its template reads."""
        if not template.sources:
            return NO_SOURCES
        names, of_clusters = header.names("dictionaries"), header.names("clusters")
        wanted = sorted(
            [Source("dictionary", n) for n in names] + [Source("clusters", n) for n in of_clusters]
        )
        if wanted != sorted(template.sources):
            raise ModelFileError(
                f"{header.place}: dictionaries, clusters: not those of the template"
            )
        phrases = (
            read_phrases(tensors.part("dictionaries."), len(names), 0)
            if names
            else make_phrases({})
        )
        clusters = {
            name: paired_strings(tensors, f"clusters{i}.words", f"clusters{i}.names")
            for i, name in enumerate(of_clusters)
        }
        return cls(template.sources, Dictionaries(names, phrases), clusters)

    def settings(self) -> dict[str, Any]:
        """The sources as settings of a tagger."""
        return {
            "dictionaries": self.dictionaries.lists() or None,
            "clusters": self.clusters or None,
        }


NO_SOURCES = Sources((), Dictionaries.of({}), {})


def with_usual_lines(template: Template, given: Given, has_arrays: bool = False) -> Template:
    """The template, with lines for what is given and not read by it."""
    lines: list[str] = []
    for kind, name in given.names():
        if Source(kind, name) in template.sources or (
            kind == "dictionary" and not given.dictionary_lines
        ):
            continue
        if not re.fullmatch(NAME, name):
            raise OptionError(
                f"{SETTINGS[kind][0]}: expected a name of letters and digits, as in cities, got "
                f"{name!r}"
            )
        if kind == "dictionary":
            lines += [f"Ud.{name}[{row}]:%d[{row},{name}]" for row in (-1, 0, 1)]
            lines += [f"Ud.{name}[-1..1]:%d[-1,{name}]/%d[0,{name}]/%d[1,{name}]"]
        else:
            lines += [f"Uc.{name}[{row}]:%c[{row},{name}]" for row in range(-2, 3)]
            lines += [
                f"Uc{n}.{name}[{row}]:%c[{row},{name},{n}]"
                for n in (4, 6, 10)
                for row in (-1, 0, 1)
            ]
    functions = {cell.reader.function for pattern in template.patterns for cell in pattern.cells}
    if given.vectors is not None and "vector" not in functions:
        lines += [f"Uv[{row}]:%v[{row}]" for row in (-1, 0, 1)]
    if has_arrays and "array" not in functions:
        lines += ["Ua[0]:%a[0]"]
    if not lines:
        return template
    return parse_template("\n".join([template.text.rstrip("\n"), *lines]), template.name)


# -- lexicon: the labels that each word had in training, as a column which `%each` reads one by one

LEXICON = "lexicon"  # name of the column


class Lexicon:
    """The labels that each word (value of the first column) has had in training, as in `NN|VB`."""

    def __init__(self, words: dict[str, str]):
        self.words = words

    @classmethod
    def learn(cls, corpus: Corpus, gold: Sequence[Sequence[str]]) -> tuple["Lexicon", Corpus]:
        """The lexicon, and the training corpus with a column of the labels that each word has at
        *other* tokens: with the label of the token itself, the model would learn to trust the
        lexicon too much."""
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
    words = distinct_strings(tensors, "lexicon")
    had = unpack_strings(
        tensors["lexicon.had"], tensors["lexicon.had.offsets"], f"{tensors.prefix}lexicon.had"
    )
    if len(had) != len(words):
        raise ModelFileError(
            f"tensor {tensors.prefix}lexicon.had: expected {len(words)} strings, got {len(had)}"
        )
    return Lexicon(dict(zip(words, had, strict=True)))


def _had(counts: Mapping[str, int], order: Mapping[str, int]) -> str:
    return (
        "|".join(sorted((label for label, n in counts.items() if n > 0), key=order.__getitem__))
        or "?"
    )


def _with_column(corpus: Corpus, tokens: list[str]) -> Corpus:
    index = {value: i for i, value in enumerate(dict.fromkeys(tokens))}
    column = Column(list(index), np.array([index[value] for value in tokens], np.int32))
    return replace(
        corpus, names=(*corpus.names, LEXICON), columns=(*corpus.columns, column), raw=None
    )
