"""What a template reads beside the columns of the data: dictionaries and word clusters, each as one more column.

    %d[NAME], %d[row,NAME]        the tag of a token in the matches of a dictionary: B I E S, or O
    %c[NAME], %c[row,NAME,n]      the cluster of the word, or the first n letters of its name

Further columns come behind those of the data, in the order in which the template names them.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import ModelFileError, OptionError, TemplateError
from labelwright.features.dictionaries import TAGS, Dictionaries, Entities, HeldOut, entities_of
from labelwright.features.incidence import Ints, Longs
from labelwright.features.template import NAME, Source, Template, parse_template
from labelwright.features.vocabulary import Columns
from labelwright.modelfile import pack_strings, read_strings
from labelwright.validation import HeaderReader, TensorReader, check_distinct

Array = NDArray[Any]
UNKNOWN = "?"  # the cluster of a word that has none
SETTINGS = {"dictionary": "dictionaries", "clusters": "clusters"}  # which setting gives a source
OPTIONS = {"dictionary": "--dictionary", "clusters": "--clusters"}


class Given(NamedTuple):
    """What a tagger is given beside its training data: settings, and the labels, for what is held out in training."""

    dictionaries: Any = None  # {name: phrases}
    clusters: Any = None  # {name: {word: cluster}}
    vectors: Any = None  # {word: numbers}, or a file
    labels: tuple[Sequence[Any], Array] | None = None  # distinct labels, and their codes [T]
    numbers: Any = None  # features.numbers.Numbers of a model that learns more: they are standardised already
    dictionary_lines: bool = True  # are lines added for dictionaries that the template does not read?

    def names(self) -> list[Source]:
        """The sources that are given."""
        of_kind = {"dictionary": self.dictionaries, "clusters": self.clusters}
        return [Source(kind, str(name)) for kind, given in of_kind.items() for name in given or ()]


NOTHING = Given()


class Clusters:
    """Words with the names of their clusters; a word that is missing is looked up in lower case."""

    def __init__(self, cluster_of: Mapping[str, str]):
        self.cluster_of = dict(cluster_of)

    def of(self, words: Sequence[str]) -> list[str]:
        """The cluster of each word."""
        known = self.cluster_of
        return [known.get(word) or known.get(word.lower(), UNKNOWN) for word in words]


class Sources:
    """The dictionaries and clusters that a template reads."""

    def __init__(self, order: Sequence[Source], dictionaries: Dictionaries, clusters: Mapping[str, Clusters]):
        self.order, self.dictionaries, self.clusters = tuple(order), dictionaries, dict(clusters)

    @classmethod
    def of(cls, template: Template, given: Given) -> "Sources":
        """Those that a template reads, of what is given."""
        known = given.names()
        for source in template.sources:
            if source not in known:
                raise _missing(template, source, known)
        read = {source.name for source in template.sources if source.kind == "dictionary"}
        lists = {name: phrases for name, phrases in (given.dictionaries or {}).items() if str(name) in read}
        clusters = {s.name: _clusters(s.name, given.clusters) for s in template.sources if s.kind == "clusters"}
        return cls(template.sources, Dictionaries.of(lists), clusters)

    def held_out(self, columns: Columns, given: Given) -> HeldOut | None:
        """What of the dictionaries does not count in training on these data."""
        if given.labels is None or not self.dictionaries.names:
            return None
        return self.dictionaries.held_out(training_entities(columns, given.labels))

    def extended(self, columns: Columns, held: HeldOut | None = None) -> Columns:
        """The columns of the data, then those of the sources."""
        if not self.order:
            return columns
        words, codes = columns.values[0], columns.codes[0]
        made = self._made(words, codes, columns.offsets, held)
        values, numbers = [values for values, _ in made], [numbers for _, numbers in made]
        return Columns([*columns.values, *values], [*columns.codes, *numbers], columns.offsets)

    def extended_few(self, values: Sequence[Sequence[str]], offsets: Longs) -> Sequence[Sequence[str]]:
        """The same of a few tokens, given by their values [columns][T]."""
        if not self.order:
            return values
        made = self._made(values[0], np.arange(len(values[0]), dtype=np.int32), offsets, None)
        return [*values, *([strings[code] for code in codes.tolist()] for strings, codes in made)]

    def _made(
        self, words: Sequence[str], codes: Ints, offsets: Longs, held: HeldOut | None
    ) -> list[tuple[list[str], Ints]]:
        """The column of each source: its values, and their numbers [T]."""
        tags = dict(zip(self.dictionaries.names, self.dictionaries.tags(words, codes, offsets, held), strict=True))
        return [
            (TAGS, tags[source.name]) if source.kind == "dictionary" else (self.clusters[source.name].of(words), codes)
            for source in self.order
        ]

    # -- files ------------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Array]:
        """phrases.*: the tree of all dictionaries; clusters{i}: words, and clusters{i}.names: the cluster of each."""
        stored: dict[str, Array] = {}
        if self.dictionaries.names:
            stored |= {f"dictionaries.{name}": array for name, array in self.dictionaries.phrases.tensors().items()}
        for i, clusters in enumerate(self.clusters.values()):
            for name, strings in (("words", clusters.cluster_of), ("names", clusters.cluster_of.values())):
                place = f"clusters{i}.{name}"
                stored[f"{place}.text"], stored[f"{place}.offsets"] = pack_strings(list(strings))
        return stored

    def header(self) -> dict[str, Any]:
        """The names of the sources, where there are any."""
        return {"dictionaries": self.dictionaries.names, "clusters": list(self.clusters)} if self.order else {}

    @classmethod
    def restore(cls, template: Template, tensors: TensorReader, header: HeaderReader) -> "Sources":
        """The sources of a model file: just those that its template reads."""
        if not template.sources:
            return NO_SOURCES
        names, of_clusters = header.names("dictionaries"), header.names("clusters")
        wanted = sorted([Source("dictionary", n) for n in names] + [Source("clusters", n) for n in of_clusters])
        if wanted != sorted(template.sources):
            raise ModelFileError(f"{header.place}: dictionaries, clusters: not those of the template")
        dictionaries = Dictionaries.restore(tensors.part("dictionaries."), names) if names else Dictionaries.of({})
        clusters = {name: _read_clusters(tensors, f"clusters{i}") for i, name in enumerate(of_clusters)}
        return cls(template.sources, dictionaries, clusters)

    def settings(self) -> dict[str, Any]:
        """The sources as settings of a tagger."""
        clusters = {name: each.cluster_of for name, each in self.clusters.items()}
        return {"dictionaries": self.dictionaries.lists() or None, "clusters": clusters or None}


NO_SOURCES = Sources((), Dictionaries.of({}), {})


def training_entities(columns: Columns, labels: tuple[Sequence[Any], Array]) -> Entities:
    """The entities of training data with these labels; the words are those of the first column."""
    words = np.array([*columns.values[0], None], object)[columns.codes[0]].tolist()
    return entities_of(words, *labels, columns.offsets)


def with_usual_lines(template: Template, given: Given, has_arrays: bool = False) -> Template:
    """The template, with lines for what is given and not read by it."""
    unread = [source for source in given.names() if source not in template.sources]
    lines = [
        line
        for source in unread
        if source.kind != "dictionary" or given.dictionary_lines
        for line in _usual_lines(source)
    ]
    functions = {cell.reader.function for pattern in template.patterns for cell in pattern.cells}
    if given.vectors is not None and "vector" not in functions:
        lines += [f"Uv[{row}]:%v[{row}]" for row in (-1, 0, 1)]
    if has_arrays and "array" not in functions:
        lines += ["Ua[0]:%a[0]"]
    if not lines:
        return template
    return parse_template("\n".join([template.text.rstrip("\n"), *lines]), template.name)


def _usual_lines(source: Source) -> list[str]:
    name = source.name
    if not re.fullmatch(NAME, name):
        raise OptionError(f"{SETTINGS[source.kind]}: expected a name of letters and digits, as in cities, got {name!r}")
    if source.kind == "dictionary":
        cells = [f"Ud.{name}[{row}]:%d[{row},{name}]" for row in (-1, 0, 1)]
        return [*cells, f"Ud.{name}[-1..1]:%d[-1,{name}]/%d[0,{name}]/%d[1,{name}]"]
    whole = [f"Uc.{name}[{row}]:%c[{row},{name}]" for row in range(-2, 3)]
    return [*whole, *(f"Uc{n}.{name}[{row}]:%c[{row},{name},{n}]" for n in (4, 6, 10) for row in (-1, 0, 1))]


def _missing(template: Template, source: Source, known: list[Source]) -> TemplateError:
    names = [other.name for other in known if other.kind == source.kind]
    among = f"; known: {', '.join(names)}" if names else ""
    cell = f"%{'d' if source.kind == 'dictionary' else 'c'}[{source.name}]"
    return TemplateError(
        f"{template.name}: {cell} reads {SETTINGS[source.kind]} that are not given{among}; give them by "
        f"{SETTINGS[source.kind]}={{{source.name!r}: ...}} ({OPTIONS[source.kind]} {source.name}=FILE)"
    )


def _clusters(name: str, given: Any) -> Clusters:
    """Word clusters as a user gives them."""
    table = given[name]
    if not isinstance(table, Mapping) or not all(isinstance(s, str) for pair in table.items() for s in pair):
        raise OptionError(f"clusters: {name!r}: expected {{word: cluster}} of strings, got {table!r:.40}")
    return Clusters(table)


def _read_clusters(tensors: TensorReader, name: str) -> Clusters:
    words, names = (read_strings(tensors, f"{name}.{part}") for part in ("words", "names"))
    check_distinct(f"{tensors.prefix}{name}.words", words)
    if len(words) != len(names):
        raise ModelFileError(f"tensor {tensors.prefix}{name}.names: expected {len(words)} strings, got {len(names)}")
    return Clusters(dict(zip(words, names, strict=True)))
