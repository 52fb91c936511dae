"""What a trained cascade answers, layer by layer: each reads the input and what lower layers pass."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from labelwright.answers.batch import Batch
from labelwright.answers.labellings import Labellings, LayeredLabellings
from labelwright.corpus.spans import Span
from labelwright.corpus.table import Corpus
from labelwright.corpus.token_records import listed
from labelwright.decode import Decoding
from labelwright.decode.checks import MOST, check_whole
from labelwright.errors import CorpusError, NotFittedError, OptionError
from labelwright.features.extract import few_tokens, kind_of
from labelwright.features.sources import Lexicon
from labelwright.inspection.explanation import Asked, Explanation
from labelwright.settings import OfTheRun, settings_of
from labelwright.structures.passing import Passed, certain, joined, mixed, over
from labelwright.taggers.arguments import (
    Constraints,
    Forced,
    check_least,
    in_batches,
    one_sentence,
    rules_among,
    shown_words,
)
from labelwright.taggers.base import EXPLANATION, PROBABILITY, SHARES
from labelwright.taggers.estimator import Estimator, InputSchema
from labelwright.taggers.texts import entities_in
from labelwright.taggers.training import TrainableModel

if TYPE_CHECKING:
    from labelwright.corpus.tokenizer import Entity, Tokenizer

R = TypeVar("R")
READINGS = 10  # labellings passed by "sample" and "nbest"


class LayeredAnswers(Estimator):
    """The answers of layers that are trained; how they are trained is for `Cascade`."""

    layers: Sequence[tuple[str, Any]]
    passing: str
    cut: float
    random_state: int | None
    layers_: dict[str, TrainableModel]
    inputs_: tuple[str, ...]  # names of the columns of input
    lexicon_: "Lexicon | None"

    def _check_fitted(self) -> None:
        if not hasattr(self, "layers_"):
            raise NotFittedError("this Cascade is not trained yet: call fit, or labelwright.load a model file")

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name, those of layers as in `pos__l2`.  What belongs to the run, as `pos__n_jobs` and
        `word__lattices`, holds for trained layers, too.

        **parameters : settings and their new values
        """
        super().set_params(**parameters)
        for name, layer in vars(self).get("layers_", {}).items():
            of_run = [setting.name for setting in settings_of(type(layer)).values() if setting.has(OfTheRun)]
            given = {each: parameters[f"{name}__{each}"] for each in of_run if f"{name}__{each}" in parameters}
            layer.set_params(**given)
        return self

    # -- from layer to layer ------------------------------------------------------------------------------------------

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
            X = self.lexicon_.column(columns_of_input(X))
        return X

    def _encoded(self, model: TrainableModel, X: Any) -> Any:
        """What a layer reads, encoded once; shares of votes come only from the sentences themselves."""
        return X if SHARES in model.can else model.encode(X)

    def _passed(self, model: TrainableModel, X: Any, forced: Forced | None = None) -> Passed:
        """What a trained layer passes to the next."""
        return joined(model._ask(X, lambda batch: [self._passed_by(model, batch)], forced))

    def _passed_by(self, model: TrainableModel, batch: Batch) -> Passed:
        """What a trained layer passes of sentences that it has scored."""
        labels = tuple(model.classes_)
        if self.passing == "best":
            records = batch.decode(model._checked_decoder(None), probabilities=False)
            return certain(labels, [record.labels for record in records])
        if self.passing == "nbest":
            return mixed(labels, [_normalised(readings) for readings in batch.raw.nbest(READINGS)])
        if self.passing == "sample":
            return mixed(labels, batch.raw.sample(READINGS, self.random_state))
        return model._passed_by(batch, self.cut)

    # -- answers ------------------------------------------------------------------------------------------------------

    def _ask_outputs(
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
        read, names = source, list(self.layers_)
        for name, model in self.layers_.items():
            known, scheme = (forced or {}).get(name), _constraints_of(model, name, constraints)
            passes = name != names[-1]
            data = self._encoded(model, read)

            def block(
                batch: Batch, name: str = name, model: TrainableModel = model, passes: bool = passes and scheme is None
            ) -> list[tuple[list[R], Passed | None]]:
                return [(question(name, model, batch), self._passed_by(model, batch) if passes else None)]

            blocks = model._ask(data, block, known, scheme)
            answers[name] = [answer for part, _ in blocks for answer in part]
            if passes and scheme is None:
                read = over(read, name, joined([part for _, part in blocks if part is not None]))
            elif passes:
                read = over(read, name, self._passed(model, data, known))
        return answers

    @property
    def _outputs(self) -> dict[str, TrainableModel]:
        """The layers by name."""
        self._check_fitted()
        return self.layers_

    def reads(self) -> InputSchema:
        lowest = next(iter(self._outputs.values())).reads()
        return InputSchema(lowest.kind, tuple(self.inputs_))

    def input_of_lowest(self, X: Any) -> Any:
        """What the lowest layer reads of sentences."""
        self._check_fitted()
        return self._input(X)

    def predict(self, X: Any) -> LayeredLabellings:
        """The best labels of each sentence, layer by layer; NumPy takes them for an array of sentences, lists with a
        tuple for each token.

        X : sentences, or a Corpus
        """
        records = self.decode(X, probabilities=False)
        return LayeredLabellings((name, Labellings(d.labels for d in layer)) for name, layer in records.items())

    def predict_stream(self, X: Iterable[Any], batch_size: int = 1000) -> Iterator[dict[str, list[str]]]:
        """The best labels of each sentence by layer, one sentence after the other: sentences are read, and answered,
        `batch_size` at a time, so memory does not grow with their number.

        X : sentences, of which none is read before it is needed
        batch_size : sentences that are answered together
        """
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

        X : sentences, or a Corpus
        decoder : one that all layers have; None: the default of each
        forced : {layer: known labels}, as `CRF.decode` takes them
        constraints : a label scheme for all layers that follow one, or {layer: a scheme or rules}
        **options : go to the decoder
        """
        X = listed(X)
        decoded, ruled, schemes = self._decoding(X, decoder, constraints, options)
        return self._ask_outputs(X, lambda name, _, batch: decoded[name](ruled[name](batch)), forced, schemes)

    def _decoding(
        self, X: Any, decoder: str | None, constraints: Any, options: Mapping[str, Any]
    ) -> tuple[dict[str, Callable[[Batch], list[Decoding]]], dict[str, Callable[[Batch], Batch]], dict[str, str]]:
        """What decodes the batches of each layer, what puts them under its rules before, and the label schemes that
        hold there; an option goes to the layers that take it."""
        self._check_fitted()
        if not isinstance(constraints, str):
            _check_layers("constraints", constraints, self.layers_)
        decoded, ruled, schemes, taken = {}, {}, dict[str, str](), set[str]()
        for name, model in self.layers_.items():
            limits, layer_decoder = _constraints_of(model, name, constraints), model._checked_decoder(decoder)
            takes = model._rule_options if rules_among(limits)[1] else model._decoder_options(layer_decoder)
            given = {option: value for option, value in options.items() if option in takes}
            decoded[name], ruled[name], scheme = model._decoding(X, layer_decoder, limits, given)
            schemes |= {} if scheme is None else {name: scheme}
            taken |= given.keys()
        model._check_options(layer_decoder, [option for option in options if option not in taken], False)
        return decoded, ruled, schemes

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
        `constraints` in those whose labels follow a scheme.

        x : one sentence
        token : its number, from 0; None: all tokens
        against : the label to compare with, instead of the runner-up
        constraints : "scheme" compares only labellings that the label scheme permits
        flips : also find the features without which the token has another label
        """
        self._check_fitted()
        for name, layer in self.layers_.items():
            layer._require(EXPLANATION, f"explain: layer {name}", "use predict_nbest")
        sentences = one_sentence(x, self.reads().kind)
        words, last = shown_words(sentences), list(self.layers_)[-1]
        if not words:
            return {name: [] for name in self.layers_}
        if against is not None and not any(against in layer.classes_ for layer in self.layers_.values()):
            raise OptionError(f"against: no layer has a label {against!r}")
        read = self._input(sentences)
        explained: dict[str, list[Explanation]] = {}
        for name, layer in self.layers_.items():
            data = self._encoded(layer, read)
            known, scheme = against if against in layer.classes_ else None, _constraints_of(layer, name, constraints)
            asked = Asked(None if token is None else [token], known, scheme, flips)
            explained[name] = layer._explained(data, words, asked)
            if name != last:
                read = over(read, name, self._passed(layer, data))
        return explained

    def predict_nbest(
        self,
        X: Any,
        n: int = 5,
        *,
        forced: Mapping[str, Forced] | None = None,
        constraints: str | Mapping[str, Constraints] | None = None,
        distinct: Mapping[str, str] | None = None,
    ) -> dict[str, list[list[tuple[list[str], float]]]]:
        """Up to n labellings of each sentence with their probabilities, layer by layer.

        X : sentences, or a Corpus
        n : how many
        forced, constraints : as for `decode`
        distinct : of some layers the label that stands for nothing, {name: label}, as for a single tagger
        """
        check_whole("n", n, 1, MOST)
        X = listed(X)
        schemes, ruled = self._layer_rules(X, constraints)
        _check_layers("distinct", distinct, self.layers_)
        null = dict.fromkeys(self.layers_) | dict(distinct or {})
        return self._ask_outputs(X, lambda name, _, b: ruled[name](b).nbest(n, None, null[name]), forced, schemes)

    def _layer_rules(self, X: Any, constraints: Any) -> tuple[dict[str, str], dict[str, Callable[[Batch], Batch]]]:
        """The label schemes, and for every layer what puts its batches under its rules."""
        self._check_fitted()
        if not isinstance(constraints, str):
            _check_layers("constraints", constraints, self.layers_)
        schemes, ruled = dict[str, str](), dict[str, Callable[[Batch], Batch]]()
        for name, model in self.layers_.items():
            _, ruled[name], scheme = model._constrained_by(X, _constraints_of(model, name, constraints))
            schemes |= {} if scheme is None else {name: scheme}
        return schemes, ruled

    def predict_marginals(
        self,
        X: Any,
        *,
        forced: Mapping[str, Forced] | None = None,
        constraints: str | Mapping[str, Constraints] | None = None,
    ) -> dict[str, list[list[dict[str, float]]]]:
        """The probability of every label at every token (among the labellings that satisfy the constraints), layer by
        layer.

        X : sentences, or a Corpus
        forced, constraints : as for `decode`
        """
        self._check_fitted()
        for name, model in self.layers_.items():
            model._require(PROBABILITY, f"predict_marginals: layer {name}", "use predict_nbest")
        X = listed(X)
        schemes, ruled = self._layer_rules(X, constraints)
        return self._ask_outputs(X, lambda name, _, batch: ruled[name](batch).marginals(), forced, schemes)

    def predict_spans(
        self,
        X: Any,
        *,
        forced: Mapping[str, Forced] | None = None,
        constraints: str | Mapping[str, Constraints] | None = None,
    ) -> dict[str, list[list[Span]]]:
        """The spans of the best labelling with their probabilities, layer by layer; none where there are no chunks.

        X : sentences, or a Corpus
        forced, constraints : as for `decode`
        """
        X = listed(X)
        decoded, ruled, schemes = self._decoding(X, None, constraints, {"probabilities": False})

        def question(name: str, _: TrainableModel, batch: Batch) -> list[list[Span]]:
            batch = ruled[name](batch)
            return batch.spans([record.labels for record in decoded[name](batch)])

        return self._ask_outputs(X, question, forced, schemes)

    def predict_confident(
        self,
        X: Any,
        least: float,
        *,
        forced: Mapping[str, Forced] | None = None,
        constraints: str | Mapping[str, Constraints] | None = None,
    ) -> LayeredLabellings:
        """The best labels without the entities that are less probable than `least`, layer by layer.

        X : sentences, or a Corpus
        least : the least probability of an entity
        forced, constraints : as for `decode`
        """
        check_least(least)
        X = listed(X)
        decoded, ruled, schemes = self._decoding(X, None, constraints, {"probabilities": False})
        for name, model in self.layers_.items():
            if not model._is_sure:
                model._require(PROBABILITY, f"predict_confident: layer {name}", "use predict")

        def question(name: str, model: TrainableModel, batch: Batch) -> list[list[str]]:
            batch = ruled[name](batch)
            labels = [record.labels for record in decoded[name](batch)]
            return [confident for confident, _ in batch.confident(labels, least, model.scheme_)]

        answers = self._ask_outputs(X, question, forced, schemes)
        return LayeredLabellings({name: Labellings(labels) for name, labels in answers.items()})

    def occurrence_probabilities(
        self, X: Any, types: Mapping[str, str | Iterable[str]], *, forced: Mapping[str, Forced] | None = None
    ) -> dict[str, list[float]]:
        """The exact probability that each sentence has at least one span of these types, in the layers that are named.

        X : sentences, or a Corpus
        types : {layer: one type, or several}
        forced : as for `decode`
        """
        self._check_fitted()
        _check_layers("types", types, self.layers_)
        wanted = {name: [given] if isinstance(given, str) else list(given) for name, given in types.items()}
        for name in wanted:
            self.layers_[name]._require(PROBABILITY, f"occurrence_probabilities: layer {name}", "use predict")

        def question(name: str, _: TrainableModel, batch: Batch) -> list[float]:
            return batch.occurrences(wanted[name]) if name in wanted else [0.0] * len(batch)

        answers = self._ask_outputs(listed(X), question, forced)
        return {name: answers[name] for name in wanted}

    def predict_entities(
        self, texts: Iterable[str], tokenizer: "Tokenizer | None" = None
    ) -> "dict[str, list[list[Entity]]]":
        """The entities of each text, layer by layer; none where there are no chunks.

        texts : strings
        tokenizer : how texts are split; by default as those of the training data were
        """
        self._check_fitted()
        return entities_in(self, texts, tokenizer)


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


def columns_of_input(X: Any) -> Corpus:
    if not isinstance(X, Corpus):
        raise OptionError("lexicon: only words and columns have one, got feature dicts or arrays")
    return X


def _normalised(readings: list[tuple[list[str], float]]) -> list[tuple[list[str], float]]:
    """The shares of n-best labellings; equal ones where all are too improbable for a number."""
    whole = sum(p for _, p in readings)
    return [(labels, p / whole if whole > 0 else 1 / len(readings)) for labels, p in readings]
