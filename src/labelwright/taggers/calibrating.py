"""How a tagger is calibrated: the temperature and the maps under which held-out data are said
best."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.batch import Batch, check_lengths
from labelwright.answers.calibrated import LEAST, Calibration, MonotoneMap
from labelwright.corpus.partial_labels import is_partial, left_open
from labelwright.corpus.schemes import is_chunk_label
from labelwright.corpus.spans import Span
from labelwright.corpus.table import Corpus
from labelwright.corpus.token_records import listed
from labelwright.decode.record import MOST, check_whole
from labelwright.errors import OptionError
from labelwright.evaluate.calibration import judged
from labelwright.taggers.arguments import Question, true_labels

Array = NDArray[Any]
METHODS = ("temperature", "isotonic")
GOLDEN = (np.sqrt(5) - 1) / 2
# temperatures, in mean scores of a token, among which the search begins,
COARSE = np.geomspace(1e-4, 1e4, 17)
NEAR = np.geomspace(0.1, 10, 9)  # those of a tagger that has probabilities,
FINE = 12  # and how often it is refined
LIKELY = 0.01  # labels of tokens that are less probable do not shape the map


class HeldOut(NamedTuple):
    """Sentences that a tagger was not trained on."""

    tagger: Any
    X: Any  # encoded
    y: list[list[Any]]
    ask: Callable[[Question[Any]], list[Any]]  # a question about all of them


# -- held-out data ---------------------------------------------------------------------------------


def sentences_and_labels(X: Any, y: Any) -> tuple[Any, Any]:
    """Sentences and their labels, given as two, as a pair or as a corpus, which has its labels
    itself."""
    X = listed(X)
    if y is None and isinstance(X, tuple | list) and len(X) == 2:
        return listed(X[0]), listed(X[1])
    if y is None and not isinstance(X, Corpus):
        raise OptionError("calibrate: expected a pair (X, y) or a Corpus")
    return X, listed(y)


def held_out(tagger: Any, X: Any, y: Sequence[Sequence[Any]] | None) -> HeldOut:
    """Sentences, encoded, after a check that they fit their labels."""
    y = left_open(true_labels("calibrate", X, y, complete=False), tagger.classes_)
    data = tagger.encode(X)
    ask = tagger._asker(data)
    lengths = ask(lambda batch: [0 if s is None else len(s) for s in batch])
    check_lengths(y, lengths, place="calibrate: y")
    return HeldOut(tagger, data, y, ask)


def folded(
    X: Any, gold: Mapping[str, Any], folds: int
) -> Iterator[tuple[tuple[Any, dict[str, Any]], tuple[Any, dict[str, Any]]]]:
    """For each of so many parts of the sentences: all others with their labels (by output), and the
    part with its own."""
    check_whole("folds", folds, 2, MOST)
    n = len(X)
    if n < folds:
        raise OptionError(f"folds: expected {folds} sentences at least, got {n}")
    lengths = (
        np.diff(X.offsets).tolist() if isinstance(X, Corpus) else [len(sentence) for sentence in X]
    )
    for y in gold.values():
        if y is not None:
            check_lengths(y, lengths, place="calibrate: y")

    def part(rows: list[int]) -> tuple[Any, dict[str, Any]]:
        some = X.take(rows) if isinstance(X, Corpus) else [X[row] for row in rows]
        return some, {
            name: None if y is None else [y[row] for row in rows] for name, y in gold.items()
        }

    for a, b in pairwise(np.linspace(0, n, folds + 1).astype(int).tolist()):
        yield part([*range(a), *range(b, n)]), part([*range(a, b)])


# -- fitting ---------------------------------------------------------------------------------------


def fitted(parts: Sequence[HeldOut], method: str) -> dict[str, Any]:
    """The record of a calibration: how scores become probabilities, and on what that was found."""
    if method not in METHODS:
        raise OptionError(f"method: expected one of {', '.join(METHODS)}, got {method!r}")
    evidence = [evidence_of(part) for part in parts]
    n, n_tokens = (
        sum(int(getattr(each, name).sum()) for each in evidence) for name in ("used", "known")
    )
    left_out = {
        name: sum(each.left_out[name] for each in evidence) for name in ("unknown", "impossible")
    }
    if not n:
        why = (
            "no held-out token has a label; label some of them"
            if left_out["unknown"]
            else "no held-out sentences"
        )
        if left_out["impossible"]:
            why = "no held-out sentence has a labelling that is possible under this model"
        raise OptionError(f"calibrate: {why}")

    def likelihood(temperature: float) -> float:
        log_p = [tempered_log_probabilities(part, temperature) for part in parts]
        total = float(sum(p[each.used].sum() for p, each in zip(log_p, evidence, strict=True)))
        # one sentence more, of the usual confidence, gone wrong:
        wrong = -float(np.expm1(total / n))
        return (total + float(np.log(max(wrong, 1e-300)))) / n_tokens  # nothing is certain

    tagger = parts[0].tagger
    grid = NEAR if tagger._probabilistic else COARSE * _mean_score(parts, evidence)
    temperature, reached = _maximum(likelihood, grid)
    calibration = Calibration(temperature)
    if method == "isotonic":
        calibration = with_maps(parts, temperature)
    facts = {
        "method": method,
        "sentences": n,
        "left_out": left_out,
        "log_likelihood_per_token": reached,
    }
    if tagger._probabilistic:
        facts["uncalibrated_log_likelihood_per_token"] = likelihood(1.0)
    return facts | calibration.as_dict()


class Evidence(NamedTuple):
    """What held-out sentences say about a temperature."""

    # [N] bool  has a token that is labelled, and labels that are possible under the model
    used: Array
    known: Array  # [N]  how many tokens of a sentence that is used are labelled
    left_out: dict[str, int]  # how many sentences, because labels are unknown, or impossible


def evidence_of(part: HeldOut) -> Evidence:
    """Which sentences a temperature is fitted on: not those without a label, nor those that no
    temperature makes likelier."""
    known = np.array([sum(label is not None for label in labels) for labels in part.y], np.int64)
    possible = np.isfinite(tempered_log_probabilities(part, 1.0))
    used = possible & (known > 0)
    left_out = {
        "unknown": int((known == 0).sum()),
        "impossible": int((~possible & (known > 0)).sum()),
    }
    return Evidence(used, np.where(used, known, 0), left_out)


def _mean_score(parts: Sequence[HeldOut], evidence: Sequence[Evidence]) -> float:
    """The absolute score of the best labellings, by token."""
    total, n_tokens = 0.0, 0
    for part, each in zip(parts, evidence, strict=True):
        scores = [abs(record.score) for record in part.tagger.decode(part.X, probabilities=False)]
        total += float(np.array(scores)[each.used].sum())
        n_tokens += sum(len(labels) for labels, used in zip(part.y, each.used, strict=True) if used)
    return total / n_tokens or 1.0


def tempered_log_probabilities(part: HeldOut, temperature: float) -> Array:
    """log P of the true labels if scores, divided by the temperature, were log-probabilities
    [N]."""

    def question(batch: Batch) -> list[float]:
        gold = part.y[batch.first : batch.first + len(batch)]
        return at_temperature(batch, temperature).sure.log_probabilities(gold)

    return np.array(part.ask(question), np.float64)


def at_temperature(batch: Batch, temperature: float) -> Batch:
    """The same sentences, calibrated by a temperature alone."""
    return Batch(batch.sentences, batch.first, batch.probabilistic, Calibration(temperature))


def with_maps(parts: Sequence[HeldOut], temperature: float) -> Calibration:
    """The calibration with maps of the probabilities at this temperature; of spans where labels
    make chunks.  Tokens whose label is open, and spans that touch them, are left out."""
    spans, tokens = [], []
    for part in parts:
        entities, seen = _observed(part, temperature)
        known = [[None if is_partial(label) else label for label in labels] for labels in part.y]
        spans.append(judged(entities, known, part.tagger.classes_))
        tokens += seen
    said, right = (
        np.concatenate([getattr(each, name) for each in spans]) for name in ("said", "right")
    )
    chunks = all(map(is_chunk_label, parts[0].tagger.classes_))
    of_tokens = [np.concatenate(column) for column in zip(*tokens, strict=True)] or [
        np.empty(0),
        np.empty(0),
    ]
    for kind, values in (("entities", said if chunks else of_tokens[0]), ("labels", of_tokens[0])):
        if len(values) < LEAST:
            raise OptionError(
                f"calibrate: isotonic regression needs {LEAST} {kind} of held-out sentences, got "
                f"{len(values)}; use more sentences, or method 'temperature'"
            )
    span = MonotoneMap.fit(said, right) if chunks else None
    return Calibration(temperature, span, MonotoneMap.fit(of_tokens[0], of_tokens[1]))


def _observed(
    part: HeldOut, temperature: float
) -> tuple[list[list[Span]], list[tuple[Array, Array]]]:
    """The predicted entities of each sentence with their probabilities, and the probabilities of
    labels of tokens with whether each label is the true one."""
    index = {label: code for code, label in enumerate(part.tagger.classes_)}

    def question(batch: Batch) -> list[tuple[list[Span], tuple[Array, Array]]]:
        decoded = batch.raw.decode(part.tagger._checked_decoder(None), probabilities=False)
        sure = at_temperature(batch, temperature).sure
        entities = sure.entities([record.labels for record in decoded])
        gold = part.y[batch.first : batch.first + len(batch)]
        tokens = [_labels_seen(s, labels, index) for s, labels in zip(sure, gold, strict=True)]
        return list(zip(entities, tokens, strict=True))

    answers = part.ask(question)
    return [entities for entities, _ in answers], [tokens for _, tokens in answers]


def _labels_seen(sentence: Any, labels: list[Any], index: dict[Any, int]) -> tuple[Array, Array]:
    """The probabilities of the likely labels of all labelled tokens of a sentence, and which are
    the true ones."""
    if sentence is None:
        return np.empty(0), np.empty(0, np.bool_)
    rows = sentence.marginals()[[not is_partial(label) for label in labels]]
    codes = np.array([index.get(label, -1) for label in labels if not is_partial(label)], np.int64)
    token, code = np.nonzero(rows >= LIKELY)
    return rows[token, code], codes[token] == code


def _maximum(function: Callable[[float], float], grid: Array) -> tuple[float, float]:
    """Where a function of a positive number is largest: best of a coarse grid, then golden sections
    around it."""
    tried = {float(t): function(float(t)) for t in grid}
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
