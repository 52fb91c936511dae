"""Cascades of taggers: each layer reads the labels of the one below (Azuma & Matsumoto 2011)."""

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelwright import __version__
from labelwright.answers.batch import Batch
from labelwright.corpus.table import Corpus
from labelwright.corpus.token_records import listed
from labelwright.errors import CorpusError, ModelFileError, OptionError, TemplateError
from labelwright.evaluate import evaluate
from labelwright.features.extract import few_tokens, kind_of
from labelwright.features.layered import check_layers_read, lower_layers_read, refuse_labels
from labelwright.features.sources import Lexicon, read_lexicon
from labelwright.inspection import facts
from labelwright.learn import variables as variables_of
from labelwright.learn.joint import Joint
from labelwright.learn.lbfgs import minimised
from labelwright.learn.monitor import EVERY, Checkpoints, Monitor, ProgressBar, Record
from labelwright.modelfile import HeaderReader, TensorReader, pack_strings
from labelwright.parallel import Workers
from labelwright.settings import (
    NOT_NEGATIVE,
    REQUIRED,
    AtLeast,
    Below,
    Default,
    Kind,
    OfTheRun,
    OneOf,
    RecipeOnly,
    settings_of,
)
from labelwright.structures.passing import Passed, certain, joined, mixed, over
from labelwright.taggers import registry
from labelwright.taggers.arguments import Forced, labelled_pair, listed_weights, on_workers
from labelwright.taggers.base import (
    CONFIDENCE,
    EXPLANATION,
    FORCED,
    JOINT,
    LAYER,
    NBEST,
    PROBABILITY,
    RULES,
    SHARES,
    Confidences,
    Tagger,
)
from labelwright.taggers.declared import LOG_LINEAR, chosen, declared
from labelwright.taggers.estimator import InputSchema, Summary, untrained
from labelwright.taggers.layers import (
    LayerRun,
    LayerTables,
    Version,
    joint_fingerprint,
    labelled_layers,
    layer_names,
    layer_settings,
    some,
    stacks,
)
from labelwright.taggers.packing import Packed, constructed, header_of
from labelwright.taggers.training_record import TIMED, TrainingRecord, read_record
from labelwright.wording import counted, either, shown

Array = NDArray[Any]
R = TypeVar("R")
FOLDS = 5
READINGS = 10  # labellings passed by "sample" and "nbest"
NOT_JOINT = (  # settings of a layer: what joint training does not have, and their values without it
    ("l1", "L1 penalty", 0),
    ("prune_labels", "pruned labels", "off", "auto"),
    ("entity_rate", "entity rate", None),
)
# what is asked of all layers at once
ANSWERED = frozenset({NBEST, FORCED, PROBABILITY, CONFIDENCE, EXPLANATION})
REFUSED = {  # arguments and settings of other taggers, and what to do instead
    "label": (
        "a cascade has a label column for each layer; name them in the [[layers]] of the recipe"
    ),
    "scheme": "a cascade has labels in each layer; write scheme = ... in a table of [[layers]]",
    "arrays": "the layers of a cascade read columns and labels, and no arrays; leave it out",
    "dev_arrays": "the layers of a cascade read columns and labels, and no arrays; leave it out",
    "allowed_labels": "a cascade has labels in each layer; write them in the file, as in NN|VB",
    "unmarked": "a cascade has labels in each layer; write _ in the file where they are unknown",
}


class Shares(Kind):
    """A number of 0 or more for each of some layers."""

    expected = "a table of numbers by layer"

    def complaint(self, value: Any) -> str | None:
        if not isinstance(value, Mapping):
            return f"expected {self.expected}, got {shown(value, 60)}"
        wrong = next(
            (name for name, share in value.items() if not NOT_NEGATIVE.accepts(share)), None
        )
        return (
            None
            if wrong is None
            else f"{wrong}: expected a number of 0 or more, got {shown(value[wrong], 60)}"
        )


