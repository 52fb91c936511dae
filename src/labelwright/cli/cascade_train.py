"""labelwright train --model cascade: the layers of a recipe, trained alone and together."""

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from labelwright.cli.common import check_columns, check_target, counted, is_conllu, say, why_stopped
from labelwright.cli.plots import check_plot, draw_moves
from labelwright.cli.recipe import (
    MEMORY_WORDS,
    MODEL_WORDS,
    MODELS,
    Run,
    check_word,
    dictionary_files,
    place_of,
    read_dictionaries,
    without_use,
)
from labelwright.cli.train import Lines, forget_run
from labelwright.errors import CorpusError, OptionError

if TYPE_CHECKING:
    from labelwright.corpus.table import Corpus
    from labelwright.evaluate.moves import Move

KINDS = {name: kind for name, kind in MODELS.items() if name not in ("cascade", "memory")}  # what a layer can be
OWN_WORDS = ("passing", "shares", "jackknife", "cut", "lexicon", "max_iter", "tol", "n_jobs", "random_state")
REFUSED = {
    "label": "a cascade has a label column for each layer; name them in the [[layers]] of the recipe",
    "scheme": "a cascade has labels in each layer; write scheme = ... in a table of [[layers]]",
    "start_from": "not supported for a cascade, which starts from nothing; leave it out",
    "checkpoint_every": "not supported for a cascade, which writes no checkpoint; leave it out",
    "search": "looks for settings of memory-based models; not for --model cascade",
    "resume": "not supported for a cascade, which writes no checkpoint; train it anew",
}
SHOWN = 5  # changes of labels that are written out


class Layer(NamedTuple):
    """One table of [[layers]]."""

    name: str
    kind: type[Any]
    parameters: dict[str, Any]
    scheme: str | None


def train_cascade(source: str, output: str, words: dict[str, Any], run: Run) -> None:
    """Train all layers of a recipe, alone and (passing = "joint") together, and write them to one file."""
    layers = _layers(words, run)
    _check(words, run, layers)
    templates = [layer.parameters["template"] for layer in layers if "template" in layer.parameters]
    inputs = [source, *filter(None, (run.recipe, words.get("dev"))), *templates]
    inputs += [path for table in words["layers"] for path in dictionary_files(run.recipe, table)]
    check_target(output, inputs, for_model=True)
    if run.plot is not None:
        check_plot(run.plot, [*inputs, output])
    corpus = _read(source, words.get("columns"), layers)
    dev = _read(words["dev"], ",".join(corpus.names), layers) if "dev" in words else None

    from labelwright.taggers.cascade import Cascade

    progress = _Progress(run)
    models = [(layer.name, layer.kind(**layer.parameters)) for layer in layers]
    model = Cascade(models, **{word: words[word] for word in OWN_WORDS if word in words})
    together = progress.started("all layers", model)
    try:
        model.fit(corpus, dev=dev, progress=together, layer_progress=progress.started)
    finally:
        if together is not None:
            together.close()
    _finish(model, corpus, dev, output, run)


def _check(words: dict[str, Any], run: Run, layers: Sequence[Layer]) -> None:
    """Find out what is wrong before any sentence is read."""
    if run.resume:
        raise OptionError(f"--resume: {REFUSED['resume']}")
    for word in words:
        if word in REFUSED:
            raise OptionError(f"{place_of(word, run)}: {REFUSED[word]}")
        if word in MEMORY_WORDS:
            raise OptionError(f"{place_of(word, run)}: not for --model cascade, only for memory")
        if word in MODEL_WORDS and word not in OWN_WORDS:
            raise OptionError(f"{place_of(word, run)}: belongs to a layer; write it in a table of [[layers]]")
    for word, least, what in (("max_iter", 1, "a whole number of 1"), ("tol", 0, "a number of 0")):
        if words.get(word, least) < least:
            raise OptionError(f"{place_of(word, run)}: expected {what} or more, got {words[word]}")
    if run.plot is None:
        return
    if "dev" not in words:
        raise OptionError("--plot: draws scores on development data; add --dev FILE")
    if words.get("passing", "joint") != "joint" or len(layers) < 2:
        raise OptionError("--plot: draws what joint training changes; it needs --passing joint and two layers or more")


