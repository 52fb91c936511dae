"""Canisius, van den Bosch & Daelemans (2006): constraint satisfaction inference, tables 1 and 2,
figures 1 and 2.

As in the paper, one classifier of trigrams, chosen by their accuracy, serves voting, constraint
satisfaction inference and the oracle.  Beside it each row has a search of its own, on the same part
of the training data.
"""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from labelwright import Corpus, MemoryTagger, ProgressiveSearch
from labelwright.evaluate import evaluate
from labelwright.features.builtin import BUILTIN
from labelwright.memory.search import memory_settings
from labelwright.reproduce.measured import best, difference, p_value, read_part, rows_of, verdict
from labelwright.reproduce.work import (
    OURS,
    Claim,
    Figure,
    Findings,
    Panel,
    Parts,
    Result,
    Row,
    Step,
    Work,
)

WORDS = "word accuracy"
CURVE = "nettalk"
NEIGHBOURS, VOTES = (1, 3, 7, 11, 19, 35), ("inverse-distance", "inverse-linear")
TRIGRAMS, OWN = "trigrams", ", own search"
ORDER = (f"baseline{OWN}", "voting", "CSInf")  # from the worst to the best
GRID = [  # what the searches of single rows may choose from
    each
    for each in memory_settings()
    if each["k"] in NEIGHBOURS
    and each.get("mvdm_threshold", 1) == 1
    and (each["k"] == 1 or each["votes"] in VOTES)
]


# -- data ------------------------------------------------------------------------------------------


def _read(folder: Path, name: str, columns: str) -> Parts:
    """Training and test part of a task; chunks in iob1, the coding of the paper; jnlpba's training
    part 90 to 10."""
    *inputs, label = columns.split(",")

    def part(which: str) -> Corpus:
        corpus = read_part(folder, name, which, columns)
        corpus = corpus.select([*(each for each in inputs if each != "chunk"), label], label=label)
        if inputs != ["letter"]:
            return corpus.with_scheme("iob1")
        if not any("|" in label for label in corpus.values(label)):
            return corpus
        # te2|te3 is one class, not one of two
        whole = [[label.replace("|", "¦") for label in y] for y in corpus.y]
        return Corpus.from_sequences(corpus.X, whole)

    train = part("train")
    train, test = train.split(0.9, None) if name == "jnlpba" else (train, part("test"))
    return Parts(train, train, test, train)


def _parts(name: str, work: Work) -> tuple[Corpus, Corpus, str]:
    """Training and test part of a task, and its metric: words of letters are right as a whole or
    not."""
    columns = work.task.corpora[name]["columns"]
    parts = work.read(_read, name, columns)
    return parts.train, parts.test, WORDS if columns.startswith("letter") else "F1"


def _score(metric: str, gold: Any, labels: Any) -> float:
    if metric == WORDS:
        return 100 * evaluate(gold, labels, reading="token").sentence_accuracy
    return 100 * (evaluate(gold, labels).f1 or 0.0)


def _score_of(settings: dict[str, Any], train: Corpus, test: Corpus, metric: str) -> float:
    return _score(metric, test.y, MemoryTagger(**settings).fit(train).predict(test))


# -- steps -----------------------------------------------------------------------------------------


def _drawn(name: str, work: Work) -> Corpus:
    """Sequences of the training data on which settings are chosen: the same ones for every row."""
    train, _, metric = _parts(name, work)
    n = 60 if work.quick else 6000 if metric == WORDS else 1500
    return train.take(np.sort(np.random.default_rng(0).permutation(len(train))[:n]))


def _searched(name: str, row: str, work: Work) -> Result:
    """The best settings by a progressive search, for one row or for the classifier of trigrams:
    plain classes, each of which is a trigram, scored by the tokens whose class is right."""
    begun, drawn, letters = time.perf_counter(), _drawn(name, work), _parts(name, work)[2] == WORDS
    plan, grid, steps, scoring = (
        work.task.systems.get(row),
        GRID,
        4,
        "sentence" if letters else "f1",
    )
    if row == TRIGRAMS:
        plan, grid, steps, scoring = work.task.systems["baseline"], memory_settings(), 6, "accuracy"
        triples = [zip(["", *y[:-1]], y, [*y[1:], ""], strict=True) for y in drawn.y]
        drawn = Corpus.from_sequences(
            drawn.X, [["¦".join(("", *three)) for three in each] for each in triples]
        )
    search = ProgressiveSearch(
        MemoryTagger(**plan),
        grid[::20] if work.quick else grid,
        first=max(30, int(len(drawn) / 2.3 ** (steps - 1))),
        steps=2 if work.quick else steps,
        scoring=scoring,
        refit=False,
    ).fit(drawn)
    if search.stopped_ == "interrupted":
        raise KeyboardInterrupt
    chosen, seconds = dict(search.best_params_), time.perf_counter() - begun
    return {"settings": chosen, "seconds": seconds, "shown": ", ".join(map(str, chosen.values()))}


