"""Answers of `tag` in the form that was asked for: columns, n best labellings, entities, JSON."""

import io
import json
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from labelwright.cli import decoding as how
from labelwright.cli.common import inputs_of, layer_names
from labelwright.cli.reading import ToTag
from labelwright.cli.tag_answers import Answer, Request
from labelwright.cli.tag_text import with_offsets
from labelwright.errors import OptionError

if TYPE_CHECKING:
    from labelwright.corpus.spans import Span
    from labelwright.corpus.table import Corpus
    from labelwright.decode import Decoding

Words = Sequence[list[str] | None]  # of each sentence, where it has words


def write_answers(model: Any, piece: ToTag, answers: dict[str, list[Answer]], request: Request, out: BinaryIO) -> None:
    """Write the answers about one piece in the form that was asked for."""
    corpus = piece.corpus
    if request.json:
        words: Words = [None] * len(next(iter(answers.values())))
        if corpus is not None:
            inputs = inputs_of(model, corpus)
            words = inputs.column(inputs.names[0])
        for fact in with_offsets(piece, _json_facts(model, words, answers, request)):
            out.write(json.dumps(fact, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")
    elif request.entities is not None:
        spans = {name: [answer.spans for answer in rows] for name, rows in answers.items()}
        out.write(request.entities.written(piece, spans))
    elif request.nbest is not None and corpus is not None:
        _write_nbest(model, corpus, answers, request, out)
    elif piece.split is not None and piece.write is not None:
        spans = {name: [answer.spans for answer in rows] for name, rows in answers.items()}
        out.write(piece.write({name: [piece.split.entities(rows)] for name, rows in spans.items()}))
    else:
        _write_labels(piece, answers, request, out)


# -- labels -----------------------------------------------------------------------------------------------------------


def _chosen(answer: Answer) -> list[float]:
    """The probability (or confidence) of each label that is shown; where none is (_), of the one that was left out."""
    pairs = zip(answer.marginals, answer.labels, answer.decoding.labels, strict=True)
    return [row[shown if shown in row else predicted] for row, shown, predicted in pairs]


def _write_labels(piece: ToTag, answers: dict[str, list[Answer]], request: Request, out: BinaryIO) -> None:
    """The input with the labels of all outputs at the end; in CoNLL-U each takes the place of its column."""
    from labelwright.corpus import CONLLU_NAMES, write_columns

    added: dict[str, list[Any]] = {}
    for name, rows in answers.items():
        added[name] = [[answer.labels for answer in rows]]
        if request.probabilities:
            added[name].append([[f"{p:.4f}" for p in _chosen(answer)] for answer in rows])
    corpus = piece.corpus
    if piece.write is not None or corpus is None:
        assert piece.write is not None
        out.write(piece.write(added))
    elif tuple(corpus.names) == CONLLU_NAMES:
        _write_conllu(corpus, added, out)
    else:
        write_columns(corpus, out, extra=[column for columns in added.values() for column in columns])


def _write_conllu(corpus: "Corpus", added: dict[str, list[Any]], out: BinaryIO) -> None:
    from labelwright.corpus import CONLLU_NAMES, read_conllu, write_conllu

    assert corpus.raw is not None
    text = corpus.raw.text
    for name, columns in added.items():
        if len(columns) > 1:
            raise OptionError(f"--probabilities: {corpus.source}: CoNLL-U has no column for them; add --json")
        if name and name not in CONLLU_NAMES:
            raise OptionError(f"{corpus.source}: CoNLL-U has no column for the layer {name}; add --json")
        piece = io.BytesIO()
        source = read_conllu(io.BytesIO(text), label=name) if name else corpus
        write_conllu(source, piece, extra=columns)
        text = piece.getvalue()
    out.write(text)


def _write_nbest(
    model: Any, corpus: "Corpus", answers: dict[str, list[Answer]], request: Request, out: BinaryIO
) -> None:
    ((name, rows),) = answers.items()
    columns = [*map(corpus.tokens, corpus.names)]
    separator = _separator(
        corpus, columns, [label for answer in rows for labels, _ in answer.nbest for label in labels]
    )
    tokens = [separator.join(row) for row in zip(*columns, strict=True)]
    form = ".4g" if model._outputs[name]._probabilistic else ".4f"
    begin, lines = 0, list[str]()
    for n, answer in enumerate(rows):
        for rank, (labels, value) in enumerate(answer.nbest, 1):
            lines.append(f"# nbest {rank} {value:{form}}")
            for t, label in enumerate(labels):
                sure = f"{separator}{answer.marginals[t][label]:.4f}" if request.probabilities else ""
                lines.append(f"{tokens[begin + t]}{separator}{label}{sure}")
            lines.append("")
        begin += int(corpus.offsets[n + 1] - corpus.offsets[n])
    out.write("".join(f"{line}\n" for line in lines).encode())


def _separator(corpus: "Corpus", columns: list[list[str]], labels: list[str]) -> str:
    """What separates the columns of a file with these labels; refuses what would be read back differently."""
    from labelwright.corpus.columns import separator_for
    from labelwright.corpus.labels import check_column, check_written

    separator = corpus.raw.separator.decode() if corpus.raw is not None else separator_for([*columns, labels])
    for column in columns if corpus.raw is None else ():
        check_column(column, corpus.offsets, corpus.source, separator, is_label=False)
    check_written(labels, corpus.source, separator)
    return separator


# -- JSON -------------------------------------------------------------------------------------------------------------


def _json_facts(
    model: Any, sentences: Words, answers: dict[str, list[Answer]], request: Request
) -> Iterator[dict[str, Any]]:
    """One object for each sentence; the outputs of a cascade by layer."""
    layers = {name: _facts(model._outputs[name], sentences, rows, request) for name, rows in answers.items()}
    if layer_names(model):
        for words, *parts in zip(sentences, *layers.values(), strict=True):
            yield {"tokens": words, "layers": dict(zip(layers, parts, strict=True))}
        return
    (rows,) = layers.values()
    for words, fact in zip(sentences, rows, strict=True):
        yield fact if words is None else {"tokens": words} | fact


def _facts(tagger: Any, sentences: Words, answers: list[Answer], request: Request) -> Iterator[dict[str, Any]]:
    """What is to be said about each sentence."""
    value, values = ("probability", "probabilities") if tagger._probabilistic else ("score", "confidences")
    for words, answer in zip(sentences, answers, strict=True):
        fact: dict[str, Any] = {
            "labels": answer.labels,
            **_worth(tagger, answer.decoding),
            **how.proof(answer.decoding),
            "spans": [_span(tagger, span, words) for span in answer.spans],
        }
        if request.probabilities:
            fact[values] = [round(p, 6) for p in _chosen(answer)]
        if request.nbest is not None:
            fact["nbest"] = [{"labels": row, value: round(p, 6)} for row, p in answer.nbest]
        yield fact


def _worth(tagger: Any, decoding: "Decoding") -> dict[str, float | None]:
    """How good a labelling is: its probability, or its score and, from a calibrated model, the confidence in it."""
    if tagger._probabilistic:
        log_p = decoding.log_probability
        return {"probability": None if log_p is None else round(math.exp(log_p), 6)}
    score: dict[str, float | None] = {"score": round(decoding.score, 6)}
    return score | {"confidence": _rounded(decoding.confidence)} if tagger._is_sure else score


def _rounded(p: float | None) -> float | None:
    """A number for JSON; null where rules leave too many labellings for sums."""
    return None if p is None else round(float(p), 6)


def _span(tagger: Any, span: "Span", words: list[str] | None) -> dict[str, Any]:
    """A span, ready for JSON."""
    from labelwright.corpus.tokenizer import joined_text

    shown: dict[str, Any] = {"start": span.start, "end": span.end, "type": span.type}
    if tagger._is_sure:
        shown["probability" if tagger._probabilistic else "confidence"] = _rounded(span.probability)
    return shown if words is None else shown | {"text": joined_text(words[span.start : span.end])}
