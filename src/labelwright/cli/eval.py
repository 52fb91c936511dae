"""labelwright eval: scores of predictions, or of a model on a test file."""

from typing import Annotated, Any

import typer

from labelwright.cli.common import (
    Columns,
    Json,
    Label,
    Strict,
    Threads,
    is_conllu,
    is_model,
    label_place,
    load_model,
    predicted_labels,
    read_labelled,
    show,
    show_json,
)


def command(
    gold: Annotated[str, typer.Argument(metavar="GOLD|MODEL", help="The true labels, or a model file.")],
    predicted: Annotated[str, typer.Argument(metavar="PREDICTED|TEST", help="Predictions, or the true labels.")],
    columns: Columns = None,
    label: Label = None,
    strict: Strict = False,
    scheme: Annotated[
        str | None, typer.Option(metavar="NAME", help="The scheme of strict reading. [default: as the labels look]")
    ] = None,
    decoder: Annotated[str | None, typer.Option(metavar="NAME", help="With a model: viterbi or marginal.")] = None,
    constraints: Annotated[
        str | None, typer.Option(metavar="scheme", help="With a model: only labellings that the scheme permits.")
    ] = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Score predictions: precision, recall and F1 of chunks, accuracy of tokens and sentences.

    \b
      labelwright eval gold.txt tagged.txt     last column of each; tagged.txt as `labelwright tag` writes it
      labelwright eval model.crf test.txt      tag and score in one step

    Labels that are not B-X, I-X, O, ... are scored one by one.  The last line is a signature: how the score was made.
    """
    from labelwright.evaluate import evaluate

    options: dict[str, Any] = {"decoder": decoder, "constraints": constraints}
    first_is_model = is_model(gold)
    model_path, gold_path = (gold, predicted) if first_is_model else (None, gold)
    if model_path is not None and columns is None and label is None:
        columns, label = _columns_for(model_path, gold_path)
    truth = read_labelled(gold_path, columns, label)
    found = predicted_labels(gold if first_is_model else predicted, truth, threads, **options)
    report = evaluate(truth.y, found, reading="strict" if strict else "conlleval", scheme=scheme)
    if as_json:
        show_json(report.as_dict())
    else:
        show(str(report))


def _columns_for(model_path: str, gold_path: str) -> tuple[str | None, str | None]:
    """The names of the test file's columns are those of the training file."""
    names, label = label_place(load_model(model_path))
    if is_conllu(gold_path):  # its words are in `form`; a model that knows no name of its label gives upos
        other = {"word": "form", "label": "upos"}
        names, label = [other.get(name, name) for name in names], other.get(label, label)
    return ",".join(names), label
