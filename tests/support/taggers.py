"""One small tagger of every kind, with the few sentences that it learns from and the questions it
can be asked."""

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from sklearn.tree import DecisionTreeClassifier

from labelwright import CRF, Cascade, FeatureLattice, LatticeTagger, NgramTagger, Span
from labelwright.corpus import builtin_corpus
from labelwright.taggers.registry import model_class

CORPUS = builtin_corpus(24, random_state=5, columns=["word", "pos", "chunk"])
SENTENCES, POS, CHUNKS = CORPUS.column("word"), CORPUS.column("pos"), CORPUS.column("chunk")
NEW = [SENTENCES[0], ["Unseen", "words", "only"], SENTENCES[3][:1], SENTENCES[7]]
TYPES = sorted({label[2:] for labels in CHUNKS for label in labels} - {""})
LOWER, UPPER = "U:%x[0,0]\nB", "U:%x[0,0]\nU:%y[0]\nB"

# Settings that make any tagger quick, where it has them.
QUICK = {"max_iter": 4, "n_jobs": 1, "random_state": 0}


def make_cascade() -> Cascade:
    return Cascade(
        [("pos", CRF(LOWER, max_iter=4)), ("chunk", CRF(UPPER, max_iter=4))], passing="marginal"
    )


def make_ngram() -> NgramTagger:
    return NgramTagger(DecisionTreeClassifier(random_state=0))


def chunk_lattice(sentence: Any) -> FeatureLattice:
    """Every chunk of up to four tokens, and every token outside of all."""
    words, arcs = [token if isinstance(token, str) else token[0] for token in sentence], list[Any]()
    for a, word in enumerate(words):
        arcs.append((a, a + 1, "O", [f"word={word}"]))
        for b in range(a + 1, min(len(words), a + 4) + 1):
            features = [f"first={word}", f"last={words[b - 1]}", f"length={b - a}"]
            arcs += [(a, b, kind, features) for kind in TYPES]
    return FeatureLattice(arcs)


def make_lattice() -> LatticeTagger:
    return LatticeTagger(chunk_lattice)


# Taggers whose constructor needs something.
MAKERS: dict[str, Callable[[], Any]] = {
    "cascade": make_cascade,
    "ngram": make_ngram,
    "lattice": make_lattice,
}


def small_tagger(name: str) -> Any:
    """An untrained tagger of the registry that trains in no time."""
    tagger = MAKERS.get(name, lambda: model_class(name)())()
    return tagger.set_params(
        **{key: value for key, value in QUICK.items() if key in tagger.get_params(deep=False)}
    )


class Case:
    """A kind of tagger, by name or by what makes one, with its data."""

    def __init__(self, name: str, make: Callable[[], Any] | None = None):
        self.name = name
        self.make = make or (lambda: small_tagger(name))
        self.X = SENTENCES
        self.y: Any = {"pos": POS, "chunk": CHUNKS} if name == "cascade" else CHUNKS

    @cached_property
    def trained(self) -> Any:
        """Trained once: not to be changed."""
        return self.make().fit(self.X, self.y)

    @cached_property
    def can(self) -> frozenset[str]:
        """What the tagger says it can do."""
        return capabilities(self.trained)


def capabilities(tagger: Any) -> frozenset[str]:
    """What a tagger declares, or what its methods show where it declares nothing."""
    if hasattr(tagger, "can"):
        return frozenset(tagger.can)
    signs = {
        "n-best": hasattr(tagger, "predict_nbest"),
        "probability": hasattr(tagger, "predict_marginals")
        and getattr(tagger, "_probabilistic", True),
        "confidence": hasattr(tagger, "predict_confidences"),
        "forced": "forced" in inspect.signature(tagger.decode).parameters,
        "neighbours": hasattr(tagger, "neighbours"),
    }
    return frozenset(name for name, present in signs.items() if present)


def layers(answer: Any) -> dict[str, Any]:
    """An answer by layer; a tagger that is no cascade has one layer without a name."""
    return dict(answer) if isinstance(answer, Mapping) else {"": answer}


def first_spans(X: list[Any]) -> list[list[Span]]:
    """A span of one token in every sentence that has one."""
    return [[Span(0, 1, "NP")] if len(sentence) else [] for sentence in X]


def layered(explained: list[Any]) -> Any:
    """Explanations of sentences by layer, as other answers are."""
    if not explained or not isinstance(explained[0], Mapping):
        return explained
    return {name: [answer[name] for answer in explained] for name in explained[0]}


def given(tagger: Any, about: Any) -> Any:
    """What a question is about; of a cascade, in its upper layer."""
    return {"chunk": about} if isinstance(tagger, Cascade) else about


# Every public question: what a tagger must be able to do for it, and how it is asked about
# sentences.
QUESTIONS: dict[str, tuple[str | None, Callable[[Any, Any, list[Any]], Any]]] = {
    "predict": (None, lambda tagger, data, X: tagger.predict(data)),
    "decode": (None, lambda tagger, data, X: tagger.decode(data)),
    "predict_spans": (None, lambda tagger, data, X: tagger.predict_spans(data)),
    "predict_nbest": ("n-best", lambda tagger, data, X: tagger.predict_nbest(data, n=3)),
    "predict_marginals": ("probability", lambda tagger, data, X: tagger.predict_marginals(data)),
    "span_probabilities": (
        "probability",
        lambda tagger, data, X: tagger.span_probabilities(data, given(tagger, first_spans(X))),
    ),
    "sequence_log_probabilities": (
        "probability",
        lambda tagger, data, X: tagger.sequence_log_probabilities(
            data, given(tagger, [["O"] * len(x) for x in X])
        ),
    ),
    "sample": ("probability", lambda tagger, data, X: tagger.sample(data, 3, random_state=1)),
    # of tokens: not of encoded data
    "neighbours": ("neighbours", lambda tagger, data, X: tagger.neighbours(X)),
    "explain": ("explanation", lambda tagger, data, X: layered([tagger.explain(x) for x in X])),
}


def ask(tagger: Any, question: str, X: list[Any], data: Any = None) -> Any:
    """The answer to a question about sentences X, or about the same sentences encoded."""
    return QUESTIONS[question][1](tagger, X if data is None else data, X)


def answered(case: Case) -> list[str]:
    """The questions that a tagger answers."""
    return [
        name
        for name, (capability, _) in QUESTIONS.items()
        if hasattr(case.trained, name) and (capability is None or capability in case.can)
    ]


def answers(case: Case, tagger: Any, X: list[Any], data: Any = None) -> dict[str, Any]:
    """All answers of a tagger about sentences X."""
    return {question: ask(tagger, question, X, data) for question in answered(case)}
