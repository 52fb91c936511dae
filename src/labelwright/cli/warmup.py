"""labelwright warmup: compile every kernel once, so that no later run has to."""

import time
from typing import Any

from labelwright.cli.common import show

WORDS = [["the", "old", "dog", "barks"], ["she", "sings"], ["a", "bird", "sings", "today"]]
LABELS = [["B-NP", "I-NP", "I-NP", "O"], ["B-NP", "O"], ["B-NP", "I-NP", "O", "B-NP"]]


def command() -> None:
    """Compile all kernels (a minute or two, once per version and machine) and show where the machine code is stored."""
    begun = time.perf_counter()
    import numpy as np

    from labelwright.engine import cache, choice

    if not choice.available():
        show("nothing to compile: Numba is not installed, kernels run as NumPy; pip install 'labelwright[fast]'")
        return
    with choice.using("compiled"):
        exercise()
    from labelwright.engine.machine import fingerprint

    folder = cache.writable_folder(fingerprint())
    files = list(folder.glob("*.kernel")) if folder is not None else []
    size = int(np.sum([file.stat().st_size for file in files])) / 1e6
    show(f"{len(files)} kernels ready after {time.perf_counter() - begun:.1f} s")
    show(f"cache: {folder if folder is not None else 'no writable folder; set LABELWRIGHT_CACHE'} ({size:.1f} MB)")


def exercise() -> None:
    """Call every kernel once, on a few words, through the public interface."""
    import io

    import numpy as np

    from labelwright import SemiCRF
    from labelwright.corpus import read_columns, read_conllu
    from labelwright.evaluate import compare

    options: dict[str, Any]
    rows = [list(zip(*pair, strict=True)) for pair in zip(WORDS, LABELS, strict=True)]
    text = "\n\n".join("\n".join(" ".join(row) for row in sentence) for sentence in rows)
    corpus = read_columns(io.BytesIO(text.encode()))
    line = "\t".join(["1", "word", "word", "NOUN", *["_"] * 6])
    read_conllu(io.BytesIO(f"{line}\n\n".encode()))
    dicts = [[{"word": word, "length": float(len(word))} for word in sentence] for sentence in WORDS]
    arrays = [np.array([[len(word), 1.0] for word in sentence]) for sentence in WORDS]
    _ask_loglinear(corpus, dicts, arrays)
    _ask_scored(corpus, dicts, arrays)
    for options in ({}, {"l1": 0.1}, {"cells": "all"}):
        model = SemiCRF(max_iter=3, dictionaries={"names": ["old dog"]}, **options)
        _ask_segments(model.fit(corpus, dev=corpus), corpus)
    _ask_cascades()
    _ask_memories(corpus, dicts, arrays)
    compare(LABELS, LABELS, LABELS, samples=10)


def _ask_loglinear(corpus: Any, dicts: Any, arrays: Any) -> None:
    """CRFs of all kinds: optimisers, orders, features of arcs, constraints, and every kind of input."""
    from labelwright import CRF, LatentCRF

    kinds: tuple[Any, ...] = (CRF, LatentCRF)
    options: dict[str, Any]
    for options in (
        {},
        {"l1": 0.1},
        {"optimizer": "sgd"},
        {"template": "words-arcs"},
        {"template": "words-arcs", "l1": 0.1},
        {"template": "words-arcs", "optimizer": "sgd"},
        {"constraints": "scheme", "cells": "all"},
        {"order": 2},
        {"order": 2, "template": "U:%x[0,0]\nB:%x[0,0]\nT:%x[0,0]"},
        {"order": 2, "optimizer": "sgd"},
    ):
        for kind in kinds:
            _ask(kind(max_iter=3, **options).fit(corpus, dev=corpus), corpus)
    for X in (dicts, arrays):
        for options in ({}, {"optimizer": "sgd"}):
            for kind in kinds:
                kind(max_iter=3, **options).fit(X, LABELS).predict_marginals(X)


