"""The interface of sklearn-crfsuite on labelwright: CRFsuite's algorithms behind the interface of
scikit-learn."""

import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Self

import numpy as np

from labelwright.answers.batch import Labellings
from labelwright.compat import register
from labelwright.compat.pycrfsuite import Tagger, Trainer
from labelwright.compat.pycrfsuite.tagger import ParsedDump
from labelwright.compat.pycrfsuite.trainer import ALGORITHMS
from labelwright.compat.sklearn_crfsuite import metrics
from labelwright.errors import NotFittedError
from labelwright.taggers.declared import chosen, declared
from labelwright.taggers.estimator import Estimator

__all__ = ["CRF", "metrics", "scorers", "utils"]
scorers = utils = metrics  # the modules of the original

RENAMED = {  # parameters that CRFsuite calls otherwise
    "min_freq": "feature.minfreq",
    "all_possible_states": "feature.possible_states",
    "all_possible_transitions": "feature.possible_transitions",
    "calibration_eta": "calibration.eta",
    "calibration_rate": "calibration.rate",
    "calibration_samples": "calibration.samples",
    "calibration_candidates": "calibration.candidates",
    "calibration_max_trials": "calibration.max_trials",
    "pa_type": "type",
}
OUR_OWN = declared(  # parameters that CRFsuite does not have
    algorithm=(
        str | None,
        None,
        "lbfgs, l2sgd, ap (averaged perceptron), pa (passive-aggressive) or arow.",
    ),
    verbose=(bool, False, "Print a line for each iteration."),
    model_filename=(str | None, None, "Where the model is written, or read from."),
    keep_tempfiles=(bool, False, "Keep the temporary file of a model whose name was asked for."),
    trainer_cls=(type[Trainer] | None, None, "The trainer to use."),
)
THEIRS = {name: known for algorithm in ALGORITHMS.values() for name, known in algorithm.items()}
ORDER = """algorithm min_freq all_possible_states all_possible_transitions c1 c2 max_iterations
    num_memories epsilon period delta linesearch max_linesearch calibration_eta calibration_rate
    calibration_samples calibration_candidates calibration_max_trials pa_type c error_sensitive
    averaging variance gamma verbose model_filename keep_tempfiles trainer_cls"""
OF_CRFSUITE = {
    name: THEIRS[RENAMED.get(name, name)] for name in ORDER.split() if name not in OUR_OWN
}
TABLE = OUR_OWN | declared(
    **{name: (type(known.default) | None, None, known.help) for name, known in OF_CRFSUITE.items()}
)
DATA = "__FILE_RESOURCE_DATA__"  # of the contents, in pickles of sklearn-crfsuite


class LinePerIterationTrainer(Trainer):
    """Prints one line for each iteration, and at the end a table of the labels of the holdout
    data."""

    def on_iteration(self, log: str, info: dict[str, Any]) -> None:
        parts = [
            f"Iter {info['num']:<3}",
            f"time={info['time']:<5.2f}",
            f"loss={info['loss']:<8.2f}",
        ]
        if "active_features" in info:
            parts.append(f"active={info['active_features']:<5}")
        if "avg_precision" in info:
            parts += [f"precision={info['avg_precision']:.3f}", f"recall={info['avg_recall']:.3f}"]
            parts += [f"F1={info['avg_f1']:.3f}"]
            parts += [
                (
                    f"Acc(item/seq)={info['item_accuracy_float']:.3f} "
                    f"{info['instance_accuracy_float']:.3f}"
                )
            ]
        if "feature_norm" in info:
            parts.append(f"feature_norm={info['feature_norm']:<8.2f}")
        print("  ".join(parts).strip())

    def on_optimization_end(self, log: str) -> None:
        last = self.logparser.last_iteration if self.logparser else None
        if last and last.get("scores"):
            width = max(5, *map(len, last["scores"]))
            heading = f"{'Label':<{width}}  Precision    Recall        F1    Support"
            print("=" * len(heading), heading, sep="\n")
            for label, score in sorted(last["scores"].items()):
                shares = "  ".join(
                    f"{x or 0:8.3f}" for x in (score.precision, score.recall, score.f1)
                )
                print(f"{label:<{width}}   {shares}  {score.ref:>9}")
            print("-" * len(heading))
        super().on_optimization_end(log)


