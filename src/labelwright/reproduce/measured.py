"""What steps of several experiments measure: training, decoding, scores, and whether two systems differ."""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from statistics import mean
from typing import Any

from labelwright import Corpus
from labelwright.evaluate import Comparison, compare, evaluate
from labelwright.reproduce.experiment import AS_PUBLISHED, Result, Row
from labelwright.reproduce.work import Work
from labelwright.taggers.estimator import uninterrupted

SEEDS = (0, 1, 2)
FIGURE_1 = {"margin": 0.0, "shuffle": False, "all_passes": True, "calibration": False}  # of Sun et al., as printed
SIGNIFICANT = 0.05  # p-values below
SMALLEST = 1e-300  # that is shown
SCORES = ("S.A.", "P", "R", "F1")


def trained(model: Any, train: Corpus, **how: Any) -> tuple[Any, float]:
    """A model after training, and the seconds that took, reading of features included."""
    begun = time.perf_counter()
    uninterrupted(model.fit(train, **how))
    return model, time.perf_counter() - begun


def scored(gold: Sequence[Sequence[str]], labels: Sequence[Sequence[str]]) -> Result:
    """Sentence accuracy, and precision, recall and F1 of chunks, in percent."""
    report = evaluate(gold, labels)
    values = (report.sentence_accuracy, report.precision, report.recall, report.f1)
    return dict(zip(SCORES, (100 * (value or 0.0) for value in values), strict=True))


def decoded(work: Work, name: str, model: Any, test: Corpus, **how: Any) -> Result:
    """Scores and seconds of a decoder on encoded data, what it has proven, and its labels kept under a name."""
    data = model.encode(test)
    model.decode(model.encode(test.take(slice(0, 1))), **how)  # a first call reads compiled code
    begun = time.perf_counter()
    answers = model.decode(data, **how)
    seconds = time.perf_counter() - begun
    labels = [answer.labels for answer in answers]
    work.keep_labels(name, labels)
    result = scored(test.y, labels) | {"seconds": seconds, "exact": 100 * mean(each.exact for each in answers)}
    if answers[0].latent_paths is not None:
        result["latent_paths"] = mean(each.latent_paths or 0 for each in answers)
        result["mass"] = mean(each.mass or 0.0 for each in answers)
    return result


def differences(work: Work, gold: Sequence[Sequence[str]], names: Iterable[str]) -> dict[str, Result]:
    """How all pairs of systems differ whose labels were kept: F1 of both, how many tokens only one of them labels
    correctly, and the p-values of the paired bootstrap on F1 and of McNemar's test on tokens."""
    labels = {name: work.labels(name) for name in names}
    return {f"{a} / {b}": _difference(compare(gold, labels[a], labels[b])) for a, b in combinations(labels, 2)}


def _difference(pair: Comparison) -> Result:
    return {
        "F1": [100 * (report.f1 or 0.0) for report in (pair.a, pair.b)],
        "correct alone": [pair.mcnemar.only_a, pair.mcnemar.only_b],
        "p, F1": pair.bootstrap.p_value,
        "p, tokens": pair.mcnemar.p_value,
    }


def difference(differences: Mapping[str, Result], a: str, b: str) -> Result:
    """How two systems differ, in whichever order the pair was compared."""
    if f"{a} / {b}" in differences:
        return differences[f"{a} / {b}"]
    pair = differences[f"{b} / {a}"]
    return pair | {metric: pair[metric][::-1] for metric in ("F1", "correct alone")}


def is_better(pair: Result) -> bool:
    """Whether the first of two systems has the higher F1, significantly."""
    return bool(pair["F1"][0] > pair["F1"][1] and pair["p, F1"] < SIGNIFICANT)


def difference_shown(pair: Result) -> str:
    """Both tests, as evidence.

    >>> difference_shown({"F1": [70.0, 69.0], "correct alone": [12, 4], "p, F1": 0.02, "p, tokens": 0.0768})
    'F1 70.00 and 69.00, p = 0.02; only one is right on 12 and 4 tokens, p = 0.077'
    """
    (f1, other), (alone, other_alone) = pair["F1"], pair["correct alone"]
    tokens = f"only one is right on {alone:,} and {other_alone:,} tokens, {_p_shown(pair['p, tokens'])}"
    return f"F1 {f1:.2f} and {other:.2f}, {_p_shown(pair['p, F1'])}; {tokens}"


def _p_shown(p: float) -> str:
    return f"p = {p:.2g}" if p >= SMALLEST else f"p < {SMALLEST:g}"


def settings_shown(settings: str) -> str:
    """The settings of a model, without the lines of a template that is none of the built-in ones."""
    return re.sub(r"template='[^']*\\n[^']*', ", "", settings)


def averaged(results: Sequence[Result], metric: str) -> tuple[float, float | None]:
    """The mean of a metric over seeds, and largest minus smallest."""
    values = [result[metric] for result in results]
    return mean(values), (max(values) - min(values) if len(values) > 1 else None)


def rows_of(
    table: str,
    system: str,
    paper: Mapping[str, float | None],
    results: Sequence[Result],
    variant: str = AS_PUBLISHED,
    settings: str = "",
) -> list[Row]:
    """A row for each metric that the paper reports of a system; without results, the run was not possible."""
    rows = []
    seeds_run = tuple(range(len(results))) if len(results) > 1 else ()
    for metric, published in paper.items():
        ours, spread = averaged(results, metric) if results else (None, None)
        spent = mean(result["seconds"] for result in results) if results else None
        rows.append(Row(table, system, metric, published, ours, spread, spent, variant, settings, seeds_run))
    return rows


def seeds(quick: bool) -> Sequence[int]:
    """The seeds of runs whose result depends on chance."""
    return SEEDS[:1] if quick else SEEDS


def best(results: Mapping[Any, float]) -> Any:
    """The setting with the highest score on development data; the first of equals."""
    return max(results, key=lambda setting: results[setting])