def _ask_scored(corpus: Any, dicts: Any, arrays: Any) -> None:
    """Perceptrons of all kinds."""
    from labelwright import LatentPerceptron, Perceptron

    options: dict[str, Any]
    for kind in (Perceptron, LatentPerceptron):
        for options in ({}, {"template": "words-arcs"}, {"order": 2}):
            _ask_by_score(kind(max_iter=2, **options).fit(corpus, dev=corpus), corpus)
        for X in (dicts, arrays):
            kind(max_iter=2).fit(X, LABELS).partial_fit(X, LABELS).predict(X)


def _ask_segments(model: Any, corpus: Any) -> None:
    """All questions that a segment model answers."""
    data = model.encode(corpus)
    model.predict_nbest(data, 2)
    model.predict_marginals(data)
    model.span_probabilities(data, model.predict_spans(data))
    model.decode(data, constraints="scheme", forced=[[None] * len(words) for words in WORDS])
    model.sequence_log_probabilities(data, LABELS)
    model.sample(data, 2)


def _ask_cascades() -> None:
    """Layers of all kinds, and every way to pass labels upwards."""
    from labelwright import CRF, Cascade, LatentCRF

    below, above = CRF(max_iter=2), LatentCRF(n_latent=2, max_iter=2)
    y = {"below": LABELS, "above": LABELS}
    for passing in ("best", "marginal", "joint", "sample", "nbest"):
        for layers in ([("below", below), ("above", above)], [("below", above), ("above", below)]):
            model = Cascade(layers, passing=passing, lexicon="below", max_iter=2).fit(WORDS, y)
            model.predict_nbest(WORDS, 2)
            model.predict_marginals(WORDS)
    arcs = CRF(template="B:%y[-1]/%y[0]\nU:%x[0,0]", order=2, max_iter=2)
    Cascade([("below", CRF(order=2, max_iter=2)), ("above", arcs)], jackknife=True, max_iter=2).fit(WORDS, y)


def _ask_memories(corpus: Any, dicts: Any, arrays: Any) -> None:
    """Memories of all kinds, and every inference."""
    from labelwright import MemoryBased, MemoryTagger

    options: dict[str, Any]
    for options in (
        {},
        {"ngram": 1, "weights": "none"},
        {"k": 3, "metric": "mvdm", "votes": "inverse-distance", "ngram": 5},
        {"k": 3, "metric": "jeffrey", "votes": "exponential-decay", "weights": "chi-squared"},
        {"algorithm": "igtree"},
    ):
        model = MemoryTagger(**options).fit(corpus)
        data = model.encode(corpus)
        for inference in ("none", "vote", "csi"):
            model.decode(data, inference)
        model.predict_nbest(data, 2)
        model.predict_oracle(data, LABELS)
        if model.algorithm == "ib1":
            model.neighbours(corpus)
    MemoryTagger(ngram=3).fit(corpus).decode(corpus, constraints="scheme")
    for X in (dicts, arrays):
        MemoryTagger().fit(X, LABELS).predict(X)
    MemoryTagger(metric="numeric").fit(arrays, LABELS).predict(arrays)
    MemoryBased().fit([["a", 1.0], ["b", 2.0]], ["one", "two"]).predict_proba([["a", 2.0]])


def _ask_by_score(model: Any, corpus: Any) -> None:
    """All questions that a model without probabilities answers."""
    data = model.encode(corpus)
    model.predict_nbest(data, 2)
    model.predict_confidences(data)
    model.span_confidences(data, model.predict_spans(data))
    model.decode(data, constraints="scheme", forced=[[None] * len(words) for words in WORDS])
    model.describe_use([corpus])
    model.partial_fit(corpus)


def _ask(model: Any, corpus: Any) -> None:
    """All questions that a model answers, by every decoder."""
    from labelwright.decode import DECODERS

    data = model.encode(corpus)
    model.predict_nbest(data, 2)
    model.predict_marginals(data)
    model.predict_spans(data)
    for decoder in DECODERS:
        model.decode(data, decoder)
    model.decode(data, "mbr", candidates="ldi")
    model.decode(data, "exact", max_expansions=0)
    model.decode(data, "marginal", constraints="scheme", forced=[[None] * len(words) for words in WORDS])
    model.sequence_log_probabilities(data, LABELS)
    model.describe_use([corpus])
    model.path_mass(corpus, 2)
    data = model.encode([["the", "old"] * 400])
    model.decode(data, "ldi", n=100)  # memory that grows, too
