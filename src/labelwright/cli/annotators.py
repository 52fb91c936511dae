"""labelwright rank and doubts: unlabelled sentences in the order in which to label them, and labels
of training data that look wrong.

As for `train`, the command `doubts` is made for the tagger that is asked for, with the same options
for data and settings.
"""

import os
from collections.abc import Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from labelwright.cli import options as usual
from labelwright.cli.files import check_target, has_attributes, input_names, inputs_of, load_model
from labelwright.cli.options import DATA, OUTPUT, POSITIVE, argument, command, option
from labelwright.cli.recipe import PLACES, QUIET, RUN, in_order, recipe_key, request, tagger
from labelwright.cli.show import report, say, show, warn
from labelwright.cli.tag import text_format
from labelwright.cli.tag_input import Source, tokenizer_given
from labelwright.cli.train import TrainCommand, asked_tagger, settings_of_run
from labelwright.cli.train_data import read_data
from labelwright.errors import OptionError
from labelwright.settings import AtLeast, Bounds, Choice, Setting, Whole
from labelwright.wording import align, counted, in_context, shortened

if TYPE_CHECKING:
    from labelwright.active.annotator_files import Place, ToAnnotate
    from labelwright.active.ranking import RankedSentence
    from labelwright.active.suspicious import Doubt, Doubts
    from labelwright.corpus.table import Corpus

SHOWN = 20  # sentences or doubts of the table, where no number is asked for
WIDTH = 90  # characters of a sentence in the table
RANKING = "Ranking"
TO = option(
    "--to NAME",
    "What -o writes: columns, jsonl, doccano or label-studio.",
    OUTPUT,
    shown="as the name of FILE says",
)


class Pool(NamedTuple):
    """The sentences to choose from."""

    names: list[str]  # of the columns
    rows: list[list[tuple[str, ...]]]  # [N][T]  all columns
    inputs: list[Any]  # [N]  what the model reads
    # [N]  the text of a sentence, where there is one, and its tokens
    texts: "list[tuple[str | None, list[Place]]]"


@command(
    argument("model", "MODEL", "A model file that `labelwright train` wrote."),
    argument(
        "input", "UNLABELLED", "Unlabelled sentences: column file, text (--text), JSON lines, or -."
    ),
    usual.ALL_COLUMNS,
    usual.FORMAT,
    option("--text", "UNLABELLED is plain text.", DATA),
    *usual.SPLITTING,
    usual.MAX_INPUT,
    option(
        "--by NAME",
        "sequence (entropy of all labellings), sequence-mean (per token), token, token-max (mean, "
        "largest entropy of a token), span (entropies of all spans), least-confidence, margin.",
        RANKING,
        default="sequence",
    ),
    option("--diverse", "Uncertain, and unlike the sentences ranked before.", RANKING),
    option("--layer NAME", "The layer of a cascade that is asked.", RANKING, shown="the highest"),
    option("--top N", "The first N sentences.", RANKING, POSITIVE, shown="all"),
    option(
        "-o --output FILE", "Write the sentences with predicted labels, for annotators.", OUTPUT
    ),
    TO,
    option("--scores", "Column files: one more column, the score of the sentence.", OUTPUT),
    option("--rest FILE", "Write the sentences that are not among the first N as columns.", OUTPUT),
    option("--json", "One JSON object per sentence.", OUTPUT),
    usual.THREADS,
)
def rank_command(o: Any) -> None:
    """Rank unlabelled sentences: what to label next, the most uncertain first.

    Without -o, a table of the first sentences is shown.  -o writes them with the predicted labels,
    to be corrected: as columns (the input with one more column, ready for `labelwright train`), as
    JSON lines, or for doccano or Label Studio. --rest writes the others, to choose from in the next
    round.

    \b
      labelwright rank model.crf pool.txt --top 200 -o next.txt --rest rest.txt
      labelwright rank model.crf pool.txt --by span --diverse --top 50 -o a.jsonl
      labelwright rank model.crf texts.txt --text --to label-studio -o tasks.json

    sequence is exact for CRFs and segment models, and estimated from samples for latent models;
    token, span, least-confidence and margin are exact.  Perceptrons need calibration (train with
    --dev); they and memory-based models can be asked by margin, a difference of scores.  sequence
    and span prefer long sentences, which hold more to learn; where the effort is counted in words,
    use sequence-mean.
    """
    from labelwright.active.annotator_files import ToAnnotate, annotator_file, format_for
    from labelwright.active.ranking import rank
    from labelwright.corpus import Corpus, write_columns
    from labelwright.corpus.compressed import write_bytes

    _check_format(o.to, o.output, o.json)
    target = "-" if o.json and o.output is None else o.output  # None: a table is shown
    for path in filter(None, (o.output, o.rest)):
        check_target(path, [o.model, o.input])
    tagger = load_model(o.model, o.n_jobs)
    pool = _read(
        tagger,
        Source(o.input, text_format(o), o.columns, None, tokenizer_given(tagger.tokenizer(), o)),
    )
    ranked = rank(tagger, pool.inputs, o.by, top=o.top, diverse=o.diverse, layer=o.layer)
    if target is not None:
        items = []
        for number, each in enumerate(ranked, 1):
            facts = {
                "rank": number,
                "sentence": each.sentence,
                "score": round(each.score, 6),
                "by": o.by,
            }
            more = [[f"{each.score:.4f}"] * len(each.labels)] if o.scores else []
            items.append(
                ToAnnotate(
                    pool.rows[each.sentence], each.labels, facts, more, *pool.texts[each.sentence]
                )
            )
        write_bytes(
            target,
            annotator_file(items, pool.names, "jsonl" if o.json else format_for(target, o.to)),
        )
    else:
        show(*_ranked_lines(pool, ranked, o.by, o.top))
    if not pool.rows:
        warn(f"{o.input}: no sentences to rank")
    if o.rest is not None:
        if o.top is None or len(ranked) == len(pool.rows):
            warn(f"{o.rest}: no sentences are left over; --top N says how many are chosen")
        chosen = {each.sentence for each in ranked}
        left = [rows for number, rows in enumerate(pool.rows) if number not in chosen and rows]
        if left:
            write_columns(Corpus.from_sequences(left, names=pool.names, source=o.rest), o.rest)
        else:
            write_bytes(o.rest, b"")
    if o.output is not None and o.output != "-":
        tokens = counted(sum(len(each.labels) for each in ranked), "token")
        scores = f", {o.by} {ranked[0].score:.4g} to {ranked[-1].score:.4g}" if ranked else ""
        say(
            f"{o.output}: {len(ranked):,} of {counted(len(pool.rows), 'sentence')}, "
            f"{tokens}{scores}"
        )


