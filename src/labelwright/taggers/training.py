"""A training run, the same for all linear models: data, starting point, monitor, restarts, record."""

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from labelwright import __version__
from labelwright.answers.batch import Batch, check_lengths
from labelwright.corpus.partial_labels import LabelCodes, label_codes
from labelwright.corpus.schemes import detect_scheme, pairs_of_codes, validate
from labelwright.corpus.table import Corpus, checked_sentences, intern_labels
from labelwright.corpus.token_records import listed
from labelwright.engine.choice import expect_much
from labelwright.errors import CorpusError, OptionError
from labelwright.evaluate import evaluate
from labelwright.features.extract import ColumnFeatures, Encoded, Extractor, collected, kind_of, learn
from labelwright.features.incidence import Folder, Incidence
from labelwright.features.sources import Given
from labelwright.features.template import Template
from labelwright.learn.checkpoint import EVERY, Checkpoints
from labelwright.learn.monitor import Monitor, ProgressBar, Record
from labelwright.parallel import Workers
from labelwright.scoring.carry import carry_over
from labelwright.scoring.parameters import Trained, make_parameters
from labelwright.structures.passing import Candidates, FeatureValues, Layered
from labelwright.structures.states import state_space
from labelwright.structures.supervision import PLAIN, Supervision
from labelwright.taggers.arguments import scheme_named, true_labels
from labelwright.taggers.base import LAYER
from labelwright.taggers.estimator import Summary
from labelwright.taggers.forbidden import Transitions, forbidden_codes
from labelwright.taggers.linear import LinearTagger, encode, with_arrays
from labelwright.taggers.sample_weights import check_paths, class_weights, supervision_of
from labelwright.taggers.unfinished import UnfinishedError
from labelwright.wording import counted, plural

Array = NDArray[Any]
OUTSIDE = "O"
OF_A_FIT = (  # facts of a record that no longer hold once the model has learnt more
    "stopped",
    "seconds",
    "best_iteration",
    "best_dev",
    "restarts",
    "calibration",
    "compressed",
    "mistakes",
    "convergence",
)
IN_THE_DATA = "dictionaries", "clusters", "vectors"  # what they do is in the encoded data; sets have no fixed order


