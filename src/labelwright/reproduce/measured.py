"""What steps of several experiments do: read a corpus as the papers describe it, train, decode,
score, and compare."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from labelwright import CRF, Corpus, LatentCRF, LatentPerceptron, Perceptron, read_columns
from labelwright.evaluate import evaluate
from labelwright.reproduce.work import AS_PUBLISHED, HOLDS, Claim, Parts, Result, Row, Work
from labelwright.taggers.estimator import uninterrupted

# The algorithm of figure 1 of Sun et al., as printed.
FIGURE_1 = {"margin": 0.0, "shuffle": False, "all_passes": True, "calibration": False}
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {  # of models, and their settings as published
    "CRF": (CRF, {"l2": 1.0}),  # 1 / sigma^2
    "latent CRF": (LatentCRF, {"l2": 1.0, "share": False}),
    "DPLVM": (LatentCRF, {"l2": 1.0, "share": False}),
    "Perc": (Perceptron, FIGURE_1),
    "Lat-Perc": (LatentPerceptron, FIGURE_1 | {"start": "random", "share": False}),
}
# settings, even at their default
TOLD = ("order", "n_latent", "l2", "averaging", "start", "share", "cells")
SIGNIFICANT = 0.05  # p-values below
SMALLEST = 1e-300  # that is shown
ABSTRACTS = 16_807  # the first sentence of abstract 1,801 of jnlpba
TRAINED = 0.9  # of CoNLL-2000's training part, where a paper names no development data

# -- corpora ---------------------------------------------------------------------------------------


def read_part(folder: Path, corpus: str, part: str, names: str) -> Corpus:
    """The training or test part of a corpus, compressed or not."""
    path = folder / corpus / f"{part}.txt"
    return read_columns(
        path if path.exists() else path.with_suffix(".txt.xz"), names=names.split(",")
    )


def base_nps(folder: Path, columns: Sequence[str], words: Callable[[str], str] = str) -> Parts:
    """NP chunking: CoNLL-2000 with every label but B-NP and I-NP mapped to O, these columns, words
    rewritten."""

    def part(which: str) -> Corpus:
        corpus = read_part(folder, "conll2000", which, "word,pos,chunk")
        inputs = {
            "word": [list(map(words, x)) for x in corpus.column("word")],
            "pos": corpus.column("pos"),
        }
        rows = [
            list(zip(*sentence, strict=True))
            for sentence in zip(*(inputs[name] for name in columns), strict=True)
        ]
        labels = [[label if label in ("B-NP", "I-NP") else "O" for label in y] for y in corpus.y]
        return Corpus.from_sequences(rows, labels)

    whole = part("train")
    return Parts(*whole.split(TRAINED), part("test"), whole)


def biomedical(folder: Path) -> Parts:
    """Bio-NER: 1,800 abstracts to train on, 200 for development, 404 to test on."""
    whole, test = (read_part(folder, "jnlpba", part, "word,pos,tag") for part in ("train", "test"))
    train = whole.take(slice(0, ABSTRACTS))
    return Parts(train, whole.take(slice(ABSTRACTS, None)), test, train)


def normalised(word: str) -> str:
    """A word in lower case, with runs of digits as one 0.

    >>> normalised("In"), normalised("1,204"), normalised("B-17s")
    ('in', '0,0', 'b-0s')
    """
    return re.sub(r"\d+", "0", word.lower())


READERS: dict[str, Callable[[Path], Parts]] = {
    "NP chunking": partial(base_nps, columns=("word", "pos")),
    "NP chunking, words only": partial(base_nps, columns=("word",), words=normalised),
    "Bio-NER": biomedical,
}


def parts_of(work: Work) -> Parts:
    """The data of a task."""
    return work.read(READERS[work.task.data])


# -- training and scores ---------------------------------------------------------------------------


def model_of(kind: str, variant: str, template: str, device: str = "cpu", **settings: Any) -> Any:
    """An untrained model; a device trains those that learn in batches."""
    made, published = KINDS[kind]
    ours = {"calibration": False} if kind.endswith("Perc") else {}
    if not kind.endswith("Perc") and "optimizer" not in settings:
        settings["device"] = device
    return made(template=template, **(published if variant == AS_PUBLISHED else ours) | settings)


def settings_of(model: Any) -> str:
    """The settings of a model that are not at their default, and those of which a paper speaks."""
    params = model.get_params(deep=False)
    names = (*TOLD, "reset_every") if params.get("averaging") == "mavg" else TOLD
    told = [
        f"{name}={params[name]!r}"
        for name in names
        if name in params and f"{name}=" not in repr(model)
    ]
    return repr(model).replace("(", f"({', '.join(told)}, ", 1)


def trained(model: Any, train: Corpus, **how: Any) -> tuple[Any, float]:
    """A model after training, and the seconds that took, reading of features included."""
    begun = time.perf_counter()
    uninterrupted(model.fit(train, **how))
    return model, time.perf_counter() - begun


def scored(gold: Sequence[Sequence[str]], labels: Sequence[Sequence[str]]) -> Result:
    """Sentence accuracy, and precision, recall and F1 of chunks, in percent."""
    report = evaluate(gold, labels)
    values = (report.sentence_accuracy, report.precision, report.recall, report.f1)
    return dict(
        zip(("S.A.", "P", "R", "F1"), (100 * (value or 0.0) for value in values), strict=True)
    )


def best(scores: Mapping[Any, float]) -> Any:
    """The setting with the highest score on development data; the first of equals."""
    return max(scores, key=lambda setting: scores[setting])


# -- rows ------------------------------------------------------------------------------------------


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
    """A row for each metric that the paper reports of a system, from the results of its seeds."""
    spent = averaged(results, "seconds")[0] if "seconds" in results[0] else None
    seeds = range(len(results))
    return [
        Row(
            table,
            system,
            metric,
            published,
            *averaged(results, metric),
            spent,
            variant,
            settings,
            tuple(seeds),
        )
        for metric, published in paper.items()
    ]


# -- whether systems differ ------------------------------------------------------------------------


def difference(pairs: Mapping[str, Result], a: str, b: str) -> Result:
    """How two systems differ, in whichever order the pair was compared."""
    if f"{a} / {b}" in pairs:
        return pairs[f"{a} / {b}"]
    pair = pairs[f"{b} / {a}"]
    alone = {
        "only first correct": pair["only second correct"],
        "only second correct": pair["only first correct"],
    }
    return pair | alone | {"F1": pair["F1"][::-1]}


KEPT, ALIKE, NOT_KEPT = "kept", "same direction, not significant", "not kept"


def verdict(gain: float, p: float) -> str:
    """Whether a difference that a paper claims is there.

    >>> verdict(0.5, 0.01), verdict(0.5, 0.2), verdict(-0.5, 0.01)
    ('kept', 'same direction, not significant', 'not kept')
    """
    return NOT_KEPT if gain <= 0 else KEPT if p < SIGNIFICANT else ALIKE


def p_value(p: float) -> str:
    return f"p = {p:.2g}" if p >= SMALLEST else f"p < {SMALLEST:g}"


def claimed(
    pairs: Mapping[str, Result],
    a: str,
    relation: str,
    b: str,
    where: str = "",
    means: Mapping[str, float] = {},
) -> Claim:
    """Whether the relation that a paper claims of two systems holds: by their mean F1 over seeds
    (where there are several) and by the paired bootstrap with seed 0, which must agree; McNemar's
    test is shown."""
    pair = difference(pairs, a, b)
    first, p = pair["F1"], pair["p, F1"]
    f1 = [means.get(system, score) for system, score in zip((a, b), first, strict=True)]
    kept = {
        "almost as good as": HOLDS[f1[0] - f1[1] > -0.5],
        "not significantly different from": HOLDS[p >= SIGNIFICANT],
    }.get(relation, verdict(f1[0] - f1[1], p if first[0] > first[1] else 1.0))
    over = "" if f1 == first else f"means {f1[0]:.2f} and {f1[1]:.2f}; seed 0: "
    alone = (
        f"only one is right on {pair['only first correct']:,} and {pair['only second correct']:,} "
        "tokens"
    )
    evidence = (
        f"{over}F1 {first[0]:.2f} and {first[1]:.2f}, {p_value(p)}; {alone}, "
        f"{p_value(pair['p, tokens'])}"
    )
    return Claim(f"{a} is {relation} {b}{where}", kept, evidence)
