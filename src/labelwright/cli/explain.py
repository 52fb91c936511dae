"""labelwright explain: why a token has its label."""

from collections.abc import Iterator, Sequence
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from labelwright.cli import files
from labelwright.cli import options as usual
from labelwright.cli.options import (
    DATA,
    DECODING,
    NOT_NEGATIVE,
    OUTPUT,
    POSITIVE,
    argument,
    command,
    option,
)
from labelwright.cli.show import (
    BAR,
    HALF,
    Heading,
    bar,
    named_rows,
    report,
    say,
    section,
    signed_bar,
)
from labelwright.cli.tag_input import ToTag, to_tag, tokenizer_given
from labelwright.errors import CorpusError, LabelwrightError, OptionError
from labelwright.settings import Whole
from labelwright.wording import align, counted, shortened

if TYPE_CHECKING:
    from labelwright.corpus.file_formats import OpenFile
    from labelwright.corpus.table import Corpus
    from labelwright.corpus.tokenizer import Tokenizer
    from labelwright.inspection.explanation import Part

Facts = dict[str, Any]
# by output and sentence; None or a set where the file leaves a label open
Gold = dict[str, dict[int, list[Any]]]
REASONS = 3  # features of a token in short
LONG = 48  # letters of a name in short
ON_A_PAGE = 20  # sentences of a page, or with wrong labels, where none is named


