"""Memory-based learning: MemoryBased, a classifier over columns of values, and MemoryTagger, which labels sequences.

Daelemans & van den Bosch (2005), "Memory-Based Language Processing"; the semantics are TiMBL's.
"""

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.table import Corpus
from labelwright.corpus.tabular import frame_names, is_missing
from labelwright.decode.checks import check_whole
from labelwright.engine.choice import expect
from labelwright.errors import CorpusError, ModelFileError, NotFittedError, OptionError
from labelwright.features.sources import Given
from labelwright.inspection import memory as inspection
from labelwright.inspection import remembered_explanation
from labelwright.inspection.explanation import Asked, Explanation
from labelwright.inspection.known import by_memory
from labelwright.memory import igtree as trees
from labelwright.memory import store
from labelwright.memory.distances import METRICS, numbers_of
from labelwright.memory.grid import SEARCHED, settings_with
from labelwright.memory.igtree import IGTree
from labelwright.memory.instances import Instances, ValueNumbers, instances, joined
from labelwright.memory.search import VOTES, Answers, Searcher
from labelwright.memory.store import Memory
from labelwright.memory.stored import (
    HEAVIEST,
    packed_index,
    packed_values,
    read_classes,
    read_index,
    read_instances,
)
from labelwright.memory.weights import WEIGHTS
from labelwright.memory.windows import NO_VECTORS, Windows, restored, windows
from labelwright.parallel import Workers
from labelwright.settings import AtLeast, Flag, Help, OneOf, OnlyWith, Signed
from labelwright.structures.distributions import Distributions
from labelwright.structures.ngrams import check_order, gram_name
from labelwright.structures.proposals import propose
from labelwright.taggers import declared
from labelwright.taggers.base import NEIGHBOURS, listed
from labelwright.taggers.estimator import Estimator, InputSchema, Summary
from labelwright.taggers.kinds import Decay, NameByColumn, NameOrNumbers
from labelwright.taggers.ngram import InferenceName, Lengths, Ngram, NgramModel, Proposed, WeightingName, remembered
from labelwright.taggers.packing import (
    Packed,
    as_json,
    constructed,
    header_of,
    pack_labels,
    read_labels,
    read_record,
    read_scheme,
    template_setting,
)
from labelwright.taggers.signature import signature
from labelwright.validation import HeaderReader, TensorReader, check_indices
from labelwright.wording import counted

Array = NDArray[Any]
# Without compiled code a query takes as long as so many tokens of a CRF, and one more for so many instances.
QUERY_COST, INSTANCES_OF_TOKEN = 8, 5000

Neighbours = Annotated[
    int,
    AtLeast(1),
    Signed(),
    OnlyWith("algorithm", "ib1"),
    Flag(metavar="K"),
    Help("Neighbours at the K nearest distances vote."),
]
Metric = Annotated[
    str | Sequence[str],
    NameByColumn(METRICS),
    Signed(),
    OnlyWith("algorithm", "ib1"),
    Help(
        "Distance of two values: overlap (0 if equal, else 1), mvdm (difference of their class distributions), jeffrey "
        "and jensen-shannon (divergence of their class distributions), numeric (difference divided by the range); or "
        "one for each line of the template, separated by commas."
    ),
]
Threshold = Annotated[
    int,
    AtLeast(1),
    Signed(),
    OnlyWith("metric", "mvdm", "jeffrey", "jensen-shannon"),
    Help("mvdm, jeffrey, jensen-shannon: values that occur less often are compared by overlap."),
]
ColumnWeights = Annotated[
    str | Sequence[float],
    NameOrNumbers(WEIGHTS),
    Signed(),
    Help(
        "Weights of the lines of the template: gain-ratio, information-gain, chi-squared, shared-variance, none; or "
        "a number for each, separated by commas."
    ),
]
Votes = Annotated[
    str,
    OneOf(*VOTES),
    Signed(),
    OnlyWith("algorithm", "ib1"),
    Help("Vote of a neighbour: none (1 each), inverse-distance, inverse-linear or exponential-decay."),
]
DecayNumbers = Annotated[
    tuple[float, float],
    Decay(),
    OnlyWith("votes", "exponential-decay"),
    Help("exponential-decay: the vote of a neighbour at distance d is exp(-A d^B)."),
]
Algorithm = Annotated[
    str,
    OneOf("ib1", "igtree"),
    Signed(),
    Help("ib1 compares with all instances; igtree is a decision tree over the columns: faster, less accurate."),
]


