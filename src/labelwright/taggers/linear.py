"""What all linear models share once they have weights: encoding, lattices, decoding, probabilities, files."""

import inspect
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.schemes import SCHEMES, Boundaries, boundaries
from labelwright.corpus.spans import Span, spans_of
from labelwright.corpus.table import Corpus
from labelwright.decode import Decoding, decoder_named
from labelwright.decode.exact import labellings
from labelwright.decode.options import MOST, check_whole
from labelwright.decode.paths import best_paths
from labelwright.errors import CorpusError, NotFittedError, OptionError
from labelwright.evaluate import evaluate
from labelwright.features.extract import Encoded, Extractor
from labelwright.features.incidence import Incidence
from labelwright.kernels import scoring
from labelwright.parallel import Workers, even_ranges, sentence_ranges
from labelwright.scoring.assembly import Assembly
from labelwright.scoring.parameters import Cells, Parameters
from labelwright.structures.lattice import (
    Lattice,
    Posterior,
    label_marginals,
    labelling_weight,
    posterior,
    span_probability,
    state_marginals,
)
from labelwright.structures.passing import Layered
from labelwright.structures.states import StateSpace, state_names
from labelwright.taggers.estimator import Estimator

Array = NDArray[Any]
R = TypeVar("R")
BLOCK_TOKENS = 4096  # sentences of one piece of work,
BLOCK_NUMBERS = 1 << 23  # and the scores of all their nodes and arcs

Forced = Sequence[Sequence[str | Sequence[str] | None]]
Constraints = Any  # None, a label scheme, or rules of labelwright.constraints: one, a list, functions of the sentence
RULE_DECODERS = ("viterbi", "exact")


