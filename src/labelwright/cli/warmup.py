"""labelwright warmup: compile kernels once, so that no later run has to."""

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from labelwright.cli.options import Command, option
from labelwright.cli.show import show
from labelwright.errors import OptionError
from labelwright.settings import Choice

WORDS = [["the", "old", "dog", "barks"], ["she", "sings"], ["a", "bird", "sings", "today"]]
LABELS = [["B-NP", "I-NP", "I-NP", "O"], ["B-NP", "O"], ["B-NP", "I-NP", "O", "B-NP"]]
HELP = "Compile kernels (a minute or two, once per version and machine) and show where the machine code is stored."
OPTIONS = [
    option(
        "--cache DIR",
        "Where to store machine code, for LABELWRIGHT_CACHE to name later.",
        shown="the user's cache folder",
    ),
    option("--only tag", "tag: only what trained models need, not what training needs.", kind=Choice(["tag"])),
    option(
        "--cpu native|generic",
        "native: for this processor. generic: for every processor of its kind, somewhat slower.",
        kind=Choice(["native", "generic"]),
        default="native",
    ),
]


def _warmup(o: Any) -> None:
    from labelwright.engine import choice

    if not choice.available():
        raise OptionError(f"warmup: nothing to compile: {choice.why_not_available()}")
    begun = time.perf_counter()
    if o.cpu == "generic":
        _compile_for_all()
    if o.cache is not None:
        if not o.cache:
            raise OptionError("--cache: got nothing, expected the name of a folder")
        _use(Path(o.cache))
    with choice.using("compiled"):
        exercise(training=o.only is None)
        if not choice.may_compile():
            raise OptionError("warmup: not all kernels could be compiled")
    _show_result(time.perf_counter() - begun, o.cache)


warmup_command = Command(HELP, OPTIONS, _warmup)


def _compile_for_all() -> None:
    """Let Numba, which must not be loaded yet, use only what all processors of this kind can do."""
    if "numba" in sys.modules:
        raise OptionError("--cpu generic: Numba is loaded already; run labelwright warmup as a command")
    os.environ["NUMBA_CPU_NAME"], os.environ["NUMBA_CPU_FEATURES"] = "generic", ""


def _use(folder: Path) -> None:
    """Store machine code in this folder, which nobody else may write, but everybody may read."""
    from labelwright.engine import cache

    if os.path.exists(folder) and not os.path.isdir(folder):
        raise OptionError(f"--cache {folder}: is a file, expected the name of a folder")
    cache.make_folder(folder, cache.SHARED_FOLDER)
    why = cache.why_unsafe(folder)
    if why is not None or not os.access(folder, os.W_OK):
        raise OptionError(f"--cache {folder}: {why or 'cannot be written'}")
    os.environ["LABELWRIGHT_CACHE"] = str(folder)


def _show_result(seconds: float, named: str | None) -> None:
    from labelwright.engine import cache, machine

    show(f"kernels ready after {seconds:.1f} s")
    if not machine.OWN_CACHE:
        show("cache: Numba's own")
        return
    folder = cache.writable_folder(machine.fingerprint())
    if folder is None:
        show("cache: no folder can be written; name one with --cache")
        return
    sizes = [file.stat().st_size for file in folder.glob("*.kernel")]
    show(f"cache: {folder} ({len(sizes)} files, {sum(sizes) / 1e6:.1f} MB)")
    if named is not None:
        show(f"to use it: LABELWRIGHT_CACHE={named}")


# -- calls of every kernel ---------------------------------------------------------------------------------------------


def exercise(training: bool = True) -> None:
    """Call every kernel once, on a few words, through the public interface; without `training` only those of trained
    models."""
    from labelwright.evaluate import compare

    with tempfile.TemporaryDirectory() as folder:
        calls = _Calls(training, Path(folder, "model"))
        calls.loglinear()
        calls.scored()
        calls.segments()
        calls.cascades()
        calls.memories()
    compare(LABELS, LABELS, LABELS, samples=10)


