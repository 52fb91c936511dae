"""labelwright explain: why a token has its label."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from labelwright.cli.explain_text import sentence_lines
from labelwright.cli.files import (
    check_layer,
    check_target,
    file_options,
    gold_for,
    inputs_of,
    label_place,
    layer_names,
    load_model,
    open_for,
    rows_for,
    write_page,
)
from labelwright.cli.options import (
    ARRAYS,
    DATA,
    DECODING,
    JSON,
    MAX_INPUT,
    NOT_NEGATIVE,
    OUTPUT,
    POSITIVE,
    SPLITTING,
    THREADS,
    Command,
    Options,
    argument,
    option,
)
from labelwright.cli.show import report, say
from labelwright.cli.tag_input import ToTag, to_tag, tokenizer_given
from labelwright.errors import CorpusError, LabelwrightError, OptionError
from labelwright.settings import Whole
from labelwright.wording import counted

if TYPE_CHECKING:
    from labelwright.corpus.file_formats import OpenFile
    from labelwright.corpus.table import Corpus
    from labelwright.corpus.tokenizer import Tokenizer

Gold = dict[str, dict[int, list[Any]]]  # by output and sentence; None or a set where the file leaves a label open
ON_A_PAGE = 20  # sentences of a page, or with wrong labels, where none is named
HELP = """\
Show why a token has its label: the runner-up, and what each feature and transition adds to their log-odds.

The best labelling of the sentence is compared with the best one that has another label at the token. The
contributions add up to the difference of their scores; transitions are shown as one net contribution of those into
the token and one of those out of it. It also shows the features without which the token would have another label.
Where FILE has labels, they are shown as gold, and wrong tokens are marked.

Memory-based models: the nearest neighbours with the training sentences they come from, and what the overlapping
predictions weigh. Cascades: labels of the layer below are features (y[0]=NN); --below explains these, too.

\b
  labelwright explain model.crf test.txt --sentence 3
  labelwright explain model.crf test.txt --sentence 3 --token 0 --against B-ORG
  labelwright explain model.crf test.txt --wrong
  labelwright explain model.crf test.txt --first 50 --html why.html

--text reads plain text, which is split as `labelwright tag --text` splits it. Tokens of texts are shown with their
places, in characters from 0.

\b
  labelwright explain names.crf letter.txt --text --sentence 1
