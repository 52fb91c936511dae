"""labelwright eval: scores of predictions, or of a model on a test file."""

from typing import Annotated, Any

import typer

from labelwright.cli import decoding as how
from labelwright.cli import memory
from labelwright.cli.common import (
    Columns,
    Json,
    Label,
    Strict,
    StrictScheme,
    Threads,
    corpus_for,
    is_conllu,
    is_memory,
    is_model,
    label_place,
    layers_of,
    load_model,
    predicted_labels,
    read_labelled,
    say,
    show,
    show_json,
)
from labelwright.errors import OptionError


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
    from labelwright.evaluate import evaluate

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
        asked = {"decoder": decoder, "inference": inference, "oracle": oracle or None, "constraints": constraints}
        _refuse_without_model({**asked, **options, "verbose": verbose or None})
        truth = read_labelled(gold, columns, label)
        report = evaluate(truth.y, predicted_labels(predicted, truth), reading=reading, scheme=scheme)
        facts = report.as_dict()
    else:
        model_path, gold_path = (gold, predicted) if is_model(gold) else (predicted, gold)
        model = load_model(model_path, threads)
        if not is_memory(model):
            memory.refuse_inference(inference, oracle)
        if layers_of(model):
            from labelwright.cli import cascade

            how_to = cascade.Scoring(columns, label, strict, scheme, decoder, options, constraints, verbose, as_json)
            cascade.evaluate(model, gold_path, how_to)
            return
        decoding: dict[str, Any]
        if is_memory(model):
            memory.refuse_decoder(decoder, options)
            model, name, options = memory.Tagger(model, inference, constraints, show_progress=True), "", {}
            decoding = {"inference": model.inference}
        else:
            name, options = how.checked(model, decoder, options)
            decoding = {"decoder": name, "options": options}
        if columns is None and label is None:
            columns, label = _columns_for(model, gold_path)
        truth = read_labelled(gold_path, columns, label)
        data = model.encode(corpus_for(model, truth))
        tally = how.Tally()
        decodings = model.decode(data, name, constraints=constraints, probabilities=verbose or as_json, **options)
        tally.add(decodings)
        report = evaluate(truth.y, [d.labels for d in decodings], reading=reading, scheme=scheme)
        facts = report.as_dict() | {"decoding": decoding | tally.as_dict()}
        if oracle:
            ceiling = evaluate(truth.y, model.predict_oracle(data, truth.y), reading=reading, scheme=scheme)
            facts["oracle"] = ceiling.as_dict()
        if verbose:
            say(str(tally))
    if as_json:
        show_json(facts)
        return
    show(str(report))
    if "oracle" in facts:
        show(memory.ceiling(facts["oracle"]))


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