class _Calls:
    """Trains small models and asks them, both as they are and as their files have them."""

    def __init__(self, training: bool, file: Path):
        import io

        import numpy as np

        from labelwright.corpus import read_columns, read_conllu

        self.training, self.file = training, file
        rows = [list(zip(*pair, strict=True)) for pair in zip(WORDS, LABELS, strict=True)]
        text = "\n\n".join("\n".join(" ".join(row) for row in sentence) for sentence in rows)
        self.corpus = read_columns(io.BytesIO(text.encode()))
        line = "\t".join(["1", "word", "word", "NOUN", *["_"] * 6])
        read_conllu(io.BytesIO(f"{line}\n\n".encode()))
        self.dicts = [[{"word": word, "length": float(len(word))} for word in sentence] for sentence in WORDS]
        self.arrays = [np.array([[len(word), 1.0] for word in sentence]) for sentence in WORDS]

    def _trained(self, model: Any, *data: Any, **options: Any) -> list[Any]:
        """The model, trained: as it is (only if training is asked for), and loaded from a file."""
        from labelwright import load
        from labelwright.engine import choice

        with choice.using("compiled" if self.training else "numpy"):
            model.fit(*data, **options)
        model.save(self.file)
        return [model, load(self.file)] if self.training else [load(self.file)]

    def loglinear(self) -> None:
        """CRFs of all kinds: optimisers, orders, features of arcs, constraints, and every kind of input."""
        from labelwright import CRF, LatentCRF

        kinds: tuple[Any, ...] = (CRF, LatentCRF)
        options: dict[str, Any]
        learnt: tuple[dict[str, Any], ...] = (
            {"l1": 0.1},
            {"optimizer": "sgd"},
            {"template": "words-arcs", "l1": 0.1},
            {"template": "words-arcs", "optimizer": "sgd"},
            {"order": 2, "optimizer": "sgd"},
        )
        asked: tuple[dict[str, Any], ...] = (
            {},
            {"template": "words-arcs"},
            {"constraints": "scheme", "cells": "all"},
            {"order": 2},
            {"order": 2, "template": "U:%x[0,0]\nB:%x[0,0]\nT:%x[0,0]"},
        )
        for options in asked + learnt if self.training else asked:
            for kind in kinds:
                for model in self._trained(kind(max_iter=3, **options), self.corpus, dev=self.corpus):
                    _ask(model, self.corpus)
        for pruned in (CRF(max_iter=3, prune_labels=0.9), CRF(max_iter=3, prune_labels=0.9, constraints="scheme")):
            for model in self._trained(pruned, self.corpus, dev=self.corpus):
                _ask(model, self.corpus)
        optimizers = ("lbfgs", "sgd") if self.training else ("lbfgs",)
        for X in (self.dicts, self.arrays):
            for optimizer in optimizers:
                for kind in kinds:
                    for model in self._trained(kind(max_iter=3, optimizer=optimizer), X, LABELS):
                        model.predict(X)
                        model.predict_marginals(X)

    def scored(self) -> None:
        """Perceptrons of all kinds."""
        from labelwright import LatentPerceptron, Perceptron

        options: dict[str, Any]
        for kind in (Perceptron, LatentPerceptron):
            for options in ({}, {"template": "words-arcs"}, {"order": 2}, {"batch_size": 2}):
                for model in self._trained(kind(max_iter=2, **options), self.corpus, dev=self.corpus):
                    _ask_by_score(model, self.corpus)
                    if self.training:
                        model.partial_fit(self.corpus)
            for X in (self.dicts, self.arrays):
                for model in self._trained(kind(max_iter=2), X, LABELS):
                    model.predict(X)
                    if self.training:
                        model.partial_fit(X, LABELS)

    def segments(self) -> None:
        """Models of segments."""
        from labelwright import SemiCRF

        options: dict[str, Any]
        for options in ({}, {"l1": 0.1}, {"cells": "all"}) if self.training else ({}, {"cells": "all"}):
            model = SemiCRF(max_iter=3, dictionaries={"names": ["old dog"]}, **options)
            for trained in self._trained(model, self.corpus, dev=self.corpus):
                _ask_segments(trained, self.corpus)

    def cascades(self) -> None:
        """Layers of all kinds, and every way to pass labels upwards."""
        from labelwright import CRF, Cascade, LatentCRF

        below, above = CRF(max_iter=2), LatentCRF(n_latent=2, max_iter=2)
        y = {"below": LABELS, "above": LABELS}
        for passing in ("best", "marginal", "joint", "sample", "nbest"):
            for layers in ([("below", below), ("above", above)], [("below", above), ("above", below)]):
                model = Cascade(layers, passing=passing, lexicon="below", max_iter=2)
                for trained in self._trained(model, WORDS, y):
                    trained.predict(WORDS)
                    trained.predict_nbest(WORDS, 2)
                    trained.predict_marginals(WORDS)
        if self.training:
            arcs = CRF(template="B:%y[-1]/%y[0]\nU:%x[0,0]", order=2, max_iter=2)
            model = Cascade([("below", CRF(order=2, max_iter=2)), ("above", arcs)], jackknife=True, max_iter=2)
            model.fit(WORDS, y)

    def memories(self) -> None:
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
            for model in self._trained(MemoryTagger(**options), self.corpus):
                _ask_memory(model, self.corpus)
        for model in self._trained(MemoryTagger(ngram=3), self.corpus):
            model.decode(self.corpus, constraints="scheme")
        for X in (self.dicts, self.arrays):
            for model in self._trained(MemoryTagger(), X, LABELS):
                model.predict(X)
        for model in self._trained(MemoryTagger(metric="numeric"), self.arrays, LABELS):
            model.predict(self.arrays)
        for model in self._trained(MemoryBased(), [["a", 1.0], ["b", 2.0]], ["one", "two"]):
            model.predict_proba([["a", 2.0]])


