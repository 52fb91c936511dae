"""NgramTagger: label n-grams from any classifier of scikit-learn.

Canisius, van den Bosch & Daelemans (2006), "Constraint satisfaction inference".
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from labelwright.errors import OptionError
from labelwright.features.extract import Extractor, learn
from labelwright.features.incidence import Incidence, with_frequent_keys
from labelwright.features.sources import Given
from labelwright.memory.windows import Windows, windows
from labelwright.parallel import sentence_ranges
from labelwright.settings import Help
from labelwright.structures.proposals import Distributions, certain, from_probabilities
from labelwright.taggers import declared
from labelwright.taggers.ngram_model import InferenceName, Lengths, Ngram, NgramModel, WeightingName, remembered

Array = NDArray[Any]
BLOCK_NUMBERS = 1 << 22  # probabilities that a classifier is asked for at once
Classifier = Annotated[
    Any,
    Help(
        "Has fit and predict_proba, decision_function (through a softmax) or only predict; learns from a sparse matrix "
        "with a column for each feature, a MemoryBased from the columns of the template themselves."
    ),
]


class NgramTagger(NgramModel):
    """Label n-grams from any scikit-learn classifier, made one labelling by constraint satisfaction inference.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> tagger = NgramTagger(DecisionTreeClassifier(random_state=0)).fit([["the", "dog"], ["it"]], [["B", "I"], ["B"]])
    >>> tagger.predict([["the", "dog"]])
    [['B', 'I']]
    """

    _extractor: Extractor
    windows_: Windows  # instead of it, where the classifier is a MemoryBased
    dense_: bool  # does the classifier refuse sparse matrices?
    classifier_: Any  # trained; None where all tokens of the training data are of one class

    def __init__(
        self,
        classifier: Classifier,
        ngram: Ngram = 3,
        inference: InferenceName = "csi",
        template: declared.Template = "window",
        min_count: declared.MinCount = 1,
        weighting: WeightingName = "confidence",
        lengths: Lengths = None,
        n_jobs: declared.Jobs = None,
        verbose: declared.Verbose = 0,
        dictionaries: declared.Dictionaries = None,
        clusters: declared.Clusters = None,
        vectors: declared.Vectors = None,
        class_weight: declared.ClassWeight = None,
    ):
        self.classifier = classifier
        self.ngram = ngram
        self.inference = inference
        self.template = template
        self.min_count = min_count
        self.weighting = weighting
        self.lengths = lengths
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.dictionaries = dictionaries
        self.clusters = clusters
        self.vectors = vectors
        self.class_weight = class_weight

    def partial_fit(self, X: Any, y: Any = None, *, sample_weight: Sequence[Any] | None = None) -> Self:
        """Refused: a classifier of n-grams has a fixed set of classes.

        X, y, sample_weight : as in `fit`
        """
        raise OptionError("partial_fit: an NgramTagger cannot learn further; fit again, or use a MemoryTagger")

    @property
    def compares_symbols(self) -> bool:
        return bool(getattr(self.classifier, "takes_columns", False))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        can = [name for name in ("fit", *ASK) if callable(getattr(self.classifier, name, None))]
        if isinstance(self.classifier, type) or can[:1] != ["fit"] or len(can) < 2:
            raise OptionError(
                f"classifier: expected an object with fit and one of {', '.join(ASK)}, got {self.classifier!r:.60}"
            )

    def _fit_classifier(self, X: Any, classes: Array, n_classes: int, given: Given, often: Array | None = None) -> None:
        weights = {} if often is None else {"sample_weight": often}
        if weights and "sample_weight" not in inspect.signature(self.classifier.fit).parameters:
            raise OptionError(f"sample_weight: {type(self.classifier).__name__}.fit takes no weights; leave them out")
        if self.compares_symbols:  # a MemoryBased
            self.windows_, data = windows(X, self.template, given)
            self.classifier_ = _copy_of(self.classifier).fit(data, classes, **weights)
            return
        self._extractor, incidences, _ = learn(X, self.template, self.min_count, given=given)
        matrix = feature_matrix(incidences["state"], self._extractor.n_features)
        if not matrix.nnz:
            raise OptionError("template: no token has a feature of its own; use U lines (or dicts that are not empty)")
        if n_classes == 1:
            self.classifier_ = None
            return
        self.dense_ = False
        try:
            self.classifier_ = _copy_of(self.classifier).fit(matrix, classes, **weights)
        except TypeError as error:
            if "parse" not in str(error):
                raise
            self.dense_ = True  # it takes no sparse matrix
            self.classifier_ = _copy_of(self.classifier).fit(matrix.toarray(), classes, **weights)

    def _distributions(self, X: Any) -> Iterator[tuple[Distributions, Array]]:
        if self.compares_symbols:
            yield from remembered(self.classifier_, self.windows_, X)
            return
        incidences, offsets = self._extractor.encode(X)
        matrix = feature_matrix(incidences["state"], self._extractor.n_features)
        for begin, end in sentence_ranges(offsets, max(1, BLOCK_NUMBERS // len(self.grams_))):
            bounds = offsets[begin : end + 1]
            t0, t1 = bounds[[0, -1]].tolist()
            yield self._classify(matrix[t0:t1]), bounds - t0

    def _classify(self, rows: Any) -> Distributions:
        """What the classifier says of rows of features."""
        if self.classifier_ is None or not rows.shape[0]:
            return certain(np.zeros(rows.shape[0], np.int32))
        rows = rows.toarray() if self.dense_ else rows
        method = next(name for name in ASK if hasattr(self.classifier_, name))
        classes = np.asarray(getattr(self.classifier_, "classes_", np.arange(len(self.grams_))))
        try:
            return ASK[method](np.asarray(getattr(self.classifier_, method)(rows)), classes)
        except OptionError as error:
            raise OptionError(f"{type(self.classifier_).__name__}.{method}: {error}") from None

    def pack(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Not for this model: what a foreign classifier has learnt is code as well as numbers."""
        raise OptionError(
            "save: a NgramTagger holds a classifier that only pickle can store; pickle the tagger, and load only "
            "what you trust"
        )


