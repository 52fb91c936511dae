"""CRFsuite's trainer: collects sentences, trains by one of five algorithms, writes a model file of CRFsuite's."""

import errno
import operator
import os
from array import array
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from labelwright.compat.pycrfsuite.learners import ALGORITHMS, ALIASES, TYPES, trained
from labelwright.compat.pycrfsuite.log import HeldOut, TrainingLog, TrainLogParser
from labelwright.compat.pycrfsuite.tagger import ItemError, ItemSequence, items_of, text_of
from labelwright.errors import CorpusError, LabelwrightError, ModelFileError
from labelwright.features.attributes import Collected
from labelwright.interchange import crfsuite
from labelwright.interchange.chains import EMPTY, from_crf
from labelwright.modelfile import store
from labelwright.taggers.estimator import uninterrupted

MESSAGES = {-1: "Unknown error occurred", -2: "Insufficient memory", -4: "Incompatible data"}


class CRFSuiteError(Exception):
    """Training failed; `code` says why, as in CRFsuite."""

    def __init__(self, code: int, detail: str = ""):
        self.code = code
        super().__init__(detail or MESSAGES.get(code, "Unexpected error"))


class BaseTrainer:
    """Collects training data and trains models.

    algorithm : lbfgs, l2sgd, ap (averaged perceptron), pa (passive-aggressive) or arow
    params : training parameters, see `set_params`
    verbose : print the messages of training
    """

    _PARAMETER_TYPES = TYPES
    _ALGORITHM_ALIASES = ALIASES
    verbose: bool = True
    n_jobs: int | None = None  # threads of training (labelwright's own addition); None: one for each core

    def __new__(cls, *arguments: Any, **options: Any) -> "BaseTrainer":
        trainer = super().__new__(cls)  # subclasses may have a constructor that does not call this one
        trainer._settings = {}
        trainer._select("lbfgs")
        trainer.clear()
        return trainer

    def __init__(self, algorithm: str | None = None, params: Mapping[str, Any] | None = None, verbose: bool = True):
        if algorithm is not None:
            self.select(algorithm)
        if params is not None:
            self.set_params(params)
        self.verbose = verbose

    # -- data -----------------------------------------------------------------------------------------------------

    def append(self, xseq: "Iterable[Any] | ItemSequence", yseq: Iterable[str], group: int = 0) -> None:
        """Add a sentence and its labels; `group` is the number by which `train` leaves it out."""
        items, labels, group = items_of(xseq), [text_of(label) for label in yseq], operator.index(group)
        if len(items) != len(labels):
            raise ValueError(f"The numbers of items and labels differ: |x| = {len(items)}, |y| = {len(labels)}")
        try:
            self._data.append(items)
        except CorpusError as error:
            raise ItemError(str(error).removeprefix("X: ")) from None
        self._labels.extend(self._label_numbers.setdefault(name, len(self._label_numbers)) for name in labels)
        self._groups.append(group)

    def clear(self) -> None:
        """Forget all sentences."""
        self._data = Collected(":")
        self._labels, self._groups = array("i"), array("q")
        self._label_numbers: dict[str, int] = {}

    # -- parameters -----------------------------------------------------------------------------------------------

    def select(self, algorithm: str, type: str = "crf1d") -> None:
        """Choose the algorithm; its parameters get their defaults."""
        name = ALIASES.get(algorithm.lower(), algorithm.lower())
        if name not in ALGORITHMS or type != "crf1d":
            raise ValueError(f"Bad arguments: algorithm={algorithm!r}, type={type!r}")
        self._select(name)

    def _select(self, algorithm: str) -> None:
        self._algorithm = algorithm
        self._settings = {name: parameter.default for name, parameter in ALGORITHMS[algorithm].items()}

    def params(self) -> list[str]:
        """The names of the parameters of the algorithm."""
        return list(self._settings)

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Set several parameters."""
        for name, value in params.items():
            self.set(name, value)

    def get_params(self) -> dict[str, Any]:
        """All parameters and their values."""
        return {name: self.get(name) for name in self.params()}

    def set(self, name: str, value: Any) -> None:
        """Set a parameter of the algorithm."""
        if name not in self._settings:
            raise ValueError(f"Parameter not found: {name} = {value}")
        text = str(int(value)) if isinstance(value, bool | np.bool_) else str(value)
        try:
            self._settings[name] = TYPES[name](text)
        except ValueError:
            raise ValueError(f"Parameter {name}: cannot read {value!r}") from None

    def get(self, name: str) -> Any:
        """The value of a parameter."""
        if name not in self._settings:
            raise ValueError(f"Parameter not found: {name} = ")
        return self._settings[name]

    def help(self, name: str) -> str:
        """What a parameter does."""
        if name not in self._settings:
            raise ValueError(f"Parameter not found: {name}")
        return ALGORITHMS[self._algorithm][name].help

    # -- training -------------------------------------------------------------------------------------------------

    def train(self, model: str | bytes | os.PathLike[str], holdout: int = -1) -> None:
        """Train on all sentences but those of the group `holdout`, on which every iteration is evaluated, and write the
        model; an empty name writes none."""
        path = os.fsdecode(model)
        if path and not Path(path).parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        data = self.trained_model(holdout)
        if path:
            try:
                store(path, data)
            except ModelFileError as error:
                raise OSError(str(error)) from error

    def trained_model(self, holdout: int = -1) -> bytes:
        """As `train`, with the contents of the model file as the result."""
        self._before_train()
        for name in [*self._data.names, *self._label_numbers]:
            if "\0" in name or name != name.encode("utf-8", "ignore").decode():
                raise ValueError(f"{name!r}: an attribute or a label with a character that a model file cannot hold")
        groups = np.array(self._groups, np.int64)
        held_out = HeldOut(*self._part(groups == holdout))
        log = TrainingLog(self.message, self._algorithm, self._settings, list(self._label_numbers), held_out)
        log.start(holdout)
        X, y = self._part(groups != holdout)
        if any(y):
            try:
                tagger, n_weights = trained(self._algorithm, self._settings, log, self.n_jobs, X, y)
            except LabelwrightError as error:
                raise CRFSuiteError(-4, str(error)) from error
            reason, chain = uninterrupted(tagger).training_["stopped"], from_crf(tagger)
        else:
            reason, chain, n_weights = None, EMPTY, 0
            log.prepared(0)
        log.trained(reason)
        log.stored(chain, n_weights, len(self._data.names))
        return crfsuite.write(chain)

    def _part(self, chosen: Any) -> tuple[Collected, list[list[str]]]:
        """The sentences that are chosen [N], and their labels."""
        if not chosen.any():
            return Collected(self._data.separator), []
        names, offsets = list(self._label_numbers), self._data.offsets.tolist()
        y = [
            [names[code] for code in self._labels[offsets[n] : offsets[n + 1]]] for n in np.flatnonzero(chosen).tolist()
        ]
        return (self._data if chosen.all() else self._data.take(chosen)), y

    def message(self, message: str) -> None:
        """Receives the messages of training, one by one; prints them if `verbose` is set."""
        if self.verbose:
            print(message, end="")

    def _before_train(self) -> None:
        """For subclasses: is called when training begins."""


class Trainer(BaseTrainer):
    """A trainer that keeps its messages and figures (`logparser`) and calls a method for every event."""

    logparser: TrainLogParser | None = None

    def _before_train(self) -> None:
        self.logparser = TrainLogParser()

    def message(self, message: str) -> None:
        log = self.logparser
        event = None if log is None else log.feed(message)
        if log is None or event is None or not self.verbose:
            return
        more: dict[str, Any] = {"featgen_progress": log.featgen_percent, "iteration": log.last_iteration}
        getattr(self, f"on_{event}")(log.last_log, *([more[event]] if event in more else []))

    def on_iteration(self, log: str, info: dict[str, Any]) -> None:
        print(log, end="")

    def on_featgen_progress(self, log: str, percent: int) -> None:
        print(log, end="")

    def on_start(self, log: str) -> None:
        print(log, end="")

    on_featgen_end = on_prepared = on_prepare_error = on_optimization_end = on_end = on_start
