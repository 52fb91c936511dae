"""Semi-Markov conditional random fields (Sarawagi & Cohen, 2004): labels of whole segments instead of tokens."""

import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.schemes import check_scheme, pairs_of_codes
from labelwright.corpus.spans import Span
from labelwright.decode.options import MOST, check_whole
from labelwright.decode.record import Decoding
from labelwright.errors import OptionError
from labelwright.features.extract import ColumnFeatures, Extractor, learn
from labelwright.features.incidence import Incidence
from labelwright.features.layered import LayeredFeatures
from labelwright.features.segments import SegmentFeatures
from labelwright.features.template import Pattern, Template
from labelwright.kernels import segments as kernels
from labelwright.learn.objective import LogLikelihood
from labelwright.learn.segments import SegmentAssembly, SegmentExpectations, gold_of, segment_parameters
from labelwright.parallel import Workers, sentence_ranges
from labelwright.scoring.carry import old_features
from labelwright.scoring.parameters import Cells
from labelwright.structures import dag
from labelwright.structures.passing import Candidates, Passed, likely
from labelwright.structures.segments import (
    Arcs,
    Segments,
    SegmentSpace,
    arcs_of,
    check_sizes,
    label_marginals,
    label_of_role,
    permitted_arcs,
    row_offsets,
    rows_of,
    segment_space,
    segments_in,
)
from labelwright.structures.states import state_space
from labelwright.taggers.linear import Forced, check_lengths, impossible, score_keys, score_tokens
from labelwright.taggers.loglinear import LogLinearModel
from labelwright.taggers.training import INTEGER, Data, labelled

Array = NDArray[Any]
R = TypeVar("R")
BLOCK_TOKENS = 4096  # sentences of one piece of work


class Scored(NamedTuple):
    """The graph of one sentence with its scores."""

    arcs: Arcs
    scores: Array  # [A]

    @property
    def sums(self) -> dag.Sums:
        return dag.sums(self.arcs.dag, self.scores)


