"""A few sentences with segments, and all segmentations of a sentence with their scores, one by
one."""

import itertools
from collections import Counter

import numpy as np
import oracles
from problems import as_tokens

from labelwright import SemiCRF, Span
from labelwright.corpus import labels_of

TEMPLATE = "U1:%x[0,0]\nU2:%x[-1,0]/%x[0,0]\nB"
X = [["a", "b", "c", "a"], ["b", "c"], ["c", "a", "b"], ["a"], ["a", "b", "b", "b", "c"]]
SPANS = [
    [Span(0, 2, "X"), Span(2, 3, "X")],
    [Span(1, 2, "Y")],
    [Span(0, 1, "X"), Span(1, 3, "Y")],
    [Span(0, 1, "X")],
    [Span(1, 4, "Y")],
]
DICTIONARIES = {"short": ["b", "c"], "long": ["b b", ["c", "a"], "a b c a"]}
SCHEMES = ["iob1", "iob2", "ioe1", "ioe2", "bioes", "io", None]
NEW = ["b", "b", "zzz", "a"]


def labelled(scheme):
    if scheme is None:
        return [["N", "N", "V", "N"], ["N", "V"], ["V", "N", "P"], ["N"], ["P", "N", "N", "N", "V"]]
    spans = SPANS if scheme != "io" else [[Span(0, 2, "X")], *SPANS[1:]]
    return [labels_of(own, len(x), scheme) for own, x in zip(spans, X, strict=True)]


def random_model(scheme, **settings):
    """A segment model with weights that are far from any optimum."""
    settings |= {
        "template": TEMPLATE,
        "dictionaries": DICTIONARIES,
        "cells": "all",
        "max_iter": 1,
        "n_jobs": 1,
    }
    model = SemiCRF(**settings).fit(X, labelled(scheme))
    assert model.scheme_ == scheme
    model.weights_ = np.random.default_rng(1).normal(size=len(model.weights_)).astype(np.float32)
    return model


class Enumerated:
    """All segmentations of one sentence, by the names of features: labellings with their scores and
    probabilities."""

    def __init__(self, model, sentence, permitted=None):
        space, self.scheme, self.T = model.segments_, model.scheme_, len(sentence)
        columns = {"state": space.roles, "segment": space.types}
        names, parts = [*space.types, None], model._parameters.slices
        weights = {}
        for kind, cells in model._parameters.cells.items():
            feature = np.repeat(np.arange(len(cells.ptr) - 1), np.diff(cells.ptr))
            for f, column, w in zip(
                feature, cells.column, model.weights_[parts[kind]], strict=True
            ):
                weights[kind, model._extractor.name(f), columns[kind][column]] = float(w)
        transitions = model.weights_[parts["transitions"]].reshape(len(names), len(names))
        weights |= {
            (a, b): float(transitions[i, j])
            for i, a in enumerate(names)
            for j, b in enumerate(names)
        }
        tokens = as_tokens([sentence], TEMPLATE)[0]
        lists = {
            name: {" ".join(p) if isinstance(p, list) else p for p in own}
            for name, own in DICTIONARIES.items()
        }
        found = {}

        def of_segment(start, end, kind):
            total, places = 0.0, "S" if end - start == 1 else "B" + "I" * (end - start - 2) + "E"
            for t, place in zip(range(start, end), places, strict=True):
                role = "O" if self.scheme and kind == "O" else f"{place}-{kind}"
                total += sum(
                    weights.get(("state", name, role), 0.0) * n
                    for name, n in tokens[t]["state"].items()
                )
            text = " ".join(sentence[start:end])
            features = [f"length={end - start}", f"text={text}"]
            features += [f"dictionary={name}" for name, phrases in lists.items() if text in phrases]
            return total + sum(weights.get(("segment", name, kind), 0.0) for name in features)

        every = itertools.product(range(self.T), range(1, self.T + 1), space.types)
        known = {each: of_segment(*each) for each in every if each[0] < each[1]}
        for own in self.segmentations(0, None, space):
            total, before = 0.0, None
            for segment in own:
                total += known[segment] + weights[before, segment[2]]
                before = segment[2]
            labels = self.written(own)
            if permitted is None or all(
                p is None or y in p for y, p in zip(labels, permitted, strict=True)
            ):
                assert labels not in found  # one labelling is one segmentation
                found[labels] = total, own
        self.labels = sorted(found, key=lambda y: -found[y][0])
        self.scores = np.array([found[y][0] for y in self.labels])
        self.segments = [found[y][1] for y in self.labels]
        self.log_z = oracles.log_sum(self.scores)
        self.p = np.exp(self.scores - self.log_z)

    def segmentations(self, start, before, space):
        if start == self.T:
            yield []
        for end in range(start + 1, min(self.T, start + space.max_length) + 1):
            for kind in space.types:
                outside = self.scheme is not None and kind == "O"
                if (outside and end > start + 1) or (
                    kind == before and not outside and self.scheme in (None, "io")
                ):
                    continue
                for rest in self.segmentations(end, kind, space):
                    yield [(start, end, kind), *rest]

    def written(self, own):
        if self.scheme is None:
            return tuple(kind for start, end, kind in own for _ in range(start, end))
        return tuple(labels_of([Span(*s) for s in own if s[2] != "O"], self.T, self.scheme))

    def spans(self):
        found = Counter()
        for own, p in zip(self.segments, self.p, strict=True):
            for segment in own:
                found[segment] += p
        return found
