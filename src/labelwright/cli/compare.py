"""labelwright compare: is one tagger really better than another?"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labelwright.cli.common import (
    Columns,
    Json,
    Label,
    Strict,
    StrictScheme,
    Threads,
    corpus_for,
    is_model,
    layer_names,
    load_model,
    predicted_labels,
    read_labelled,
    show,
    show_json,
)
from labelwright.cli.options import SCORING, argument, option
from labelwright.errors import OptionError

if TYPE_CHECKING:
    from labelwright.corpus.table import Corpus


def command(
    gold: Annotated[str, argument("The true labels.", "GOLD")],
    a: Annotated[str, argument("One prediction: a file that `tag` wrote, or a model.", "A")],
    b: Annotated[str, argument("The other.", "B")],
    columns: Columns = None,
    label: Label = None,
    strict: Strict = False,
    scheme: StrictScheme = None,
    samples: Annotated[int, option("Samples of the bootstrap.", "N", SCORING)] = 10_000,
    seed: Annotated[int, option("Seed of the bootstrap.", "N", SCORING)] = 0,
    as_json: Json = False,
    threads: Threads = None,
) -> None:
    """Compare two predictions of the same sentences: scores, McNemar's test and a paired bootstrap."""
    from labelwright.evaluate import compare

    if seed < 0:
        raise OptionError(f"--seed: expected a whole number of 0 or more, got {seed}")
    models = _models((a, b), gold, threads)
    truth = _gold(gold, columns, label, models)
    predicted = {path: _predicted(path, models.get(path), truth) for path in (a, b)}
    names = (Path(a).name, Path(b).name) if Path(a).name != Path(b).name else (a, b)
    if a == b:
        names = ("a", "b")
    comparison = compare(
        truth.y,
        predicted[a],
        predicted[b],
        reading="strict" if strict else "conlleval",
        scheme=scheme,
        samples=samples,
        random_state=seed,
        names=names,
    )
    if as_json:
        show_json(comparison.as_dict())
    else:
        show(str(comparison))


def _models(paths: Iterable[str], gold: str, threads: int | None) -> dict[str, Any]:
    """The models among the predictions, each loaded once."""
    models = {path: load_model(path, threads) for path in dict.fromkeys(paths) if is_model(path)}
    for path, model in models.items():
        if layer_names(model):
            raise OptionError(
                f"{path}: a cascade gives labels for each layer, and this command compares one; tag first, as in: "
                f"labelwright tag {path} {gold} -o tagged.txt"
            )
    return models


def _predicted(path: str, model: Any, gold: "Corpus") -> list[list[str]]:
    """What a model says about the gold corpus, or what a file of predictions holds."""
    if model is None:
        return predicted_labels(path, gold)
    labellings: list[list[str]] = model.predict(corpus_for(model, gold))
    return labellings


def _gold(path: str, columns: str | None, label: str | None, models: Mapping[str, Any]) -> "Corpus":
    """The true labels; texts are split as the models among the predictions split them."""
    from labelwright.corpus.file_formats import TEXTS, FileOptions, opened
    from labelwright.corpus.tokenizer import Tokenizer

    file = opened(path, None, named=columns is not None or label is not None)
    if file.format not in TEXTS:
        return read_labelled(file, columns, label)
    tokenizers = {model.tokenizer(): name for name, model in models.items()}
    if len(tokenizers) > 1:
        both = " and ".join(tokenizers.values())
        raise OptionError(f"{both} split texts differently; tag with both, and compare the files")
    return read_labelled(file, columns, label, options=FileOptions(tokenizer=next(iter(tokenizers), Tokenizer())))