class TrainableModel(LinearTagger):
    """A linear model that learns its weights from data; subclasses say how (`_optimise`) and when to stop."""

    can: ClassVar[frozenset[str]] = LinearTagger.can | {LAYER}
    _training_options: ClassVar[frozenset[str]] = frozenset(
        {"dev", "init", "checkpoint", "progress", "memory_map", "sample_weight", "partial_labels", "partial_fit"}
    )

    template: str | Template
    order: int
    cells: str
    min_count: int
    max_iter: int | None
    constraints: str | None
    warm_start: bool
    random_state: int | None
    verbose: int
    n_restarts: int  # of models with random starts
    dictionaries: Mapping[str, Any] | None
    clusters: Mapping[str, Mapping[str, str]] | None
    vectors: Any
    class_weight: str | Mapping[str, float] | None
    forbidden_transitions: Sequence[tuple[str, str]] | None = None
    required_transitions: Sequence[tuple[str, str]] | None = None
    entity_rate: float | None = None
    _remedy: ClassVar[str] = ""  # against a loss that is no number

    def fit(
        self,
        X: Any,
        y: Sequence[Sequence[str]] | None = None,
        *,
        dev: Any = None,
        init: "TrainableModel | None" = None,
        checkpoint: Any = None,
        checkpoint_every: float = EVERY,
        resume: bool = False,
        progress: Callable[[Record, int], None] | None = None,
        memory_map: Any = None,
        arrays: Sequence[Any] | None = None,
        sample_weight: Sequence[Any] | None = None,
    ) -> Self:
        """Train on sentences X and their labels y (or on a Corpus, whose label column is y).

        X, y : sentences and their labels, or a Corpus; a label may be None, where it is unknown, or a set of labels,
            one of which is right; in a corpus `_`, or labels separated by `|`
        dev : (X, y) or a Corpus; the weights that do best on it are kept, and training stops when it no longer improves
        init : a trained model to start from, of a kind with such weights; labels that have more latent states here
            get copies of its states, with small noise to break the symmetry, as do further restarts (warm_start=True
            starts from the last fit)
        checkpoint : a path where the state of the run is saved, after a second and then periodically; further random
            starts and what else is trained on the way have paths that begin with it
        checkpoint_every : seconds between two such saves
        resume : go on from the checkpoint; the result is identical to an uninterrupted run
        progress : called with the record of each iteration (as in `history_`) and the number of iterations at most
        memory_map : a folder for temporary files that hold the encoded data, so that they need not be in memory; the
            result is the same
        arrays : numbers beside words and columns, an array [tokens, D] for each sentence, as predict takes them
        sample_weight : a number for each sentence, which counts so many times; or a list of numbers for each sentence,
            one for each token: how much a wrong label counts there
        """
        self._check_parameters()
        if arrays is not None:
            X, y = with_arrays(X, arrays, listed(y)), None
        folder = None if memory_map is None else Folder(memory_map)
        places = Checkpoints.given(checkpoint, checkpoint_every, resume)
        X, y = collected(X), listed(y)
        tokenizer = self._tokenizer_of(X)
        expect_much()
        unfinished: UnfinishedError | None = None
        try:
            before = self._before(init, X, y, places)
        except UnfinishedError as error:
            before, unfinished = None, error
        data, trained = self._prepare(X, y, sample_weight=sample_weight)
        if folder is not None:
            data = data._replace(incidences={name: folder.mapped(x) for name, x in data.incidences.items()})
        del X, y  # as far as the caller lets them go
        development = None if dev is None else self._development(trained, dev)
        bar = self._progress_bar() if progress is None and self.verbose else None
        if bar is not None:
            bar.lines = True
        try:
            if unfinished is None:
                trained, runs = self._runs(data, trained, before, Run(development, progress or bar, places))
            else:
                runs = [(carry_over(unfinished.learnt, self._begun(trained, 0, True)), unfinished.monitor())]
        finally:
            if bar is not None:
                bar.close()
        weights, best = max(runs, key=lambda run: run[1].merit)
        self._trained = trained._replace(weights=weights)
        self.history_ = [dict(record) for record in best.history if set(self._of_iteration) <= set(record)]
        self.training_ = self._record(data, best, [monitor for _, monitor in runs])
        self._remember_tokenizer(tokenizer)
        if not runs[-1][1].interrupted:
            self._after(data, development)
        return self

    def _joint_objective(
        self,
        X: Any,
        y: Sequence[Sequence[str]] | None,
        workers: Workers,
        candidates: Candidates | None = None,
        dtype: Any = np.float32,
        sample_weight: Any = None,
        class_weight: Mapping[Any, float] | None = None,
    ) -> tuple[Any, FeatureValues]:
        """What joint training minimises (learn.joint.Layer) on these sentences, and what the values of its features are
        made of; `candidates` are what it passes, `class_weight` has the weight of each label."""
        raise OptionError(f"a {type(self).__name__} cannot learn together with other layers; use passing='best'")

    def _label_weights(self, y: Sequence[Sequence[Any]]) -> dict[Any, float] | None:
        """The weight of each label by `class_weight`, given the labels of all training data; None where all weigh the
        same."""
        labels, codes, _ = codes_among(y, self._space.labels)
        weights = class_weights(self.class_weight, labels, codes, self._of_part)
        return None if weights is None else dict(zip(labels, weights.tolist(), strict=True))

    def _weights_of(self, other: Any) -> Array:
        """The weights of another model for the features and labels of this one; 0 for those that it lacks."""
        learnt = self._learnt()
        return carry_over(other._learnt(), learnt._replace(weights=np.zeros_like(learnt.weights)))

    # -- steps of fit -----------------------------------------------------------------------------------------

    def _runs(
        self, data: "Data", trained: Trained, before: Trained | None, run: "Run"
    ) -> tuple[Trained, list[tuple[Array, Monitor]]]:
        """What is trained, and the weights that each start leads to."""
        try:
            trained, before = self._learn_states(data, trained, before, run)
        except UnfinishedError as error:
            return error.learnt, [(error.learnt.weights, error.monitor())]
        runs: list[tuple[Array, Monitor]] = []
        for restart in range(getattr(self, "n_restarts", 1)):
            start = self._begun(trained, restart, before is not None)
            if before is not None:
                start = start._replace(weights=carry_over(before, start, shake=restart > 0))
            place = None if run.places is None else run.places.start(restart + 1)
            monitor = self._monitor(start, data, run.development, run.progress, place)
            runs.append((self._run(start, data, monitor), monitor))
            if monitor.interrupted:
                break
        return trained, runs

    def _begun(self, trained: Trained, restart: int, split: bool) -> Trained:
        """The model with the weights to start from, or to add to those of a model that is split."""
        return trained._replace(weights=self._start(trained, restart, split))

    def _run(self, start: Trained, data: "Data", monitor: Monitor) -> Array:
        """The weights after one run from a starting point."""
        workers = Workers(self.n_jobs)
        return monitor.run(lambda state: self._optimise(start, data, monitor, workers, state), start.weights)

    def _before(
        self, init: Any, X: Any, y: Sequence[Sequence[str]] | None, places: Checkpoints | None
    ) -> Trained | None:
        """What the model to start from has learnt, if there is one."""
        if init is not None:
            if "init" not in self._training_options:
                raise OptionError(f"init: a {type(self).__name__} starts from nothing; leave it out")
            refusal = self._why_not_from(init)
            if refusal is not None:
                raise OptionError(f"init: got {refusal}")
        elif self.warm_start and self._is_fitted():
            init = self
        else:
            init = self._first_model(X, y, places)
        return None if init is None else init._learnt()

    def _first_model(
        self, X: Any, y: Sequence[Sequence[str]] | None, places: Checkpoints | None
    ) -> "TrainableModel | None":
        """A model that is trained only to start from."""
        return None

    def _learn_states(
        self, data: "Data", trained: Trained, before: Trained | None, run: "Run"
    ) -> tuple[Trained, Trained | None]:
        """What is to be trained, and what it starts from, where the numbers of latent states are learnt, too."""
        return trained, before

    def _prepare(
        self, X: Any, y: Sequence[Sequence[str]] | None, more: bool = False, sample_weight: Any = None
    ) -> tuple["Data", Trained]:
        """Learn the features and the state space: the training data as integers, and what is known before training
        (all weights are zero).  With `more`, further labels may come later."""
        more = more or self._of_part
        corpus, labels, gold, sets = labelled(X, y)
        given = self._given_features(labels, gold)
        extractor, incidences, offsets = learn(corpus, self.template, self.min_count, given=given)
        patterns = extractor.vocabulary.template.patterns if isinstance(extractor, ColumnFeatures) else ()
        if self.order == 1 and any(pattern.kind == "T" for pattern in patterns):
            raise OptionError("template: T lines are features on three labels; use order=2")
        if y is not None:
            check_lengths(y, np.diff(offsets).tolist())
        of_labels = detect_scheme(labels, pairs=pairs_of_codes(labels, gold, offsets))
        scheme = None
        if self.constraints is not None:
            known = [] if len(sets) else cut([labels[g] for g in gold], offsets)
            scheme = self._checked_scheme(of_labels, known)
        weights = self.class_weight, sample_weight
        said = supervision_of(sets, gold, offsets, labels, *weights, part=more, rate=self.entity_rate)
        data = Data(incidences, np.unique(offsets), gold, said)  # sentences without tokens teach nothing
        states = self._latent_states(labels, more)
        forbidden = forbidden_codes(self._transitions, labels, gold, offsets, more)
        return self._with_parameters(data, Labels(list(labels), states, scheme, of_labels, forbidden), extractor)

    def _outside_code(self, labels: Sequence[Any]) -> int:
        """What most tokens of unknown labels are where an entity rate is expected: O; else -1, no label."""
        if self.entity_rate is None:
            return -1
        if OUTSIDE not in labels:
            raise OptionError("entity_rate: the training data have no label O; leave it out")
        return list(labels).index(OUTSIDE)

    @property
    def _transitions(self) -> Transitions:
        """Those that are forbidden, and those that are required."""
        return Transitions(self.forbidden_transitions, self.required_transitions)

    def _given_features(self, labels: Sequence[Any], gold: Array) -> Given:
        """What the template reads beside the data, with the labels of all tokens; one that is not known is none."""
        return Given(self.dictionaries, self.clusters, self.vectors, with_outside(labels, gold))

    def _with_parameters(self, data: "Data", labels: "Labels", extractor: Extractor) -> tuple["Data", Trained]:
        """The state space, and which weights exist."""
        space = state_space(labels.labels, labels.states, self.order, labels.constraints, labels.forbidden)
        incidences, offsets, gold, said = data
        check_paths(said, gold, offsets, space)
        inputs = incidences, extractor.n_features, gold, offsets, space, self.cells
        parameters = make_parameters(*inputs, sets=said.sets, likely=self._outside_code(labels.labels))
        none = np.zeros(parameters.n_weights, np.float32)
        return data, Trained(extractor, space, parameters, none, labels.scheme)

    def _record(self, data: "Data", best: Monitor, monitors: list[Monitor]) -> dict[str, Any]:
        """What is worth knowing about the training run, in the model file too."""
        last, reason = best.history[-1], str(best.reason).replace("iterations", plural(self._trains_in))
        record: dict[str, Any] = {
            "sentences": len(data.offsets) - 1,
            "tokens": int(data.offsets[-1]),
            "features": self._extractor.n_features,
            "weights": len(self.weights_),
            "iterations": last["iteration"],
            "loss": last["loss"],
            "seconds": round(sum(m.history[-1]["seconds"] for m in monitors), 3),
            "stopped": "interrupted" if monitors[-1].interrupted else reason,
            "labelwright": __version__,
        }
        if best.best_iteration is not None:
            record["best_iteration"] = best.best_iteration
            record["best_dev"] = best.merit
        if len(monitors) > 1:
            record["restarts"] = [{"loss": m.history[-1]["loss"], "merit": m.merit} for m in monitors]
        return record

    def _after(self, data: "Data", development: "Development | None") -> None:
        """What is left to do once the weights are found."""

    def _latent_states(self, labels: Sequence[str], more: bool = False) -> list[int]:
        """How many states each label has."""
        return [1] * len(labels)

    def _start(self, trained: Trained, restart: int, split: bool) -> Array:
        """The weights to start from, or to add to those of a model that is split: zero, since a CRF has one optimum."""
        return np.zeros(trained.parameters.n_weights, np.float32)

    def _checked_scheme(self, of_labels: str | None, sentences: list[list[str]]) -> str:
        """The scheme that the constraints name, after a check that the training labels keep it."""
        assert self.constraints is not None
        scheme = scheme_named(self.constraints, of_labels)
        problems = validate(sentences, scheme)
        if problems:
            p = problems[0]
            raise CorpusError(
                f"training labels: sentence {p.sentence}, token {p.token}: {p.message}; "
                f"repair them (labelwright convert --repair) or train without constraints"
            )
        return scheme

    def _monitor(
        self,
        start: Trained,
        data: "Data",
        dev: "Development | None",
        progress: Any,
        place: Checkpoints | None,
    ) -> Monitor:
        checkpoint = None if place is None else place.of(self._fingerprint(start, data, dev))
        score = None if dev is None else self._dev_score(start, dev)
        return Monitor(**self._stopping(), dev=score, progress=progress, checkpoint=checkpoint, recorded=self._recorded)

    def _stopping(self) -> dict[str, Any]:
        """When training stops: arguments of Monitor."""
        raise NotImplementedError

    def _progress_bar(self, title: str = "training") -> ProgressBar:
        """A bar for `fit(progress=...)` that shows what this training is about."""
        return ProgressBar(self.max_iter, None, title)

    def _trouble(self) -> str | None:
        lost = not np.isfinite(self.training_["loss"] or 0.0)
        return f"the loss is no longer a number; {self._remedy}" if lost else None

    def _summary(self) -> Summary:
        record, used = self.training_, int((self.weights_ != 0).sum())
        weights = counted(len(self.weights_), "weight")
        sizes = [
            weights if used == len(self.weights_) else f"{weights} ({used:,} not zero)",
            counted(record["features"], "feature"),
            counted(len(self.classes_), "label"),
            *([f"{self._space.n_states} latent states"] if self._space.latent else []),
        ]
        turns = counted(record["iterations"], self._trains_in)
        run = [counted(record["sentences"], "sentence"), turns, *self._facts_of_run(), f"{record['seconds']:.1f} s"]
        return Summary(sizes, [*run, *_spread(record)], str(record["stopped"]))

    def _facts_of_run(self) -> list[str]:
        """What else is worth knowing about the run."""
        return []

    def _development(self, trained: Trained, dev: Any, name: str = "dev") -> "Development":
        """Development data, encoded and checked before the first iteration; `name` is what errors call them."""
        X, y = labelled_pair(dev, name)
        y = true_labels(name, X, y)
        encoded = encode(trained.extractor, X)
        check_lengths(y, np.diff(encoded.offsets).tolist(), place=f"{name}: y")
        return Development(encoded, [list(labels) for labels in y])

    def _dev_score(self, trained: Trained, development: "Development") -> Callable[[Array], float]:
        """The score on development data of given weights."""

        def labels_of(batch: Batch) -> list[list[str]]:
            return [record.labels for record in batch.decode(self._default_decoder, probabilities=False)]

        def score(weights: Array) -> float:
            predicted = self._ask_with(trained._replace(weights=weights), development.X, labels_of)
            return evaluate(development.y, predicted).score

        return score

    def _fingerprint(self, start: Trained, data: "Data", dev: "Development | None") -> str:
        """A hash of all that decides the course of training."""
        idle = "n_jobs", "verbose", "warm_start", *IN_THE_DATA, *self._may_change()
        settings = {k: v for k, v in self.get_params(deep=False).items() if k not in idle}
        arrays = [data.offsets, data.gold, start.weights, *(a for x in data.incidences.values() for a in x)]
        arrays += [given for given in data.said if given is not None]
        if dev is not None:
            arrays += [dev.X.offsets, *(a for x in dev.X.incidences.values() for a in x)]
        return fingerprint((settings, start.space.labels, dev and dev.y), arrays)

    def _may_change(self) -> tuple[str, ...]:
        """Parameters that a run which is resumed may have otherwise."""
        return ("max_iter",)

    def _optimise(
        self, start: Trained, data: "Data", monitor: Monitor, workers: Workers, state: dict[str, Array] | None
    ) -> Array:
        """The best weights from a starting point; `state` is that of a run to resume."""
        raise NotImplementedError


