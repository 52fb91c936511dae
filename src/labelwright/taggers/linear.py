"""Taggers whose scores are sums of weights over a chain lattice: encoding, scoring, and what they have learnt."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.batch import Batch
from labelwright.answers.chains import CHAIN_DECODERS, Chains, decoder_options
from labelwright.corpus.table import Corpus
from labelwright.corpus.token_records import listed
from labelwright.engine.choice import expect
from labelwright.errors import OptionError
from labelwright.features.extract import Encoded, Extractor, columns_within
from labelwright.inspection import facts, use
from labelwright.inspection.explanation import Asked, Explanation, explained
from labelwright.inspection.facts import StateFeature, TransitionFeature, state_features, transition_features
from labelwright.inspection.names import by_vocabulary
from labelwright.inspection.weight_evidence import WeighedSentence
from labelwright.parallel import Workers
from labelwright.scoring.assembly import Assembly, LatticeScores, bounds_of
from labelwright.scoring.carry import pruned
from labelwright.scoring.parameters import Parameters, Trained
from labelwright.structures.states import StateSpace, state_names
from labelwright.taggers.arguments import Forced, permitted_labels
from labelwright.taggers.base import EXPLANATION, FORCED, NBEST, PROBABILITY, RULES, Tagger
from labelwright.taggers.estimator import InputSchema
from labelwright.taggers.packing import (
    FITTED,
    PLAIN,
    Packed,
    Shape,
    chain_shape,
    check_calibration,
    check_token_labels,
    constructed,
    pack_linear,
    read_record,
    read_trained,
    template_setting,
)
from labelwright.taggers.signature import signature
from labelwright.validation import HeaderReader, TensorReader

Array = NDArray[Any]
R = TypeVar("R")
LATENT_COST, PRUNED_COST = 10, 40  # times the work of a CRF, without compiled code


class Constrained(NamedTuple):
    """What a label scheme leaves of a model."""

    space: StateSpace
    assembly: Any  # how weights become scores of its lattices, or of segment graphs


class LinearTagger(Tagger):
    """A tagger with weights; subclasses say how they are found."""

    can: ClassVar[frozenset[str]] = frozenset({PROBABILITY, NBEST, FORCED, RULES, EXPLANATION})
    decoders: ClassVar[tuple[str, ...]] = CHAIN_DECODERS
    _of_iteration: ClassVar[tuple[str, ...]] = ("loss",)  # what the record of each iteration has
    _recorded: ClassVar[tuple[str, ...]] = ()  # and what it has beside that in checkpoints
    _by_paths: ClassVar[bool] = False  # is a labelling worth its best path, not the sum over its paths?

    # What fit learns, and what it reports.
    _trained: Trained
    training_: dict[str, Any]  # record of the run: sizes, loss, seconds, why it stopped
    history_: list[dict[str, Any]]  #: a record of each iteration, or of each pass
    _assemblies: tuple[Parameters, dict[str | None, Constrained]] | None = None

    # -- what was learnt ----------------------------------------------------------------------------------------------

    def _is_fitted(self) -> bool:
        return "_trained" in self.__dict__

    def _learnt(self) -> Trained:
        """What was learnt; an error, as for any attribute that is missing, where nothing was."""
        self._check_fitted()
        return self._trained

    @property
    def weights_(self) -> Array:
        """The weights [W]."""
        return self._learnt().weights

    @weights_.setter
    def weights_(self, weights: Array) -> None:
        self._trained = self._learnt()._replace(weights=weights)

    @property
    def _extractor(self) -> Extractor:
        """What turns sentences into features."""
        return self._learnt().extractor

    @property
    def _space(self) -> StateSpace:
        """Labels, their states and the transitions between them."""
        return self._learnt().space

    @property
    def _parameters(self) -> Parameters:
        """Which weights exist."""
        return self._learnt().parameters

    @property
    def scheme_(self) -> str | None:  # type: ignore[override]
        """The scheme of the labels, where they follow one."""
        return self._learnt().scheme

    @property
    def classes_(self) -> list[str]:
        """The labels, in the order of first appearance in the training data."""
        return list(self._learnt().space.labels)

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds: all but what is quickly made again."""
        return {name: value for name, value in self.__dict__.items() if name != "_assemblies"}

    # -- what was learnt, for people ----------------------------------------------------------------------------------

    def reads(self) -> InputSchema:
        extractor = self._extractor
        columns = getattr(extractor, "tokens", extractor)  # beside features of segments
        return InputSchema(columns.kind, tuple(getattr(columns, "names", ())) if columns.kind == "columns" else ())

    def describe(self, top: int = 5) -> dict[str, Any]:
        self._check_fitted()
        return {"signature": signature(self), **facts.weighted(self, top)}

    def _describe_use(self, corpora: Sequence[Any], top: int = 5) -> dict[str, Any]:
        self._check_fitted()
        return use.describe_use(self, corpora, top)

    def knows(self, words: Sequence[str]) -> list[bool] | None:
        return by_vocabulary(self._extractor, words)

    @property
    def state_features_(self) -> list[StateFeature]:
        """The weights of features on states (and segments) that are not 0, the largest first: rows of feature, label
        (or latent state, type of segment) and weight, which `pandas.DataFrame` takes."""
        return state_features(self._learnt())

    @property
    def transition_features_(self) -> list[TransitionFeature]:
        """The weights of transitions, plain or with a feature, that are not 0, the largest first: rows of source,
        target, weight and feature."""
        return transition_features(self._learnt())

    def _explained(self, X: Any, words: Sequence[str | None], asked: Asked) -> list[Explanation]:
        return explained(lambda: WeighedSentence(self, self.encode(X), asked), self.classes_, words, asked)

    def _path_mass(self, X: Any, n: int = 2000) -> Array:
        """The probability of the n best labellings (or latent paths) together, mean over the sentences [n]."""
        self._check_fitted()
        return use.path_mass(self, X, n)

    # -- model file ---------------------------------------------------------------------------------------------------

    def pack(self) -> Packed:
        """The tensors and the header of the model file."""
        return pack_linear(self, self._learnt())

    @classmethod
    def unpack(cls, tensors: Mapping[str, Array], header: Mapping[str, Any]) -> Self:
        """The model that `pack` stored, after checking that everything fits together."""
        arrays, fields = TensorReader.of(tensors), HeaderReader.of(header)
        model: Self = constructed(cls, fields, **template_setting(fields.part("features")))
        model._trained = read_trained(arrays, fields, model._read_shape)
        check_token_labels(arrays, model._trained.space.labels)
        model._take_back(model._trained.extractor)
        model.training_, model.history_ = read_record(fields, FITTED, cls._of_iteration)
        check_calibration(HeaderReader(model.training_, "header: training"), model.weights_)
        return model

    def _take_back(self, extractor: Extractor) -> None:
        """Set the settings that are stored with the features: dictionaries and clusters."""
        columns = columns_within(extractor)
        if columns is not None and columns.sources.order:
            self.set_params(**columns.sources.settings())
        if columns is not None and columns.numbers.vectors is not None:
            self.set_params(vectors=columns.numbers.vectors)

    def _compressed(self, prune: float, bits: int) -> Self:
        trained = pruned(self._learnt(), prune, bits)
        smaller = type(self)(**self.get_params(deep=False))
        smaller._trained, smaller.history_ = trained, getattr(self, "history_", [])
        sizes = {"features": trained.extractor.n_features, "weights": len(trained.weights)}
        smaller.training_ = getattr(self, "training_", {}) | sizes
        return smaller

    def _sizes(self) -> dict[str, int]:
        learnt = self._learnt()
        return {"features": learnt.extractor.n_features, "weights": int((learnt.weights != 0).sum())}

    def _weight_names(self) -> frozenset[str]:
        return frozenset([*PLAIN, *(f"{kind}.weights" for kind in self._parameters.cells)])

    def _read_shape(self, trained: Trained, header: HeaderReader) -> tuple[Shape, Trained]:
        return chain_shape(trained, header)

    def _features_read(self) -> tuple[str, Mapping[str, str] | None]:
        return self._extractor.kind, self._extractor.header().get("template")

    # -- sentences in, scores out -------------------------------------------------------------------------------------

    def encode(self, X: Any, *, arrays: Sequence[Any] | None = None) -> Encoded:
        """Turn sentences into features once; every method but `fit` takes the result in place of X.

        X : sentences, or a Corpus
        arrays : an array [tokens, D] of numbers for each sentence, of a model that was trained with them
        """
        return encode(self._learnt().extractor, X if arrays is None else with_arrays(X, arrays))

    def _with_numbers(self, X: Any, arrays: Sequence[Any]) -> Encoded:
        return self.encode(X, arrays=arrays)

    def _ask(
        self,
        X: Any,
        question: Callable[[Batch], list[R]],
        forced: Forced | None = None,
        constraints: str | None = None,
    ) -> list[R]:
        return self._ask_with(self._learnt(), X, question, forced, constraints)

    def _ask_with(
        self,
        trained: Trained,
        X: Any,
        question: Callable[[Batch], list[R]],
        forced: Forced | None = None,
        constraints: str | None = None,
    ) -> list[R]:
        """As `_ask`, with what was learnt given as a value: development data are scored so, too."""
        data = encode(trained.extractor, X)
        cost = PRUNED_COST if trained.pruning is not None else LATENT_COST if trained.space.latent else 1
        expect(int(data.offsets[-1]) * cost)
        permitted = permitted_labels(forced, data.offsets, trained.space.labels)
        constrained = self._constrained(trained, constraints)
        if data.offsets[-1] == 0:
            return question(self._batch([None] * len(data), 0))
        workers = Workers(self.n_jobs)
        blocks, scored = self._scored_blocks(trained, constrained, data, permitted, workers)
        answers = workers.run(lambda begin, end: question(scored(begin, end)), blocks)
        return [answer for part in answers for answer in part]

    def _scored_blocks(
        self, trained: Trained, constrained: Constrained, data: Encoded, permitted: Array | None, workers: Workers
    ) -> tuple[list[tuple[int, int]], Callable[[int, int], Batch]]:
        """Ranges of sentences, which depend on the data alone, and what scores one of them as a batch."""
        scores = LatticeScores(trained, constrained.assembly, data, workers)

        def scored(begin: int, end: int) -> Batch:
            node, arc = scores.of(begin, end)
            offsets = data.offsets[begin : end + 1]
            chains = Chains(node, arc, bounds_of(offsets), constrained.space, trained.scheme, self._by_paths)
            if permitted is not None:
                chains.restrict(permitted[offsets[0] : offsets[-1]][:, trained.space.label_of])
            return self._batch(chains.sentences, begin)

        return scores.blocks, scored

    def _batch(self, sentences: Sequence[Any], first: int) -> Batch:
        """A batch of scored sentences, with the calibration of their scores."""
        return Batch(sentences, first, self._probabilistic, self._calibration)

    def _constrained(self, trained: Trained, constraints: str | None) -> Constrained:
        """What these constraints allow; kept until the next fit."""
        scheme = None if constraints is None else self._scheme(constraints)
        current = self._assemblies  # another thread may replace it meanwhile
        if current is None or current[0] is not trained.parameters:
            current = self._assemblies = (trained.parameters, {})
        kept = current[1]
        if scheme not in kept:
            kept[scheme] = self._under(trained, scheme)
        return kept[scheme]

    def _under(self, trained: Trained, scheme: str | None) -> Constrained:
        """The states with only the transitions that a label scheme allows."""
        space = trained.space if scheme is None else trained.space.constrained(scheme)
        return Constrained(space, Assembly(space, trained.parameters))

    def _ranks(self, decoder: str) -> bool:
        if decoder == "viterbi":  # of a latent model with probabilities, the best path
            return self._by_paths or not self._space.latent
        return super()._ranks(decoder)

    def _decoder_options(self, decoder: str) -> list[str]:
        return decoder_options(decoder)

    def _state_names(self) -> list[str]:
        return super()._state_names() if self._learnt().segments is not None else state_names(self._space)


def with_arrays(X: Any, arrays: Sequence[Any], y: Sequence[Sequence[Any]] | None = None) -> Corpus:
    """A corpus of these sentences with numbers beside their columns."""
    corpus = X if isinstance(X, Corpus) and y is None else Corpus.from_sequences(getattr(X, "X", X), y)
    return corpus.with_arrays(arrays)


def encode(extractor: Extractor, X: Any) -> Encoded:
    """Sentences as features; encoded data come back as they are."""
    if isinstance(X, Encoded):
        if X.owner != extractor.mark:
            raise OptionError("the encoded data belong to another model; encode them with this one")
        return X
    X = X if extractor.kind == "dicts" else listed(X)  # dicts are read once, one sentence at a time
    if isinstance(X, list | tuple) and all(hasattr(sentence, "__len__") and not len(sentence) for sentence in X):
        return Encoded({}, np.zeros(len(X) + 1, np.int64), extractor.mark)
    incidences, offsets = extractor.encode(X)
    return Encoded(incidences, offsets, extractor.mark)
