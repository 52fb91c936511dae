"""labelwright train --continue: a trained model learns from further sentences by its `partial_fit`."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from labelwright.cli import files
from labelwright.cli.recipe import RUN, Request, request
from labelwright.cli.show import ended_by_signal, say
from labelwright.cli.train_labels import check_known_labels, opened_labels, say_known, weighted_data
from labelwright.cli.train_reports import dev_scores, predictions
from labelwright.corpus.schemes import is_chunk_label
from labelwright.errors import CorpusError, OptionError
from labelwright.inspection.warnings import sample_of
from labelwright.settings import OfTheRun
from labelwright.taggers.arguments import writes
from labelwright.taggers.estimator import is_interrupted
from labelwright.taggers.registry import name_of
from labelwright.wording import counted

if TYPE_CHECKING:
    from labelwright.cli.files import Data

TAKEN = (  # options of the run that say something of the data or of the output
    "continue_from", "model", "columns", "label", "format", "label_names", "skip_bad_spans", "scheme", "dev",
    "unmarked", "allowed_labels", "sentence_weight", "token_weight", "output", "quiet", "max_input",
)  # fmt: skip
SHOWN = 5  # new labels that are named


def train_further(source: str, name: str, options: dict[str, Any]) -> None:
    """Continue a trained model with the sentences of a file, write it, and say what is new."""
    asked = request(name, RUN, options, complete=False)
    path, output = asked.values["continue_from"], asked.values["output"]
    _check_options(asked)
    files.check_target(output, [source, *asked.files()], for_model=True)  # the model may be replaced
    model = files.load_model(path, asked.get("n_jobs"), attributes=True)
    _check_model(model, path, asked)
    data, dev = _read(model, source, asked), None
    if "dev" in asked.values:
        dev = _read(model, asked.values["dev"], asked, held_out=True)
    data, weights = weighted_data(data, asked)
    data = _columns(model, data)
    _check_scheme(model, data)
    known = {name: part.classes_ for name, part in model._outputs.items()}
    data = opened_labels(data, asked, known.get("", ()))
    schemes = dict.fromkeys(files.layer_names(model)) or None
    say_known(data, schemes, asked, known)
    before, predicted = _sizes(model), {} if dev is None else {"before": predictions(model, dev)}
    begun = time.perf_counter()
    model.partial_fit(*(data if files.has_attributes(data) else [data]), sample_weight=weights)
    seconds = time.perf_counter() - begun
    _write(model, data, asked)
    if not asked.get("quiet"):
        told = [_growth(before, _sizes(model)), f"{counted(len(data.X), 'further sentence')}, {seconds:.1f} s"]
        if dev is not None:
            phrase = dev_scores(dev, predicted | {"after": predictions(model, dev)})[1]
            told.append(f"{phrase} on the development data")
        say(f"{output}: {'; '.join(told)}")
    if any(map(is_interrupted, model._outputs.values())):
        raise ended_by_signal(f"; {output} holds the model so far")


# -- before -----------------------------------------------------------------------------------------------------------


def _check_options(asked: Request) -> None:
    """Refuse what a model that is continued has of its own, or what only a new model can have."""
    for key in asked.values:
        own = asked.settings.get(key)
        if own is not None and not own.has(OfTheRun):
            why = f"the model that --continue names keeps its settings; leave {asked.place(key)} out"
        elif own is None and key not in TAKEN:
            why = "not together with --continue, which goes on with one trained model; leave one of them out"
        else:
            continue
        raise OptionError(f"{asked.place(key)}: {why}")


def _check_model(model: Any, path: str, asked: Request) -> None:
    """Refuse a model that cannot learn from further sentences, or that is none of the kind that is named."""
    kind = name_of(type(model))
    if "partial_fit" not in model._training_options:
        raise OptionError(f"--continue: {path} is a {kind}, which cannot learn further; train again on all data")
    if kind != asked.name:
        raise OptionError(f"--model: {path} is a {kind}, got {asked.name}; leave --model out")


def _read(model: Any, path: str, asked: Request, held_out: bool = False) -> "Data":
    """A file with labels, its columns named as in the training of the model."""
    named = None if held_out else asked.get("columns")
    data = files.gold_for(model, path, named, asked.get("label"), files.file_options(asked.values, model.tokenizer()))
    if not len(data.X):
        raise CorpusError(f"{path}: no sentences to {'score' if held_out else 'learn from'}")
    if asked.get("scheme") is not None:
        if files.has_attributes(data) or files.layer_names(model):
            raise OptionError("--scheme: rewrites one label column; use labelwright convert on the file")
        data = data.with_scheme(asked.get("scheme"))
    if held_out:
        check_known_labels(data, dict.fromkeys(files.layer_names(model)) or None)
        data = _columns(model, data)
    return data


def _columns(model: Any, data: "Data") -> "Data":
    """The columns that the model reads, and its labels; nothing else of a file is learnt."""
    if files.has_attributes(data):
        return data
    inputs, labels = files.input_names(model), files.layer_names(model) or [data.label]
    others = [name for name in data.names if name not in labels]
    if not set(inputs) <= set(others):
        if len(others) != len(inputs):
            raise CorpusError(
                f"{data.source}: the model reads {counted(len(inputs), 'column')} ({','.join(inputs)}), got "
                f"{','.join(others)}; name them with --columns"
            )
        new = dict(zip(others, inputs, strict=True))
        data = data.renamed([new.get(name, name) for name in data.names], data.label)
    return data.select([*inputs, *labels])


def _check_scheme(model: Any, data: "Data") -> None:
    """Refuse labels in another scheme than the model has: it would learn both."""
    for name, part in model._outputs.items():
        labels = {label for sentence in files.gold_of(data, name) for label in sentence}
        known = {str(label) for label in labels} - set(part.classes_)
        unfit = sorted(label for label in known if is_chunk_label(label) and not writes(part.scheme_, label))
        if part.scheme_ is not None and unfit:
            mend = f"use labelwright convert --to-scheme {part.scheme_}" if name else f"add --scheme {part.scheme_}"
            raise CorpusError(
                f"{getattr(data, 'source', 'labels')}: the labels of the model follow {part.scheme_}, which has no "
                f"{unfit[0]!r}; {mend}"
            )


# -- after ------------------------------------------------------------------------------------------------------------


def _write(model: Any, data: "Data", asked: Request) -> None:
    """Write the model, which remembers the columns of its first training where they are the same."""
    files.check_writable(model, asked.values["output"])
    if not files.has_attributes(data) and "columns" not in model.training_:
        model._remember_input(list(data.names), data.label)
    if not files.has_attributes(data):
        model.training_["seen"] = sample_of(data, model.training_.get("seen", ""))
    model._forget_run()
    model.save(asked.values["output"])


def _sizes(model: Any) -> dict[str, tuple[list[str], int | None]]:
    """The labels of every output, and how many features it has, where it counts them."""
    return {name: (list(part.classes_), part.training_.get("features")) for name, part in model._outputs.items()}


def _growth(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """How many labels and features there are now, and how many of them are new."""
    phrases = []
    for name, (labels, features) in after.items():
        old_labels, old_features = before[name]
        new = [label for label in labels if label not in old_labels]
        named = f" (new: {', '.join(new[:SHOWN])}{', ...' if len(new) > SHOWN else ''})" if new else ""
        counts = [f"{counted(len(labels), 'label')}{named}"]
        if features is not None:
            counts.append(f"{counted(features, 'feature')} ({features - (old_features or 0):,} new)")
        phrases.append(f"{name}{' ' if name else ''}{', '.join(counts)}")
    return "; ".join(phrases)
