"""Wrapped progressive sampling (Van den Bosch 2004): many settings on small samples, the best ones
on larger."""

import copy
import reprlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.schemes import detect_scheme
from labelwright.decode.record import check_whole
from labelwright.errors import LabelwrightError, NotFittedError, OptionError
from labelwright.evaluate.scorers import scorer_of
from labelwright.learn.monitor import Monitor
from labelwright.memory.search import memory_settings as memory_settings
from labelwright.search.samples import (
    PARTS,
    Fold,
    LeftOut,
    SearchData,
    fitted,
    gold_of,
    held_out,
    looked_at,
    parts_of,
    score_of,
    sizes,
)
from labelwright.search.trials import (
    SearchBar,
    Setting,
    Trial,
    TrialFile,
    contents,
    fingerprint,
    score_or_lowest,
    table_lines,
    tried,
)
from labelwright.settings import REQUIRED, AtLeast, OneOf
from labelwright.taggers.declared import Threads, declared
from labelwright.taggers.estimator import Estimator, is_interrupted, untrained

Array = NDArray[Any]
BINS = 10  # of the scores of a step
IDLE = ("n_jobs", "verbose")  # parameters that change no score


class Measured(NamedTuple):
    """How a setting did."""

    score: float | None
    error: ValueError | None
    seconds: float


def _measured_on_worker(
    setting: Setting, shared: "tuple[ProgressiveSearch, list[Fold], LeftOut]"
) -> Measured:
    search, parts, left_out = shared
    return search._measured(parts, setting, left_out, [])