class Neighbour(NamedTuple):
    """One instance near a query: why a class was predicted."""

    instance: int  # its place in the training data
    distance: float
    label: Any  # its class
    values: tuple[Any, ...]  # [F]


class MemoryBased(Estimator):
    """k nearest neighbours over columns of symbols and numbers, with exact search.

    The distance of two instances is the weighted sum of the distances of their values, and the k nearest *distances*
    count: all instances at one distance belong together.  Where classes tie, the next distance is asked, too; if that
    does not decide, the class that is more frequent in all instances wins, then the one first seen.

    >>> memory = MemoryBased().fit([["a", "x"], ["b", "x"], ["b", "y"]], ["one", "two", "two"])
    >>> memory.predict([["a", "y"]]).tolist()
    ['one']
    >>> memory.neighbours([["a", "y"]])[0][0].values
    ('a', 'x')
    """

    takes_columns: ClassVar[bool] = True  # not features made of them
    classes_: Array  # [C]  sorted
    n_features_in_: int
    feature_weights_: Array  # [F]
    index_: Memory | IGTree
    training_: dict[str, Any]
    data_: Instances  # what is remembered,
    _known: ValueNumbers  # its values,
    _search: Searcher | None  # of an index that is a Memory
    targets_: Array  # [N] int32  its classes, in order of first appearance
    seen_: list[Any]  # [C]  and what they are
    names_: Sequence[str] | None  # [F]  of columns, for complaints

    def __init__(
        self,
        k: Neighbours = 1,
        metric: Metric = "overlap",
        mvdm_threshold: Threshold = 1,
        weights: ColumnWeights = "gain-ratio",
        votes: Votes = "none",
        decay: DecayNumbers = (1.0, 1.0),
        algorithm: Algorithm = "ib1",
        n_jobs: declared.Jobs = None,
    ):
        self.k = k
        self.metric = metric
        self.mvdm_threshold = mvdm_threshold
        self.weights = weights
        self.votes = votes
        self.decay = decay
        self.algorithm = algorithm
        self.n_jobs = n_jobs

    # -- learning -----------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Remember the rows of X (a 2-D array or a list of rows) and their classes y.

        X : rows of symbols and numbers
        y : the class of each row
        """
        self._check_parameters()
        data = X if isinstance(X, Instances) else instances(X)
        seen, targets = _classes(y, len(data.codes))
        return self._remember(data, targets, seen, frame_names(X))

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Remember further instances: the same as `fit` on all of them.  `classes` is not needed, and not used.

        X, y : rows and their classes
        classes : taken for scikit-learn's sake
        """
        if not hasattr(self, "data_"):
            return self.fit(X, y)
        self._check_parameters()
        new = instances(X)
        self._check_names(X)
        self._check_width(new)
        seen, targets = _classes(y, len(new.codes))
        index = {label: i for i, label in enumerate(dict.fromkeys([*self.seen_, *seen]))}
        numbers = np.array([index[label] for label in seen], np.int32)
        targets = np.concatenate([self.targets_, numbers[targets]])
        return self._remember(joined(self.data_, new), targets, list(index), self.names_)

    def _remember(self, data: Instances, targets: Array, seen: list[Any], columns: Sequence[str] | None = None) -> Self:
        """Keep instances with their classes, of which `seen` are the names; `columns` are those of the columns."""
        expect(len(data.codes))
        metrics = self._metrics(len(data.values))
        weights = self._given_weights(len(data.values))
        learnt = store.learn(data, targets, len(seen), metrics, self.mvdm_threshold, weights, columns)
        index: Memory | IGTree
        if self.algorithm == "igtree":
            index = trees.igtree(data.codes, targets, len(seen), learnt.weights)
        else:
            index = store.memory(learnt, data, targets, len(seen))
        self.index_, self.data_, self.targets_, self.names_ = index, data, targets, columns
        self._search = Searcher(index) if isinstance(index, Memory) else None
        self._known = ValueNumbers(data.values)
        self.feature_weights_, self.n_features_in_ = learnt.weights, len(data.values)
        self._name_classes(seen)
        return self

    def _name_classes(self, seen: list[Any]) -> None:
        self.seen_ = seen
        self.classes_ = _sorted(seen)

    def _metrics(self, n: int) -> tuple[str, ...]:
        """The metric of each column."""
        if isinstance(self.metric, str):
            return (self.metric,) * n
        if len(self.metric) != n:
            raise OptionError(f"metric: expected one name, or one for each of {n} columns, got {len(self.metric)}")
        return tuple(self.metric)

    def _given_weights(self, n: int) -> str | Array:
        if isinstance(self.weights, str):
            return self.weights
        try:
            given = np.asarray(self.weights, np.float64)
        except (TypeError, ValueError):
            given = np.empty(0)
        if given.shape != (n,) or not ((given >= 0) & (given <= HEAVIEST)).all():
            raise OptionError(
                f"weights: expected a name, or for each of {n} columns a number from 0 to {HEAVIEST:g}, got "
                f"{self.weights!r:.60}"
            )
        return given

    def _check_fitted(self) -> None:
        if not hasattr(self, "index_"):
            raise NotFittedError(f"this {type(self).__name__} is not trained yet: call fit")

    def _check_names(self, X: Any) -> None:
        """Refuse a data frame whose columns are others than those of the one that was learnt from."""
        names = frame_names(X)
        if names is not None and self.names_ is not None and list(names) != list(self.names_):
            raise CorpusError(f"X: expected the columns {', '.join(self.names_)}, got {', '.join(names)}")

    def _check_width(self, data: Instances) -> None:
        """Refuse rows of another length than those that were learnt from, as scikit-learn words it."""
        width, read = len(data.values), self.n_features_in_
        if width != read:
            raise CorpusError(
                f"X: the model reads {read} columns, got {width}: X has {width} features, but {type(self).__name__} is "
                f"expecting {read} features as input"
            )

    # -- answers ------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> Array:
        """The class of each row.

        X : rows
        """
        best = self.answers(X).best
        return _sorted(self.seen_, keep_order=True)[best]

    def predict_proba(self, X: Any) -> Array:
        """The share of votes [Q, C] that each of `classes_` has in the neighbourhood.

        X : rows
        """
        answers = self.answers(X)
        position = {label: i for i, label in enumerate(self.classes_.tolist())}
        columns = np.array([position[label] for label in _sorted(self.seen_, keep_order=True).tolist()])
        table = np.zeros((len(answers.best), len(columns)))
        rows = np.repeat(np.arange(len(answers.best)), np.diff(answers.ptr))
        table[rows, columns[answers.classes]] = answers.votes
        shares: Array = table / table.sum(axis=1, keepdims=True)
        return shares

    def score(self, X: Any, y: Any) -> float:
        """The share of rows whose class is predicted.

        X, y : rows and their classes
        """
        _classes(y, len(X))
        return float(np.mean([a == b for a, b in zip(self.predict(X).tolist(), list(y), strict=True)]))

    def answers(self, X: Any) -> Answers:
        """For each row the predicted class (an index into `seen_`), the nearest distance, and the votes of all classes
        in its neighbourhood."""
        self._check_fitted()
        self._check_parameters()  # k, votes and decay may have changed
        return self._answers(*self._queries(X))

    def answers_to_few(self, columns: Sequence[Sequence[str]]) -> Answers | None:
        """The same of a few rows, given by columns of strings [F][Q]; None where a column holds numbers."""
        if isinstance(self.index_, Memory) and self.index_.numeric:
            return None
        self._check_parameters()
        codes = self._known.of_strings(columns)
        return self._answers(codes, np.zeros(codes.shape))

    def _answers(self, codes: Array, numbers: Array) -> Answers:
        """The answers to queries, given as `_queries` makes them."""
        self._expect(len(codes))
        if isinstance(self.index_, IGTree):
            return trees.ask(self.index_, codes)
        assert self._search is not None
        workers = Workers(self.n_jobs)
        decay = float(self.decay[0]), float(self.decay[1])
        return self._search.classify(codes, numbers, int(self.k), self.votes, decay, workers)

    def neighbours(self, X: Any, k: int | None = None) -> list[list[Neighbour]]:
        """The instances at the k nearest distances of each row, the nearest first: the explanation of a prediction.

        X : rows
        k : number of distances; None: as the setting says
        """
        self._check_fitted()
        if self._search is None:
            raise OptionError("neighbours: an igtree answers by classes, not by instances; use algorithm='ib1'")
        if k is not None:
            check_whole("k", k, 1)
        codes, numbers = self._queries(X)
        self._expect(len(codes))
        workers = Workers(self.n_jobs)
        nearest = self._search.nearest(codes, numbers, int(k or self.k), workers)
        pairs = zip(nearest.instances.tolist(), nearest.distance.tolist(), strict=True)
        neighbours = [self._neighbour(n, distance) for n, distance in pairs]
        return [neighbours[a:b] for a, b in pairwise(nearest.ptr.tolist())]

    def _expect(self, queries: int) -> None:
        """Say how much work queries will be: each is compared with the instances."""
        if isinstance(self.index_, IGTree):
            expect(queries)
        else:
            expect(queries * (QUERY_COST + len(self.targets_) / INSTANCES_OF_TOKEN))

    def _neighbour(self, n: int, distance: float) -> Neighbour:
        values = tuple(known[c] for known, c in zip(self.data_.values, self.data_.codes[n].tolist(), strict=True))
        return Neighbour(n, distance, self.seen_[self.targets_[n]], values)

    def _queries(self, X: Any) -> tuple[Array, Array]:
        """Rows as codes [Q, F] of known values, and as numbers where the metric is numeric."""
        rows = X if isinstance(X, Instances) else instances(X)
        self._check_names(X)
        self._check_width(rows)
        codes = self._known.translated(rows)
        numbers = np.zeros(codes.shape)
        for i in self.index_.numeric if isinstance(self.index_, Memory) else ():
            place = f"X: column {i if self.names_ is None else self.names_[i]}"
            numbers[:, i] = numbers_of(rows.values[i], place)[rows.codes[:, i]]
        return codes, numbers

    @property
    def memory_(self) -> dict[str, float]:
        """How much is remembered: instances, distinct rows (of an igtree: nodes), bytes in all, bytes per instance."""
        self._check_fitted()
        n = len(self.targets_)
        values = sum(map(sys.getsizeof, {id(value): value for known in self.data_.values for value in known}.values()))
        values += sum(map(sys.getsizeof, self.data_.values))
        n_bytes = (self._search or self.index_).n_bytes + self.data_.codes.nbytes + self.targets_.nbytes + values
        rows = self.index_.trie.columns.shape[1] if isinstance(self.index_, Memory) else len(self.index_.code)
        return {
            "instances": n,
            "rows": rows,
            "bytes": n_bytes,
            "bytes_per_instance": n_bytes / n,
        }

    # -- files --------------------------------------------------------------------------------------------------

    def pack(self) -> Packed:
        """The tensors (memory.stored) and the header of the model file."""
        header = header_of(self) | {"parameters": _settings_as_json(self)}
        return self._tensors(), header | {"columns": len(self.data_.values), "names": self.names_}

    @classmethod
    def unpack(cls, tensors: Mapping[str, Array], header: Mapping[str, Any]) -> Self:
        """The model that `pack` stored, after checking that everything fits together."""
        tensors, header = TensorReader.of(tensors), HeaderReader.of(header)
        model: Self = constructed(cls, header, **_decay(header))
        model._restore(tensors, header)
        model.training_, _ = read_record(header)
        return model

    def _tensors(self) -> dict[str, Array]:
        tensors = {"targets": self.targets_, "codes": self.data_.codes, "weights": self.feature_weights_}
        for i, values in enumerate(self.data_.values):
            tensors |= packed_values(f"values{i}", values)
        return tensors | packed_values("seen", self.seen_) | packed_index(self.index_)

    def _restore(self, tensors: TensorReader, header: HeaderReader) -> None:
        seen, n_columns = read_classes(tensors), header.whole("columns", 1, 1 << 31)
        self.data_, self.targets_ = read_instances(tensors, n_columns, len(seen))
        self._known = ValueNumbers(self.data_.values)
        self.index_ = read_index(tensors, self.data_, len(seen))
        self._search = Searcher(self.index_) if isinstance(self.index_, Memory) else None
        self.feature_weights_ = tensors.numbers("weights", np.float64, n_columns, least=0, most=HEAVIEST)
        self.n_features_in_ = n_columns
        self.names_ = header.names("names") if header.get("names") is not None else None
        if self.names_ is not None and len(self.names_) != n_columns:
            raise header.refuse("names", f"names of {n_columns} columns")
        self._name_classes(seen)

    def _features_read(self) -> tuple[str, Mapping[str, str] | None]:
        return "columns", None

    def reads(self) -> InputSchema:
        return InputSchema("rows")

    def describe(self, top: int = 5) -> dict[str, Any]:
        self._check_fitted()
        return {"signature": signature(self), **inspection.describe_classifier(self)}

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"
        tags.classifier_tags = ClassifierTags(poor_score=True)  # of numbers, where they are compared as symbols
        tags.input_tags.two_d_array = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = "numeric" not in self.metric  # else it is a value like any other
        return tags


