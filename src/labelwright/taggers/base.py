"""What every tagger is: an estimator whose answers are all read off scored sentences."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from numpy.typing import NDArray

from labelwright.answers.batch import Batch, joined
from labelwright.answers.labellings import Labellings
from labelwright.answers.passed import passed_by
from labelwright.corpus.schemes import same_rules
from labelwright.corpus.spans import Span
from labelwright.corpus.token_records import listed
from labelwright.decode import DECODERS, RULED_DECODERS
from labelwright.decode.checks import MOST, check_decoder, check_whole
from labelwright.decode.record import Decoding
from labelwright.errors import NotFittedError, OptionError
from labelwright.inspection.explanation import Asked, Explanation
from labelwright.structures.passing import Passed
from labelwright.taggers.arguments import (
    Constraints,
    Forced,
    check_least,
    check_one_each,
    check_probability,
    in_batches,
    one_sentence,
    rule_sentences,
    rules_among,
    scheme_named,
    shown_words,
)
from labelwright.taggers.estimator import Estimator
from labelwright.taggers.texts import entities_in

if TYPE_CHECKING:
    from labelwright.corpus.tokenizer import Entity, Tokenizer

Array = NDArray[Any]
R = TypeVar("R")


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
    """Labels sequences.  Subclasses learn (`fit`), encode sentences and score them (`_ask`); all answers are here."""

    can: ClassVar[frozenset[str]] = frozenset()
    decoders: ClassVar[tuple[str, ...]] = ()  #: the names that `decode` takes
    _default_decoder: ClassVar[str] = "viterbi"  # the one that `predict` uses
    _rule_options: ClassVar[tuple[str, ...]] = (
        "probabilities",
        "time_limit",
        "max_expansions",
    )  # of decoding with rules
    _decoder_flag: ClassVar[str] = "--decoder"  # the option of the command line that names a decoder
    _labels_as_columns: ClassVar[bool] = False  # as an upper layer, does it read the best labels below as columns?
    n_jobs: int | None = None

    # -- what subclasses give -----------------------------------------------------------------------------------------

    def encode(self, X: Any) -> Any:
        """Turn sentences into what the tagger reads, once; every method but `fit` takes the result in place of X.

        X : sentences, or a Corpus
        """
        raise NotImplementedError

    def _ask(
        self,
        X: Any,
        question: Callable[[Batch], list[R]],
        forced: Forced | None = None,
        constraints: str | None = None,
    ) -> list[R]:
        """question(batch) for all sentences, a block at a time, over threads: the answers in order."""
        raise NotImplementedError

    def _is_fitted(self) -> bool:
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

    # -- as one of several outputs ------------------------------------------------------------------------------------

    def _ask_outputs(
        self,
        X: Any,
        question: "Callable[[str, Tagger, Batch], list[R]]",
        forced: Mapping[str, Forced] | None = None,
        constraints: Mapping[str, str] | None = None,
    ) -> dict[str, list[R]]:
        """question(name, tagger, batch) for every output and all its sentences, scored once: the answers by output."""
        known, scheme = (forced or {}).get(""), (constraints or {}).get("")
        return {"": self._ask(X, lambda batch: question("", self, batch), known, scheme)}

    # -- capabilities -------------------------------------------------------------------------------------------------

    @property
    def _probabilistic(self) -> bool:
        """Are its scores logarithms of probabilities, up to a constant?"""
        return PROBABILITY in self.can

    @property
    def _is_sure(self) -> bool:
        """Can it say how probable its labels are, or at least (once calibrated) how confident it is in them?"""
        return self._probabilistic

    def _ranks(self, decoder: str) -> bool:
        """Is the answer of this decoder the first of the n best labellings?"""
        return decoder in ("viterbi", "exact", "csi")

    def _require(self, capability: str, question: str, remedy: str) -> None:
        """Refuse a question that this tagger has no answer to."""
        if capability not in self.can:
            raise OptionError(f"{question}: {self._lacks(capability)}; {remedy}")

    @classmethod
    def _lacks(cls, capability: str) -> str:
        """Why a question is refused, in half a sentence."""
        name = f"{'an' if cls.__name__[:2] in ('NG', 'Ng') or cls.__name__[0] in 'AEIO' else 'a'} {cls.__name__}"
        if capability == PROBABILITY:
            return f"{name} has scores, not probabilities"
        if capability in (FORCED, RULES):
            return f"{name} takes no {'known labels' if capability == FORCED else 'rules'}"
        return f"{name} has no {capability}"

    def _check_fitted(self) -> None:
        if not self._is_fitted():
            raise NotFittedError(
                f"this {type(self).__name__} is not trained yet: call fit, or labelwright.load a model file"
            )

    # -- answers ------------------------------------------------------------------------------------------------------

    def scored(self, X: Any, *, forced: Forced | None = None, constraints: str | None = None) -> Batch:
        """All sentences, scored once: a batch that can be asked for labellings, probabilities, spans and samples.

        X : sentences, a Corpus, or what `encode` returned
        forced, constraints : as for `decode`; no rules here
        """
        self._check_fitted()
        return joined(self._ask(X, lambda batch: [batch], forced, constraints))

    def decode(
        self,
        X: Any,
        decoder: str | None = None,
        *,
        forced: Forced | None = None,
        constraints: Constraints = None,
        **options: Any,
    ) -> list[Decoding]:
        """The best labelling of each sentence with its score and probability (or confidence), as a Decoding.

        X : sentences, a Corpus, or what `encode` returned
        decoder : one of the tagger's `decoders`
        forced : known labels: None where the tagger may choose, a list where several are possible
        constraints : "scheme" allows only labellings that the label scheme permits; rules (labelwright.constraints)
            only those that keep them, found in `time_limit` seconds for each sentence
        options : go to the decoder
        """
        X = listed(X)
        decoded, ruled, scheme = self._decoding(X, decoder, constraints, options)
        return self._ask(X, lambda batch: decoded(ruled(batch)), forced, scheme)

    def predict(self, X: Any) -> Labellings:
        """The best labels of each sentence: a list of lists, which NumPy takes for an array of lists.

        X : sentences, a Corpus, or what `encode` returned
        """
        if isinstance(X, Iterator):
            return Labellings(self.predict_stream(X))
        return Labellings(d.labels for d in self.decode(X, probabilities=False))

    def predict_stream(self, X: Iterable[Any], batch_size: int = 1000) -> Iterator[list[str]]:
        """The best labels of each sentence, one after the other: sentences are read, and answered, `batch_size` at a
        time, so memory does not grow with their number.

        X : sentences, of which none is read before it is needed
        batch_size : sentences that are answered together

        >>> from labelwright import CRF
        >>> crf = CRF(max_iter=5, n_jobs=1).fit([["her", "brother"], ["he"]], [["B", "I"], ["B"]])
        >>> list(crf.predict_stream(line.split() for line in ["her brother", "he"]))
        [['B', 'I'], ['B']]
        """
        self._check_fitted()
        answers = in_batches(X, batch_size, lambda batch: self.decode(batch, probabilities=False))
        return (decoding.labels for decoding in answers)

    def predict_nbest(
        self,
        X: Any,
        n: int = 5,
        *,
        forced: Forced | None = None,
        constraints: Constraints = None,
        max_expansions: int | None = None,
        distinct: str | None = None,
    ) -> list[list[tuple[list[str], float]]]:
        """Up to n labellings of each sentence, the best first, with their exact probabilities (or their scores).

        On a latent model a search that reaches `max_expansions` returns only what it has proven (at least one).

        X : sentences, a Corpus, or what `encode` returned
        n : how many
        forced, constraints : as for `decode`
        max_expansions : limit of the search of a latent model
        distinct : the label that stands for nothing, such as "-" of a silent letter: labellings with the same output
            (the other labels; K_S is K S) are one, the best of them, with the sum of their probabilities among the
            10 n best (at least 100): a lower bound of the probability of the output; of scores the best
        """
        check_whole("n", n, 1, MOST)
        self._check_fitted()
        return self._ask_under(X, lambda batch: batch.nbest(n, max_expansions, distinct), forced, constraints)

    def predict_marginals(
        self, X: Any, *, forced: Forced | None = None, constraints: Constraints = None
    ) -> list[list[dict[str, float]]]:
        """The probability of every label at every token (among the labellings that satisfy the constraints).

        X : sentences, a Corpus, or what `encode` returned
        forced, constraints : as for `decode`
        """
        self._check_fitted()
        self._require(PROBABILITY, "predict_marginals", self._instead("predict_confidences"))
        return self._ask_under(X, lambda batch: batch.marginals(), forced, constraints)

    def predict_spans(
        self, X: Any, *, forced: Forced | None = None, constraints: Constraints = None
    ) -> list[list[Span]]:
        """The spans (chunks, entities) of the best labelling, each with the probability that exactly this span is an
        entity; without one where the tagger has no probabilities (`span_confidences` gives their confidences, once it
        is calibrated).

        X : sentences, a Corpus, or what `encode` returned
        forced, constraints : as for `decode`
        """
        X = listed(X)
        decoded, ruled, scheme = self._decoding(X, None, constraints, {"probabilities": False})

        def question(batch: Batch) -> list[list[Span]]:
            batch = ruled(batch)
            return batch.spans([d.labels for d in decoded(batch)])

        return self._ask(X, question, forced, scheme)

    def predict_confident(
        self, X: Any, least: float, *, forced: Forced | None = None, constraints: Constraints = None
    ) -> Labellings:
        """The best labels of each sentence without the entities that are less probable (or, of calibrated
        taggers without probabilities, less confident) than `least`: these are O, or _ where labels make no chunks.

        X : sentences, a Corpus, or what `encode` returned
        least : the least probability of an entity
        forced, constraints : as for `decode`

        >>> from labelwright import CRF
        >>> crf = CRF(n_jobs=1).fit([["Ada", "ran"], ["he", "ran"]], [["B-PER", "O"], ["O", "O"]])
        >>> crf.predict_confident([["Ada", "ran"]], 0.5), crf.predict_confident([["Ada", "ran"]], 0.999)
        ([['B-PER', 'O']], [['O', 'O']])
        """
        check_least(least)
        X = listed(X)
        decoded, ruled, scheme = self._decoding(X, None, constraints, {"probabilities": False})
        if not self._is_sure:
            self._require(PROBABILITY, "predict_confident", self._instead("predict_confident"))

        def question(batch: Batch) -> list[list[str]]:
            batch = ruled(batch)
            return [labels for labels, _ in batch.confident([d.labels for d in decoded(batch)], least, self.scheme_)]

        return Labellings(self._ask(X, question, forced, scheme))

    def predict_entities(self, texts: Iterable[str], tokenizer: "Tokenizer | None" = None) -> "list[list[Entity]]":
        """The entities of each text: start and end (in characters), type, text and probability (or confidence).

        texts : strings
        tokenizer : how texts are split; by default as those of the training data were

        >>> from labelwright import CRF
        >>> crf = CRF(n_jobs=1).fit([["Ada", "ran", "."], ["he", "ran", "."]], [["B-PER", "O", "O"], ["O", "O", "O"]])
        >>> [(e.start, e.end, e.type, e.text) for e in crf.predict_entities(["he ran. Ada ran."])[0]]
        [(8, 11, 'PER', 'Ada')]
        """
        self._check_fitted()
        return entities_in(self, texts, tokenizer)[""]

    def span_probabilities(
        self,
        X: Any,
        spans: Sequence[Sequence[Span]],
        *,
        forced: Forced | None = None,
        constraints: Constraints = None,
    ) -> list[list[Span]]:
        """These spans of each sentence with their exact probabilities.

        X : sentences, a Corpus, or what `encode` returned
        spans : those of each sentence; the type "PER|ORG" stands for either of the two
        forced, constraints : as for `decode`
        """
        self._check_fitted()
        self._require(PROBABILITY, "span_probabilities", self._instead("span_confidences"))
        return self._ask_about(X, spans, "spans", Batch.span_probabilities, forced, constraints)

    def sequence_log_probabilities(
        self,
        X: Any,
        y: Forced,
        *,
        forced: Forced | None = None,
        constraints: Constraints = None,
    ) -> list[float]:
        """log P(y | x) of given labellings.

        X : sentences, a Corpus, or what `encode` returned
        y : labels of each sentence; where one is None or a set of labels, the answer is about all labellings that agree
            with the rest
        forced, constraints : as for `decode`
        """
        self._check_fitted()
        self._require(PROBABILITY, "sequence_log_probabilities", self._instead("decode's confidence"))
        return self._ask_about(X, y, "y", Batch.log_probabilities, forced, constraints)

    def occurrence_probabilities(
        self, X: Any, types: str | Iterable[str], *, forced: Forced | None = None, constraints: Constraints = None
    ) -> list[float]:
        """The exact probability that each sentence has at least one span of these types (of labels that make no chunks:
        at least one token with one of these labels).

        X : sentences, a Corpus, or what `encode` returned
        types : one type, or several
        forced, constraints : as for `decode`

        >>> from labelwright import CRF
        >>> crf = CRF(n_jobs=1).fit([["Ada", "ran"], ["he", "ran"]], [["B-PER", "O"], ["O", "O"]])
        >>> [p > 0.5 for p in crf.occurrence_probabilities([["Ada", "ran"], ["he", "ran"]], "PER")]
        [True, False]
        """
        self._check_fitted()
        self._require(PROBABILITY, "occurrence_probabilities", self._instead("occurrence_confidences"))
        wanted = [types] if isinstance(types, str) else list(types)
        return self._ask_under(X, lambda batch: batch.occurrences(wanted), forced, constraints)

    def sequence_entropies(
        self, X: Any, *, forced: Forced | None = None, constraints: Constraints = None
    ) -> list[float]:
        """How uncertain each sentence is as a whole: the entropy of all its labellings in nats.  Exact, but on latent
        models an unbiased estimate from 30 samples, since no sum over paths gives it.

        X : sentences, a Corpus, or what `encode` returned
        forced, constraints : as for `decode`

        >>> from labelwright import CRF
        >>> crf = CRF(max_iter=5, n_jobs=1).fit([["her", "brother"], ["he"]], [["B", "I"], ["B"]])
        >>> sure, unsure = crf.sequence_entropies([["her"], ["his"]])
        >>> sure < unsure
        True
        """
        self._check_fitted()
        self._require(PROBABILITY, "sequence_entropies", "use predict_nbest, which has scores")
        return self._ask_under(X, lambda batch: batch.entropies(), forced, constraints)

    def likely_spans(
        self, X: Any, least: float = 0.05, *, forced: Forced | None = None, constraints: Constraints = None
    ) -> list[list[Span]]:
        """All spans of each sentence that are at least as probable as `least` (above 0), with exact probabilities,
        whether they are in the best labelling or not.

        X : sentences, a Corpus, or what `encode` returned
        least : a probability
        forced, constraints : as for `decode`
        """
        self._check_fitted()
        self._require(PROBABILITY, "likely_spans", self._instead("span_confidences"))
        check_probability(least)
        return self._ask_under(X, lambda batch: batch.likely_spans(least), forced, constraints)

    def sample(
        self,
        X: Any,
        n: int,
        random_state: int | None = 0,
        *,
        forced: Forced | None = None,
        constraints: Constraints = None,
    ) -> list[list[tuple[list[str], float]]]:
        """n labellings of each sentence, drawn from their probabilities; equal ones once, with their share.

        X : sentences, a Corpus, or what `encode` returned
        n : how many
        random_state : the seed
        forced, constraints : as for `decode`
        """
        check_whole("n", n, 1, MOST)
        check_whole("random_state", 0 if random_state is None else random_state, 0)
        self._check_fitted()
        self._require(PROBABILITY, "sample", "use predict_nbest")
        return self._ask_under(X, lambda batch: batch.sample(n, random_state), forced, constraints)

    def calibrate(self, X: Any, y: Any = None, *, method: str = "temperature", folds: int | None = None) -> Self:
        """Fit on held-out sentences how sure the tagger may be: for taggers that have sums over all labellings.

        X, y : held-out sentences and their labels, or a Corpus
        method : "temperature" or "isotonic"
        folds : number of parts for cross-fitting on the training data
        """
        raise OptionError(f"calibrate: {self._lacks(PROBABILITY)}, and no sums over all labellings; use a CRF")

    def explain(
        self,
        x: Any,
        token: int | None = None,
        *,
        against: str | None = None,
        constraints: str | None = None,
        flips: bool = True,
    ) -> list[Explanation]:
        """Why each token of one sentence (or this one token) has its label: the runner-up, their log-odds, and the
        contributions of features and transitions, which add up to the log-odds.

        x : one sentence
        token : its number, from 0; None: all tokens
        against : the label to compare with, instead of the runner-up (at a token that has this label, the runner-up)
        constraints : "scheme" compares only labellings that the label scheme permits
        flips : also find the features without which the token has another label

        >>> from labelwright import CRF
        >>> crf = CRF(max_iter=5, n_jobs=1).fit([["her", "brother"], ["he"]], [["B", "I"], ["B"]])
        >>> why = crf.explain(["her", "brother"], token=1)[0]
        >>> why.label, why.runner_up, round(why.log_odds - why.total, 9)
        ('I', 'B', 0.0)
        """
        self._check_fitted()
        self._require(EXPLANATION, "explain", "use predict_nbest")
        sentences = one_sentence(x, self.reads().kind)
        asked = Asked(None if token is None else [token], against, constraints, flips)
        return self._explained(sentences, shown_words(sentences), asked)

    def _explained(self, X: Any, words: Sequence[str | None], asked: Asked) -> list[Explanation]:
        """The explanation of the one sentence of X, whose words are these."""
        raise NotImplementedError

    def _passed_by(self, batch: Batch, cut: float) -> Passed:
        """What it passes to a layer above it: every label at least as probable as `cut`, and pairs of them."""
        return passed_by(batch, tuple(self.classes_), cut)

    # -- steps of answers ---------------------------------------------------------------------------------------------

    def _decoding(
        self, X: Any, decoder: str | None, constraints: Constraints, options: Mapping[str, Any]
    ) -> tuple[Callable[[Batch], list[Decoding]], Callable[[Batch], Batch], str | None]:
        """What decodes a batch of these sentences, what puts it under the rules before, and the label scheme under
        which they are scored, all checked."""
        self._check_fitted()
        name = self._checked_decoder(decoder)
        self._check_constraints(name, constraints)
        scheme, rules = rules_among(constraints)
        self._check_options(name, options, bool(rules))
        return lambda batch: batch.decode(name, **options), self._under_rules(X, rules), scheme

    def _ask_about(
        self,
        X: Any,
        given: Sequence[Any],
        name: str,
        question: Callable[[Batch, Sequence[Any]], list[R]],
        forced: Forced | None,
        constraints: Constraints,
    ) -> list[R]:
        """Ask a question about something given for each sentence, in the blocks of the sentences."""
        X, ruled, scheme = self._constrained_by(X, constraints)
        data = self.encode(X)
        check_one_each(given, name, len(data))

        def part(batch: Batch) -> list[R]:
            part_given = given[batch.first : batch.first + len(batch)]
            return question(ruled(batch), part_given)

        return self._ask(data, part, forced, scheme)

    def _ask_under(
        self, X: Any, question: Callable[[Batch], list[R]], forced: Forced | None, constraints: Constraints
    ) -> list[R]:
        """`_ask` about the labellings that satisfy the constraints."""
        X, ruled, scheme = self._constrained_by(X, constraints)
        return self._ask(X, lambda batch: question(ruled(batch)), forced, scheme)

    def _constrained_by(self, X: Any, constraints: Constraints) -> tuple[Any, Callable[[Batch], Batch], str | None]:
        """The sentences, what puts a batch of them under the rules among the constraints, and the label scheme."""
        scheme, rules = rules_among(constraints)
        X = listed(X) if rules else X
        return X, self._under_rules(X, rules), scheme

    def _check_constraints(self, decoder: str, constraints: Constraints) -> None:
        """Refuse constraints that a decoder cannot keep."""

    def _check_rules(self, decoder: str) -> None:
        """Refuse rules that this tagger, or this decoder, does not take."""
        self._require(RULES, "constraints", "use 'scheme', forced=, or a CRF")
        self._check_options(decoder, (), True)

    def _under_rules(self, X: Any, rules: list[Any]) -> Callable[[Batch], Batch]:
        """What puts a batch of these sentences under rules, which may look at the words."""
        if not rules:
            return lambda batch: batch
        self._require(RULES, "constraints", "use 'scheme', forced=, or a CRF")
        words = rule_sentences(X)
        return lambda batch: batch.under(rules, words)

    def _instead(self, remedy: str) -> str:
        """What to use where probabilities are asked for."""
        return f"calibrate it and use {remedy}" if CONFIDENCE in self.can else "use predict_nbest, which has scores"

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
            kind, takers = self._decoder_flag.removeprefix("--"), [d for d in self.decoders if d in RULED_DECODERS]
            what = f"{kind}s" if len(takers) > 1 else kind
            raise OptionError(
                f"{kind} {decoder}: rules are for the {what} {' and '.join(sorted(takers, reverse=True))}"
            )
        what = "decoding with rules" if rules else f"decoder {decoder}"
        for name in options:
            if name not in known:
                expected = f"one of {', '.join(known)}" if len(known) > 1 else known[0]
                raise OptionError(f"{what}: no option {name!r}, expected {expected}")

    def _scheme(self, constraints: str) -> str:
        """The label scheme that `constraints` names, which must be that of the training labels."""
        if not isinstance(constraints, str):
            rules = "rules are for decode, sample and predict_*" if RULES in self.can else self._lacks(RULES)
            raise OptionError(f"constraints: expected 'scheme' here, got {constraints!r}; {rules}")
        scheme = scheme_named(constraints, self.scheme_)
        if self.scheme_ is not None and not same_rules(self.scheme_, scheme):
            raise OptionError(f"constraints: the labels follow {self.scheme_}, got {scheme!r}; use 'scheme'")
        return scheme