class FileResource:
    """A model file; `name` is its path, None where there is no model."""

    def __init__(
        self, filename: str | None = None, keep_tempfiles: bool = False, data: bytes | None = None
    ):
        self.filename, self.keep_tempfiles, self.data = filename, keep_tempfiles, data

    @property
    def name(self) -> str | None:
        if self.filename is None and self.data is not None:
            number, self.filename = tempfile.mkstemp(".crfsuite", "model")
            with os.fdopen(number, "wb") as file:
                file.write(self.data)
            if not self.keep_tempfiles:
                weakref.finalize(self, Path(self.filename).unlink, missing_ok=True)
        return self.filename

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over what a pickle of sklearn-crfsuite holds."""
        self.filename = None if state.get("auto", True) else state.get("name")
        self.keep_tempfiles, self.data = state.get("keep_tempfiles", False), state.get(DATA)


def _fact(read: Callable[[ParsedDump], Any], doc: str) -> property:
    """A property that reads the contents of a model; None before `fit`."""
    return property(lambda crf: None if crf._info is None else read(crf._info), doc=doc)


class CRF(Estimator):
    """A CRF with the parameters of sklearn-crfsuite; those that are None have CRFsuite's defaults.

    X are sentences, lists of feature dicts (or of lists of attributes); y their labels."""

    _declared = chosen(ORDER, TABLE)
    training_log_: Any = None

    algorithm: str | None
    verbose: bool
    model_filename: str | None
    keep_tempfiles: bool
    trainer_cls: type[Trainer] | None

    # -- training ----------------------------------------------------------------------------------

    def fit(
        self,
        X: Iterable[Any],
        y: Iterable[Sequence[str]],
        X_dev: Iterable[Any] | None = None,
        y_dev: Iterable[Sequence[str]] | None = None,
    ) -> Self:
        """Train on sentences X and their labels y; X_dev and y_dev are evaluated after every
        iteration."""
        if (X_dev is None) != (y_dev is None):
            raise ValueError("Pass both X_dev and y_dev to use the holdout data")
        trainer = self._trainer()
        for xseq, yseq in _pairs(X, y):
            trainer.append(xseq, yseq)
        if X_dev is not None and y_dev is not None:
            for xseq, yseq in _pairs(X_dev, y_dev):
                trainer.append(xseq, yseq, 1)
        self._opened = self._parsed = self._file = None
        # a subclass of Trainer may have a `train` of its own
        with tempfile.TemporaryDirectory() as folder:
            path = self.model_filename or str(Path(folder, "model.crfsuite"))
            trainer.train(path, -1 if X_dev is None else 1)
            self._model = Path(path).read_bytes()
        self.training_log_ = trainer.logparser
        return self

    def _trainer(self) -> Trainer:
        given = {
            name: value
            for name, value in self.get_params(deep=False).items()
            if name not in OUR_OWN
        }
        chosen = {
            RENAMED.get(name, name): value for name, value in given.items() if value is not None
        }
        made = self.trainer_cls or LinePerIterationTrainer
        return made(algorithm=self.algorithm, params=chosen, verbose=self.verbose)

    # -- answers -----------------------------------------------------------------------------------

    def predict(self, X: Iterable[Any]) -> Any:
        """The labels of each sentence, as an array of lists (of labels, where all sentences have
        the same length)."""
        return np.array([self.predict_single(xseq) for xseq in X], dtype=object)

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

    # -- the model ---------------------------------------------------------------------------------

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

    @property
    def _info(self) -> ParsedDump | None:
        if self._parsed is None and self.tagger_ is not None:
            self._parsed = self.tagger_.info()
        return self._parsed

    @property
    def classes_(self) -> list[str] | None:
        """The labels."""
        return None if self.tagger_ is None else self.tagger_.labels()

    size_ = _fact(lambda model: int(model.header["size"]), "The size of the model in bytes.")
    num_attributes_ = _fact(
        lambda model: int(model.header["num_attrs"]), "How many attributes have a weight."
    )
    attributes_ = _fact(lambda model: list(model.attributes), "The attributes that have a weight.")
    state_features_ = _fact(lambda model: model.state_features, "{(attribute, label): weight}.")
    transition_features_ = _fact(
        lambda model: model.transitions, "{(label before, label): weight}."
    )

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_opened": None, "_parsed": None, "_file": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Also takes pickles of sklearn-crfsuite."""
        state = dict(state)
        file = state.pop("modelfile", None)
        if file is not None:
            state = {
                name: value
                for name, value in state.items()
                if name not in ("_tagger", "_info_cached")
            }
            state["_model"] = file.data
        self.__dict__.update(state)


def _pairs(X: Iterable[Any], y: Iterable[Sequence[str]]) -> Iterator[tuple[Any, Sequence[str]]]:
    """Sentences and their labels, one pair at a time."""
    nothing = object()
    for xseq, yseq in zip_longest(X, y, fillvalue=nothing):
        if xseq is nothing or yseq is nothing:
            raise ValueError(
                f"{'X' if xseq is nothing else 'y'} has fewer sentences than the other"
            )
        yield xseq, yseq  # type: ignore[misc]


register("sklearn_crfsuite", __name__)
