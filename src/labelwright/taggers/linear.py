"""Taggers whose scores are sums of weights: features, a structure and a learner.

`fit` reads and encodes sentences (features/, and the structure: chains of labels or states,
segments), finds weights (the learner: log-likelihood, perceptron) and stores what was learnt as one
value (`Trained`)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelwright import __version__
from labelwright.answers.batch import Batch, check_lengths, passed_by
from labelwright.answers.chains import CHAIN_DECODERS, decoder_options
from labelwright.corpus.table import Corpus
from labelwright.corpus.token_records import listed
from labelwright.errors import OptionError
from labelwright.evaluate import evaluate
from labelwright.features.extract import Encoded, Extractor, collected, columns_within
from labelwright.features.incidence import Folder
from labelwright.features.template import Template
from labelwright.inspection import facts, use
from labelwright.inspection.explanation import Asked, Explanation, explained
from labelwright.inspection.facts import (
    StateFeature,
    TransitionFeature,
    state_features,
    transition_features,
)
from labelwright.inspection.names import by_vocabulary
from labelwright.inspection.weight_evidence import WeighedSentence
from labelwright.learn.monitor import EVERY, Checkpoints, Monitor, ProgressBar, Record
from labelwright.modelfile import HeaderReader, TensorReader
from labelwright.parallel import Workers
from labelwright.scoring.carry import pruned
from labelwright.scoring.parameters import Parameters, Trained
from labelwright.structures.passing import Candidates, FeatureValues, Passed
from labelwright.structures.states import StateSpace, state_names
from labelwright.taggers.arguments import (
    Data,
    Known,
    Question,
    class_weights,
    codes_among,
    fingerprint,
    labelled_pair,
    of_this_model,
    on_workers,
    permitted_labels,
    tokens_of_labels,
    true_labels,
)
from labelwright.taggers.base import (
    EXPLANATION,
    FORCED,
    JOINT,
    LAYER,
    NBEST,
    PROBABILITY,
    RULES,
    Tagger,
)
from labelwright.taggers.chain_structure import CHAINS, Constrained, Scoring, Source
from labelwright.taggers.estimator import InputSchema, Summary, is_interrupted
from labelwright.taggers.packing import (
    PLAIN,
    Packed,
    constructed,
    template_setting,
)
from labelwright.taggers.training_record import FITTED, TrainingRecord, read_record
from labelwright.wording import counted, percent, plural

Array = NDArray[Any]
R = TypeVar("R")
State = dict[str, Array]
# what they do is in the encoded data; sets have no fixed order
IN_THE_DATA = "dictionaries", "clusters", "vectors"
OF_A_FIT = (  # facts of a record that no longer hold once the model has learnt more
    "stopped", "seconds", "best_iteration", "best_dev", "restarts", "calibration", "compressed",
    "mistakes", "convergence",
)  # fmt: skip


class Development(NamedTuple):
    """The development data."""

    X: Encoded
    y: list[list[str]]


class Run(NamedTuple):
    """How a training run is watched and saved: options of `fit`."""

    development: Development | None
    progress: Callable[[Record, int], None] | None
    places: Checkpoints | None


class UnfinishedError(KeyboardInterrupt):
    """A signal has ended the training of a part, such as a model to start from: what was learnt so
    far."""

    def __init__(self, learnt: Trained, history: Sequence[Any]):
        super().__init__()
        self.learnt, self.history = learnt, list(history)

    def monitor(self) -> Monitor:
        """The monitor of the run that ends with this part."""
        monitor = Monitor(len(self.history), 0.0)
        monitor.history, monitor.interrupted = self.history, True
        return monitor


def finished(model: Any, earlier: Any = None) -> Any:
    """A model to start from, after its training.  Where a signal has ended that, it ends the run;
    the model so far is this one, or the earlier one where this one has learnt nothing yet."""
    if not is_interrupted(model):
        return model
    so_far = model if earlier is None or model.training_["iterations"] else earlier
    raise UnfinishedError(so_far._learnt(), so_far.history_)


def lasting(record: Mapping[str, Any]) -> dict[str, Any]:
    """What still holds of the record of a model that has learnt from further sentences."""
    return {name: value for name, value in record.items() if name not in OF_A_FIT}


def record_of(
    trained: Trained,
    sizes: Mapping[str, int],
    monitors: Sequence[Monitor],
    best: Monitor,
    trains_in: str = "iteration",
) -> dict[str, Any]:
    """What is worth knowing about training, in the model file too: of all runs, and of the best
    one."""
    last, reason = best.history[-1], str(best.reason).replace("iterations", plural(trains_in))
    record: dict[str, Any] = {
        **sizes,
        "features": trained.extractor.n_features,
        "weights": len(trained.weights),
        "iterations": last["iteration"],
        "loss": last["loss"],
        "seconds": round(sum(m.history[-1]["seconds"] for m in monitors), 3),
        "stopped": "interrupted" if monitors[-1].interrupted else reason,
        "labelwright": __version__,
    }
    if best.best_iteration is not None:
        record |= {"best_iteration": best.best_iteration, "best_dev": best.merit}
    if len(monitors) > 1:
        record["restarts"] = [{"loss": m.history[-1]["loss"], "merit": m.merit} for m in monitors]
    return record


class Noise(NamedTuple):
    """Standard deviations of what keeps latent states from staying equal for ever."""

    first: float  # of the first weights
    split: float  # of what is added to those of a trained model


class Weighted:
    """What an estimator with weights has learnt, as one value (`Trained`), and what can be read off
    it."""

    _trained: Trained
    _learner: ClassVar[Any]
    training_: dict[str, Any]  # record of the run: sizes, loss, seconds, why it stopped
    history_: list[dict[str, Any]]  #: a record of each iteration, or of each pass

    # Settings, with the value that stands for one which a tagger does not have.
    template: str | Template
    cells: str
    min_count: int
    max_iter: int | None
    n_jobs: int | None
    random_state: int | None
    verbose: int
    dictionaries: Mapping[str, Any] | None
    clusters: Mapping[str, Mapping[str, str]] | None
    vectors: Any
    class_weight: str | Mapping[str, float] | None = None
    l1: float = 0.0
    l2: float
    tol: float
    order: int = 1
    optimizer: str = "lbfgs"
    averaging: str = "none"
    prune_labels: float | str = "off"
    constraints: str | None = None
    warm_start: bool = False
    forbidden_transitions: Sequence[tuple[str, str]] | None = None
    required_transitions: Sequence[tuple[str, str]] | None = None
    entity_rate: float | None = None
    device: str = "cpu"
    # penalty of what latent states of a label do not share; None: nothing is shared
    _l2_of_states: float | None = None

    def _is_fitted(self) -> bool:
        return "_trained" in self.__dict__

    def _learnt(self) -> Trained:
        """What was learnt; an error, as for any attribute that is missing, where nothing was."""
        self._check_fitted()  # type: ignore[attr-defined]
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
        return self._learnt().extractor

    @property
    def _space(self) -> StateSpace:
        return self._learnt().space

    @property
    def _parameters(self) -> Parameters:
        return self._learnt().parameters

    @property
    def state_features_(self) -> list[StateFeature]:
        """The weights of features on states (and segments) that are not 0, the largest first: rows
        of feature, label (or latent state, type of segment) and weight, which `pandas.DataFrame`
        takes."""
        return state_features(self._learnt())

    @property
    def transition_features_(self) -> list[TransitionFeature]:
        """The weights of transitions, plain or with a feature, that are not 0, the largest first:
        rows of source, target, weight and feature."""
        return transition_features(self._learnt()) if self._learnt().parameters.n_states else []

    def _compressed(self, prune: float, bits: int) -> Self:
        trained = pruned(self._learnt(), prune, bits)
        smaller = type(self)(**self.get_params(deep=False))  # type: ignore[attr-defined]
        smaller._trained, smaller.history_ = trained, getattr(self, "history_", [])
        sizes = {"features": trained.extractor.n_features, "weights": len(trained.weights)}
        smaller.training_ = getattr(self, "training_", {}) | sizes
        return smaller

    def _sizes(self) -> dict[str, int]:
        learnt = self._learnt()
        return {
            "features": learnt.extractor.n_features,
            "weights": int((learnt.weights != 0).sum()),
        }

    def _weight_names(self) -> frozenset[str]:
        return frozenset([*PLAIN, *(f"{kind}.weights" for kind in self._parameters.cells)])

    def _progress_bar(self, title: str = "training") -> ProgressBar:
        """A bar for `fit(progress=...)` that shows what this training is about."""
        return ProgressBar(self.max_iter, self._learner(self).tolerance, title)


class LinearTagger(Weighted, Tagger):
    """A tagger with weights.  Subclasses declare its settings, and name its structure and its
    learner."""

    can: ClassVar[frozenset[str]] = frozenset(
        {PROBABILITY, NBEST, FORCED, RULES, EXPLANATION, LAYER, JOINT}
    )
    decoders: ClassVar[tuple[str, ...]] = CHAIN_DECODERS
    _training_options: ClassVar[frozenset[str]] = frozenset(
        [
            "dev",
            "init",
            "checkpoint",
            "progress",
            "memory_map",
            "sample_weight",
            "partial_labels",
            "partial_fit",
        ]
    ) | {"client"}
    _structure: ClassVar[Any] = CHAINS
    # is a labelling worth its best path, not the sum over its paths?
    _by_paths: ClassVar[bool] = False

    _assemblies: tuple[Parameters, dict[str | None, Constrained]] | None = None

    # -- fit: read, encode, learn, store -----------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Sequence[Sequence[str]] | None = None,
        *,
        dev: Any = None,
        init: "LinearTagger | None" = None,
        checkpoint: Any = None,
        checkpoint_every: float = EVERY,
        resume: bool = False,
        progress: Callable[[Record, int], None] | None = None,
        memory_map: Any = None,
        arrays: Sequence[Any] | None = None,
        sample_weight: Sequence[Any] | None = None,
        client: Any = None,
    ) -> Self:
        """Train on sentences X and their labels y (or on a Corpus, whose label column is y).

        X, y : sentences and their labels, or a Corpus; a label may be None, where it is unknown, or
            a set of labels, one of which is right; in a corpus `_`, or labels separated by `|`
        dev : (X, y) or a Corpus; the weights that do best on it are kept, and training stops when
            it no longer improves
        init : a trained model to start from, of a kind with such weights; labels that have more
            latent states here get copies of its states, with small noise to break the symmetry, as
            do further restarts (warm_start=True starts from the last fit)
        checkpoint : a path where the state of the run is saved, after a second and then
            periodically; further random starts and what else is trained on the way have paths that
            begin with it
        checkpoint_every : seconds between two such saves
        resume : go on from the checkpoint; the result is identical to an uninterrupted run
        progress : called with the record of each iteration (as in `history_`) and the number of
            iterations at most
        memory_map : a folder for temporary files that hold the encoded data, so that they need not
            be in memory; the result is the same
        arrays : numbers beside words and columns, an array [tokens, D] for each sentence, as
            predict takes them
        sample_weight : a number for each sentence, which counts so many times; or a list of numbers
            for each sentence, one for each token: how much a wrong label counts there
        client : a Dask client, whose workers read X, labelwright.scale.Partitions, and train
        """
        self._check_parameters()
        if client is not None:
            how: dict[str, Any] = {
                "checkpoint": checkpoint,
                "checkpoint_every": checkpoint_every,
                "resume": resume,
            }
            one = {
                "y": y,
                "arrays": arrays,
                "memory_map": memory_map,
                "sample_weight": sample_weight,
            }
            with on_workers(X, client, **one) as spread:
                return self.fit(spread, dev=dev, init=init, progress=progress, **how)
        # workers have devices of their own
        if self.device != "cpu" and not hasattr(X, "prepared_for"):
            from labelwright.device.place import Place

            Place(self.device)  # it must be there
        if arrays is not None:
            X, y = with_arrays(X, arrays, listed(y)), None
        folder = None if memory_map is None else Folder(memory_map)
        places = Checkpoints.given(checkpoint, checkpoint_every, resume)
        X, y = collected(X), listed(y)
        tokenizer = self._tokenizer_of(X)
        learner = self._learner(self)
        before, unfinished = None, None
        try:
            before = self._before(init, X, y, places, learner)
        except UnfinishedError as error:  # the run ends with what it should start from
            unfinished = error

        data, trained = self._prepare(X, y, sample_weight=sample_weight)
        if folder is not None:
            data = data._replace(
                incidences={name: folder.mapped(x) for name, x in data.incidences.items()}
            )
        del X, y  # as far as the caller lets them go
        development = None if dev is None else self._development(trained, dev)

        with self._shown(progress) as told:
            if unfinished is None:
                runs = self._runs(data, trained, before, Run(development, told, places), learner)
            else:
                weights = self._structure.carry(unfinished.learnt, self._begun(trained, 0, True))
                runs = [(weights, unfinished.monitor())]

        weights, best = max(runs, key=lambda run: run[1].merit)
        monitors = [monitor for _, monitor in runs]
        self._keep(trained._replace(weights=weights), data, learner, monitors, best)
        self._remember_tokenizer(tokenizer)
        if not monitors[-1].interrupted:
            learner.finish(data, development)
        return self

    def partial_fit(
        self,
        X: Any,
        y: Sequence[Sequence[Any]] | None = None,
        *,
        sample_weight: Sequence[Any] | None = None,
    ) -> Self:
        """Learn from these sentences after all that came before; their features and labels that are
        new become part of the model.  Those that it was trained on are not read again; where they
        are still there, `fit` on all of them is better.

        The penalty of a log-linear model keeps weights near those that were learnt, instead of near
        0.  A perceptron looks once at each sentence, in their order: calls are no passes, "mavg" is
        "avg" here, and a margin that is ours to choose is that of the first call.

        X, y : sentences and their labels, or a Corpus
        sample_weight : as in `fit`
        """
        self._check_parameters()
        self._learner(self).learn_further(X, listed(y), sample_weight)
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._learner(self).check()

    def _before(
        self,
        init: Any,
        X: Any,
        y: Sequence[Sequence[str]] | None,
        places: Checkpoints | None,
        learner: Any,
    ) -> Trained | None:
        """What the model to start from has learnt, if there is one."""
        if init is not None:
            if "init" not in self._training_options:
                raise OptionError(
                    f"init: a {type(self).__name__} starts from nothing; leave it out"
                )
            refusal = self._why_not_from(init)
            if refusal is not None:
                raise OptionError(f"init: got {refusal}")
        elif self.warm_start and self._is_fitted():
            init = self
        else:
            init = self._first_model(X, y, places, learner)
        return None if init is None else init._learnt()

    def _first_model(
        self, X: Any, y: Sequence[Sequence[str]] | None, places: Checkpoints | None, learner: Any
    ) -> "LinearTagger | None":
        """A model that is trained only to start from."""
        return None

    def _prepare(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        more: bool = False,
        old: Trained | None = None,
    ) -> tuple[Data, Trained]:
        """The training data as integers, and what is known before training."""
        made: tuple[Data, Trained]
        if hasattr(X, "prepared_for"):  # on the workers of a cluster
            made = X.prepared_for(self)
        else:
            made = self._structure.prepare(self, Source(X, y, sample_weight, more, old))
        return made

    def _latent_states(self, labels: Sequence[str], more: bool = False) -> list[int]:
        """How many states each label has."""
        n_latent = getattr(self, "n_latent", 1)
        if not isinstance(n_latent, Mapping):
            return [int(n_latent)] * len(labels)
        missing = [label for label in labels if label not in n_latent]
        if missing:
            raise OptionError(
                f"n_latent: no number for the label {missing[0]!r}; give one for every label"
            )
        unknown = [label for label in n_latent if label not in labels]
        if unknown and not more:
            have = ", ".join(map(str, labels))
            raise OptionError(
                f"n_latent: no label {unknown[0]!r} in the training data, which have {have}"
            )
        return [int(n_latent[label]) for label in labels]

    def _runs(
        self, data: Data, trained: Trained, before: Trained | None, run: Run, learner: Any
    ) -> list[tuple[Array, Monitor]]:
        """The weights that each start leads to."""
        runs: list[tuple[Array, Monitor]] = []
        for restart in range(getattr(self, "n_restarts", 1)):
            start = self._begun(trained, restart, before is not None)
            if before is not None:
                start = start._replace(
                    weights=self._structure.carry(before, start, shake=restart > 0)
                )
            place = None if run.places is None else run.places.start(restart + 1)
            dev = run.development
            checkpoint = None if place is None else place.of(self._fingerprint(start, data, dev))
            score = None if dev is None else self._dev_score(start, dev)
            watched: dict[str, Any] = {
                "dev": score,
                "progress": run.progress,
                "checkpoint": checkpoint,
            }
            monitor = Monitor(**learner.stopping() | watched, recorded=learner.recorded)
            runs.append((self._run(learner, start, data, monitor), monitor))
            if monitor.interrupted:
                break
        return runs

    def _begun(self, trained: Trained, restart: int, split: bool) -> Trained:
        """The model with the weights to start from, or to add to those of a model that is split:
        zero, where there is one optimum; small random ones, since equal latent states would stay
        equal for ever."""
        if not trained.space.latent:
            return trained._replace(weights=np.zeros(trained.parameters.n_weights, np.float32))
        rng, noise = (
            np.random.default_rng([self.random_state or 0, restart]),
            self._learner(self).noise,
        )
        deviation = noise.split if split else noise.first
        return trained._replace(
            weights=rng.normal(0, deviation, trained.parameters.n_weights).astype(np.float32)
        )

    def _run(self, learner: Any, start: Trained, data: Data, monitor: Monitor) -> Array:
        """The weights after one run from a starting point."""
        learner.begin(start)
        workers = Workers(self.n_jobs)
        return monitor.run(
            lambda state: learner.optimise(start, data, monitor, workers, state), start.weights
        )

    def _keep(
        self,
        trained: Trained,
        data: Data,
        learner: Any,
        monitors: Sequence[Monitor],
        best: Monitor | None = None,
    ) -> None:
        """Store what was learnt, and what is worth knowing about the run, in the model file too."""
        best = best or monitors[-1]
        record = record_of(trained, data.sizes, monitors, best, self._trains_in)
        self._trained = trained
        self.history_ = [
            dict(record) for record in best.history if set(learner.of_iteration) <= set(record)
        ]
        self.training_ = record | self._structure.facts(trained, data) | learner.facts

    # -- development data, checkpoints -------------------------------------------------------------

    def _development(self, trained: Trained, dev: Any, name: str = "dev") -> Development:
        """Development data, encoded and checked before the first iteration; `name` is what errors
        call them."""
        X, y = labelled_pair(dev, name)
        y = true_labels(name, X, y)
        encoded = self._encoded_by(trained, X)
        check_lengths(y, np.diff(encoded.offsets).tolist(), place=f"{name}: y")
        return Development(encoded, [list(labels) for labels in y])

    def _dev_score(self, trained: Trained, development: Development) -> Callable[[Array], float]:
        """The score on development data of given weights."""

        def labels_of(batch: Batch) -> list[list[str]]:
            return [
                record.labels for record in batch.decode(self._default_decoder, probabilities=False)
            ]

        def score(weights: Array) -> float:
            predicted = self._ask_with(trained._replace(weights=weights), development.X, labels_of)
            return evaluate(development.y, predicted).score

        return score

    def _fingerprint(self, start: Trained, data: Data, dev: Development | None) -> str:
        """A hash of all that decides the course of training."""
        idle = {"n_jobs", "verbose", "warm_start", *IN_THE_DATA, *self._learner(self).may_change}
        # other devices round in their own way
        idle |= {"device"} if self.device == "cpu" else set()
        settings = {k: v for k, v in self.get_params(deep=False).items() if k not in idle}
        arrays = [start.weights, *data.arrays]
        if dev is not None:
            arrays += [dev.X.offsets, *(a for x in dev.X.incidences.values() for a in x)]
        return fingerprint((settings, start.space.labels, dev and dev.y), arrays)

    # -- as a layer of a cascade -------------------------------------------------------------------

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
        """The likelihood of labels as a layer of a cascade (learn.joint.Layer) that passes
        `candidates`, and what the values of its features are made of; without labels, it can only
        pass.  `class_weight` has the weight of each label."""
        if JOINT not in self.can:
            raise OptionError(
                f"a {type(self).__name__} cannot learn together with other layers; use "
                "passing='best'"
            )
        learnt, structure = self._learnt(), self._structure
        if learnt.pruning is not None:
            raise OptionError(
                "joint training: a layer with pruned labels cannot learn with others; use "
                "prune_labels='off'"
            )
        incidences, slots, offsets = learnt.extractor.encode_with_slots(X)
        weights = self.class_weight if class_weight is None else class_weight
        data = structure.layer_data(self, incidences, offsets, y, (weights, sample_weight))
        return structure.objective(
            learnt, data, workers, dtype, slots.places, candidates
        ), slots.values

    def _label_weights(self, y: Sequence[Sequence[Any]]) -> dict[Any, float] | None:
        """The weight of each label by `class_weight`, given the labels of all training data; None
        where all weigh the same."""
        if self.class_weight is None:
            return None
        labels, codes, _ = codes_among(y, self._space.labels)
        weights = class_weights(
            self.class_weight, labels, tokens_of_labels(labels, codes), self._of_part
        )
        return None if weights is None else dict(zip(labels, weights.tolist(), strict=True))

    def _weights_of(self, other: Any) -> Array:
        """The weights of another model for the features and labels of this one; 0 for those that it
        lacks."""
        learnt = self._learnt()
        weights: Array = self._structure.carry(
            other._learnt(), learnt._replace(weights=np.zeros_like(learnt.weights))
        )
        return weights

    # -- what was learnt ---------------------------------------------------------------------------

    @property
    def scheme_(self) -> str | None:  # type: ignore[override]
        """The scheme of the labels, where they follow one."""
        return self._learnt().scheme

    @property
    def classes_(self) -> list[str]:
        """The labels, in the order of first appearance in the training data."""
        return list(self._labels(self._learnt()))

    def _labels(self, trained: Trained) -> Sequence[str]:
        return trained.space.labels

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds: all but what is quickly made again."""
        return {name: value for name, value in self.__dict__.items() if name != "_assemblies"}

    def reads(self) -> InputSchema:
        extractor = self._extractor
        columns = getattr(extractor, "tokens", extractor)  # beside features of segments
        return InputSchema(
            columns.kind, tuple(getattr(columns, "names", ())) if columns.kind == "columns" else ()
        )

    def describe(self, top: int = 5) -> dict[str, Any]:
        self._check_fitted()
        return {"signature": self._signature(), **facts.weighted(self, top)}

    def _describe_use(self, corpora: Sequence[Any], top: int = 5) -> dict[str, Any]:
        self._check_fitted()
        return use.describe_use(self, corpora, top)

    def knows(self, words: Sequence[str]) -> list[bool] | None:
        return by_vocabulary(self._extractor, words)

    def _explained(self, X: Any, words: Sequence[str | None], asked: Asked) -> list[Explanation]:
        return explained(
            lambda: WeighedSentence(self, self.encode(X), asked), self.classes_, words, asked
        )

    def _path_mass(self, X: Any, n: int = 2000) -> Array:
        """The probability of the n best labellings (or latent paths) together, mean over the
        sentences [n]."""
        self._check_fitted()
        return use.path_mass(self, X, n)

    def _trouble(self) -> str | None:
        lost = not np.isfinite(TrainingRecord.of(self.training_).loss or 0.0)
        return f"the loss is no longer a number; {self._learner.remedy}" if lost else None

    def _summary(self) -> Summary:
        record, used = self.training_, int((self.weights_ != 0).sum())
        known = TrainingRecord.of(record)
        weights = counted(len(self.weights_), "weight")
        sizes = [
            weights if used == len(self.weights_) else f"{weights} ({used:,} not zero)",
            counted(self._extractor.n_features, "feature"),
            counted(len(self.classes_), "label"),
            *([f"{self._space.n_states} latent states"] if self._space.latent else []),
        ]
        run = known.counts(sentences="sentence", iterations=self._trains_in)
        if "pruning" in record:
            kept = f"{100 * record['pruning']['kept']:.2f} % of held-out gold labels"
            run.append(f"pruned to {record['pruning']['candidates']:.1f} labels per token ({kept})")
        if "mistakes" in record and "convergence" in record:
            separable = percent(record["convergence"]["separable"])
            run += [counted(record["mistakes"], "mistake"), f"{separable} separable"]
            seconds = (record.get("calibration") or {}).get("seconds")
            run += [] if seconds is None else [f"{seconds:.1f} s of calibration"]
        run += known.time()
        if starts := record.get("restarts"):
            losses, scores = ([each[name] for each in starts] for name in ("loss", "merit"))
            spread = (
                f"best of {len(starts)} starts with losses of {min(losses):,.1f} to "
                f"{max(losses):,.1f}"
            )
            if "best_dev" in record:
                spread += (
                    f" and {100 * min(scores):.2f} to {100 * max(scores):.2f} on the development "
                    "data"
                )
            run.append(spread)
        return Summary(sizes, run, known.stopped or "")

    # -- model file --------------------------------------------------------------------------------

    def pack(self) -> Packed:
        """The tensors and the header of the model file."""
        packed: Packed = self._structure.pack(self, self._learnt())
        return packed

    @classmethod
    def unpack(cls, tensors: Mapping[str, Array], header: Mapping[str, Any]) -> Self:
        """The model that `pack` stored, after checking that everything fits together."""
        arrays, fields = TensorReader.of(tensors), HeaderReader.of(header)
        model: Self = constructed(cls, fields, **template_setting(fields.part("features")))
        model._trained = cls._structure.read(model, arrays, fields)
        columns = columns_within(model._trained.extractor)
        if columns is not None:  # settings that are stored with the features
            given = columns.sources.settings() if columns.sources.order else {}
            given |= {} if columns.numbers.vectors is None else {"vectors": columns.numbers.vectors}
            # which keep dictionaries as they were given, case and all
            if model._trained.segments is not None:
                given.pop("dictionaries", None)
            model.set_params(**given)
        of_iteration = cls._learner.of_iteration
        model.training_, model.history_ = read_record(
            fields, FITTED, of_iteration, weights=model.weights_
        )
        return model

    def _features_read(self) -> tuple[str, Mapping[str, str] | None]:
        return self._extractor.kind, self._extractor.header().get("template")

    # -- sentences in, scores out ------------------------------------------------------------------

    def encode(self, X: Any, *, arrays: Sequence[Any] | None = None) -> Encoded:
        """Turn sentences into features once; every method but `fit` takes the result in place of X.

        X : sentences, or a Corpus
        arrays : an array [tokens, D] of numbers for each sentence, of a model that was trained with
            them
        """
        encoded: Encoded = self._encoded_by(
            self._learnt(), X if arrays is None else with_arrays(X, arrays)
        )
        return encoded

    def _encoded_by(self, trained: Trained, X: Any) -> Any:
        """Sentences as a model that has learnt this reads them."""
        return encode(trained.extractor, X)

    def _with_numbers(self, X: Any, arrays: Sequence[Any]) -> Any:
        return self.encode(X, arrays=arrays)

    def _ask(
        self, X: Any, question: Question[R], forced: Known = None, constraints: str | None = None
    ) -> list[R]:
        return self._ask_with(self._learnt(), X, question, forced, constraints)

    def _ask_with(
        self,
        trained: Trained,
        X: Any,
        question: Question[R],
        forced: Known = None,
        constraints: str | None = None,
    ) -> list[R]:
        """As `_ask`, with what was learnt given as a value: development data are scored so, too."""
        data, structure = self._encoded_by(trained, X), self._structure
        permitted = permitted_labels(forced, data.offsets, self._labels(trained))
        constrained = self._constrained(trained, constraints)
        probabilistic, calibration = self._probabilistic, self._calibration
        if data.offsets[-1] == 0:
            return question(Batch([None] * len(data), 0, probabilistic, calibration))
        workers = Workers(self.n_jobs)
        scoring = Scoring(trained, constrained, data, permitted, workers, self._by_paths)
        blocks, scored = structure.scored_blocks(scoring)

        def answer(begin: int, end: int) -> list[R]:
            return question(Batch(scored(begin, end), begin, probabilistic, calibration))

        return [each for part in workers.run(answer, blocks) for each in part]

    def _constrained(self, trained: Trained, constraints: str | None) -> Constrained:
        """What these constraints allow; kept until the next fit."""
        scheme = None if constraints is None else self._scheme(constraints)
        current = self._assemblies  # another thread may replace it meanwhile
        if current is None or current[0] is not trained.parameters:
            current = self._assemblies = (trained.parameters, {})
        kept = current[1]
        if scheme not in kept:
            kept[scheme] = self._structure.under(trained, scheme)
        return kept[scheme]

    def _ranks(self, decoder: str) -> bool:
        if decoder == "viterbi":  # of a latent model with probabilities, the best path
            return self._by_paths or not self._space.latent
        return super()._ranks(decoder)

    def _decoder_options(self, decoder: str) -> list[str]:
        return (
            decoder_options(decoder)
            if self._structure is CHAINS
            else super()._decoder_options(decoder)
        )

    def _why_one_decoder(self) -> str | None:
        if self._structure is not CHAINS:
            return f"a {type(self).__name__} decodes exactly"
        return None if self._probabilistic else self._lacks(PROBABILITY)

    def _passed_by(self, batch: Batch, cut: float) -> Passed:
        return passed_by(batch, tuple(self.classes_), cut, pairs=self._structure is CHAINS)

    def _state_names(self) -> list[str]:
        return state_names(self._space) if self._structure is CHAINS else super()._state_names()


def with_arrays(X: Any, arrays: Sequence[Any], y: Sequence[Sequence[Any]] | None = None) -> Corpus:
    """A corpus of these sentences with numbers beside their columns."""
    corpus = (
        X if isinstance(X, Corpus) and y is None else Corpus.from_sequences(getattr(X, "X", X), y)
    )
    return corpus.with_arrays(arrays)


def encode(extractor: Extractor, X: Any) -> Encoded:
    """Sentences as features; encoded data come back as they are."""
    if isinstance(X, Encoded):
        return of_this_model(X, extractor.mark)
    X = X if extractor.kind == "dicts" else listed(X)  # dicts are read once, one sentence at a time
    if isinstance(X, list | tuple) and all(
        hasattr(sentence, "__len__") and not len(sentence) for sentence in X
    ):
        return Encoded({}, np.zeros(len(X) + 1, np.int64), extractor.mark)
    incidences, offsets = extractor.encode(X)
    return Encoded(incidences, offsets, extractor.mark)