@command(
    argument("model", "MODEL", "A model file."),
    argument("file", "FILE", "The sentences, with or without labels; - is standard input."),
    option("--sentence N", "Which sentence, from 0.", DATA, Whole(), shown="the first"),
    option("--token N", "Which token, from 0.", DATA, Whole(), shown="all, in short"),
    option(
        "--first N",
        "The first N sentences, instead of one.",
        DATA,
        POSITIVE,
        shown=f"1; with --html or --wrong {ON_A_PAGE}",
        not_with="sentence",
    ),
    option(
        "--wrong",
        "Only wrong tokens, of sentences that have any; FILE has labels.",
        DATA,
        not_with="token",
    ),
    option("--columns NAMES", "Names of the columns of FILE.", DATA, shown="those of the model"),
    option("--text", "FILE is plain text.", DATA),
    *usual.SPLITTING,
    usual.ARRAYS,
    usual.MAX_INPUT,
    option("--against LABEL", "Compare with this label.", DECODING, shown="the runner-up"),
    option(
        "--constraints scheme",
        "scheme: compare only labellings that the label scheme permits.",
        DECODING,
    ),
    option("--layer NAME", "Of a cascade: explain this layer.", DECODING, shown="the highest"),
    option("--below", "Of a cascade: explain the layers below, too.", DECODING),
    option("--top N", "Show this many contributions, neighbours.", OUTPUT, NOT_NEGATIVE, 12),
    option("--html FILE", "Write a page to look at in a browser.", OUTPUT),
    usual.JSON,
    usual.THREADS,
)
def explain_command(o: Any) -> None:
    """Show why a token has its label: the runner-up, and what each feature and transition adds to
    their log-odds.

    The best labelling of the sentence is compared with the best one that has another label at the
    token. The contributions add up to the difference of their scores; transitions are shown as one
    net contribution of those into the token and one of those out of it. It also shows the features
    without which the token would have another label. Where FILE has labels, they are shown as gold,
    and wrong tokens are marked.

    Memory-based models: the nearest neighbours with the training sentences they come from, and what
    the overlapping predictions weigh. Cascades: labels of the layer below are features (y[0]=NN);
    --below explains these, too.

    \b
      labelwright explain model.crf test.txt --sentence 3
      labelwright explain model.crf test.txt --sentence 3 --token 0 --against O
      labelwright explain model.crf test.txt --wrong
      labelwright explain model.crf test.txt --first 50 --html why.html

    --text reads plain text, which is split as `labelwright tag --text` splits it. Tokens of texts
    are shown with their places, in characters from 0.

    \b
      labelwright explain names.crf letter.txt --text --sentence 1
    """
    from labelwright.inspection.explanation import is_wrong
    from labelwright.inspection.report_page import explanation_page

    if o.html is not None:
        files.check_target(o.html, [o.model, o.file])
    tagger = files.load_model(o.model, o.n_jobs)
    layers = _layers(tagger, o)
    tokenizer, rows = tokenizer_given(tagger.tokenizer(), o), files.rows_for(tagger, o.arrays)
    source = files.open_for(tagger, o.file, "text" if o.text else None, o.columns)
    data = to_tag(tagger, source, o.columns, None, tokenizer)
    data = data if rows is None else data._replace(data=rows.beside(data.data))
    if not data.data.n_tokens:
        raise CorpusError(f"{o.file}: has no tokens to explain")
    numbers, last = list(range(len(data.data))), len(data.data) - 1
    if o.sentence is not None and o.sentence not in numbers:
        raise OptionError(f"--sentence: {o.file} has sentences 0 to {last}, got {o.sentence}")
    numbers = numbers if o.sentence is None else [o.sentence]
    n_sentences, most = len(numbers), o.first or (ON_A_PAGE if o.wrong or o.html is not None else 1)
    numbers = numbers if o.wrong else numbers[:most]
    gold = _gold(tagger, source, data.data, o, tokenizer or tagger.tokenizer(), numbers)
    if o.wrong:
        if layers[0] not in gold:
            raise OptionError(f"--wrong: {o.file} has no labels to compare with; leave it out")
        inputs = files.inputs_of(tagger, data.data).take(numbers)
        answers = tagger.decode(inputs, constraints=o.constraints, probabilities=False)
        decoded = dict(zip(numbers, answers[layers[0]] if layers[0] else answers, strict=True))
        numbers = [n for n in numbers if any(map(is_wrong, decoded[n].labels, gold[layers[0]][n]))]
        n_sentences, numbers = len(numbers), numbers[:most]
    facts: Facts = {"model": o.model, "kind": type(tagger).__name__, "file": o.file}
    facts["sentences"] = [_explained(tagger, data, number, layers, gold, o) for number in numbers]
    if o.against is not None:
        _say_own_label(facts["sentences"], o.against)
    if o.html is not None:
        more = (
            "" if len(numbers) in (1, n_sentences) else f" of {n_sentences:,}; --first N shows more"
        )
        files.write_page(
            o.html, explanation_page(facts), f"{counted(len(numbers), 'sentence')}{more}"
        )
    if o.json or o.html is None:
        report(facts, o.json, lambda facts: _lines(facts, o))
    if o.wrong and o.html is None:
        more = (
            f"; the first {len(numbers)} shown, --first N shows more"
            if len(numbers) < n_sentences
            else ""
        )
        say(f"{o.file}: {counted(n_sentences, 'sentence')} with wrong labels{more}")


def _layers(tagger: Any, o: Any) -> list[str]:
    """The layers of a cascade that are shown, the highest first; of other models the one without a
    name."""
    names, kind = files.layer_names(tagger), type(tagger).__name__
    files.check_layer(o.layer, names, o.model, kind)
    if not names:
        files.check_layer("" if o.below else None, names, o.model, kind, "--below")
        return [""]
    highest = names.index(o.layer) if o.layer is not None else len(names) - 1
    return names[: highest + 1][::-1] if o.below else [names[highest]]