def _layers(words: dict[str, Any], run: Run) -> list[Layer]:
    """The layers of the recipe, each with the words of its model."""
    if run.recipe is None:
        raise OptionError(
            "--model cascade: its layers stand in a recipe; add --recipe FILE.toml with a [[layers]] for each"
        )
    tables = words.get("layers")
    if not tables:
        raise OptionError(f'{run.recipe}: a cascade has layers; add a table [[layers]] with name = "COLUMN" for each')
    layers = [_layer(run.recipe, number, table) for number, table in enumerate(tables, 1)]
    names = [layer.name for layer in layers]
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"{run.recipe}: two layers are named {name!r}; a column has one layer")
    return layers


def _layer(recipe: str, number: int, table: Any) -> Layer:
    """One layer, checked as far as its words go."""
    from labelwright.taggers import files

    name = table.get("name") if isinstance(table, dict) else None
    if not isinstance(name, str) or not name:
        raise OptionError(f'{recipe}: layer {number}: expected name = "COLUMN", a column of the file, got {name!r}')
    place = f"{recipe}: layer {name}"
    model = table.get("model", "crf")
    if model not in KINDS:
        raise OptionError(f"{place}: model: expected one of {', '.join(KINDS)}, got {model!r}")
    kind = files.MODELS[KINDS[model]]
    known = [word for word in MODEL_WORDS if word in kind._parameter_names() and word != "n_jobs"]
    words = {word: value for word, value in table.items() if word not in ("name", "model", "scheme")}
    for word, value in words.items():
        if word not in known:
            raise OptionError(f"{place}: no word {word!r} for a {model}, expected some of {', '.join(known)}, scheme")
        check_word(place, word, value)
    check_word(place, "scheme", table.get("scheme", ""))
    if "dictionaries" in words:
        words["dictionaries"] = read_dictionaries(recipe, place, words["dictionaries"])
    estimator = kind(**words)
    for word, other, values in without_use(estimator, words):
        wanted = " or ".join(map(repr, values))
        raise OptionError(f"{place}: {word}: only with {other} = {wanted}, got {getattr(estimator, other)!r}")
    try:
        estimator._check_parameters()
    except OptionError as error:
        raise OptionError(f"{place}: {error}") from None
    return Layer(name, kind, words, table.get("scheme"))


def _read(path: str, columns: str | None, layers: Sequence[Layer]) -> "Corpus":
    """A file with a column for every layer."""
    from labelwright.corpus import read_columns, read_conllu

    names = [layer.name for layer in layers]
    if is_conllu(path):
        chosen = [name.strip() for name in columns.split(",")] if columns else ["form", *names]
        corpus = read_conllu(path).select(chosen).renamed(chosen, None)
    else:
        corpus = read_columns(path, names=columns, label=False)
    check_columns(corpus, names)
    if len(corpus.names) == len(names):
        raise CorpusError(
            f"{path}: all columns ({', '.join(names)}) are layers; expected one more, as the word, to read"
        )
    for layer in layers:
        if layer.scheme is not None:
            corpus = corpus.renamed(corpus.names, layer.name).with_scheme(layer.scheme).renamed(corpus.names, None)
    return corpus


class _Progress:
    """What a person sees of the training: a bar for each layer, one for each part of the jackknife, one for the end."""

    def __init__(self, run: Run):
        self._run = run
        self._parts: dict[str, int] = {}

    def started(self, name: str, model: Any) -> Any:
        """A bar, or a line for every iteration, or nothing."""
        from labelwright.learn.monitor import ProgressBar

        part = self._parts[name] = self._parts.get(name, -1) + 1
        title = f"{name} without part {part}" if part else name
        if self._run.quiet:
            return None
        if self._run.verbose:
            return _Titled(title)
        falls = getattr(model, "optimizer", "lbfgs") == "lbfgs" and hasattr(model, "tol")
        return ProgressBar(model.max_iter, model.tol if falls else None, title)


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

    def close(self) -> None:
        """Nothing is left open."""


