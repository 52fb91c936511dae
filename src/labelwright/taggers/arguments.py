"""What callers give a tagger: sentences, true labels, known labels, constraints and texts."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelwright.corpus.partial_labels import check_known
from labelwright.corpus.schemes import SAME_AS, SCHEMES
from labelwright.corpus.spans import Span
from labelwright.corpus.table import Corpus, in_lists
from labelwright.corpus.tabular import table_rows
from labelwright.corpus.tokenizer import Entity, SplitTexts, split_texts
from labelwright.decode.record import MOST, check_whole
from labelwright.errors import CorpusError, OptionError
from labelwright.structures.passing import Layered

if TYPE_CHECKING:
    from labelwright.corpus.tokenizer import Tokenizer

Array = NDArray[Any]
R = TypeVar("R")

Forced = Sequence[Sequence[str | Sequence[str] | None]]
Constraints = Any  # None, a label scheme, or rules of labelwright.constraints: one, a list, functions of the sentence


def permitted_labels(forced: Forced | None, offsets: Array, labels: Sequence[str]) -> Array | None:
    """Which labels [T, L] the forced ones leave to each token."""
    if forced is None:
        return None
    if not isinstance(forced, Sized) or not all(isinstance(known, Sized) for known in forced):
        raise OptionError(f"forced: expected a list of labels for each sentence, got {forced!r:.40}")
    if len(forced) != len(offsets) - 1:
        raise OptionError(f"forced: expected one list for each of {len(offsets) - 1} sentences, got {len(forced)}")
    index = {label: i for i, label in enumerate(labels)}
    permitted = np.ones((int(offsets[-1]), len(index)), np.bool_)
    for n, (known, (a, b)) in enumerate(zip(forced, pairwise(offsets.tolist()), strict=True)):
        if len(known) != b - a:
            raise OptionError(
                f"forced: sentence {n} has {b - a} tokens, got {len(known)} entries; use None for free ones"
            )
        for t, wanted in enumerate(known):
            if wanted is None:
                continue
            choice = list(wanted) if isinstance(wanted, Iterable) and not isinstance(wanted, str) else [wanted]
            for label in choice:
                if label not in index:
                    raise OptionError(f"forced: sentence {n}, token {t}: no label {label!r} in this model")
            permitted[a + t] = False
            permitted[a + t, [index[label] for label in choice]] = True
    return permitted


def check_one_each(given: Any, name: str, n: int) -> None:
    """Refuse what does not hold something for each of n sentences."""
    got = len(given) if isinstance(given, Sized) else f"{given!r:.40}"
    if got != n:
        if name == "y" and isinstance(given, Sized):
            raise CorpusError(f"y: {got} sentences, but X has {n}")
        raise OptionError(f"{name}: expected one list for each of {n} sentences, got {got}")


def scheme_named(constraints: str, of_labels: str | None) -> str:
    """The label scheme that `constraints` names: "scheme" stands for the one that the labels follow."""
    if constraints != "scheme":
        name = SAME_AS.get(constraints.lower(), constraints.lower())
        if name not in SCHEMES:
            raise OptionError(f"constraints: expected 'scheme' or one of {', '.join(SCHEMES)}, got {constraints!r}")
        return name
    if of_labels is None:
        raise OptionError("constraints='scheme': the labels follow no chunk scheme (B-X, I-X, O, ...)")
    return of_labels


def rules_among(constraints: Constraints) -> tuple[str | None, list[Any]]:
    """The label scheme and the rules that constraints name."""
    if constraints is None or isinstance(constraints, str):
        return constraints, []
    from labelwright.rules.rules import split_constraints

    return split_constraints(constraints)


def in_batches(X: Any, batch_size: int, answer: Callable[[list[Any]], Iterable[R]]) -> Iterator[R]:
    """The answers about sentences, which are read `batch_size` at a time."""
    check_whole("batch_size", batch_size, 1, MOST)
    return _batch_by_batch(iter(X.X if isinstance(X, Corpus) else X), batch_size, answer)


def _batch_by_batch(
    sentences: Iterator[Any], batch_size: int, answer: Callable[[list[Any]], Iterable[R]]
) -> Iterator[R]:
    begin = 0
    while batch := list(itertools.islice(sentences, batch_size)):
        try:
            yield from answer(batch)
        except CorpusError as error:  # counts from the first of the batch
            counted = re.sub(r"\bsentence (\d+)", lambda n: f"sentence {begin + int(n[1])}", str(error), count=1)  # noqa: B023
            raise CorpusError(counted) from None
        begin += len(batch)


def rule_sentences(X: Any) -> Sequence[Any] | None:
    """The sentences that rules may look at; None where they are encoded."""
    if isinstance(X, Layered):
        return rule_sentences(X.X)
    if isinstance(X, Corpus):
        return X.X
    return [table_rows(sentence, None, "X") for sentence in X] if isinstance(X, Sequence) else None


def one_sentence(x: Any, kind: str) -> Any:
    """One sentence as a list of sentences, or a corpus of one."""
    if isinstance(x, Corpus):
        if len(x) != 1:
            raise OptionError(f"x: expected one sentence, got a corpus of {len(x)}; use corpus.take(slice(n, n + 1))")
        return x
    if isinstance(x, str) or not isinstance(x, Iterable):
        raise OptionError(f"x: expected a sentence, a list of tokens, got {type(x).__name__}")
    x = x if hasattr(x, "__len__") else list(x)
    if kind == "columns" and isinstance(x, list | tuple) and any(isinstance(token, list) for token in x):
        raise OptionError("x: expected one sentence, got a list of sentences; explain them one by one")
    return [x]


def shown_words(X: Any) -> list[str | None]:
    """The words of the one sentence of X; None where tokens are dicts or arrays."""
    sentence = (rule_sentences(X) or [[]])[0]
    words = [token[0] if isinstance(token, tuple) and token else token for token in sentence]
    return [word if isinstance(word, str) else None for word in words]


def true_labels(
    asker: str, X: Any, y: Sequence[Sequence[str]] | None, complete: bool = True
) -> Sequence[Sequence[str]]:
    """The true labels: given, or those of a corpus; `complete`: none may be open."""
    gold: Sequence[Sequence[str]] | None = X.y if y is None and isinstance(X, Corpus) else in_lists(y)
    if gold is None:
        raise OptionError(f"{asker}: give the true labels y")
    if not hasattr(gold, "__len__"):
        raise OptionError(f"{asker}: expected the true labels y of all sentences, got {type(gold).__name__}")
    if complete:
        check_known(gold, asker)
    return gold


# -- text in, entities out: what a tagger that reads words says about running text ------------------------------------


def entities_in(
    model: Any, texts: Iterable[str], tokenizer: "Tokenizer | None" = None
) -> dict[str, list[list[Entity]]]:
    """The entities of each text by every output of a model, with probabilities or (calibrated) confidences."""
    if isinstance(texts, str):
        raise OptionError("texts: got one string, expected a list of texts")
    split = split_for(model, texts, tokenizer)
    if not split.texts:
        return {name: [] for name in model._outputs}
    return {name: split.entities(spans) for name, spans in spans_in(model, split.words).items()}


def spans_in(model: Any, sentences: list[list[str]]) -> dict[str, list[list[Span]]]:
    """The spans of sentences by every output of a model, with probabilities or (calibrated) confidences."""

    def question(name: str, tagger: Any, batch: Any) -> list[list[Span]]:
        decoded = batch.decode(tagger._checked_decoder(None), probabilities=False)
        entities: list[list[Span]] = batch.entities([decoding.labels for decoding in decoded])
        return entities

    answers: dict[str, list[list[Span]]] = model._ask_outputs(sentences, question)
    return answers


def split_for(model: Any, texts: Iterable[str], tokenizer: "Tokenizer | None" = None) -> SplitTexts:
    """Texts as the sentences that a model reads."""
    check_reads_words(model)
    return split_texts(texts, model.tokenizer() if tokenizer is None else tokenizer.check())


def check_reads_words(model: Any) -> None:
    """Refuse text for a model that reads more than words."""
    schema = model.reads()
    if schema.kind != "columns":
        raise OptionError(f"text: the model reads {schema.kind}, not words; train one on words")
    if len(schema.columns) > 1:
        names = ",".join(schema.columns)
        raise OptionError(
            f"text: the model reads {len(schema.columns)} columns ({names}), and text has words alone; train on words "
            "and labels alone, or a cascade that predicts the other columns"
        )