def _gold(
    tagger: Any,
    file: "OpenFile",
    corpus: "Corpus",
    o: Any,
    tokenizer: "Tokenizer",
    numbers: list[int],
) -> Gold:
    """The labels that a file has for some sentences, in the scheme of the model."""
    from labelwright.corpus.file_formats import RECORDS

    labelled, gold = corpus, Gold()
    try:
        if file.format in RECORDS:
            labelled = files.gold_for(
                tagger, file, o.columns, None, files.file_options(o, tokenizer)
            )
        for name, output in tagger._outputs.items():
            column = name or labelled.label or files.label_place(tagger)[1]
            if column in labelled.names and labelled.n_tokens == corpus.n_tokens:
                gold[name] = files.gold_labels(output, labelled, column, corpus.offsets, numbers)
    except LabelwrightError:  # it has none, or none in the scheme of the model
        if o.wrong:
            raise
    return gold


def _explained(
    tagger: Any, data: ToTag, number: int, layers: list[str], gold: Gold, o: Any
) -> Facts:
    """One sentence, the layers that are shown, with gold labels; of texts with the places of
    tokens, in characters."""
    from labelwright.inspection.explanation import sentence_facts

    corpus = files.inputs_of(tagger, data.data)
    length = int(corpus.offsets[number + 1] - corpus.offsets[number])
    if o.token is not None and not 0 <= o.token < length:
        what = f"tokens 0 to {length - 1}" if length else "no tokens"
        raise OptionError(f"--token: sentence {number} of {o.file} has {what}, got {o.token}")
    labels = {name: rows[number] for name, rows in gold.items()}
    facts = sentence_facts(tagger, corpus, number, o.token, o.against, o.constraints, labels)
    facts["layers"] = {name: facts["layers"][name] for name in layers}
    for each in (
        token for tokens in facts["layers"].values() if data.split is not None for token in tokens
    ):
        each["start"], each["end"] = data.split.places[number][each["token"]]  # type: ignore[union-attr]
    if o.wrong:  # only tokens that are wrong in the highest layer
        kept = {each["token"] for each in facts["layers"][layers[0]] if each["wrong"]}
        for name, tokens in facts["layers"].items():
            facts["layers"][name] = [each for each in tokens if each["token"] in kept]
    if data.split is not None:
        facts["text"] = data.split.text_of[number] if len(data.split.texts) > 1 else None
    return facts


def _say_own_label(sentences: list[Facts], against: str) -> None:
    """Say how many tokens have the label that they shall be compared with; the runner-up takes its
    place."""
    tokens = [each for facts in sentences for layer in facts["layers"].values() for each in layer]
    same = sum(each["label"] == against for each in tokens)
    if len(tokens) == same == 1:
        say(
            f"--against: {against} is the predicted label of this token; compared with the "
            "runner-up"
        )
    elif same:
        what = "is" if same == 1 else "are"
        say(
            f"--against: {against} is predicted at {counted(same, 'token')}, which {what} compared "
            "with the runner-up"
        )


# -- text ------------------------------------------------------------------------------------------


def _lines(facts: Facts, o: Any) -> Iterator[str]:
    """Sentences with all their tokens in short, or one token in full."""
    between = False
    for each in facts["sentences"]:
        for layer, tokens in each["layers"].items():
            yield from [""] if between else []
            of = f"{o.file}, layer {layer}" if layer else o.file
            of = of if each.get("text") is None else f"{of}, text {each['text']}"
            between, number = True, each["sentence"]
            if o.token is None:
                yield Heading(f"sentence {number} of {of}")
                yield from _in_short(tokens, each["words"])
            else:
                yield Heading(
                    f"sentence {number}, token {o.token} of {of}: {tokens[0]['word'] or ''}"
                )
                yield from _in_full(tokens[0], each["words"], o.top)
    if o.token is None and facts["sentences"]:
        yield f"\none token in full: add --sentence {facts['sentences'][-1]['sentence']} --token N"


