"""labelwright explain: why a token has its label."""

from typing import TYPE_CHECKING, Annotated, Any

from labelwright.cli.common import (
    Json,
    Threads,
    check_target,
    inputs_of,
    layer_names,
    load_model,
    read_for,
    say,
    show,
    show_json,
    write_page,
)
from labelwright.cli.options import DATA, DECODING, OUTPUT, argument, option
from labelwright.errors import OptionError

if TYPE_CHECKING:
    from labelwright.corpus.table import Corpus

ON_A_PAGE = 20  # sentences of a page, where none is named


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
    """
    _check(sentence, first, top)
    if html is not None:
        check_target(html, [model, file])
    tagger = load_model(model, threads)
    shown = _layers(tagger, model, layer, below)
    corpus = inputs_of(tagger, read_for(tagger, file, columns))
    numbers = _numbers(corpus, file, sentence, first, html is not None)
    sentences = [_explained(tagger, corpus, file, number, token, against, constraints, shown) for number in numbers]
    facts: dict[str, Any] = {"model": model, "kind": type(tagger).__name__, "file": file, "sentences": sentences}
    if html is not None:
        _write_page(facts, html, len(corpus))
    if as_json:
        show_json(facts)
    elif html is None:
        from labelwright.cli.explain_text import show_sentence

        for position, each in enumerate(sentences):
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


def _explained(
    tagger: Any,
    corpus: "Corpus",
    source: str,
    number: int,
    token: int | None,
    against: str | None,
    constraints: str | None,
    shown: list[str],
) -> dict[str, Any]:
    """One sentence, the layers that are shown."""
    from labelwright.inspection.explanation import sentence_facts

    length = int(corpus.offsets[number + 1] - corpus.offsets[number])
    if token is not None and not 0 <= token < length:
        raise OptionError(f"--token: sentence {number} of {source} has tokens 0 to {length - 1}, got {token}")
    facts = sentence_facts(tagger, corpus, number, token, against, constraints)
    facts["layers"] = {name: facts["layers"][name] for name in shown}
    return facts


def _write_page(facts: dict[str, Any], path: str, sentences: int) -> None:
    from labelwright.inspection.explanation_page import page

    if not write_page(path, page(facts)):
        return
    shown = len(facts["sentences"])
    more = "" if shown in (1, sentences) else f" of {sentences:,}; --first N shows more"
    say(f"{path}: {shown} sentence{'s' if shown != 1 else ''}{more}")
