"""CRFsuite's side of the benchmark, by python-crfsuite, as fast as plain Python makes it;
`measure.ask` starts it.

What a template reads of a value is computed once per distinct value, feature strings are built a
template line and a sentence at a time, and each sentence goes to the trainer at once, so that
Python never holds all features."""

import lzma
import time
from itertools import pairwise
from statistics import median
from sys import intern
from typing import Any

import pycrfsuite

# text only: neither NumPy nor Numba comes with it
from labelwright.features.builtin import template as find_template
from labelwright.features.template import Cell, apply
from measure import Job, Laps, serve

Sentence = list[list[str]]  # columns of tokens, the label last


def read(path: str) -> list[Sentence]:
    """The sentences of a column file."""
    with (
        lzma.open(path, "rt", encoding="utf-8")
        if path.endswith(".xz")
        else open(path, encoding="utf-8") as file
    ):
        blocks = [block for block in file.read().split("\n\n") if block.strip()]
    tokens = (
        [line.split("\t" if "\t" in line else " ") for line in block.strip("\n").split("\n")]
        for block in blocks
    )
    return [[list(map(intern, column)) for column in zip(*rows, strict=True)] for rows in tokens]


class Expansion:
    """A template compiled for one corpus: sentence -> the feature strings of each token."""

    def __init__(self, name: str, sentences: list[Sentence]):
        template = find_template(name, len(sentences[0]) - 1)
        self.lines = [(p.literals[0], p.cells) for p in template.patterns if p.cells]
        self.look = {}
        for reader in {cell.reader for _, cells in self.lines for cell in cells}:
            values = list({value for sentence in sentences for value in sentence[reader.column]})
            self.look[reader] = dict(zip(values, apply(reader, values), strict=True))
        self.reach = max(abs(cell.row) for _, cells in self.lines for cell in cells)
        self.before = [f"_B-{d}" for d in range(self.reach, 0, -1)]
        self.after = [f"_B+{d}" for d in range(1, self.reach + 1)]

    def __call__(self, sentence: Sentence) -> list[tuple[str, ...]]:
        seen = {
            reader: [*self.before, *map(look.__getitem__, sentence[reader.column]), *self.after]
            for reader, look in self.look.items()
        }

        def values(cell: Cell) -> list[str]:
            begin = self.reach + cell.row
            return seen[cell.reader][begin : begin + len(sentence[0])]

        columns: list[list[str]] = []
        for head, cells in self.lines:
            if len(cells) == 1:
                columns.append([head + value for value in values(cells[0])])
            else:
                columns.append(
                    [head + "/".join(several) for several in zip(*map(values, cells), strict=True)]
                )
        return list(zip(*columns, strict=True))


class Trainer(pycrfsuite.Trainer):
    """Notes when each iteration ends."""

    times: list[float]

    def message(self, message: Any) -> None:
        super().message(message)
        if message.startswith("Seconds required for this iteration"):
            self.times.append(time.perf_counter())


def trained(
    laps: Laps, job: Job, sentences: list[Sentence], algorithm: str, settings: Job
) -> Trainer:
    """A trainer that has written its model, after all iterations that the job allows."""
    trainer = Trainer(algorithm=algorithm, verbose=False)
    trainer.times = []
    trainer.set_params(
        {"max_iterations": job["iterations"], "epsilon": 0.0, "feature.possible_transitions": True}
    )
    trainer.set_params(settings)
    expand = Expansion(job["template"], sentences)
    for sentence in sentences:
        trainer.append(expand(sentence), sentence[-1])
    laps("features")
    trainer.train(job["model"])
    laps("train")
    return trainer


def train(laps: Laps, job: Job) -> Job:
    """File to model, with the cells and the penalty of labelwright's CRF(cells="observed",
    l2=1)."""
    sentences = read(job["train"])
    laps("read")
    penalty = {"c1": 0.0, "c2": 0.5, "feature.possible_states": False}
    trainer = trained(laps, job, sentences, "lbfgs", {**penalty, "delta": job["tol"], "period": 10})
    last = trainer.logparser.last_iteration
    found = {
        "loss": last["loss"],
        "iterations": last["num"],
        "weights": trainer.logparser.featgen_num_features,
    }
    return {**found, "per_iteration": median(b - a for a, b in pairwise(trainer.times))}


def perceptron(laps: Laps, job: Job) -> Job:
    """Seconds of each pass of the averaged perceptron."""
    trainer = trained(laps, job, read(job["train"]), "ap", {})
    return {"passes": [b - a for a, b in pairwise(trainer.times)]}


def tag(laps: Laps, job: Job) -> Job:
    """File to labelled file."""
    tagger = pycrfsuite.Tagger()
    tagger.open(job["model"])
    laps("model")
    sentences = read(job["test"])
    laps("read")
    expand = Expansion(job["template"], sentences)
    labels = [tagger.tag(expand(sentence)) for sentence in sentences]
    laps("tag")
    with open(job["out"], "w", encoding="utf-8") as file:
        for sentence, predicted in zip(sentences, labels, strict=True):
            file.writelines(" ".join(row) + "\n" for row in zip(*sentence, predicted, strict=True))
            file.write("\n")
    laps("write")
    return {}


if __name__ == "__main__":
    serve({"train": train, "perceptron": perceptron, "tag": tag})
