"""Cascades of taggers: each layer reads the labels of the one below (Azuma & Matsumoto 2011)."""

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelwright import __version__
from labelwright.answers.batch import Batch, check_lengths
from labelwright.answers.labellings import Labellings, LayeredLabellings
from labelwright.corpus.labels import labels_by_layer
from labelwright.corpus.spans import Span
from labelwright.corpus.table import Corpus
from labelwright.corpus.tabular import is_missing
from labelwright.decode import Decoding
from labelwright.decode.checks import MOST, check_whole
from labelwright.engine.choice import expect_much
from labelwright.errors import CorpusError, ModelFileError, NotFittedError, OptionError
from labelwright.evaluate import evaluate
from labelwright.features.extract import few_tokens, kind_of
from labelwright.features.lexicon import Lexicon, read_lexicon
from labelwright.inspection import cascade as inspection
from labelwright.inspection.explanation import Asked, Explanation
from labelwright.learn.joint import Joint
from labelwright.learn.lbfgs import lbfgs
from labelwright.learn.monitor import Monitor, ProgressBar, Record
from labelwright.modelfile import pack_strings
from labelwright.parallel import Workers, one_blas_thread
from labelwright.settings import AtLeast, Below, Default, Help, OneOf, RecipeOnly
from labelwright.structures.passing import Layered, Passed, certain, joined, mixed
from labelwright.taggers import declared, registry
from labelwright.taggers.base import (
    EXPLANATION,
    FORCED,
    JOINT,
    NBEST,
    PROBABILITY,
    RULES,
    Constraints,
    Forced,
    in_batches,
    listed,
    one_sentence,
    rules_among,
    shown_words,
)
from labelwright.taggers.estimator import Estimator, InputSchema, Summary
from labelwright.taggers.kinds import Shares
from labelwright.taggers.layers import LayerTables, layer_names, layer_settings
from labelwright.taggers.packing import Packed, as_json, check_run, read_record
from labelwright.taggers.signature import signature
from labelwright.taggers.stacks import Version, some, stacks
from labelwright.taggers.texts import entities_in
from labelwright.taggers.training import TrainableModel, labelled_pair
from labelwright.validation import HeaderReader, TensorReader
from labelwright.wording import counted

if TYPE_CHECKING:
    from labelwright.corpus.split_texts import Entity
    from labelwright.corpus.tokenizer import Tokenizer

Array = NDArray[Any]
R = TypeVar("R")
READINGS = 10  # labellings passed by "sample" and "nbest"
FOLDS = 5
ANSWERED = frozenset(
    {NBEST, FORCED, PROBABILITY, EXPLANATION}
)  # of what layers can do, what is asked of all of them at once

Layers = Annotated[
    Sequence[tuple[str, Any]],
    LayerTables(),
    RecipeOnly(),
    Help(
        "Pairs of a name and a tagger, the lowest first: CRF, LatentCRF, SemiCRF; with passing best also perceptrons. "
        "Templates read the labels below by %y[row]; one without it gets the usual lines."
    ),
]
Passing = Annotated[
    str,
    OneOf("best", "marginal", "joint", "sample", "nbest"),
    Help(
        "What a layer passes upwards: its best labels, all likely labels by their marginal probabilities, joint (the "
        "same, then all layers learn together), labels of a sample of labellings, or of the nbest."
    ),
]
LayerShares = Annotated[
    Mapping[str, float] | None,
    Shares(),
    RecipeOnly(),
    Help("Weight of the loss of each layer in joint training, by name."),
    Default("1 each"),
]
Jackknife = Annotated[
    bool, Help("Train upper layers on labels of sentences that the lower layers were not trained on (5 parts).")
]
Cut = Annotated[float, AtLeast(0), Below(1), RecipeOnly(), Help("Labels less probable than this are not passed.")]
LexiconOf = Annotated[
    str | None,
    RecipeOnly(),
    Help(
        "Name of a layer: the labels of it that each word had in training become one more column, as in NN|VB, which "
        "%each reads."
    ),
]


class _OfItsLayers:
    """What a cascade can do: answer what all its layers can, and keep the rules of those that can."""

    def __get__(self, cascade: "Cascade | None", kind: type) -> frozenset[str]:
        if cascade is None:  # of the class, nothing is known
            return frozenset()
        models = vars(cascade).get("layers_") or dict(cascade.layers)
        abilities = [model.can for model in models.values()]
        return ANSWERED.intersection(*abilities) | frozenset().union(*abilities) & {RULES}


