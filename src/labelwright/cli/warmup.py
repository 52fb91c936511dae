"""labelwright warmup: compile kernels once, so that no later run has to."""

import io
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from labelwright.cli.options import command, option
from labelwright.cli.show import show
from labelwright.errors import LabelwrightError, OptionError
from labelwright.settings import Choice

WORDS = [["the", "old", "dog", "barks"], ["she", "sings"], ["a", "bird", "sings", "today"]]
LABELS = [["B-NP", "I-NP", "I-NP", "O"], ["B-NP", "O"], ["B-NP", "I-NP", "O", "B-NP"]]


@command(
    option(
        "--cache DIR",
        "Where to store machine code, for LABELWRIGHT_CACHE.",
        shown="the user's cache folder",
    ),
    option(
        "--only tag",
        "tag: only what trained models need, not what training needs.",
        kind=Choice(["tag"]),
    ),
    option(
        "--cpu native|generic",
        "native: for this processor. generic: for every processor of its kind, somewhat slower.",
        kind=Choice(["native", "generic"]),
        default="native",
    ),
)
def warmup_command(o: Any) -> None:
    """Compile kernels (a minute or two, once per version and machine) and show where the machine
    code is stored."""
    from labelwright.engine import cache, choice

    if not choice.available():
        raise OptionError(f"warmup: nothing to compile: {choice.why_not_available()}")
    begun = time.perf_counter()
    if o.cpu == "generic":  # let Numba use only what all processors of this kind can do
        if "numba" in sys.modules:
            raise OptionError(
                "--cpu generic: Numba is loaded already; run labelwright warmup as a command"
            )
        os.environ["NUMBA_CPU_NAME"], os.environ["NUMBA_CPU_FEATURES"] = "generic", ""
    if o.cache is not None:  # a folder that nobody else may write, but everybody may read
        if not o.cache:
            raise OptionError("--cache: got nothing, expected the name of a folder")
        if os.path.exists(o.cache) and not os.path.isdir(o.cache):
            raise OptionError(f"--cache {o.cache}: is a file, expected the name of a folder")
        cache.make_folder(Path(o.cache), cache.SHARED_FOLDER)
        why = cache.why_unsafe(Path(o.cache))
        if why is not None or not os.access(o.cache, os.W_OK):
            raise OptionError(f"--cache {o.cache}: {why or 'cannot be written'}")
        os.environ["LABELWRIGHT_CACHE"] = o.cache
    with choice.using("compiled"):
        exercise(training=o.only is None)
    show(f"kernels ready after {time.perf_counter() - begun:.1f} s")
    _show_cache(o.cache)


def _show_cache(named: str | None) -> None:
    from labelwright.engine import cache, machine

    folder = cache.writable_folder(machine.fingerprint()) if machine.OWN_CACHE else None
    if folder is None:
        show(
            "cache: no folder can be written; name one with --cache"
            if machine.OWN_CACHE
            else "cache: Numba's own"
        )
        return
    sizes = [file.stat().st_size for file in folder.glob("*.kernel")]
    show(f"cache: {folder} ({len(sizes)} files, {sum(sizes) / 1e6:.1f} MB)")
    if named is not None:
        show(f"to use it: LABELWRIGHT_CACHE={named}")


# -- calls of every kernel -------------------------------------------------------------------------

# Settings of small models; those of LEARNT have kernels that only training needs.
ARCS, TRIPLES = {"template": "words-arcs"}, {"template": "U:%x[0,0]\nB:%x[0,0]\nT:%x[0,0]"}
SGD = {"optimizer": "sgd"}
LOGLINEAR: list[dict[str, Any]] = [
    {},
    ARCS,
    {"constraints": "scheme", "cells": "all"},
    {"order": 2},
    {"order": 2, **TRIPLES},
]
LEARNT: list[dict[str, Any]] = [
    {"l1": 0.1},
    SGD,
    {**ARCS, "l1": 0.1},
    {**ARCS, **SGD},
    {"order": 2, **SGD},
]
PRUNED: list[dict[str, Any]] = [{}, {"constraints": "scheme"}]
SCORED: list[dict[str, Any]] = [{}, ARCS, {"order": 2}, {"batch_size": 2}]
MEMORIES: list[dict[str, Any]] = [
    {},
    {"ngram": 3},
    {"ngram": 1, "weights": "none"},
    {"k": 3, "metric": "mvdm", "votes": "inverse-distance", "ngram": 5},
    {"k": 3, "metric": "jeffrey", "votes": "exponential-decay", "weights": "chi-squared"},
    {"algorithm": "igtree"},
]


