"""What every tagger is: an estimator whose answers are all read off scored sentences.

A tagger has one output, or several: the layers of a cascade.  Every question is asked by output
(`_ask_outputs`), and the tagger with one output unwraps its answer."""

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from numpy.typing import NDArray

from labelwright.answers.batch import Batch, Labellings, LayeredLabellings, joined, passed_by
from labelwright.answers.calibrated import Calibration
from labelwright.corpus.schemes import same_rules
from labelwright.corpus.token_records import listed
from labelwright.decode import DECODERS, RULED_DECODERS
from labelwright.decode.record import MOST, Decoding, check_decoder, check_whole
from labelwright.errors import OptionError
from labelwright.inspection.explanation import Asked, Explanation
from labelwright.structures.passing import Passed
from labelwright.taggers.arguments import (
    Constraints,
    Forced,
    Known,
    Question,
    check_one_each,
    entities_in,
    in_batches,
    one_sentence,
    rule_sentences,
    rules_among,
    scheme_named,
    shown_words,
)
from labelwright.taggers.calibrating import HeldOut, fitted, folded, held_out, sentences_and_labels
from labelwright.taggers.estimator import Estimator, models_in, uninterrupted, untrained

if TYPE_CHECKING:
    from labelwright.corpus.tokenizer import Tokenizer

Array = NDArray[Any]
R = TypeVar("R")
# A list with an answer for each sentence; of a tagger with several outputs such a list for each, by
# name.
Answers = Any
ByOutput = Any  # what is given for the one output, or {name: ...}
PLAIN = {"probabilities": False}  # labels alone

# What a tagger can do; `can` names all that it can.
PROBABILITY = "probability"  # probabilities of labellings, labels and spans
CONFIDENCE = "confidence"  # confidences, once calibrated on held-out data
NBEST = "n-best"
FORCED = "forced"  # known labels
RULES = "rules"  # users' own constraints
JOINT = "joint"  # joint training as a layer of a cascade
LAYER = "layer"  # can be a layer of a cascade
SHARES = "shares"  # passes shares of votes as a layer, where it has no probabilities
NEIGHBOURS = "neighbours"  # explains its answers by the nearest training tokens
ORACLE = "oracle"  # knows the best choice among its proposals
EXPLANATION = "explanation"  # says why a token has its label


