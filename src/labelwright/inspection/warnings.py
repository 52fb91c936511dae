"""What a user should be told about a model and its data: each check returns one line, or None."""

import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from labelwright.corpus.schemes import broken_pairs, detect_scheme, pairs_of_codes
from labelwright.corpus.table import Corpus
from labelwright.wording import counted, percent, some_of

FEW_HELD_OUT = 30  # sentences that a calibration needs
ENOUGH = 100  # tokens to judge by how many are unknown
ALIEN = 0.9  # share of unknown words that no text of the same language has
FEW = 5  # distinct values of a column that holds no words
BETTER = 0.3  # share of words that are known in another column alone, which makes it the better one
LONG = 5  # tokens of a sentence that hardly occurs twice by chance
HASH = re.compile("[0-9a-f]{8}")
SAMPLE = 400  # such sentences of the training data that a model remembers, by their hashes


def scheme_differs(model: Any, corpus: Corpus, label: str | None = None) -> str | None:
    """Whether the labels of a file (its label column, or this one) follow another scheme than the
    model's answers."""
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
        f"{corpus.source}: column {name} has labels in {scheme}, but the model predicts labels in "
        f"{model.scheme_}, the scheme of its training data; labelwright convert --to-scheme "
        "rewrites them"
    )


def labels_unseen(labels: Iterable[Any], values: Iterable[str], source: str) -> str | None:
    """Whether some of these values are no labels of the training data, neither alone nor in
    sets."""
    known = {"_", *(part for label in labels for part in (str(label), *str(label).split("|")))}
    # sets are refused elsewhere
    unseen = sorted(value for value in set(values) - known if "|" not in value)
    return (
        f"{source}: labels that the training data lack, and no model predicts: {some_of(unseen)}"
        if unseen
        else None
    )


def unknown_share(model: Any, corpus: Corpus, column: str | None = None) -> float | None:
    """The share of tokens whose word (of the first column, or another) training has not seen; None
    where unknown."""
    name = column or corpus.input_names[0]
    known = model.knows(corpus.values(name))
    if known is None or not corpus.n_tokens:
        return None
    return 1.0 - float(np.array(known, np.bool_)[corpus.codes(name)].mean())


def words_unknown(model: Any, corpus: Corpus) -> str | None:
    """Whether a tagger knows too few of the words to label, perhaps since they are in another
    column."""
    name, *others = corpus.input_names
    share = unknown_share(model, corpus)
    if share is None or (corpus.n_tokens < ENOUGH and share < 1.0):
        return None
    at_most = (
        max(share, _unknown_words(model, corpus, name)) if corpus.n_tokens >= ENOUGH else share
    )
    candidates = others if at_most > BETTER else []
    better = [each for each in candidates if _unknown_words(model, corpus, each) < at_most - BETTER]
    if not better and share < ALIEN:
        return None
    first = f"column {name}, first {corpus.values(name)[int(corpus.codes(name)[0])]!r:.40}"
    what = f"{percent(share)} of the words ({first}) were never seen in training"
    mend = "check the order of the columns, the tokenisation and the language"
    if better:
        what = what if share > BETTER else f"hardly any words ({first})"
        mend = (
            f"column {better[0]} fits better; if the order is not {','.join(corpus.input_names)}, "
            "add --columns"
        )
    return f"{corpus.source}: {what}; {mend}"


def _unknown_words(model: Any, corpus: Corpus, column: str) -> float:
    """The share of words of a column that training has not seen; a few values, such as _
    everywhere, are no words."""
    share = (
        unknown_share(model, corpus, column)
        if np.unique(corpus.codes(column)).size >= FEW
        else None
    )
    return 1.0 if share is None else share


def few_features(model: Any) -> str | None:
    """Whether min_count has left a model with fewer features than labels."""
    least, n = model.get_params(deep=False).get("min_count", 1), model.training_.get("features")
    if n is None or least <= 1 or n >= len(model.classes_):
        return None
    L = len(model.classes_)
    features = "1 feature occurs" if n == 1 else f"{n} features occur"
    return (
        f"only {features} {least} times or more in the training data, for {L} labels; lower "
        "--min-count"
    )


def few_held_out(calibration: Mapping[str, Any]) -> str | None:
    """Whether a calibration (its record) is fitted on too few sentences to be trusted."""
    n = calibration["sentences"]
    if n >= FEW_HELD_OUT:
        return None
    sentences = counted(n, "sentence")
    return (
        f"the calibration rests on {sentences}, and others may give quite another one; use "
        f"{FEW_HELD_OUT} or more"
    )


def hashes_of(corpus: Corpus) -> list[str]:
    """The hashes of the words (the first column) of all long sentences, in order, each once."""
    sentences = {
        "\t".join(words) for words in corpus.column(corpus.input_names[0]) if len(words) >= LONG
    }
    return sorted(
        {blake2b(text.encode(errors="replace"), digest_size=4).hexdigest() for text in sentences}
    )


def sample_of(corpus: Corpus, before: str = "") -> str:
    """What a model remembers of its training data, and of those before: the lowest hashes of their
    sentences."""
    return "".join(sorted({*HASH.findall(before), *hashes_of(corpus)})[:SAMPLE])


def trained_on(seen: str, corpus: Corpus) -> str | None:
    """Whether more than a fifth of a file is training data, by the hashes of these, or by the
    lowest of them."""
    known = HASH.findall(seen)
    asked = [each for each in hashes_of(corpus) if len(known) < SAMPLE or each <= known[-1]]
    shared = len(set(known).intersection(asked))
    if shared < 3 or shared <= len(asked) / 5:
        return None
    share = f"about {100 * shared / len(asked):.0f} % of its sentences of {LONG} tokens or more"
    return (
        f"{corpus.source}: {share} are in the training data; scores on these say nothing about new "
        "text"
    )
