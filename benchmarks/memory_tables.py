"""Tables 1 and 2 and figures 1 and 2 of Canisius, van den Bosch & Daelemans (2006), on the corpora
that can be had.

    python benchmarks/memory_tables.py table1 [--tasks conll2000,nettalk] [--search 1500]
                                              [--refine] [--plots FOLDER]
    python benchmarks/memory_tables.py curve [--plots FOLDER]
        figures 1 and 2: nettalk, good and bad classifiers

Windows are of 7 words and tags, or of 7 letters.  The settings of each task are found by
ProgressiveSearch on a part of its training data (`--search` sentences), once for plain classes and
once for trigrams (with `--refine` then near by on all of it); then the whole training part is
remembered and the test part is labelled once.  Chunks and names are scored by F1, letters by whole
words.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from labelwright import MemoryTagger, ProgressiveSearch, read_columns
from labelwright.corpus.table import Corpus
from labelwright.evaluate import evaluate


class Task(NamedTuple):
    """One row of table 1."""

    paper: str  # the task it stands for
    columns: str
    inputs: tuple[str, ...]
    label: str
    scoring: str  # f1 or sentence
    reported: tuple[float, float, float, float] | None  # none, vote, csi, oracle in the paper
    sequences: tuple[float, float] | None  # base accuracy and candidate sequences, table 2


CHUNK, NER = (91.9, 92.7, 93.1, 95.8), (77.2, 80.2, 81.8, 86.5)
MED, GENIA = (64.7, 67.5, 68.9, 74.9), (55.8, 60.1, 61.8, 70.6)
PHONEME, MORPHO = (79.0, 83.4, 84.5, 98.8), (41.3, 46.1, 51.9, 62.2)
WORDS = ("word", "pos")
TASKS = {
    "conll2000": Task("CHUNK", "word,pos,chunk", WORDS, "chunk", "f1", CHUNK, (88.8, 38.4)),
    "conll2003": Task("NER", "word,pos,chunk,ner", WORDS, "ner", "f1", NER, (91.6, 9.0)),
    "conll2002_ned": Task("MED", "word,pos,ner", WORDS, "ner", "f1", MED, (77.1, 9.3)),
    "bionlp13cg": Task("MED", "word,tag", ("word",), "tag", "f1", MED, (77.1, 9.3)),
    "jnlpba": Task("GENIA", "word,pos,tag", WORDS, "tag", "f1", GENIA, (71.8, 1719.3)),
    "nettalk": Task(
        "PHONEME", "letter,phoneme", ("letter",), "phoneme", "sentence", PHONEME, (91.7, 1.8)
    ),
    "morph_nld_mbma_silver": Task(
        "MORPHO", "letter,class", ("letter",), "class", "sentence", MORPHO, (80.9, 2.8)
    ),
    "morph_rus_tikhonov": Task(
        "MORPHO", "letter,class", ("letter",), "class", "sentence", MORPHO, (80.9, 2.8)
    ),
}


def settings() -> list[dict[str, Any]]:
    """What the search may choose from: metrics, weights, numbers of neighbours and votes."""
    basic = [
        {"metric": metric, "weights": weights}
        for metric in ("overlap", "mvdm", "jeffrey")
        for weights in ("gain-ratio", "information-gain", "chi-squared", "shared-variance", "none")
    ]
    near = [{"k": 1}] + [
        {"k": k, "votes": votes}
        for k in (3, 7, 11, 19, 35)
        for votes in ("inverse-distance", "inverse-linear", "exponential-decay")
    ]
    return [a | b for a in basic for b in near]


def parts_of(name: str, folder: Path) -> tuple[Corpus, Corpus]:
    """The training and the test part of a task."""
    task = TASKS[name]

    def part(which: str) -> Corpus:
        path = folder / name / f"{which}.txt"
        corpus = read_columns(
            path if path.exists() else path.with_suffix(".txt.xz"), names=task.columns.split(",")
        )
        corpus = corpus.select([*task.inputs, task.label], label=task.label)
        # the coding of the paper
        return corpus.with_scheme("iob1") if task.scoring == "f1" else corpus

    train = part("train")
    if name == "jnlpba":  # the paper parts its data 90 to 10
        return train.take(slice(0, len(train) * 9 // 10)), train.take(
            slice(len(train) * 9 // 10, None)
        )
    return train, part("test")


def score(task: Task, gold: Any, found: Any) -> float:
    """F1 of chunks, or the share of words that are right, in percent."""
    result = (
        evaluate(gold, found, reading="token")
        if task.scoring == "sentence"
        else evaluate(gold, found)
    )
    return 100 * (result.sentence_accuracy if task.scoring == "sentence" else result.f1)


def searched(
    task: Task, train: Corpus, sentences: int, console: Console, **words: Any
) -> dict[str, Any]:
    """The best settings on sentences drawn from the training data."""
    rng = np.random.default_rng(0)
    sentences *= 4 if task.scoring == "sentence" else 1  # words are short
    part = train.take(np.sort(rng.permutation(len(train))[:sentences]))
    begun = time.perf_counter()
    search = ProgressiveSearch(
        MemoryTagger(**words),
        settings(),
        first=max(50, sentences // 12),
        steps=4,
        scoring=task.scoring,
        refit=False,
    ).fit(part)
    seconds = time.perf_counter() - begun
    console.print(
        f"    {words}: {search.best_params_}, {100 * search.best_score_:.2f} ({seconds:.0f} s)"
    )
    return dict(search.best_params_)


def refined(
    task: Task, train: Corpus, found: dict[str, Any], console: Console, **words: Any
) -> dict[str, Any]:
    """The best settings near those found, on all training data: small samples like few neighbours
    too much."""
    grid = {
        "metric": found["metric"],
        "mvdm_threshold": [1, 2],
        "weights": list(dict.fromkeys([found["weights"], "gain-ratio"])),
        "k": [k for k in (found["k"] + step for step in (-2, 0, 2, 4, 8)) if k > 0],
        "votes": list(dict.fromkeys([found.get("votes", "none"), "inverse-distance"])),
    }
    search = ProgressiveSearch(
        MemoryTagger(**words), grid, first=len(train), steps=1, scoring=task.scoring, refit=False
    ).fit(train)
    console.print(f"    on all of them: {search.best_params_}, {100 * search.best_score_:.2f}")
    return dict(search.best_params_)


def base_accuracy(tagger: MemoryTagger, data: Any, test: Corpus) -> float:
    """How many tokens get exactly the right trigram, in percent."""
    right = n = 0
    for labels, grams in zip(test.y, tagger.predict_ngrams(data), strict=True):
        padded = [None, *labels, None]
        right += sum(gram == tuple(padded[t : t + 3]) for t, gram in enumerate(grams))
        n += len(labels)
    return 100 * right / n


def table1(options: argparse.Namespace, folder: Path, console: Console) -> None:
    """none, vote, csi and oracle of every task, beside the paper's."""
    rows = {}
    for name in options.tasks.split(",") if options.tasks else TASKS:
        task = TASKS[name]
        train, test = parts_of(name, folder)
        if options.test:
            test = test.take(slice(0, options.test))
        console.print(
            f"{name} ({task.paper}): {len(train)} + {len(test)} sequences, {train.n_tokens} "
            "instances"
        )
        plain = searched(task, train, options.search, console, ngram=1, inference="none")
        words = searched(task, train, options.search, console, ngram=3, inference="csi")
        if options.refine:
            words = refined(task, train, words, console, ngram=3, inference="csi")
        begun = time.perf_counter()
        found = {
            "none": score(
                task,
                test.y,
                MemoryTagger(ngram=1, inference="none", **plain).fit(train).predict(test),
            )
        }
        tagger = MemoryTagger(**words).fit(train)
        data = tagger.encode(test)
        for inference in ("vote", "csi"):
            found[inference] = score(
                task, test.y, [d.labels for d in tagger.decode(data, inference)]
            )
        found["oracle"] = score(task, test.y, tagger.predict_oracle(data, test.y))
        found["base"] = base_accuracy(tagger, data, test)
        found["sequences"] = float(np.mean(tagger.n_sequences(data)))
        seconds = time.perf_counter() - begun
        rows[name] = {"found": found, "plain": plain, "trigrams": words, "seconds": seconds}
        shown = "  ".join(f"{key} {found[key]:.2f}" for key in ("none", "vote", "csi", "oracle"))
        console.print(f"    {shown}   (the paper, {task.paper}: {task.reported}; {seconds:.0f} s)")
        console.print(
            f"    base accuracy {found['base']:.1f}, candidate sequences {found['sequences']:.1f} "
            f"({task.sequences})"
        )
    if options.plots:
        Path(options.plots).mkdir(parents=True, exist_ok=True)
        (Path(options.plots) / "table1.json").write_text(json.dumps(rows, indent=1))


