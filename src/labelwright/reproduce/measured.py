"""What steps of several experiments measure: training, decoding, scores, and whether two systems differ."""

import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from statistics import mean
from typing import Any

from labelwright import Corpus
from labelwright.evaluate import evaluate, mcnemar
from labelwright.reproduce.experiment import AS_PUBLISHED, Result, Row
from labelwright.reproduce.work import Work
from labelwright.taggers.estimator import uninterrupted

SEEDS = (0, 1, 2)
FIGURE_1 = {"margin": 0.0, "shuffle": False, "all_passes": True, "calibration": False}  # of Sun et al., as printed
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


def differences(work: Work, gold: Sequence[Sequence[str]], names: Iterable[str]) -> dict[str, float]:
    """The p-value of McNemar's test on tokens, of all pairs of systems whose labels were kept."""
    labels = {name: work.labels(name) for name in names}
    return {f"{a} / {b}": mcnemar(gold, labels[a], labels[b]).p_value for a, b in combinations(labels, 2)}


def p_value(differences: Mapping[str, float], a: str, b: str) -> float:
    """The p-value of two systems, in whichever order the pair is."""
    return differences[f"{a} / {b}" if f"{a} / {b}" in differences else f"{b} / {a}"]


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