def _settings_as_json(model: Estimator) -> dict[str, Any]:
    """The settings, some of which may be sequences."""
    settings = model.get_params(deep=False)
    if callable(settings.get("weighting")):
        raise ModelFileError("weighting: a function cannot be stored in a model file; name a weighting, or pickle it")
    lists = {"metric", "weights", "decay", "lengths"}
    return {
        name: np.asarray(value).tolist() if name in lists and not isinstance(value, str | None) else as_json(value)
        for name, value in settings.items()
    }


def _decay(header: HeaderReader) -> dict[str, tuple[Any, ...]]:
    settings = header.part("parameters")
    return {"decay": tuple(settings.listed("decay"))} if "decay" in settings else {}


def _classes(y: Any, n: int) -> tuple[list[Any], Array]:
    """The distinct classes in order of first appearance, and the number of each instance's class."""
    if y is None:
        raise CorpusError(
            "y: expected one class for each instance: fit requires y to be passed, but the target y is None"
        )
    if isinstance(y, str):
        raise CorpusError(f"y: expected one class for each instance, got {y!r:.40}")
    if hasattr(y, "__array__") and not hasattr(y, "tolist"):
        y = np.asarray(y)
    if getattr(y, "ndim", 1) == 2 and y.shape[1] == 1:
        y = _single_column(y)
    listed = y.tolist() if hasattr(y, "tolist") else list(y)
    if len(listed) != n:
        raise CorpusError(f"y: {len(listed)} classes, but X has {n} instances; give one for each")
    try:
        index = {label: i for i, label in enumerate(dict.fromkeys(listed))}
    except TypeError:
        raise CorpusError("y: expected one class for each instance, a string or a number, got lists") from None
    for label, number in index.items():
        if is_missing(label) or label in (np.inf, -np.inf):
            at = next(i for i, other in enumerate(listed) if index[other] == number)
            raise CorpusError(f"y: instance {at} has no class, got {label!r}; leave it out")
    if isinstance(y, np.ndarray) and y.dtype.kind == "f" and (y % 1 != 0).any():
        raise CorpusError("y: an array of fractions looks like a continuous target; give classes, or y.tolist()")
    return list(index), np.fromiter(map(index.__getitem__, listed), np.int32, n)


