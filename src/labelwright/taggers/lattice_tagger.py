"""Taggers over lattices of a user's own: a function makes a lattice of each sentence, whose paths
are labellings."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.batch import check_lengths
from labelwright.answers.graphs import DECODERS, GraphSentence, lattice_sentence
from labelwright.corpus.offsets import offsets_from
from labelwright.corpus.partial_labels import check_complete
from labelwright.corpus.schemes import detect_scheme, pairs_of_codes
from labelwright.corpus.table import Corpus
from labelwright.corpus.token_records import listed
from labelwright.errors import CorpusError, OptionError
from labelwright.features.extract import kind_of
from labelwright.learn.joint import LabelsOfArcs
from labelwright.learn.monitor import Record
from labelwright.learn.objective import LogLikelihood
from labelwright.memory.windows import with_label_columns
from labelwright.modelfile import HeaderReader, TensorReader
from labelwright.parallel import Workers, sentence_ranges
from labelwright.scoring.assembly import BLOCK_TOKENS
from labelwright.scoring.carry import carry_over
from labelwright.scoring.parameters import Trained
from labelwright.settings import Anything, Group, OfTheRun, OneOf, PythonOnly
from labelwright.structures.feature_lattice import (
    OUTSIDE,
    WRITABLE,
    ArcLabels,
    ArcTokens,
    FeatureLattice,
    arc_labels,
    ends_of,
)
from labelwright.structures.passing import NOTHING_BELOW, Candidates, FeatureValues, Layered
from labelwright.structures.supervision import PLAIN
from labelwright.taggers.arguments import Data, cut, labelled, of_this_model, sample_weights
from labelwright.taggers.base import FORCED, JOINT, LAYER, NBEST, PROBABILITY, Tagger
from labelwright.taggers.chain_structure import Blocks, Constrained, Scoring, Source
from labelwright.taggers.crf import Likelihood
from labelwright.taggers.declared import TRAINING, chosen, declared
from labelwright.taggers.estimator import InputSchema
from labelwright.taggers.lattice_crf import (
    LATTICE,
    EncodedLattices,
    arc_slots,
    described,
    encoded,
    objective,
    packed,
    prepared,
    read_packed,
    scored_lattices,
    true_arcs,
)
from labelwright.taggers.linear import LinearTagger
from labelwright.taggers.packing import Packed
from labelwright.wording import counted

Array = NDArray[Any]
LatticeMaker = Callable[[Any], FeatureLattice]
EMPTY = FeatureLattice([])  # of a sentence without tokens


@dataclass(frozen=True, slots=True, eq=False)
class EncodedSentences:
    """Sentences as the lattices that one model reads; its length is the number of sentences."""

    lattices: EncodedLattices
    offsets: Array  # [N+1]  of tokens
    tokens: ArcTokens  # of all arcs, numbered through all sentences
    owner: str  # the mark of the features that made it

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def tokens_of(self, n: int) -> ArcTokens:
        """The tokens of the arcs of sentence n, both counted within it."""
        a, b = self.lattices.arcs.offsets[n : n + 2].tolist()
        arc, token, label = self.tokens
        here = slice(*np.searchsorted(arc, [a, b]).tolist())
        return ArcTokens(arc[here] - a, token[here] - self.offsets[n], label[here])


def sentences_of(X: Any, reads: InputSchema | None = None) -> tuple[Sequence[Any], InputSchema]:
    """The sentences that a function makes lattices of, and what they are: lists of strings or, of
    several columns, of tuples; in an upper layer of a cascade the best label of each lower layer is
    a further column (or a key of feature dicts).

    reads : what the model was trained on"""
    if isinstance(X, Layered):
        if kind_of(X.X) == "arrays":
            raise OptionError(
                "X: a LatticeTagger above other layers reads columns or feature dicts, got arrays"
            )
        X = with_label_columns(X)
    X = listed(X)
    kind = kind_of(X)
    if kind != "columns":
        return X if isinstance(X, list) else list(X), InputSchema(kind)
    known = () if reads is None else reads.columns
    if isinstance(X, list | tuple) and not any(map(len, X)):  # a corpus needs tokens
        return X, InputSchema(kind, known)
    corpus = X if isinstance(X, Corpus) else Corpus.from_sequences(X, reads=known)
    names = known if known and set(known) <= set(corpus.names) else corpus.input_names
    if known and len(names) != len(known):
        raise CorpusError(
            f"{corpus.source}: the model reads the columns {','.join(known)}, got {','.join(names)}"
        )
    return corpus.select(names).X, InputSchema(kind, tuple(names))


def lattices_of(
    make: LatticeMaker | None, sentences: Sequence[Any], scheme: str | None
) -> list[FeatureLattice]:
    """The lattice of each sentence, whose paths can be written as labels in a scheme."""
    if make is None:
        raise OptionError(
            "lattices: the function that makes a lattice of a sentence is missing (it is code, "
            "which no model file holds); set it: model.lattices = f, for a layer of a cascade "
            "cascade.set_params(LAYER__lattices=f)"
        )
    lattices = []
    for n, sentence in enumerate(sentences):
        try:
            lattices.append(
                _checked(make(sentence), len(sentence), scheme) if len(sentence) else EMPTY
            )
        except CorpusError as error:
            raise CorpusError(f"lattices: sentence {n}: {error}") from None
    return lattices


def _checked(lattice: Any, n_tokens: int, scheme: str | None) -> FeatureLattice:
    """A lattice whose paths are labellings of so many tokens, no two of them the same."""
    if not isinstance(lattice, FeatureLattice):
        raise CorpusError(f"expected a FeatureLattice, got {type(lattice).__name__}")
    if lattice.n_nodes != n_tokens + 1:
        raise CorpusError(
            f"expected {n_tokens + 1} nodes, one before each of its {n_tokens} tokens and one "
            f"behind the last, got {lattice.n_nodes}"
        )
    seen: dict[Any, int] = {}
    for number, arc in enumerate(lattice.arcs):
        source, target, label = ends = arc[:3]
        if target - source > 1 and (scheme is None or label == OUTSIDE):
            why = (
                "an arc labelled O is one token"
                if scheme
                else "labels without B- and I- are those of single tokens"
            )
            raise CorpusError(f"arc {number}, {ends}: {why}; make an arc for each token")
        if seen.setdefault(ends, number) != number:
            raise CorpusError(
                f"arcs {seen[ends]} and {number} are both {ends}; make one arc of them"
            )
    return lattice


def encoded_sentences(
    trained: Trained, writing: ArcLabels, make: LatticeMaker | None, sentences: Sequence[Any]
) -> EncodedSentences:
    """Sentences as a trained model reads them.  Arcs whose label did not occur in training are left
    out."""
    known, lattices = set(writing.types), lattices_of(make, sentences, writing.scheme)
    for n, lattice in enumerate(lattices):
        unknown = {arc.label for arc in lattice.arcs} - known
        try:
            if unknown:
                lattices[n] = FeatureLattice(
                    [arc for arc in lattice.arcs if arc.label in known], lattice.n_nodes
                )
        except CorpusError as error:
            lacking = f"without arcs labelled {min(unknown)!r}, which the training data lack"
            raise CorpusError(f"lattices: sentence {n}: {lacking}, {error}") from None
    data = encoded(trained, lattices)
    offsets, arcs = offsets_from([len(sentence) for sentence in sentences]), data.arcs
    first = np.repeat(offsets[:-1], np.diff(arcs.offsets))
    tokens = writing.tokens(first + arcs.source, first + arcs.target, arcs.label)
    return EncodedSentences(data, offsets, tokens, trained.extractor.mark)


def gold_paths(
    lattices: Sequence[FeatureLattice], y: Sequence[Sequence[str]], scheme: str | None
) -> tuple[list[list[int]], Array, str]:
    """The paths (numbers of arcs) that labellings stand for, none where a lattice lacks it; whether
    it has it [N]; and the first arc that a sentence lacks, as an error names it."""
    paths, missing = list[list[int]](), dict[int, str]()
    for n, (lattice, labels) in enumerate(zip(lattices, y, strict=True)):
        number = {arc[:3]: i for i, arc in enumerate(lattice.arcs)}
        path = ends_of(labels, scheme)
        lacking = next((ends for ends in path if ends not in number), None)
        if lacking is not None:
            missing[n], path = f"sentence {n}: its lattice has no arc {lacking}", []
        paths.append([number[ends] for ends in path])
    return paths, ~np.isin(np.arange(len(paths)), list(missing)), next(iter(missing.values()), "")


def writable_scheme(labels: Sequence[Any], pairs: Any) -> str | None:
    """The scheme of the labels of training data, after a check that paths can be written in it."""
    if not all(isinstance(label, str) for label in labels):
        raise OptionError("y: a LatticeTagger has labels of arcs, which are strings, got numbers")
    if set(labels) <= {OUTSIDE}:
        return WRITABLE[0]
    scheme = detect_scheme(labels, pairs=pairs)
    if scheme is not None and scheme not in WRITABLE:
        raise OptionError(
            f"y: labels in {scheme} do not say by themselves where a chunk begins and ends, as "
            "arcs do; convert them, as to iob2 (labelwright convert)"
        )
    return scheme


R = TypeVar("R")
KINDS = ("columns", "dicts", "arrays")  # of sentences


class Function(Anything):
    """A function, or None."""

    expected = "a function that makes a FeatureLattice of a sentence"

    def accepts(self, value: Any) -> bool:
        return value is None or callable(value)


# fmt: off
OWN = declared(
    lattices=(LatticeMaker | None, None,
        "A function that makes a FeatureLattice of a sentence: node t lies before token t, so that "
        "there is one node more than tokens. No model file holds it: set it again after load.",
        Function(), PythonOnly(), OfTheRun()),
    unreachable=(str, "error",
        (
        "Training sentences whose labels are no path of their lattice: an error, or skip: left "
        "out, with a warning."
        ),
        OneOf("error", "skip"), Group(TRAINING)),
)
# fmt: on


class LatticeStructure:
    """What a LatticeTagger does with sentences: make lattices and learn features of their arcs,
    score, be stored."""

    carry = staticmethod(carry_over)

    def prepare(self, model: Any, source: Source) -> tuple[Data, Trained]:
        """As that of chains; the arcs of the true paths become the gold."""
        X, y, sample_weight, _, old = source
        if old is not None:
            raise OptionError(
                "partial_fit: a LatticeTagger cannot learn further; fit again on all data"
            )
        corpus, labels, codes, sets = labelled(X, y)
        check_complete(type(model).__name__, labels, sets)
        sentences, reads = sentences_of(corpus)
        offsets = offsets_from([len(sentence) for sentence in sentences])
        if y is not None:
            check_lengths(y, np.diff(offsets).tolist())
        known = model._given or arc_labels(
            (), writable_scheme(labels, pairs_of_codes(labels, codes, offsets))
        )
        lattices = lattices_of(model.lattices, sentences, known.scheme)
        rows = cut([labels[code] for code in codes], offsets)
        paths, used = _paths(model, lattices, rows, known.scheme)
        weights = weights_of(sample_weight, offsets)
        if weights is not None:
            weights = weights[used]
            if not weights.any() and not model._of_part:
                raise OptionError("sample_weight: all are zero; nothing is left to learn from")
        chosen = [lattices[n] for n in used], [paths[n] for n in used]
        encoded_arcs, gold, trained = prepared(model, *chosen, known.types)
        lengths = np.diff(offsets)
        left_out, said = int((lengths > 0).sum()) - len(used), PLAIN._replace(of_sentences=weights)
        data = Data({}, offsets_from(lengths[used]), gold, said, (encoded_arcs, left_out))
        return data, trained._replace(scheme=known.scheme, reads=reads)

    def objective(self, trained: Trained, data: Data, workers: Workers) -> LogLikelihood:
        """The likelihood of these data."""
        return objective(trained, data.more[0], data.gold, workers, weights=data.said.of_sentences)

    def facts(self, trained: Trained, data: Data) -> dict[str, Any]:
        """What the record of training has of this structure."""
        lattices, left_out = data.more
        return {"arcs": len(lattices.arcs.label), "left_out": left_out}

    def under(self, trained: Trained, scheme: str | None) -> Constrained:
        """Everything: every path keeps the scheme of the labels."""
        return Constrained(trained.space, None)

    def scored_blocks(self, scoring: Scoring) -> Blocks:
        """Ranges of sentences, which depend on the data alone, and what gives the scored sentences
        of one of them."""
        trained, data, permitted = scoring.trained, scoring.data, scoring.permitted
        writing, offsets, lattices = (
            _writing(trained),
            data.offsets,
            scored_lattices(trained, data.lattices),
        )

        def scored(begin: int, end: int) -> list[GraphSentence | None]:
            sentences = list[GraphSentence | None]()
            for n in range(begin, end):
                sentence = (
                    lattice_sentence(lattices[n], writing, data.tokens_of(n))
                    if len(lattices[n])
                    else None
                )
                if sentence is not None and permitted is not None:
                    sentence = sentence.restricted(permitted[offsets[n] : offsets[n + 1]])
                sentences.append(sentence)
            return sentences

        return sentence_ranges(offsets, BLOCK_TOKENS), scored

    def pack(self, model: Any, trained: Trained) -> Packed:
        """The tensors and the header of the model file; `lattices`, which is code, is not in it."""
        tensors, header = packed(model, trained)
        return tensors, header | {
            "reads": {"kind": trained.reads.kind, "columns": list(trained.reads.columns)}
        }

    def read(self, model: Any, tensors: TensorReader, header: HeaderReader) -> Trained:
        """What `pack` stored, after checking that everything fits together; `lattices` is
        missing."""
        trained = read_packed(tensors, header)
        if not all(isinstance(label, str) for label in trained.space.labels):
            raise header.refuse("label_type", "strings")
        header.one_of("scheme", (None, *WRITABLE))
        reads = header.part("reads")
        schema = InputSchema(reads.one_of("kind", KINDS), tuple(reads.names("columns")))
        return trained._replace(reads=schema)


LATTICES = LatticeStructure()


def _paths(
    model: Any, lattices: Sequence[FeatureLattice], y: Sequence[Sequence[str]], scheme: str | None
) -> tuple[list[list[int]], Array]:
    """The true paths, and the numbers of the sentences to train on."""
    paths, reachable, missing = gold_paths(lattices, y, scheme)
    used = np.flatnonzero(
        reachable & np.array([len(lattice) > 0 for lattice in lattices], np.bool_)
    )
    if missing and model.unreachable == "error":
        raise CorpusError(
            f"y: {missing}, which its labels stand for; add it, or use unreachable='skip'"
        )
    if missing and not len(used):
        raise CorpusError(f"y: no sentence has labels that are a path of its lattice; {missing}")
    if missing:
        left_out = f"{counted(int((~reachable).sum()), 'sentence')} left out of training"
        warnings.warn(
            f"unreachable='skip': {left_out}, whose labels are no path of the lattice",
            RuntimeWarning,
            stacklevel=6,
        )
    return paths, used


def weights_of(given: Any, offsets: Array) -> Array | None:
    """The weights of sentences [N]."""
    of_sentences, of_tokens = sample_weights(given, offsets)
    if of_tokens is not None:
        raise OptionError(
            "sample_weight: a LatticeTagger weighs whole sentences; give a number for each"
        )
    return of_sentences


class LatticeTagger(LinearTagger):
    """A LatticeCRF that labels sentences: a function of yours makes a lattice of each, and its
    paths are labellings.

    An arc with the label X is a chunk of type X, written as B-X, I-X (or in the scheme of the
    training labels); one with the label O is a token outside all chunks.  Training labels without
    B- and I- are those of arcs of one token.

    >>> from labelwright import FeatureLattice
    >>> def words(sentence):
    ...     ends = [(a, b) for a in range(len(sentence)) for b in range(a + 1, len(sentence) + 1)]
    ...     return FeatureLattice([(a, b, "word", ["".join(sentence[a:b])]) for a, b in ends])
    >>> X, y = [list("abc"), list("ca")], [["B-word", "I-word", "B-word"], ["B-word", "B-word"]]
    >>> tagger = LatticeTagger(words, n_jobs=1).fit(X, y)
    >>> tagger.predict([list("cab")])
    [['B-word', 'B-word', 'I-word']]
    """

    can: ClassVar[frozenset[str]] = frozenset({PROBABILITY, NBEST, FORCED, LAYER, JOINT})
    decoders: ClassVar[tuple[str, ...]] = DECODERS
    _training_options: ClassVar[frozenset[str]] = frozenset({"dev", "progress", "sample_weight"})
    _rule_options: ClassVar[tuple[str, ...]] = ("probabilities",)
    _labels_as_columns: ClassVar[bool] = True
    _structure: ClassVar[Any] = LATTICES
    _learner: ClassVar[Any] = Likelihood
    lattices: LatticeMaker | None
    unreachable: str

    _declared = chosen(
        "lattices unreachable transitions cells min_count l1 l2 max_iter tol n_jobs verbose",
        LATTICE | OWN,
        cells="all",
    )

    # -- training ----------------------------------------------------------------------------------

    def fit(  # type: ignore[override]
        self,
        X: Any,
        y: Sequence[Sequence[str]] | None = None,
        *,
        dev: Any = None,
        progress: Callable[[Record, int], None] | None = None,
        sample_weight: Sequence[Any] | None = None,
    ) -> Self:
        """Train on sentences X and their labels y (or on a Corpus, whose label column is y).

        X, y : sentences and their labels, or a Corpus
        dev : (X, y) or a Corpus; the weights that do best on it are kept
        progress : called with the record of each iteration and the number of iterations at most
        sample_weight : a number for each sentence, which counts so many times
        """
        return super().fit(
            listed(X), listed(y), dev=dev, progress=progress, sample_weight=sample_weight
        )

    def _like(self) -> Self:
        """An untrained copy that will have the same labels, whatever part of its training data it
        is trained on."""
        copy = super()._like()
        copy._given = _writing(self._learnt())
        return copy

    # -- sentences in, scores out ------------------------------------------------------------------

    def encode(self, X: Any) -> EncodedSentences:  # type: ignore[override]
        """Make the lattices of sentences once; every method but `fit` takes the result in place of
        X.

        X : sentences, or a Corpus
        """
        return self._encoded_by(self._learnt(), X)

    _with_numbers = Tagger._with_numbers  # none are read

    def _encoded_by(self, trained: Trained, X: Any) -> EncodedSentences:
        if isinstance(X, EncodedSentences):
            return of_this_model(X, trained.extractor.mark)
        reads = trained.reads
        sentences, given = sentences_of(X, reads)
        if given.kind != reads.kind and any(map(len, sentences)):
            raise CorpusError(
                f"X: the model was trained on {reads.kind}, got {given.kind}; give the same kind"
            )
        return encoded_sentences(trained, _writing(trained), self.lattices, sentences)

    def _labels(self, trained: Trained) -> Sequence[str]:
        return _writing(trained).labels

    # -- as a layer of a cascade -------------------------------------------------------------------

    def _joint_objective(
        self,
        X: Any,
        y: Any,
        workers: Workers,
        candidates: Candidates | None = None,
        dtype: Any = np.float32,
        sample_weight: Any = None,
        class_weight: Mapping[Any, float] | None = None,
    ) -> tuple[LogLikelihood | LabelsOfArcs, FeatureValues]:
        """The likelihood of labels as a layer that passes `candidates`; it reads nothing from
        below.  Sentences whose labels are no path only pass their probabilities."""
        sentences, _ = sentences_of(X, self.reads())
        weights = weights_of(sample_weight, offsets_from([len(sentence) for sentence in sentences]))
        used = [n for n, sentence in enumerate(sentences) if len(sentence)]
        trained, writing = self._trained, _writing(self._trained)
        data = encoded_sentences(trained, writing, self.lattices, [sentences[n] for n in used])
        paths, reachable, _ = gold_paths(
            data.lattices.lattices, [y[n] for n in used], writing.scheme
        )
        weights = reachable * (1.0 if weights is None else weights[used])
        gold, slots = (
            true_arcs(data.lattices, paths),
            None if candidates is None else arc_slots(data.lattices.arcs),
        )
        problem = objective(trained, data.lattices, gold, workers, dtype, slots, weights)
        if candidates is None:
            return problem, NOTHING_BELOW
        return LabelsOfArcs(problem, candidates, data.tokens, len(writing.labels)), NOTHING_BELOW

    # -- what was learnt ---------------------------------------------------------------------------

    def reads(self) -> InputSchema:
        schema: InputSchema = self._learnt().reads
        return schema

    def describe(self, top: int = 5) -> dict[str, Any]:
        description = described(self, top)
        function = (
            None
            if self.lattices is None
            else getattr(self.lattices, "__name__", repr(self.lattices))
        )
        return description | {"parameters": description["parameters"] | {"lattices": function}}

    def _describe_use(self, corpora: Sequence[Any], top: int = 5) -> dict[str, Any]:
        return Tagger._describe_use(self, corpora, top)

    def _features_read(self) -> tuple[str, None]:
        return "arcs", None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over a pickle; those of version 0.2.0 say beside what was learnt what the sentences
        are."""
        reads = state.pop("reads_", None)
        vars(self).update(
            state
            if reads is None
            else state | {"_trained": state["_trained"]._replace(reads=reads)}
        )


def _writing(trained: Trained) -> ArcLabels:
    """How the arcs of a trained model are written as labels of tokens."""
    return arc_labels(tuple(trained.space.labels), trained.scheme)