"""
OPTIONS = [
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
    option("--wrong", "Only wrong tokens, of sentences that have any; FILE has labels.", DATA, not_with="token"),
    option("--columns NAMES", "Names of the columns of FILE.", DATA, shown="those of the model"),
    option("--text", "FILE is plain text.", DATA),
    *SPLITTING,
    ARRAYS,
    MAX_INPUT,
    option("--against LABEL", "Compare with this label.", DECODING, shown="the runner-up"),
    option("--constraints scheme", "scheme: compare only labellings that the label scheme permits.", DECODING),
    option("--layer NAME", "Of a cascade: explain this layer.", DECODING, shown="the highest"),
    option("--below", "Of a cascade: explain the layers below, too.", DECODING),
    option("--top N", "Show this many contributions, neighbours.", OUTPUT, NOT_NEGATIVE, 12),
    option("--html FILE", "Write a page to look at in a browser.", OUTPUT),
    JSON,
    THREADS,
]


def _explain(o: Options) -> None:
    if o.html is not None:
        check_target(o.html, [o.model, o.file])
    tagger = load_model(o.model, o.n_jobs)
    layers = _layers(tagger, o)
    tokenizer, rows = tokenizer_given(tagger.tokenizer(), o), rows_for(tagger, o.arrays)
    source = open_for(tagger, o.file, "text" if o.text else None, o.columns)
    data = to_tag(tagger, source, o.columns, None, tokenizer)
    data = data if rows is None else data._replace(data=rows.whole(data.data))
    if not data.data.n_tokens:
        raise CorpusError(f"{o.file}: has no tokens to explain")
    numbers = list(_numbers(data.data, o))
    n_sentences, most = len(numbers), o.first or (ON_A_PAGE if o.wrong or o.html is not None else 1)
    numbers = numbers if o.wrong else numbers[:most]
    gold = _gold(tagger, source, data.data, o, tokenizer, numbers)
    if o.wrong:
        if layers[0] not in gold:
            raise OptionError(f"--wrong: {o.file} has no labels to compare with; leave it out")
        numbers = _with_mistakes(tagger, data.data, numbers, layers[0], gold, o)
        n_sentences, numbers = len(numbers), numbers[:most]
    facts: dict[str, Any] = {"model": o.model, "kind": type(tagger).__name__, "file": o.file}
    facts["sentences"] = [_explained(tagger, data, number, layers, gold, o) for number in numbers]
    if o.against is not None:
        _say_own_label(facts["sentences"], o.against)
    if o.html is not None:
        from labelwright.inspection.explanation_page import page

        shown = len(numbers)
        more = "" if shown in (1, n_sentences) else f" of {n_sentences:,}; --first N shows more"
        write_page(o.html, page(facts), f"{shown} sentence{'s' if shown != 1 else ''}{more}")
    if o.json or o.html is None:
        report(facts, o.json, lambda facts: _lines(facts, o))
    if o.wrong and o.html is None:
        more = f"; the first {len(numbers)} shown, --first N shows more" if len(numbers) < n_sentences else ""
        say(f"{o.file}: {counted(n_sentences, 'sentence')} with wrong labels{more}")


explain_command = Command(HELP, OPTIONS, _explain)


def _lines(facts: dict[str, Any], o: Options) -> Iterator[str]:
    """All sentences as text."""
    for position, each in enumerate(facts["sentences"]):
        yield from [""] if position else []
        yield from sentence_lines(each, o.file, o.token is not None, o.top)
    if o.token is None and facts["sentences"]:
        yield f"\none token in full: add --sentence {facts['sentences'][-1]['sentence']} --token N"


def _layers(tagger: Any, o: Options) -> list[str]:
    """The layers of a cascade that are shown, the highest first; of other models the one without a name."""
    names, kind = layer_names(tagger), type(tagger).__name__
    check_layer(o.layer, names, o.model, kind)
    if not names:
        check_layer("" if o.below else None, names, o.model, kind, "--below")
        return [""]
    highest = names.index(o.layer) if o.layer is not None else len(names) - 1
    return names[: highest + 1][::-1] if o.below else [names[highest]]


def _numbers(corpus: "Corpus", o: Options) -> range:
    """The sentences that may be explained: all, or the one that is named."""
    if o.sentence is None:
        return range(len(corpus))
    if not 0 <= o.sentence < len(corpus):
        what = f"sentences 0 to {len(corpus) - 1}" if len(corpus) else "no sentences"
        raise OptionError(f"--sentence: {o.file} has {what}, got {o.sentence}")
    return range(o.sentence, o.sentence + 1)


def _gold(
    tagger: Any, file: "OpenFile", corpus: "Corpus", o: Options, tokenizer: "Tokenizer | None", numbers: list[int]
) -> Gold:
    """The labels that a file has for some sentences, in the scheme of the model."""
    from labelwright.corpus.file_formats import RECORDS
    from labelwright.corpus.partial_labels import left_open
    from labelwright.corpus.schemes import convert
    from labelwright.inspection.warnings import scheme_differs

    labelled, gold = corpus, Gold()
    try:
        if file.format in RECORDS:
            labelled = gold_for(tagger, file, o.columns, None, file_options(o, tokenizer or tagger.tokenizer()))
        for name, output in tagger._outputs.items():
            column = name or labelled.label or label_place(tagger)[1]
            if column in labelled.names and labelled.n_tokens == corpus.n_tokens:
                labels, bounds = labelled.tokens(column), corpus.offsets.tolist()
                sentences = [labels[bounds[n] : bounds[n + 1]] for n in numbers]
                if scheme_differs(output, labelled, column):
                    sentences = convert(sentences, None, output.scheme_)
                sentences.append(list(labelled.values(column)))  # which tell what is a set of labels
                gold[name] = dict(zip(numbers, left_open(sentences, output.classes_), strict=False))
    except LabelwrightError:  # it has none, or none in the scheme of the model
        if o.wrong:
            raise
    return gold


def _is_wrong(label: Any, gold: Any) -> bool:
    return gold is not None and (label not in gold if isinstance(gold, frozenset) else label != gold)


def _with_mistakes(tagger: Any, corpus: "Corpus", numbers: list[int], layer: str, gold: Gold, o: Options) -> list[int]:
    """Those of some sentences that have a token with a wrong label."""
    inputs = inputs_of(tagger, corpus).take(numbers)
    answers = tagger.decode(inputs, constraints=o.constraints, probabilities=False)
    decoded = answers[layer] if layer else answers
    return [n for n, each in zip(numbers, decoded, strict=True) if any(map(_is_wrong, each.labels, gold[layer][n]))]


def _explained(tagger: Any, data: ToTag, number: int, layers: list[str], gold: Gold, o: Options) -> dict[str, Any]:
    """One sentence, the layers that are shown; of texts with the places of tokens, in characters."""
    from labelwright.inspection.explanation import sentence_facts

    corpus = inputs_of(tagger, data.data)
    length = int(corpus.offsets[number + 1] - corpus.offsets[number])
    if o.token is not None and not 0 <= o.token < length:
        what = f"tokens 0 to {length - 1}" if length else "no tokens"
        raise OptionError(f"--token: sentence {number} of {o.file} has {what}, got {o.token}")
    facts = sentence_facts(tagger, corpus, number, o.token, o.against, o.constraints)
    facts["layers"] = {name: facts["layers"][name] for name in layers}
    _add_gold(facts, gold, layers[0] if o.wrong else None)
    if data.split is not None:
        facts["text"] = data.split.text_of[number] if len(data.split.texts) > 1 else None
        for tokens in facts["layers"].values():
            for each in tokens:
                each["start"], each["end"] = data.split.places[number][each["token"]]
    return facts


def _add_gold(facts: dict[str, Any], labels: Gold, wrong_in: str | None) -> None:
    """The gold labels of a sentence; only tokens that are wrong in a layer, if these are asked for."""
    from labelwright.corpus.partial_labels import written

    for name, tokens in facts["layers"].items():
        for each in tokens:
            gold = labels[name][facts["sentence"]][each["token"]] if name in labels else None
            each["gold"] = written(gold) if isinstance(gold, frozenset) else gold
            each["wrong"] = _is_wrong(each["label"], gold)
    if wrong_in is not None:
        kept = {each["token"] for each in facts["layers"][wrong_in] if each["wrong"]}
        for name, tokens in facts["layers"].items():
            facts["layers"][name] = [each for each in tokens if each["token"] in kept]


def _say_own_label(sentences: list[dict[str, Any]], against: str) -> None:
    """Say how many tokens have the label that they shall be compared with; the runner-up takes its place."""
    tokens = [each for facts in sentences for layer in facts["layers"].values() for each in layer]
    same = sum(each["label"] == against for each in tokens)
    if len(tokens) == same == 1:
        say(f"--against: {against} is the predicted label of this token; compared with the runner-up")
    elif same:
        what = "is" if same == 1 else "are"
        say(f"--against: {against} is predicted at {counted(same, 'token')}, which {what} compared with the runner-up")
