"""labelwright explain: why a token has its label."""

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from labelwright.cli.arrays import Arrays, rows_for
from labelwright.cli.common import (
    Json,
    Threads,
    check_target,
    counted,
    inputs_of,
    label_place,
    layer_names,
    load_model,
    say,
    show,
    show_json,
    write_page,
)
from labelwright.cli.eval import gold_for
from labelwright.cli.options import DATA, DECODING, OUTPUT, argument, option
from labelwright.cli.reading import ToTag, open_for, to_tag
from labelwright.cli.tag_text import Characters, Sentences, TokenizerName, TokenPattern, tokenizer_given
from labelwright.errors import CorpusError, LabelwrightError, OptionError

if TYPE_CHECKING:
    from labelwright.corpus.file_formats import OpenFile
    from labelwright.corpus.table import Corpus
    from labelwright.corpus.tokenizer import SplitTexts, Tokenizer

ON_A_PAGE = 20  # sentences of a page, or with wrong labels, where none is named


class Question(NamedTuple):
    """What is asked about each sentence."""

    token: int | None  # None: all
    against: str | None
    constraints: str | None
    layers: list[str]  # of a cascade, the highest first
    gold: dict[str, dict[int, list[Any]]]  # by output and sentence; None or a set where the file leaves a label open
    wrong: bool  # only tokens whose label (in the highest layer) is wrong