def _tested(name: str, work: Work) -> Result:
    """Every row of a task on the test data, with the settings found for it; those of trigrams also
    with one classifier for all."""
    train, test, metric = _parts(name, work)
    scores: Result = {}

    def score(row: str, tagger: MemoryTagger, data: Any, inference: str) -> None:
        begun = time.perf_counter()
        labels = [each.labels for each in tagger.decode(data, inference)]
        scores[row] = {
            metric: _score(metric, test.y, labels),
            "seconds": time.perf_counter() - begun,
        }
        work.keep_labels(f"{name}, {row}", labels)

    systems = {f"{system}{OWN}": system for system in work.task.systems} | {TRIGRAMS: TRIGRAMS}
    for row, searched in systems.items():
        plan = work.task.systems.get(searched, work.task.systems["CSInf"])
        tagger = MemoryTagger(
            **plan | work.results[f"{name}: search for {searched}"]["settings"]
        ).fit(train)
        data = tagger.encode(test)
        if searched != TRIGRAMS:
            score(row, tagger, data, plan["inference"])
    score("voting", tagger, data, "vote")
    score("CSInf", tagger, data, "csi")
    scores["oracle"] = {
        metric: _score(metric, test.y, tagger.predict_oracle(data, test.y)),
        "seconds": 0.0,
    }
    shown = ", ".join(f"{system} {score[metric]:.2f}" for system, score in scores.items())
    pairs = work.differences(test.y, {row: f"{name}, {row}" for row in ORDER})
    return scores | {TRIGRAMS: _trigrams(tagger, data, test), "pairs": pairs, "shown": shown}


def _ours(name: str, work: Work) -> Result:
    """Constraint satisfaction inference with the settings found for it, on the better of two
    templates: the paper's windows of seven, and longer ones of letters, or affixes and shapes of
    words."""
    train, test, metric = _parts(name, work)
    wider = [f"Ux[{row}]:%x[{row},0]" for row in range(-5, 6)]
    if metric != WORDS:
        wider = list(BUILTIN["window"](len(train.input_names)))
        wider += [
            f"U{side}{n}:%{side}[0,0,{n}]" for side in ("prefix", "suffix") for n in (1, 2, 3)
        ]
        wider += [f"Ushape[{row}]:%shape[{row},0]" for row in (-1, 0, 1)]
    settings = work.task.systems["CSInf"] | work.results[f"{name}: search for CSInf"]["settings"]
    templates = {"windows of seven": "window", "more features": "\n".join(wider)}
    part, rest = _drawn(name, work).split(0.8, random_state=0)
    held_out = {
        title: _score_of(settings | {"template": t}, part, rest, metric)
        for title, t in templates.items()
    }
    begun = time.perf_counter()
    score = _score_of(settings | {"template": templates[best(held_out)]}, train, test, metric)
    shown = (
        f"{best(held_out)} ({', '.join(f'{value:.2f}' for value in held_out.values())} held out)"
    )
    return {
        metric: score,
        "seconds": time.perf_counter() - begun,
        "settings": shown,
        "shown": f"{shown}: {score:.2f}",
    }


def _trigrams(tagger: MemoryTagger, data: Any, test: Corpus) -> Result:
    """How many tokens get exactly the right trigram, and how many sequences the trigrams allow."""
    right = n = 0
    for labels, trigrams in zip(test.y, tagger.predict_ngrams(data), strict=True):
        padded = [None, *labels, None]
        right += sum(trigram == tuple(padded[t : t + 3]) for t, trigram in enumerate(trigrams))
        n += len(labels)
    return {
        "base accuracy": 100 * right / n,
        "sequences": float(np.mean(tagger.n_sequences(data))),
        "seconds": 0.0,
    }


def _curve(work: Work) -> Result:
    """Figures 1 and 2: classifiers of all qualities, from few instances and poor settings to many
    and good ones."""
    train, test, metric = _parts(CURVE, work)
    points = []
    for share in work.task.shares[-2:] if work.quick else work.task.shares:
        part = train if share == 1 else train.split(share, random_state=0)[0]
        for settings in work.task.qualities:
            tagger = MemoryTagger(**settings).fit(part)
            data = tagger.encode(test)
            point = _trigrams(tagger, data, test)
            for system in ("vote", "csi"):
                point[system] = _score(
                    metric, test.y, [each.labels for each in tagger.decode(data, system)]
                )
            point["oracle"] = _score(metric, test.y, tagger.predict_oracle(data, test.y))
            points.append(point)
    return {"points": sorted(points, key=lambda point: point["base accuracy"])}


def _tasks(work: Work) -> Sequence[str]:
    return ["conll2000", CURVE] if work.quick else list(work.task.corpora)


