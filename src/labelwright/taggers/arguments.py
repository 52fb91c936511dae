"""What callers give a tagger: sentences and their labels, weights, transitions, known labels,
constraints and texts."""

import hashlib
import itertools
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from labelwright.answers.batch import Batch
from labelwright.corpus.partial_labels import LabelCodes, check_known, label_codes
from labelwright.corpus.schemes import SAME_AS, SCHEMES, allowed
from labelwright.corpus.spans import Span
from labelwright.corpus.table import Corpus, checked_sentences, in_lists, intern_labels
from labelwright.corpus.tabular import table_rows
from labelwright.corpus.token_records import listed
from labelwright.corpus.tokenizer import Entity, SplitTexts, split_texts
from labelwright.decode.record import MOST, check_whole
from labelwright.errors import CorpusError, LabelwrightError, OptionError
from labelwright.evaluate.errors import words_of
from labelwright.features.extract import Encoded, collected, kind_of
from labelwright.features.incidence import Incidence
from labelwright.pages import Html, marked, marked_words, tag
from labelwright.settings import NOT_NEGATIVE
from labelwright.structures.passing import Layered
from labelwright.structures.states import StateSpace
from labelwright.structures.supervision import PLAIN, Supervision
from labelwright.wording import like_label, some_of

if TYPE_CHECKING:
    from labelwright.corpus.tokenizer import Tokenizer

Array = NDArray[Any]
R = TypeVar("R")
E = TypeVar("E")
OUTSIDE = "O"
BALANCED = "balanced"

Forced = Sequence[Sequence[str | Sequence[str] | None]]
Known = Forced | None
Question = Callable[[Batch], list[R]]  # about sentences that were scored together
# None, a label scheme, or rules of labelwright.constraints: one, a list, functions of the sentence
Constraints = Any


class Data(NamedTuple):
    """The training data as integers."""

    incidences: dict[str, Incidence]
    offsets: Array  # [N+1]
    # [T]  labels, or sets of labels (structures.supervision); of segments [rows] their types, or -1
    gold: Array
    said: Supervision = PLAIN
    # what a structure needs beside that: candidates of tokens, or the labels of segments
    more: Any = None

    @property
    def sizes(self) -> dict[str, int]:
        """What the record of training says of their size."""
        return {"sentences": len(self.offsets) - 1, "tokens": int(self.offsets[-1])}

    @property
    def arrays(self) -> list[Array]:
        """All numbers."""
        said = [given for given in self.said if given is not None]
        return [self.offsets, self.gold, *(a for x in self.incidences.values() for a in x), *said]


# -- labels ----------------------------------------------------------------------------------------


def on_workers(X: Any, client: Any, **unused: Any) -> Any:
    """Training data on the workers of a client, as a context; what only data on one machine can
    have is refused."""
    if not hasattr(X, "on"):
        raise OptionError(
            f"client: expected labelwright.scale.Partitions, got {type(X).__name__}; fit it "
            "without one"
        )
    for name, value in unused.items():
        if value is not None:
            raise OptionError(f"{name}: not for data on a cluster; leave it out")
    return X.on(client)


def no_labels(corpus: Corpus) -> CorpusError:
    """What to say of a corpus to learn from that has no labels."""
    named = f"name one of {', '.join(corpus.names)} as the label"
    mend = named if len(corpus.names) > 1 else "give it one behind its only column"
    return CorpusError(f"{corpus.source}: has no label column; {mend}")


def with_outside(labels: Sequence[Any], codes: Array) -> tuple[Sequence[Any], Array]:
    """Labels and codes [T] with O where a label is not known."""
    unknown = codes >= len(labels)
    if not unknown.any():
        return labels, codes
    named = labels if OUTSIDE in labels else [*labels, OUTSIDE]
    return named, np.where(unknown, named.index(OUTSIDE), codes).astype(codes.dtype)


class Labelled(NamedTuple):
    """Training data with their labels as codes."""

    X: Any  # ready to learn from
    labels: list[Any]
    gold: Array  # [T]  labels, or sets of labels from len(labels) on
    sets: Array  # [K, L]  their members