def fingerprint(facts: Any, arrays: Sequence[Array]) -> str:
    """A hash of facts, as they are written, and of numbers."""
    digest = hashlib.sha256(repr(facts).encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def lasting(record: Mapping[str, Any]) -> dict[str, Any]:
    """What still holds of the record of a model that has learnt from further sentences."""
    return {name: value for name, value in record.items() if name not in OF_A_FIT}


def _spread(record: dict[str, Any]) -> list[str]:
    """How far the random starts lie apart."""
    runs = record.get("restarts")
    if not runs:
        return []
    losses = [run["loss"] for run in runs]
    spread = f"best of {len(runs)} starts with losses of {min(losses):,.1f} to {max(losses):,.1f}"
    if "best_dev" in record:
        scores = [100 * run["merit"] for run in runs]
        spread += f" and {min(scores):.2f} to {max(scores):.2f} on the development data"
    return [spread]


class LatentStates(TrainableModel):
    """A model whose labels have several states each."""

    n_latent: int | Mapping[str, int]

    def _numbers_of_states(self) -> list[int]:
        """All that `n_latent` names."""
        return list(self.n_latent.values()) if isinstance(self.n_latent, Mapping) else [self.n_latent]

    def _latent_states(self, labels: Sequence[str], more: bool = False) -> list[int]:
        if not isinstance(self.n_latent, Mapping):
            return [int(self.n_latent)] * len(labels)
        missing = [label for label in labels if label not in self.n_latent]
        if missing:
            raise OptionError(f"n_latent: no number for the label {missing[0]!r}; give one for every label")
        unknown = [label for label in self.n_latent if label not in labels]
        if unknown and not more:
            raise OptionError(
                f"n_latent: no label {unknown[0]!r} in the training data, which have {', '.join(map(str, labels))}"
            )
        return [int(self.n_latent[label]) for label in labels]


class Labels(NamedTuple):
    """The labels of the training data."""

    labels: list[str]
    states: list[int]  # of each
    constraints: str | None  # the scheme that is enforced
    scheme: str | None  # the scheme that they follow
    forbidden: Sequence[tuple[int, int]] = ()  # transitions


class Data(NamedTuple):
    """The training data as integers."""

    incidences: dict[str, Incidence]
    offsets: Array  # [N+1]
    gold: Array  # [T]  labels, or sets of labels (structures.supervision)
    said: Supervision = PLAIN


class Run(NamedTuple):
    """How a training run is watched and saved: options of `fit`."""

    development: "Development | None"
    progress: Callable[[Record, int], None] | None
    places: Checkpoints | None


class Development(NamedTuple):
    """The development data."""

    X: Encoded
    y: list[list[str]]


def no_labels(corpus: Corpus) -> CorpusError:
    """What to say of a corpus to learn from that has no labels."""
    named = f"name one of {', '.join(corpus.names)} as the label"
    mend = named if len(corpus.names) > 1 else "give it one behind its only column"
    return CorpusError(f"{corpus.source}: has no label column; {mend}")


def with_outside(labels: Sequence[Any], codes: Array) -> tuple[Sequence[Any], Array]:
    """Labels and codes [T] with O where a label is not known."""
    unknown = codes >= len(labels)
    if not unknown.any():
        return labels, codes
    named = labels if OUTSIDE in labels else [*labels, OUTSIDE]
    return named, np.where(unknown, named.index(OUTSIDE), codes).astype(codes.dtype)


class Labelled(NamedTuple):
    """Training data with their labels as codes."""

    X: Any  # ready to learn from
    labels: list[Any]
    gold: Array  # [T]  labels, or sets of labels from len(labels) on
    sets: Array  # [K, L]  their members


def labelled(X: Any, y: Sequence[Sequence[str]] | None, known: Sequence[Any] = ()) -> Labelled:
    """The training data with their labels as codes; those that are known, as by a model, come first."""
    if isinstance(X, Encoded):
        raise OptionError("fit: takes sentences, not encoded data: features are learnt from them")
    X = collected(X)
    if y is not None and not hasattr(y, "__len__"):
        raise OptionError(f"y: expected the labels of all sentences, got {type(y).__name__}")
    if isinstance(X, Corpus):
        if y is None:
            if X.label is None:
                raise no_labels(X)
            return Labelled(X, *label_codes(X.values(X.label), X.codes(X.label), X.source, known))
    elif y is None:
        raise OptionError("fit: give the labels y")
    elif isinstance(X, Layered):
        pass
    elif kind_of(X) == "columns":
        corpus = Corpus.from_sequences(X, y)
        return Labelled(corpus, *label_codes(corpus.values("label"), corpus.codes("label"), known=known))
    return Labelled(X, *codes_of(y, known))


def codes_of(y: Sequence[Sequence[Any]], known: Sequence[Any] = ()) -> LabelCodes:
    """Labels of sentences as codes; those that are known, as by a model, come first."""
    y = checked_sentences(y, "y") if len(y) else y
    column = intern_labels([label for sentence in y for label in sentence], y, "y")
    return label_codes(column.values, column.codes, known=known)


def codes_among(y: Sequence[Sequence[Any]], labels: Sequence[Any]) -> LabelCodes:
    """Labels of sentences as codes of the labels of a model, which has all of them."""
    coded = codes_of(y, labels)
    if len(coded.labels) > len(labels):
        raise OptionError(f"y: no label {coded.labels[len(labels)]!r} in this model")
    return coded


def labelled_pair(dev: Any, name: str = "dev") -> tuple[Any, Any]:
    """Sentences and their labels, given as a pair or as a corpus, which has them itself."""
    dev = listed(dev)
    if isinstance(dev, Corpus):
        return dev, None
    if isinstance(dev, tuple | list) and len(dev) == 2:
        return dev[0], dev[1]
    raise OptionError(f"{name}: expected a pair (X, y) or a Corpus")


def cut(flat: list[str], offsets: Array) -> list[list[str]]:
    bounds = offsets.tolist()
    return [flat[a:b] for a, b in itertools.pairwise(bounds)]