class Cascade(Estimator):
    """Layers of taggers over the same sentences, the lowest first; each reads the input and the labels below it.

    >>> X = [["the", "dog", "barks"], ["a", "bird", "sings"]]
    >>> y = {"pos": [["D", "N", "V"]] * 2, "chunk": [["B-NP", "I-NP", "B-VP"]] * 2}
    >>> from labelwright import CRF
    >>> Cascade([("pos", CRF()), ("chunk", CRF())], n_jobs=1).fit(X, y).predict([["the", "bird", "barks"]])
    {'pos': [['D', 'N', 'V']], 'chunk': [['B-NP', 'I-NP', 'B-VP']]}
    """

    can = _OfItsLayers()  # type: ignore[assignment]
    training_options: ClassVar[frozenset[str]] = frozenset({"dev", "progress", "layer_progress"})
    layers_: dict[str, TrainableModel]
    training_: dict[str, Any]
    history_: list[dict[str, Any]]
    inputs_: tuple[str, ...]  # names of the columns of input
    lexicon_: "Lexicon | None"

    def __init__(
        self,
        layers: Layers,
        passing: Passing = "joint",
        shares: LayerShares = None,
        jackknife: Jackknife = False,
        cut: Cut = 0.001,
        lexicon: LexiconOf = None,
        max_iter: declared.MaxIter = None,
        tol: declared.Tol = 1e-5,
        n_jobs: declared.Jobs = None,
        random_state: declared.Seed = None,
        verbose: declared.Verbose = 0,
    ):
        self.layers = layers
        self.passing = passing
        self.shares = shares
        self.jackknife = jackknife
        self.cut = cut
        self.lexicon = lexicon
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- training ---------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        dev: Any = None,
        progress: Callable[[Record, int], None] | None = None,
        layer_progress: Callable[[str, TrainableModel], Any] | None = None,
    ) -> Self:
        """Train on sentences X and the labels of every layer: y = {name: labels}, or a Corpus with columns so named.
        For scikit-learn, which chooses among sentences, y may also have an item for each sentence: a list with a tuple
        of labels for each token, or a frame with a column for each layer.

        dev : (X, y) or a Corpus; joint training keeps the weights that do best on it, by the mean of the layers' scores
        progress : called with every iteration of joint training
        layer_progress : called with the name and the model of each layer before it is trained (once for each part of
            the jackknife, too), gives what is called with every iteration of it; closed afterwards if it can be"""
        self._check_parameters()
        expect_much()
        names = [name for name, _ in self.layers]
        X, gold = self._labelled(X, y, names)
        development = None if dev is None else self._labelled(*labelled_pair(dev), names, "dev: ")
        for attribute in ("layers_", "before_"):
            self.__dict__.pop(attribute, None)
        begun = time.monotonic()
        self.inputs_ = X.input_names if isinstance(X, Corpus) else ()
        tokenizer = getattr(X, "tokenizer", None)
        self.lexicon_ = None
        source = self._input(X)
        if self.lexicon is not None:
            self.lexicon_, source = Lexicon.learn(_columns(X), gold[self.lexicon])
        run = _Run(self, layer_progress)
        self.layers_, inputs, versions = self._train_layers(run, source, gold)
        self.history_ = [dict(record) for record in self.layers_[names[-1]].history_]
        self.training_ = {"layers": {name: model.training_ for name, model in self.layers_.items()}}
        try:
            if self.learns_together and not run.interrupted:
                self.before_ = self._with_weights(np.concatenate([model.weights_ for model in self.layers_.values()]))
                self._learn_together(inputs, gold, versions, development, progress)
        except BaseException:
            del self.layers_  # no mixture of weights is left behind
            raise
        self.training_ |= {
            "seconds": round(time.monotonic() - begun, 3),
            "interrupted": run.interrupted or self.training_.get("joint", {}).get("stopped") == "interrupted",
            "labelwright": __version__,
        }
        self._remember_tokenizer(tokenizer)
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        names = [name for name, _ in self.layers]
        for name, model in self.layers:
            if JOINT not in model.can and PROBABILITY in model.can and self.passing == "joint":
                raise OptionError(f"layers: {name}: {model.lacks(JOINT)} training; use passing='marginal'")
            if PROBABILITY not in model.can and self.passing != "best":
                raise OptionError(
                    f"layers: {name}: a {type(model).__name__} has no probabilities to pass; use passing='best'"
                )
            try:
                model._check_parameters()
            except OptionError as error:
                raise OptionError(f"layers: {name}: {error}") from None
            if self.passing == "joint" and getattr(model, "l1", 0) > 0:
                raise OptionError(f"layers: {name}: joint training has no L1 penalty; use l1=0, or passing='marginal'")
            if self.learns_together and getattr(model, "prune_labels", "off") not in ("auto", "off"):
                raise OptionError(
                    f"layers: {name}: joint training has no pruned labels; use prune_labels='off', or "
                    "passing='marginal'"
                )
        if self.lexicon is not None and self.lexicon not in names:
            raise OptionError(f"lexicon: expected a layer, one of {', '.join(names)}, got {self.lexicon!r}")
        for name in self.shares or ():
            if name not in names:
                raise OptionError(f"shares: no layer {name!r}, expected one of {', '.join(names)}")

    @classmethod
    def refusal(cls, setting: str) -> str | None:
        known = {
            "label": "a cascade has a label column for each layer; name them in the [[layers]] of the recipe",
            "scheme": "a cascade has labels in each layer; write scheme = ... in a table of [[layers]]",
        }
        if setting in known:
            return known[setting]
        of_layers = any(setting in layer_settings(name) for name in layer_names())
        return "belongs to a layer; write it in a table of [[layers]]" if of_layers else None

    @classmethod
    def label_columns(cls, recipe: Mapping[str, Any]) -> dict[str, str | None]:
        return {table["name"]: table.get("scheme") for table in recipe["layers"]}

    @property
    def learns_together(self) -> bool:
        """Whether all layers are trained together in the end."""
        return self.passing == "joint" and len(self.layers) > 1

    def remember_input(self, columns: list[str], label: str | None) -> None:
        self.training_["columns"] = columns
        for name, layer in self.layers_.items():
            layer.remember_input(columns, name)

    def forget_run(self) -> None:
        super().forget_run()
        for layer in self.layers_.values():
            layer.forget_run()

    def progress_bar(self, title: str = "training") -> ProgressBar:
        """A bar for `fit(progress=...)`, which shows joint training."""
        return ProgressBar(self.max_iter, self.tol, title)

    def trouble(self) -> str | None:
        records = [*self.training_["layers"].values(), *filter(None, [self.training_.get("joint")])]
        sound = all(np.isfinite(record["loss"] or 0.0) for record in records)
        return None if sound else "the loss is no longer a number; raise the l2 of the layers"

    def summary(self) -> Summary:
        record, layers = self.training_, list(self.training_["layers"].values())
        weights, features = (sum(each[name] for each in layers) for name in ("weights", "features"))
        labels = [f"{name} {counted(len(layer.classes_), 'label')}" for name, layer in self.layers_.items()]
        sizes = [
            counted(weights, "weight"),
            counted(features, "feature"),
            f"{counted(len(layers), 'layer')} ({', '.join(labels)})",
        ]
        joint = record.get("joint")
        turns = [f"{counted(joint['iterations'], 'iteration')} together"] if joint else []
        run = [counted(layers[0]["sentences"], "sentence"), *turns, f"{record['seconds']:.1f} s"]
        reasons = [f"{name}: {layer.summary().stopped}" for name, layer in self.layers_.items()]
        return Summary(sizes, run, str(joint["stopped"]) if joint else "; ".join(reasons))

    def _labelled(
        self, X: Any, y: Any, names: list[str], place: str = ""
    ) -> tuple[Any, dict[str, Sequence[Sequence[str]]]]:
        """The input without labels, and the labels of every layer; `place` is what errors begin with."""
        if y is None and isinstance(X, Corpus):
            missing = [name for name in names if name not in X.names]
            if missing:
                raise CorpusError(
                    f"{X.source}: no column for the layer {missing[0]!r}, expected it among {', '.join(X.names)}"
                )
            y = {name: X.column(name) for name in names}
            place = f"{X.source}: column "
        elif not place:
            place = "y: "
        if y is None or isinstance(y, str) or not isinstance(y, Iterable):
            raise OptionError(f"{place}expected the labels of every layer, {{{names[0]!r}: [...], ...}}")
        X = listed(X)
        kind, labels = kind_of(X), labels_by_layer(y, names, place)
        _check_names(labels, names, place)
        if isinstance(X, Corpus):
            X = X.select([n for n in X.names if n not in names and n != X.label])
            if not X.names:
                raise CorpusError(f"{X.source}: no column is left to read beside those of the layers")
        elif kind == "columns":
            X = Corpus.from_sequences(X)
        lengths = np.diff(X.offsets).tolist() if isinstance(X, Corpus) else [len(sentence) for sentence in X]
        for name in names:
            _check_labels(labels[name], lengths, f"{place}{name}")
        return X, labels

    def _input(self, X: Any) -> Any:
        """What the lowest layer reads."""
        if isinstance(X, Corpus):
            names: Sequence[str] = self.inputs_
            if not set(names) <= set(X.names):  # under other names, as many
                names = [name for name in X.input_names if name not in dict(self.layers)]
            if len(names) != len(self.inputs_):
                raise CorpusError(
                    f"{X.source}: the cascade reads the columns {','.join(self.inputs_)}, got {','.join(X.names)}"
                )
            X = X.select(names)
        elif kind_of(X) == "columns":
            X = Corpus.from_sequences(X, reads=self.inputs_)
        if self.lexicon_ is not None:
            X = self.lexicon_.column(_columns(X))
        return X

    def _fresh(self, model: TrainableModel) -> TrainableModel:
        """An untrained copy, with this cascade's threads and seed where it has none of its own."""
        fresh = model.untrained()
        for name in ("n_jobs", "random_state"):
            if getattr(fresh, name) is None:
                setattr(fresh, name, getattr(self, name))
        fresh.verbose = fresh.verbose or self.verbose
        if self.learns_together and getattr(fresh, "prune_labels", None) == "auto":
            fresh.set_params(prune_labels="off")  # layers with pruned labels cannot learn together
        return fresh

    def _passed(self, model: TrainableModel, X: Any, forced: Forced | None = None) -> Passed:
        """What a trained layer passes to the next."""
        return joined(model._ask(X, lambda batch: [self._passed_by(model, batch)], forced))

    def _passed_by(self, model: TrainableModel, batch: Batch) -> Passed:
        """What a trained layer passes of sentences that it has scored."""
        labels = model.space_.labels
        if self.passing == "best":
            records = batch.decode(model.default_decoder, probabilities=False)
            return certain(labels, [record.labels for record in records])
        if self.passing == "nbest":
            return mixed(labels, [_normalised(readings) for readings in batch.nbest(READINGS)])
        if self.passing == "sample":
            return mixed(labels, batch.sample(READINGS, self.random_state))
        return model._passed_by(batch, self.cut)

    def _train_layers(
        self, run: "_Run", source: Any, gold: Mapping[str, Sequence[Sequence[str]]]
    ) -> tuple[dict[str, TrainableModel], list[Any], list[list[Version]]]:
        """The layers, trained one after the other, with what each reads and (but of the last) which models say what it
        passes."""
        trained, inputs, versions = dict[str, TrainableModel](), [source], []
        for k, (name, model) in enumerate(self.layers):
            trained[name] = run.train(name, model, inputs[k], gold[name])
            if k + 1 < len(self.layers):
                passed, of_layer = self._trained_passing(run, name, trained[name], inputs[k], gold[name])
                versions.append(of_layer)
                inputs.append(Layered(source, passed))
        return trained, inputs, versions

    def _trained_passing(
        self, run: "_Run", name: str, trained: TrainableModel, X: Any, gold: Sequence[Sequence[str]]
    ) -> tuple[Passed, list[Version]]:
        """What a layer passes of its training data, and the models that say so of which sentences."""
        n = len(gold)
        if not self.jackknife or n < 2:
            return self._passed(trained, X), [Version(0, n, trained)]
        bounds = np.linspace(0, n, min(FOLDS, n) + 1).astype(int).tolist()
        parts, versions = [], []
        model = trained.like()
        for a, b in pairwise(bounds):
            other = trained
            if not run.interrupted:
                other = run.train(name, model, some(X, [(0, a), (b, n)]), [*gold[:a], *gold[b:]])
            parts.append(self._passed(other, some(X, [(a, b)])).relabelled(trained.space_.labels))
            versions.append(Version(a, b, other))
        return joined(parts), versions

    def _learn_together(
        self,
        inputs: list[Any],
        gold: Mapping[str, Sequence[Sequence[str]]],
        versions: list[list[Version]],
        development: tuple[Any, dict[str, Any]] | None,
        progress: Any,
    ) -> None:
        """Maximise the shares of all layers' likelihoods, from where each alone has arrived."""
        models = list(self.layers_.values())
        bar = ProgressBar(self.max_iter, self.tol) if progress is None and self.verbose else None
        if bar is not None:
            bar.lines = True
        dev = None if development is None else self._dev_score(*development)
        limit = self.max_iter or 1000
        monitor = Monitor(limit, self.tol, dev=dev, dev_from=0, progress=progress or bar)
        start = np.concatenate([model.weights_ for model in models])
        sizes = [len(model.weights_) for model in models]
        workers = Workers(self.n_jobs)
        with monitor, one_blas_thread():
            made = stacks(self.layers_, inputs, gold, versions, self.shares or {}, workers)
            l2 = [float(getattr(model, "l2", 0.0)) for model in models]
            weights = lbfgs(Joint(made, sizes, l2), start, 0.0, monitor, workers)
        if bar is not None:
            bar.close()
        self.layers_ = self._with_weights(weights).layers_
        self.history_ = [dict(record) for record in monitor.history]
        last = self.history_[-1]
        self.training_["joint"] = {
            "iterations": last["iteration"],
            "loss": last["loss"],
            "stopped": "interrupted" if monitor.interrupted else monitor.reason,
        }
        if monitor.best_iteration is not None:
            self.training_["joint"] |= {"best_iteration": monitor.best_iteration, "best_dev": monitor.merit}

    def _with_weights(self, weights: Array) -> "Cascade":
        """A copy whose layers have these weights [of all layers in a row]."""
        twin, begin = copy.copy(self), 0
        twin.layers_ = {}
        for name, model in self.layers_.items():
            end = begin + len(model.weights_)
            twin.layers_[name] = copy.copy(model)
            twin.layers_[name]._assemblies = model._assemblies
            twin.layers_[name].trained_ = model.trained_._replace(weights=weights[begin:end].copy())
            begin = end
        return twin

    def _dev_score(self, X: Any, gold: Mapping[str, Any]) -> Callable[[Array], float]:
        def score(weights: Array) -> float:
            predicted = self._with_weights(weights).predict(X)
            return sum(evaluate(gold[name], predicted[name]).score for name in predicted) / len(predicted)

        return score

    # -- what was learnt, for people ----------------------------------------------------------------------------------

    def describe(self, top: int = 5) -> dict[str, Any]:
        self._check_fitted()
        return inspection.describe(self, {name: signature(layer) for name, layer in self.layers_.items()})

    def _signature(self) -> str:
        """One line that says how each layer was made."""
        layers = [f"{name}:{signature(layer)}" for name, layer in self.layers_.items()]
        return "|".join(["cascade", f"passing:{self.passing}", *layers])

    def knows(self, words: Sequence[str]) -> list[bool] | None:
        self._check_fitted()
        return next(iter(self.layers_.values())).knows(words)

    # -- answers ------------------------------------------------------------------------------------------------------

    def ask(
        self,
        X: Any,
        question: Callable[[str, TrainableModel, Batch], list[R]],
        forced: Mapping[str, Forced] | None = None,
        constraints: str | Mapping[str, str] | None = None,
    ) -> dict[str, list[R]]:
        """question(name, layer, batch) for every layer, the lowest first: the answers about all sentences, by layer.

        A layer is encoded once, and scored once for its answers and for what it passes on (again only under
        constraints, which what is passed on knows nothing of).

        forced : known labels of some layers, {name: as `decode` of a single tagger takes them}; those above know them
        constraints : one name holds for the layers whose labels follow a scheme"""
        self._check_fitted()
        _check_layers("forced", forced, self.layers_)
        if not isinstance(constraints, str):
            _check_layers("constraints", constraints, self.layers_)
        X = listed(X)
        if isinstance(X, list | tuple) and not X:
            return {name: question(name, model, Batch([])) for name, model in self.layers_.items()}
        few = self.lexicon_ is None and few_tokens(X, len(self.inputs_)) is not None
        source = X if few else self._input(X)  # a few tokens in plain lists are read fastest as they are
        answers: dict[str, list[R]] = {}
        above, names = source, list(self.layers_)
        for name, model in self.layers_.items():
            known, scheme = (forced or {}).get(name), _constraints_of(model, name, constraints)
            passes = name != names[-1]
            data = model.encode(above)

            def block(
                batch: Batch, name: str = name, model: TrainableModel = model, passes: bool = passes and scheme is None
            ) -> list[tuple[list[R], Passed | None]]:
                return [(question(name, model, batch), self._passed_by(model, batch) if passes else None)]

            blocks = model._ask(data, block, known, scheme)
            answers[name] = [answer for part, _ in blocks for answer in part]
            if passes and scheme is None:
                above = Layered(source, joined([part for _, part in blocks if part is not None]))
            elif passes:
                above = Layered(source, self._passed(model, data, known))
        return answers

    @property
    def outputs(self) -> dict[str, TrainableModel]:
        """The layers by name."""
        self._check_fitted()
        return self.layers_

    def reads(self) -> InputSchema:
        lowest = next(iter(self.outputs.values())).reads()
        return InputSchema(lowest.kind, tuple(self.inputs_))

    def input_of_lowest(self, X: Any) -> Any:
        """What the lowest layer reads of sentences."""
        self._check_fitted()
        return self._input(X)

    def predict(self, X: Any) -> LayeredLabellings:
        """The best labels of each sentence, layer by layer; NumPy takes them for an array of sentences, lists with a
        tuple for each token."""
        records = self.decode(X, probabilities=False)
        return LayeredLabellings((name, Labellings(d.labels for d in layer)) for name, layer in records.items())

    def predict_stream(self, X: Iterable[Any], batch_size: int = 1000) -> Iterator[dict[str, list[str]]]:
        """The best labels of each sentence by layer, one sentence after the other: sentences are read, and answered,
        `batch_size` at a time, so memory does not grow with their number."""
        self._check_fitted()

        def answer(batch: list[Any]) -> list[dict[str, list[str]]]:
            labels = self.predict(batch)
            return [dict(zip(labels, rows, strict=True)) for rows in zip(*labels.values(), strict=True)]

        return in_batches(X, batch_size, answer)

    def decode(
        self,
        X: Any,
        decoder: str | None = None,
        *,
        forced: Mapping[str, Forced] | None = None,
        constraints: str | Mapping[str, Constraints] | None = None,
        **options: Any,
    ) -> dict[str, list[Decoding]]:
        """Decoding records, layer by layer; probabilities are those of a layer given what it is passed.

        constraints : a label scheme for all layers that follow one, or {layer: a scheme or rules}"""
        X = listed(X)
        decoded, schemes = self._decoding(X, decoder, constraints, options)
        return self.ask(X, lambda name, _, batch: decoded[name](batch), forced, schemes)

    def _decoding(
        self, X: Any, decoder: str | None, constraints: Any, options: Mapping[str, Any]
    ) -> tuple[dict[str, Callable[[Batch], list[Decoding]]], dict[str, str]]:
        """What decodes the batches of each layer, and the label schemes that hold there; an option goes to the layers
        that take it."""
        self._check_fitted()
        if not isinstance(constraints, str):
            _check_layers("constraints", constraints, self.layers_)
        decoded, schemes, taken = {}, dict[str, str](), set[str]()
        for name, model in self.layers_.items():
            limits, layer_decoder = _constraints_of(model, name, constraints), model.checked_decoder(decoder)
            takes = model.rule_options if rules_among(limits)[1] else model.decoder_options(layer_decoder)
            given = {option: value for option, value in options.items() if option in takes}
            decoded[name], scheme = model._decoding(X, layer_decoder, limits, given)
            schemes |= {} if scheme is None else {name: scheme}
            taken |= given.keys()
        model._check_options(layer_decoder, [option for option in options if option not in taken], False)
        return decoded, schemes

    def explain(
        self,
        x: Any,
        token: int | None = None,
        *,
        against: str | None = None,
        constraints: str | None = None,
        flips: bool = True,
    ) -> dict[str, list[Explanation]]:
        """Why each token of one sentence (or this one token) has its labels, layer by layer, as `CRF.explain` says.

        A layer reads the labels below it as features, `y[0]=NN`, whose value is their probability: the explanation of
        the layer below says where these come from.  `against` counts in the layers that have this label, and
        `constraints` in those whose labels follow a scheme."""
        self._check_fitted()
        sentences = one_sentence(x, self.reads().kind)
        words, last = shown_words(sentences), list(self.layers_)[-1]
        if not words:
            return {name: [] for name in self.layers_}
        if against is not None and not any(against in layer.classes_ for layer in self.layers_.values()):
            raise OptionError(f"against: no layer has a label {against!r}")
        source = above = self._input(sentences)
        explained: dict[str, list[Explanation]] = {}
        for name, layer in self.layers_.items():
            data = layer.encode(above)
            known, scheme = against if against in layer.classes_ else None, _constraints_of(layer, name, constraints)
            asked = Asked(None if token is None else [token], known, scheme, flips)
            explained[name] = layer._explained(data, words, asked)
            if name != last:
                above = Layered(source, self._passed(layer, data))
        return explained

    def predict_nbest(
        self,
        X: Any,
        n: int = 5,
        *,
        forced: Mapping[str, Forced] | None = None,
        constraints: str | Mapping[str, Constraints] | None = None,
    ) -> dict[str, list[list[tuple[list[str], float]]]]:
        """Up to n labellings of each sentence with their probabilities, layer by layer."""
        check_whole("n", n, 1, MOST)
        X = listed(X)
        schemes, rules = self._layer_rules(X, constraints)
        return self.ask(X, lambda name, model, batch: batch.nbest(n, **rules[name]), forced, schemes)

    def _layer_rules(self, X: Any, constraints: Any) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """The label schemes, and for every layer its rules as options of `Batch.nbest` and `Batch.under`."""
        self._check_fitted()
        if not isinstance(constraints, str):
            _check_layers("constraints", constraints, self.layers_)
        schemes, rules = dict[str, str](), dict[str, dict[str, Any]]()
        for name, model in self.layers_.items():
            _, scheme, rules[name] = model._constrained_by(X, _constraints_of(model, name, constraints))
            schemes |= {} if scheme is None else {name: scheme}
        return schemes, rules

    def predict_marginals(
        self,
        X: Any,
        *,
        forced: Mapping[str, Forced] | None = None,
        constraints: str | Mapping[str, Constraints] | None = None,
    ) -> dict[str, list[list[dict[str, float]]]]:
        """The probability of every label at every token, layer by layer."""
        self._check_fitted()
        for name, model in self.layers_.items():
            model._require(PROBABILITY, f"predict_marginals: layer {name}", "use predict_nbest")
        X = listed(X)
        schemes, rules = self._layer_rules(X, constraints)

        def question(name: str, _: TrainableModel, batch: Batch) -> list[list[dict[str, float]]]:
            return (batch.under(**rules[name]) if rules[name] else batch).marginals()

        return self.ask(X, question, forced, schemes)

    def predict_spans(
        self,
        X: Any,
        *,
        forced: Mapping[str, Forced] | None = None,
        constraints: str | Mapping[str, Constraints] | None = None,
    ) -> dict[str, list[list[Span]]]:
        """The spans of the best labelling with their probabilities, layer by layer; none where there are no chunks."""
        X = listed(X)
        decoded, schemes = self._decoding(X, None, constraints, {"probabilities": False})

        def question(name: str, _: TrainableModel, batch: Batch) -> list[list[Span]]:
            return batch.spans([record.labels for record in decoded[name](batch)])

        return self.ask(X, question, forced, schemes)

    def predict_entities(
        self, texts: Iterable[str], tokenizer: "Tokenizer | None" = None
    ) -> "dict[str, list[list[Entity]]]":
        """The entities of each text, layer by layer; none where there are no chunks."""
        self._check_fitted()
        return entities_in(self, texts, tokenizer)

    def score(self, X: Any, y: Any = None, *, scoring: Callable[[Any, Any, Any], float] | None = None) -> float:
        """Token accuracy of the highest layer (scikit-learn wants one number; see `predict` for all layers), or what a
        scorer measures."""
        self._check_fitted()
        if scoring is not None:
            return float(scoring(self, X, y))
        names = list(self.layers_)
        X, gold = self._labelled(X, y, names)
        return evaluate(gold[names[-1]], self.predict(X)[names[-1]], reading="token").token_accuracy

    # -- files ------------------------------------------------------------------------------------------------

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
            tensors["lexicon.had"], tensors["lexicon.had.offsets"] = pack_strings(list(words.values()))
        settings = {k: as_json(v) for k, v in self.get_params(deep=False).items() if k not in ("layers", "shares")}
        return tensors, {
            "kind": type(self).__name__,
            "labelwright": __version__,
            "signature": self._signature(),
            "parameters": settings | {"shares": dict(self.shares) if self.shares else None},
            "inputs": list(self.inputs_),
            "layers": layers,
            "training": self.training_,
            "history": self.history_,
        }

    def _compressed(self, prune: float, bits: int) -> Self:
        smaller = copy.copy(self)
        smaller.layers_ = {name: layer.compressed(prune, bits) for name, layer in self.layers_.items()}
        records = {name: layer.training_ for name, layer in smaller.layers_.items()}
        smaller.training_ = self.training_ | {"layers": records}
        return smaller

    def sizes(self) -> dict[str, int]:
        layers = [layer.sizes() for layer in self.layers_.values()]
        return {name: sum(sizes[name] for sizes in layers) for name in layers[0]}

    def _weight_names(self) -> frozenset[str]:
        layers = enumerate(self.layers_.values())
        return frozenset(f"layer{i}.{name}" for i, layer in layers for name in layer._weight_names())

    @classmethod
    def unpack(cls, tensors: Mapping[str, Array], header: Mapping[str, Any]) -> Self:
        """The cascade that `pack` stored; each layer is read by its own model."""
        tensors, header = TensorReader.of(tensors), HeaderReader.of(header)
        layers: dict[str, Any] = {}
        for i, layer in enumerate(header.parts("layers")):
            model = layer.part("model")
            kind = registry.class_named(model.text("kind"))
            if not issubclass(kind, TrainableModel):
                raise model.refuse("kind", "a tagger with features")
            layers[layer.text("name")] = kind.unpack(tensors.part(f"layer{i}."), model)
        if len(layers) != len(header.listed("layers")):
            raise header.refuse("layers", "a name of its own for each layer")
        for i, layer in enumerate(layers.values()):
            reads_labels = "above" in layer.extractor_.header()
            if reads_labels != (i > 0):
                raise ModelFileError(f"layer {i + 1}: expected features that {'' if i else 'do not '}read labels below")
        check_run(header.part("parameters"))
        untrained = [(name, model.untrained()) for name, model in layers.items()]
        settings = {k: v for k, v in header.part("parameters").items() if k in cls._parameter_names()}
        cascade = cls(**settings | {"layers": untrained})
        cascade._check_parameters()
        cascade.layers_, cascade.inputs_ = layers, tuple(header.names("inputs"))
        cascade.lexicon_ = read_lexicon(tensors) if "lexicon.text" in tensors else None
        cascade.training_, cascade.history_ = read_record(header)
        return cascade

    def _check_fitted(self) -> None:
        if not hasattr(self, "layers_"):
            raise NotFittedError("this Cascade is not trained yet: call fit, or labelwright.load a model file")