class Tagger(Estimator):
    """Labels sequences.  Subclasses learn (`fit`), encode sentences and score them (`_ask`); all
    answers are here.

    Of a cascade, every answer is {layer: answer}, and what is given for an output (`forced`, rules,
    spans, labels) is given as {layer: ...}."""

    can: ClassVar[frozenset[str]] = frozenset()
    decoders: ClassVar[tuple[str, ...]] = ()  #: the names that `decode` takes
    _default_decoder: ClassVar[str] = "viterbi"  # the one that `predict` uses
    _rule_options: ClassVar[tuple[str, ...]] = (
        "probabilities",
        "time_limit",
        "max_expansions",
    )  # of decoding with rules
    _further_options: ClassVar[frozenset[str]] = frozenset()  # of `decode`, which `_chosen` reads
    # the option of the command line that names a decoder
    _decoder_flag: ClassVar[str] = "--decoder"
    # as an upper layer, does it read the best labels below as columns?
    _labels_as_columns: ClassVar[bool] = False
    n_jobs: int | None = None
    _given: Any = None  # by `_like`: the labels, or types of segments, that fit shall use

    # -- what subclasses give ----------------------------------------------------------------------

    def encode(self, X: Any) -> Any:
        """Turn sentences into what the tagger reads, once; every method but `fit` takes the result
        in place of X.

        X : sentences, or a Corpus
        """
        raise NotImplementedError

    def _ask(
        self, X: Any, question: Question[R], forced: Known = None, constraints: str | None = None
    ) -> list[R]:
        """question(batch) for all sentences, a block at a time, over threads: the answers in
        order."""
        raise NotImplementedError

    @property
    def classes_(self) -> list[str]:
        """The labels, in the order of first appearance in the training data."""
        raise NotImplementedError

    def _decoder_options(self, decoder: str) -> list[str]:
        """The options that a decoder takes."""
        return ["probabilities"]

    def _why_one_decoder(self) -> str | None:
        """Why there is one decoder only, for error messages; None where there are several."""
        return None

    def _explained(self, X: Any, words: Sequence[str | None], asked: Asked) -> list[Explanation]:
        """The explanation of the one sentence of X, whose words are these."""
        raise NotImplementedError

    def _passed_by(self, batch: Batch, cut: float) -> Passed:
        """What it passes to a layer above it: every label at least as probable as `cut`, and pairs
        of them."""
        return passed_by(batch, tuple(self.classes_), cut)

    def _untrained(self) -> Self:
        """A copy with the same settings, to be trained."""
        settings = self.get_params(deep=False)
        copy = type(self)(
            **settings | {name: untrained(model) for name, model in models_in(settings).items()}
        )
        for name in ("_of_part", "_given"):
            if vars(self).get(name):
                setattr(copy, name, vars(self)[name])
        return copy

    def _like(self) -> Self:
        """An untrained copy of this trained tagger, for a part of its training data."""
        copy = self._untrained()
        copy._of_part = True
        return copy

    # -- outputs -----------------------------------------------------------------------------------

    def _ask_outputs(
        self,
        X: Any,
        question: "Callable[[str, Tagger, Batch], list[R]]",
        forced: Mapping[str, Forced] | None = None,
        constraints: Mapping[str, str] | None = None,
    ) -> dict[str, list[R]]:
        """question(name, tagger, batch) for every output and all its sentences, scored once: the
        answers by output."""
        known, scheme = (forced or {}).get(""), (constraints or {}).get("")
        return {"": self._ask(X, lambda batch: question("", self, batch), known, scheme)}

    def _by_output(self, word: str, given: Any) -> Mapping[str, Any]:
        """What is given for each output, by name; `word` is what it is called."""
        return {} if given is None else {"": given}

    def _unwrapped(self, answers: Mapping[str, Any], kind: type[dict[str, Any]] = dict) -> Any:
        """What a user gets of answers by output: the one answer, or all of them as such a dict."""
        return answers[""]

    def _readings(self, X: Any) -> "Iterator[tuple[str, Tagger, Any]]":
        """Every output with what it reads of sentences."""
        yield "", self, X

    def _sized(self, X: Any) -> Any:
        """Sentences in a form that has a length and can be asked about."""
        return self.encode(X)

    def _ask_under(
        self,
        X: Any,
        question: (
            "Callable[[str, Tagger, Batch], list[Any]] | Callable[[Batch, Sequence[Any]], "
            "list[Any]]"
        ),
        forced: ByOutput,
        constraints: ByOutput,
        outputs: Mapping[str, Any] | None = None,
        about: tuple[str, ByOutput] | None = None,
    ) -> Answers:
        """What the outputs (or some of them) answer about the labellings that satisfy the
        constraints; `about` names something that is given for each sentence, which the question
        then takes beside a batch."""
        self._check_fitted()
        X, ruled, schemes = self._constrained_by(X, constraints)
        if about is not None:
            word, given = about
            X, outputs = self._sized(X), self._by_output(word, given)
            for each in outputs.values() if given is not None else [None]:
                check_one_each(each, word, len(X))
        ask: Callable[..., list[Any]] = question

        def asked(name: str, tagger: Tagger, batch: Batch) -> list[Any]:
            if outputs is not None and name not in outputs:
                return [None] * len(batch)
            if about is None or outputs is None:
                return ask(name, tagger, ruled(name, batch))
            return ask(ruled(name, batch), outputs[name][batch.first : batch.first + len(batch)])

        answers = self._ask_outputs(X, asked, self._by_output("forced", forced), schemes)
        return self._unwrapped(
            answers if outputs is None else {name: answers[name] for name in outputs}
        )

    def _decoded(
        self,
        X: Any,
        answer: "Callable[[Tagger, Batch, list[Decoding]], list[R]]",
        decoder: str | None,
        forced: ByOutput,
        constraints: ByOutput,
        options: Mapping[str, Any],
    ) -> dict[str, list[R]]:
        """What follows from the best labellings of every output, after a check of all options: each
        goes to the outputs that take it."""
        self._check_fitted()
        X = listed(X)
        limits, chosen, left = self._by_output("constraints", constraints), {}, set(options)
        for name, tagger in self._outputs.items():
            with_rules = bool(rules_among(limits.get(name))[1])
            its_decoder, given = chosen[name] = tagger._chosen(decoder, options, with_rules)
            tagger._check_constraints(its_decoder, limits.get(name))
            tagger._check_options(its_decoder, (), with_rules)
            left -= given.keys() | tagger._further_options
        tagger._check_options(
            its_decoder, [option for option in options if option in left], with_rules
        )
        _, ruled, schemes = self._constrained_by(X, constraints)

        def question(name: str, tagger: Tagger, batch: Batch) -> list[R]:
            batch, (its_decoder, given) = ruled(name, batch), chosen[name]
            return answer(tagger, batch, batch.decode(its_decoder, **given))

        return self._ask_outputs(X, question, self._by_output("forced", forced), schemes)

    def _constrained_by(
        self, X: Any, constraints: ByOutput
    ) -> tuple[Any, Callable[[str, Batch], Batch], dict[str, str]]:
        """The sentences, what puts a batch of an output under its rules, and the label schemes by
        output."""
        split = {
            name: rules_among(given)
            for name, given in self._by_output("constraints", constraints).items()
        }
        schemes = {name: scheme for name, (scheme, _) in split.items() if scheme is not None}
        rules = {name: rules for name, (_, rules) in split.items() if rules}
        if not rules:
            return X, lambda name, batch: batch, schemes
        for name in rules:
            self._outputs[name]._require(RULES, "constraints", "use 'scheme', forced=, or a CRF")
        X = listed(X)
        words = rule_sentences(X)  # at which rules may look
        return (
            X,
            lambda name, batch: batch.under(rules[name], words) if name in rules else batch,
            schemes,
        )

    # -- capabilities ------------------------------------------------------------------------------

    @property
    def _probabilistic(self) -> bool:
        """Are its scores logarithms of probabilities, up to a constant?"""
        return PROBABILITY in self.can

    @property
    def _is_sure(self) -> bool:
        """Can it say how probable its labels are, or at least (once calibrated) how confident it is
        in them?"""
        return self._probabilistic or (CONFIDENCE in self.can and self._calibration is not None)

    def _ranks(self, decoder: str) -> bool:
        """Is the answer of this decoder the first of the n best labellings?"""
        return decoder in ("viterbi", "exact", "csi")

    def _require(self, capability: str, question: str, remedy: str) -> None:
        """Refuse a question that this tagger has no answer to."""
        if capability not in self.can:
            raise OptionError(f"{question}: {self._lacks(capability)}; {remedy}")

    def _require_of_all(
        self, capability: str, question: str, instead: str, outputs: Iterable[str] | None = None
    ) -> None:
        """Refuse a question that an output (or one of some) has no answer to; `instead` of
        probabilities, a tagger that can be calibrated has this."""
        self._check_fitted()
        for name in self._outputs if outputs is None else outputs:
            tagger, place = self._outputs[name], f"{question}: layer {name}" if name else question
            calibrated = instead and capability == PROBABILITY and CONFIDENCE in tagger.can
            scores = "use predict_nbest, which has scores" if capability == PROBABILITY else instead
            tagger._require(
                capability, place, f"calibrate it and use {instead}" if calibrated else scores
            )

    @classmethod
    def _lacks(cls, capability: str) -> str:
        """Why a question is refused, in half a sentence."""
        name = (
            f"{'an' if cls.__name__[:2] in ('NG', 'Ng') or cls.__name__[0] in 'AEIO' else 'a'} "
            f"{cls.__name__}"
        )
        if capability == PROBABILITY:
            return f"{name} has scores, not probabilities"
        if capability in (FORCED, RULES):
            return f"{name} takes no {'known labels' if capability == FORCED else 'rules'}"
        return (
            f"{name} has probabilities"
            if capability == CONFIDENCE
            else f"{name} has no {capability}"
        )

    # -- labels ------------------------------------------------------------------------------------

    def decode(
        self,
        X: Any,
        decoder: str | None = None,
        *,
        forced: ByOutput = None,
        constraints: Constraints = None,
        **options: Any,
    ) -> Answers:
        """The best labelling of each sentence with its score and probability (or confidence), as a
        Decoding.

        X : sentences, a Corpus, or what `encode` returned
        decoder : one of the tagger's `decoders`; of a cascade, one that all layers have
        forced : known labels: None where the tagger may choose, a list where several are possible
        constraints : "scheme" allows only labellings that the label scheme permits (of a cascade,
            in all layers that follow one); rules (labelwright.constraints) only those that keep
            them, found in `time_limit` seconds for each sentence
        options : go to the decoder
        """
        return self._unwrapped(
            self._decoded(
                X, lambda tagger, batch, records: records, decoder, forced, constraints, options
            )
        )

    def predict(self, X: Any, *, arrays: Sequence[Any] | None = None) -> Answers:
        """The best labels of each sentence: a list of lists, which NumPy takes for an array of
        lists (of a cascade, for an array of sentences, lists with a tuple for each token).

        X : sentences, a Corpus, or what `encode` returned
        arrays : an array [tokens, D] of numbers for each sentence, of a model that was trained with
            them
        """
        X = X if arrays is None else self._with_numbers(X, arrays)
        if isinstance(X, Iterator):
            rows = list(self._labelled_one_by_one(X, 1000))
            answers = {name: [row[name] for row in rows] for name in self._outputs}
        else:
            answers = self._best_labels(X)
        return self._unwrapped(
            {name: Labellings(labels) for name, labels in answers.items()}, LayeredLabellings
        )

    def predict_stream(self, X: Iterable[Any], batch_size: int = 1000) -> Iterator[Any]:
        """The best labels of each sentence, one after the other: sentences are read, and answered,
        `batch_size` at a time, so memory does not grow with their number.

        X : sentences, of which none is read before it is needed
        batch_size : sentences that are answered together

        >>> from labelwright import CRF
        >>> crf = CRF(max_iter=5, n_jobs=1).fit([["her", "brother"], ["he"]], [["B", "I"], ["B"]])
        >>> list(crf.predict_stream(line.split() for line in ["her brother", "he"]))
        [['B', 'I'], ['B']]
        """
        self._check_fitted()
        return map(self._unwrapped, self._labelled_one_by_one(X, batch_size))

    def _labelled_one_by_one(
        self, X: Iterable[Any], batch_size: int
    ) -> Iterator[dict[str, list[str]]]:
        """The best labels of each sentence by output."""

        def answer(batch: list[Any]) -> list[dict[str, list[str]]]:
            labels = self._best_labels(batch)
            return [
                dict(zip(labels, row, strict=True)) for row in zip(*labels.values(), strict=True)
            ]

        return in_batches(X, batch_size, answer)

    def _best_labels(self, X: Any) -> dict[str, list[list[str]]]:
        """The best labels of each sentence by output: no options and constraints to look at, for a
        service."""
        self._check_fitted()
        decoders = {name: tagger._checked_decoder(None) for name, tagger in self._outputs.items()}

        def question(name: str, _: Tagger, batch: Batch) -> list[list[str]]:
            return _labels(batch.decode(decoders[name], **PLAIN))

        return self._ask_outputs(listed(X), question)

    def _with_numbers(self, X: Any, arrays: Sequence[Any]) -> Any:
        """Encoded sentences with numbers beside their columns."""
        raise OptionError(
            f"arrays: a {type(self).__name__} reads no arrays beside words and columns; leave them "
            "out"
        )

    def predict_nbest(
        self,
        X: Any,
        n: int = 5,
        *,
        forced: ByOutput = None,
        constraints: Constraints = None,
        max_expansions: int | None = None,
        distinct: ByOutput = None,
    ) -> Answers:
        """Up to n labellings of each sentence, the best first, with their exact probabilities (or
        their scores).

        On a latent model a search that reaches `max_expansions` returns only what it has proven (at
        least one).

        X : sentences, a Corpus, or what `encode` returned
        n : how many
        forced, constraints : as for `decode`
        max_expansions : limit of the search of a latent model
        distinct : the label that stands for nothing, such as "-" of a silent letter (of a cascade
            {layer: label}): labellings with the same output (the other labels; K_S is K S) are one,
            the best of them, with the sum of their probabilities among the 10 n best (at least
            100): a lower bound of the probability of the output; of scores the best
        """
        check_whole("n", n, 1, MOST)
        silent = self._by_output("distinct", distinct)
        question = lambda name, _, batch: batch.nbest(n, max_expansions, silent.get(name))  # noqa: E731
        return self._ask_under(X, question, forced, constraints)

    def sample(
        self,
        X: Any,
        n: int,
        random_state: int | None = 0,
        *,
        forced: ByOutput = None,
        constraints: Constraints = None,
    ) -> Answers:
        """n labellings of each sentence, drawn from their probabilities; equal ones once, with
        their share.

        X : sentences, a Corpus, or what `encode` returned
        n : how many
        random_state : the seed
        forced, constraints : as for `decode`
        """
        check_whole("n", n, 1, MOST)
        check_whole("random_state", 0 if random_state is None else random_state, 0)
        self._require_of_all(PROBABILITY, "sample", "")
        return self._ask_under(
            X, lambda name, tagger, batch: batch.sample(n, random_state), forced, constraints
        )

    def scored(self, X: Any, *, forced: ByOutput = None, constraints: str | None = None) -> Any:
        """All sentences, scored once: a batch that can be asked for labellings, probabilities,
        spans and samples.

        X : sentences, a Corpus, or what `encode` returned
        forced, constraints : as for `decode`; no rules here
        """
        self._check_fitted()
        given = self._by_output("forced", forced), self._by_output("constraints", constraints)
        batches = self._ask_outputs(X, lambda name, tagger, batch: [batch], *given)
        return self._unwrapped({name: joined(parts) for name, parts in batches.items()})

    # -- spans -------------------------------------------------------------------------------------

    def predict_spans(
        self, X: Any, *, forced: ByOutput = None, constraints: Constraints = None
    ) -> Answers:
        """The spans (chunks, entities) of the best labelling, each with the probability that
        exactly this span is an entity; without one where the tagger has no probabilities
        (`span_confidences` gives their confidences, once it is calibrated); none where labels make
        no chunks.

        X : sentences, a Corpus, or what `encode` returned
        forced, constraints : as for `decode`
        """
        return self._unwrapped(
            self._decoded(
                X,
                lambda _, batch, records: batch.spans(_labels(records)),
                None,
                forced,
                constraints,
                PLAIN,
            )
        )

    def predict_confident(
        self, X: Any, least: float, *, forced: ByOutput = None, constraints: Constraints = None
    ) -> Answers:
        """The best labels of each sentence without the entities that are less probable (or, of
        calibrated taggers without probabilities, less confident) than `least`: these are O, or _
        where labels make no chunks.

        X : sentences, a Corpus, or what `encode` returned
        least : the least probability of an entity
        forced, constraints : as for `decode`

        >>> from labelwright import CRF
        >>> crf = CRF(n_jobs=1).fit([["Ada", "ran"], ["he", "ran"]], [["B-PER", "O"], ["O", "O"]])
        >>> crf.predict_confident([["Ada", "ran"]], 0.5)
        [['B-PER', 'O']]
        >>> crf.predict_confident([["Ada", "ran"]], 0.999)
        [['O', 'O']]
        """
        if not isinstance(least, Real) or not 0 <= least <= 1:
            raise OptionError(f"least: expected a number from 0 to 1, got {least!r:.40}")
        self._check_fitted()
        unsure = [name for name, tagger in self._outputs.items() if not tagger._is_sure]
        self._require_of_all(PROBABILITY, "predict_confident", "predict_confident", unsure)

        def answer(tagger: Tagger, batch: Batch, records: list[Decoding]) -> list[list[str]]:
            return [
                labels for labels, _ in batch.confident(_labels(records), least, tagger.scheme_)
            ]

        answers = self._decoded(X, answer, None, forced, constraints, PLAIN)
        return self._unwrapped(
            {name: Labellings(labels) for name, labels in answers.items()}, LayeredLabellings
        )

    def predict_entities(
        self, texts: Iterable[str], tokenizer: "Tokenizer | None" = None
    ) -> Answers:
        """The entities of each text: start and end (in characters), type, text and probability (or
        confidence).

        texts : strings
        tokenizer : how texts are split; by default as those of the training data were

        >>> from labelwright import CRF
        >>> X = [["Ada", "ran", "."], ["he", "ran", "."]]
        >>> crf = CRF(n_jobs=1).fit(X, [["B-PER", "O", "O"], ["O", "O", "O"]])
        >>> entities = crf.predict_entities(["he ran. Ada ran."])[0]
        >>> [(e.start, e.end, e.type, e.text) for e in entities]
        [(8, 11, 'PER', 'Ada')]
        """
        self._check_fitted()
        return self._unwrapped(entities_in(self, texts, tokenizer))

    # -- probabilities -----------------------------------------------------------------------------

    def predict_marginals(
        self,
        X: Any,
        *,
        latent: bool = False,
        forced: ByOutput = None,
        constraints: Constraints = None,
    ) -> Answers:
        """The probability of every label at every token (among the labellings that satisfy the
        constraints).

        X : sentences, a Corpus, or what `encode` returned
        latent : of every latent state (`B-NP#2`) instead of every label
        forced, constraints : as for `decode`; no rules with latent=True
        """
        self._require_of_all(PROBABILITY, "predict_marginals", "predict_confidences")
        if not latent:
            return self._ask_under(
                X, lambda name, tagger, batch: batch.marginals(), forced, constraints
            )
        names = {name: tagger._state_names() for name, tagger in self._outputs.items()}

        def question(name: str, _: Tagger, batch: Batch) -> list[list[dict[str, float]]]:
            batch.check_possible()
            sentences: list[Any] = list(batch.sure)
            rows = [[] if s is None else s.state_marginals().tolist() for s in sentences]
            return [
                [dict(zip(names[name], row, strict=True)) for row in sentence] for sentence in rows
            ]

        given = self._by_output("forced", forced), self._by_output("constraints", constraints)
        return self._unwrapped(self._ask_outputs(X, question, *given))

    def _state_names(self) -> list[str]:
        """The names of the latent states."""
        raise OptionError(
            f"latent: a {type(self).__name__} has no latent states; leave it out, or train a "
            "LatentCRF"
        )

    def span_probabilities(
        self, X: Any, spans: ByOutput, *, forced: ByOutput = None, constraints: Constraints = None
    ) -> Answers:
        """These spans of each sentence with their exact probabilities.

        X : sentences, a Corpus, or what `encode` returned
        spans : those of each sentence; the type "PER|ORG" stands for either of the two
        forced, constraints : as for `decode`
        """
        self._require_of_all(PROBABILITY, "span_probabilities", "span_confidences")
        return self._ask_under(
            X, Batch.span_probabilities, forced, constraints, about=("spans", spans)
        )

    def likely_spans(
        self,
        X: Any,
        least: float = 0.05,
        *,
        forced: ByOutput = None,
        constraints: Constraints = None,
    ) -> Answers:
        """All spans of each sentence that are at least as probable as `least` (above 0), with exact
        probabilities, whether they are in the best labelling or not.

        X : sentences, a Corpus, or what `encode` returned
        least : a probability
        forced, constraints : as for `decode`
        """
        self._require_of_all(PROBABILITY, "likely_spans", "span_confidences")
        if not isinstance(least, Real) or not 0 < least <= 1:
            raise OptionError(
                f"least: expected a probability above 0 and up to 1, got {least!r:.40}"
            )
        return self._ask_under(
            X, lambda name, tagger, batch: batch.likely_spans(least), forced, constraints
        )

    def occurrence_probabilities(
        self, X: Any, types: ByOutput, *, forced: ByOutput = None, constraints: Constraints = None
    ) -> Answers:
        """The exact probability that each sentence has at least one span of these types (of labels
        that make no chunks: at least one token with one of these labels).

        X : sentences, a Corpus, or what `encode` returned
        types : one type, or several; of a cascade, those of the layers that are asked
        forced, constraints : as for `decode`

        >>> from labelwright import CRF
        >>> crf = CRF(n_jobs=1).fit([["Ada", "ran"], ["he", "ran"]], [["B-PER", "O"], ["O", "O"]])
        >>> [p > 0.5 for p in crf.occurrence_probabilities([["Ada", "ran"], ["he", "ran"]], "PER")]
        [True, False]
        """
        self._check_fitted()
        wanted = self._types(types)
        self._require_of_all(
            PROBABILITY, "occurrence_probabilities", "occurrence_confidences", wanted
        )
        question = lambda name, tagger, batch: batch.occurrences(wanted[name])  # noqa: E731
        return self._ask_under(X, question, forced, constraints, wanted)

    def _types(self, types: ByOutput) -> dict[str, list[str]]:
        given = self._by_output("types", types)
        if not given:
            raise OptionError(f"types: expected a type, or several, got {types!r}")
        return {
            name: [some] if isinstance(some, str) else list(some) for name, some in given.items()
        }

    def sequence_log_probabilities(
        self, X: Any, y: ByOutput, *, forced: ByOutput = None, constraints: Constraints = None
    ) -> Answers:
        """log P(y | x) of given labellings.

        X : sentences, a Corpus, or what `encode` returned
        y : labels of each sentence; where one is None or a set of labels, the answer is about all
            labellings that agree with the rest
        forced, constraints : as for `decode`
        """
        self._require_of_all(PROBABILITY, "sequence_log_probabilities", "decode's confidence")
        return self._ask_under(X, Batch.log_probabilities, forced, constraints, about=("y", y))

    def sequence_entropies(
        self, X: Any, *, forced: ByOutput = None, constraints: Constraints = None
    ) -> Answers:
        """How uncertain each sentence is as a whole: the entropy of all its labellings in nats.
        Exact, but on latent models an unbiased estimate from 30 samples, since no sum over paths
        gives it.

        X : sentences, a Corpus, or what `encode` returned
        forced, constraints : as for `decode`

        >>> from labelwright import CRF
        >>> crf = CRF(max_iter=5, n_jobs=1).fit([["her", "brother"], ["he"]], [["B", "I"], ["B"]])
        >>> sure, unsure = crf.sequence_entropies([["her"], ["his"]])
        >>> sure < unsure
        True
        """
        self._require_of_all(PROBABILITY, "sequence_entropies", "")
        return self._ask_under(
            X, lambda name, tagger, batch: batch.entropies(), forced, constraints
        )

    # -- calibration: changes no label, but what is said about labels ------------------------------

    @property
    def _calibration(self) -> Calibration | None:
        """How probabilities (or confidences) follow from scores; None before `calibrate`."""
        record = self.__dict__.get("training_", {}).get("calibration")
        return None if record is None else Calibration.of(record)

    @property
    def temperature_(self) -> Any:
        """What scores are divided by; None before `calibrate`."""
        self._check_fitted()
        found = {name: tagger._calibration for name, tagger in self._outputs.items()}
        return self._unwrapped(
            {name: None if each is None else each.temperature for name, each in found.items()}
        )

    def calibrate(
        self, X: Any, y: Any = None, *, method: str = "temperature", folds: int | None = None
    ) -> Self:
        """Fit on held-out sentences how sure this tagger may be; every probability (or confidence)
        that it then gives is calibrated, and no label changes, nor what the layers of a cascade
        pass upwards.

        X, y : sentences that the tagger was not trained on, and their labels (or a Corpus)
        method : "temperature": all scores are divided by the number under which the held-out labels
            are most likely; "isotonic": in addition, probabilities of spans and of labels of tokens
            go through monotone maps
        folds : X and y are the training data: so many copies are trained, each without one part of
            them, and judged on that part (cross-fitting)

        >>> from labelwright import CRF
        >>> X = [["her", "brother"], ["he"], ["her"], ["brother"]]
        >>> y = [["B", "I"], ["B"], ["B"], ["O"]]
        >>> crf = CRF(max_iter=5, n_jobs=1).fit(X[:2], y[:2]).calibrate(X[2:], y[2:])
        >>> calibrated = crf.predict_marginals([["he"]])[0][0]
        >>> calibrated["B"] < crf.uncalibrated().predict_marginals([["he"]])[0][0]["B"]
        True
        """
        begun = time.perf_counter()
        self._check_fitted()
        for tagger in self._outputs.values():
            if not tagger.can & {PROBABILITY, CONFIDENCE}:
                raise OptionError(
                    f"calibrate: {tagger._lacks(PROBABILITY)}, and no sums over all labellings; "
                    "use a CRF"
                )
        X, gold = self._labelled_by_output(*sentences_and_labels(X, y))
        parts: dict[str, list[HeldOut]] = {name: [] for name in self._outputs}
        if folds is None:
            judges: Iterable[Any] = [(self, (X, gold))]
        else:  # copies of it, one after the other
            judges = (
                (uninterrupted(self._like().fit(train, self._unwrapped(labels))), rest)  # type: ignore[attr-defined]
                for (train, labels), rest in folded(X, gold, folds)
            )
        for tagger, (rest, known) in judges:
            for name, output, data in tagger._readings(rest):
                parts[name].append(held_out(output, data, known[name]))
        records = {}
        for name, held in parts.items():
            try:
                records[name] = fitted(held, method)
            except OptionError as error:
                raise OptionError(f"layer {name}: {error}" if name else str(error)) from None
        self._set_calibrations(records, round(time.perf_counter() - begun, 3))
        return self

    def _labelled_by_output(self, X: Any, y: Any) -> tuple[Any, dict[str, Any]]:
        """Sentences and their labels by output; None where a corpus has them itself."""
        return X, {"": y}

    def _asker(self, X: Any) -> Callable[[Question[Any]], list[Any]]:
        """What asks encoded sentences many questions, one after the other."""
        return lambda question: self._ask(X, question)

    def uncalibrated(self) -> Self:
        """This tagger without its calibration: its probabilities are those of the model alone."""
        self._check_fitted()
        raw = copy.copy(self)
        record = self.__dict__.get("training_", {})
        raw.__dict__["training_"] = {
            name: value for name, value in record.items() if name != "calibration"
        }
        return raw

    def _set_calibrations(self, records: Mapping[str, dict[str, Any]], seconds: float) -> None:
        """Keep the calibrations of the outputs, which took so long."""
        self._set_calibration(records[""] | {"seconds": seconds})

    def _set_calibration(self, record: dict[str, Any]) -> None:
        """Take over a calibration, perhaps that of another copy of this tagger."""
        self.__dict__["training_"] = {**self.__dict__.get("training_", {}), "calibration": record}

    # -- explanations ------------------------------------------------------------------------------

    def explain(
        self,
        x: Any,
        token: int | None = None,
        *,
        against: str | None = None,
        constraints: str | None = None,
        flips: bool = True,
    ) -> Answers:
        """Why each token of one sentence (or this one token) has its label: the runner-up, their
        log-odds, and the contributions of features and transitions, which add up to the log-odds.

        A layer of a cascade reads the labels below it as features, `y[0]=NN`, whose value is their
        probability: the explanation of the layer below says where these come from.  `against` then
        counts in the layers that have this label, and `constraints` in those whose labels follow a
        scheme.

        x : one sentence
        token : its number, from 0; None: all tokens
        against : the label to compare with, instead of the runner-up (at a token that has this
            label, the runner-up)
        constraints : "scheme" compares only labellings that the label scheme permits
        flips : also find the features without which the token has another label

        >>> from labelwright import CRF
        >>> crf = CRF(max_iter=5, n_jobs=1).fit([["her", "brother"], ["he"]], [["B", "I"], ["B"]])
        >>> why = crf.explain(["her", "brother"], token=1)[0]
        >>> why.label, why.runner_up, round(why.log_odds - why.total, 9)
        ('I', 'B', 0.0)
        """
        self._require_of_all(EXPLANATION, "explain", "use predict_nbest")
        sentences = one_sentence(x, self.reads().kind)
        words = shown_words(sentences)
        if not words:
            return self._unwrapped({name: [] for name in self._outputs})
        others, schemes = (
            self._by_output("against", against),
            self._by_output("constraints", constraints),
        )
        tokens, explained = None if token is None else [token], {}
        for name, tagger, data in self._readings(sentences):
            asked = Asked(tokens, others.get(name), schemes.get(name), flips)
            explained[name] = tagger._explained(data, words, asked)
        return self._unwrapped(explained)

    # -- decoders and constraints ------------------------------------------------------------------

    def _chosen(
        self, decoder: str | None, options: Mapping[str, Any], ruled: bool
    ) -> tuple[str, dict[str, Any]]:
        """The decoder, and those of the options that it takes."""
        name = self._checked_decoder(decoder)
        takes = self._rule_options if ruled else self._decoder_options(name)
        return name, {option: value for option, value in options.items() if option in takes}

    def _check_constraints(self, decoder: str, constraints: Constraints) -> None:
        """Refuse constraints that a decoder cannot keep."""

    def _check_rules(self, decoder: str) -> None:
        """Refuse rules that this tagger, or this decoder, does not take."""
        self._require(RULES, "constraints", "use 'scheme', forced=, or a CRF")
        self._check_options(decoder, (), True)

    def _checked_decoder(self, decoder: str | None) -> str:
        """The name of a decoder that this tagger has."""
        if decoder is not None and not isinstance(decoder, str):
            check_decoder(repr(decoder), self.decoders)
        name, why = decoder or self._default_decoder, self._why_one_decoder()
        if why is not None and name in DECODERS and name not in self.decoders:
            raise OptionError(f"decoder: got {name!r}, but {why}; use {self._default_decoder!r}")
        check_decoder(name, self.decoders)
        return name

    def _check_options(self, decoder: str, options: Iterable[str], rules: bool) -> None:
        """Refuse options that a decoder does not take."""
        known = self._rule_options if rules else tuple(self._decoder_options(decoder))
        if rules and decoder not in RULED_DECODERS:
            kind, takers = (
                self._decoder_flag.removeprefix("--"),
                [d for d in self.decoders if d in RULED_DECODERS],
            )
            what = f"{kind}s" if len(takers) > 1 else kind
            raise OptionError(
                f"{kind} {decoder}: rules are for the {what} "
                f"{' and '.join(sorted(takers, reverse=True))}"
            )
        what = "decoding with rules" if rules else f"decoder {decoder}"
        for name in options:
            if name not in known:
                expected = f"one of {', '.join(known)}" if len(known) > 1 else known[0]
                raise OptionError(f"{what}: no option {name!r}, expected {expected}")

    def _scheme(self, constraints: str) -> str:
        """The label scheme that `constraints` names, which must be that of the training labels."""
        if not isinstance(constraints, str):
            rules = (
                "rules are for decode, sample and predict_*"
                if RULES in self.can
                else self._lacks(RULES)
            )
            raise OptionError(f"constraints: expected 'scheme' here, got {constraints!r}; {rules}")
        scheme = scheme_named(constraints, self.scheme_)
        if self.scheme_ is not None and not same_rules(self.scheme_, scheme):
            raise OptionError(
                f"constraints: the labels follow {self.scheme_}, got {scheme!r}; use 'scheme'"
            )
        return scheme