def _check_format(to: str | None, output: str | None, as_json: bool = False) -> None:
    """Refuse a format for annotators that is none, or that nothing is written in."""
    from labelwright.active.annotator_files import format_for

    format_for("", to)
    if as_json and to not in (None, "jsonl"):
        raise OptionError(f"--json: writes JSON lines, but --to says {to}; leave one of both out")
    if to is not None and output is None and not as_json:
        raise OptionError("--to: says what -o writes; add -o FILE, or -o - for standard output")


def _read(model: Any, source: Source) -> Pool:
    pool = Pool([], [], [], [])
    if os.path.isfile(source.path) and os.path.getsize(source.path) == 0:
        return pool._replace(names=input_names(model))
    for piece in source.file_pieces(model):
        corpus, split = piece.data, piece.split
        inputs = inputs_of(model, corpus)
        # of CoNLL-U not all columns
        shown = inputs if "form" in corpus.names and "upos" in corpus.names else corpus
        pool.names[:] = shown.names
        for sentence in shown.renamed(shown.names, None).X:
            pool.rows.append(
                [token if isinstance(token, tuple) else (token,) for token in sentence]
            )
        pool.inputs.extend(inputs.X)
        if split is None:
            pool.texts.extend([(None, [])] * len(corpus))
            continue
        for tokens, number in zip(split.places, split.text_of, strict=True):
            begin, end = (tokens[0][0], tokens[-1][1]) if tokens else (0, 0)
            text = split.texts[number][begin:end] if tokens else None
            pool.texts.append((text, [(a - begin, b - begin) for a, b in tokens]))
    return pool


def _ranked_lines(
    pool: Pool, ranked: "list[RankedSentence]", by: str, top: int | None
) -> list[str]:
    """A table of the first sentences, with what the model would mark in them in brackets."""
    from labelwright.corpus.schemes import is_chunk_label
    from labelwright.corpus.spans import spans_of

    shown = ranked[: top or SHOWN]
    table = [("rank", "sentence", by, "predicted")]
    for number, each in enumerate(shown, 1):
        words = [row[0] for row in pool.rows[each.sentence]]
        for span in spans_of(each.labels) if all(map(is_chunk_label, each.labels)) else ():
            words[span.start] = f"[{words[span.start]}"
            words[span.end - 1] += f" {span.type}]"
        text = shortened(" ".join(words), WIDTH)
        table.append((str(number), f"{each.sentence:,}", f"{each.score:.4g}", text))
    lines = align(table, {3})
    if len(shown) < len(ranked):
        lines.append(
            f"{counted(len(ranked) - len(shown), 'further sentence')}; --top N shows N, -o FILE "
            "writes all"
        )
    return lines


# -- labelwright doubts ----------------------------------------------------------------------------

