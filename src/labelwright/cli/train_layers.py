"""labelwright train with several label columns: reading them, progress by layer, scores before and after."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from labelwright.cli.common import Lines, check_columns, counted, say
from labelwright.cli.plots import draw_changes
from labelwright.errors import CorpusError

if TYPE_CHECKING:
    from labelwright.corpus.file_formats import FileOptions, OpenFile
    from labelwright.corpus.table import Corpus
    from labelwright.evaluate.changes import LabelChange

SHOWN = 5  # changes of labels that are written out


def read_layers(
    file: "OpenFile", columns: str | None, schemes: Mapping[str, str | None], options: "FileOptions"
) -> "Corpus":
    """A file with a column for every layer, its labels in the scheme that is named for it."""
    from labelwright.corpus.file_formats import RECORDS, read_corpus

    names = list(schemes)
    chosen = [name.strip() for name in columns.split(",")] if columns else []
    if file.format == "conllu":
        chosen = chosen or ["form", *names]
        corpus = read_corpus(file)[0].select(chosen).renamed(chosen, None)
    elif file.format in RECORDS:
        corpus = read_corpus(file, chosen or ["word", *names], False, options)[0]
    else:
        corpus = read_corpus(file, columns, False)[0]
    check_columns(corpus, names)
    if len(corpus.names) == len(names):
        raise CorpusError(
            f"{file.name}: all columns ({', '.join(names)}) are layers; expected one more, as the word, to read"
        )
    for name, scheme in schemes.items():
        if scheme is not None:
            corpus = corpus.renamed(corpus.names, name).with_scheme(scheme).renamed(corpus.names, None)
    return corpus


class LayerProgress:
    """What a person sees of the training: a bar for each layer, one for each part of the jackknife, one for the end."""

    def __init__(self, quiet: bool, verbose: bool):
        self._quiet, self._verbose = quiet, verbose
        self._parts: dict[str, int] = {}

    def started(self, name: str, model: Any) -> Any:
        """A bar, or a line for every iteration, or nothing."""
        part = self._parts[name] = self._parts.get(name, -1) + 1
        title = f"{name} without part {part}" if part else name
        if self._quiet:
            return None
        return _Titled(title) if self._verbose else model._progress_bar(title)


class _Titled(Lines):
    """Lines on stderr under a title."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title: str | None = title

    def __call__(self, record: Any, max_iter: int) -> None:
        if self._title is not None:
            say(self._title)
        self._title = None
        super().__call__(record, max_iter)


Predictions = dict[str, dict[str, list[list[str]]]]  # "before" and "after" joint training: labels by layer


def predictions(model: Any, dev: "Corpus") -> Predictions:
    """What the layers say of the development data, and what they said before they learnt together."""
    before = vars(model).get("before_")
    return ({} if before is None else {"before": before.predict(dev)}) | {"after": model.predict(dev)}


def dev_scores(dev: "Corpus", predicted: Predictions, name: Callable[[Any], str]) -> tuple[dict[str, Any], str]:
    """The scores of every layer, and all of them in a phrase; `name` gives the name of a report's score."""
    from labelwright.evaluate import evaluate

    reports = {
        when: {layer: evaluate(dev.column(layer), labels) for layer, labels in by_layer.items()}
        for when, by_layer in predicted.items()
    }
    phrases = []
    for layer in predicted["after"]:
        scores = " -> ".join(f"{100 * reports[when][layer].score:.2f}" for when in reports)
        phrases.append(f"{layer} {name(reports['after'][layer])} {scores}")
    scores_of = {when: {layer: report.score for layer, report in by.items()} for when, by in reports.items()}
    return scores_of, f"on the development data {', '.join(phrases)}"


def plot(path: str, scores: dict[str, Any], dev: "Corpus", predicted: Predictions, quiet: bool) -> None:
    """Draw the scores before and after joint training, and what changed labels did to the layer above."""
    by_layers = _changes(dev, predicted["before"], predicted["after"])
    draw_changes(scores["before"], scores["after"], by_layers, path)
    if not quiet:
        for (lower, upper), changes in by_layers.items():
            _say_changes(lower, upper, changes, dev.source)
        say(f"{path}: drawn")


def _changes(gold: "Corpus", before: Any, after: Any) -> dict[tuple[str, str], list["LabelChange"]]:
    """What changed labels of each layer did to the layer above it."""
    from labelwright.evaluate.changes import Versions, label_changes

    versions = {name: Versions(gold.column(name), before[name], after[name]) for name in after}
    return {(low, high): label_changes(versions[low], versions[high]) for low, high in pairwise(versions)}


def _say_changes(lower: str, upper: str, changes: Sequence["LabelChange"], source: str) -> None:
    """The most frequent changes, in a few lines."""
    n, right, wrong = (sum(getattr(change, name) for change in changes) for name in ("n", "right", "wrong"))
    say(
        f"{source}: joint training changed {counted(n, 'label')} of {lower}; near them, labels of {upper} became right "
        f"at {right:,}, wrong at {wrong:,}, neither at {n - right - wrong:,}"
    )
    width = max((len(f"{change.before} -> {change.after}") for change in changes[:SHOWN]), default=0)
    for change in changes[:SHOWN]:
        say(
            f"  {f'{change.before} -> {change.after}':<{width}}  {change.n:6,}: {change.right:,} right, "
            f"{change.wrong:,} wrong, {change.same:,} neither "
            f"({change.corrected:,} corrected in {lower}, {change.broken:,} broken)"
        )