def _single_column(y: Any) -> Array:
    """Classes given as a table of one column; scikit-learn's own classifiers warn of it, too."""
    kind = getattr(sys.modules.get("sklearn.exceptions"), "DataConversionWarning", UserWarning)
    warnings.warn("A column-vector y was passed when a 1d array was expected; give y.ravel()", kind, stacklevel=4)
    return np.asarray(y).reshape(-1)


def _sorted(labels: list[Any], keep_order: bool = False) -> Array:
    """Labels as an array, sorted where they can be."""
    kinds = {type(label) for label in labels}
    simple = len(kinds) == 1 and issubclass(next(iter(kinds)), str | Integral | Real)
    array = np.array(labels) if simple else np.array([*labels, None], object)[:-1]
    if keep_order:
        return array
    return np.sort(array) if simple else np.array([*sorted(labels, key=str), None], object)[:-1]


class MemoryTagger(NgramModel):
    """Memory-based tagging: label n-grams from nearest neighbours, made one labelling by constraint satisfaction.

    The settings of MemoryBased say how neighbours are found (`metric` and `weights` by column: the lines of the
    template), those of NgramTagger what is made of their classes.

    >>> tagger = MemoryTagger().fit([["the", "dog"], ["a", "dog"]], [["D", "N"], ["D", "N"]])
    >>> tagger.predict([["a", "cat"]])
    [['D', 'N']]
    """

    can: ClassVar[frozenset[str]] = NgramModel.can | {NEIGHBOURS}
    training_options: ClassVar[frozenset[str]] = frozenset({"search"})
    searched: ClassVar[tuple[str, ...]] = SEARCHED
    learner_: MemoryBased
    windows_: Windows

    def __init__(
        self,
        k: Neighbours = 1,
        metric: Metric = "overlap",
        mvdm_threshold: Threshold = 1,
        weights: ColumnWeights = "gain-ratio",
        votes: Votes = "none",
        decay: DecayNumbers = (1.0, 1.0),
        algorithm: Algorithm = "ib1",
        ngram: Ngram = 3,
        inference: InferenceName = "csi",
        template: declared.Template = "window",
        weighting: WeightingName = "confidence",
        lengths: Lengths = None,
        n_jobs: declared.Jobs = None,
        verbose: declared.Verbose = 0,
        dictionaries: declared.Dictionaries = None,
        clusters: declared.Clusters = None,
    ):
        self.k = k
        self.metric = metric
        self.mvdm_threshold = mvdm_threshold
        self.weights = weights
        self.votes = votes
        self.decay = decay
        self.algorithm = algorithm
        self.ngram = ngram
        self.inference = inference
        self.template = template
        self.weighting = weighting
        self.lengths = lengths
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.dictionaries = dictionaries
        self.clusters = clusters

    def _learner(self) -> MemoryBased:
        """The classifier with these settings."""
        return MemoryBased(**{name: getattr(self, name) for name in MemoryBased._parameter_names()})

    def _fit_classifier(self, X: Any, classes: Array, n_classes: int, given: Given) -> None:
        self.windows_, data = windows(X, self.template, given)
        self.learner_ = self._learner()._remember(data, classes, list(range(n_classes)), self.windows_.names)

    def _distributions(self, X: Any) -> Iterator[tuple[Distributions, Array]]:
        return remembered(self._asked(), self.windows_, X)

    def _asked(self) -> MemoryBased:
        """The learner, with what may have changed since it learnt."""
        return self.learner_.set_params(n_jobs=self.n_jobs, k=self.k, votes=self.votes, decay=self.decay)

    def neighbours(self, X: Any, k: int | None = None) -> list[list[list[Neighbour]]]:
        """For every token the instances at the k nearest distances: `instance` is the place of a token in the training
        data, `label` its label n-gram.

        X : sentences, or a Corpus
        k : number of distances; None: as the setting says
        """
        self._check_fitted()
        X = listed(X)
        if isinstance(X, Proposed):
            raise OptionError("neighbours: expected the sentences themselves, got what `encode` made of them")
        if not isinstance(X, Corpus) and not any(len(sentence) for sentence in X):
            return [[] for _ in X]
        data, offsets = self.windows_.instances(X)
        names = [*self.labels_, None]
        neighbours = [
            [n._replace(label=tuple(names[code] for code in self.grams_[n.label].tolist())) for n in near]
            for near in self._asked().neighbours(data, k)
        ]
        return [neighbours[a:b] for a, b in pairwise(offsets.tolist())]

    def _explained(self, X: Any, words: Sequence[str | None], asked: Asked) -> list[Explanation]:
        explained = super()._explained(X, words, asked)
        return remembered_explanation.with_neighbours(self, X, explained, asked) if explained else explained

    def _decoded_all(self, answers: Distributions, offsets: Array) -> list[list[str]]:
        """The labels of sentences for whose tokens the memory has given these answers."""
        proposed = propose(answers, self.grams_, offsets, self.weighting, self.lengths)
        return [decoded.labels for decoded in self.decode(Proposed([proposed], self.mark_))]

    # -- files --------------------------------------------------------------------------------------------------

    def pack(self) -> Packed:
        """The tensors and the header of the model file: those of the learner, and grams [C, n] and labels."""
        learner = self.learner_
        labels, kind = pack_labels(self.labels_)
        tensors = learner._tensors() | {"grams": self.grams_} | labels | self.windows_.tensors()
        return tensors, header_of(self) | kind | {
            "parameters": _settings_as_json(self),
            "columns": len(learner.data_.values),
            "names": learner.names_,
            "windows": self.windows_.header(),
            "scheme": self.scheme_,
            "mark": self.mark_,
        }

    @classmethod
    def unpack(cls, tensors: Mapping[str, Array], header: Mapping[str, Any]) -> Self:
        """The model that `pack` stored, after checking that everything fits together."""
        tensors, header = TensorReader.of(tensors), HeaderReader.of(header)
        described = header.part("windows")
        model: Self = constructed(cls, header, **_decay(header), **template_setting(described))
        model.windows_, model.labels_ = restored(tensors, described), read_labels(tensors, header)
        if model.windows_.sources.order:
            model.set_params(**model.windows_.sources.settings())
        model.scheme_, model.mark_ = read_scheme(header), header.text("mark")
        model.grams_ = tensors.indices("grams", np.int32, len(model.labels_), None, None, least=-1)
        n = check_order(model.grams_.shape[1])
        check_indices("grams", model.grams_[:, n // 2], len(model.labels_))
        model.learner_ = model._learner()
        model.learner_._restore(tensors, header)
        if model.learner_.seen_ != list(range(len(model.grams_))):
            raise ModelFileError("tensor seen: expected a class for each of the n-grams")
        if len(model.windows_.names) != model.learner_.n_features_in_:
            raise described.refuse("names", f"names of {model.learner_.n_features_in_} columns")
        model.training_, _ = read_record(header)
        return model

    def _features_read(self) -> tuple[str, Mapping[str, str] | None]:
        return self.windows_.kind, self.windows_.header()["template"]

    def reads(self) -> InputSchema:
        self._check_fitted()
        return InputSchema(self.windows_.kind, tuple(self.windows_.inputs))

    def describe(self, top: int = 5) -> dict[str, Any]:
        self._check_fitted()
        return {"signature": signature(self), **inspection.describe(self)}

    def knows(self, words: Sequence[str]) -> list[bool] | None:
        self._check_fitted()
        return by_memory(self.windows_, self.learner_.data_.values, words)

    @classmethod
    def refusal(cls, setting: str) -> str | None:
        return NO_VECTORS if setting in ("vectors", "arrays", "dev_arrays") else None

    def searchable_settings(self, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        return settings_with(self.algorithm, given)

    def summary(self) -> Summary:
        record, memory = self.training_, self.memory_
        sizes = [
            counted(int(memory["instances"]), "instance"),
            counted(len(self.windows_.names), "column"),
            f"{counted(len(self.grams_), 'class')} ({gram_name(self.ngram)})",
            counted(len(self.labels_), "label"),
        ]
        run = [counted(record["sentences"], "sentence"), f"{record['seconds']:.1f} s"]
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