def curve(options: argparse.Namespace, folder: Path, console: Console) -> None:
    """Figures 1 and 2: candidate sequences and word accuracy against the accuracy of the
    classifier, which gets better with more instances and better settings."""
    train, test = parts_of("nettalk", folder)
    task, points = TASKS["nettalk"], []
    qualities: list[dict[str, Any]] = [
        {"weights": "none"},
        {},
        {"metric": "mvdm", "k": 3},
        {"metric": "mvdm", "k": 7, "votes": "inverse-distance"},
    ]
    for fraction in (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0):
        part = (
            train.take(slice(0, None))
            if fraction == 1
            else train.split(fraction, random_state=0)[0]
        )
        for words in qualities:
            tagger = MemoryTagger(**words).fit(part)
            data = tagger.encode(test)
            point = {
                "base": base_accuracy(tagger, data, test),
                "sequences": float(np.mean(tagger.n_sequences(data))),
            }
            for inference in ("vote", "csi"):
                point[inference] = score(
                    task, test.y, [d.labels for d in tagger.decode(data, inference)]
                )
            point["oracle"] = score(task, test.y, tagger.predict_oracle(data, test.y))
            points.append(point)
            console.print(
                "  ".join(f"{key} {value:6.2f}" for key, value in point.items())
                + f"  {fraction:.2f} {words}"
            )
    if options.plots:
        draw(sorted(points, key=lambda point: point["base"]), Path(options.plots))


