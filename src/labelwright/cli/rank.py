"""labelwright rank: unlabelled sentences in the order in which to label them."""

import os
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from labelwright.cli.common import (
    Format,
    Threads,
    aligned,
    check_target,
    counted,
    input_names,
    inputs_of,
    load_model,
    say,
    show,
)
from labelwright.cli.options import DATA, OUTPUT, argument, option
from labelwright.cli.reading import pieces_to_tag
from labelwright.cli.tag_text import Characters, Sentences, TokenizerName, TokenPattern, text_format, tokenizer_given
from labelwright.errors import CorpusError, OptionError
from labelwright.wording import shortened

if TYPE_CHECKING:
    from labelwright.active.annotator_files import Place, ToAnnotate
    from labelwright.active.ranking import RankedSentence
    from labelwright.corpus.tokenizer import Tokenizer

SHOWN = 20  # sentences of the table, where no number is asked for
WIDTH = 90  # characters of a sentence in the table
To = Annotated[
    str | None,
    option(
        "What -o writes: columns, jsonl, doccano or label-studio. [default: as the name of FILE says]", "NAME", OUTPUT
    ),
]


class Pool(NamedTuple):
    """The sentences to choose from."""

    names: list[str]  # of the columns
    rows: list[list[tuple[str, ...]]]  # [N][T]  all columns
    inputs: list[Any]  # [N]  what the model reads
    texts: "list[tuple[str, list[Place]] | None]"  # [N]  the text of a sentence, where there is one


def command(
    model: Annotated[str, argument("A model file that `labelwright train` wrote.", "MODEL")],
    input: Annotated[
        str, argument("Unlabelled sentences: column file, text (--text), JSON lines, or -.", "UNLABELLED")
    ],
    columns: Annotated[
        str | None, option("Names of all input columns. [default: as in training, by their number]", "NAMES", DATA)
    ] = None,
    format: Format = None,
    text: Annotated[bool, option("UNLABELLED is plain text.", None, DATA, "--text")] = False,
    tokenizer: TokenizerName = None,
    characters: Characters = False,
    token_pattern: TokenPattern = None,
    sentences: Sentences = None,
    by: Annotated[
        str,
        option(
            "sequence (entropy of all labellings), sequence-mean (per token), token, token-max (mean, largest entropy "
            "of a token), span (entropies of all spans), least-confidence, margin.",
            "NAME",
            "Ranking",
        ),
    ] = "sequence",
    diverse: Annotated[
        bool, option("Uncertain, and unlike the sentences ranked before.", None, "Ranking", "--diverse")
    ] = False,
    layer: Annotated[
        str | None, option("The layer of a cascade that is asked. [default: the highest]", "NAME", "Ranking")
    ] = None,
    top: Annotated[int | None, option("The first N sentences. [default: all]", "N", "Ranking")] = None,
    output: Annotated[
        str | None,
        option("Write the sentences with predicted labels, for annotators.", "FILE", OUTPUT, "-o", "--output"),
    ] = None,
    to: To = None,
    scores: Annotated[
        bool, option("Column files: one more column, the score of the sentence.", None, OUTPUT, "--scores")
    ] = False,
    rest: Annotated[
        str | None, option("Write the sentences that are not among the first N as columns.", "FILE", OUTPUT)
    ] = None,
    as_json: Annotated[bool, option("One JSON object per sentence.", None, OUTPUT, "--json")] = False,
    threads: Threads = None,
) -> None:
    """Rank unlabelled sentences: what to label next, the most uncertain first.

    Without -o, a table of the first sentences is shown.  -o writes them with the predicted labels, to be corrected: as
    columns (the input with one more column, ready for `labelwright train`), as JSON lines, or for doccano or Label
    Studio.  --rest writes the others, to choose from in the next round.

    \b
      labelwright rank model.crf pool.txt --top 200 -o next.txt --rest rest.txt
      labelwright rank model.crf pool.txt --by span --diverse --top 50 -o next.jsonl
      labelwright rank model.crf letters.txt --text --top 50 --to label-studio -o tasks.json

    sequence is exact for CRFs and segment models, and estimated from samples for latent models; token, span,
    least-confidence and margin are exact.  Perceptrons need calibration (train with --dev); they and memory-based
    models can be asked by margin, a difference of scores.  sequence and span prefer long sentences, which hold more to
    learn; where the effort is counted in words, use sequence-mean.
    """
    from labelwright.active.annotator_files import annotator_file, format_for
    from labelwright.active.ranking import rank

    if top is not None and top < 1:
        raise OptionError(f"--top: expected 1 or more, got {top}")
    target = _target(output, to, as_json)
    for path in (output, rest):
        if path is not None:
            check_target(path, [model, input])
    tagger = load_model(model, threads)
    splitter = tokenizer_given(tagger.tokenizer(), tokenizer, characters, token_pattern, sentences)
    pool = _read(tagger, input, text_format(text, format, None, as_json), columns, splitter)
    ranked = rank(tagger, pool.inputs, by, top=top, diverse=diverse, layer=layer)
    if target is not None:
        items = [_item(pool, number, each, by, scores) for number, each in enumerate(ranked, 1)]
        _write(target, annotator_file(items, pool.names, "jsonl" if as_json else format_for(target, to)))
    else:
        _show(pool, ranked, by, top)
    if not pool.rows:
        say(f"labelwright: {input}: no sentences to rank")
    if rest is not None:
        if top is None or len(ranked) == len(pool.rows):
            say(f"labelwright: {rest}: no sentences are left over; --top N says how many are chosen")
        _write_rest(rest, pool, {each.sentence for each in ranked})
    if output is not None and output != "-":
        say(f"{output}: {_summary(pool, ranked, by)}")