class Confidences:
    """Questions to taggers whose scores only order labellings.  `calibrate` finds the temperature
    at which exp(score / temperature) says best how often they are right on held-out data: the
    answers are *confidences*, kept apart from probabilities."""

    def predict_confidences(
        self: Any, X: Any, *, forced: ByOutput = None, constraints: Constraints = None
    ) -> Answers:
        """The confidence in every label at every token, from a calibrated model without
        probabilities.

        X : sentences, a Corpus, or what `encode` returned
        forced, constraints : as for `decode`
        """
        self._check_calibrated("predict_confidences", "predict_marginals")
        return self._ask_under(
            X, lambda name, tagger, batch: batch.sure.marginals(), forced, constraints
        )

    def span_confidences(
        self: Any,
        X: Any,
        spans: ByOutput,
        *,
        forced: ByOutput = None,
        constraints: Constraints = None,
    ) -> Answers:
        """These spans of each sentence with the confidence in each in place of a probability.

        X : sentences, a Corpus, or what `encode` returned
        spans : those of each sentence
        forced, constraints : as for `decode`
        """
        self._check_calibrated("span_confidences", "span_probabilities")
        question = lambda batch, part: batch.sure.span_probabilities(part)  # noqa: E731
        return self._ask_under(X, question, forced, constraints, about=("spans", spans))

    def occurrence_confidences(
        self: Any,
        X: Any,
        types: ByOutput,
        *,
        forced: ByOutput = None,
        constraints: Constraints = None,
    ) -> Answers:
        """The confidence that each sentence has at least one span of these types.

        X : sentences, a Corpus, or what `encode` returned
        types : one type, or several
        forced, constraints : as for `decode`
        """
        self._check_calibrated("occurrence_confidences", "occurrence_probabilities")
        wanted = self._types(types)
        question = lambda name, tagger, batch: batch.sure.occurrences(wanted[name])  # noqa: E731
        return self._ask_under(X, question, forced, constraints, wanted)

    def _check_calibrated(self: Any, question: str, instead: str) -> None:
        self._require_of_all(CONFIDENCE, question, f"use {instead}")
        for tagger in self._outputs.values():
            if tagger._calibration is None:
                raise OptionError(
                    f"{tagger._lacks(PROBABILITY)}; calibrate it on held-out data first"
                )


def _labels(records: Sequence[Decoding]) -> list[list[str]]:
    return [record.labels for record in records]
