"""Models with scores but without probabilities: what they can answer, and how confident they are once calibrated."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.spans import Span, spans_of
from labelwright.decode import Decoding
from labelwright.decode.exact import labellings
from labelwright.decode.options import MOST, check_whole
from labelwright.decode.paths import best_paths
from labelwright.errors import OptionError
from labelwright.structures.lattice import Lattice, margins
from labelwright.taggers.linear import Constraints, Forced, LinearModel, impossible, rules_among
from labelwright.taggers.training import Data, Development, TrainableModel

Array = NDArray[Any]
GOLDEN = (np.sqrt(5) - 1) / 2
COARSE = np.geomspace(1e-4, 1e4, 17)  # temperatures, in mean scores of a token, among which the search begins,
FINE = 12  # and how often it goes on
COLD = 1e6  # what the largest score becomes where sums of exponentials are to be their largest terms


class ScoredModel(TrainableModel):
    """A model whose scores only order labellings.  `calibrate` finds the temperature at which exp(score / temperature)
    says best how often it is right on held-out data: its answers are *confidences*, kept apart from probabilities."""

    probabilistic: ClassVar[bool] = False

    # -- answers by score -------------------------------------------------------------------------------------

    def decode(
        self,
        X: Any,
        decoder: str | None = None,
        *,
        forced: Forced | None = None,
        constraints: Constraints = None,
        probabilities: bool = True,
        **options: Any,
    ) -> list[Decoding]:
        """The labelling of the best path with its score, and its confidence where the model is calibrated (unless
        `probabilities` is off)."""
        self._check_fitted()
        if decoder not in (None, "viterbi"):
            raise OptionError(f"decoder {decoder!r}: {self.has_scores()}; use 'viterbi'")
        scheme, rules = rules_among(constraints)
        data = self.encode(X)
        limits: dict[str, Any] = {"forced": forced, "constraints": scheme}
        asked: dict[str, Any] = {**limits, "constraints": constraints} if rules else limits  # rules may read the words
        found = [
            _by_best_path(d)
            for d in super().decode(X if rules else data, "viterbi", **asked, probabilities=False, **options)
        ]
        if not probabilities or self.temperature_ is None:
            return found
        likely = self._tempered().sequence_log_probabilities(data, [d.labels for d in found], **limits)
        return [d._replace(confidence=float(np.exp(p))) for d, p in zip(found, likely, strict=True)]

    def predict_nbest(
        self,
        X: Any,
        n: int = 5,
        *,
        forced: Forced | None = None,
        constraints: str | None = None,
        max_expansions: int | None = None,
    ) -> list[list[tuple[list[str], float]]]:
        """Up to n labellings of each sentence, the best first, with their scores (of a latent model: the score of the
        best path of each; a search that reaches `max_expansions` returns only what it has proven)."""
        check_whole("n", n, 1, MOST)
        self._check_fitted()
        labels = self.space_.labels

        def question(sentence: int, lattice: Lattice) -> list[tuple[list[str], float]]:
            if self.space_.latent:
                rows: Any = _cold(lattice, n, max_expansions)
                scores: Any = [margins(lattice, row).best for row in rows]
            else:
                paths, scores = best_paths(lattice, n)
                rows = lattice.graph.label_of_node[paths]
            if not len(rows):
                raise impossible(sentence)
            ranked = sorted(zip(scores, rows, strict=True), key=lambda pair: -pair[0])
            return [([labels[code] for code in row], float(score)) for score, row in ranked]

        return self._each(X, question, [([], 0.0)], forced, constraints)

    def predict_spans(
        self, X: Any, *, forced: Forced | None = None, constraints: Constraints = None
    ) -> list[list[Span]]:
        """The spans (chunks, entities) of the best labelling, without a probability; `span_confidences` adds one."""
        data = self.encode(X)
        if self.scheme_ is None:
            return [[] for _ in range(len(data))]
        source = X if rules_among(constraints)[1] else data
        best = self.decode(source, forced=forced, constraints=constraints, probabilities=False)
        return [spans_of(d.labels) for d in best]

    def predict_marginals(self, X: Any, **options: Any) -> list[list[dict[str, float]]]:
        """Not for this model: it has no probabilities."""
        raise OptionError(f"predict_marginals: {self.has_scores()}; calibrate it and use predict_confidences")

    def span_probabilities(self, X: Any, spans: Sequence[Sequence[Span]], **options: Any) -> list[list[Span]]:
        """Not for this model: it has no probabilities."""
        raise OptionError(f"span_probabilities: {self.has_scores()}; calibrate it and use span_confidences")

    def sequence_log_probabilities(self, X: Any, y: Sequence[Sequence[str]], **options: Any) -> list[float]:
        """Not for this model: it has no probabilities."""
        raise OptionError(f"sequence_log_probabilities: {self.has_scores()}; calibrate it and see decode's confidence")

    def has_scores(self) -> str:
        """What to say where probabilities are asked for."""
        return f"a {type(self).__name__} has scores, not probabilities"

    # -- confidence -------------------------------------------------------------------------------------------

    @property
    def temperature_(self) -> float | None:
        """What scores are divided by to make confidences; None before `calibrate`."""
        self._check_fitted()
        found = self.training_.get("calibration")
        return None if found is None else float(found["temperature"])

    def calibrate(self, X: Any, y: Sequence[Sequence[str]] | None = None) -> Self:
        """Fit the temperature on held-out data (`fit` does so with its development data): the one under which their
        labels are most likely."""
        self._check_fitted()
        held_out = self._development(X if y is None else (X, y), "calibrate")
        possible = self._tempered(1.0).sequence_log_probabilities(held_out.X, held_out.y)
        rows = [n for n, p in enumerate(possible) if held_out.y[n] and p > -np.inf]
        if not rows:
            raise OptionError("calibrate: no held-out sentence has a labelling that is possible under this model")
        n_tokens = sum(len(held_out.y[n]) for n in rows)
        best = [abs(d.score) for d in self.decode(held_out.X, probabilities=False)]
        scale = sum(best[n] for n in rows) / n_tokens or 1.0

        def likelihood(temperature: float) -> float:
            found = self._tempered(temperature).sequence_log_probabilities(held_out.X, held_out.y)
            total = float(sum(found[n] for n in rows))
            wrong = -float(np.expm1(total / len(rows)))  # one sentence more, of the usual confidence, gone wrong:
            return (total + float(np.log(max(wrong, 1e-300)))) / n_tokens  # nothing is certain

        temperature, reached = _maximum(likelihood, scale)
        self.training_["calibration"] = {
            "temperature": temperature,
            "sentences": len(rows),
            "log_likelihood_per_token": reached,
        }
        return self

    def predict_confidences(
        self, X: Any, *, forced: Forced | None = None, constraints: str | None = None
    ) -> list[list[dict[str, float]]]:
        """The confidence in every label at every token, from a calibrated model."""
        return self._calibrated().predict_marginals(X, forced=forced, constraints=constraints)

    def span_confidences(
        self,
        X: Any,
        spans: Sequence[Sequence[Span]],
        *,
        forced: Forced | None = None,
        constraints: str | None = None,
    ) -> list[list[Span]]:
        """These spans of each sentence with the confidence in each in place of a probability."""
        return self._calibrated().span_probabilities(X, spans, forced=forced, constraints=constraints)

    def _calibrated(self) -> LinearModel:
        self._check_fitted()
        if self.temperature_ is None:
            raise OptionError(f"{self.has_scores()}; calibrate it on held-out data (or fit it with dev=) first")
        return self._tempered()

    def _tempered(self, temperature: float | None = None) -> LinearModel:
        """This model as if its scores, divided by the temperature, were log-probabilities."""
        view = LinearModel()
        for name in ("extractor_", "space_", "parameters_", "scheme_", "n_jobs"):
            setattr(view, name, getattr(self, name))
        view._assemblies = self._assemblies
        view.weights_ = (self.weights_ / (temperature or self.temperature_ or 1.0)).astype(np.float32)
        return view

    def _after(self, data: Data, development: Development | None) -> None:
        if development is not None:
            with suppress(OptionError):  # none of its labellings is possible
                self.calibrate(development.X, development.y)


def _by_best_path(found: Decoding) -> Decoding:
    """The record of a model that has scores alone: the score of a labelling is that of its best path."""
    proven = found.status in (None, "optimal")
    return found._replace(log_probability=None, exact=proven, gap=0.0 if proven else None)


def _cold(lattice: Lattice, n: int, max_expansions: int | None) -> Array:
    """The n labellings [n, T] with the best paths: at a low temperature the sum over the paths of a labelling, which
    the exact search orders by, is its largest term."""
    node, arc, graph = lattice
    largest = max(float(np.abs(scores[np.isfinite(scores)]).max(initial=0.0)) for scores in (node, arc)) or 1.0
    found = labellings(Lattice(node * (COLD / largest), arc * (COLD / largest), graph), n, max_expansions)
    rows: Array = np.asarray(found.labels)
    return rows[: max(1, found.proven)]


def _maximum(function: Callable[[float], float], scale: float) -> tuple[float, float]:
    """Where a function of a positive number is largest: best of a coarse grid, then golden sections around it."""
    tried = {float(t): function(float(t)) for t in scale * COARSE}
    best = max(tried, key=lambda t: tried[t])
    places = sorted(tried)
    i = places.index(best)
    low, high = np.log(places[max(0, i - 1)]), np.log(places[min(len(places) - 1, i + 1)])
    a, b = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    f_a, f_b = function(float(np.exp(a))), function(float(np.exp(b)))
    for _ in range(FINE):
        if f_a >= f_b:
            high, b, f_b = b, a, f_a
            a = high - GOLDEN * (high - low)
            f_a = function(float(np.exp(a)))
        else:
            low, a, f_a = a, b, f_b
            b = low + GOLDEN * (high - low)
            f_b = function(float(np.exp(b)))
    return (float(np.exp(a)), f_a) if f_a >= f_b else (float(np.exp(b)), f_b)
