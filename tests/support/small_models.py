"""Small trained models of every kind, by the public interface alone: what the tests of model files
store and load.

python tests/support/small_models.py FOLDER    write their files and the labels that they predict
"""

import json
import sys
from pathlib import Path

import numpy as np

from labelwright import (
    CRF,
    Cascade,
    LatentCRF,
    LatentPerceptron,
    MemoryBased,
    MemoryTagger,
    Perceptron,
    SemiCRF,
)
from labelwright.corpus.generated import builtin_corpus

TEMPLATE = "U1:%x[-1,0]\nU2:%x[0,0]\nU3:%x[1,0]\nU4:%suffix[0,0,2]\n*5:%shape[0,0]\nB"
TAGS = "U1:%x[-1,1]\nU2:%x[0,0]\nU3:%x[0,1]/%x[1,1]\nB"
WORDS = "U1:%x[-1,0]\nU2:%x[0,0]\nU3:%suffix[0,0,2]\nB"  # no features on pairs of labels
LISTS = {"people": ["John Smith", "Ada Lovelace"], "places": ["Paris"]}
SHORT = {"n_jobs": 1, "max_iter": 8}
N, ASKED = 12, 6  # sentences to learn from, and to ask about

# -- data: (X, y) of so many sentences -------------------------------------------------------------


def words(seed, n, label="entity"):
    made = builtin_corpus(n, random_state=seed)
    return made.column("word"), made.column(label)


def tagged(seed, n):
    made = builtin_corpus(n, random_state=seed)
    X = [
        list(zip(*pair, strict=True))
        for pair in zip(made.column("word"), made.column("pos"), strict=True)
    ]
    return X, made.column("chunk")


def dicts(seed, n):
    X, y = words(seed, n)
    return [
        [{"word": word, "length": float(len(word)), "title": word.istitle()} for word in x]
        for x in X
    ], y


def arrays(seed, n):
    X, y = words(seed, n)
    return [
        np.array([[len(word), word.istitle(), word[-1] == "s"] for word in x], np.float32)
        for x in X
    ], y


def layers(seed, n):
    X, entity = words(seed, n)
    return X, {"pos": words(seed, n, "pos")[1], "entity": entity}


def rows(seed, n):
    X, y = tagged(seed, n)
    return [[*row, len(row[0])] for x in X for row in x], [
        label for labels in y for label in labels
    ]


# -- models, untrained, with their data ------------------------------------------------------------


def cascade(second, **settings):
    return Cascade(
        [("pos", CRF(WORDS, **SHORT)), ("entity", second)], n_jobs=1, max_iter=3, **settings
    )


MODELS = {
    "crf": (lambda: CRF(TEMPLATE, **SHORT), words),
    "crf-columns": (lambda: CRF(TAGS, constraints="scheme", l1=0.5, **SHORT), tagged),
    "crf-dicts": (lambda: CRF(**SHORT), dicts),
    "crf-arrays": (lambda: CRF(**SHORT), arrays),
    "crf-order2": (lambda: CRF(f"{TEMPLATE}\nT6:%x[0,0]", order=2, **SHORT), words),
    "latent-crf": (lambda: LatentCRF(2, TEMPLATE, random_state=0, **SHORT), words),
    "perceptron": (lambda: Perceptron(TEMPLATE, max_iter=5, n_jobs=1), words),
    "latent-perceptron": (
        lambda: LatentPerceptron(2, WORDS, max_iter=5, random_state=0, n_jobs=1),
        words,
    ),
    "semi-crf": (lambda: SemiCRF(WORDS, dictionaries=LISTS, **SHORT), words),
    "cascade": (
        lambda: cascade(CRF(f"{WORDS}\nUe:%each[0,1]\nUy:%y[0]", **SHORT), lexicon="pos"),
        layers,
    ),
    "cascade-segments": (
        lambda: cascade(SemiCRF(f"{WORDS}\nUy:%y[0]", **SHORT), passing="marginal"),
        layers,
    ),
    "memory-based": (lambda: MemoryBased(3, ["mvdm", "overlap", "numeric"], n_jobs=1), rows),
    "memory": (lambda: MemoryTagger(2, "jeffrey", template=TAGS, n_jobs=1), tagged),
    "memory-dicts": (lambda: MemoryTagger(ngram=1, n_jobs=1), dicts),
    "memory-igtree": (lambda: MemoryTagger(algorithm="igtree", n_jobs=1), words),
}


def trained(name):
    """A trained model of this name; perceptrons are calibrated on development data."""
    untrained, data = MODELS[name]
    options = {"dev": data(2, N)} if name == "perceptron" else {}
    return untrained().fit(*data(0, N), **options)


def asked(name):
    """What the model of this name is asked about."""
    return MODELS[name][1](1, ASKED)[0]


def predicted(model, X):
    """What a model predicts, as JSON has it."""
    answers = model.predict(X)
    return answers.tolist() if isinstance(answers, np.ndarray) else answers


def write(folder):
    """The files of all models, and what they predict, into a folder."""
    answers = {}
    for name in MODELS:
        model = trained(name)
        model.save(folder / f"{name}.model")
        answers[name] = predicted(model, asked(name))
    lines = [f" {json.dumps(name)}: {json.dumps(labels)}" for name, labels in answers.items()]
    (folder / "predicted.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
