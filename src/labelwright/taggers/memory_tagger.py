"""MemoryTagger: memory-based learning of label n-grams, which labels sequences."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.schemes import detect_scheme, pairs_of_codes
from labelwright.corpus.table import Corpus
from labelwright.corpus.token_records import listed
from labelwright.errors import ModelFileError, OptionError
from labelwright.features.sources import Given
from labelwright.inspection import facts
from labelwright.inspection.explanation import Asked, Evidence
from labelwright.inspection.names import by_memory
from labelwright.inspection.ngram_evidence import RememberedSentence
from labelwright.memory.search import SEARCHED, settings_with
from labelwright.memory.windows import NO_VECTORS, Windows, restored, windows
from labelwright.modelfile import HeaderReader, TensorReader, check_distinct, check_indices
from labelwright.structures.proposals import Distributions, check_order, gram_name, ngram_classes, propose
from labelwright.taggers import declared
from labelwright.taggers.arguments import BALANCED, token_weights
from labelwright.taggers.base import NEIGHBOURS
from labelwright.taggers.estimator import InputSchema, Summary
from labelwright.taggers.memory import (
    Algorithm,
    ColumnWeights,
    DecayNumbers,
    MemoryBased,
    Metric,
    Neighbour,
    Neighbours,
    Threshold,
    Votes,
)
from labelwright.taggers.ngram import (
    InferenceName,
    Lengths,
    Ngram,
    NgramModel,
    Proposed,
    WeightingName,
    remembered,
)
from labelwright.taggers.packing import (
    REMEMBERED,
    Packed,
    check_calibration,
    check_token_labels,
    constructed,
    header_of,
    pack_labels,
    read_labels,
    read_record,
    read_scheme,
    template_setting,
)
from labelwright.wording import counted

Array = NDArray[Any]


class MemoryTagger(NgramModel):
    """Memory-based tagging: label n-grams from nearest neighbours, made one labelling by constraint satisfaction.

    The settings of MemoryBased say how neighbours are found (`metric` and `weights` by column: the lines of the
    template), those of NgramTagger what is made of their classes.

    >>> tagger = MemoryTagger().fit([["the", "dog"], ["a", "dog"]], [["D", "N"], ["D", "N"]])
    >>> tagger.predict([["a", "cat"]])
    [['D', 'N']]
    """

    can: ClassVar[frozenset[str]] = NgramModel.can | {NEIGHBOURS}
    _training_options: ClassVar[frozenset[str]] = frozenset({"search", "sample_weight", "partial_fit"})
    _searched: ClassVar[tuple[str, ...]] = SEARCHED
    learner_: MemoryBased
    windows_: Windows
    template: Any
    k: int
    votes: str
    decay: tuple[float, float]
    algorithm: str

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
        class_weight: declared.ClassWeight = None,
    ):
        self._store(locals())

    def partial_fit(
        self, X: Any, y: Sequence[Sequence[str]] | None = None, *, sample_weight: Sequence[Any] | None = None
    ) -> Self:
        """Remember further sentences: the same as `fit` on all of them.

        X, y : sentences and their labels, or a Corpus
        sample_weight : as in `fit`
        """
        if not self._is_fitted():
            return self.fit(X, y, sample_weight=sample_weight)
        self._check_parameters()
        if self.ngram != self.grams_.shape[1]:
            raise OptionError(f"ngram: the model was trained with {self.grams_.shape[1]}, got {self.ngram}; fit again")
        if self.class_weight == BALANCED:
            raise OptionError("class_weight: 'balanced' depends on all sentences; fit again, or name a weight by label")
        begun = time.perf_counter()
        X, labels, gold, offsets = self._complete(listed(X), listed(y), self.labels_)
        often = token_weights(gold, offsets, labels, self.class_weight, sample_weight, part=True)
        grams, classes = ngram_classes(gold, offsets, self.ngram)
        data, _ = self.windows_.instances(X, Given(self.dictionaries, self.clusters, labels=(labels, gold)))
        number = {gram: code for code, gram in enumerate(map(tuple, self.grams_.tolist()))}
        numbers = np.array([number.setdefault(tuple(gram), len(number)) for gram in grams.tolist()], np.int32)
        self.learner_._remember_more(data, numbers[classes], list(range(len(number))), often)
        self.grams_ = np.array(list(number), np.int32).reshape(-1, self.ngram)
        self.labels_, self.mark_ = labels, os.urandom(8).hex()
        pairs = self._pairs() if self.ngram > 1 else pairs_of_codes(self.labels_, gold, offsets)
        self.scheme_ = detect_scheme(self.labels_, pairs=pairs)
        added = {"sentences": len(offsets) - 1, "tokens": len(gold), "seconds": round(time.perf_counter() - begun, 3)}
        before = self.uncalibrated().training_
        self.training_ = before | {name: before.get(name, 0) + n for name, n in added.items()}
        return self

    def _pairs(self) -> dict[tuple[str | None, str | None], int]:
        """How often each label follows each other in the n-grams of all instances; None is the edge of a sentence."""
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

    def _fit_classifier(self, X: Any, classes: Array, n_classes: int, given: Given, often: Array | None = None) -> None:
        self.windows_, data = windows(X, self.template, given)
        self.learner_ = self._learner()._remember(data, classes, list(range(n_classes)), self.windows_.names, often)

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

    def _evidence(self, X: Any, words: Sequence[str | None], asked: Asked) -> Evidence:
        return RememberedSentence(self, self._predictions(X, asked), words, asked, self.windows_.instances(X)[0])

    def _decoded_all(self, answers: Distributions, offsets: Array) -> list[list[str]]:
        """The labels of sentences for whose tokens the memory has given these answers."""
        proposed = propose(answers, self.grams_, offsets, self.weighting, self.lengths)
        return [decoded.labels for decoded in self.decode(Proposed([proposed], self.mark_))]

    # -- files --------------------------------------------------------------------------------------------------

    def pack(self) -> Packed:
        """The tensors and the header of the model file: those of the learner, and grams [C, n] and labels."""
        if callable(self.weighting):
            raise ModelFileError("weighting: a function cannot be stored in a model file; name one, or pickle it")
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
        model.training_, _ = read_record(header, REMEMBERED)
        check_calibration(HeaderReader(model.training_, "header: training"), np.ones(1))
        return model

    def _features_read(self) -> tuple[str, Mapping[str, str] | None]:
        return self.windows_.kind, self.windows_.header()["template"]

    def reads(self) -> InputSchema:
        self._check_fitted()
        return InputSchema(self.windows_.kind, tuple(self.windows_.inputs))

    def describe(self, top: int = 5) -> dict[str, Any]:
        self._check_fitted()
        known = facts.remembered(self, self.labels_, len(self.grams_), self.feature_weights_, self.windows_)
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