def command(
    model: Annotated[str, argument("A model file.", "MODEL")],
    file: Annotated[str, argument("The sentences, with or without labels; - is standard input.", "FILE")],
    sentence: Annotated[int | None, option("Which sentence, from 0. [default: the first]", "N", DATA)] = None,
    token: Annotated[int | None, option("Which token, from 0. [default: all, in short]", "N", DATA)] = None,
    first: Annotated[
        int | None,
        option(f"The first N sentences, instead of one. [default: 1; with --html or --wrong {ON_A_PAGE}]", "N", DATA),
    ] = None,
    wrong: Annotated[
        bool, option("Only wrong tokens, of sentences that have any; FILE has labels.", None, DATA, "--wrong")
    ] = False,
    columns: Annotated[
        str | None, option("Names of the columns of FILE. [default: those of the model]", "NAMES", DATA)
    ] = None,
    text: Annotated[bool, option("FILE is plain text.", None, DATA, "--text")] = False,
    tokenizer: TokenizerName = None,
    characters: Characters = False,
    token_pattern: TokenPattern = None,
    sentences: Sentences = None,
    arrays: Arrays = None,
    against: Annotated[
        str | None, option("Compare with this label. [default: the runner-up]", "LABEL", DECODING)
    ] = None,
    constraints: Annotated[
        str | None, option("scheme: compare only labellings that the label scheme permits.", "scheme", DECODING)
    ] = None,
    layer: Annotated[
        str | None, option("Of a cascade: explain this layer. [default: the highest]", "NAME", DECODING)
    ] = None,
    below: Annotated[bool, option("Of a cascade: explain the layers below, too.", None, DECODING, "--below")] = False,
    top: Annotated[int, option("Show this many contributions, neighbours.", "N", OUTPUT)] = 12,
    html: Annotated[str | None, option("Write a page to look at in a browser.", "FILE", OUTPUT)] = None,
    as_json: Json = False,
    threads: Threads = None,
) -> None:
    """Show why a token has its label: the runner-up, and what each feature and transition adds to their log-odds.

    The best labelling of the sentence is compared with the best one that has another label at the token. The
    contributions add up to the difference of their scores; transitions are shown as one net contribution of those
    into the token and one of those out of it. It also shows the features without which the token would have another
    label. Where FILE has labels, they are shown as gold, and wrong tokens are marked.

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
    _check(sentence, token, first, wrong, top)
    if html is not None:
        check_target(html, [model, file])
    tagger = load_model(model, threads)
    layers = _layers(tagger, model, layer, below)
    splitter = tokenizer_given(tagger.tokenizer(), tokenizer, characters, token_pattern, sentences)
    rows = rows_for(tagger, arrays)
    source = open_for(tagger, file, "text" if text else None, columns)
    data = to_tag(tagger, source, columns, None, splitter)
    data = data if rows is None else data._replace(data=rows.whole(data.data))
    if not data.data.n_tokens:
        raise CorpusError(f"{file}: has no tokens to explain")
    numbers = list(_numbers(data.data, file, sentence))
    n_sentences, most = len(numbers), first or (ON_A_PAGE if wrong or html is not None else 1)
    numbers = numbers if wrong else numbers[:most]
    gold = _gold(tagger, source, data.data, columns, splitter, wrong, numbers)
    if wrong and layers[0] not in gold:
        raise OptionError(f"--wrong: {file} has no labels to compare with; leave it out")
    question = Question(token, against, constraints, layers, gold, wrong)
    if wrong:
        numbers = _with_mistakes(tagger, data.data, numbers, question)
        n_sentences, numbers = len(numbers), numbers[:most]
    facts: dict[str, Any] = {"model": model, "kind": type(tagger).__name__, "file": file}
    facts["sentences"] = [_explained(tagger, data, file, number, question) for number in numbers]
    if against is not None:
        _say_own_label(facts["sentences"], against)
    if html is not None:
        _write_page(facts, html, n_sentences)
    if as_json:
        show_json(facts)
    elif html is None:
        from labelwright.cli.explain_text import show_sentence

        for position, each in enumerate(facts["sentences"]):
            if position:
                show()
            show_sentence(each, file, token is not None, top)
        if token is None and numbers:
            show(f"\none token in full: add --sentence {numbers[-1]} --token N")
    if wrong and html is None:
        more = f"; the first {len(numbers)} shown, --first N shows more" if len(numbers) < n_sentences else ""
        say(f"{file}: {counted(n_sentences, 'sentence')} with wrong labels{more}")


def _check(sentence: int | None, token: int | None, first: int | None, wrong: bool, top: int) -> None:
    """Refuse what is wrong with the options before any file is read."""
    if wrong and token is not None:
        raise OptionError("--wrong: shows all wrong tokens of a sentence, and --token one token; leave one of them out")
    if sentence is not None and first is not None:
        raise OptionError("--first: shows several sentences, and --sentence one; leave one of them out")
    if first is not None and first < 1:
        raise OptionError(f"--first: expected 1 or more, got {first}")
    if top < 0:
        raise OptionError(f"--top: expected 0 or more, got {top}")


def _layers(tagger: Any, path: str, layer: str | None, below: bool) -> list[str]:
    """The layers of a cascade that are shown, the highest first; of other models the one without a name."""
    names = layer_names(tagger)
    for flag, given in (("layer", layer is not None), ("below", below)):
        if given and not names:
            raise OptionError(f"--{flag}: {path} is a {type(tagger).__name__}, which has no layers; leave it out")
    if layer is not None and layer not in names:
        raise OptionError(f"--layer: {path} has no layer {layer!r}, expected one of {', '.join(names)}")
    if not names:
        return [""]
    highest = names.index(layer) if layer is not None else len(names) - 1
    return names[: highest + 1][::-1] if below else [names[highest]]


def _numbers(corpus: "Corpus", source: str, sentence: int | None) -> range:
    """The sentences that may be explained: all, or the one that is named."""
    if sentence is None:
        return range(len(corpus))
    if not 0 <= sentence < len(corpus):
        what = f"sentences 0 to {len(corpus) - 1}" if len(corpus) else "no sentences"
        raise OptionError(f"--sentence: {source} has {what}, got {sentence}")
    return range(sentence, sentence + 1)


def _gold(
    tagger: Any,
    file: "OpenFile",
    corpus: "Corpus",
    columns: str | None,
    tokenizer: "Tokenizer | None",
    needed: bool,
    numbers: list[int],
) -> dict[str, dict[int, list[Any]]]:
    """The labels that a file has for some sentences, in the scheme of the model: by output and sentence."""
    from labelwright.corpus.file_formats import RECORDS, FileOptions
    from labelwright.corpus.partial_labels import left_open
    from labelwright.corpus.schemes import convert
    from labelwright.inspection.warnings import scheme_differs

    labelled, gold = corpus, dict[str, dict[int, list[Any]]]()
    try:
        if file.format in RECORDS:
            labelled = gold_for(tagger, file, columns, None, FileOptions(tokenizer=tokenizer or tagger.tokenizer()))
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
        if needed:
            raise
    return gold


def _is_wrong(label: Any, gold: Any) -> bool:
    return gold is not None and (label not in gold if isinstance(gold, frozenset) else label != gold)


def _with_mistakes(tagger: Any, corpus: "Corpus", numbers: list[int], question: Question) -> list[int]:
    """Those of some sentences that have a token with a wrong label."""
    layer, inputs = question.layers[0], inputs_of(tagger, corpus).take(numbers)
    answers = tagger.decode(inputs, constraints=question.constraints, probabilities=False)
    decoded, gold = answers[layer] if layer else answers, question.gold[layer]
    return [n for n, each in zip(numbers, decoded, strict=True) if any(map(_is_wrong, each.labels, gold[n]))]


def _explained(tagger: Any, data: ToTag, source: str, number: int, question: Question) -> dict[str, Any]:
    """One sentence, the layers that are shown."""
    from labelwright.inspection.explanation import sentence_facts

    corpus, token = inputs_of(tagger, data.data), question.token
    length = int(corpus.offsets[number + 1] - corpus.offsets[number])
    if token is not None and not 0 <= token < length:
        what = f"tokens 0 to {length - 1}" if length else "no tokens"
        raise OptionError(f"--token: sentence {number} of {source} has {what}, got {token}")
    facts = sentence_facts(tagger, corpus, number, token, question.against, question.constraints)
    facts["layers"] = {name: facts["layers"][name] for name in question.layers}
    _add_gold(facts, question)
    if data.split is not None:
        _add_places(facts, data.split, number)
    return facts


def _add_gold(facts: dict[str, Any], question: Question) -> None:
    """The gold labels of a sentence; only wrong tokens, if these are asked for."""
    from labelwright.corpus.partial_labels import written

    for name, tokens in facts["layers"].items():
        for each in tokens:
            gold = question.gold[name][facts["sentence"]][each["token"]] if name in question.gold else None
            each["gold"] = written(gold) if isinstance(gold, frozenset) else gold
            each["wrong"] = _is_wrong(each["label"], gold)
    if question.wrong:
        kept = {each["token"] for each in facts["layers"][question.layers[0]] if each["wrong"]}
        for name, tokens in facts["layers"].items():
            facts["layers"][name] = [each for each in tokens if each["token"] in kept]


def _add_places(facts: dict[str, Any], split: "SplitTexts", number: int) -> None:
    """Where the tokens of a sentence are in its text, in characters."""
    places = split.places[number]
    facts["text"] = split.text_of[number] if len(split.texts) > 1 else None
    for tokens in facts["layers"].values():
        for each in tokens:
            each["start"], each["end"] = places[each["token"]]


def _say_own_label(sentences: list[dict[str, Any]], against: str) -> None:
    """Say how many tokens have the label that they shall be compared with; the runner-up takes its place."""
    tokens = [each for facts in sentences for layer in facts["layers"].values() for each in layer]
    same = sum(each["label"] == against for each in tokens)
    if len(tokens) == same == 1:
        say(f"--against: {against} is the predicted label of this token; compared with the runner-up")
    elif same:
        what = "is" if same == 1 else "are"
        say(f"--against: {against} is predicted at {counted(same, 'token')}, which {what} compared with the runner-up")


def _write_page(facts: dict[str, Any], path: str, sentences: int) -> None:
    from labelwright.inspection.explanation_page import page

    if not write_page(path, page(facts)):
        return
    shown = len(facts["sentences"])
    more = "" if shown in (1, sentences) else f" of {sentences:,}; --first N shows more"
    say(f"{path}: {shown} sentence{'s' if shown != 1 else ''}{more}")
