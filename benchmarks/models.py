"""Every tagger on five tasks: score on test data, seconds of training, tokens labelled per second.

    python benchmarks/models.py CORPORA [--task ner,pos] [--model crf,perceptron] [--json
    models.json]

CORPORA is a folder with a folder for each task, which holds the column files train, dev and test
(.txt or .txt.xz); docs/tasks/ says where the data come from.  Without a dev file, the end of the
training file is used.  Development data choose which weights to keep; test data are scored once.
Seconds are processor time of one thread, so that other work on the machine does not count.
docs/which_model.md has the table.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from labelwright import (
    CRF,
    Cascade,
    LatentCRF,
    LatentPerceptron,
    MemoryTagger,
    Perceptron,
    SemiCRF,
    read_columns,
)
from labelwright.corpus import Corpus
from labelwright.evaluate import Report, evaluate

N_DEV, N_TEST = 1000, 2000  # sentences


class Task(NamedTuple):
    """What is read, how much of it, and what counts."""

    folder: str
    columns: str  # of the files
    inputs: tuple[str, ...]  # those that taggers read
    template: str  # the built-in one for the task
    n_train: int  # sentences
    score: Callable[[Report], float]
    measure: str
    scheme: str | None = None  # to rewrite labels in
    max_length: int | None = None  # of segments; None: labels mark none
    every: int = 1  # of how many training sentences one is taken: more than 1 where they are sorted
    below: str | None = None  # the column that the lower layer of a cascade predicts


def f1(report: Report) -> float:
    return report.f1


TASKS = {
    "ner": Task(
        "conll2003",
        "word,pos,chunk,ner",
        ("word",),
        "ner",
        4000,
        f1,
        "F1",
        scheme="iob2",
        max_length=8,
        below="pos",
    ),
    "pos": Task(
        "genia_pos",
        "word,pos",
        ("word",),
        "pos",
        3000,
        lambda report: report.token_accuracy,
        "accuracy",
    ),
    "chunking": Task(
        "conll2000",
        "word,pos,chunk",
        ("word", "pos"),
        "chunking",
        4000,
        f1,
        "F1",
        max_length=10,
        below="pos",
    ),
    "chinese": Task(
        "pku", "character,label", ("character",), "cws", 5000, f1, "F1 of words", max_length=8
    ),
    "g2p": Task(
        "nettalk",
        "letter,phoneme",
        ("letter",),
        "letters",
        8000,
        lambda report: report.sentence_accuracy,
        "words right",
        every=2,
    ),
}

Data = tuple[Corpus, Corpus]  # train, dev


def crf(task: Task, data: Data) -> Any:
    return CRF(template=task.template, n_jobs=1).fit(data[0], dev=data[1])


def second_order(task: Task, data: Data) -> Any:
    """Time grows with the cube of the number of labels: not for 40 of them."""
    if len(set(data[0].values(str(data[0].label)))) > 30:
        return None
    return CRF(template=task.template, n_jobs=1, order=2).fit(data[0], dev=data[1])


def latent_crf(task: Task, data: Data) -> Any:
    return LatentCRF(template=task.template, n_jobs=1, random_state=0).fit(data[0], dev=data[1])


def perceptron(task: Task, data: Data) -> Any:
    return Perceptron(template=task.template, n_jobs=1, random_state=0, calibration=False).fit(
        data[0], dev=data[1]
    )


def latent_perceptron(task: Task, data: Data) -> Any:
    return LatentPerceptron(
        2, template=task.template, n_jobs=1, random_state=0, calibration=False
    ).fit(data[0], dev=data[1])


def semi_crf(task: Task, data: Data) -> Any:
    if task.max_length is None:
        return None
    return SemiCRF(template=task.template, n_jobs=1, max_length=task.max_length).fit(
        data[0], dev=data[1]
    )


def memory(task: Task, data: Data) -> Any:
    return MemoryTagger(k=7, metric="mvdm", votes="inverse-linear", n_jobs=1).fit(data[0])


def cascade(task: Task, data: Data) -> Any:
    """From words alone: the lower layer predicts the POS tags that the other taggers are given, or
    do without."""
    if task.below is None:
        return None
    # one that reads words alone
    above = "default" if task.template == "chunking" else task.template
    layers = [(task.below, CRF(template="pos")), (str(data[0].label), CRF(template=above))]
    return Cascade(layers, passing="marginal", n_jobs=1).fit(data[0])


MODELS: dict[str, Callable[[Task, Data], Any]] = {
    "crf": crf,
    "crf-order-2": second_order,
    "latent-crf": latent_crf,
    "perceptron": perceptron,
    "latent-perceptron": latent_perceptron,
    "semi-crf": semi_crf,
    "memory": memory,
    "cascade": cascade,
}


def read(task: Task, folder: Path) -> tuple[Corpus, Corpus, Corpus]:
    """Training, development and test data."""

    def part(name: str) -> Corpus | None:
        stems = [folder / task.folder / f"{name}.txt{suffix}" for suffix in ("", ".xz")]
        path = next((path for path in stems if path.exists()), None)
        if path is None:
            return None
        corpus = read_columns(path, names=task.columns)
        return corpus.with_scheme(task.scheme) if task.scheme else corpus

    train, dev, test = part("train"), part("dev"), part("test")
    if train is None or test is None:
        raise SystemExit(
            f"models.py: {folder / task.folder}: expected train.txt and test.txt, plain or .xz"
        )
    dev = train.take(slice(-N_DEV, None)) if dev is None else dev.take(slice(0, N_DEV))
    return (
        train.take(slice(0, task.n_train * task.every, task.every)),
        dev,
        test.take(slice(0, N_TEST)),
    )


def measure(name: str, task: Task, folder: Path) -> dict[str, Any] | None:
    """Train, label and score; None if the tagger does not suit the task."""
    train, dev, test = read(task, folder)
    names = train.names if name == "cascade" else (*task.inputs, str(train.label))
    train, dev, test = (corpus.select(names) for corpus in (train, dev, test))
    # loads compiled kernels, too
    if MODELS[name](task, (train.take(slice(0, 50)), dev.take(slice(0, 20)))) is None:
        return None
    begun = time.process_time()
    model = MODELS[name](task, (train, dev))
    if model is None:  # all data have more labels than the first sentences
        return None
    trained = time.process_time()
    predicted = model.predict(test)
    seconds = time.process_time() - trained
    report = evaluate(test.y, predicted[str(test.label)] if name == "cascade" else predicted)
    return {
        "score": round(100 * task.score(report), 2),
        "token_accuracy": round(100 * report.token_accuracy, 2),
        "seconds": round(trained - begun, 1),
        "tokens_per_second": round(test.n_tokens / seconds),
        "sentences": len(train),
        "tokens": train.n_tokens,
        "settings": repr(model),
    }


def table(
    results: dict[str, dict[str, Any]], title: Callable[[str], str], shown: Callable[[Any], str]
) -> str:
    """Markdown: a row for each tagger, a column for each task."""
    tasks = [task for task in TASKS if task in results]
    lines = [
        "| tagger | " + " | ".join(map(title, tasks)) + " |",
        "| --- |" + " ---: |" * len(tasks),
    ]
    for name in MODELS:
        cells = [results[task].get(name) for task in tasks]
        lines.append(
            f"| `{name}` | " + " | ".join(shown(cell) if cell else "" for cell in cells) + " |"
        )
    return "\n".join(lines)


def scores(cell: Any) -> str:
    return f"{cell['score']:.2f} ({cell['seconds']:.{0 if cell['seconds'] >= 1 else 1}f} s)"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--task", default=",".join(TASKS), help="tasks, separated by commas")
    parser.add_argument("--model", help="taggers, separated by commas")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="results; those already in it are kept"
    )
    options = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    if options.json and options.json.exists():
        results = json.loads(options.json.read_text())
    for task in options.task.split(","):
        for name in options.model.split(",") if options.model else MODELS:
            if name in results.setdefault(task, {}):
                continue
            results[task][name] = measure(name, TASKS[task], options.corpora)
            print(task, name, results[task][name], file=sys.stderr, flush=True)
            if options.json:
                options.json.write_text(json.dumps(results, indent=1))
    print(table(results, lambda task: f"{task}, {TASKS[task].measure}", scores))
    print("\nTokens labelled per second:\n")
    print(table(results, str, lambda cell: f"{cell['tokens_per_second']:,}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