def steps(work: Work) -> list[Step]:
    steps = []
    for name in _tasks(work):
        minutes = work.task.corpora[name]["minutes"]
        for row in (TRIGRAMS, *work.task.systems):
            steps.append(
                Step(f"{name}: search for {row}", minutes / 2, partial(_searched, name, row))
            )
        steps.append(Step(f"{name}: test", minutes / 8, partial(_tested, name), 1))
        steps.append(Step(f"{name}: {OURS}", minutes / 8, partial(_ours, name), 1))
    return [*steps, Step("figures 1 and 2", 2, _curve)]


# -- findings --------------------------------------------------------------------------------------


def findings(work: Work) -> Findings:
    task = work.task
    rows: list[Row] = []
    claims = []
    for name in _tasks(work):
        tested, ours = work.results[f"{name}: test"], work.results[f"{name}: {OURS}"]
        stands_for = task.corpora[name]["stands_for"]
        published, table = task.published[stands_for], f"Table 1, {stands_for}: {name}"
        metric = next(iter(tested["oracle"]))
        of_task: list[Row] = []
        for row in (
            row for row, scores in tested.items() if isinstance(scores, dict) and metric in scores
        ):
            system = row.removesuffix(OWN)
            search = system if row.endswith(OWN) else TRIGRAMS
            searched = work.results[f"{name}: search for {search}"]["settings"]
            settings = ", ".join(f"{setting} {value}" for setting, value in searched.items())
            shown = system if system == "baseline" else row
            of_task += rows_of(
                table, shown, {metric: published[system]}, [tested[row]], settings=settings
            )
        of_task += rows_of(
            table, "CSInf", {metric: published["CSInf"]}, [ours], OURS, ours["settings"]
        )
        paper = {metric: published[metric] for metric in ("base accuracy", "sequences")}
        of_task += rows_of("Table 2", f"{stands_for}: {name}", paper, [tested[TRIGRAMS]])
        rows += [row._replace(comparable=stands_for in task.originals) for row in of_task]
        test = "p, tokens" if metric == WORDS else "p, F1"
        tests = [
            difference(tested["pairs"], better, worse)[test] for worse, better in pairwise(ORDER)
        ]
        scores = [tested[row][metric] for row in ORDER]
        kept = verdict(min(b - a for a, b in pairwise(scores)), max(tests))
        how = "McNemar on letters" if metric == WORDS else "bootstrap on F1"
        shown = (
            f"{', '.join(f'{score:.2f}' for score in scores)}; {' and '.join(map(p_value, tests))} "
            f"({how})"
        )
        claims.append(work.claim("order", None, corpus=name, scores=shown)._replace(kept=kept))
    points = work.results["figures 1 and 2"]["points"]
    rows.sort(key=lambda row: row.table == "Table 2")  # it is the last one
    published = task.published[task.corpora[CURVE]["stands_for"]]
    return Findings(rows, claims + _curve_claims(points, work), _figures(points, published))


def _curve_claims(points: Sequence[Mapping[str, float]], work: Work) -> list[Claim]:
    """What figures 1 and 2 show: fewer sequences and more words right with better classifiers."""
    base, keys = (
        [point["base accuracy"] for point in points],
        ("sequences", "vote", "csi", "oracle"),
    )
    linked = {key: float(np.corrcoef(base, [point[key] for point in points])[0, 1]) for key in keys}
    ahead = min(point["oracle"] - max(point["csi"], point["vote"]) for point in points)
    gains, n = [point["csi"] - point["vote"] for point in points], len(points) // 2
    worse_half, better_half = mean(gains[:n]), mean(gains[-n:])
    return [
        work.claim("fewer", linked["sequences"] < 0, **linked),
        work.claim("linear", min(linked[key] for key in keys[1:]) > 0.9, **linked),
        work.claim("oracle", ahead > 2, ahead=ahead),
        work.claim("always", min(gains) > 0, better=sum(gain > 0 for gain in gains), n=len(points)),
        work.claim(
            "gain", better_half < worse_half, worse_half=worse_half, better_half=better_half
        ),
    ]


def _figures(points: Sequence[Mapping[str, float]], published: Mapping[str, float]) -> list[Figure]:
    base, label = [point["base accuracy"] for point in points], "accuracy of the classifier (%)"
    systems = {"oracle": "oracle", "csi": "CSInf", "vote": "voting"}
    curves = {name: (base, [[point[key] for point in points]]) for key, name in systems.items()}
    at = published["base accuracy"]
    paper = {name: [(at, published[name])] for name in systems.values()}
    sequences = {"": (base, [[point["sequences"] for point in points]])}
    many = Panel(
        label,
        "candidate sequences",
        sequences,
        points=True,
        paper={"": [(at, published["sequences"])]},
    )
    words = Panel(label, "words right (%)", curves, points=True, paper=paper)
    stars = "The stars are the paper's PHONEME, of other data."
    return [
        Figure("figure-1", f"Candidate sequences of a word ({CURVE}). {stars}", [many]),
        Figure("figure-2", f"Words right ({CURVE}). {stars}", [words]),
    ]