def _in_short(tokens: Sequence[Facts], words: Sequence[str]) -> list[str]:
    """A line for each token: its label, the runner-up, and the strongest reasons."""
    if not tokens:
        return ["  no tokens"]
    rows: list[dict[str, str]] = []
    for each in tokens:
        chance, odds = each["probability"], each["log_odds"]
        row = {"": f"{'✗ ' if each['wrong'] else ''}{each['token']}"}
        row["place"] = f"{each['start']}-{each['end']}" if "start" in each else ""
        row |= {
            "word": shortened(each["word"] or "", LONG),
            "gold": each["gold"] or "",
            "label": each["label"],
        }
        row |= {
            "prob": "" if chance is None else f"{chance:.3f}",
            "runner-up": each["runner_up"] or "-",
        }
        rows.append(row | {each["measure"]: "" if odds is None else f"{odds:.3f}"})
    names = [name for name in rows[0] if any(row[name] for row in rows)]
    left = {i for i, name in enumerate(names) if name in ("word", "gold", "label", "runner-up")}
    table = align([names, *([row[name] for name in names] for row in rows)], left)
    reasons = [["strongest contributions"], *(_reasons(each, words) for each in tokens)]
    wide, pairs = max(map(len, table)), list(zip(table, reasons, strict=True))
    lines = [f"  {cells:<{wide}}  {'  '.join(why)}".rstrip() for cells, why in pairs]
    longest = max(map(len, lines))
    width = get_terminal_size((longest, 0)).columns  # a pipe is as wide as the table
    if longest <= width:
        return lines
    lines = []
    for cells, why in pairs:  # the reasons follow below each token
        lines.append(f"  {cells}")
        for k, part in enumerate(why):
            if k and len(lines[-1]) + 2 + len(part) <= width:
                lines[-1] += f"  {part}"
            else:
                lines.append(f"{'':8}{part}")
    return lines


def _reasons(each: Facts, words: Sequence[str]) -> list[str]:
    """The strongest features, with their place where it is not the token, and the net contributions
    of transitions."""
    from labelwright.inspection.explanation import in_view, place_of

    features, transitions = in_view(each)
    reasons = []
    for row in features[:REASONS]:
        here = row["token"] is None or row["token"] <= each["token"] < row["end"]
        place = "" if here else f" {shortened(place_of(row, words), LONG)}"
        reasons.append(f"{row['value']:+.2f} {shortened(row['name'], LONG)}{place}")
    if transitions:
        reasons.append(
            "transitions " + ", ".join(f"{row['value']:+.2f} {row['where']}" for row in transitions)
        )
    return [*reasons, "(flips)"] if each["flips"] else reasons


def _in_full(each: Facts, words: Sequence[str], top: int) -> Iterator[str]:
    from labelwright.inspection.explanation import parts_of

    def with_chance(label: str, chance: float | None) -> str:
        return label if chance is None else f"{label}  (probability {chance:.4f})"

    rows = [("place", f"characters {each['start']} to {each['end']}")] if "start" in each else []
    rows.append(("label", with_chance(each["label"], each["probability"])))
    if each["gold"] is not None:
        rows.append(
            ("gold", f"{each['gold']}{'  (✗ the label is wrong)' if each['wrong'] else ''}")
        )
    if each["runner_up"] is None:
        rows.append(("runner-up", "none: no other label is possible, or none was proposed"))
    else:
        rows.append(("runner-up", with_chance(each["runner_up"], each["runner_up_probability"])))
        rows.append((each["measure"], f"{each['log_odds']:.4f}"))
    yield from named_rows(rows)
    for part in parts_of(each, words, top):
        yield from section(part.title, _part_lines(part)) if part.rows else ["", part.title]


def _part_lines(part: "Part") -> Iterator[str]:
    """The rows of a part: texts, or numbers with bars from an axis, or from the left, and texts."""
    axis = f"{'│':^{2 * HALF + 1}}"
    for row in part.rows:
        cells = [row.text]
        if part.bars == "axis":
            cells = [row.number, axis if row.bar is None else signed_bar(row.bar, 1.0), row.text]
        elif part.bars:
            cells = [row.number, f"{bar(row.bar or 0.0, 1.0):<{BAR}}", row.text]
        yield f"  {'  '.join(cells)}".rstrip()
