"""What a user should be told about a model and its data: each check returns one line, or None."""

import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from labelwright.corpus.schemes import broken_pairs, detect_scheme, pairs_of_codes
from labelwright.corpus.table import Corpus

FEW_HELD_OUT = 30  # sentences that a calibration needs
LONG = 5  # tokens of a sentence that hardly occurs twice by chance
HASH = re.compile("[0-9a-f]{8}")
SAMPLE = 400  # such sentences of the training data that a model remembers, by their hashes


def scheme_differs(model: Any, corpus: Corpus, label: str | None = None) -> str | None:
    """Whether the labels of a file (its label column, or this one) follow another scheme than the model's answers."""
    name = label or corpus.label
    if name is None or model.scheme_ is None:
        return None
    values = corpus.values(name)
    pairs = pairs_of_codes(values, corpus.codes(name), corpus.offsets)
    if set(values) <= set(model.classes_) and not broken_pairs(pairs, model.scheme_):
        return None
    scheme = detect_scheme(values, pairs=pairs)
    if scheme in (None, model.scheme_):
        return None
    return (
        f"{corpus.source}: column {name} has labels in {scheme}, but the model predicts labels in {model.scheme_}, the "
        f"scheme of its training data; labelwright convert --to-scheme rewrites them"
    )


def unknown_share(model: Any, corpus: Corpus) -> float | None:
    """The share of tokens whose word (the first column) is not in the training data; None where features do not
    tell."""
    name = corpus.input_names[0]
    known = model.knows(corpus.values(name))
    if known is None or not corpus.n_tokens:
        return None
    return 1.0 - float(np.array(known, np.bool_)[corpus.codes(name)].mean())


def nothing_known(model: Any, corpus: Corpus) -> str | None:
    """Whether a tagger knows none of the words of the sentences to label."""
    if unknown_share(model, corpus) != 1.0:
        return None
    name = corpus.input_names[0]
    first = corpus.values(name)[int(corpus.codes(name)[0])]
    return (
        f"{corpus.source}: no value of column {name} is known to the model (the first is {first!r:.40}); "
        "check the order of the columns, the tokenisation and the language"
    )


def few_features(model: Any) -> str | None:
    """Whether min_count has left a model with fewer features than labels."""
    least, n = model.get_params(deep=False).get("min_count", 1), model.training_.get("features")
    if n is None or least <= 1 or n >= len(model.classes_):
        return None
    L = len(model.classes_)
    features = "1 feature occurs" if n == 1 else f"{n} features occur"
    return f"only {features} {least} times or more in the training data, for {L} labels; lower --min-count"


def few_held_out(calibration: Mapping[str, Any]) -> str | None:
    """Whether a calibration (its record) is fitted on too few sentences to be trusted."""
    n = calibration["sentences"]
    if n >= FEW_HELD_OUT:
        return None
    sentences = "1 sentence" if n == 1 else f"{n} sentences"
    return f"the calibration rests on {sentences}, and others may give quite another one; use {FEW_HELD_OUT} or more"


def hashes_of(corpus: Corpus) -> list[str]:
    """The hashes of the words (the first column) of all long sentences, in order, each once."""
    sentences = {"\t".join(words) for words in corpus.column(corpus.input_names[0]) if len(words) >= LONG}
    return sorted({blake2b(text.encode(errors="replace"), digest_size=4).hexdigest() for text in sentences})


def sample_of(corpus: Corpus, before: str = "") -> str:
    """What a model remembers of its training data, and of those before: the lowest hashes of their sentences."""
    return "".join(sorted({*HASH.findall(before), *hashes_of(corpus)})[:SAMPLE])


def trained_on(seen: str, corpus: Corpus) -> str | None:
    """Whether more than a fifth of a file is training data, by the hashes of these, or by the lowest of them."""
    known = HASH.findall(seen)
    asked = [each for each in hashes_of(corpus) if len(known) < SAMPLE or each <= known[-1]]
    shared = len(set(known).intersection(asked))
    if shared < 3 or shared <= len(asked) / 5:
        return None
    share = f"about {100 * shared / len(asked):.0f} % of its sentences of {LONG} tokens or more"
    return f"{corpus.source}: {share} are in the training data; scores on these say nothing about new text"