class LinearModel(Estimator):
    """A trained linear model over sequences; subclasses say how the weights are found."""

    default_decoder: ClassVar[str] = "viterbi"
    probabilistic: ClassVar[bool] = True  # are scores logarithms of probabilities, up to a constant?
    n_jobs: int | None

    # What fit learns.
    extractor_: Extractor
    space_: StateSpace
    parameters_: Parameters
    weights_: Array  # [W] float32
    scheme_: str | None  # of the labels, where they follow one
    training_: dict[str, Any]  # record of the run: sizes, loss, seconds, why it stopped
    history_: list[dict[str, Any]]
    _assemblies: tuple[Parameters, dict[str | None, Assembly]] | None = None

    # -- data in ----------------------------------------------------------------------------------------------

    @property
    def classes_(self) -> list[str]:
        """The labels, in the order of first appearance in the training data."""
        self._check_fitted()
        return list(self.space_.labels)

    def _check_fitted(self) -> None:
        if not hasattr(self, "weights_"):
            raise NotFittedError(
                f"this {type(self).__name__} is not trained yet: call fit, or labelwright.load a model file"
            )

    def encode(self, X: Any) -> Encoded:
        """Turn sentences into features once; every method but `fit` takes the result in place of X."""
        self._check_fitted()
        if isinstance(X, Encoded):
            if X.owner != self._owner:
                raise OptionError("the encoded data belong to another model; encode them with this one")
            return X
        if isinstance(X, list | tuple) and not any(len(sentence) for sentence in X if hasattr(sentence, "__len__")):
            return Encoded({}, np.zeros(len(X) + 1, np.int64), self._owner)
        layers, offsets = self.extractor_.encode(X)
        return Encoded(layers, offsets, self._owner)

    @property
    def _owner(self) -> str:
        return self.extractor_.mark

    # -- lattices out -----------------------------------------------------------------------------------------

    def _each(
        self,
        X: Any,
        question: Callable[[int, Lattice], R],
        empty: R,
        forced: Forced | None = None,
        constraints: str | None = None,
    ) -> list[R]:
        """question(sentence, lattice) for every sentence, over threads; `empty` answers where there are no tokens."""
        data = self.encode(X)
        permitted = self._permitted(forced, data.offsets)
        build = self._assembly(constraints)
        if data.offsets[-1] == 0:
            return [empty] * len(data)
        plain = build.plain(self.weights_)
        layers = {name: x._replace(token_value=x.token_value.astype(np.float64)) for name, x in data.layers.items()}
        layers = build.layers(layers)
        weights = {name: self.weights_[self.parameters_.slices[name]].astype(np.float64) for name in layers}
        with Workers(self.n_jobs) as workers:
            shape = {name: (build.cells[name], build.row_width[name]) for name in layers}
            tables = {name: score_keys(x, *shape[name], weights[name], workers) for name, x in layers.items()}

            def block(begin: int, end: int) -> list[R]:
                offsets = data.offsets[begin : end + 1]
                t0, t1 = int(offsets[0]), int(offsets[-1])
                rows = {
                    name: score_tokens(x, *shape[name], weights[name], tables[name], t0, t1)
                    for name, x in layers.items()
                }
                node, arc = build.nodes(rows, plain, np.unique(offsets)), build.arcs(rows, plain)
                if permitted is not None:
                    node[~permitted[t0:t1][:, build.graph.state]] = -np.inf
                answers = []
                for n, (a, b) in enumerate(pairwise((offsets - t0).tolist()), begin):
                    if a == b:
                        answers.append(empty)
                        continue
                    moves = arc[a:b] if build.by_token else arc
                    answers.append(question(n, Lattice(node[a:b], moves, build.graph)))
                return answers

            limit = max(1, min(BLOCK_TOKENS, BLOCK_NUMBERS // (1 + build.token_size)))
            blocks = workers.run(block, sentence_ranges(data.offsets, limit))
        return [answer for answers in blocks for answer in answers]

    def _assembly(self, constraints: str | None) -> Assembly:
        """How scores become lattices under these constraints; kept until the next fit."""
        if constraints is not None and not isinstance(constraints, str):
            raise OptionError(f"constraints: expected 'scheme' here, got {constraints!r}; rules are for decode")
        if self._assemblies is None or self._assemblies[0] is not self.parameters_:
            self._assemblies = (self.parameters_, {})
        kept = self._assemblies[1]
        if constraints not in kept:
            kept[constraints] = Assembly(self._space(constraints), self.parameters_)
        return kept[constraints]

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds: all but what is quickly made again."""
        return {name: value for name, value in self.__dict__.items() if name != "_assemblies"}

    def _space(self, constraints: str | None) -> StateSpace:
        if constraints is None:
            return self.space_
        scheme = self._scheme(constraints)
        if self.scheme_ not in (None, scheme):
            raise OptionError(f"constraints: the labels follow {self.scheme_}, got {scheme!r}; use 'scheme'")
        return self.space_.constrained(scheme)

    def _scheme(self, constraints: str) -> str:
        """The label scheme that `constraints` names: "scheme" stands for the one found in the training labels."""
        if constraints in SCHEMES:
            return constraints
        if constraints != "scheme":
            raise OptionError(f"constraints: expected 'scheme' or one of {', '.join(SCHEMES)}, got {constraints!r}")
        if self.scheme_ is None:
            raise OptionError("constraints='scheme': the labels follow no chunk scheme (B-X, I-X, O, ...)")
        return self.scheme_

    def _permitted(self, forced: Forced | None, offsets: Array) -> Array | None:
        """Which states [T, S] the forced labels leave."""
        if forced is None:
            return None
        if len(forced) != len(offsets) - 1:
            raise OptionError(f"forced: expected one list for each of {len(offsets) - 1} sentences, got {len(forced)}")
        index = {label: i for i, label in enumerate(self.space_.labels)}
        permitted = np.ones((int(offsets[-1]), self.space_.n_states), np.bool_)
        for n, (labels, (a, b)) in enumerate(zip(forced, pairwise(offsets.tolist()), strict=True)):
            if len(labels) != b - a:
                raise OptionError(
                    f"forced: sentence {n} has {b - a} tokens, got {len(labels)} entries; use None for free ones"
                )
            for t, wanted in enumerate(labels):
                if wanted is None:
                    continue
                choice = [wanted] if isinstance(wanted, str) else list(wanted)
                for label in choice:
                    if label not in index:
                        raise OptionError(f"forced: sentence {n}, token {t}: no label {label!r} in this model")
                permitted[a + t] = np.isin(self.space_.label_of, [index[label] for label in choice])
        return permitted

    # -- answers ----------------------------------------------------------------------------------------------

    def decode(
        self,
        X: Any,
        decoder: str | None = None,
        *,
        forced: Forced | None = None,
        constraints: Constraints = None,
        **options: Any,
    ) -> list[Decoding]:
        """The best labelling of each sentence with its score and probability, as a Decoding.

        `forced` gives known labels (None where free, a list where several are possible); `constraints="scheme"` allows
        only labellings that the label scheme permits, rules (labelwright.constraints) only those that keep
        them, found in `time_limit` seconds for each sentence; `options` go to the decoder.
        """
        self._check_fitted()
        find = decoder_named(decoder or self.default_decoder)
        constraints, rules = rules_among(constraints)
        if rules:
            return self._decode_by_rules(X, find.__name__, rules, forced, constraints, options)
        space = self._space(constraints)

        def question(n: int, lattice: Lattice) -> Decoding:
            found = find(lattice, space, **options)
            if found.score == -np.inf and posterior(lattice).log_z == -np.inf:
                raise impossible(n)
            return found

        known = list(inspect.signature(find).parameters)[2:]
        for name in options:
            if name not in known:
                raise OptionError(f"decoder {find.__name__}: no option {name!r}, expected one of {', '.join(known)}")
        return self._each(X, question, Decoding([], 0.0, 0.0, True, 0.0), forced, constraints)

    def _decode_by_rules(
        self,
        X: Any,
        decoder: str,
        rules: list[Any],
        forced: Forced | None,
        constraints: str | None,
        options: dict[str, Any],
    ) -> list[Decoding]:
        """The best labelling of each sentence that keeps the rules; on latent models `exact` means by the sum over its
        paths, `viterbi` by its best path."""
        from labelwright.rules.lattices import candidates_of, solve_lattice
        from labelwright.rules.rules import Sentence

        if decoder not in RULE_DECODERS:
            raise OptionError(f"decoder {decoder}: rules are for the decoders {' and '.join(RULE_DECODERS)}")
        known = "probabilities", "time_limit", "max_expansions"
        for name in options:
            if name not in known:
                raise OptionError(f"decoding with rules: no option {name!r}, expected one of {', '.join(known)}")
        space, words = self._space(constraints), words_of(X)
        scheme, sums = self.scheme_, decoder == "exact"

        def question(n: int, lattice: Lattice) -> Decoding:
            tokens = None if words is None else words[n]
            sentence = Sentence(candidates_of(lattice, space), space.labels, tokens, n, scheme)
            return solve_lattice(lattice, space, rules, sentence=sentence, sums=sums, **options)

        return self._each(X, question, Decoding([], 0.0, 0.0, True, 0.0, status="optimal"), forced, constraints)

    def predict(self, X: Any) -> list[list[str]]:
        """The best labels of each sentence."""
        return [d.labels for d in self.decode(X, probabilities=False)]

    def predict_nbest(
        self,
        X: Any,
        n: int = 5,
        *,
        forced: Forced | None = None,
        constraints: str | None = None,
        max_expansions: int | None = None,
    ) -> list[list[tuple[list[str], float]]]:
        """Up to n labellings of each sentence, the most probable first, with their exact probabilities.

        On a latent model a search that reaches `max_expansions` returns only what it has proven (at least one)."""
        check_whole("n", n, 1, MOST)
        self._check_fitted()
        labels, space = self.space_.labels, self._space(constraints)

        def question(sentence: int, lattice: Lattice) -> list[tuple[list[str], float]]:
            if space.latent:
                found = labellings(lattice, n, max_expansions)
                rows: Any = found.labels[: max(1, found.proven)]
                weights: Any = found.log_weights
                log_z = found.log_z
            else:
                paths, weights = best_paths(lattice, n)
                rows = lattice.graph.label_of_node[paths]
                log_z = posterior(lattice).log_z
            if not len(rows):
                raise impossible(sentence)
            return [
                ([labels[code] for code in row], min(1.0, float(np.exp(weight - log_z))))
                for row, weight in zip(rows, weights, strict=False)
            ]

        return self._each(X, question, [([], 1.0)], forced, constraints)

    def predict_marginals(
        self, X: Any, *, latent: bool = False, forced: Forced | None = None, constraints: str | None = None
    ) -> list[list[dict[str, float]]]:
        """The probability of every label at every token; with latent=True of every latent state (`B-NP#2`)."""
        self._check_fitted()
        labels = state_names(self.space_) if latent else self.space_.labels

        def question(n: int, lattice: Lattice) -> list[dict[str, float]]:
            sums = posterior(lattice)
            if sums.log_z == -np.inf:
                raise impossible(n)
            rows = (state_marginals if latent else label_marginals)(sums.nodes, lattice.graph).tolist()
            return [dict(zip(labels, row, strict=True)) for row in rows]

        return self._each(X, question, [], forced, constraints)

    def predict_spans(
        self, X: Any, *, forced: Forced | None = None, constraints: Constraints = None
    ) -> list[list[Span]]:
        """The spans (chunks, entities) of the best labelling, each with its exact probability:
        that a span of this type begins there, ends there, and does not go on."""
        data = self.encode(X)
        if self.scheme_ is None:  # the labels make no chunks
            return [[] for _ in range(len(data))]
        scheme, rules = rules_among(constraints)
        best = self.decode(X if rules else data, forced=forced, constraints=constraints, probabilities=False)
        spans = [spans_of(d.labels) for d in best]
        return self.span_probabilities(data, spans, forced=forced, constraints=scheme)

    def span_probabilities(
        self,
        X: Any,
        spans: Sequence[Sequence[Span]],
        *,
        forced: Forced | None = None,
        constraints: str | None = None,
    ) -> list[list[Span]]:
        """These spans of each sentence with their exact probabilities."""
        data = self.encode(X)
        if len(spans) != len(data):
            raise OptionError(f"spans: expected one list for each of {len(data)} sentences, got {len(spans)}")
        table = boundaries(self.space_.labels)
        moves: dict[str, tuple[Array, Array, Array]] = {}
        for kind in dict.fromkeys(span.type for sentence in spans for span in sentence):
            if kind not in table.types:
                raise OptionError(f"spans: no type {kind!r} in this model, expected one of {', '.join(table.types)}")
            moves[kind] = _span_moves(table, table.types.index(kind), self.space_)

        def question(n: int, lattice: Lattice) -> list[Span]:
            sums: Posterior | None = None
            answers = []
            for span in spans[n]:
                if not 0 <= span.start < span.end <= len(lattice.node):
                    raise OptionError(
                        f"spans: sentence {n}: {span.start}:{span.end} is not a span of {len(lattice.node)} tokens"
                    )
                sums = sums or posterior(lattice)
                if sums.log_z == -np.inf:
                    raise impossible(n)
                p = span_probability(lattice, sums, span.start, span.end, moves[span.type])
                answers.append(span._replace(probability=p))
            return answers

        return self._each(data, question, [], forced, constraints)

    def sequence_log_probabilities(
        self,
        X: Any,
        y: Sequence[Sequence[str]],
        *,
        forced: Forced | None = None,
        constraints: str | None = None,
    ) -> list[float]:
        """log P(y | x) of given labellings."""
        self._check_fitted()
        index = {label: i for i, label in enumerate(self.space_.labels)}
        data = self.encode(X)
        check_lengths(y, data.offsets)

        def question(n: int, lattice: Lattice) -> float:
            if any(label not in index for label in y[n]):
                return -np.inf
            codes = np.array([index[label] for label in y[n]], np.int32)
            weight = labelling_weight(lattice, codes)
            return min(0.0, weight - posterior(lattice).log_z) if weight > -np.inf else -np.inf

        return self._each(data, question, 0.0, forced, constraints)

    def score(self, X: Any, y: Sequence[Sequence[str]] | None = None) -> float:
        """Token accuracy (the convention of scikit-learn's classifiers)."""
        gold = X.y if y is None and isinstance(X, Corpus) else y
        if gold is None:
            raise OptionError("score: give the true labels y")
        return evaluate(gold, self.predict(X), reading="token").token_accuracy


def score_keys(layer: Incidence, cells: Cells, width: int, weights: Array, workers: Workers) -> Array:
    """Rows of scores of all keys of a layer [K, width]."""
    none, table = np.empty(0, np.float64), np.empty((layer.n_keys, width))
    own = cells.ptr, cells.column, layer.key_ptr, layer.key_feature, none, table
    workers.run(scoring.score_keys, [(weights, *own, a, b) for a, b in even_ranges(layer.key_ptr, 4 * workers.n)])
    return table


def score_tokens(layer: Incidence, cells: Cells, width: int, weights: Array, table: Array, t0: int, t1: int) -> Array:
    """Rows of scores of the tokens t0:t1 [T, width]."""
    rows = np.zeros((t1 - t0, width))
    own = layer.token_ptr, layer.token_feature, layer.token_value
    scoring.score_tokens(weights, cells.ptr, cells.column, layer.keys, table, *own, t0, t1, rows)
    return rows


def rules_among(constraints: Constraints) -> tuple[str | None, list[Any]]:
    """The label scheme and the rules that constraints name."""
    if constraints is None or isinstance(constraints, str):
        return constraints, []
    from labelwright.rules.rules import split_constraints

    return split_constraints(constraints)


def words_of(X: Any) -> Sequence[Any] | None:
    """The sentences that rules may look at; None where they are encoded."""
    if isinstance(X, Layered):
        return words_of(X.X)
    if isinstance(X, Corpus):
        return X.X
    return X if isinstance(X, Sequence) else None


def impossible(sentence: int) -> OptionError:
    return OptionError(f"sentence {sentence}: no labelling satisfies the forced labels and the constraints")


def check_lengths(y: Sequence[Sequence[str]], offsets: Array) -> None:
    if len(y) != len(offsets) - 1:
        raise CorpusError(f"y: {len(y)} sentences, but X has {len(offsets) - 1}")
    for n, (labels, length) in enumerate(zip(y, np.diff(offsets).tolist(), strict=True)):
        if len(labels) != length:
            raise CorpusError(f"y: sentence {n} has {len(labels)} labels, but X has {length} tokens there")


def _span_moves(table: Boundaries, kind: int, space: StateSpace) -> tuple[Array, Array, Array]:
    """Which moves between states open, continue and close a span of this type (last index: outside the sentence)."""
    mine = table.type_of == kind  # [L+1]
    state = np.append(space.label_of, space.n_labels)  # the outside is one more state
    opening = (table.starts & mine[None, :])[np.ix_(state, state[:-1])]
    inside = (mine[:, None] & mine[None, :] & ~table.starts & ~table.ends)[np.ix_(state[:-1], state[:-1])]
    closing = (table.ends & mine[:, None])[np.ix_(state[:-1], state)]
    return opening, inside, closing
