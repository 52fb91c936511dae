"""What workers hold: the sentences of each partition, encoded, and the objective of them; made
again from the file wherever a partition is asked for and is not there."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from threading import Lock, RLock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.partial_labels import LabelCodes, label_codes
from labelwright.corpus.schemes import pairs_of_codes
from labelwright.corpus.table import Corpus
from labelwright.errors import CorpusError
from labelwright.features.extract import Extractor, learn
from labelwright.features.incidence import Incidence
from labelwright.features.sources import Given
from labelwright.inspection.warnings import SAMPLE, hashes_of
from labelwright.learn.joint import Joint
from labelwright.learn.perceptron import Averaged, Passes
from labelwright.learn.variables import tokens_of
from labelwright.parallel import Workers
from labelwright.scale.partitions import Bad, Partition, Reading
from labelwright.scoring.parameters import REACH, Parameters, Trained, make_parameters, united
from labelwright.structures.passing import over
from labelwright.structures.states import StateSpace, state_space
from labelwright.structures.supervision import Supervision
from labelwright.taggers.arguments import (
    Data,
    check_paths,
    no_labels,
    supervision_of,
    tokens_of_labels,
)
from labelwright.taggers.layers import Version, stacks

Array = NDArray[Any]
CORPUS = "corpus"  # stays while layers above are trained on it

_held: dict[tuple[str, int, str], Any] = {}  # by run, partition and what it is
_locks: dict[tuple[str, int], RLock] = {}
_making = Lock()
_ended: set[str] = set()  # runs; what is left of their work leaves nothing here


def forget(run: str, but: str = "") -> None:
    """Drop what is held of a run, `but` what is named so."""
    # tasks may add some meanwhile
    for key in [key for key in [*_held] if key[0] == run and key[2] != but]:
        _held.pop(key, None)


def end(run: str) -> None:
    """Drop all that is held of a run, for good."""
    _ended.add(run)
    forget(run)
    for key in [key for key in [*_locks] if key[0] == run]:
        _locks.pop(key, None)


def forget_runs(clients: Sequence[str]) -> None:
    """Drop what is held of the runs of clients that are not among these: they were killed."""
    for run in {key[0] for key in [*_held] if key[0].partition("/")[0] not in clients}:
        end(run)


def inputs_of(corpus: Corpus, apart: Sequence[str]) -> list[str]:
    """The columns that are no labels."""
    return [name for name in corpus.names if name not in apart and name != corpus.label]


class Source(NamedTuple):
    """Partitions as one tagger reads them."""

    run: str
    parts: tuple[Partition, ...]
    reading: Reading
    label: str | None  # the column that it learns; None: that of the files
    layers: tuple[str, ...]  # columns with the labels of layers, which are no input
    below: tuple[tuple[str, Any], ...]  # the trained layers below, the lowest first
    cascade: Any  # to which these belong
    model: Any  # untrained
    extractor: Extractor | None = None  # once it is learnt
    labels: tuple[Any, ...] = ()  # those of all partitions


class OfTagger(NamedTuple):
    """What is known before training; on workers the objective of a partition is made of it."""

    space: StateSpace
    parameters: Parameters
    class_weight: Mapping[Any, float] | None

    def objective(self, here: "Here") -> Any:
        data, trained = here.data(self), self.of(here.source)
        return here.source.model._learner(here.source.model).problem(trained, data, here.workers)

    def of(self, source: Source) -> Trained:
        assert source.extractor is not None
        return Trained(source.extractor, self.space, self.parameters, np.empty(0, np.float32))


class OfCascade(NamedTuple):
    """The trained layers of a cascade that learn together."""

    models: Mapping[str, Any]
    shares: Mapping[str, float]

    def objective(self, here: "Here") -> Any:
        corpus, source = here.corpus, here.source
        inputs, versions = [here.read(())], []
        gold = {name: corpus.column(name) for name in self.models}
        for n, (name, model) in enumerate(self.models.items()):
            if n + 1 < len(self.models):
                versions.append([Version(0, len(corpus), model)])
                inputs.append(over(inputs[n], name, source.cascade._passed(model, inputs[n])))
        made = stacks(self.models, inputs, gold, versions, self.shares, here.workers)
        return Joint(made, [len(model.weights_) for model in self.models.values()])


Known = OfTagger | OfCascade


class Here:
    """A partition on its worker; a lock keeps a second task away, as of an evaluation that is done
    again."""

    def __init__(self, number: int, source: Source):
        self.number, self.source = number, source
        self.workers = Workers(source.model.n_jobs or 1)

    def __enter__(self) -> "Here":
        with _making:
            self._lock = _locks.setdefault((self.source.run, self.number), RLock())
        self._lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def held(self, name: str, make: Callable[[], Any]) -> Any:
        key = self.source.run, self.number, name
        value = _held[key] if key in _held else make()
        if key[0] not in _ended:
            _held[key] = value
        return value

    def drop(self, name: str) -> None:
        _held.pop((self.source.run, self.number, name), None)

    @property
    def loaded(self) -> tuple[Corpus | None, list[Bad]]:
        loaded: tuple[Corpus | None, list[Bad]]
        loaded = self.held(
            CORPUS, lambda: self.source.reading.corpus(self.source.parts[self.number])
        )
        return loaded

    @property
    def corpus(self) -> Corpus:
        corpus = self.loaded[0]
        assert corpus is not None  # those without sentences have been left out
        return corpus

    @property
    def label(self) -> str:
        label = self.source.label or self.corpus.label
        if label is None:
            raise no_labels(self.corpus)
        if label not in self.corpus.names:
            had = ", ".join(self.corpus.names)
            raise CorpusError(
                f"{self.corpus.source}: no column for the layer {label!r}, expected it among {had}"
            )
        return label

    @property
    def input_names(self) -> list[str]:
        return inputs_of(self.corpus, self.source.layers or (self.label,))

    def read(self, below: Sequence[tuple[str, Any]]) -> Any:
        """The columns of the input, and what these layers pass of them."""
        read: Any = self.corpus.select(self.input_names)
        for name, model in below:
            read = over(read, name, self.source.cascade._passed(model, read))
        return read

    def encoded(self) -> tuple[dict[str, Incidence], Array, LabelCodes]:
        """The features of its tokens, where its sentences begin, and their labels."""
        source, column = self.source, self.corpus._column(self.label)
        assert source.extractor is not None
        incidences, offsets = source.extractor.encode(self.read(source.below))
        return (
            incidences,
            np.unique(offsets),
            label_codes(*column, self.corpus.source, source.labels),
        )

    def kept(self) -> tuple[dict[str, Incidence], Array, LabelCodes]:
        """The same, held; the sentences go, unless another layer reads them."""
        encoded: tuple[dict[str, Incidence], Array, LabelCodes] = self.held("encoded", self.encoded)
        if self.source.cascade is None:
            self.drop(CORPUS)
        return encoded

    def data(self, known: OfTagger) -> Data:
        """What it is trained on."""
        incidences, offsets, (labels, gold, sets) = self.kept()
        said = supervision_of(sets, gold, offsets, labels, known.class_weight, None, part=True)
        check_paths(said, gold, offsets, known.space)
        return Data(incidences, offsets, gold, said)


# -- before training: what partitions have, to be united -------------------------------------------


class Read(NamedTuple):
    """What is learnt of partitions at first."""

    extractor: Extractor | None  # of all features, even those that are rare
    names: tuple[str, ...]
    values: dict[str, None]  # of the labels, in order of appearance
    sizes: dict[int, tuple[int, int]]  # sentences and tokens of each partition
    bad: list[Bad]
    hashes: list[str]  # of sentences, as a model remembers them: the lowest

    def plus(self, other: "Read") -> "Read":
        bad, sizes = self.bad + other.bad, self.sizes | other.sizes
        if self.extractor is None or other.extractor is None:
            full = other if self.extractor is None else self
            return full._replace(bad=bad, sizes=sizes)
        if self.names != other.names:
            raise CorpusError(
                f"partitions: columns {','.join(self.names)} in one, {','.join(other.names)} in "
                "another"
            )
        extractor = self.extractor.merged(other.extractor)
        hashes = sorted({*self.hashes, *other.hashes})[:SAMPLE]
        return Read(extractor, self.names, self.values | other.values, sizes, bad, hashes)


def read(number: int, source: Source) -> Read:
    """The features and labels of a partition."""
    with Here(number, source) as here:
        corpus, bad = here.loaded
        if corpus is None or not corpus.n_tokens:
            return Read(None, (), {}, {number: (0, 0)}, bad, [])
        given = Given(None, getattr(source.model, "clusters", None))
        extractor = learn(
            here.read(source.below), source.model.template, 1, may_be_empty=True, given=given
        )[0]
        values = dict.fromkeys(corpus.values(here.label))
        sizes = {number: (len(corpus), corpus.n_tokens)}
        return Read(extractor, corpus.names, values, sizes, bad, hashes_of(corpus)[:SAMPLE])


def seen(number: int, source: Source) -> Array:
    """How often every feature occurs in a partition [F]; those of labels below by how probable they
    are."""
    with Here(number, source) as here:
        assert source.extractor is not None
        counts = [
            _occurrences(each, source.extractor.n_features) for each in here.encoded()[0].values()
        ]
        most: Array = np.max(counts, axis=0)
        return most


def _occurrences(incidence: Incidence, n_features: int) -> Array:
    of_keys = np.bincount(incidence.keys[incidence.keys >= 0], minlength=incidence.n_keys)
    value = incidence.token_value if len(incidence.token_value) else None
    shared = np.bincount(
        incidence.key_feature, np.repeat(of_keys, np.diff(incidence.key_ptr)), n_features
    )
    return shared + np.bincount(incidence.token_feature, value, n_features)


class Cells(NamedTuple):
    """Which weights partitions ask for, and what they count."""

    # labels, pairs or triples of labels with each feature: ptr [F+1], code
    cells: dict[str, tuple[Array, Array]]
    often: dict[str, Array]  # tokens with each feature [F]
    pairs: Counter[Any]  # of labels that follow each other
    of_labels: Array  # tokens with each [L]
    partial: bool  # are there sets of labels?
    digests: list[bytes]  # of all their numbers

    def plus(self, other: "Cells") -> "Cells":
        L, cells = len(self.of_labels), {}
        for name, (ptr, code) in self.cells.items():
            more, further = other.cells[name]
            feature = np.repeat(np.arange(len(more) - 1), np.diff(more))
            cells[name] = united(
                ptr, code, feature, further.astype(np.int64), L ** (REACH[name] + 1)
            )
        often = {name: counts + other.often[name] for name, counts in self.often.items()}
        pairs, of_labels = self.pairs + other.pairs, self.of_labels + other.of_labels
        return Cells(
            cells,
            often,
            pairs,
            of_labels,
            self.partial or other.partial,
            self.digests + other.digests,
        )


def count(number: int, source: Source) -> Cells:
    """What a partition asks for; from here on it is encoded."""
    with Here(number, source) as here:
        assert source.extractor is not None
        incidences, offsets, (labels, gold, sets) = here.kept()
        n, space = source.extractor.n_features, state_space(labels)
        made = make_parameters(incidences, n, gold, offsets, space, source.model.cells, sets=sets)
        often = {name: tokens_of(each, n) for name, each in incidences.items()}
        pairs, of_labels = pairs_of_codes(labels, gold, offsets), tokens_of_labels(labels, gold)
        digest = hashlib.sha256()
        for array in Data(incidences, offsets, gold, Supervision(sets)).arrays:
            digest.update(np.ascontiguousarray(array).data)
        cells = {name: (each.ptr, each.column) for name, each in made.cells.items()}
        return Cells(cells, often, Counter(pairs), of_labels, len(sets) > 0, [digest.digest()])


# -- training --------------------------------------------------------------------------------------

Evaluation = tuple[float, Array]  # loss and gradient


def evaluate(number: int, source: Source, known: Known, weights: Array) -> Evaluation:
    """The loss of a partition and its gradient."""
    with Here(number, source) as here:
        problem = here.held("objective", lambda: known.objective(here))
        here.drop("encoded")
        if weights.itemsize == 8:
            problem = here.held("precise", problem.precise)
        vectors = getattr(problem, "vectors", None)
        if vectors is None:
            gradient = np.empty_like(weights)
            return problem(weights, gradient), gradient
        at = vectors.of(weights)  # on a device
        slopes = vectors.zeros(at.shape, at)
        return problem(at, slopes), vectors.numpy(slopes)


def added(one: Evaluation, other: Evaluation) -> Evaluation:
    return one[0] + other[0], one[1] + other[1]


class Mixed(NamedTuple):
    """Passes over partitions, each from the same weights: sums over their sentences."""

    weights: Array  # [W] float64  of the last weights of each, times its sentences
    means: Array  # [W] float64  of the means of all its weights
    n: int
    mistakes: int
    loss: float
    errors: float

    def plus(self, other: "Mixed") -> "Mixed":
        sums: Any = [a + b for a, b in zip(self, other, strict=True)]  # type: ignore[operator]
        return Mixed(*sums)


class Pass(NamedTuple):
    """What a pass is asked."""

    number: int
    rule: Any
    seed: int | None
    weights: Array


def one_pass(number: int, source: Source, known: OfTagger, asked: Pass) -> Mixed:
    """A pass of the perceptron over a partition."""
    with Here(number, source) as here:
        space, parameters, model = known.space, known.parameters, source.model

        def made() -> Passes:
            data = here.data(known)[:4]
            return Passes(
                *data, space, parameters, asked.rule, asked.seed, model.batch_size, here.workers
            )

        passes = here.held("objective", made)
        here.drop("encoded")
        run = Averaged.begin(passes.layout.laid_out(asked.weights), passes.rule)
        seen = passes.one_pass(run, asked.number)
        last, mean = (
            passes.layout.taken_back(each).astype(np.float64) for each in (run.weights, run.mean())
        )
        return Mixed(last * passes.n, mean * passes.n, passes.n, *seen)
