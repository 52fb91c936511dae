"""A third party: the objective of both models by one plain formula in NumPy that shares no code
with either trainer."""

import numpy as np
import pycrfsuite

from crfsuite_side import Expansion, read
from labelwright import load
from measure import Job, Laps, serve

Weights = dict[tuple[str, str], float]  # of (feature, label), or of (label, label)


def of_crfsuite(path: str) -> tuple[Weights, Weights]:
    """Weights of states and of transitions; CRFsuite shows them to six decimals."""
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    info = tagger.info()
    return info.state_features, info.transitions


def of_labelwright(path: str) -> tuple[Weights, Weights]:
    """The same from a model file of ours, by the names of its features."""
    model = load(path)
    labels, parts, cells = (
        model.classes_,
        model._parameters.slices,
        model._parameters.cells["state"],
    )
    owners = np.repeat(np.arange(model._extractor.n_features), np.diff(cells.ptr)).tolist()
    keys = (
        (model._extractor.name(f), labels[c])
        for f, c in zip(owners, cells.column.tolist(), strict=True)
    )
    moves = model.weights_[parts["transitions"]].tolist()
    pairs = [(a, b) for a in labels for b in labels]
    return dict(zip(keys, model.weights_[parts["state"]].tolist(), strict=True)), dict(
        zip(pairs, moves, strict=True)
    )


def judge(laps: Laps, job: Job) -> Job:
    """The objective: sum_n log Z(x_n) - score(y_n, x_n) + |w|^2 / 2, forwards, sentence by
    sentence."""
    states, moves = {"labelwright": of_labelwright, "crfsuite": of_crfsuite}[job["side"]](
        job["model"]
    )
    sentences = read(job["train"])
    expand = Expansion(job["template"], sentences)
    number = {
        label: i
        for i, label in enumerate({label for sentence in sentences for label in sentence[-1]})
    }
    rows = {feature: i for i, feature in enumerate({feature for feature, _ in states})}
    # [F+1, L], the last row for features without weights
    weights = np.zeros((len(rows) + 1, len(number)))
    arc = np.zeros((len(number), len(number)))  # [L, L]
    for (feature, label), weight in states.items():
        weights[rows[feature], number[label]] = weight
    for (before, after), weight in moves.items():
        arc[number[before], number[after]] = weight
    total = 0.5 * float((weights**2).sum() + (arc**2).sum())
    for sentence in sentences:
        # [T, L]
        node = weights[[[rows.get(f, -1) for f in token] for token in expand(sentence)]].sum(axis=1)
        gold = [number[label] for label in sentence[-1]]
        alpha = node[0]
        for score in node[1:]:
            alpha = np.logaddexp.reduce(alpha[:, None] + arc, axis=0) + score
        path = node[np.arange(len(gold)), gold].sum() + arc[gold[:-1], gold[1:]].sum()
        total += float(np.logaddexp.reduce(alpha) - path)
    return {"objective": total}


if __name__ == "__main__":
    serve({"judge": judge})
