"""One small trained model of every kind, with every part that a model file may hold.

Those of small_models, and further ones: order 2, latent states, calibrated, compressed and pruned
models, dictionaries, clusters, vectors, numbers and text, cascades of several kinds, lattices, and
models of other programs.
"""

import io
from pathlib import Path

import numpy as np
import small_models
from lattices import random_lattices
from small_models import LISTS, SHORT, TAGS, TEMPLATE, WORDS, dicts, layers, rows, tagged, words

import labelwright
from labelwright import (
    CRF,
    Cascade,
    FeatureLattice,
    LatentCRF,
    LatentPerceptron,
    LatticeCRF,
    LatticeTagger,
    MemoryBased,
    MemoryTagger,
    SemiCRF,
)
from labelwright.interchange import formats
from labelwright.taggers.linear import with_arrays

N = small_models.N
DATA = Path(__file__).parent.parent / "data"
BROWN = {
    "brown": {"the": "0010", "a": "0011", "of": "010", "in": "011", "Mary": "1101", "London": "111"}
}
VECTORS = {"the": [0.5, -1.0, 0.0], "in": [0.25, 2.0, 1.0], "Mary": [1.5, 0.0, -0.5]}
SOURCES = (
    "U1:%x[0,0]\nU2:%d[0,people]/%d[-1,places]\nU3:%c[0,brown,2]\nU4:%c[1,brown]\nUv:%v[0]\n"
    "Uw:%v[-1]\nB"
)
READERS = (
    'U1:%m[0,0,"^\\u."]\nU2:%t[0,0,"\\d"]\nU3:%M[-1,0,".s$"]\nU4:%prefix[0,0,2]/%lower[1,0]\n'
    "U5:%each[@1,0]\n"
    'U6:%x[@-1,0]\nU7\nU8:%short_shape[0,0]\n*9:%byte_match[0,0,".e"]/%byte_test[0,0,"a"]\n'
    "B1:%X[-2,0]"
)
NUMERIC = "U1:%x[0,0]\nU2:%n[0,1]\nU3:%n[-1,1]\nU4:%a[0]\nU5:%a[1]\nB"
ABOVE = f"{WORDS}\nUy:%log_y[0]\nBy:%y[-1]/%y[0]"
TYPES = sorted({label[2:] for labels in words(0, N)[1] for label in labels if label != "O"})
SOURCED = {"dictionaries": LISTS, "clusters": BROWN}


# -- data: (X, y) of so many sentences -------------------------------------------------------------


def short_words(seed, n):
    X, y = words(seed, n)
    return [x[:8] for x in X], [labels[:8] for labels in y]


def numbered_labels(seed, n):
    X, y = words(seed, n)
    return X, [[len(label) for label in labels] for labels in y]


def with_lengths(seed, n):
    X, y = words(seed, n)
    return [[(word, str(len(word))) for word in x] for x in X], y


def with_rows(seed, n):
    """The same, with an array of two numbers for each token."""
    X, y = with_lengths(seed, n)
    return with_arrays(
        X, [np.array([[len(word), word.istitle()] for word, _ in x], np.float32) for x in X], y
    ), None


def segments(sentence):
    """The lattice of all segments of up to eight words, as a chunk of every type, or outside of all
    chunks."""
    # a made file may say that it reads several columns
    n, sentence = len(sentence), list(map(str, sentence))
    ends = [(a, b) for a in range(n) for b in range(a + 1, min(n, a + 8) + 1)]
    kinds = [(a, b, kind, [" ".join(sentence[a:b])]) for a, b in ends for kind in TYPES]
    return FeatureLattice([*kinds, *((a, a + 1, "O", [sentence[a]]) for a in range(n))])


def lattices(seed, n):
    return random_lattices(n, seed)


def dict_layers(seed, n):
    return dicts(seed, n)[0], layers(seed, n)[1]


def three_layers(seed, n):
    X, y = layers(seed, n)
    return X, {"pos": y["pos"], "chunk": words(seed, n, "chunk")[1], "entity": y["entity"]}


# -- models: what makes the untrained one, its data, what is done after training -------------------


def cascade(*upper, lowest=None, **settings):
    lowest = CRF(WORDS, **SHORT) if lowest is None else lowest
    return Cascade([("pos", lowest), *upper], n_jobs=1, max_iter=3, **settings)


def smaller(prune=0.0, bits=32):
    return lambda model, data: model.compressed(prune, bits)


def calibrated(model, data):
    return model.calibrate(*data(2, 150), method="isotonic")


def reading_text(**tokenizer):
    def remember(model, data):
        model._remember_input(["word", "entity"], "entity")
        model.training_ |= {"tokenizer": tokenizer}
        return model

    return remember