class _Run:
    """Trains fresh copies of layers and shows it; after Ctrl-C the rest is trained for one iteration only."""

    def __init__(self, cascade: Cascade, progress: Callable[[str, TrainableModel], Any] | None):
        self.cascade, self.progress, self.interrupted = cascade, progress, False

    def train(self, name: str, model: TrainableModel, X: Any, gold: Sequence[Sequence[str]]) -> TrainableModel:
        fresh = self.cascade._fresh(model)
        limit = fresh.max_iter
        fresh.max_iter = 1 if self.interrupted else limit
        shown = self.progress(name, fresh) if self.progress is not None else None
        try:
            fresh.fit(X, gold, progress=shown)
        finally:
            fresh.max_iter = limit
            getattr(shown, "close", lambda: None)()
        self.interrupted |= fresh.training_["stopped"] == "interrupted"
        return fresh


def _constraints_of(model: TrainableModel, name: str, constraints: str | Mapping[str, Any] | None) -> Any:
    """The constraints of one layer; a name given for all holds where the labels follow a scheme."""
    if isinstance(constraints, str):
        return constraints if model.scheme_ is not None else None
    return (constraints or {}).get(name)


def _check_layers(word: str, given: Any, layers: Mapping[str, Any]) -> None:
    if given is not None and not isinstance(given, Mapping):
        raise OptionError(f"{word}: expected {{layer: ...}}, one of {', '.join(layers)}, got {type(given).__name__}")
    for name in given or ():
        if name not in layers:
            raise OptionError(f"{word}: no layer {name!r}, expected one of {', '.join(layers)}")


