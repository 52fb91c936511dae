"""Models over patterns by their definition: observations as texts, weights by observation,
labellings enumerated."""

import itertools
import math
import re
from typing import NamedTuple

import numpy as np

CELL = re.compile(r'%([a-zA-Z])\[(@?)(-?[0-9]+),0(?:,"([^"]*)")?\]')


class PatternModel(NamedTuple):
    """Patterns over one column, and the weights of observations: of labels, then of pairs of
    labels."""

    patterns: list[str]
    labels: list[str]
    weights: dict[bytes, list[float]]
    mark: str  # _x or _B: of places outside the sentence
    nearest_alike: int  # places from here on look alike

    def value(self, sentence, t, cell):
        function, absolute, row, regex = cell.groups()
        place = int(row) + (t if not absolute else len(sentence) if row[0] == "-" else -1)
        outside = place if place < 0 else place - len(sentence) + 1
        if 0 <= place < len(sentence):
            value = sentence[place].encode()
        else:
            far = abs(outside) >= self.nearest_alike
            value = f"{self.mark}{outside:+}"[:3].encode() + (b"#" if far else b"%d" % abs(outside))
        if function in "tT":
            return b"true" if regex.encode() in value else b"false"
        # "^.?" is the only regular expression of these
        value = value[:1] if function in "mM" else value
        return value.lower() if function.isupper() else value

    def observations(self, sentence, t):
        texts = []
        for pattern in self.patterns:
            pieces, at = b"", 0
            for cell in CELL.finditer(pattern):
                pieces += pattern[at : cell.start()].encode() + self.value(sentence, t, cell)
                at = cell.end()
            texts.append(pieces + pattern[at:].encode())
        return texts

    def size(self, text):
        L = len(self.labels)
        return {b"u": L, b"b": L * L, b"*": L + L * L}[text[:1].lower()]

    def score(self, sentence, labelling):
        L, score = len(self.labels), 0.0
        for t, label in enumerate(labelling):
            for text in self.observations(sentence, t):
                weights = self.weights.get(text, [0.0] * self.size(text))
                if text[:1] in b"uU*":
                    score += weights[label]
                if text[:1] in b"bB*" and t > 0:
                    score += weights[-L * L :][labelling[t - 1] * L + label]
        return score

    def marginals(self, sentence):
        """The probability of every label at every token."""
        L, T = len(self.labels), len(sentence)
        sums = [[0.0] * L for _ in range(T)]
        for labelling in itertools.product(range(L), repeat=T):
            mass = math.exp(self.score(sentence, labelling))
            for t, label in enumerate(labelling):
                sums[t][label] += mass
        return [[mass / sum(row) for mass in row] for row in sums]


def netstring(text):
    return b"%d:%s,\n" % (len(text), text)


def as_wapiti(model):
    """The model as Wapiti writes it."""
    weights = [w for text in model.weights for w in model.weights[text]]
    used = [(i, w) for i, w in enumerate(weights) if w]
    parts = [b"#mdl#2#%d\n#rdr#%d/0/0\n" % (len(used), len(model.patterns))]
    parts += [netstring(pattern.encode()) for pattern in model.patterns]
    parts += [
        b"#qrk#%d\n" % len(model.labels),
        *(netstring(label.encode()) for label in model.labels),
    ]
    parts += [b"#qrk#%d\n" % len(model.weights), *map(netstring, model.weights)]
    parts += [f"{i}={float(w).hex()}\n".encode() for i, w in used]
    return b"".join(parts)


def as_crfpp(model):
    """The model as CRF++ writes it."""
    features, weights = [], []
    for text in model.weights:
        features.append(b"%d %s" % (len(weights), text))
        weights += model.weights[text]
    parts = [
        f"version: 100\ncost-factor: 1\nmaxid: {len(weights)}\nxsize: 1".encode(),
        "\n".join(model.labels).encode(),
        "\n".join(model.patterns).encode(),
        b"\n".join(sorted(features, key=lambda line: line.partition(b" ")[2])),
        "".join(f"{w:.16f}\n" for w in weights).encode(),
    ]
    return b"\n\n".join(parts)


def damaged(data, n=300):
    """The bytes of a file with some of them changed, or cut short."""
    rng = np.random.default_rng(0)
    for _ in range(n):
        changed = bytearray(data)
        for at in rng.integers(len(data), size=rng.integers(1, 4)):
            changed[at] = rng.choice([*b"\n 0919ub*UB%:[],-.#=x", rng.integers(256)])
        yield bytes(changed[: rng.integers(len(data))] if rng.random() < 0.2 else changed)


def trouble(read, data):
    """The error that reading and labelling raise, or None."""
    try:
        read(data, "model.txt").predict_marginals([["dog", "x"]])
    except Exception as error:
        return error
    return None