AROUND = 4  # words of context on either side
HEADS = ("sentence", "P(gold)", "gold", "suggested", "P", "text")
LOOKING = "Doubts"
DOUBTS_HELP = """\
Find labels of the training data that look wrong: the data are cut into folds, each fold is labelled
by a model that is trained on the others, and labels come first which this model finds improbable
while it is sure of another one.  Options for data and settings are those of `labelwright train`.

\b
  labelwright doubts train.txt --template ner
  labelwright doubts train.txt --template ner --top 100 -o look.txt
  labelwright doubts train.txt --model semi-crf --folds 10 --json
  labelwright doubts train.txt --apply look.txt -o corrected.txt

A doubt is a span to which the model prefers another, or none, or a probable span where none is
annotated (--by span); or a token with a label to which it prefers another (--by token).  -o writes
the sentences with doubts, the most doubtful first: as columns, the file with four more columns (the
predicted label, the probability of the annotated label, the number of the doubt on its tokens, _ on
others, and the number of the sentence in TRAIN).  Correct the label column there, and --apply puts
these labels back into TRAIN.  Labels that no other fold has get probability 0.
Of labels that are known in part, those that are unknown (_) are never doubted, and sets
(B-PER|B-ORG) by the probability of the whole set.  Settings of a recipe for a search or development
data are not used.
"""
OWN = [
    option(
        "--by NAME",
        "span, token or sentence.",
        LOOKING,
        Choice(["span", "token", "sentence"]),
        shown="span where labels follow a scheme, otherwise token",
    ),
    recipe_key(
        option("--folds K", "Folds of the cross-validation.", LOOKING, Whole(Bounds(AtLeast(2))), 5)
    ),
    option(
        "--layer NAME",
        "The layer of a cascade whose labels are looked at.",
        LOOKING,
        shown="the highest",
    ),
    option("--top N", "The first N doubts.", LOOKING, POSITIVE, shown="all"),
    option(
        "--apply FILE",
        "Look for no doubts: FILE, from -o, is corrected; write TRAIN with its labels to -o.",
        LOOKING,
    ),
    option("-o --output FILE", "Write the sentences with doubts, for annotators.", OUTPUT),
    TO,
    usual.JSON,
    QUIET,
]
NOT_USED = ("dev", "search", "learning_curve", "start_from", "calibrate")  # of recipes


def doubts_command(given: Sequence[str]) -> TrainCommand:
    """The command for the tagger that these arguments ask for."""
    name = asked_tagger(given)

    def of_data(setting: Setting) -> bool:
        return (setting.group == DATA and setting.name != "dev") or setting.name == "random_state"

    settings = {each.name: each for each in (*settings_of_run(name, of_data), *OWN)}
    shown = in_order(settings.values(), {**PLACES, LOOKING: 0.5})
    return TrainCommand(name, DOUBTS_HELP, shown, _doubts)


def _doubts(source: str, name: str, options: dict[str, Any]) -> None:
    """Cross-validate, and show or write what is doubtful; or write the data with corrected
    labels."""
    from labelwright.active.annotator_files import annotator_file, format_for
    from labelwright.active.suspicious import doubts
    from labelwright.corpus.compressed import write_bytes

    asked = request(name, {**RUN, **{each.name: each for each in OWN}}, options)
    asked = asked._replace(
        values={key: value for key, value in asked.values.items() if key not in NOT_USED}
    )
    output, top, to, folds = (
        asked.get("output"),
        asked.get("top"),
        asked.get("to"),
        asked.get("folds", 5),
    )
    quiet = bool(asked.get("quiet"))
    _check_format(to, output)
    if output is not None:
        check_target(output, [source, *asked.files(), asked.get("apply")])
    if asked.get("apply") is not None:
        if output is None:
            raise OptionError(
                "--apply: add -o FILE for the corrected data, or -o - for standard output"
            )
        if to not in (None, "columns"):
            raise OptionError("--to: not with --apply, which writes columns; leave it out")
    model = tagger(asked, {}) if asked.get("apply") is None else None
    data, _ = read_data(source, asked, asked.kind._label_columns(asked.table))
    if has_attributes(data):
        raise OptionError(
            f"{source}: CRFsuite's data have no words to show; use labelwright.active.doubts in "
            "Python"
        )
    column = data.label or str(asked.get("layer") or list(asked.table["layers"])[-1]["name"])
    if model is None:
        _apply(data, column, asked.values["apply"], output, quiet)
        return
    done = count(1)

    def progress(part: Any) -> None:
        sizes = f"{part.n_train:,} + {part.n_test:,} sentences"
        say(
            f"fold {next(done)}/{folds}  {sizes}  {counted(part.n_doubts, 'doubt')}  "
            f"{part.seconds:.2f} s"
        )

    asking = {key: asked.get(key) for key in ("by", "layer", "random_state")}
    with asked.named():
        result = doubts(model, data, folds=folds, progress=None if quiet else progress, **asking)
    chosen = result.doubts[:top]
    if output is not None:
        items = _items(data, result, chosen, column)
        names = [each for each in data.names if each != column]
        write_bytes(output, annotator_file(items, names, format_for(output, to)))
        if output != "-" and not quiet:
            say(f"{output}: {counted(len(chosen), 'doubt')} in {counted(len(items), 'sentence')}")
    if asked.get("json") or output is None:
        facts = {
            "by": result.by,
            "sentences": len(data),
            "doubts": [_fact(data, each) for each in chosen],
        }
        most = top or SHOWN
        left = counted(len(result.doubts) - most, "further doubt")
        more = (
            [f"{left}; {'' if top else '--top N shows N, '}-o FILE writes them"]
            if len(result.doubts) > most
            else []
        )
        report(facts, bool(asked.get("json")), lambda _: [*_doubt_lines(facts, most), *more])