def _finish(model: Any, corpus: "Corpus", dev: "Corpus | None", output: str, run: Run) -> None:
    """Write the model, and say how the training went."""
    record = model.training_
    records = [*record["layers"].values(), *filter(None, [record.get("joint")])]
    if not all(isfinite(each["loss"] or 0.0) for each in records):
        raise OptionError(f"{output}: not written, the loss is no longer a number; raise the l2 of the layers")
    record["columns"] = list(corpus.names)
    for name, layer in model.layers_.items():
        layer.training_ |= {"columns": list(corpus.names), "label": name}
        forget_run(layer)
    forget_run(model)
    before = vars(model).get("before_")
    said = {} if dev is None else {"after": model.predict(dev)}
    if dev is not None and before is not None:
        said["before"] = before.predict(dev)
    if dev is not None:
        record["dev"] = {when: _scores(dev, labels) for when, labels in said.items()}
    model.save(output)
    if record["interrupted"]:
        say(f"labelwright: interrupted; {output} holds the cascade so far, with which training cannot go on")
        raise typer.Exit(130)
    if not run.quiet:
        say(_summary(model, output))
    if run.plot is not None:
        assert dev is not None
        moves = _moves(dev, said["before"], said["after"])
        draw_moves(record["dev"]["before"], record["dev"]["after"], moves, run.plot)
        if not run.quiet:
            for (lower, upper), found in moves.items():
                _say_moves(lower, upper, found, dev.source)
            say(f"{run.plot}: drawn")


def _scores(gold: "Corpus", predicted: dict[str, list[list[str]]]) -> dict[str, float]:
    from labelwright.evaluate import evaluate

    return {name: evaluate(gold.column(name), labels).score for name, labels in predicted.items()}


def _summary(model: Any, output: str) -> str:
    """One line: how large it is, how long it took, how good it is, and why training stopped."""
    record, layers = model.training_, model.layers_
    of_layers = list(record["layers"].values())
    weights, features = (sum(each[name] for each in of_layers) for name in ("weights", "features"))
    labels = ", ".join(f"{name} {counted(len(layer.classes_), 'label')}" for name, layer in layers.items())
    joint = record.get("joint")
    turns_made = f"{counted(joint['iterations'], 'iteration')} together, " if joint else ""
    return (
        f"{output}: {counted(weights, 'weight')}, {counted(features, 'feature')}, {counted(len(layers), 'layer')} "
        f"({labels}); {counted(of_layers[0]['sentences'], 'sentence')}, {turns_made}{record['seconds']:.1f} s"
        f"{_progress_on_dev(record.get('dev'))} ({_why(model)})"
    )


def _why(model: Any) -> str:
    """Why training ended: joint training where there was some, else that of each layer."""
    record = model.training_
    if "joint" in record:
        return str(record["joint"]["stopped"])
    reasons = {name: why_stopped(record["layers"][name], layer.probabilistic) for name, layer in model.layers_.items()}
    return "; ".join(f"{name}: {reason}" for name, reason in reasons.items())


def _progress_on_dev(dev: dict[str, dict[str, float]] | None) -> str:
    if dev is None:
        return ""
    versions = [dev[when] for when in ("before", "after") if when in dev]
    scores = [f"{name} {' -> '.join(f'{100 * each[name]:.2f}' for each in versions)}" for name in dev["after"]]
    return f", on the development data {', '.join(scores)}"


def _moves(gold: "Corpus", before: Any, after: Any) -> dict[tuple[str, str], list["Move"]]:
    """What changed labels of each layer did to the layer above it."""
    from labelwright.evaluate.moves import Versions, label_moves

    versions = {name: Versions(gold.column(name), before[name], after[name]) for name in after}
    return {(low, high): label_moves(versions[low], versions[high]) for low, high in pairwise(versions)}


def _say_moves(lower: str, upper: str, moves: Sequence["Move"], source: str) -> None:
    """The most frequent changes, in a few lines."""
    n, right, wrong = (sum(getattr(move, name) for move in moves) for name in ("n", "right", "wrong"))
    say(
        f"{source}: joint training changed {counted(n, 'label')} of {lower}; near them, labels of {upper} became right "
        f"at {right:,}, wrong at {wrong:,}, neither at {n - right - wrong:,}"
    )
    width = max((len(f"{move.before} -> {move.after}") for move in moves[:SHOWN]), default=0)
    for move in moves[:SHOWN]:
        say(
            f"  {f'{move.before} -> {move.after}':<{width}}  {move.n:6,}: {move.right:,} right, {move.wrong:,} wrong, "
            f"{move.same:,} neither ({move.mended:,} mended in {lower}, {move.broken:,} broken)"
        )