class ProgressiveSearch(Estimator):
    """Search for the best of many settings: all are tried on a small sample of the training data,
    the better ones on a larger one, and so on, until one is left or all data have been used (Van
    den Bosch 2004).

    After each step the scores are cut into ten equal bins between the lowest and the highest.  The
    settings in the highest bin stay, and so do those in the next lower one as long as it holds at
    least as many settings as the one above it; `gaps` says how empty bins are treated.  The samples
    are nested, and test data of one step are never training data of another.  In the end the
    highest score of the last step wins; of several, the estimator's current setting if it is among
    them, else the first.

    >>> from labelwright import Perceptron
    >>> X = [["the", "dog", "barks"], ["a", "bird", "sings"]] * 5
    >>> y = [["D", "N", "V"]] * 10
    >>> settings = {"max_iter": [1, 2], "averaging": ["avg", "none"]}
    >>> search = ProgressiveSearch(Perceptron(n_jobs=1), settings).fit(X, y)
    >>> search.best_params_, search.best_score_, search.predict([["the", "bird", "barks"]])
    ({'max_iter': 1, 'averaging': 'avg'}, 1.0, [['D', 'N', 'V']])
    """

    best_params_: Setting  #: the winner: {parameter: value}
    best_estimator_: Any  #: trained on all data; only with refit
    best_score_: float  #: in the last step it took part in
    table_: list[Trial]  #: every setting that was tried, in each step
    n_settings_: int  #: how many settings there are
    sizes_: list[int]  #: of the samples, one for each step that was planned
    scoring_: str | Callable[..., float]
    stopped_: str  #: why the search ended
    _dev: SearchData | None = None
    _trials: TrialFile

    estimator: Any
    settings: Any
    first: int
    steps: int
    folds: int | Sequence[int]
    gaps: str
    scoring: str | Callable[..., float] | None
    refit: bool
    random_state: int | None
    n_jobs: int | None
    verbose: int

    _declared = declared(
        estimator=(Any, REQUIRED, "Any model with fit, predict, get_params and set_params."),
        settings=(Any, REQUIRED,
            "{parameter: list of values}, all combinations of them; or a list of such; any other "
            "value than a list, range or array is a single value.  part__parameter is a parameter "
            "of a model within the model (classifier__k, or in a Cascade pos__l2)."),
        first=(int, 500, "Sentences (of arrays: instances) of the first sample.", AtLeast(PARTS)),
        steps=(int, 8, (
            "Number of samples; they grow by the same factor, up to all "
            "data."
        ), AtLeast(1)),
        folds=(int | Sequence[int], 1,
            "A sample is cut in five parts; so many of them, 1 to 5, are tested on in turn and "
            "their predictions scored together (parts tested on before are then trained on): a "
            "number, or one for each step, (5, 3, 1), whose last holds for the rest."),
        gaps=(str, "pass",
            "pass (over bins without settings, as the author's program does) or stop (at them: "
            "fewer settings stay, and the search may end with the only one in the highest bin of "
            "an early step).", OneOf("pass", "stop")),
        scoring=(str | Callable[..., float] | None, None,
            "f1 (of chunks), accuracy (of tokens), sentence (all labels right: word accuracy of "
            "letters), or callable(model, X, y) as scikit-learn has them; None: f1 where the "
            "labels are chunks, else accuracy."),
        refit=(bool, True, "Train the best setting on all data in the end."),
        random_state=(int | None, 0, "Seed of the samples.", AtLeast(0)),
        n_jobs=(int | None, None,
            (
            "Threads of the models, where they have this parameter; settings are tried one after "
            "the other."
            ),
            Threads()),
        verbose=(int, 0, "Show progress on a terminal."),
    )  # fmt: skip

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        dev: Any = None,
        progress: Callable[[Trial, int], None] | None = None,
        checkpoint: Any = None,
        sample_weight: Any = None,
        client: Any = None,
    ) -> Self:
        """Search on sentences X and their labels y, on a Corpus with a label column, or on rows X
        [N, D] and classes y.

        A setting that the model refuses is recorded with the reason and dropped.  The first Ctrl-C
        ends the search; the best setting so far is then trained on all data.

        X, y, sample_weight : the data, as above, and their weights in training, as the model's
            `fit` takes them
        dev : (X, y) or a Corpus; all settings are scored on it, and whole samples are trained on;
            models that can take development data stop early by it
        progress : called with every setting that was tried, and with the number of settings in this
            step
        checkpoint : a path; trials are kept there, and the same search resumes from it after an
            interruption
        client : a Dask client, on whose workers the settings of a step are tried side by side
        """
        self._check()
        pool = list(self._settings())
        data = looked_at(X, y, sample_weight=sample_weight)
        self._dev = None if dev is None else held_out(dev)
        for learned in ("best_estimator_", "best_params_", "best_score_", "stopped_"):
            self.__dict__.pop(learned, None)
        self.scoring_ = self._scoring(data)
        self.n_settings_, self.sizes_, self.table_ = (
            len(pool),
            sizes(self.first, data.n, self.steps),
            [],
        )
        self._trials = TrialFile(
            checkpoint, "" if checkpoint is None else self._fingerprint(data, pool)
        )
        bar = (
            SearchBar(len(self.sizes_), self.scoring_)
            if progress is None and self.verbose
            else None
        )
        try:
            with Monitor(1, 0.0) as monitor:  # for Ctrl-C
                self._search(
                    pool, data, progress or (bar.show if bar is not None else None), monitor, client
                )
        finally:
            if bar is not None:
                bar.close()
        self._choose()
        if self.refit:
            dev_data = None if self._dev is None else self._dev.all
            self.best_estimator_ = fitted(self.best_model(), data.X, data.y, data.weights, dev_data)
        return self

    def best_model(self) -> Any:
        """An untrained model with the best setting."""
        return self._model(self.best_params_)

    def _fingerprint(self, data: SearchData, pool: list[Setting]) -> str:
        """A hash of all that decides the trials."""
        how = [self.first, self.steps, self.folds, self.gaps, self.scoring, self.random_state, pool]
        held_out = None if self._dev is None else [self._dev.X, self._dev.y]
        model = {
            k: v
            for k, v in self.estimator.get_params().items()
            if k.rpartition("__")[2] not in IDLE
        }
        files = contents(
            [*model.values(), *(value for setting in pool for value in setting.values())]
        )
        return fingerprint(
            repr(how),
            repr(model),
            repr(files),
            data.X,
            data.y,
            held_out,
            *filter(None, [data.weights]),
        )

    # -- steps of fit ------------------------------------------------------------------------------

    def _check(self) -> None:
        self._check_parameters()
        folds = [self.folds] if isinstance(self.folds, int | np.integer) else self.folds
        if not isinstance(folds, Sequence) or not len(folds):
            raise OptionError(
                f"folds: expected a number from 1 to {PARTS}, or several, got {self.folds!r}"
            )
        for number in folds:
            check_whole("folds", number, 1, PARTS)
        scorer_of(self.scoring)
        able = all(
            hasattr(self.estimator, name) for name in ("fit", "predict", "get_params", "set_params")
        )
        if not able or isinstance(self.estimator, type):
            raise OptionError(
                f"estimator: expected a model with fit and predict, got {self.estimator!r:.60}"
            )

    def _settings(self) -> Iterator[Setting]:
        """All settings in order, each once, after a check that the model has these parameters."""
        seen = set()
        for setting in _combinations(self.settings):
            key = _key(setting)
            if key not in seen:
                seen.add(key)
                try:
                    self._model(setting)
                except (ValueError, TypeError) as error:
                    raise OptionError(f"settings: {_line(error)}") from None
                yield setting
        if not seen:
            raise OptionError("settings: got none; give {parameter: [value, ...]}")

    def _model(self, setting: Setting, part: bool = False) -> Any:
        """An untrained model with this setting, for all data or for a part of them."""
        model = untrained(self.estimator, part)
        if self.n_jobs is not None and "n_jobs" in model.get_params():
            model.set_params(n_jobs=self.n_jobs)
        return model.set_params(**{name: untrained(value) for name, value in setting.items()})

    def _scoring(self, data: SearchData) -> str | Callable[..., float]:
        """The scoring that fits the labels."""
        if self.scoring is not None and not isinstance(self.scoring, str):
            return self.scoring
        if not data.sequences:
            if self.scoring in ("f1", "sentence"):
                raise OptionError(
                    f"scoring: {self.scoring!r} is for sentences; use 'accuracy' or a callable"
                )
            return "accuracy"
        if isinstance(data.y, Mapping):
            return self.scoring or "f1"
        if data.y is not None:
            labels: Iterable[str] = set(chain.from_iterable(data.y))
        elif data.X.label is not None:
            labels = data.X.values(data.X.label)
        else:  # a cascade has the columns
            return self.scoring or "f1"
        if self.scoring == "f1" and detect_scheme(labels) is None:
            raise OptionError(
                "scoring: 'f1' needs chunk labels such as B-NP; use 'accuracy' or 'sentence'"
            )
        return self.scoring or ("accuracy" if detect_scheme(labels) is None else "f1")

    def _search(
        self, pool: list[Setting], data: SearchData, progress: Any, monitor: Monitor, client: Any
    ) -> None:
        """Fill the table step by step, and record why the search ended."""
        order = np.random.default_rng(self.random_state or 0).permutation(data.n)  # [N]
        left_out = LeftOut(data)
        folds = [self.folds] if isinstance(self.folds, int | np.integer) else list(self.folds)
        for step, size in enumerate(self.sizes_, 1):
            parts = parts_of(data, order[:size], int(folds[min(step, len(folds)) - 1]), self._dev)
            errors = dict[int, ValueError]()
            position, begun = (
                {id(setting): number for number, setting in enumerate(pool)},
                len(self.table_),
            )
            pool = self._in_turn(pool)
            measure = self._measuring(client, step, pool, parts, left_out)
            for setting in pool:
                row, error = self._row(step, parts, setting, measure, monitor)
                if row is None:  # Ctrl-C cut it short
                    break
                self.table_.append(row)
                if error is not None:
                    errors[id(setting)] = error
                if progress is not None:
                    progress(row, len(pool))
                if monitor.interrupted:
                    break
            tried = self.table_[begun:] = sorted(
                self.table_[begun:], key=lambda row: position[id(row["setting"])]
            )
            if errors and len(errors) == len(tried):
                raise errors[id(tried[0]["setting"])]
            if monitor.interrupted and len(tried) < len(pool):
                self.stopped_ = "interrupted"
                return
            scores = np.array([-np.inf if row["score"] is None else row["score"] for row in tried])
            stay = np.zeros(len(tried), bool)
            stay[scores > -np.inf] = survivors(scores[scores > -np.inf], self.gaps)
            for row, kept in zip(tried, stay.tolist(), strict=True):
                row["kept"] = kept
            pool = [row["setting"] for row in tried if row["kept"]]
            if monitor.interrupted or len(pool) == 1:
                break
        last = "one setting is left" if len(pool) == 1 else "all data have been used"
        self.stopped_ = "interrupted" if monitor.interrupted else last

    def _trained_by(self, setting: Setting) -> frozenset[Any]:
        """What training reads of a setting."""
        answers: frozenset[str] = getattr(self.estimator, "_answer_settings", frozenset())
        return _key({name: value for name, value in setting.items() if name not in answers})

    def _in_turn(self, pool: list[Setting]) -> list[Setting]:
        """The settings in the order in which they are tried: those that share a model together, the
        last of them first (as a rule the one with the largest k, whose neighbours include those of
        the others)."""
        alike: dict[Any, list[Setting]] = {}
        for setting in pool:
            alike.setdefault(self._trained_by(setting), []).append(setting)
        return [setting for each in alike.values() for setting in reversed(each)]

    def _measuring(
        self, client: Any, step: int, pool: list[Setting], parts: list[Fold], left_out: LeftOut
    ) -> "Callable[[Setting], Measured]":
        """What tries one of these settings, or waits for the worker of a cluster that does."""
        if client is None:
            last, models = None, list[Any]()

            def measured_here(setting: Setting) -> Measured:
                nonlocal last, models
                if (by := self._trained_by(setting)) != last:
                    last, models = by, []
                return self._measured(parts, setting, left_out, models)

            return measured_here
        from labelwright.scale.cluster import Cluster, Shared

        alone = copy.copy(self)  # the data are in the parts
        alone._trials, alone.table_, alone.n_jobs = TrialFile(None, ""), [], self.n_jobs or 1
        new = [setting for setting in pool if self._trials.known(step, setting) is None]
        measured = zip(
            new,
            Cluster(client).each(_measured_on_worker, new, Shared((alone, parts, left_out))),
            strict=True,
        )
        return lambda setting: next(result for each, result in measured if each is setting)

    def _measured(
        self, parts: list[Fold], setting: Setting, left_out: LeftOut, models: list[Any]
    ) -> "Measured":
        """The score of a setting; what fails has an error, and training that was interrupted has
        none either.

        models : trained on the first parts, for a setting that training does not tell from this
            one; those of the other parts are added
        """
        begun = time.monotonic()
        try:
            if models:
                fresh = self._model(setting, part=True)
                fresh._check_parameters()
                for model in models:
                    model.set_params(
                        **{name: getattr(fresh, name) for name in fresh._answer_settings}
                    )
            for part in parts[len(models) :]:
                dev = part.test if self._dev is not None else None
                models.append(left_out.trained(self._model(setting, part=True), part, dev))
                if is_interrupted(models[-1]):
                    return Measured(None, None, 0.0)
            score = self._score(models, parts)
            if np.isfinite(score):
                return Measured(score, None, time.monotonic() - begun)
            raise OptionError(f"scoring: expected a finite number, got {score}")
        except ValueError as error:  # a LabelwrightError is one
            return Measured(None, error, time.monotonic() - begun)

    def _row(
        self,
        step: int,
        parts: list[Fold],
        setting: Setting,
        measure: "Callable[[Setting], Measured]",
        monitor: Monitor,
    ) -> tuple[Trial | None, ValueError | None]:
        """One setting in one step, and the error where it failed; no row where training was
        interrupted."""
        known = self._trials.known(step, setting)
        if known is not None:
            return known, None if known["error"] is None else OptionError(known["error"])
        score, error, seconds = measure(setting)
        if score is None and error is None:
            monitor.interrupted = True  # the monitor of the model received the signal
            return None, None
        row: Trial = {
            "step": step,
            "n_train": parts[0].n_train,
            "n_test": sum(part.n_test for part in parts),
            "setting": setting,
            "score": score,
            "seconds": seconds,
            "kept": None if error is None else False,
            "error": None if error is None else _line(error),
        }
        self._trials.add(row)
        return row, error

    def _score(self, models: list[Any], parts: list[Fold]) -> float:
        """The score of all test parts together; callables give one for each, of which this is the
        mean."""
        if isinstance(self.scoring_, str):
            return score_of(models, parts, self.scoring_)
        tests = [(part.test[0], gold_of(*part.test)) for part in parts]
        scores = [self.scoring_(model, *test) for model, test in zip(models, tests, strict=True)]
        return float(np.average(scores, weights=[part.n_test for part in parts]))

    def _choose(self) -> None:
        """The best setting of the last whole step (of the first, where it was interrupted: of what
        there is)."""
        whole = [row["step"] for row in self.table_ if row["kept"]]
        rows = [
            row
            for row in self.table_
            if row["score"] is not None and row["step"] == max(whole, default=1)
        ]
        if not rows:
            raise KeyboardInterrupt
        self.best_score_ = max(score_or_lowest(row) for row in rows)
        best = [row["setting"] for row in rows if row["score"] == self.best_score_]
        current = self.estimator.get_params()

        def is_current(name: str, value: Any) -> bool:
            given = current.get(name)
            return given is value or (
                isinstance(value, str | int | float | tuple) and bool(given == value)
            )

        unchanged = [
            setting for setting in best if all(is_current(*item) for item in setting.items())
        ]
        self.best_params_ = (unchanged or best)[0]

    # -- answers -----------------------------------------------------------------------------------

    @property
    def n_tried_(self) -> int:
        """How many of the settings were tried: fewer than there are, where the search was
        interrupted."""
        return sum(row["step"] == 1 for row in self.table_)

    @property
    def takes_columns(self) -> bool:
        """Whether the model learns from columns, like MemoryBased, not from features made of
        them."""
        return bool(getattr(self.estimator, "takes_columns", False))

    def predict(self, X: Any) -> Any:
        """What the best model predicts.

        X : sentences, or rows
        """
        return self._best().predict(X)

    def score(self, X: Any, y: Any = None) -> float:  # type: ignore[override]
        """The score of the best model on these data.

        X, y : sentences and their labels, a Corpus, or rows and classes
        """
        return float(self._best().score(X) if y is None else self._best().score(X, y))

    def save(self, path: Any) -> Self:
        """Save the best model.

        path : where the model file is written
        """
        self._best().save(path)
        return self

    def __getattr__(self, name: str) -> Any:
        """All other methods of the best model: decode, predict_proba, ..."""
        if name.startswith("__") or (name.startswith("_") and "best_estimator_" not in vars(self)):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self._best(), name)

    def _best(self) -> Any:
        if "best_estimator_" in self.__dict__:
            return self.__dict__["best_estimator_"]
        if "best_params_" in self.__dict__:
            raise NotFittedError(
                "this ProgressiveSearch has no trained model: use refit=True, or fit one yourself"
            )
        raise NotFittedError("this ProgressiveSearch is not fitted yet: call fit")

    def table(self, limit: int | None = None) -> str:
        """Settings with their scores in each step as a table to read, the best first; `limit` of
        them at most.

        limit : number of rows; None: all
        """
        if "table_" not in self.__dict__:
            self._best()
        if limit is not None:
            check_whole("limit", limit, 0)
        how_many = tried(self.n_tried_, self.n_settings_)
        lines = table_lines(
            self.table_, self.sizes_, self.__dict__.get("best_params_"), self.scoring_, limit
        )
        return "\n".join([*lines, f"{how_many}; {self.stopped_}"])

    # -- scikit-learn's conventions ----------------------------------------------------------------

    def __repr__(self) -> str:
        first = f"{self.estimator!r}, {reprlib.repr(self.settings)}"
        arguments = ", ".join([first, *self._changed(("estimator", "settings"))])
        return f"{type(self).__name__}({arguments})"

    def __sklearn_tags__(self) -> Any:
        tags = getattr(self.estimator, "__sklearn_tags__", None)
        return super().__sklearn_tags__() if tags is None else tags()