FURTHER = {
    "crf-sources": (lambda: CRF(SOURCES, vectors=VECTORS, **SOURCED, **SHORT), words),
    "crf-readers": (lambda: CRF(READERS, **SHORT), words),
    "crf-numeric": (lambda: CRF(NUMERIC, **SHORT), with_rows),
    "crf-number-labels": (lambda: CRF(WORDS, **SHORT), numbered_labels),
    "crf-forbidden": (lambda: CRF(TAGS, forbidden_transitions=[("B-NP", "O")], **SHORT), tagged),
    "crf-calibrated": (lambda: CRF(TAGS, **SHORT), tagged, calibrated),
    "crf-text": (
        lambda: CRF(WORDS, **SHORT),
        words,
        reading_text(pattern=r"\w+|\S", sentences="lines"),
    ),
    "crf-letters": (
        lambda: CRF(WORDS, **SHORT),
        words,
        reading_text(characters=True, sentences="none"),
    ),
    "crf-treebank": (lambda: CRF(WORDS, **SHORT), words, reading_text(name="ptb")),
    "crf-8-bits": (lambda: CRF(TEMPLATE, **SHORT), words, smaller(0.01, 8)),
    "crf-16-bits": (
        lambda: CRF(SOURCES, vectors=VECTORS, **SOURCED, **SHORT),
        words,
        smaller(bits=16),
    ),
    "crf-pruned": (lambda: CRF(WORDS[:-2], prune_labels=0.9, **SHORT), words),
    "latent-crf-order2": (
        lambda: LatentCRF(2, WORDS, order=2, random_state=0, n_jobs=1, max_iter=3),
        short_words,
    ),
    "latent-perceptron-8-bits": (
        lambda: LatentPerceptron(2, TEMPLATE, max_iter=3, random_state=0, n_jobs=1),
        words,
        smaller(bits=8),
    ),
    "semi-crf-16-bits": (
        lambda: SemiCRF("U:%c[0,brown]\nU:%x[0,0]", clusters=BROWN, **SHORT),
        words,
        smaller(bits=16),
    ),
    "cascade-memory": (
        lambda: cascade(
            ("chunk", MemoryTagger(n_jobs=1)), ("entity", CRF(WORDS, **SHORT)), passing="marginal"
        ),
        three_layers,
    ),
    "cascade-latent": (
        lambda: cascade(("entity", LatentCRF(2, ABOVE, random_state=0, **SHORT))),
        layers,
        smaller(bits=16),
    ),
    "cascade-dicts": (lambda: cascade(("entity", CRF(**SHORT)), lowest=CRF(**SHORT)), dict_layers),
    "memory-numeric": (
        lambda: MemoryTagger(
            3, ["overlap", "numeric"], votes="inverse-linear", template="U:%x[0,0]\nU:%n[0,1]"
        ),
        with_lengths,
    ),
    "memory-sources": (
        lambda: MemoryTagger(
            2,
            "mvdm",
            votes="exponential-decay",
            template="U:%x[0,0]\nU:%c[0,brown]\nU:%d[0,people]",
            **SOURCED,
            class_weight={"O": 0.5},
        ),
        words,
    ),
    "memory-calibrated": (lambda: MemoryTagger(template=TAGS, n_jobs=1), tagged, calibrated),
    "memory-based-igtree": (lambda: MemoryBased(algorithm="igtree", n_jobs=1), rows),
    "lattice-tagger": (lambda: LatticeTagger(segments, n_jobs=1, max_iter=3), words),
    "lattice-crf": (lambda: LatticeCRF(n_jobs=1, max_iter=5), lattices),
}

MODELS = small_models.MODELS | FURTHER
OTHER_PROGRAMS = {"crfsuite": dicts, "crfpp": tagged, "wapiti": tagged}
NAMES = (*MODELS, *OTHER_PROGRAMS)


def trained(name):
    """A trained model of this name."""
    if name in small_models.MODELS:
        return small_models.trained(name)
    untrained, data, *after = FURTHER[name]
    model = untrained().fit(*data(0, N))
    for step in after:
        model = step(model, data)
    return model


def loaded(source):
    """A model from a file, with the function of lattices that no file holds."""
    model = labelwright.load(source)
    if isinstance(model, LatticeTagger):
        model.lattices = segments
    return model


def data_of(name):
    """The function that makes (X, y) for the model of this name, of a seed and so many
    sentences."""
    return OTHER_PROGRAMS[name] if name in OTHER_PROGRAMS else MODELS[name][1]


def content(name):
    """The bytes of the model file of this name."""
    if name in ("crfpp", "wapiti"):
        return (DATA / name / "model.txt").read_bytes()
    file = io.BytesIO()
    if name == "crfsuite":
        formats.save(trained("crf-dicts"), file)
    else:
        trained(name).save(file)
    return file.getvalue()
