"""sklearn-crfsuite's estimator: CRFsuite's algorithms behind the interface of scikit-learn."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Self

import numpy as np

from labelwright.answers.protocol import Labellings
from labelwright.compat.pycrfsuite import Tagger, Trainer
from labelwright.compat.pycrfsuite._dumpparser import ParsedDump
from labelwright.compat.sklearn_crfsuite._fileresource import FileResource
from labelwright.compat.sklearn_crfsuite.trainer import LinePerIterationTrainer
from labelwright.errors import NotFittedError
from labelwright.taggers.estimator import Estimator

PARAMETERS = {
    "min_freq": "feature.minfreq",
    "all_possible_states": "feature.possible_states",
    "all_possible_transitions": "feature.possible_transitions",
    "c1": "c1",
    "c2": "c2",
    "max_iterations": "max_iterations",
    "num_memories": "num_memories",
    "epsilon": "epsilon",
    "period": "period",
    "delta": "delta",
    "linesearch": "linesearch",
    "max_linesearch": "max_linesearch",
    "calibration_eta": "calibration.eta",
    "calibration_rate": "calibration.rate",
    "calibration_samples": "calibration.samples",
    "calibration_candidates": "calibration.candidates",
    "calibration_max_trials": "calibration.max_trials",
    "pa_type": "type",
    "c": "c",
    "error_sensitive": "error_sensitive",
    "averaging": "averaging",
    "variance": "variance",
    "gamma": "gamma",
}


class CRF(Estimator):
    """A CRF with the parameters of sklearn-crfsuite; those that are None have CRFsuite's defaults.

    X are sentences, lists of feature dicts (or of lists of attributes); y their labels."""

    def __init__(
        self,
        algorithm: str | None = None,
        min_freq: float | None = None,
        all_possible_states: bool | None = None,
        all_possible_transitions: bool | None = None,
        c1: float | None = None,
        c2: float | None = None,
        max_iterations: int | None = None,
        num_memories: int | None = None,
        epsilon: float | None = None,
        period: int | None = None,
        delta: float | None = None,
        linesearch: str | None = None,
        max_linesearch: int | None = None,
        calibration_eta: float | None = None,
        calibration_rate: float | None = None,
        calibration_samples: float | None = None,
        calibration_candidates: int | None = None,
        calibration_max_trials: int | None = None,
        pa_type: int | None = None,
        c: float | None = None,
        error_sensitive: bool | None = None,
        averaging: bool | None = None,
        variance: float | None = None,
        gamma: float | None = None,
        verbose: bool = False,
        model_filename: str | None = None,
        keep_tempfiles: bool = False,
        trainer_cls: type[Trainer] | None = None,
    ):
        self.algorithm = algorithm
        self.min_freq = min_freq
        self.all_possible_states = all_possible_states
        self.all_possible_transitions = all_possible_transitions
        self.c1 = c1
        self.c2 = c2
        self.max_iterations = max_iterations
        self.num_memories = num_memories
        self.epsilon = epsilon
        self.period = period
        self.delta = delta
        self.linesearch = linesearch
        self.max_linesearch = max_linesearch
        self.calibration_eta = calibration_eta
        self.calibration_rate = calibration_rate
        self.calibration_samples = calibration_samples
        self.calibration_candidates = calibration_candidates
        self.calibration_max_trials = calibration_max_trials
        self.pa_type = pa_type
        self.c = c
        self.error_sensitive = error_sensitive
        self.averaging = averaging
        self.variance = variance
        self.gamma = gamma
        self.verbose = verbose
        self.model_filename = model_filename
        self.keep_tempfiles = keep_tempfiles
        self.trainer_cls = trainer_cls
        self.training_log_: Any = None

    # -- training -------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Iterable[Any],
        y: Iterable[Sequence[str]],
        X_dev: Iterable[Any] | None = None,
        y_dev: Iterable[Sequence[str]] | None = None,
    ) -> Self:
        """Train on sentences X and their labels y; X_dev and y_dev are evaluated after every iteration."""
        if (X_dev is None) != (y_dev is None):
            raise ValueError("Pass both X_dev and y_dev to use the holdout data")
        trainer = self._trainer()
        for xseq, yseq in _pairs(X, y):
            trainer.append(xseq, yseq)
        if X_dev is not None and y_dev is not None:
            for xseq, yseq in _pairs(X_dev, y_dev):
                trainer.append(xseq, yseq, 1)
        self._forget()
        with tempfile.TemporaryDirectory() as folder:  # a subclass of Trainer may have a `train` of its own
            path = self.model_filename or str(Path(folder, "model.crfsuite"))
            trainer.train(path, -1 if X_dev is None else 1)
            self._model = Path(path).read_bytes()
        self.training_log_ = trainer.logparser
        return self

    def _trainer(self) -> Trainer:
        given = {theirs: getattr(self, ours) for ours, theirs in PARAMETERS.items()}
        chosen = {name: value for name, value in given.items() if value is not None}
        return (self.trainer_cls or LinePerIterationTrainer)(
            algorithm=self.algorithm, params=chosen, verbose=self.verbose
        )

    # -- answers --------------------------------------------------------------------------------------------------

    def predict(self, X: Iterable[Any]) -> Any:
        """The labels of each sentence, as an array of lists."""
        return _array([self.predict_single(xseq) for xseq in X])

    def predict_single(self, xseq: Any) -> list[str]:
        """The labels of one sentence."""
        return self._tagger().tag(xseq)

    def predict_marginals(self, X: Iterable[Any]) -> Labellings:
        """The probability of every label at every token of each sentence: lists of dicts."""
        return Labellings(self.predict_marginals_single(xseq) for xseq in X)

    def predict_marginals_single(self, xseq: Any) -> list[dict[str, float]]:
        """The probability of every label at every token of one sentence."""
        return self._tagger().marginals(xseq)

    def score(self, X: Iterable[Any], y: Iterable[Sequence[str]]) -> float:  # type: ignore[override]
        """The share of tokens with the right label."""
        gold, labels = (list(chain.from_iterable(part)) for part in (y, self.predict(X)))
        if len(gold) != len(labels):
            raise ValueError(f"y has {len(gold)} labels, but X has {len(labels)} tokens")
        return sum(bool(a == b) for a, b in zip(gold, labels, strict=True)) / max(1, len(gold))

    # -- the model ------------------------------------------------------------------------------------------------

    _model: bytes | None = None
    _file: FileResource | None = None
    _opened: Tagger | None = None
    _parsed: ParsedDump | None = None

    @property
    def modelfile(self) -> FileResource:
        """Where the model is stored; a temporary file is made when its name is asked for."""
        if self._file is None:
            self._file = FileResource(self.model_filename, self.keep_tempfiles, self._model)
        return self._file

    @property
    def tagger_(self) -> Tagger | None:
        """A pycrfsuite.Tagger with the model; None before `fit`."""
        if self._opened is None:
            if self._model is None and self.model_filename is None:
                return None
            self._opened = Tagger()
            if self._model is None:
                self._opened.open(str(self.model_filename))
            else:
                self._opened.open_inmemory(self._model)
        return self._opened

    def _check_fitted(self) -> None:
        if self._model is None and self.model_filename is None:
            raise NotFittedError("this CRF is not trained yet: call fit, or name a model_filename")

    def _tagger(self) -> Tagger:
        self._check_fitted()
        assert self.tagger_ is not None
        return self.tagger_

    def _forget(self) -> None:
        self._opened = self._parsed = self._file = None

    @property
    def _info(self) -> ParsedDump | None:
        if self._parsed is None and self.tagger_ is not None:
            self._parsed = self.tagger_.info()
        return self._parsed

    @property
    def classes_(self) -> list[str] | None:
        """The labels."""
        return None if self.tagger_ is None else self.tagger_.labels()

    @property
    def size_(self) -> int | None:
        """The size of the model in bytes."""
        return None if self._info is None else int(self._info.header["size"])

    @property
    def num_attributes_(self) -> int | None:
        """How many attributes have a weight."""
        return None if self._info is None else int(self._info.header["num_attrs"])

    @property
    def attributes_(self) -> list[str] | None:
        """The attributes that have a weight."""
        return None if self._info is None else list(self._info.attributes)

    @property
    def state_features_(self) -> dict[tuple[str, str], float] | None:
        """{(attribute, label): weight}."""
        return None if self._info is None else self._info.state_features

    @property
    def transition_features_(self) -> dict[tuple[str, str], float] | None:
        """{(label before, label): weight}."""
        return None if self._info is None else self._info.transitions

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None, "_parsed": None, "_file": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Also takes pickles of sklearn-crfsuite."""
        state = dict(state)
        file = state.pop("modelfile", None)
        if file is not None:
            state = {name: value for name, value in state.items() if name not in ("_tagger", "_info_cached")}
            state["_model"] = file.data
        self.__dict__.update(state)


def _pairs(X: Iterable[Any], y: Iterable[Sequence[str]]) -> Iterator[tuple[Any, Sequence[str]]]:
    """Sentences and their labels, one pair at a time."""
    nothing = object()
    for xseq, yseq in zip_longest(X, y, fillvalue=nothing):
        if xseq is nothing or yseq is nothing:
            raise ValueError(f"{'X' if xseq is nothing else 'y'} has fewer sentences than the other")
        yield xseq, yseq  # type: ignore[misc]


def _array(answers: list[Any]) -> Any:
    """An array with one list for each sentence (or, where all have the same length, for each token)."""
    return np.array(answers, dtype=object)