class SemiCRF(LogLinearModel):
    """Semi-Markov conditional random field: the best segmentation into chunks, whatever scheme writes them down.

    The score of a segment is that of its tokens (as first, inner, last or only token of its type, by the U lines of the
    template), of its length, of its text where that was a segment in training, and of the dictionaries that have it;
    to that come the moves from type to type.

    Parameters
    ----------
    template : name of a built-in template, path of a template file, or its text; for columns and strings
    max_length : most tokens of a segment; None: those of the longest in the training data
    dictionaries : {name: phrases}; a phrase is a string of words with blanks between them, or a list of words
    cells : "observed" (a weight for every feature and role or type seen together) or "all"
    min_count : features of tokens, and texts of segments, seen less often in training are left out
    l1, l2 : the penalty is l1 |w| + l2/2 |w|^2
    optimizer : "lbfgs" (OWL-QN when l1 > 0)
    max_iter : limit of iterations (1000)
    tol : training stops when the loss falls by less than this share in ten iterations
    n_jobs : threads, one per core by default; the result does not depend on it
    random_state : not used: there is one optimum
    verbose : show progress on a terminal

    >>> X = [["Ada", "Lovelace", "met", "Charles", "Babbage"], ["they", "met", "Ada", "Lovelace"]]
    >>> y = [["B-PER", "I-PER", "O", "B-PER", "I-PER"], ["O", "O", "B-PER", "I-PER"]]
    >>> SemiCRF(n_jobs=1).fit(X, y).predict([["Charles", "Babbage", "met", "Ada", "Lovelace"]])
    [['B-PER', 'I-PER', 'O', 'B-PER', 'I-PER']]
    """

    order = 1
    averaging = "none"
    constraints = None
    warm_start = False
    extractor_: SegmentFeatures
    segments_: SegmentSpace
    _given: SegmentSpace | None = None  # by `like`: the space that fit shall use

    _numbers: ClassVar[dict[str, tuple[Any, float]]] = {"max_length": (INTEGER, 1), **LogLinearModel._numbers}
    _optional: ClassVar[tuple[str, ...]] = ("max_length", *LogLinearModel._optional)

    def __init__(
        self,
        template: str | Template = "default",
        max_length: int | None = None,
        dictionaries: Mapping[str, Any] | None = None,
        cells: str = "observed",
        min_count: int = 1,
        l1: float = 0.0,
        l2: float = 1.0,
        optimizer: str = "lbfgs",
        max_iter: int | None = None,
        tol: float = 1e-5,
        n_jobs: int | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ):
        self.template = template
        self.max_length = max_length
        self.dictionaries = dictionaries
        self.cells = cells
        self.min_count = min_count
        self.l1 = l1
        self.l2 = l2
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # -- training ---------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        self._check_choice("optimizer", ("lbfgs",))
        super()._check_parameters()

    def _prepare(self, X: Any, y: Sequence[Sequence[str]] | None, more: bool = False) -> Data:
        corpus, labels, codes = labelled(X, y)
        tokens, layers, offsets = learn(corpus, self.template, self.min_count)
        _refuse_pairs(tokens)
        if set(layers) != {"state"}:
            raise OptionError("X: a SemiCRF has no features on pairs of labels; give it features of tokens alone")
        if y is not None:
            check_lengths(y, offsets)
        self.__dict__.pop("weights_", None)  # a fit that fails from here on leaves no mixture of two models
        if self._given is None:
            pairs = pairs_of_codes(labels, codes, offsets)
            space, found = segment_space(labels, codes, offsets, pairs, self.max_length)
        else:
            space, found = self._given, segments_in(self._given, labels, codes, offsets)
            check_sizes(found, offsets, space.max_length)
        offsets = np.unique(offsets)  # sentences without tokens teach nothing
        features = SegmentFeatures.learn(tokens, corpus, found, space, self.min_count, self.dictionaries)
        layers = layers | {"segment": features.incidence(corpus, offsets)}
        gold = gold_of(found, offsets, space)
        self.parameters_ = segment_parameters(layers, features, gold, offsets, space, self.cells)
        self.extractor_, self.segments_, self.scheme_ = features, space, space.scheme
        self.space_ = state_space(space.labels)
        return Data(layers, offsets, gold.kinds)

    def untrained(self) -> Self:
        copy = super().untrained()
        copy._given = self._given
        return copy

    def like(self) -> Self:
        """An untrained copy of a trained model that will have the same labels, scheme, types and max_length, whatever
        part of its training data it is trained on."""
        self._check_fitted()
        copy = super().like()
        copy._given = self.segments_
        return copy

    def weights_of(self, other: "SemiCRF") -> Array:
        """The weights of another model of the same segments by the numbers of this one's; 0 for what it has not."""
        for model in (self, other):
            model._check_fitted()
        if self.segments_[1:3] != other.segments_[1:3]:
            raise OptionError("weights_of: the other model has other types of segments; train it by `like`")
        own, old = self.extractor_, other.extractor_
        features = np.concatenate([old_features(old.tokens, own.tokens), own.segment_numbers_in(old)])
        parts, old_parts = self.parameters_.slices, other.parameters_.slices
        found = np.zeros_like(self.weights_)
        for name, cells in self.parameters_.cells.items():
            of_other = other.parameters_.cells[name]
            found[parts[name]] = _looked_up(of_other, other.weights_[old_parts[name]], cells, features)
        found[parts["transitions"]] = other.weights_[old_parts["transitions"]]
        return found

    def _may_change(self) -> tuple[str, ...]:
        return ("max_iter", "dictionaries")  # what they do to training is in its data; sets have no fixed order

    def _start(self, restart: int, split: bool) -> Array:
        if split:
            raise OptionError("init: a SemiCRF starts from nothing; leave it out")
        return super()._start(restart, split)

    def _objective(
        self,
        data: Data,
        workers: Workers,
        dtype: Any = np.float32,
        slots: dict[str, Array] | None = None,
        candidates: Candidates | None = None,
    ) -> LogLikelihood:
        layers, offsets, gold = data
        expected = SegmentExpectations(SegmentAssembly(self.segments_, self.parameters_), gold, offsets, candidates)
        own = {"segment": row_offsets(offsets, self.segments_.max_length)}
        n_features = self.extractor_.n_features
        return LogLikelihood(
            layers, n_features, offsets, gold, self.space_, self.parameters_, workers, dtype,
            expectations=expected, row_offsets=own, slots=slots, candidates=candidates,
        )  # fmt: skip

    # -- graphs out -------------------------------------------------------------------------------------------

    def _each_graph(
        self,
        X: Any,
        question: Callable[[int, Scored], R],
        empty: R,
        forced: Forced | None = None,
        constraints: str | None = None,
    ) -> list[R]:
        """question(sentence, graph) for every sentence, over threads; `empty` answers where there are no tokens."""
        data = self.encode(X)
        self._check_constraints(constraints)
        permitted = self._permitted(forced, data.offsets)
        if data.offsets[-1] == 0:
            return [empty] * len(data)
        space, build = self.segments_, SegmentAssembly(self.segments_, self.parameters_)
        L, shape = space.n_types, (space.n_types, space.n_long, space.max_length)
        move = build.plain(self.weights_).arc.reshape(L + 1, L + 1)
        layers = {name: x._replace(token_value=x.token_value.astype(np.float64)) for name, x in data.layers.items()}
        layers = build.layers(layers)
        weights = {name: self.weights_[self.parameters_.slices[name]].astype(np.float64) for name in layers}
        rows_at = {"state": data.offsets, "segment": row_offsets(data.offsets, space.max_length)}
        longest = int(np.diff(data.offsets).max())
        every = arcs_of(space, longest)
        with Workers(self.n_jobs) as workers:
            form = {name: (build.cells[name], build.row_width[name]) for name in layers}
            tables = {name: score_keys(x, *form[name], weights[name], workers) for name, x in layers.items()}

            def block(begin: int, end: int) -> list[R]:
                rows = {}
                for name, x in layers.items():
                    at = rows_at[name][begin].item(), rows_at[name][end].item()
                    rows[name] = score_tokens(x, *form[name], weights[name], tables[name], *at)
                inner, answers = np.empty((longest + 1, space.n_long)), []
                for n, (t0, t1) in enumerate(pairwise(data.offsets[begin : end + 1].tolist()), begin):
                    if t0 == t1:
                        answers.append(empty)
                        continue
                    arcs = every.of(t1 - t0, space)
                    scores = np.empty(len(arcs.first))
                    own = t0 - data.offsets[begin], rows["segment"], rows_at["segment"][n] - rows_at["segment"][begin]
                    kernels.arc_scores(rows["state"], *own, move, *shape, t1 - t0, inner, scores)
                    if permitted is not None:
                        scores[~permitted_arcs(space, arcs, permitted[t0:t1])] = -np.inf
                    answers.append(question(n, Scored(arcs, scores)))
                return answers

            blocks = workers.run(block, sentence_ranges(data.offsets, BLOCK_TOKENS))
        return [answer for answers in blocks for answer in answers]

    def _check_constraints(self, constraints: str | None) -> None:
        """Every segmentation keeps the scheme, but no other."""
        if constraints is not None and not isinstance(constraints, str):
            raise OptionError("constraints: a SemiCRF takes no rules, only 'scheme'; use forced=, or a CRF")
        if constraints not in (None, "scheme") and check_scheme(constraints) != self.scheme_:
            raise OptionError(f"constraints: the labels follow {self.scheme_}, got {constraints!r}; use 'scheme'")
        if constraints is not None and self.scheme_ is None:
            raise OptionError("constraints='scheme': the labels follow no chunk scheme (B-X, I-X, O, ...)")

    # -- answers ----------------------------------------------------------------------------------------------

    def decode(
        self,
        X: Any,
        decoder: str | None = None,
        *,
        forced: Forced | None = None,
        constraints: str | None = None,
        probabilities: bool = True,
        **options: Any,
    ) -> list[Decoding]:
        """The most probable labelling of each sentence, proven, with its score and (unless `probabilities` is off) its
        probability; `forced` gives known labels, None where free, a list where several are possible."""
        self._check_fitted()
        if decoder not in (None, "viterbi", "exact"):
            raise OptionError(f"decoder {decoder!r}: a SemiCRF decodes exactly by 'viterbi'")
        for name in options:
            raise OptionError(f"decoder viterbi: no option {name!r}, expected probabilities")

        def question(n: int, graph: Scored) -> Decoding:
            path, score = dag.best_path(graph.arcs.dag, graph.scores)
            if not len(path):
                raise impossible(n)
            labels = self.segments_.labels_of(graph.arcs.segments(path))
            log_p = min(0.0, score - graph.sums.log_z) if probabilities else None
            return Decoding(labels, score, log_p, True, 0.0)

        return self._each_graph(X, question, Decoding([], 0.0, 0.0, True, 0.0), forced, constraints)

    def predict_nbest(
        self,
        X: Any,
        n: int = 5,
        *,
        forced: Forced | None = None,
        constraints: str | None = None,
        max_expansions: int | None = None,
    ) -> list[list[tuple[list[str], float]]]:
        """Up to n labellings of each sentence, the most probable first, with their exact probabilities
        (`max_expansions` is for latent models: nothing is ever missed here)."""
        check_whole("n", n, 1, MOST)
        self._check_fitted()

        def question(sentence: int, graph: Scored) -> list[tuple[list[str], float]]:
            paths, scores = dag.best_paths(graph.arcs.dag, graph.scores, n)
            if not paths:
                raise impossible(sentence)
            p = np.minimum(1.0, np.exp(scores - graph.sums.log_z)).tolist()
            return [(self.segments_.labels_of(graph.arcs.segments(path)), q) for path, q in zip(paths, p, strict=True)]

        return self._each_graph(X, question, [([], 1.0)], forced, constraints)

    def predict_marginals(
        self, X: Any, *, latent: bool = False, forced: Forced | None = None, constraints: str | None = None
    ) -> list[list[dict[str, float]]]:
        """The probability of every label at every token."""
        self._check_fitted()
        if latent:
            raise OptionError("latent: a SemiCRF has no latent states; leave it out")
        space = self.segments_
        shape = space.n_types, space.n_long, space.max_length

        def question(n: int, graph: Scored) -> list[dict[str, float]]:
            p, T = self._sums(n, graph).arcs, int(graph.arcs.dag.n_nodes // (2 * space.n_types))
            roles, rows = (
                np.empty((T, len(space.roles))),
                np.empty((kernels.n_rows(space.max_length, T), space.n_types)),
            )
            inner, moves = np.empty((T + 1, space.n_long)), np.zeros((space.n_types + 1, space.n_types + 1))
            kernels.arc_counts(p, *shape, T, inner, roles, 0, rows, 0, moves)
            found = label_marginals(space, roles, graph.arcs, p).tolist()
            return [dict(zip(space.labels, row, strict=True)) for row in found]

        return self._each_graph(X, question, [], forced, constraints)

    def predict_spans(
        self, X: Any, *, forced: Forced | None = None, constraints: str | None = None
    ) -> list[list[Span]]:
        """The spans of the best labelling (of labels that follow no scheme: the runs of equal ones), each with its
        exact probability: that a span of this type begins there, ends there, and does not go on."""
        self._check_fitted()
        space = self.segments_

        def question(n: int, graph: Scored) -> list[Span]:
            path, _ = dag.best_path(graph.arcs.dag, graph.scores)
            if not len(path):
                raise impossible(n)
            own = path[(graph.arcs.length[path] > 0) & (graph.arcs.kind[path] < space.n_long)]
            start, end, kind = graph.arcs.segments(own)
            p = np.minimum(graph.sums.arcs[own], 1.0)
            found = zip(start.tolist(), end.tolist(), kind.tolist(), p.tolist(), strict=True)
            return [Span(a, b, space.types[x], q) for a, b, x, q in found]

        return self._each_graph(X, question, [], forced, constraints)

    def span_probabilities(
        self,
        X: Any,
        spans: Sequence[Sequence[Span]],
        *,
        forced: Forced | None = None,
        constraints: str | None = None,
    ) -> list[list[Span]]:
        """These spans of each sentence with their exact probabilities; 0 for those of more than max_length tokens."""
        data = self.encode(X)
        if len(spans) != len(data):
            raise OptionError(f"spans: expected one list for each of {len(data)} sentences, got {len(spans)}")
        types = self.segments_.types[: self.segments_.n_long]
        for kind in dict.fromkeys(span.type for sentence in spans for span in sentence):
            if kind not in types:
                raise OptionError(f"spans: no type {kind!r} in this model, expected one of {', '.join(types)}")
        for n, T in enumerate(np.diff(data.offsets).tolist()):
            for span in spans[n]:
                if not 0 <= span.start < span.end <= T:
                    raise OptionError(f"spans: sentence {n}: {span.start}:{span.end} is not a span of {T} tokens")

        def question(n: int, graph: Scored) -> list[Span]:
            arcs, p = graph.arcs, self._sums(n, graph).arcs if spans[n] else np.empty(0)
            answers = []
            for span in spans[n]:
                own = (arcs.first == span.start) & (arcs.length == span.end - span.start)
                own &= arcs.kind == types.index(span.type)
                answers.append(span._replace(probability=min(1.0, float(p[own].sum()))))
            return answers

        return self._each_graph(data, question, [], forced, constraints)

    def sequence_log_probabilities(
        self,
        X: Any,
        y: Sequence[Sequence[str]],
        *,
        forced: Forced | None = None,
        constraints: str | None = None,
    ) -> list[float]:
        """log P(y | x) of given labellings; minus infinity for those that the model's scheme does not write."""
        self._check_fitted()
        data, space = self.encode(X), self.segments_
        check_lengths(y, data.offsets)
        index = {label: code for code, label in enumerate(space.labels)}

        def question(n: int, graph: Scored) -> float:
            if any(label not in index for label in y[n]):
                return -np.inf
            bounds = np.array([0, len(y[n])])
            found = self._segments(y[n], bounds)
            longest = int((found.end - found.start).max())
            if longest > space.max_length or space.labels_of(found) != list(y[n]):
                return -np.inf
            gold = np.full(kernels.n_rows(space.max_length, len(y[n])), -1, np.int32)
            gold[rows_of(found, bounds, space.max_length)] = found.kind
            shape = space.n_types, space.n_long, space.max_length, len(y[n])
            score = kernels.subtract_gold(gold, 0, *shape, graph.scores, np.zeros(len(graph.scores)))
            return min(0.0, float(score - graph.sums.log_z)) if score > -np.inf else -np.inf

        return self._each_graph(data, question, 0.0, forced, constraints)

    def sample(
        self, X: Any, n: int, random_state: int | None = 0, *, forced: Forced | None = None
    ) -> list[list[tuple[list[str], float]]]:
        """n labellings of each sentence, drawn from their probabilities; equal ones once, with their share."""
        check_whole("n", n, 1, MOST)
        self._check_fitted()

        def question(sentence: int, graph: Scored) -> list[tuple[list[str], float]]:
            rng = np.random.default_rng([random_state or 0, zlib.crc32(np.ascontiguousarray(graph.scores).data)])
            paths = Counter(tuple(path.tolist()) for path in dag.sample(graph.arcs.dag, graph.scores, n, rng))
            rows = [(self.segments_.labels_of(graph.arcs.segments(np.array(path))), k) for path, k in paths.items()]
            return [(labels, count / n) for labels, count in rows]

        return self._each_graph(X, question, [([], 1.0)], forced)

    # -- as a layer of a cascade --------------------------------------------------------------------------------

    def _gold(self, y: Sequence[Sequence[str]] | None, layers: dict[str, Incidence], offsets: Array) -> Array:
        if y is None:
            return np.full(len(layers["segment"].keys), -1, np.int32)
        found = self._segments([label for labels in y for label in labels], offsets)
        check_sizes(found, offsets, self.segments_.max_length)
        return gold_of(found, offsets, self.segments_).kinds

    def passed(self, X: Any, cut: float = 0.001, *, forced: Forced | None = None) -> Passed:
        """What this model passes to a layer above: every label at least as probable as `cut`, but no pairs of them."""
        self._check_fitted()
        label_of_role(self.segments_)  # is there one?
        labels = self.space_.labels
        rows = [
            [[row[label] for label in labels] for row in sentence]
            for sentence in self.predict_marginals(X, forced=forced)
        ]
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
        dense = np.array([row for sentence in rows for row in sentence]).reshape(-1, len(labels))
        slots = likely(offsets, dense, cut).without_pairs
        return Passed(labels, slots, dense[np.repeat(np.arange(len(dense)), np.diff(slots.ptr)), slots.label])

    def _segments(self, labels: Sequence[str], offsets: Array) -> Segments:
        """The segments of label sequences, all labels of which are known."""
        return segments_in(self.segments_, labels, np.arange(len(labels)), offsets)

    def _sums(self, n: int, graph: Scored) -> dag.Sums:
        """The sums of a sentence that must have a labelling."""
        sums = graph.sums
        if sums.log_z == -np.inf:
            raise impossible(n)
        return sums


def _refuse_pairs(tokens: Extractor) -> None:
    """A template must not have lines on pairs or triples of labels, neither on the input nor on the labels below."""
    base, patterns = tokens, list[Pattern]()
    if isinstance(tokens, LayeredFeatures):
        base = tokens.base
        patterns += tokens.above.template.patterns
    if isinstance(base, ColumnFeatures):
        patterns += base.vocabulary.template.patterns
    for pattern in patterns:
        if pattern.kind == "T" or (pattern.kind in "B*" and pattern.cells):
            # Of an upper layer, the lines on the input and on the labels below are counted apart.
            place = f"line {pattern.line}, " if base is tokens else ""
            raise OptionError(
                f"template: {place}{pattern.text!r}: a SemiCRF has no features on pairs of labels; use U lines"
            )


def _looked_up(old: Cells, weights: Array, new: Cells, features: Array) -> Array:
    """The old weight of each new cell, where features [F] gives the old number of each feature, or -1; 0 for none."""
    found = np.zeros(len(new.column), weights.dtype)
    if not len(old.column) or not len(new.column):
        return found
    width = int(max(old.column.max(), new.column.max())) + 1
    feature = np.repeat(features, np.diff(new.ptr))
    wanted = np.where(feature < 0, -1, feature * width + new.column)
    known = np.repeat(np.arange(len(old.ptr) - 1), np.diff(old.ptr)) * width + old.column
    order = np.argsort(known, kind="stable")
    at = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(order) - 1)]
    same = known[at] == wanted
    found[same] = weights[at[same]]
    return found