def _ask(model: Any, corpus: Any) -> None:
    """All questions that a model answers, by every decoder."""
    from labelwright.decode import DECODERS

    data = model.encode(corpus)
    model.predict(corpus.X)
    model.predict_nbest(data, 2)
    model.predict_marginals(data)
    model.predict_spans(data)
    for decoder in DECODERS:
        model.decode(data, decoder)
    model.decode(data, "mbr", candidates="ldi")
    model.decode(data, "exact", max_expansions=0)
    model.decode(data, "marginal", constraints="scheme", forced=[[None] * len(words) for words in WORDS])
    model.sequence_log_probabilities(data, LABELS)
    model._describe_use([corpus])
    model._path_mass(corpus, 2)
    data = model.encode([["the", "old"] * 400])
    model.decode(data, "ldi", n=100)  # memory that grows, too


def _ask_by_score(model: Any, corpus: Any) -> None:
    """All questions that a model without probabilities answers."""
    data = model.encode(corpus)
    model.predict_nbest(data, 2)
    model.predict_confidences(data)
    model.span_confidences(data, model.predict_spans(data))
    model.decode(data, constraints="scheme", forced=[[None] * len(words) for words in WORDS])
    model._describe_use([corpus])


def _ask_segments(model: Any, corpus: Any) -> None:
    """All questions that a segment model answers."""
    data = model.encode(corpus)
    model.predict_nbest(data, 2)
    model.predict_marginals(data)
    model.span_probabilities(data, model.predict_spans(data))
    model.decode(data, constraints="scheme", forced=[[None] * len(words) for words in WORDS])
    model.sequence_log_probabilities(data, LABELS)
    model.sample(data, 2)


def _ask_memory(model: Any, corpus: Any) -> None:
    """All questions that a memory answers."""
    data = model.encode(corpus)
    for inference in ("none", "vote", "csi"):
        model.decode(data, inference)
    model.predict_nbest(data, 2)
    model.predict_oracle(data, LABELS)
    model.calibrate(data, LABELS).predict_confidences(data)
    model.span_confidences(data, model.predict_spans(data))
    if model.algorithm == "ib1":
        model.neighbours(corpus)