def draw(points: list[dict[str, float]], folder: Path) -> None:
    """Both figures as one picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    base = [point["base"] for point in points]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    left.plot(base, [point["sequences"] for point in points], "o", markersize=4, color="black")
    left.set(
        xlabel="base classifier accuracy (%)",
        ylabel="candidate sequences a word",
        title="Candidate sequences",
    )
    styles = {"oracle": "^", "csi": "o", "vote": "s"}
    for name, marker in styles.items():
        right.plot(base, [point[name] for point in points], marker, markersize=4, label=name)
    right.set(
        xlabel="base classifier accuracy (%)", ylabel="words right (%)", title="Inference, nettalk"
    )
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "figures1and2.png", dpi=150)
    pyplot.close(figure)


COMMANDS = {"table1": table1, "curve": curve}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=COMMANDS)
    parser.add_argument("--corpora", default=os.environ.get("LABELWRIGHT_CORPORA"))
    parser.add_argument("--tasks", help="some of " + ", ".join(TASKS))
    parser.add_argument(
        "--search",
        type=int,
        default=1500,
        help="sentences on which settings are searched; four times as many words",
    )
    parser.add_argument(
        "--refine",
        action="store_true",
        help="search again for trigrams, near by and on all sentences",
    )
    parser.add_argument(
        "--test", type=int, help="label only so many test sequences, for a quick look"
    )
    parser.add_argument("--plots", metavar="FOLDER")
    options = parser.parse_args()
    if not options.corpora:
        sys.exit(
            "memory_tables.py: the corpora are needed: set LABELWRIGHT_CORPORA or give --corpora"
        )
    COMMANDS[options.what](options, Path(options.corpora), Console(width=140))


if __name__ == "__main__":
    main()
