"""labelwright explain: why a token has its label."""

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from labelwright.cli.arrays import Arrays, rows_for
from labelwright.cli.common import (
    Json,
    Threads,
    check_target,
    counted,
    inputs_of,
    layer_names,
    load_model,
    say,
    show,
    show_json,
    write_page,
)
from labelwright.cli.options import DATA, DECODING, OUTPUT, argument, option
from labelwright.cli.reading import ToTag, whole_file
from labelwright.cli.tag_text import Characters, Sentences, TokenizerName, TokenPattern, tokenizer_given
from labelwright.errors import CorpusError, OptionError

if TYPE_CHECKING:
    from labelwright.corpus.split_texts import SplitTexts
    from labelwright.corpus.table import Corpus

ON_A_PAGE = 20  # sentences of a page, where none is named


class Question(NamedTuple):
    """What is asked about each sentence."""

    token: int | None  # None: all
    against: str | None
    constraints: str | None
    layers: list[str]  # of a cascade, the highest first


def command(
    model: Annotated[str, argument("A model file.", "MODEL")],
    file: Annotated[str, argument("The sentences, with or without labels; - is standard input.", "FILE")],
    sentence: Annotated[int | None, option("Which sentence, from 0. [default: the first]", "N", DATA)] = None,
    token: Annotated[int | None, option("Which token, from 0. [default: all, in short]", "N", DATA)] = None,
    first: Annotated[
        int | None,
        option(f"The first N sentences, instead of one. [default: 1; with --html {ON_A_PAGE}]", "N", DATA),
    ] = None,
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
    contributions add up to the difference of their scores. It also shows the features without which the token would
    have another label.

    Memory-based models: the nearest neighbours with the training sentences they come from, and what the overlapping
    predictions weigh. Cascades: labels of the layer below are features (y[0]=NN); --below explains these, too.

    \b
      labelwright explain model.crf test.txt --sentence 3
      labelwright explain model.crf test.txt --sentence 3 --token 0 --against B-ORG
      labelwright explain model.crf test.txt --first 50 --html why.html

    --text reads plain text, which is split as `labelwright tag --text` splits it. Tokens of texts are shown with their
    places, in characters from 0.

    \b
      labelwright explain names.crf letter.txt --text --sentence 1
    """
    _check(sentence, first, top)
    if html is not None:
        check_target(html, [model, file])
    tagger = load_model(model, threads)
    question = Question(token, against, constraints, _layers(tagger, model, layer, below))
    splitter = tokenizer_given(tagger.tokenizer(), tokenizer, characters, token_pattern, sentences)
    rows = rows_for(tagger, arrays)
    data = whole_file(tagger, file, "text" if text else None, columns, splitter)
    data = data if rows is None else data._replace(data=rows.whole(data.data))
    if not data.data.n_tokens:
        raise CorpusError(f"{file}: has no tokens to explain")
    numbers = _numbers(data.data, file, sentence, first, html is not None)
    facts: dict[str, Any] = {"model": model, "kind": type(tagger).__name__, "file": file}
    facts["sentences"] = [_explained(tagger, data, file, number, question) for number in numbers]
    if against is not None:
        _say_own_label(facts["sentences"], against)
    if html is not None:
        _write_page(facts, html, len(data.data))
    if as_json:
        show_json(facts)
    elif html is None:
        from labelwright.cli.explain_text import show_sentence

        for position, each in enumerate(facts["sentences"]):
            if position:
                show()
            show_sentence(each, file, token is not None, top)


def _check(sentence: int | None, first: int | None, top: int) -> None:
    """Refuse what is wrong with the options before any file is read."""
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


def _numbers(corpus: "Corpus", source: str, sentence: int | None, first: int | None, page: bool) -> range:
    """The sentences that are explained."""
    if sentence is None:
        return range(min(len(corpus), first or (ON_A_PAGE if page else 1)))
    if not 0 <= sentence < len(corpus):
        what = f"sentences 0 to {len(corpus) - 1}" if len(corpus) else "no sentences"
        raise OptionError(f"--sentence: {source} has {what}, got {sentence}")
    return range(sentence, sentence + 1)


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
    if data.split is not None:
        _add_places(facts, data.split, number)
    return facts


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