def survivors(scores: Array, gaps: str = "pass") -> Array:
    """Which of the scores [n] stay for the next step, as booleans [n].

    Of ten equal bins between the lowest and the highest score the highest stays, and then each next
    lower one while it has at least as many scores as the one above it; empty bins are skipped, or
    with gaps="stop" end the selection.

    >>> survivors(np.array([0.99, 0.93, 0.92, 0.60, 0.50])).tolist()
    [True, True, True, False, False]
    """
    lowest, highest = scores.min(), scores.max()
    if lowest == highest:
        return np.ones(len(scores), bool)
    # a score on a bound belongs above it
    place = np.round((scores - lowest) / (highest - lowest) * BINS, 9)
    place = np.minimum(place.astype(np.int64), BINS - 1)  # [n]
    counts = np.bincount(place, minlength=BINS)
    # from the highest bin down
    compared = (np.flatnonzero(counts) if gaps == "pass" else np.arange(BINS))[::-1]
    grows = np.diff(counts[compared]) >= 0
    last = len(compared) - 1 if grows.all() else int(np.argmin(grows))
    stay: Array = place >= compared[last]
    return stay


def _key(setting: Setting) -> frozenset[Any]:
    """What tells a setting from others."""
    plain = {name: isinstance(value, str | int | float | None) for name, value in setting.items()}
    return frozenset((k, (type(v), v) if plain[k] else id(v)) for k, v in setting.items())


def _combinations(settings: Any) -> Iterator[Setting]:
    """The settings that a grid, or a list of them, stands for."""
    grids = [settings] if isinstance(settings, Mapping) else settings
    if isinstance(grids, str) or not isinstance(grids, Iterable):
        raise OptionError(
            "settings: expected {parameter: [value, ...]} or a list of such, got "
            f"{settings!r:.60}"
        )
    for number, grid in enumerate(grids):
        if not isinstance(grid, Mapping) or not all(isinstance(name, str) for name in grid):
            raise OptionError(
                f"settings: number {number}: expected {{parameter: [value, ...]}}, got {grid!r:.60}"
            )
        values = [
            value.tolist() if isinstance(value, np.ndarray) and value.ndim == 1 else value
            for value in grid.values()
        ]
        choices = [value if isinstance(value, list | range) else [value] for value in values]
        yield from (dict(zip(grid, chosen, strict=True)) for chosen in product(*choices))


def _line(error: Exception) -> str:
    """An error in one line; errors from elsewhere with their type."""
    text = " ".join(str(error).split())
    return text if isinstance(error, LabelwrightError) else f"{type(error).__name__}: {text}"