def _apply(data: "Corpus", column: str, path: str, output: str, quiet: bool) -> None:
    from labelwright.active.annotator_files import corrected, read_corrections
    from labelwright.corpus import write_columns

    made = corrected(data, read_corrections(path, len(data.names)), column)
    changed = sum(
        old != new for old, new in zip(data.tokens(column), made.tokens(column), strict=True)
    )
    write_columns(made, output)
    if output != "-" and not quiet:
        say(f"{output}: {counted(changed, 'label')} of {counted(made.n_tokens, 'token')} changed")


def _items(
    data: "Corpus", result: "Doubts", chosen: "Sequence[Doubt]", column: str
) -> "list[ToAnnotate]":
    """The sentences of the chosen doubts, the most doubtful first."""
    from labelwright.active.annotator_files import ToAnnotate

    by_sentence: dict[int, list[tuple[int, Doubt]]] = {}
    for number, each in enumerate(chosen, 1):
        by_sentence.setdefault(each.sentence, []).append((number, each))
    some, items = data.take(list(by_sentence)), []
    rows = zip(*(some.column(name) for name in data.names if name != column), strict=True)
    for number, labels, columns in zip(by_sentence, some.column(column), rows, strict=True):
        held, marks = result.sentences[number], ["_"] * len(labels)
        for rank, each in reversed(by_sentence[number]):
            start, end = each.place
            marks[start:end] = [str(rank)] * (end - start)
        listed = [each.as_dict() for _, each in by_sentence[number]]
        p = [None if value is None else round(value, 6) for value in held.probabilities]
        facts = {"sentence": number, "predicted": held.labels, "probabilities": p, "doubts": listed}
        shown = ["_" if value is None else f"{value:.4f}" for value in p]
        more = [held.labels, shown, marks, [str(number)] * len(labels)]
        items.append(ToAnnotate(list(zip(*columns, strict=True)), labels, facts, more))
    return items


def _fact(data: "Corpus", doubt: "Doubt") -> dict[str, Any]:
    begin, end = data.offsets[doubt.sentence : doubt.sentence + 2].tolist()
    column = data.columns[data.names.index(data.input_names[0])]
    words = [column.values[code] for code in column.codes[begin:end].tolist()]
    start, end = doubt.place
    return doubt.as_dict() | {"text": " ".join(words[start:end]), "tokens": words}


def _doubt_lines(facts: dict[str, Any], most: int) -> list[str]:
    """A table of doubts, each with some words around it: the annotated span in brackets and, where
    it has other bounds, the suggested one in braces.  Of a doubt about a sentence as a whole there
    is nothing to suggest."""
    rows = []
    for each in facts["doubts"][:most]:
        words, gold, suggested = list(each["tokens"]), each["gold"], each["suggested"]
        row = [f"{each['sentence']:,}", f"{each['probability']:.4f}"]
        if facts["by"] == "sentence":
            rows.append([*row, shortened(" ".join(words), WIDTH)])
            continue
        annotated, other = (span and (span["start"], span["end"]) for span in (gold, suggested))
        for place, (left, right) in (
            (other if other != annotated else None, "{}"),
            (annotated, "[]"),
        ):
            if place:
                words[place[0]] = f"{left}{words[place[0]]}"
                words[place[1] - 1] += right
        starts, ends = zip(*filter(None, (annotated, other)), strict=True)
        text = in_context(words, min(starts), max(ends), AROUND)
        types = [span["type"] if span else "-" for span in (gold, suggested)]
        rows.append([*row, *types, f"{each['suggested_probability']:.3f}", text])
    if not rows:
        return ["no doubts: the models agree with every label"]
    return align(
        [HEADS if facts["by"] != "sentence" else (*HEADS[:2], HEADS[-1]), *rows], range(2, 6)
    )
