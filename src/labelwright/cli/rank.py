"""labelwright rank: unlabelled sentences in the order in which to label them."""

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from labelwright.cli.files import check_target, input_names, inputs_of, load_model
from labelwright.cli.options import (
    ALL_COLUMNS,
    DATA,
    FORMAT,
    MAX_INPUT,
    OUTPUT,
    POSITIVE,
    SPLITTING,
    THREADS,
    Command,
    argument,
    option,
)
from labelwright.cli.show import say, show, warn
from labelwright.cli.tag import text_format
from labelwright.cli.tag_input import Source, tokenizer_given
from labelwright.errors import CorpusError, OptionError
from labelwright.wording import align, counted, shortened

if TYPE_CHECKING:
    from labelwright.active.annotator_files import Place, ToAnnotate
    from labelwright.active.ranking import RankedSentence

SHOWN = 20  # sentences of the table, where no number is asked for
WIDTH = 90  # characters of a sentence in the table
RANKING = "Ranking"
HELP = """\
Rank unlabelled sentences: what to label next, the most uncertain first.

Without -o, a table of the first sentences is shown.  -o writes them with the predicted labels, to be corrected: as
columns (the input with one more column, ready for `labelwright train`), as JSON lines, or for doccano or Label Studio.
--rest writes the others, to choose from in the next round.

\b
  labelwright rank model.crf pool.txt --top 200 -o next.txt --rest rest.txt
  labelwright rank model.crf pool.txt --by span --diverse --top 50 -o next.jsonl
  labelwright rank model.crf letters.txt --text --top 50 --to label-studio -o tasks.json

sequence is exact for CRFs and segment models, and estimated from samples for latent models; token, span,
least-confidence and margin are exact.  Perceptrons need calibration (train with --dev); they and memory-based models
can be asked by margin, a difference of scores.  sequence and span prefer long sentences, which hold more to learn;
where the effort is counted in words, use sequence-mean.
"""
TO = option(
    "--to NAME",
    "What -o writes: columns, jsonl, doccano or label-studio.",
    OUTPUT,
    shown="as the name of FILE says",
)
OPTIONS = [
    argument("model", "MODEL", "A model file that `labelwright train` wrote."),
    argument("input", "UNLABELLED", "Unlabelled sentences: column file, text (--text), JSON lines, or -."),
    ALL_COLUMNS,
    FORMAT,
    option("--text", "UNLABELLED is plain text.", DATA),
    *SPLITTING,
    MAX_INPUT,
    option(
        "--by NAME",
        "sequence (entropy of all labellings), sequence-mean (per token), token, token-max (mean, largest entropy of a "
        "token), span (entropies of all spans), least-confidence, margin.",
        RANKING,
        default="sequence",
    ),
    option("--diverse", "Uncertain, and unlike the sentences ranked before.", RANKING),
    option("--layer NAME", "The layer of a cascade that is asked.", RANKING, shown="the highest"),
    option("--top N", "The first N sentences.", RANKING, POSITIVE, shown="all"),
    option("-o --output FILE", "Write the sentences with predicted labels, for annotators.", OUTPUT),
    TO,
    option("--scores", "Column files: one more column, the score of the sentence.", OUTPUT),
    option("--rest FILE", "Write the sentences that are not among the first N as columns.", OUTPUT),
    option("--json", "One JSON object per sentence.", OUTPUT),
    THREADS,
]


class Pool(NamedTuple):
    """The sentences to choose from."""

    names: list[str]  # of the columns
    rows: list[list[tuple[str, ...]]]  # [N][T]  all columns
    inputs: list[Any]  # [N]  what the model reads
    texts: "list[tuple[str, list[Place]] | None]"  # [N]  the text of a sentence, where there is one


def _rank(o: Any) -> None:
    from labelwright.active.annotator_files import annotator_file, format_for
    from labelwright.active.ranking import rank

    check_annotator_format(o.to, o.output, o.json)
    target = "-" if o.json and o.output is None else o.output  # None: a table is shown
    for path in filter(None, (o.output, o.rest)):
        check_target(path, [o.model, o.input])
    tagger = load_model(o.model, o.n_jobs)
    source = Source(o.input, text_format(o), o.columns, None, tokenizer_given(tagger.tokenizer(), o))
    pool = _read(tagger, source)
    ranked = rank(tagger, pool.inputs, o.by, top=o.top, diverse=o.diverse, layer=o.layer)
    if target is not None:
        items = [_item(pool, number, each, o.by, o.scores) for number, each in enumerate(ranked, 1)]
        write_file(target, annotator_file(items, pool.names, "jsonl" if o.json else format_for(target, o.to)))
    else:
        show(*_lines(pool, ranked, o.by, o.top))
    if not pool.rows:
        warn(f"{o.input}: no sentences to rank")
    if o.rest is not None:
        if o.top is None or len(ranked) == len(pool.rows):
            warn(f"{o.rest}: no sentences are left over; --top N says how many are chosen")
        _write_rest(o.rest, pool, {each.sentence for each in ranked})
    if o.output is not None and o.output != "-":
        say(f"{o.output}: {_summary(pool, ranked, o.by)}")


rank_command = Command(HELP, OPTIONS, _rank)


def check_annotator_format(to: str | None, output: str | None, as_json: bool) -> None:
    """Refuse a format for annotators that is none, or that nothing is written in."""
    from labelwright.active.annotator_files import format_for

    format_for("", to)
    if as_json and to not in (None, "jsonl"):
        raise OptionError(f"--json: writes JSON lines, but --to says {to}; leave one of both out")
    if to is not None and output is None and not as_json:
        raise OptionError("--to: says what -o writes; add -o FILE, or -o - for standard output")


# -- reading ----------------------------------------------------------------------------------------------------------


def _read(model: Any, source: Source) -> Pool:
    """All sentences of a file."""
    pool = Pool([], [], [], [])
    if os.path.isfile(source.path) and os.path.getsize(source.path) == 0:
        return pool._replace(names=input_names(model))
    for piece in source.file_pieces(model):
        corpus = piece.corpus
        if corpus is None:
            raise CorpusError(
                f"{source.path}: CRFsuite's data have no words to show; use labelwright.active.rank in Python"
            )
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


def write_file(path: str, data: bytes) -> None:
    from labelwright.corpus.compressed import written

    with written(path) as write:
        write(data)


def _write_rest(path: str, pool: Pool, chosen: set[int]) -> None:
    """The sentences that were not chosen, in their order."""
    from labelwright.corpus import Corpus, write_columns

    left = [rows for number, rows in enumerate(pool.rows) if number not in chosen and rows]
    if not left:
        write_file(path, b"")
        return
    write_columns(Corpus.from_sequences(left, names=pool.names, source=path), path)


def _lines(pool: Pool, ranked: "list[RankedSentence]", by: str, top: int | None) -> list[str]:
    """A table of the first sentences, with what the model would mark in them."""
    shown = ranked[: top or SHOWN]
    table = [("rank", "sentence", by, "predicted")]
    for number, each in enumerate(shown, 1):
        words = [row[0] for row in pool.rows[each.sentence]]
        table.append((str(number), f"{each.sentence:,}", f"{each.score:.4g}", _marked(words, each.labels)))
    lines = align(table, {3})
    if len(shown) < len(ranked):
        lines.append(f"{counted(len(ranked) - len(shown), 'further sentence')}; --top N shows N, -o FILE writes all")
    return lines


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