def labelled(X: Any, y: Sequence[Sequence[str]] | None, known: Sequence[Any] = ()) -> Labelled:
    """The training data with their labels as codes; those that are known, as by a model, come
    first."""
    if isinstance(X, Encoded):
        raise OptionError("fit: takes sentences, not encoded data: features are learnt from them")
    X = collected(X)
    if y is not None and not hasattr(y, "__len__"):
        raise OptionError(f"y: expected the labels of all sentences, got {type(y).__name__}")
    if isinstance(X, Corpus):
        if y is None:
            if X.label is None:
                raise no_labels(X)
            return Labelled(X, *label_codes(X.values(X.label), X.codes(X.label), X.source, known))
    elif y is None:
        raise OptionError("fit: give the labels y")
    elif isinstance(X, Layered):
        pass
    elif kind_of(X) == "columns":
        corpus = Corpus.from_sequences(X, y)
        return Labelled(
            corpus, *label_codes(corpus.values("label"), corpus.codes("label"), known=known)
        )
    return Labelled(X, *codes_of(y, known))


def codes_of(y: Sequence[Sequence[Any]], known: Sequence[Any] = ()) -> LabelCodes:
    """Labels of sentences as codes; those that are known, as by a model, come first."""
    y = checked_sentences(y, "y") if len(y) else y
    column = intern_labels([label for sentence in y for label in sentence], y, "y")
    return label_codes(column.values, column.codes, known=known)


def codes_among(y: Sequence[Sequence[Any]], labels: Sequence[Any]) -> LabelCodes:
    """Labels of sentences as codes of the labels of a model, which has all of them."""
    coded = codes_of(y, labels)
    if len(coded.labels) > len(labels):
        raise OptionError(f"y: no label {coded.labels[len(labels)]!r} in this model")
    return coded


def labelled_pair(dev: Any, name: str = "dev") -> tuple[Any, Any]:
    """Sentences and their labels, given as a pair or as a corpus, which has them itself."""
    dev = listed(dev)
    if isinstance(dev, Corpus):
        return dev, None
    if isinstance(dev, tuple | list) and len(dev) == 2:
        return dev[0], dev[1]
    raise OptionError(f"{name}: expected a pair (X, y) or a Corpus")


def cut(flat: list[str], offsets: Array) -> list[list[str]]:
    bounds = offsets.tolist()
    return [flat[a:b] for a, b in itertools.pairwise(bounds)]