def _check_names(labels: Mapping[str, Any], names: Sequence[str], place: str) -> None:
    """Refuse labels of other layers than these."""
    for name in names:
        if name not in labels:
            raise OptionError(f"{place}no labels for the layer {name!r}, got those of {', '.join(labels) or 'none'}")
    for name in labels:
        if name not in names:
            raise OptionError(f"{place}no layer {name!r}, expected {', '.join(names)}")


def _check_labels(labellings: Any, lengths: Sequence[int], place: str) -> None:
    """Refuse labels of a layer that do not fit its sentences, or are missing."""
    if not isinstance(labellings, Sequence) or isinstance(labellings, str):
        raise OptionError(f"{place}: expected a list of labels for each sentence, got {labellings!r:.40}")
    check_lengths(labellings, lengths, place=place)
    for n, labels in enumerate(labellings):
        if any(is_missing(label) or label in ("", "_") for label in labels):
            raise CorpusError(f"{place}: sentence {n} has a token without a label; label it, or leave the sentence out")


def _columns(X: Any) -> Corpus:
    if not isinstance(X, Corpus):
        raise OptionError("lexicon: only words and columns have one, got feature dicts or arrays")
    return X


def _normalised(readings: list[tuple[list[str], float]]) -> list[tuple[list[str], float]]:
    """The shares of n-best labellings; equal ones where all are too improbable for a number."""
    whole = sum(p for _, p in readings)
    return [(labels, p / whole if whole > 0 else 1 / len(readings)) for labels, p in readings]
