"""Memory-based learning: MemoryBased, a classifier over columns of values, and MemoryTagger, which
labels sequences.

Daelemans & van den Bosch (2005), "Memory-Based Language Processing"; the semantics are TiMBL's.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.schemes import detect_scheme, pairs_of_codes
from labelwright.corpus.table import Corpus
from labelwright.corpus.tabular import frame_names
from labelwright.corpus.token_records import listed
from labelwright.decode.record import check_whole
from labelwright.errors import CorpusError, ModelFileError, OptionError
from labelwright.features.sources import Given
from labelwright.inspection import facts
from labelwright.inspection.explanation import Asked, Evidence
from labelwright.inspection.names import by_memory
from labelwright.inspection.ngram_evidence import RememberedSentence
from labelwright.memory import store
from labelwright.memory.instances import (
    Instances,
    ValueNumbers,
    instances,
    joined,
    numbered_classes,
    some_instances,
    sorted_classes,
)
from labelwright.memory.search import SEARCHED, VOTES, Searcher, settings_with
from labelwright.memory.store import Answers, IGTree, Memory
from labelwright.memory.stored import HEAVIEST, Remembered, read_remembered
from labelwright.memory.weights import METRICS, WEIGHTS, numbers_of
from labelwright.memory.windows import NO_VECTORS, restored, windows
from labelwright.modelfile import HeaderReader, TensorReader, check_distinct, check_indices
from labelwright.parallel import Workers
from labelwright.settings import (
    NOT_NEGATIVE,
    AtLeast,
    Choice,
    Flag,
    Kind,
    Number,
    OneOf,
    OnlyWith,
    Place,
    Signed,
)
from labelwright.structures.proposals import (
    Distributions,
    check_order,
    gram_name,
    ngram_classes,
    propose,
)
from labelwright.taggers.arguments import BALANCED, instance_weights, token_weights
from labelwright.taggers.base import NEIGHBOURS
from labelwright.taggers.declared import chosen, declared
from labelwright.taggers.estimator import Estimator, InputSchema, Summary
from labelwright.taggers.ngram import NGRAM, NgramTagger, Proposed, remembered
from labelwright.taggers.packing import (
    Packed,
    check_token_labels,
    constructed,
    header_of,
    pack_labels,
    read_labels,
    read_scheme,
    template_setting,
)
from labelwright.taggers.training_record import REMEMBERED, TrainingRecord, read_record
from labelwright.wording import counted, shown

Array = NDArray[Any]


class NameByColumn(Choice):
    """One of several names, or one of them for each column."""

    metavar = "NAME"

    def complaint(self, value: Any) -> str | None:
        names = [value] if isinstance(value, str) or not hasattr(value, "__len__") else value
        wrong = [name for name in names if not isinstance(name, str) or name not in self.choices]
        return f"expected {self.expected}, got {shown(wrong[0], 60)}" if wrong else None

    def from_text(self, text: str) -> str | list[str]:
        """The names that a text means.

        >>> NameByColumn(["overlap", "mvdm"]).from_text("overlap,mvdm")
        ['overlap', 'mvdm']
        """
        parts = [part.strip() for part in text.split(",")]
        if not all(parts):
            raise ValueError(text)
        return parts if len(parts) > 1 else parts[0]


class NameOrNumbers(Choice):
    """One of several names, or a number for each column."""

    metavar = "NAME"

    def complaint(self, value: Any) -> str | None:
        if isinstance(value, str):
            return super().complaint(value)
        listed = value if hasattr(value, "__len__") else [None]
        if isinstance(value, Mapping) or not all(Number().accepts(number) for number in listed):
            return f"expected a name, or a number for each column, got {shown(value, 60)}"
        return None

    def from_text(self, text: str) -> str | list[float]:
        """The name or the numbers that a text means.

        >>> NameOrNumbers(["gain-ratio"]).from_text("0.5,1")
        [0.5, 1.0]
        """
        parts = [part.strip() for part in text.split(",")]
        try:
            return [float(part) for part in parts]
        except ValueError:
            if len(parts) == 1:
                return parts[0]
            raise OptionError(
                f"--weights: expected a name, or numbers separated by commas, got {text!r}"
            ) from None


class Decay(Kind):
    """The numbers (a, b) of exponential decay; b is 1 where there is one number."""

    expected = "two numbers of 0 or more, as in 1,0.5"
    metavar = "A[,B]"

    def accepts(self, value: Any) -> bool:
        pair = hasattr(value, "__len__") and not isinstance(value, str) and len(value) == 2
        return pair and all(NOT_NEGATIVE.accepts(number) for number in value)

    def from_text(self, text: str) -> tuple[float, ...]:
        """The numbers that a text means.

        >>> Decay().from_text("0.5"), Decay().from_text("0.5,2")
        ((0.5, 1.0), (0.5, 2.0))
        """
        numbers = tuple(float(part) for part in text.split(","))
        return (*numbers, 1.0) if len(numbers) == 1 else numbers

    def from_recipe(self, value: Any, place: Place) -> Any:
        if isinstance(value, list):
            return tuple(value) if len(value) != 1 else (value[0], 1.0)
        return (value, 1.0) if NOT_NEGATIVE.accepts(value) else value


IB1 = OnlyWith("algorithm", "ib1")

# fmt: off
MEMORY = NGRAM | declared(
    k=(int, 1, (
        "Neighbours at the K nearest distances "
        "vote."
    ), AtLeast(1), Signed(), IB1, Flag(metavar="K")),
    metric=(str | Sequence[str], "overlap",
        "Distance of two values: overlap (0 if equal, else 1), mvdm (difference of their class "
        "distributions), jeffrey and jensen-shannon (divergence of their class distributions), "
        "numeric (difference divided by the range); or one for each line of the template, "
        "separated by commas.",
        NameByColumn(METRICS), Signed(), IB1),
    mvdm_threshold=(int, 1, (
        "mvdm, jeffrey, jensen-shannon: values that occur less often are compared by "
        "overlap."
    ),
        AtLeast(1), Signed(), OnlyWith("metric", "mvdm", "jeffrey", "jensen-shannon")),
    weights=(str | Sequence[float], "gain-ratio",
        "Weights of the lines of the template: gain-ratio, information-gain, chi-squared, "
        "shared-variance, none; or a number for each, separated by commas.",
        NameOrNumbers(WEIGHTS), Signed()),
    votes=(str, "none", (
        "Vote of a neighbour: none (1 each), inverse-distance, inverse-linear or "
        "exponential-decay."
    ),
        OneOf(*VOTES), Signed(), IB1),
    decay=(tuple[float, float], (1.0, 1.0),
        "exponential-decay: the vote of a neighbour at distance d is exp(-A d^B).",
        Decay(), OnlyWith("votes", "exponential-decay")),
    algorithm=(str, "ib1",
        (
        "ib1 compares with all instances; igtree is a decision tree over the columns: faster, less "
        "accurate."
        ),
        OneOf("ib1", "igtree"), Signed()),
)
# fmt: on


class Neighbour(NamedTuple):
    """One instance near a query: why a class was predicted."""

    instance: int  # its place in the training data
    distance: float
    label: Any  # its class
    values: tuple[Any, ...]  # [F]


class MemoryBased(Estimator):
    """k nearest neighbours over columns of symbols and numbers, with exact search.

    The distance of two instances is the weighted sum of the distances of their values, and the k
    nearest *distances* count: all instances at one distance belong together.  Where classes tie,
    the next distance is asked, too; if that does not decide, the class that is more frequent in all
    instances wins, then the one first seen.

    >>> memory = MemoryBased().fit([["a", "x"], ["b", "x"], ["b", "y"]], ["one", "two", "two"])
    >>> memory.predict([["a", "y"]]).tolist()
    ['one']
    >>> memory.neighbours([["a", "y"]])[0][0].values
    ('a', 'x')
    """

    takes_columns: ClassVar[bool] = True  # not features made of them
    _answer_settings: ClassVar[frozenset[str]] = frozenset({"k", "votes", "decay"})
    classes_: Array  # [C]  sorted
    n_features_in_: int
    feature_weights_: Array  # [F]
    training_: dict[str, Any]
    data_: Instances  # what is remembered,
    targets_: Array  # [M] int32  its classes, in order of first appearance,
    seen_: list[Any]  # [C]  and what they are
    often_: Array | None = None  # [M]  how many times each instance counts; None: once
    index_: Memory | IGTree  # what answers queries
    names_: Sequence[str] | None  # [F]  of columns, for complaints
    _known: ValueNumbers
    _search: Searcher | None  # of an index that is a Memory

    _declared = chosen("k metric mvdm_threshold weights votes decay algorithm n_jobs", MEMORY)

    k: int
    metric: str | Sequence[str]
    mvdm_threshold: int
    weights: str | Sequence[float]
    votes: str
    decay: tuple[float, float]
    algorithm: str
    n_jobs: int | None

    # -- learning ----------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Remember the rows of X (a 2-D array or a list of rows) and their classes y.

        X : rows of symbols and numbers
        y : the class of each row
        sample_weight : how many times each row counts; those that count 0 times are not remembered
        """
        self._check_parameters()
        data = X if isinstance(X, Instances) else instances(X)
        seen, targets = numbered_classes(y, len(data.codes))
        return self._remember(
            data, targets, seen, frame_names(X), instance_weights(sample_weight, len(targets))
        )

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Remember further instances: the same as `fit` on all of them.  `classes` is not needed,
        and not used.

        X, y : rows and their classes
        classes : taken for scikit-learn's sake
        sample_weight : how many times each row counts
        """
        if not self._is_fitted():
            return self.fit(X, y, sample_weight)
        self._check_parameters()
        new = self._rows(X)
        seen, targets = numbered_classes(y, len(new.codes))
        index = {label: i for i, label in enumerate(dict.fromkeys([*self.seen_, *seen]))}
        numbers = np.array([index[label] for label in seen], np.int32)
        return self._remember_more(
            new, numbers[targets], list(index), instance_weights(sample_weight, len(targets))
        )

    def _remember_more(
        self, new: Instances, targets: Array, seen: list[Any], often: Array | None
    ) -> Self:
        """Remember further instances with their classes, of which `seen` are the names: old ones,
        then new ones."""
        weights = None
        if often is not None or self.often_ is not None:
            both = (self.often_, len(self.targets_)), (often, len(targets))
            weights = np.concatenate([np.ones(n) if given is None else given for given, n in both])
        targets = np.concatenate([self.targets_, targets])
        return self._remember(joined(self.data_, new), targets, seen, self.names_, weights)

    def _remember(
        self,
        data: Instances,
        targets: Array,
        seen: list[Any],
        columns: Sequence[str] | None = None,
        often: Array | None = None,
    ) -> Self:
        """Keep instances with their classes, of which `seen` are the names; `columns` are those of
        the columns, and `often` [M] how many times each instance counts."""
        if often is not None and not often.all():
            data, targets, often = (
                some_instances(data, often > 0),
                targets[often > 0],
                often[often > 0],
            )
        F, C = len(data.values), len(seen)
        metrics = (self.metric,) * F if isinstance(self.metric, str) else tuple(self.metric)
        if len(metrics) != F:
            raise OptionError(
                f"metric: expected one name, or one for each of {F} columns, got {len(metrics)}"
            )
        weights = self.weights if isinstance(self.weights, str) else self._given_weights(F)
        learnt = store.learn(
            data, targets, C, metrics, self.mvdm_threshold, weights, columns, often
        )
        index: Memory | IGTree
        if self.algorithm == "igtree":
            index = store.igtree(data.codes, targets, C, learnt.weights, often)
        else:
            index = store.memory(learnt, data, targets, C, often)
        return self._keep(Remembered(data, targets, seen, often, learnt.weights, index), columns)

    def _keep(self, remembered: Remembered, columns: Sequence[str] | None) -> Self:
        self.data_, self.targets_, self.seen_, self.often_, self.feature_weights_, self.index_ = (
            remembered
        )
        self._search = Searcher(self.index_) if isinstance(self.index_, Memory) else None
        self._known, self.names_ = ValueNumbers(self.data_.values), columns
        self.n_features_in_, self.classes_ = len(self.data_.values), sorted_classes(self.seen_)
        return self

    def _given_weights(self, n: int) -> Array:
        given = np.asarray(self.weights, np.float64)
        if given.shape != (n,) or not ((given >= 0) & (given <= HEAVIEST)).all():
            raise OptionError(
                f"weights: expected a name, or for each of {n} columns a number from 0 to "
                f"{HEAVIEST:g}, got {self.weights!r:.60}"
            )
        return given

    def _is_fitted(self) -> bool:
        return hasattr(self, "index_")

    # -- answers -----------------------------------------------------------------------------------

    def predict(self, X: Any) -> Array:
        """The class of each row.

        X : rows
        """
        best = self.answers(X).best
        return sorted_classes(self.seen_, keep_order=True)[best]

    def predict_proba(self, X: Any) -> Array:
        """The share of votes [Q, C] that each of `classes_` has in the neighbourhood.

        X : rows
        """
        answers = self.answers(X)
        position = {label: i for i, label in enumerate(self.classes_.tolist())}
        columns = np.array(
            [position[label] for label in sorted_classes(self.seen_, keep_order=True).tolist()]
        )
        table = np.zeros((len(answers.best), len(columns)))
        rows = np.repeat(np.arange(len(answers.best)), np.diff(answers.ptr))
        table[rows, columns[answers.classes]] = answers.votes
        shares: Array = table / table.sum(axis=1, keepdims=True)
        return shares

    def score(self, X: Any, y: Any) -> float:  # type: ignore[override]
        """The share of rows whose class is predicted.

        X, y : rows and their classes
        """
        numbered_classes(y, len(X))
        return float(
            np.mean([a == b for a, b in zip(self.predict(X).tolist(), list(y), strict=True)])
        )

    def answers(self, X: Any) -> Answers:
        """For each row the predicted class (an index into `seen_`), the nearest distance, and the
        votes of all classes in its neighbourhood."""
        self._check_fitted()
        self._check_parameters()  # k, votes and decay may have changed
        return self._answers(*self._queries(X))

    def answers_to_few(self, columns: Sequence[Sequence[str]]) -> Answers | None:
        """The same of a few rows, given by columns of strings [F][Q]; None where a column holds
        numbers."""
        if isinstance(self.index_, Memory) and self.index_.numeric:
            return None
        self._check_parameters()
        codes = self._known.of_strings(columns)
        return self._answers(codes, np.zeros(codes.shape))

    def _answers(self, codes: Array, numbers: Array) -> Answers:
        """The answers to queries, given as `_queries` makes them."""
        if self._search is None:
            assert isinstance(self.index_, IGTree)
            return store.ask(self.index_, codes)
        a, b = self.decay
        return self._search.classify(
            codes, numbers, int(self.k), self.votes, (a, b), Workers(self.n_jobs)
        )

    def neighbours(self, X: Any, k: int | None = None) -> list[list[Neighbour]]:
        """The instances at the k nearest distances of each row, the nearest first: the explanation
        of a prediction.

        X : rows
        k : number of distances; None: as the setting says
        """
        self._check_fitted()
        if self._search is None:
            raise OptionError(
                "neighbours: an igtree answers by classes, not by instances; use algorithm='ib1'"
            )
        if k is not None:
            check_whole("k", k, 1)
        codes, numbers = self._queries(X)
        nearest = self._search.nearest(codes, numbers, int(k or self.k), Workers(self.n_jobs))
        neighbours = []
        for n, distance in zip(nearest.instances.tolist(), nearest.distance.tolist(), strict=True):
            values = tuple(
                known[c]
                for known, c in zip(self.data_.values, self.data_.codes[n].tolist(), strict=True)
            )
            neighbours.append(Neighbour(n, distance, self.seen_[self.targets_[n]], values))
        return [neighbours[a:b] for a, b in pairwise(nearest.ptr.tolist())]

    def _rows(self, X: Any) -> Instances:
        """Rows with as many columns as those that were learnt from; refused as scikit-learn words
        it."""
        rows = X if isinstance(X, Instances) else instances(X)
        names, width, read = frame_names(X), len(rows.values), self.n_features_in_
        if names is not None and self.names_ is not None and list(names) != list(self.names_):
            raise CorpusError(
                f"X: expected the columns {', '.join(self.names_)}, got {', '.join(names)}"
            )
        if width != read:
            raise CorpusError(
                f"X: the model reads {read} columns, got {width}: X has {width} features, but "
                f"{type(self).__name__} is expecting {read} features as input"
            )
        return rows

    def _queries(self, X: Any) -> tuple[Array, Array]:
        """Rows as codes [Q, F] of known values, and as numbers where the metric is numeric."""
        rows = self._rows(X)
        codes = self._known.translated(rows)
        numbers = np.zeros(codes.shape)
        for i in self.index_.numeric if isinstance(self.index_, Memory) else ():
            place = f"X: column {i if self.names_ is None else self.names_[i]}"
            numbers[:, i] = numbers_of(rows.values[i], place)[rows.codes[:, i]]
        return codes, numbers

    @property
    def memory_(self) -> dict[str, float]:
        """How much is remembered: instances, distinct rows (of an igtree: nodes), bytes in all,
        bytes per instance."""
        self._check_fitted()
        n, index = len(self.targets_), self.index_
        values = sum(
            map(
                sys.getsizeof,
                {id(value): value for known in self.data_.values for value in known}.values(),
            )
        )
        values += sum(map(sys.getsizeof, self.data_.values))
        n_bytes = (
            (self._search or index).n_bytes
            + self.data_.codes.nbytes
            + self.targets_.nbytes
            + values
        )
        rows = index.trie.columns.shape[1] if isinstance(index, Memory) else len(index.code)
        return {"instances": n, "rows": rows, "bytes": n_bytes, "bytes_per_instance": n_bytes / n}

    # -- files -------------------------------------------------------------------------------------

    def pack(self) -> Packed:
        """The tensors (memory.stored) and the header of the model file."""
        learnt = (
            self.data_,
            self.targets_,
            self.seen_,
            self.often_,
            self.feature_weights_,
            self.index_,
        )
        return Remembered(*learnt).tensors(), header_of(self) | {
            "columns": self.n_features_in_,
            "names": self.names_,
        }

    @classmethod
    def unpack(cls, tensors: Mapping[str, Array], header: Mapping[str, Any]) -> Self:
        """The model that `pack` stored, after checking that everything fits together."""
        fields = HeaderReader.of(header)
        model: Self = constructed(cls, fields)
        model._restore(TensorReader.of(tensors), fields)
        # that of a tagger; fit writes no record
        of_sentences = "sentences" in fields.part("training")
        model.training_, _ = read_record(fields, REMEMBERED if of_sentences else ())
        return model

    def _restore(self, tensors: TensorReader, header: HeaderReader) -> None:
        F = header.whole("columns", 1, 1 << 31)
        remembered = read_remembered(tensors, F)
        names = header.names("names") if header.get("names") is not None else None
        if names is not None and len(names) != F:
            raise header.refuse("names", f"names of {F} columns")
        self._keep(remembered, names)

    def _features_read(self) -> tuple[str, Mapping[str, str] | None]:
        return "columns", None

    def reads(self) -> InputSchema:
        return InputSchema("rows")

    def describe(self, top: int = 5) -> dict[str, Any]:
        self._check_fitted()
        weights = {f"column {i}": weight for i, weight in enumerate(self.feature_weights_.tolist())}
        labels = [str(label) for label in self.classes_.tolist()]
        return {
            "signature": self._signature(),
            **facts.remembered(self, labels, len(labels), weights),
        }

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"
        # of numbers, where they are compared as symbols
        tags.classifier_tags = ClassifierTags(poor_score=True)
        tags.input_tags.two_d_array = True
        tags.input_tags.categorical = True
        # else it is a value like any other
        tags.input_tags.allow_nan = "numeric" not in self.metric
        return tags


class MemoryTagger(NgramTagger):
    """Memory-based tagging: label n-grams from nearest neighbours, made one labelling by constraint
    satisfaction.

    The settings of MemoryBased say how neighbours are found (`metric` and `weights` by column: the
    lines of the template), those of NgramTagger what is made of their classes.

    >>> tagger = MemoryTagger().fit([["the", "dog"], ["a", "dog"]], [["D", "N"], ["D", "N"]])
    >>> tagger.predict([["a", "cat"]])
    [['D', 'N']]
    """

    can: ClassVar[frozenset[str]] = NgramTagger.can | {NEIGHBOURS}
    _training_options: ClassVar[frozenset[str]] = frozenset(
        {"search", "sample_weight", "partial_fit"}
    )
    _searched: ClassVar[tuple[str, ...]] = SEARCHED
    _answer_settings: ClassVar[frozenset[str]] = (
        NgramTagger._answer_settings | MemoryBased._answer_settings
    )
    compares_symbols: ClassVar[bool] = True  # type: ignore[misc]
    learner_: MemoryBased
    k: int
    votes: str
    decay: tuple[float, float]
    algorithm: str

    _declared = chosen(
        "k metric mvdm_threshold weights votes decay algorithm ngram inference template weighting "
        "lengths n_jobs verbose dictionaries clusters class_weight",
        MEMORY,
        template="window",
    )

    def partial_fit(
        self,
        X: Any,
        y: Sequence[Sequence[str]] | None = None,
        *,
        sample_weight: Sequence[Any] | None = None,
    ) -> Self:
        """Remember further sentences: the same as `fit` on all of them.

        X, y : sentences and their labels, or a Corpus
        sample_weight : as in `fit`
        """
        if not self._is_fitted():
            return self.fit(X, y, sample_weight=sample_weight)
        self._check_parameters()
        if self.ngram != self.grams_.shape[1]:
            raise OptionError(
                f"ngram: the model was trained with {self.grams_.shape[1]}, got {self.ngram}; fit "
                "again"
            )
        if self.class_weight == BALANCED:
            raise OptionError(
                "class_weight: 'balanced' depends on all sentences; fit again, or name a weight by "
                "label"
            )
        begun = time.perf_counter()
        X, labels, gold, offsets = self._complete(listed(X), listed(y), self.labels_)
        often = token_weights(gold, offsets, labels, self.class_weight, sample_weight, part=True)
        grams, classes = ngram_classes(gold, offsets, self.ngram)
        data, _ = self.windows_.instances(
            X, Given(self.dictionaries, self.clusters, labels=(labels, gold))
        )
        number = {gram: code for code, gram in enumerate(map(tuple, self.grams_.tolist()))}
        numbers = np.array(
            [number.setdefault(tuple(gram), len(number)) for gram in grams.tolist()], np.int32
        )
        self.learner_._remember_more(data, numbers[classes], list(range(len(number))), often)
        self.grams_ = np.array(list(number), np.int32).reshape(-1, self.ngram)
        self.labels_, self.mark_ = labels, os.urandom(8).hex()
        pairs = self._pairs() if self.ngram > 1 else pairs_of_codes(self.labels_, gold, offsets)
        self.scheme_ = detect_scheme(self.labels_, pairs=pairs)
        added = {
            "sentences": len(offsets) - 1,
            "tokens": len(gold),
            "seconds": round(time.perf_counter() - begun, 3),
        }
        before = self.uncalibrated().training_
        self.training_ = before | {name: before.get(name, 0) + n for name, n in added.items()}
        return self

    def _pairs(self) -> dict[tuple[str | None, str | None], int]:
        """How often each label follows each other in the n-grams of all instances; None is the edge
        of a sentence."""
        half, names = self.ngram // 2, [*self.labels_, None]
        often = np.bincount(self.learner_.targets_, minlength=len(self.grams_)).tolist()
        pairs: dict[tuple[str | None, str | None], int] = {}
        for gram, n in zip(self.grams_.tolist(), often, strict=True):
            before, label, after = (names[code] for code in gram[half - 1 : half + 2])
            for pair in [(before, label)] + [(label, None)] * (after is None):
                pairs[pair] = pairs.get(pair, 0) + n
        return pairs

    def _learner(self) -> MemoryBased:
        """The classifier with these settings."""
        return MemoryBased(**{name: getattr(self, name) for name in MemoryBased._parameter_names()})

    def _fit_classifier(
        self, X: Any, classes: Array, n_classes: int, given: Given, often: Array | None = None
    ) -> None:
        self.windows_, data = windows(X, self.template, given)
        self.learner_ = self._learner()._remember(
            data, classes, list(range(n_classes)), self.windows_.names, often
        )

    def _distributions(self, X: Any) -> Iterator[tuple[Distributions, Array]]:
        return remembered(self._asked(), self.windows_, X)

    def _asked(self) -> MemoryBased:
        """The learner, with what may have changed since it learnt."""
        return self.learner_.set_params(
            n_jobs=self.n_jobs, k=self.k, votes=self.votes, decay=self.decay
        )

    def neighbours(self, X: Any, k: int | None = None) -> list[list[list[Neighbour]]]:
        """For every token the instances at the k nearest distances: `instance` is the place of a
        token in the training data, `label` its label n-gram.

        X : sentences, or a Corpus
        k : number of distances; None: as the setting says
        """
        self._check_fitted()
        X = listed(X)
        if isinstance(X, Proposed):
            raise OptionError(
                "neighbours: expected the sentences themselves, got what `encode` made of them"
            )
        if not isinstance(X, Corpus) and not any(len(sentence) for sentence in X):
            return [[] for _ in X]
        data, offsets = self.windows_.instances(X)
        names = [*self.labels_, None]
        neighbours = [
            [
                n._replace(label=tuple(names[code] for code in self.grams_[n.label].tolist()))
                for n in near
            ]
            for near in self._asked().neighbours(data, k)
        ]
        return [neighbours[a:b] for a, b in pairwise(offsets.tolist())]

    def _evidence(self, X: Any, words: Sequence[str | None], asked: Asked) -> Evidence:
        return RememberedSentence(
            self, self._predictions(X, asked), words, asked, self.windows_.instances(X)[0]
        )

    def _decoded_all(self, answers: Distributions, offsets: Array) -> list[list[str]]:
        """The labels of sentences for whose tokens the memory has given these answers."""
        proposed = propose(answers, self.grams_, offsets, self.weighting, self.lengths)
        return [decoded.labels for decoded in self.decode(Proposed([proposed], self.mark_))]

    # -- files -------------------------------------------------------------------------------------

    def pack(self) -> Packed:
        """The tensors and the header of the model file: those of the learner, and grams [C, n] and
        labels."""
        if callable(self.weighting):
            raise ModelFileError(
                "weighting: a function cannot be stored in a model file; name one, or pickle it"
            )
        tensors, header = self.learner_.pack()
        labels, kind = pack_labels(self.labels_)
        own = {"windows": self.windows_.header(), "scheme": self.scheme_, "mark": self.mark_}
        tensors |= {"grams": self.grams_} | labels | self.windows_.tensors()
        return tensors, header | header_of(self) | kind | own

    @classmethod
    def unpack(cls, tensors: Mapping[str, Array], header: Mapping[str, Any]) -> Self:
        """The model that `pack` stored, after checking that everything fits together."""
        tensors, header = TensorReader.of(tensors), HeaderReader.of(header)
        described = header.part("windows")
        model: Self = constructed(cls, header, **template_setting(described))
        model.windows_, model.labels_ = restored(tensors, described), read_labels(tensors, header)
        check_token_labels(tensors, model.labels_)
        if model.windows_.sources.order:
            model.set_params(**model.windows_.sources.settings())
        model.scheme_, model.mark_ = read_scheme(header), header.text("mark")
        model.grams_ = tensors.indices("grams", np.int32, len(model.labels_), None, None, least=-1)
        n = check_order(model.grams_.shape[1])
        check_indices("grams", model.grams_[:, n // 2], len(model.labels_))
        check_distinct("grams", list(map(tuple, model.grams_.tolist())))
        model.learner_ = model._learner()
        model.learner_._restore(tensors, header)
        if model.learner_.seen_ != list(range(len(model.grams_))):
            raise tensors.refuse("seen", "a class for each of the n-grams")
        if len(model.windows_.names) != model.learner_.n_features_in_:
            raise described.refuse("names", f"names of {model.learner_.n_features_in_} columns")
        model.training_, _ = read_record(header, REMEMBERED, weights=np.ones(1))
        return model

    def _features_read(self) -> tuple[str, Mapping[str, str] | None]:
        return self.windows_.kind, self.windows_.header()["template"]

    def reads(self) -> InputSchema:
        self._check_fitted()
        return InputSchema(self.windows_.kind, tuple(self.windows_.inputs))

    def describe(self, top: int = 5) -> dict[str, Any]:
        self._check_fitted()
        known = facts.remembered(
            self, self.labels_, len(self.grams_), self.feature_weights_, self.windows_
        )
        return {"signature": self._signature(), **known}

    def knows(self, words: Sequence[str]) -> list[bool] | None:
        self._check_fitted()
        return by_memory(self.windows_, self.learner_.data_.values, words)

    @classmethod
    def _refusal(cls, setting: str) -> str | None:
        return NO_VECTORS if setting in ("vectors", "arrays", "dev_arrays") else None

    def _searchable_settings(self, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        return settings_with(self.algorithm, given)

    def _summary(self) -> Summary:
        record, memory = TrainingRecord.of(self.training_), self.memory_
        sizes = [
            counted(int(memory["instances"]), "instance"),
            counted(len(self.windows_.names), "column"),
            f"{counted(len(self.grams_), 'class')} ({gram_name(self.ngram)})",
            counted(len(self.labels_), "label"),
        ]
        run = [*record.counts(sentences="sentence"), *record.time()]
        return Summary(sizes, [*run, f"{memory['bytes_per_instance']:,.0f} bytes an instance"])

    @property
    def feature_weights_(self) -> dict[str, float]:
        """The weight of each column, by its name."""
        self._check_fitted()
        return dict(zip(self.windows_.names, self.learner_.feature_weights_.tolist(), strict=True))

    @property
    def memory_(self) -> dict[str, float]:
        """How much is remembered, as MemoryBased.memory_."""
        self._check_fitted()
        return self.learner_.memory_