def fingerprint(facts: Any, arrays: Sequence[Array]) -> str:
    """A hash of facts, as they are written, and of numbers."""
    digest = hashlib.sha256(repr(facts).encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def writes(scheme: str, label: str) -> bool:
    """Whether a scheme has this label."""
    try:
        allowed([label], scheme)
    except OptionError:
        return False
    return True


# -- weights ---------------------------------------------------------------------------------------


def supervision_of(
    sets: Array,
    gold: Array,
    offsets: Array,
    labels: Sequence[Any],
    class_weight: Any,
    sample_weight: Any,
    part: bool = False,
    rate: float | None = None,
) -> Supervision:
    """What is said beside labels [T]: sets of labels, and weights of all sentences that have
    tokens.

    A part of the data may lack labels that have class weights, and its weights may all be 0.  Where
    nothing says what O is, neither a token nor the expected rate of entities, this is worth a
    warning."""
    of_sentences, of_tokens = sample_weights(sample_weight, offsets)
    if (
        len(sets)
        and not part
        and rate is None
        and "O" in labels
        and not (gold == list(labels).index("O")).any()
    ):
        warnings.warn(
            "no token is surely O, so nothing says what lies outside of entities, and far too many "
            "will be found; give a CRF the expected share of tokens in entities (entity_rate; "
            "--entity-rate X, or --dev FILE, from which L-BFGS estimates it), or add sentences "
            "that are labelled completely",
            RuntimeWarning,
            stacklevel=4,
        )
    given = of_tokens if of_sentences is None else of_sentences
    if not part and given is not None and len(given) and not given.any():
        raise OptionError("sample_weight: all are zero; nothing is left to learn from")
    by_label = class_weights(class_weight, labels, tokens_of_labels(labels, gold), part)
    if by_label is not None:
        allowed = Supervision(sets).allowed(len(labels))
        by_code = allowed @ by_label / allowed.sum(axis=1)
        of_tokens = by_code[gold] if of_tokens is None else of_tokens * by_code[gold]
    if of_sentences is not None:
        of_sentences = of_sentences[np.diff(offsets) > 0]
    return Supervision(sets, of_sentences, of_tokens)


def token_weights(
    gold: Array,
    offsets: Array,
    labels: Sequence[Any],
    class_weight: Any,
    sample_weight: Any,
    part: bool = False,
) -> Array | None:
    """How many times each token counts [T], for learners whose instances are tokens with known
    labels [T]."""
    of_sentences, of_tokens = sample_weights(sample_weight, offsets)
    if of_sentences is not None:
        of_tokens = np.repeat(of_sentences, np.diff(offsets))
    by_label = class_weights(class_weight, labels, tokens_of_labels(labels, gold), part)
    if by_label is not None:
        of_tokens = by_label[gold] if of_tokens is None else of_tokens * by_label[gold]
    return instance_weights(of_tokens, len(gold))


def instance_weights(given: Any, n: int) -> Array | None:
    """The weights of so many instances [n], after a check."""
    if given is None:
        return None
    try:
        weights = np.asarray(given, np.float64)
    except (TypeError, ValueError, OverflowError):
        weights = np.full(1, np.nan)
    if weights.shape != (n,) or not ((weights >= 0) & (weights < np.inf)).all():
        raise OptionError(
            f"sample_weight: expected a number of 0 or more for each of {n} instances, got "
            f"{given!r:.40}"
        )
    if not weights.any():
        raise OptionError("sample_weight: all are zero; nothing is left to learn from")
    return weights


def listed_weights(given: Any) -> list[Any]:
    """The weights of all sentences as a list; they may be anything that NumPy takes for an
    array."""
    if hasattr(given, "__array__") and not hasattr(given, "__len__"):
        given = np.atleast_1d(np.asarray(given))
    if not hasattr(given, "__len__") or isinstance(given, str | Mapping):
        raise OptionError(f"sample_weight: expected a number for each sentence, got {given!r:.40}")
    return list(given)


def sample_weights(given: Any, offsets: Array) -> tuple[Array | None, Array | None]:
    """The weights of sentences [N], or of tokens [T] where each sentence has a list of them."""
    if given is None:
        return None, None
    n, given, of = len(offsets) - 1, listed_weights(given), "sentence"
    if len(given) != n:
        raise OptionError(
            f"sample_weight: {len(given)} entries, but X has {n} sentences; give one for each"
        )
    sizes = [
        len(entry) if hasattr(entry, "__len__") and not isinstance(entry, str) else None
        for entry in given
    ]
    if any(size is not None for size in sizes):
        for number, (entry, size, length) in enumerate(
            zip(given, sizes, np.diff(offsets).tolist(), strict=True)
        ):
            if size != length:
                got = repr(entry) if size is None else f"{size} weights"
                raise OptionError(
                    f"sample_weight: sentence {number} has {length} tokens, got {got}"
                )
        given, of = [weight for entry in given for weight in entry], "token"
    for place, weight in enumerate(given):
        if not NOT_NEGATIVE.accepts(weight):
            raise OptionError(
                f"sample_weight: {of} {place}: expected a number of 0 or more, got {weight!r:.40}"
            )
    weights = np.array(given, np.float64)
    return (weights, None) if of == "sentence" else (None, weights)


def tokens_of_labels(labels: Sequence[Any], gold: Array) -> Array:
    """How many tokens have each label [L]."""
    return np.bincount(gold[gold < len(labels)], minlength=len(labels))


def class_weights(
    given: Any, labels: Sequence[Any], counts: Array, part: bool = False
) -> Array | None:
    """The weight of each label [L], of which there are so many; "balanced" makes all labels count
    alike, however frequent they are; one that occurs in sets alone has the weight 1.  A part of the
    data may lack labels that have weights."""
    if given is None:
        return None
    if isinstance(given, str):
        seen = counts > 0
        return np.where(seen, counts.sum() / (max(1, seen.sum()) * np.maximum(counts, 1)), 1.0)
    unknown = [label for label in given if label not in labels]
    if unknown and not part:
        have = f"which have {some_of(labels)}{like_label(unknown[0], labels)}"
        raise OptionError(f"class_weight: no label {unknown[0]!r} in the training data, {have}")
    return np.array([float(given.get(label, 1.0)) for label in labels])


# -- transitions -----------------------------------------------------------------------------------


def check_paths(supervision: Supervision, gold: Array, offsets: Array, space: StateSpace) -> None:
    """An error where the sets of labels of a sentence leave no labelling that the label scheme
    allows."""
    if not supervision.partial or space.arc.all():
        return
    right = supervision.allowed(space.n_labels)[:, space.label_of]
    for n in range(len(offsets) - 1):
        codes = gold[offsets[n] : offsets[n + 1]]
        reached = space.start & right[codes[0]]
        for code in codes[1:]:
            reached = space.arc[reached].any(axis=0) & right[code]
        if not (reached & space.end).any():
            raise CorpusError(
                f"training labels: sentence {n}: no labelling within its sets of labels keeps the "
                "label scheme and the forbidden transitions; mend them or train without constraints"
            )


def forbidden_codes(
    transitions: Sequence[Any], labels: Sequence[Any], seen: Mapping[Any, int], more: bool = False
) -> list[tuple[int, int]]:
    """The pairs of labels that are impossible, as codes, after a check that the training labels
    have none of them.

    transitions : pairs that a user forbids, and pairs that he requires: after the first label of
        one of these nothing but the second ones of all its pairs
    seen : how often each label follows each other in the training data
    more : further labels may come later"""
    forbidden, required = ([tuple(pair) for pair in given or ()] for given in transitions)
    if not forbidden and not required:
        return []
    number = {label: code for code, label in enumerate(labels)}
    for setting, pairs in (
        ("forbidden_transitions", forbidden),
        ("required_transitions", required),
    ):
        unknown = next((label for pair in pairs for label in pair if label not in number), None)
        if unknown is not None and not more:
            named = ", ".join(map(str, labels[:20]))
            raise OptionError(
                f"{setting}: no label {unknown!r} in the training data, which have {named}"
            )
    firsts = dict.fromkeys(before for before, _ in required)
    others = [(a, b) for a in firsts for b in labels if (a, b) not in required]
    for setting, pairs in (("forbidden_transitions", forbidden), ("required_transitions", others)):
        for before, after in pairs:
            if (before, after) in seen:
                raise CorpusError(
                    f"training labels: {after} follows {before}, which {setting} exclude, in "
                    f"{seen[before, after]:,} places; mend the labels, or permit it"
                )
    impossible = dict.fromkeys([*forbidden, *others])
    return [(number[a], number[b]) for a, b in impossible if a in number and b in number]


# -- what is asked ---------------------------------------------------------------------------------


def permitted_labels(forced: Forced | None, offsets: Array, labels: Sequence[str]) -> Array | None:
    """Which labels [T, L] the forced ones leave to each token."""
    if forced is None:
        return None
    if not isinstance(forced, Sized) or not all(isinstance(known, Sized) for known in forced):
        raise OptionError(
            f"forced: expected a list of labels for each sentence, got {forced!r:.40}"
        )
    if len(forced) != len(offsets) - 1:
        raise OptionError(
            f"forced: expected one list for each of {len(offsets) - 1} sentences, got {len(forced)}"
        )
    index = {label: i for i, label in enumerate(labels)}
    permitted = np.ones((int(offsets[-1]), len(index)), np.bool_)
    for n, (known, (a, b)) in enumerate(zip(forced, pairwise(offsets.tolist()), strict=True)):
        if len(known) != b - a:
            raise OptionError(
                f"forced: sentence {n} has {b - a} tokens, got {len(known)} entries; use None for "
                "free ones"
            )
        for t, wanted in enumerate(known):
            if wanted is None:
                continue
            choice = (
                list(wanted)
                if isinstance(wanted, Iterable) and not isinstance(wanted, str)
                else [wanted]
            )
            for label in choice:
                if label not in index:
                    raise OptionError(
                        f"forced: sentence {n}, token {t}: no label {label!r} in this model"
                    )
            permitted[a + t] = False
            permitted[a + t, [index[label] for label in choice]] = True
    return permitted


def of_this_model(data: E, mark: Any) -> E:
    """Encoded data, which must be those of the model with this mark."""
    if data.owner != mark:  # type: ignore[attr-defined]
        raise OptionError("the encoded data belong to another model; encode them with this one")
    return data


def check_one_each(given: Any, name: str, n: int) -> None:
    """Refuse what does not hold something for each of n sentences."""
    got = len(given) if isinstance(given, Sized) else f"{given!r:.40}"
    if got != n:
        if name == "y" and isinstance(given, Sized):
            raise CorpusError(f"y: {got} sentences, but X has {n}")
        raise OptionError(f"{name}: expected one list for each of {n} sentences, got {got}")


def scheme_named(constraints: str, of_labels: str | None) -> str:
    """The label scheme that `constraints` names: "scheme" stands for the one that the labels
    follow."""
    if constraints != "scheme":
        name = SAME_AS.get(constraints.lower(), constraints.lower())
        if name not in SCHEMES:
            raise OptionError(
                f"constraints: expected 'scheme' or one of {', '.join(SCHEMES)}, got "
                f"{constraints!r}"
            )
        return name
    if of_labels is None:
        raise OptionError(
            "constraints='scheme': the labels follow no chunk scheme (B-X, I-X, O, ...)"
        )
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
        except CorpusError as error:
            raise counted_from(begin, error) from None
        begin += len(batch)


def counted_from(begin: int, error: LabelwrightError) -> LabelwrightError:
    """The same error about some sentences, of which the first has this number."""
    line = re.sub(
        r"\bsentence (\d+)", lambda n: f"sentence {begin + int(n[1])}", str(error), count=1
    )
    error.args = (line,)
    return error


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
            raise OptionError(
                f"x: expected one sentence, got a corpus of {len(x)}; use corpus.take(slice(n, n + "
                "1))"
            )
        return x
    if isinstance(x, str) or not isinstance(x, Iterable):
        raise OptionError(f"x: expected a sentence, a list of tokens, got {type(x).__name__}")
    x = x if hasattr(x, "__len__") else list(x)
    if (
        kind == "columns"
        and isinstance(x, list | tuple)
        and any(isinstance(token, list) for token in x)
    ):
        raise OptionError(
            "x: expected one sentence, got a list of sentences; explain them one by one"
        )
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
    gold: Sequence[Sequence[str]] | None = (
        X.y if y is None and isinstance(X, Corpus) else in_lists(y)
    )
    if gold is None:
        raise OptionError(f"{asker}: give the true labels y")
    if not hasattr(gold, "__len__"):
        raise OptionError(
            f"{asker}: expected the true labels y of all sentences, got {type(gold).__name__}"
        )
    if complete:
        check_known(gold, asker)
    return gold


# -- text in, entities out: what a tagger that reads words says about running text -----------------


def entities_in(
    model: Any, texts: Iterable[str], tokenizer: "Tokenizer | None" = None
) -> dict[str, list[list[Entity]]]:
    """The entities of each text by every output of a model, with probabilities or (calibrated)
    confidences."""
    if isinstance(texts, str):
        raise OptionError("texts: got one string, expected a list of texts")
    split = split_for(model, texts, tokenizer)
    if not split.texts:
        return {name: [] for name in model._outputs}
    return {name: split.entities(spans) for name, spans in spans_in(model, split.words).items()}


def show(tagger: Any, X: Any) -> Html:
    """Texts, or sentences, with the spans that a tagger predicts in colour and their probabilities:
    notebooks draw it; elsewhere it is HTML to be written to a file. Labels that make no chunks are
    shown at each token.

    tagger : a trained tagger; of a cascade each layer is shown
    X : a text or a list of texts, or sentences as lists of words or of columns, or a Corpus

    >>> from labelwright import CRF, show
    >>> X = [["Ada", "ran", "."], ["he", "ran", "."]]
    >>> crf = CRF(n_jobs=1).fit(X, [["B-PER", "O", "O"], ["O", "O", "O"]])
    >>> show(crf, "he ran. Ada ran.")  # doctest: +ELLIPSIS
    '<div ...><p>he ran. <mark ...>Ada<small ...>PER 0...</small></mark> ran.</p></div>'
    """
    tagger._check_fitted()
    texts = [X] if isinstance(X, str) else X
    if isinstance(texts, list | tuple) and texts and all(isinstance(text, str) for text in texts):
        rows = {
            name: [
                marked(text, entities, kind="p")
                for text, entities in zip(texts, listed, strict=True)
            ]
            for name, listed in entities_in(tagger, texts).items()
        }
    else:
        words = words_of(X)
        if words is None:
            raise OptionError(
                "show: expected texts, or sentences of words; features alone have none to show"
            )
        rows = {
            name: [
                marked_words(sentence, spans, kind="p")
                for sentence, spans in zip(words, listed, strict=True)
            ]
            for name, listed in spans_in(tagger, X).items()
        }
    parts = []
    for name, drawn in rows.items():
        parts += [tag("b", name) if name else None, *drawn]
    return tag("div", *parts, style="line-height:2;white-space:pre-wrap")


def spans_in(model: Any, sentences: Any) -> dict[str, list[list[Span]]]:
    """The spans of sentences by every output of a model, with probabilities or (calibrated)
    confidences."""

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
            f"text: the model reads {len(schema.columns)} columns ({names}), and text has words "
            "alone; train on words and labels alone, or a cascade that predicts the other columns"
        )