def feature_matrix(incidence: Incidence, n_features: int) -> Any:
    """The features of tokens as a SciPy CSR matrix [T, F]."""
    from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

    _, _, _, ptr, feature, value = with_frequent_keys(incidence, len(incidence.keys) + 1)  # without any keys
    number = np.int32 if len(feature) < 1 << 31 else np.int64
    data = value.astype(np.float64) if len(value) else np.ones(len(feature))
    matrix = csr_matrix((data, feature.astype(number), ptr.astype(number)), shape=(len(ptr) - 1, n_features))
    matrix.sum_duplicates()
    return matrix


def _from_decisions(decisions: Array, classes: Array) -> Distributions:
    """A softmax over decision values [N, C]; one value [N] means the second of two classes."""
    if decisions.ndim == 1:
        decisions = np.stack([np.zeros_like(decisions), decisions], axis=1)
    if decisions.ndim != 2 or decisions.shape[1] != len(classes):
        raise OptionError(
            f"expected one value for each of {len(classes)} classes, got an array of {decisions.shape}; "
            "let it decide for each class against the rest"
        )
    return from_probabilities(np.exp(decisions - decisions.max(axis=1, keepdims=True)), classes)


def _from_predictions(predicted: Array, classes: Array) -> Distributions:
    if predicted.ndim != 1 or not np.isin(predicted, classes).all():
        raise OptionError("expected one of the classes that it was trained on for each row")
    return certain(predicted)


# What a classifier may be asked, the best first, and how its answer is read.
ASK: dict[str, Callable[[Array, Array], Distributions]] = {
    "predict_proba": from_probabilities,
    "decision_function": _from_decisions,
    "predict": _from_predictions,
}


def _copy_of(classifier: Any) -> Any:
    """An untrained copy, as scikit-learn makes it."""
    try:
        from sklearn.base import clone
    except ImportError:
        raise OptionError("NgramTagger: scikit-learn cannot be imported; pip install scikit-learn") from None
    return clone(classifier, safe=False)