def exercise(training: bool = True) -> None:
    """Call every kernel once, on a few words, through the public interface; without `training` only
    those of trained models."""
    from labelwright import load
    from labelwright.engine import choice
    from labelwright.evaluate import compare

    with tempfile.TemporaryDirectory() as folder:
        for model, X, y in _models(training):
            with choice.using("compiled" if training else "numpy"):
                options = {"dev": X} if y is None and "dev" in model._training_options else {}
                model.fit(X, y, **options)
            model.save(Path(folder, "model"))
            for each in (
                [model, load(Path(folder, "model"))] if training else [load(Path(folder, "model"))]
            ):
                _ask(each, X)
            with suppress(LabelwrightError):  # not all models can learn further
                if training:
                    getattr(model, "partial_fit", lambda *_: None)(X, y)
    compare(LABELS, LABELS, LABELS, samples=10)


def _models(training: bool) -> Iterator[tuple[Any, Any, Any]]:
    """Small models of every kind with their data: columns, feature dicts, arrays, layers, rows."""
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
    from labelwright.corpus import read_columns, read_conllu

    rows = [list(zip(*pair, strict=True)) for pair in zip(WORDS, LABELS, strict=True)]
    text = "\n\n".join("\n".join(" ".join(row) for row in sentence) for sentence in rows)
    corpus = read_columns(io.BytesIO(text.encode()))
    line = "\t".join(["1", "word", "word", "NOUN", *["_"] * 6])
    read_conllu(io.BytesIO(f"{line}\n\n".encode()))
    dicts = [
        [{"word": word, "length": float(len(word))} for word in sentence] for sentence in WORDS
    ]
    arrays: Any = [np.array([[len(word), 1.0] for word in sentence]) for sentence in WORDS]
    options: Any  # of one model after the other
    for options in LOGLINEAR + LEARNT * training:
        yield from ((kind(max_iter=3, **options), corpus, None) for kind in (CRF, LatentCRF))
    yield from ((CRF(max_iter=3, prune_labels=0.9, **options), corpus, None) for options in PRUNED)
    for options in SCORED:
        yield from (
            (kind(max_iter=2, **options), corpus, None) for kind in (Perceptron, LatentPerceptron)
        )
    for X in (dicts, arrays):
        for options in [{}, *([SGD] * training)]:
            yield from ((kind(max_iter=3, **options), X, LABELS) for kind in (CRF, LatentCRF))
        yield from ((kind(max_iter=2), X, LABELS) for kind in (Perceptron, LatentPerceptron))
        yield MemoryTagger(), X, LABELS
    for options in [{}, {"cells": "all"}, *([{"l1": 0.1}] * training)]:
        yield SemiCRF(max_iter=3, dictionaries={"names": ["old dog"]}, **options), corpus, None
    below, above = CRF(max_iter=2), LatentCRF(n_latent=2, max_iter=2)
    layers = {"below": LABELS, "above": LABELS}
    for passing in ("best", "marginal", "joint", "sample", "nbest"):
        for low, high in ((below, above), (above, below)):
            pair = [("below", low), ("above", high)]
            yield Cascade(pair, passing=passing, lexicon="below", max_iter=2), WORDS, layers
    if training:
        arcs = CRF(template="B:%y[-1]/%y[0]\nU:%x[0,0]", order=2, max_iter=2)
        pair = [("below", CRF(order=2, max_iter=2)), ("above", arcs)]
        yield Cascade(pair, jackknife=True, max_iter=2), WORDS, layers
    yield from ((MemoryTagger(**options), corpus, None) for options in MEMORIES)
    yield MemoryTagger(metric="numeric"), arrays, LABELS
    yield MemoryBased(), [["a", 1.0], ["b", 2.0]], ["one", "two"]


def _ask(model: Any, X: Any) -> None:
    """All that a model may be asked, by every decoder; what it has no answer to it refuses."""
    of_columns = hasattr(X, "names")
    data = model.encode(X) if of_columns else X
    calls: list[tuple[Any, ...]] = [
        ("predict", X),
        ("predict_nbest", data, 2),
        ("predict_marginals", data),
    ]
    calls.append(("predict_proba", X))
    if of_columns:
        forced = {"constraints": "scheme", "forced": [[None] * len(words) for words in WORDS]}
        spans = model.predict_spans(data)
        calls += [("decode", data, decoder) for decoder in model.decoders]
        calls += [
            ("decode", data, "mbr", {"candidates": "ldi"}),
            ("decode", data, "exact", {"max_expansions": 0}),
        ]
        calls += [("decode", data, forced), ("decode", data, "marginal", forced)]
        # memory that grows, too
        calls.append(("decode", model.encode([["the", "old"] * 400]), "ldi", {"n": 100}))
        calls += [
            ("sequence_log_probabilities", data, LABELS),
            ("sample", data, 2),
            ("predict_oracle", data, LABELS),
        ]
        calls += [
            ("_describe_use", [X]),
            ("_path_mass", X, 2),
            ("neighbours", X),
            ("calibrate", data, LABELS),
        ]
        calls += [
            ("predict_confidences", data),
            ("span_confidences", data, spans),
            ("span_probabilities", data, spans),
        ]
    for name, *arguments in calls:
        options = arguments.pop() if isinstance(arguments[-1], dict) else {}
        with suppress(LabelwrightError):
            getattr(model, name, lambda *_: None)(*arguments, **options)