# fmt: off
CASCADE = LOG_LINEAR | declared(
    layers=(Sequence[tuple[str, Any]], REQUIRED,
        "Pairs of a name and a tagger, the lowest first: CRF, LatentCRF, SemiCRF; with passing "
        "best also perceptrons, with best and marginal memory-based and n-gram taggers; "
        "LatticeTagger, with joint only as the lowest. Templates read the labels below by %y[row] "
        "or %y[row,NAME]; one without it gets the usual lines.",
        LayerTables(), RecipeOnly()),
    passing=(str, "joint",
        "What a layer passes upwards: its best labels, all likely labels by their marginal "
        "probabilities, joint (the same, then all layers learn together), labels of a sample of "
        "labellings, or of the nbest.",
        OneOf("best", "marginal", "joint", "sample", "nbest")),
    shares=(Mapping[str, float] | None, None, (
        "Weight of the loss of each layer in joint training, by "
        "name."
    ),
        Shares(), RecipeOnly(), Default("1 each")),
    jackknife=(bool, False,
        "Train upper layers on labels of sentences that the lower layers were not trained on (5 "
        "parts); above memory-based and n-gram taggers that is always so."),
    cut=(float, 0.001, (
        "Labels less probable than this are not "
        "passed."
    ), AtLeast(0), Below(1), RecipeOnly()),
    lexicon=(str | None, None,
        "Name of a layer: the labels of it that each word had in training become one more column, "
        "as in NN|VB, which %each reads.", RecipeOnly()),
)
# fmt: on


class _OfItsLayers:
    """What a cascade can do: answer what all its layers can, and keep the rules of those that
    can."""

    def __get__(self, cascade: "Cascade | None", kind: type) -> frozenset[str]:
        if cascade is None:  # of the class, nothing is known
            return frozenset()
        models = vars(cascade).get("layers_") or dict(cascade.layers)
        abilities = [model.can for model in models.values()]
        return ANSWERED.intersection(*abilities) | frozenset().union(*abilities) & {RULES}