def _target(output: str | None, to: str | None, as_json: bool) -> str | None:
    """Where sentences are written; None: a table is shown."""
    from labelwright.active.annotator_files import format_for

    format_for("", to)
    if as_json and to not in (None, "jsonl"):
        raise OptionError(f"--json: writes JSON lines, but --to says {to}; leave one of both out")
    if to is not None and output is None and not as_json:
        raise OptionError("--to: says what -o writes; add -o FILE, or -o - for standard output")
    return "-" if as_json and output is None else output


# -- reading ----------------------------------------------------------------------------------------------------------


def _read(model: Any, path: str, format: str | None, columns: str | None, tokenizer: "Tokenizer | None") -> Pool:
    """All sentences of a file."""
    pool = Pool([], [], [], [])
    if os.path.isfile(path) and os.path.getsize(path) == 0:
        return pool._replace(names=input_names(model))
    for piece in pieces_to_tag(model, path, format, columns, None, tokenizer):
        corpus = piece.corpus
        if corpus is None:
            raise CorpusError(f"{path}: CRFsuite's data have no words to show; use labelwright.active.rank in Python")
        inputs = inputs_of(model, corpus)
        shown = inputs if "form" in corpus.names and "upos" in corpus.names else corpus  # of CoNLL-U not all columns
        pool.names[:] = shown.names
        pool.rows.extend([_row(token) for token in sentence] for sentence in shown.renamed(shown.names, None).X)
        pool.inputs.extend(inputs.X)
        split = piece.split
        if split is None:
            pool.texts.extend([None] * len(corpus))
            continue
        for tokens, number in zip(split.places, split.text_of, strict=True):
            pool.texts.append(_cut(split.texts[number], tokens) if tokens else None)
    return pool


def _row(token: Any) -> tuple[str, ...]:
    return token if isinstance(token, tuple) else (token,)


def _cut(text: str, tokens: "list[Place]") -> "tuple[str, list[Place]]":
    """One sentence of a text, with the places of its tokens."""
    begin, end = tokens[0][0], tokens[-1][1]
    return text[begin:end], [(a - begin, b - begin) for a, b in tokens]


# -- writing ----------------------------------------------------------------------------------------------------------


def _item(pool: Pool, number: int, each: "RankedSentence", by: str, scores: bool) -> "ToAnnotate":
    from labelwright.active.annotator_files import ToAnnotate

    facts = {"rank": number, "sentence": each.sentence, "score": round(each.score, 6), "by": by}
    more = [[f"{each.score:.4f}"] * len(each.labels)] if scores else []
    text, places = pool.texts[each.sentence] or (None, [])
    return ToAnnotate(pool.rows[each.sentence], each.labels, facts, more, text, places)


def _write(path: str, data: bytes) -> None:
    from labelwright.corpus.compressed import written

    with written(path) as write:
        write(data)


def _write_rest(path: str, pool: Pool, chosen: set[int]) -> None:
    """The sentences that were not chosen, in their order."""
    from labelwright.corpus import Corpus, write_columns

    left = [rows for number, rows in enumerate(pool.rows) if number not in chosen and rows]
    if not left:
        _write(path, b"")
        return
    write_columns(Corpus.from_sequences(left, names=pool.names, source=path), path)


def _show(pool: Pool, ranked: "list[RankedSentence]", by: str, top: int | None) -> None:
    """A table of the first sentences, with what the model would mark in them."""
    shown = ranked[: top or SHOWN]
    table = [("rank", "sentence", by, "predicted")]
    for number, each in enumerate(shown, 1):
        words = [row[0] for row in pool.rows[each.sentence]]
        table.append((str(number), f"{each.sentence:,}", f"{each.score:.4g}", _marked(words, each.labels)))
    for line in aligned(table, {0, 1, 2}):
        show(line)
    if len(shown) < len(ranked):
        show(f"{counted(len(ranked) - len(shown), 'further sentence')}; --top N shows N, -o FILE writes all")


def _marked(words: list[str], labels: list[str]) -> str:
    """A sentence with its predicted spans in brackets, cut to the width of the table."""
    from labelwright.corpus.schemes import is_chunk_label
    from labelwright.corpus.spans import spans_of

    words = list(words)
    if all(map(is_chunk_label, labels)):
        for span in spans_of(labels):
            words[span.start] = f"[{words[span.start]}"
            words[span.end - 1] += f" {span.type}]"
    return shortened(" ".join(words), WIDTH)


def _summary(pool: Pool, ranked: "list[RankedSentence]", by: str) -> str:
    """What was written, in a line."""
    tokens = sum(len(each.labels) for each in ranked)
    size = f"{len(ranked):,} of {counted(len(pool.rows), 'sentence')}, {counted(tokens, 'token')}"
    return f"{size}, by {by} from {ranked[0].score:.4g} to {ranked[-1].score:.4g}" if ranked else size
