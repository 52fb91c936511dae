"""Many labels: CRFs with pruned candidates beside unpruned ones, on GENIA's and AMALGUM's parts of
speech.

    python benchmarks/labels.py genia [--order 1] [--sentences 4000] [--iterations 50]
        48 labels, pruned and not
    python benchmarks/labels.py amalgum [--order 1] [--sentences 4000] [--iterations 50]
        500 labels and more, pruned
    python benchmarks/labels.py growth [--sentences 2400] [--iterations 50]
        50 to 5,000 labels

Labels of `amalgum` are the part of speech (xpos) and the universal one of the next token.  Those of
`growth` have the xpos of the token before as well; the most frequent ones are kept, all others are
one label.  5,000 labels need 6,000 sentences.  An unpruned model with more than 250 labels is
trained for three iterations only, for their time; with more than 600 not at all.  Every model is
trained in a process of its own.  Seconds are those of the processor, summed over threads: they mean
something on a busy machine, too.  The corpora are in the folder that LABELWRIGHT_CORPORA names.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from labelwright import CRF, read_columns
from measure import Job, Laps, ask, serve

GROWTH = (50, 200, 500, 2000, 5000)
# labels of an unpruned model that is trained, and whose time is measured
TRAINABLE, MEASURABLE = 250, 600
ENOUGH_SENTENCES = {5000: 6000}  # that have so many labels
PROVEN = 100  # sentences of the test set that are decoded with a proof
Rows = list[tuple[str, ...]]


def next_tag(rows: Rows) -> list[str]:
    """xpos, and the upos of the next token."""
    return [
        f"{row[2]}|{after}"
        for row, after in zip(rows, [*(r[1] for r in rows[1:]), "END"], strict=True)
    ]


def neighbours(rows: Rows) -> list[str]:
    """The xpos of the token before, xpos, and the upos of the next token."""
    before = ["BEGIN", *(row[2] for row in rows[:-1])]
    return [f"{first}|{label}" for first, label in zip(before, next_tag(rows), strict=True)]


LABELS: dict[str, Callable[[Rows], list[str]]] = {
    "genia_pos": lambda rows: [row[-1] for row in rows],
    "amalgum": next_tag,
    "growth": neighbours,
}


def sentences(corpus: str, part: str, n: int) -> tuple[list[list[str]], list[list[str]]]:
    """The words and labels of the first n sentences."""
    folder = Path(os.environ["LABELWRIGHT_CORPORA"]) / (
        "genia_pos" if corpus == "genia_pos" else "amalgum"
    )
    table = read_columns(folder / f"{part}.txt.xz")
    columns = [table.column(name) for name in table.names]
    rows = [list(zip(*sentence, strict=True)) for sentence in islice(zip(*columns, strict=True), n)]
    return [[row[0] for row in sentence] for sentence in rows], [
        LABELS[corpus](sentence) for sentence in rows
    ]


def cut(y: list[list[str]], kept: set[str]) -> list[list[str]]:
    """The same labels, all but the kept ones as one."""
    return [[label if label in kept else "other" for label in labels] for labels in y]


def shared(predicted: list[list[str]], gold: list[list[str]]) -> float:
    """The share of right labels."""
    return float(
        np.mean(
            [
                a == b
                for p, g in zip(predicted, gold, strict=True)
                for a, b in zip(p, g, strict=True)
            ]
        )
    )


def kept_share(model: CRF, X: list[list[str]], y: list[list[str]]) -> float:
    """The share of gold labels among the candidates."""
    code = {label: k for k, label in enumerate(model.classes_)}
    kept = []
    for chained, labels in zip(model.scored(X), y, strict=True):
        codes = np.array([code.get(label, -1) for label in labels])
        kept += (chained.lists.places_of(codes) >= 0).tolist()  # type: ignore[union-attr]
    return float(np.mean(kept))


def measured(laps: Laps, job: Job) -> Job:
    """Train one model, and ask it."""
    (X, y), (V, g) = (
        sentences(job["corpus"], *part) for part in (("train", job["n"]), ("test", job["n_test"]))
    )
    if job["labels"]:
        frequent = Counter(chain.from_iterable(y)).most_common(job["labels"] - 1)
        y, g = (cut(part, {label for label, _ in frequent}) for part in (y, g))
    compiled = CRF(prune_labels=job["prune"], order=job["order"], max_iter=1).fit(X[:30], y[:30])
    compiled.predict(X[:30])
    compiled.decode(X[:30])
    laps("read")
    clock, begun = list[float](), time.process_time()
    model = CRF(prune_labels=job["prune"], order=job["order"], max_iter=job["iterations"])
    model.fit(X, y, progress=lambda *_: clock.append(time.process_time()))
    fit = time.process_time() - begun
    laps("fit")
    history, tokens = model.history_, sum(map(len, V))
    evaluations = sum(record["evaluations"] for record in history[1:])
    begun = time.process_time()
    predicted = model.predict(V)
    speed = tokens / (time.process_time() - begun)
    answer = {
        "labels": len(model.classes_),
        "tokens": sum(map(len, X)),
        "fit": fit,
        "iteration": (clock[-1] - clock[0]) / max(1, evaluations),
        "accuracy": shared(predicted, g) if len(history) > 10 else None,
        "speed": speed,
    }
    if "pruning" in model.training_:
        V, g = V[:PROVEN], g[:PROVEN]
        fast, exact = model.decode(V), model.decode(V, "exact")
        answer |= {
            "candidates": model.training_["pruning"]["candidates"],
            "kept": kept_share(model, V, g),
            "proven": float(np.mean([record.exact for record in fast])),
            "enlarged": float(np.mean([record.exact for record in exact])),
            "gain": shared([r.labels for r in exact], g) - shared([r.labels for r in fast], g),
            "same": float(
                np.mean([a.labels == b.labels for a, b in zip(fast, exact, strict=True)])
            ),
        }
    return answer


COLUMNS = {
    "labels": "labels",
    "prune": "prune",
    "candidates": "candidates",
    "kept": "gold kept %",
    "fit": "fit, CPU s",
    "iteration": "evaluation, CPU s",
    "peak": "peak MiB",
    "speed": "tokens/CPU s",
    "accuracy": "accuracy %",
    "proven": "proven %",
    "enlarged": "proven, enlarged %",
    "same": "same answer %",
    "gain": "accuracy gained %",
}


def shown(name: str, value: Any) -> str:
    """A measure as text."""
    if value is None:
        return "-"
    if name in ("kept", "accuracy", "proven", "enlarged", "same", "gain"):
        return f"{100 * value:.2f}"
    if name in ("iteration", "prune"):
        return str(value) if isinstance(value, str) else f"{value:,.3f}"
    return f"{value:,.1f}" if isinstance(value, float) and value < 1000 else f"{value:,.0f}"


def compare(title: str, jobs: list[Job]) -> None:
    """Run jobs, one after the other, and show their measures."""
    table = Table(*COLUMNS.values(), title=title)
    for job in jobs:
        answer = ask("labels", "measured", **job)
        answer["prune"] = job["prune"]
        table.add_row(*(shown(name, answer.get(name)) for name in COLUMNS))
        Console(file=sys.stderr).print(job, answer)
    Console(width=170).print(table)


def jobs_of(corpus: str, labels: int, known: int, given: argparse.Namespace) -> list[Job]:
    """A pruned model, and an unpruned one where that can run; `known` labels, of which so many are
    kept (0: all)."""
    n = max(given.sentences, ENOUGH_SENTENCES.get(labels, 0))
    job = {"corpus": corpus, "labels": labels, "n": n, "n_test": 1000, "order": given.order}
    jobs = [job | {"prune": 0.999, "iterations": given.iterations}]
    if known <= TRAINABLE:
        jobs.append(job | {"prune": "off", "iterations": given.iterations})
    elif known <= MEASURABLE:
        jobs.append(job | {"prune": "off", "iterations": 3})
    return jobs


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=["genia", "amalgum", "growth"])
    parser.add_argument("--order", type=int, default=1)
    parser.add_argument("--sentences", type=int, default=4000)
    parser.add_argument("--iterations", type=int, default=50)
    given = parser.parse_args()
    if "LABELWRIGHT_CORPORA" not in os.environ:
        raise SystemExit("LABELWRIGHT_CORPORA is not set: it names the folder of the corpora")
    if given.task == "growth":
        jobs = [job for n in GROWTH for job in jobs_of("growth", n, n, given)]
    else:
        jobs = jobs_of(
            {"genia": "genia_pos"}.get(given.task, given.task),
            0,
            50 if given.task == "genia" else 550,
            given,
        )
    if given.order == 2:
        jobs = [job for job in jobs if job["prune"] != "off" or given.task == "genia"]
    compare(f"{given.task}, order {given.order}, {given.sentences} sentences", jobs)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("{"):
        serve({"measured": measured})
    else:
        main()