class Cascade(Confidences, Tagger):
    """Layers of taggers over the same sentences, the lowest first; each reads the input and the
    labels below it.

    Every answer is {layer: answer}; probabilities are those of a layer given what it is passed.

    >>> X = [["the", "dog", "barks"], ["a", "bird", "sings"]]
    >>> y = {"pos": [["D", "N", "V"]] * 2, "chunk": [["B-NP", "I-NP", "B-VP"]] * 2}
    >>> from labelwright import CRF
    >>> cascade = Cascade([("pos", CRF()), ("chunk", CRF())], n_jobs=1).fit(X, y)
    >>> cascade.predict([["the", "bird", "barks"]])
    {'pos': [['D', 'N', 'V']], 'chunk': [['B-NP', 'I-NP', 'B-VP']]}
    """

    can = _OfItsLayers()  # type: ignore[assignment]
    _training_options: ClassVar[frozenset[str]] = frozenset(
        {
            "dev",
            "progress",
            "layer_progress",
            "checkpoint",
            "sample_weight",
            "partial_labels",
            "partial_fit",
            "client",
        }
    )
    layers_: dict[str, Any]
    inputs_: tuple[str, ...]  # names of the columns of input
    lexicon_: Lexicon | None
    history_: list[dict[str, Any]]  #: a record of each iteration, or of each pass

    layers: Sequence[tuple[str, Any]]
    passing: str
    shares: Mapping[str, float] | None
    jackknife: bool
    cut: float
    lexicon: str | None
    max_iter: int | None
    tol: float
    random_state: int | None
    verbose: int

    _declared = chosen(
        "layers passing shares jackknife cut lexicon max_iter tol n_jobs random_state verbose",
        CASCADE,
    )

    # -- training ----------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        dev: Any = None,
        checkpoint: Any = None,
        checkpoint_every: float = EVERY,
        resume: bool = False,
        progress: Callable[[Record, int], None] | None = None,
        layer_progress: Callable[[str, Any], Any] | None = None,
        sample_weight: Sequence[Any] | None = None,
        client: Any = None,
    ) -> Self:
        """Train on sentences X and the labels of every layer: y = {name: labels}, or a Corpus with
        columns so named. For scikit-learn, which chooses among sentences, y may also have an item
        for each sentence: a list with a tuple of labels for each token, or a frame with a column
        for each layer.

        X, y : the data, as above; labels may be unknown or sets of labels, as those of a CRF
        dev : (X, y) or a Corpus; joint training keeps the weights that do best on it, by the mean
            of the layers' scores; without joint training every layer keeps its best weights and
            stops early
        checkpoint : a path where the state of joint training is saved; paths of layers begin with
            it
        checkpoint_every : seconds between two such saves, of which the first is after one second
        resume : go on from the checkpoint, without training finished layers again; the result is
            identical to an uninterrupted run
        progress : called with every iteration of joint training
        layer_progress : called with the name and the model of each layer before it is trained (once
            for each part of the jackknife, too), gives what is called with every iteration of it;
            closed afterwards if it can be
        sample_weight : a number for each sentence, or a list of numbers, one for each token; for
            all layers
        client : a Dask client, whose workers read X, labelwright.scale.Partitions, and train
        """
        self._check_parameters()
        if client is not None:
            how: dict[str, Any] = {
                "checkpoint": checkpoint,
                "checkpoint_every": checkpoint_every,
                "resume": resume,
            }
            with on_workers(X, client, y=y, sample_weight=sample_weight) as spread:
                return self.fit(
                    spread, dev=dev, progress=progress, layer_progress=layer_progress, **how
                )
        places = Checkpoints.given(checkpoint, checkpoint_every, resume)
        names = [name for name, _ in self.layers]
        spread = hasattr(X, "layered")  # over the workers of a cluster, which know the labels
        X, gold = (X.layered(self), {}) if spread else labelled_layers(X, y, names, partial=True)
        sample_weight = None if sample_weight is None else listed_weights(sample_weight)
        development = None if dev is None else labelled_layers(*labelled_pair(dev), names, "dev: ")
        for attribute in ("layers_", "before_"):
            self.__dict__.pop(attribute, None)
        begun = time.monotonic()
        self.inputs_ = X.input_names if spread or isinstance(X, Corpus) else ()
        tokenizer = self._tokenizer_of(X)
        self.lexicon_ = None
        source = X if spread else self._input(X)
        if self.lexicon is not None:
            self.lexicon_, source = Lexicon.learn(_columns(X), gold[self.lexicon])
        run = LayerRun(self._fresh, layer_progress, sample_weight, places)
        by_layer = None if self.learns_together else development
        self.layers_, inputs, versions = self._train_layers(run, source, gold, by_layer)
        self.history_ = [
            dict(record) for record in getattr(self.layers_[names[-1]], "history_", ())
        ]
        self.training_ = {"layers": {name: model.training_ for name, model in self.layers_.items()}}
        try:
            if self.learns_together and not run.interrupted:
                self.before_ = self._with_weights(
                    np.concatenate([model.weights_ for model in self.layers_.values()])
                )
                self._learn_together(
                    inputs, gold, versions, sample_weight, development, progress, places
                )
        except BaseException:
            del self.layers_  # no mixture of weights is left behind
            raise
        self.training_ |= {
            "seconds": round(time.monotonic() - begun, 3),
            "interrupted": run.interrupted
            or self.training_.get("joint", {}).get("stopped") == "interrupted",
            "labelwright": __version__,
        }
        self._remember_tokenizer(tokenizer)
        return self

    def partial_fit(
        self, X: Any, y: Any = None, *, sample_weight: Sequence[Any] | None = None
    ) -> Self:
        """Every layer in turn learns from further sentences by its own `partial_fit`, over what the
        layers below say of them; layers do not learn together here.

        X, y, sample_weight : as in `fit`
        """
        if not self._is_fitted():
            return self.fit(X, y, sample_weight=sample_weight)
        self._check_parameters()
        if self.lexicon is not None:
            raise OptionError(
                "partial_fit: the lexicon is of all training data; fit the cascade again"
            )
        X, gold = labelled_layers(X, y, list(self.layers_), partial=True)
        grown, read = dict[str, Any](), self._input(X)
        for name, model in self.layers_.items():
            if "partial_fit" not in model._training_options:
                raise OptionError(
                    f"partial_fit: the layer {name} is a {type(model).__name__}, which cannot; fit "
                    "again"
                )
            grown[name] = copy.copy(model).partial_fit(
                read, gold[name], sample_weight=sample_weight
            )
            if len(grown) < len(self.layers_):
                read = over(read, name, self._passed(grown[name], read))
        self._set_layers(grown)
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        names = [name for name, _ in self.layers]
        for k, (name, model) in enumerate(self.layers):
            try:
                self._check_layer(model, names[:k], names[k:])
            except (OptionError, TemplateError) as error:
                raise type(error)(f"layers: {name}: {error}") from None
        if self.lexicon is not None and self.lexicon not in names:
            raise OptionError(
                f"lexicon: expected a layer, one of {', '.join(names)}, got {self.lexicon!r}"
            )
        for name in self.shares or ():
            if name not in names:
                raise OptionError(f"shares: no layer {name!r}, expected one of {', '.join(names)}")

    def _check_layer(self, model: Any, below: Sequence[str], others: Sequence[str]) -> None:
        """Refuse a layer that does not pass what is asked for, cannot be passed it, cannot learn
        with others, or reads the labels of layers which are not below it."""
        kind, template = type(model).__name__, getattr(model, "template", None)
        reads_best = bool(below) and getattr(model, "_labels_as_columns", False)
        if self.learns_together and reads_best:
            raise OptionError(
                f"a {kind} above other layers reads their best labels, which have no gradients for "
                "joint training; use passing='marginal' or 'best'"
            )
        if JOINT not in model.can and model.can & {PROBABILITY, SHARES} and self.passing == "joint":
            raise OptionError(f"{model._lacks(JOINT)} training; use passing='marginal'")
        passes = ("best", "marginal") if SHARES in model.can else ("best",)
        if PROBABILITY not in model.can and self.passing not in passes:
            use = either([f"passing={way!r}" for way in passes])
            raise OptionError(f"a {kind} has no probabilities to pass; use {use}")
        model._check_parameters()
        for setting, what, *fitting in NOT_JOINT if self.learns_together else ():
            if getattr(model, setting, fitting[0]) not in fitting:
                use = f"use {setting}={fitting[0]!r}, or passing='marginal'"
                raise OptionError(f"joint training has no {what}; {use}")
        if template is not None and reads_best:
            refuse_labels(template, kind)
        elif template is not None and below:
            check_layers_read(template, below, others)

    @classmethod
    def _refusal(cls, setting: str) -> str | None:
        if setting in REFUSED:
            return REFUSED[setting]
        of_layers = any(setting in layer_settings(name) for name in layer_names())
        return "belongs to a layer; write it in a table of [[layers]]" if of_layers else None

    @classmethod
    def _label_columns(cls, recipe: Mapping[str, Any]) -> dict[str, str | None]:
        return {table["name"]: table.get("scheme") for table in recipe["layers"]}

    @property
    def learns_together(self) -> bool:
        """Whether all layers are trained together in the end."""
        return self.passing == "joint" and len(self.layers) > 1

    def _remember_input(self, columns: list[str], label: str | None) -> None:
        self.training_["columns"] = columns
        for name, layer in self.layers_.items():
            layer._remember_input(columns, name)

    def _forget_run(self) -> None:
        super()._forget_run()
        for layer in self.layers_.values():
            layer._forget_run()

    def _progress_bar(self, title: str = "training") -> ProgressBar:
        return ProgressBar(self.max_iter, self.tol, title)

    def _trouble(self) -> str | None:
        records = [*self.training_["layers"].values(), *filter(None, [self.training_.get("joint")])]
        sound = all(np.isfinite(record.get("loss") or 0.0) for record in records)
        return None if sound else "the loss is no longer a number; raise the l2 of the layers"

    def _summary(self) -> Summary:
        record, layers = self.training_, list(self.training_["layers"].values())
        lowest = TrainingRecord.of(layers[0])
        weighed = [facts.sizes(layer) for layer in self.layers_.values() if layer._sizes()]
        weights, features = (
            sum(each[name] for each in weighed) for name in ("n_weights", "n_features")
        )
        labels = [
            f"{name} {counted(len(layer.classes_), 'label')}"
            for name, layer in self.layers_.items()
        ]
        sizes = [
            *([counted(weights, "weight"), counted(features, "feature")] if weights else []),
            f"{counted(len(layers), 'layer')} ({', '.join(labels)})",
        ]
        joint = record.get("joint")
        turns = [f"{counted(joint['iterations'], 'iteration')} together"] if joint else []
        run = [*lowest.counts(sentences="sentence"), *turns, *TrainingRecord.of(record).time()]
        stops = {name: layer._summary().stopped for name, layer in self.layers_.items()}
        reasons = [f"{name}: {reason}" for name, reason in stops.items() if reason]
        return Summary(sizes, run, str(joint["stopped"]) if joint else "; ".join(reasons))

    def _fresh(self, model: Any) -> Any:
        """An untrained copy, with this cascade's threads and seed where it has none of its own."""
        fresh = model._untrained()
        for name in ("n_jobs", "random_state"):
            if getattr(fresh, name, 0) is None:
                setattr(fresh, name, getattr(self, name))
        fresh.verbose = fresh.verbose or self.verbose
        if self.learns_together and getattr(fresh, "prune_labels", None) == "auto":
            fresh.set_params(prune_labels="off")  # layers with pruned labels cannot learn together
        return fresh

    def _train_layers(
        self,
        run: LayerRun,
        source: Any,
        gold: Mapping[str, Sequence[Sequence[str]]],
        development: tuple[Any, dict[str, Any]] | None,
    ) -> tuple[dict[str, Any], list[Any], list[list[Version]]]:
        """The layers, trained one after the other, with what each reads and (but of the last) which
        models say what it passes."""
        trained, inputs, versions, dev = dict[str, Any](), [source], [], None
        read = None if development is None else self._input(development[0])
        for k, (name, model) in enumerate(self.layers):
            if development is not None:
                dev = read, development[1][name]
            if not gold:
                inputs[k] = inputs[k].of_layer(name)
            layer = trained[name] = run.train(name, model, inputs[k], gold.get(name), dev=dev)
            if k + 1 < len(self.layers) and not gold:
                inputs.append(inputs[k].over(name, layer))
                read = None if read is None else over(read, name, self._passed(layer, read))
            elif k + 1 < len(self.layers):
                passed, of_layer = self._trained_passing(run, name, layer, inputs[k], gold[name])
                versions.append(of_layer)
                inputs.append(over(inputs[k], name, passed))
                read = None if read is None else over(read, name, self._passed(layer, read))
        return trained, inputs, versions

    def _trained_passing(
        self, run: LayerRun, name: str, trained: Any, X: Any, gold: Sequence[Sequence[str]]
    ) -> tuple[Passed, list[Version]]:
        """What a layer passes of its training data, and the models that say so of which
        sentences."""
        n = len(gold)
        # a memory knows the sentences that it was trained on
        held_out = self.jackknife or SHARES in trained.can
        if not held_out or n < 2:
            return self._passed(trained, X), [Version(0, n, trained)]
        parts, versions, model = [], [], trained._like()
        for a, b in pairwise(np.linspace(0, n, min(FOLDS, n) + 1).astype(int).tolist()):
            other = trained
            if not run.interrupted:
                other = run.train(
                    name, model, some(X, [(0, a), (b, n)]), [*gold[:a], *gold[b:]], (a, b)
                )
            parts.append(self._passed(other, some(X, [(a, b)])).relabelled(tuple(trained.classes_)))
            versions.append(Version(a, b, other))
        return joined(parts), versions

    def _learn_together(
        self,
        inputs: list[Any],
        gold: Mapping[str, Sequence[Sequence[str]]],
        versions: list[list[Version]],
        sample_weight: list[Any] | None,
        development: tuple[Any, dict[str, Any]] | None,
        progress: Any,
        places: Checkpoints | None,
    ) -> None:
        """Maximise the shares of all layers' likelihoods, from where each alone has arrived."""
        models, workers = list(self.layers_.values()), Workers(self.n_jobs)
        dev, checkpoint = (
            None if development is None else partial(self._score_with, *development),
            None,
        )
        if places is not None:
            labels = [] if development is None else [development[1], self.predict(development[0])]
            checkpoint = places.of(
                joint_fingerprint(self.get_params(deep=False), self.layers_, versions, labels)
            )
        start = np.concatenate([model.weights_ for model in models])
        penalties = [(float(getattr(model, "l2", 0.0)), model._l2_of_states) for model in models]
        spaces = [(model._trained.parameters, model._trained.space) for model in models]
        parts = [
            variables_of.of_model(*each, 0.0, *own)
            for each, own in zip(spaces, penalties, strict=True)
        ]
        variables = variables_of.joined(parts)

        def optimise(state: dict[str, Array] | None) -> Array:
            if not gold:  # on the workers of a cluster
                return minimised(
                    inputs[0].objective(self), start, variables, monitor, workers, state
                )
            made = stacks(
                self.layers_,
                inputs,
                gold,
                versions,
                self.shares or {},
                workers,
                sample_weight=sample_weight,
            )
            sizes = [len(model.weights_) for model in models]
            return minimised(Joint(made, sizes), start, variables, monitor, workers, state)

        watched: dict[str, Any] = {"dev": dev, "dev_from": 0, "checkpoint": checkpoint}
        with self._shown(progress) as told:
            monitor = Monitor(self.max_iter or 1000, self.tol, **watched, progress=told)
            weights = monitor.run(optimise, start)
        self.layers_ = self._with_weights(weights).layers_
        self.history_ = [dict(record) for record in monitor.history]
        reason = "interrupted" if monitor.interrupted else monitor.reason
        last = self.history_[-1]
        self.training_["joint"] = {
            "iterations": last["iteration"],
            "loss": last["loss"],
            "stopped": reason,
        }
        if monitor.best_iteration is not None:
            self.training_["joint"] |= {
                "best_iteration": monitor.best_iteration,
                "best_dev": monitor.merit,
            }

    def _score_with(self, X: Any, gold: Mapping[str, Any], weights: Array) -> float:
        """The mean score of the layers on development data under these weights."""
        predicted = self._with_weights(weights).predict(X)
        return sum(evaluate(gold[name], predicted[name]).score for name in predicted) / len(
            predicted
        )

    def _with_weights(self, weights: Array) -> "Cascade":
        """A copy whose layers have these weights [of all layers in a row]."""
        twin, begin = copy.copy(self), 0
        twin.layers_ = {}
        for name, model in self.layers_.items():
            end = begin + len(model.weights_)
            twin.layers_[name] = copy.copy(model)
            twin.layers_[name]._assemblies = model._assemblies
            twin.layers_[name]._trained = model._trained._replace(weights=weights[begin:end].copy())
            begin = end
        return twin

    # -- outputs -----------------------------------------------------------------------------------

    def _is_fitted(self) -> bool:
        return "layers_" in vars(self)

    @property
    def _outputs(self) -> dict[str, Any]:
        self._check_fitted()
        return self.layers_

    @property
    def classes_(self) -> dict[str, list[str]]:  # type: ignore[override]
        """The labels of each layer."""
        return {name: layer.classes_ for name, layer in self._outputs.items()}

    def encode(self, X: Any) -> Any:
        """Refused: what a layer reads depends on those below.

        X : sentences, or a Corpus
        """
        self._check_fitted()
        raise OptionError(
            "encode: each layer of a cascade encodes what those below pass; give the sentences"
        )

    def _sized(self, X: Any) -> Any:
        return listed(X)

    def _unwrapped(self, answers: Mapping[str, Any], kind: type[dict[str, Any]] = dict) -> Any:
        return kind(answers)

    def _by_output(self, word: str, given: Any) -> Mapping[str, Any]:
        """What is given for each layer.  One scheme for all holds in those whose labels follow one,
        and one label to compare with in those that have it."""
        layers = self._outputs
        if word == "constraints" and isinstance(given, str):
            return {name: given for name, layer in layers.items() if layer.scheme_ is not None}
        if word == "against" and given is not None:
            having = {name: given for name, layer in layers.items() if given in layer.classes_}
            if not having:
                raise OptionError(f"against: no layer has a label {given!r}")
            return having
        if given is not None and not isinstance(given, Mapping):
            expected = f"expected {{layer: ...}}, one of {', '.join(layers)}"
            raise OptionError(f"{word}: {expected}, got {type(given).__name__}")
        for name in given or ():
            if name not in layers:
                raise OptionError(f"{word}: no layer {name!r}, expected one of {', '.join(layers)}")
        return given or {}

    def _ask_outputs(
        self,
        X: Any,
        question: Callable[[str, Any, Batch], list[R]],
        forced: Mapping[str, Forced] | None = None,
        constraints: str | Mapping[str, str] | None = None,
    ) -> dict[str, list[R]]:
        """question(name, layer, batch) for every layer, the lowest first: the answers about all
        sentences, by layer.

        A layer is encoded once, and scored once for its answers and for what it passes on (again
        only under constraints, which what is passed on knows nothing of).

        forced : known labels of some layers, {name: as `decode` of a single tagger takes them};
            those above know them
        constraints : one name holds for the layers whose labels follow a scheme"""
        known, schemes = (
            self._by_output("forced", forced),
            self._by_output("constraints", constraints),
        )
        X = listed(X)
        if isinstance(X, list | tuple) and not X:
            return {name: question(name, model, Batch([])) for name, model in self.layers_.items()}
        few = self.lexicon_ is None and few_tokens(X, len(self.inputs_)) is not None
        # a few tokens in plain lists are read fastest as they are
        read = X if few else self._input(X)
        answers: dict[str, list[R]] = {}
        for name, model in self.layers_.items():
            data, scheme = self._encoded(model, read), schemes.get(name)
            passes = name != [*self.layers_][-1]

            def block(
                batch: Batch,
                name: str = name,
                model: Any = model,
                ready: bool = passes and scheme is None,
            ) -> list[tuple[list[R], list[Passed]]]:
                return [
                    (
                        question(name, model, batch),
                        [self._layer_passes(model, batch)] if ready else [],
                    )
                ]

            blocks = model._ask(data, block, known.get(name), scheme)
            answers[name] = [answer for part, _ in blocks for answer in part]
            if passes:
                passed = [part for _, parts in blocks for part in parts]
                read = over(
                    read,
                    name,
                    joined(passed) if passed else self._passed(model, data, known.get(name)),
                )
        return answers

    def _readings(self, X: Any) -> Iterator[tuple[str, Any, Any]]:
        """Every layer with what it reads of sentences, the lowest first."""
        read = self._input(X)
        for name, layer in self.layers_.items():
            data = self._encoded(layer, read)
            yield name, layer, data
            if name != [*self.layers_][-1]:
                read = over(read, name, self._passed(layer, data))

    def _input(self, X: Any) -> Any:
        """What the lowest layer reads of sentences."""
        if isinstance(X, Corpus):
            names: Sequence[str] = self.inputs_
            if not set(names) <= set(X.names):  # under other names, as many
                names = [name for name in X.input_names if name not in dict(self.layers)]
            if len(names) != len(self.inputs_):
                reads = f"the cascade reads the columns {','.join(self.inputs_)}"
                raise CorpusError(f"{X.source}: {reads}, got {','.join(X.names)}")
            X = X.select(names)
        elif kind_of(X) == "columns":
            X = Corpus.from_sequences(X, reads=self.inputs_)
        return X if self.lexicon_ is None else self.lexicon_.column(_columns(X))

    def _encoded(self, model: Any, X: Any) -> Any:
        """What a layer reads, encoded once; shares of votes come only from the sentences
        themselves."""
        return X if SHARES in model.can else model.encode(X)

    def _passed(self, model: Any, X: Any, forced: Forced | None = None) -> Passed:
        """What a trained layer passes to the next."""
        return joined(model._ask(X, lambda batch: [self._layer_passes(model, batch)], forced))

    def _layer_passes(self, model: Any, batch: Batch) -> Passed:
        """What a trained layer passes of sentences that it has scored."""
        labels = tuple(model.classes_)
        if self.passing == "best":
            records = batch.decode(model._checked_decoder(None), probabilities=False)
            return certain(labels, [record.labels for record in records])
        if self.passing == "nbest":
            return mixed(labels, [_normalised(readings) for readings in batch.raw.nbest(READINGS)])
        if self.passing == "sample":
            return mixed(labels, batch.raw.sample(READINGS, self.random_state))
        passed: Passed = model._passed_by(batch, self.cut)
        return passed

    def reads(self) -> InputSchema:
        lowest = next(iter(self._outputs.values())).reads()
        return InputSchema(lowest.kind, tuple(self.inputs_))

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name, those of layers as in `pos__l2`.  What belongs to the run, as
        `pos__n_jobs` and `word__lattices`, holds for trained layers, too.

        **parameters : settings and their new values
        """
        super().set_params(**parameters)
        for name, layer in vars(self).get("layers_", {}).items():
            of_run = [
                setting.name
                for setting in settings_of(type(layer)).values()
                if setting.has(OfTheRun)
            ]
            given = {
                each: parameters[f"{name}__{each}"]
                for each in of_run
                if f"{name}__{each}" in parameters
            }
            layer.set_params(**given)
        return self

    # -- calibration -------------------------------------------------------------------------------

    def _like(self) -> Self:
        part: Self = untrained(self, part=True)
        return part

    def _labelled_by_output(self, X: Any, y: Any) -> tuple[Any, dict[str, Any]]:
        return labelled_layers(
            X, y, list(self.layers_), "calibrate: " if y is not None else "", partial=True
        )

    def _set_calibrations(self, records: Mapping[str, dict[str, Any]], seconds: float) -> None:
        calibrated = {name: copy.copy(layer) for name, layer in self.layers_.items()}
        for name, layer in calibrated.items():
            layer._set_calibration(records[name])
        self._set_layers(calibrated)

    def uncalibrated(self) -> Self:
        """This cascade without the calibration of its layers."""
        self._check_fitted()
        raw = copy.copy(self)
        raw._set_layers({name: layer.uncalibrated() for name, layer in self.layers_.items()})
        return raw

    def _set_layers(self, layers: dict[str, Any]) -> None:
        self.layers_ = layers
        self.training_ = {
            **self.training_,
            "layers": {name: layer.training_ for name, layer in layers.items()},
        }

    # -- what was learnt, for people ---------------------------------------------------------------

    def describe(self, top: int = 5) -> dict[str, Any]:
        self._check_fitted()
        return facts.layered(
            self, {name: layer._signature() for name, layer in self.layers_.items()}
        )

    def _signature(self) -> str:
        """One line that says how each layer was made."""
        layers = [f"{name}:{layer._signature()}" for name, layer in self.layers_.items()]
        return "|".join(["cascade", f"passing:{self.passing}", *layers])

    def knows(self, words: Sequence[str]) -> list[bool] | None:
        known: list[bool] | None = next(iter(self._outputs.values())).knows(words)
        return known

    def _compressed(self, prune: float, bits: int) -> Self:
        smaller = copy.copy(self)
        smaller._set_layers(
            {
                n: each.compressed(prune, bits) if each._sizes() else copy.copy(each)
                for n, each in self.layers_.items()
            }
        )
        return smaller

    def _sizes(self) -> dict[str, int]:
        layers = [sizes for layer in self.layers_.values() if (sizes := layer._sizes())]
        return {
            name: sum(sizes[name] for sizes in layers) for name in (layers[0] if layers else ())
        }

    def _weight_names(self) -> frozenset[str]:
        layers = enumerate(self.layers_.values())
        return frozenset(
            f"layer{i}.{name}" for i, layer in layers for name in layer._weight_names()
        )

    # -- files -------------------------------------------------------------------------------------

    def pack(self) -> Packed:
        """The tensors and the header of the model file: layer{i}.* are those of each layer."""
        tensors: dict[str, Array] = {}
        layers: list[dict[str, Any]] = []
        for i, (name, layer) in enumerate(self.layers_.items()):
            stored, header = layer.pack()
            tensors |= {f"layer{i}.{key}": tensor for key, tensor in stored.items()}
            layers.append({"name": name, "model": header})
        if self.lexicon_ is not None:
            words = self.lexicon_.words
            tensors["lexicon.text"], tensors["lexicon.offsets"] = pack_strings(list(words))
            tensors["lexicon.had"], tensors["lexicon.had.offsets"] = pack_strings(
                list(words.values())
            )
        records = {name: layer.training_ for name, layer in self.layers_.items()}
        own = {
            "inputs": list(self.inputs_),
            "layers": layers,
            "training": self.training_ | {"layers": records},
        }
        return tensors, header_of(self) | own

    @classmethod
    def unpack(cls, tensors: Mapping[str, Array], header: Mapping[str, Any]) -> Self:
        """The cascade that `pack` stored; each layer is read by its own model."""
        tensors, header = TensorReader.of(tensors), HeaderReader.of(header)
        layers: dict[str, Any] = {}
        for i, layer in enumerate(header.parts("layers")):
            model = layer.part("model")
            kind = registry.class_named(model.text("kind"))
            if LAYER not in getattr(kind, "can", ()) or not hasattr(kind, "unpack"):
                raise model.refuse("kind", "a tagger that can be a layer")
            tagger = kind.unpack(tensors.part(f"layer{i}."), model)
            if not tagger.training_ or "imported_from" in tagger.training_:
                raise model.refuse("training", "the record of a layer that was trained")
            _check_read(i, tagger, list(layers))
            layers[layer.text("name")] = tagger
        if not layers or len(layers) != len(header.listed("layers")):
            raise header.refuse("layers", "one layer or more, each with a name of its own")
        cascade: Self = constructed(
            cls, header, layers=[(name, model._untrained()) for name, model in layers.items()]
        )
        cascade.layers_, cascade.inputs_ = layers, tuple(header.names("inputs"))
        cascade.lexicon_ = read_lexicon(tensors) if "lexicon.text" in tensors else None
        # which may also read the column of the lexicon
        lowest = next(iter(layers.values())).reads()
        n = len(lowest.columns) - (cascade.lexicon_ is not None) if lowest.kind == "columns" else 0
        if len(cascade.inputs_) != n:
            raise header.refuse("inputs", f"{n} columns, as the lowest layer reads them")
        training, cascade.history_ = read_record(header, TIMED, of_layers=True)
        for when, scores in training.get("dev", {}).items():
            if when in ("before", "after") and not set(scores) <= set(layers):
                raise (
                    header.part("training")
                    .part("dev")
                    .refuse(when, f"scores of {', '.join(layers)}")
                )
        if "joint" in training and not cascade.history_:
            raise header.refuse("history", "the iterations of joint training")
        cascade.training_ = training | {
            "layers": {name: layer.training_ for name, layer in layers.items()}
        }
        return cascade


def _check_read(i: int, layer: Any, lower: Sequence[str]) -> None:
    """Refuse a layer of a file that reads the labels of others than these."""
    if getattr(layer, "_labels_as_columns", False):
        kind, columns = layer.reads()
        if kind == "columns" and lower and tuple(columns[-i:]) != tuple(lower):
            raise ModelFileError(
                f"layer {i + 1}: expected the columns {', '.join(lower)} of labels below"
            )
        return
    if ("above" in layer._extractor.header()) != (i > 0):
        raise ModelFileError(
            f"layer {i + 1}: expected features that {'' if i else 'do not '}read labels below"
        )
    try:
        lower_layers_read(layer._extractor, lower)
    except TemplateError as error:
        raise ModelFileError(f"layer {i + 1}: {error}") from None


def _columns(X: Any) -> Corpus:
    if not isinstance(X, Corpus):
        raise OptionError("lexicon: only words and columns have one, got feature dicts or arrays")
    return X


def _normalised(readings: list[tuple[list[str], float]]) -> list[tuple[list[str], float]]:
    """The shares of n-best labellings; equal ones where all are too improbable for a number."""
    whole = sum(p for _, p in readings)
    return [(labels, p / whole if whole > 0 else 1 / len(readings)) for labels, p in readings]
