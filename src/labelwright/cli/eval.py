"""labelwright eval: scores of predictions, or of a model on a test file."""

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from labelwright.cli import decoding as how
from labelwright.cli.common import (
    Columns,
    Json,
    Label,
    Strict,
    StrictScheme,
    Threads,
    check_columns,
    corpus_for,
    heading,
    is_conllu,
    is_model,
    label_place,
    layer_names,
    load_model,
    predicted_labels,
    read_labelled,
    say,
    show,
    show_json,
)
from labelwright.errors import CorpusError, OptionError

if TYPE_CHECKING:
    from labelwright.answers.batch import Batch
    from labelwright.corpus.table import Corpus
    from labelwright.evaluate import Report


class Scored(NamedTuple):
    """The scores of one output of a model."""

    report: "Report"
    decoding: dict[str, Any]  # how, and how much is proven
    tally: how.Tally
    oracle: "Report | None"


def command(
    gold: Annotated[str, typer.Argument(metavar="GOLD|MODEL", help="The true labels, or a model file.")],
    predicted: Annotated[str, typer.Argument(metavar="PREDICTED|TEST", help="Predictions, or the true labels.")],
    columns: Columns = None,
    label: Label = None,
    strict: Strict = False,
    scheme: StrictScheme = None,
    decoder: how.Decoder = None,
    n: how.Paths = None,
    alpha: how.Alpha = None,
    gain: how.Gain = None,
    candidates: how.Candidates = None,
    max_expansions: how.MaxExpansions = None,
    time_limit: how.TimeLimit = None,
    inference: how.Inference = None,
    oracle: Annotated[
        bool,
        typer.Option(
            "--oracle",
            help="Memory-based models: also the score of the best choice among the candidates of each token.",
        ),
    ] = False,
    constraints: Annotated[
        str | None, typer.Option(metavar="scheme", help="With a model: only labellings that the scheme permits.")
    ] = None,
    threads: Threads = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="With a model: one line on stderr, how much is proven.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Score predictions: precision, recall and F1 of chunks, accuracy of tokens and sentences.

    \b
      labelwright eval gold.txt tagged.txt     last column of each; tagged.txt as `labelwright tag` writes it
      labelwright eval model.crf test.txt      tag and score in one step

    With a model, the options of the decoder and --inference are those of `labelwright tag`, and --json adds "decoding":
    how many sentences are proven exact, the largest gap and the seconds that it took.

    Labels that are not B-X, I-X, O, ... are scored one by one.  The last line is a signature: how the score was made.

    A cascade is scored layer by layer on a file with the labels of all layers; JSON is {"layers": {NAME: scores}}.
    """
    options: dict[str, Any] = {
        "n": n,
        "alpha": alpha,
        "gain": gain,
        "candidates": candidates,
        "max_expansions": max_expansions,
        "time_limit": time_limit,
    }
    reading = "strict" if strict else "conlleval"
    if not is_model(gold) and not is_model(predicted):
        from labelwright.evaluate import evaluate

        asked = {"decoder": decoder, "inference": inference, "oracle": oracle or None, "constraints": constraints}
        _refuse_without_model({**asked, **options, "verbose": verbose or None})
        truth = read_labelled(gold, columns, label)
        report = evaluate(truth.y, predicted_labels(predicted, truth), reading=reading, scheme=scheme)
        if as_json:
            show_json(report.as_dict())
        else:
            show(str(report))
        return
    model_path, gold_path = (gold, predicted) if is_model(gold) else (predicted, gold)
    model = load_model(model_path, threads)
    choices = how.chosen(model, decoder, inference, options)
    limits = how.constraints_of(model, constraints)
    _check(model, choices, limits, oracle)
    test = _gold(model, gold_path, columns, label)
    how.warn(model, test)
    how.show_progress(model, True)
    scores = _scores(model, test, choices, limits, reading, scheme, oracle, verbose or as_json)
    if verbose:
        for name, scored in scores.items():
            say(f"{name}: {scored.tally}" if name else str(scored.tally))
    if as_json:
        facts = {name: _facts(scored) for name, scored in scores.items()}
        show_json({"layers": facts} if layer_names(model) else next(iter(facts.values())))
    else:
        _show(scores)


def _check(model: Any, choices: dict[str, how.Choice], limits: dict[str, str], oracle: bool) -> None:
    """Refuse what the model has no answer to."""
    from labelwright.taggers.base import ORACLE

    for name, tagger in model.outputs.items():
        with how.of_layer(name):
            how.check_constraints(tagger, choices[name], limits.get(name))
            if oracle and ORACLE not in tagger.can:
                raise OptionError("--oracle: only for memory-based models, which choose among proposals")


def _scores(
    model: Any,
    test: "Corpus",
    choices: dict[str, how.Choice],
    limits: dict[str, str],
    reading: str,
    scheme: str | None,
    oracle: bool,
    proofs: bool,
) -> dict[str, Scored]:
    """The scores of every output on a test file."""
    from labelwright.evaluate import evaluate

    inputs = corpus_for(model, test)
    tallies = {name: how.Tally() for name in choices}

    def question(name: str, tagger: Any, batch: "Batch") -> list[Any]:
        return batch.decode(choices[name].decoder, probabilities=proofs, **choices[name].options)

    answers = model.ask(inputs, question, None, limits)
    scores = {}
    for name, tagger in model.outputs.items():
        tallies[name].add(answers[name])
        gold = test.column(name) if name else test.y
        strict = reading == "strict" and not (name and tagger.scheme_ is None)
        how_read: dict[str, Any] = {
            "reading": reading if strict else "conlleval",
            "scheme": scheme if strict or not name else None,
        }
        report = evaluate(gold, [d.labels for d in answers[name]], **how_read)
        ceiling = evaluate(gold, tagger.predict_oracle(inputs, gold), **how_read) if oracle else None
        word = tagger.decoder_flag.removeprefix("--")
        described: dict[str, Any] = {word: choices[name].decoder}
        if word == "decoder":
            described["options"] = choices[name].options
        scores[name] = Scored(report, described | tallies[name].as_dict(), tallies[name], ceiling)
    return scores


def _facts(scored: Scored) -> dict[str, Any]:
    facts: dict[str, Any] = scored.report.as_dict() | {"decoding": scored.decoding}
    return facts if scored.oracle is None else facts | {"oracle": scored.oracle.as_dict()}


def _show(scores: dict[str, Scored]) -> None:
    """A table for every output."""
    for number, (name, scored) in enumerate(scores.items()):
        if number:
            show()
        if name:
            heading(name)
        show(str(scored.report))
        if scored.oracle is not None:
            show(_ceiling(scored.oracle.as_dict()))


def _ceiling(scores: dict[str, Any]) -> str:
    """What no inference exceeds, in one line."""
    shown = {"f1": scores["f1"], "token accuracy": scores["token_accuracy"]}
    listed = ", ".join(f"{name} {100 * value:.2f}" for name, value in shown.items() if value is not None)
    return f"oracle: {listed} (the true label wherever it is a candidate)"


def _gold(model: Any, path: str, columns: str | None, label: str | None) -> "Corpus":
    """The test file, its columns named as in training."""
    if not layer_names(model):
        if columns is None and label is None:
            columns, label = _columns_for(model, path)
        return read_labelled(path, columns, label)
    from labelwright.corpus import read_columns, read_conllu

    if label is not None:
        raise OptionError("--label: a cascade has a label column for each layer, and all are scored; leave it out")
    if is_conllu(path):
        gold = read_conllu(path)
    else:
        gold = read_columns(path, names=columns, label=False)
        if columns is None:
            gold = _named(model, gold)
    check_columns(gold, layer_names(model))
    return gold


def _named(model: Any, gold: "Corpus") -> "Corpus":
    """A test file for a cascade has the columns of the training file."""
    columns, _ = label_place(model)
    if len(gold.names) != len(columns):
        raise CorpusError(
            f"{gold.source}: expected the {len(columns)} columns {','.join(columns)}, with the labels of all layers, "
            f"got {len(gold.names)}; name them with --columns"
        )
    return gold.renamed(columns, None)


def _refuse_without_model(options: dict[str, Any]) -> None:
    """Two files leave nothing to decode."""
    for name, value in options.items():
        if value is not None:
            raise OptionError(f"{how.flag(name)}: only with a model, as in: labelwright eval MODEL TEST")


def _columns_for(model: Any, gold_path: str) -> tuple[str | None, str | None]:
    """The names of the test file's columns are those of the training file."""
    names, label = label_place(model)
    assert label is not None
    if is_conllu(gold_path):  # its words are in `form`; a model that knows no name of its label gives upos
        other = {"word": "form", "label": "upos"}
        names, label = [other.get(name, name) for name in names], other.get(label, label)
    return ",".join(names), label
