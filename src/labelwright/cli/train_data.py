"""labelwright train: its data, with one label column or several, labels that are known in part,
columns of weights, and rows of numbers."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from itertools import accumulate
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from labelwright.cli import files
from labelwright.cli.files import has_attributes
from labelwright.cli.recipe import Request
from labelwright.cli.show import say, warn
from labelwright.cli.tag_input import tokenizer_given
from labelwright.errors import CorpusError, OptionError
from labelwright.wording import counted, like_label, some_of

if TYPE_CHECKING:
    from labelwright.cli.files import Data
    from labelwright.corpus.file_formats import OpenFile

# options, and what they give weights of
WEIGHTS = {"sentence_weight": "sentence", "token_weight": "token"}
SAMPLED = ("search", "folds", "learning_curve")  # options that train and score on samples

# -- reading ---------------------------------------------------------------------------------------


def read_data(
    source: str, asked: Request, schemes: Any, head: "Data | None" = None
) -> "tuple[Data, Data | None]":
    """The training and the development data; `schemes` are those of the layers of a cascade, and
    `head` the first of the training data where the others are on a cluster."""
    from labelwright.corpus.file_formats import TEXTS, OpenFile, opened
    from labelwright.corpus.tokenizer import Tokenizer, shown_by
    from labelwright.inspection.warnings import hashes_of

    columns, label, scheme = (asked.get(name) for name in ("columns", "label", "scheme"))
    splitting = SimpleNamespace(
        **{
            name: asked.get(name)
            for name in ("tokenizer", "characters", "token_pattern", "sentences")
        }
    )
    options = files.file_options(asked.values, tokenizer_given(Tokenizer(), splitting))
    named = columns is not None or label is not None or schemes is not None
    file = (
        opened(source, options.format, named) if head is None else OpenFile(b"", source, "columns")
    )

    def read(part: "OpenFile", names: str | None, name: str | None) -> Any:
        if schemes is not None:
            return _read_layers(part, names, schemes, options)
        if file.format == "crfsuite":
            return _read_attributes(part, asked)
        return files.read_labelled(part, names, name, scheme, options)

    data: Any = read(file, columns, label) if head is None else head
    if not has_attributes(data):
        data = replace(data, raw=None)  # the text of the file is no longer needed
        of_words = data.tokenizer or shown_by(data) or Tokenizer()
        data = data.split_by(tokenizer_given(of_words, splitting) or data.tokenizer)
    file.close()
    data = _with_arrays(data, "arrays", asked)
    if "dev" not in asked.values:
        return data, None
    dev = opened(
        asked.values["dev"],
        options.format or ("crfsuite" if file.format == "crfsuite" else None),
        named=True,
    )
    if has_attributes(data) or dev.format in TEXTS:
        held_out: Any = read(dev, None, None)
    else:  # with the columns of the training data; those of weights may be missing and are not read
        names = columns or ",".join(data.names)
        weights = [asked.values[option] for option in WEIGHTS if asked.get(option) is not None]
        try:
            held_out = read(dev, names, data.label)
            if weights:
                held_out = held_out.select([name for name in held_out.names if name not in weights])
        except CorpusError:
            if not weights:
                raise
            held_out = read(
                dev, ",".join(name for name in names.split(",") if name not in weights), data.label
            )
    check_known_labels(held_out, schemes)
    if head is None:
        hashes = [] if has_attributes(data) else hashes_of(data)
        warn_about_dev(
            held_out,
            schemes,
            [values for values, _, _ in _columns(data, schemes).values()],
            hashes,
            asked,
        )
    return data, _with_arrays(held_out, "dev_arrays", asked)


def _read_layers(
    file: "OpenFile", columns: str | None, schemes: Mapping[str, str | None], options: Any
) -> Any:
    """A file with a column for every layer, its labels in the scheme that is named for it."""
    layers = list(schemes)
    corpus = files.read_layers(file, columns, layers, options)
    if file.format == "conllu":
        chosen = files.split_names(columns) or ["form", *layers]
        corpus = corpus.select(chosen).renamed(chosen, None)
    if len(corpus.names) == len(layers):
        raise CorpusError(
            f"{file.name}: all columns ({', '.join(layers)}) are layers; expected one more, as the "
            "word, to read"
        )
    for name, scheme in schemes.items():
        if scheme is not None:
            corpus = (
                corpus.renamed(corpus.names, name).with_scheme(scheme).renamed(corpus.names, None)
            )
    return corpus


def _read_attributes(file: "OpenFile", asked: Request) -> "Data":
    from labelwright.corpus.schemes import convert
    from labelwright.features.attributes import read_crfsuite

    for name in ("columns", "label", "template"):
        if name in asked.values:
            raise OptionError(
                f"{asked.place(name)}: {file.name} has attributes, not columns; leave it out"
            )
    data, scheme = read_crfsuite(file), asked.get("scheme")
    return data._replace(y=convert(data.y, None, scheme)) if scheme else data


def _with_arrays(data: "Data", name: str, asked: Request) -> "Data":
    """The data with the rows of numbers that an option gives."""
    if name not in asked.values:
        return data
    if has_attributes(data):
        raise OptionError(
            f"{asked.place(name)}: CRFsuite's data have numbers of their own; leave it out"
        )
    return files.TokenRows(asked.values[name], asked.place(name)).beside(data)


def read_further(model: Any, path: str, asked: Request, held_out: bool = False) -> "Data":
    """A file with labels for a model that is trained further, its columns named as in its
    training."""
    named, layers = None if held_out else asked.get("columns"), files.layer_names(model)
    options = files.file_options(asked.values, model.tokenizer())
    data = files.gold_for(model, path, named, asked.get("label"), options)
    if not len(data.X):
        raise CorpusError(f"{path}: no sentences to {'score' if held_out else 'learn from'}")
    if asked.get("scheme") is not None:
        if has_attributes(data) or layers:
            raise OptionError(
                "--scheme: rewrites one label column; use labelwright convert on the file"
            )
        data = data.with_scheme(asked.get("scheme"))
    if not held_out:
        return data
    check_known_labels(data, dict.fromkeys(layers) or None)
    return columns_for(model, data)


def columns_for(model: Any, data: "Data") -> "Data":
    """The columns that a model reads, and its labels; nothing else of a file is learnt.  Labels in
    another scheme than the model has are refused: it would learn both."""
    from labelwright.corpus.schemes import is_chunk_label
    from labelwright.taggers.arguments import writes

    for name, part in model._outputs.items():
        labels = {str(label) for sentence in files.gold_of(data, name) for label in sentence} - set(
            part.classes_
        )
        unfit = sorted(
            label for label in labels if is_chunk_label(label) and not writes(part.scheme_, label)
        )
        if part.scheme_ is not None and unfit:
            mend = (
                f"use labelwright convert --to-scheme {part.scheme_}"
                if name
                else f"add --scheme {part.scheme_}"
            )
            raise CorpusError(
                f"{getattr(data, 'source', 'labels')}: the labels of the model follow "
                f"{part.scheme_}, which has no {unfit[0]!r}; {mend}"
            )
    if has_attributes(data):
        return data
    inputs, columns = files.input_names(model), files.layer_names(model) or [data.label]
    others = [name for name in data.names if name not in columns]
    if not set(inputs) <= set(others):
        if len(others) != len(inputs):
            raise CorpusError(
                f"{data.source}: the model reads {counted(len(inputs), 'column')} "
                f"({','.join(inputs)}), got {','.join(others)}; name them with --columns"
            )
        new = dict(zip(others, inputs, strict=True))
        data = data.renamed([new.get(name, name) for name in data.names], data.label)
    return data.select([*inputs, *columns])


# -- weights and labels ----------------------------------------------------------------------------


def weighted_data(data: "Data", asked: Request) -> "tuple[Data, list[Any] | None]":
    """The training data without the column of weights that an option names, and the weights."""
    from labelwright.corpus.open_labels import weighted

    named = [option for option in WEIGHTS if asked.get(option) is not None]
    if not named:
        return data, None
    if has_attributes(data):
        raise OptionError(f"{asked.place(named[0])}: CRFsuite's data have no columns; leave it out")
    if len(named) > 1:
        raise OptionError(
            f"{asked.place(named[0])}: not together with {asked.place(named[1])}; leave one of "
            "them out"
        )
    return weighted(data, **{WEIGHTS[named[0]]: asked.values[named[0]]})


def check_known_labels(dev: "Data", schemes: Mapping[str, Any] | None) -> None:
    """Refuse development data with labels that are not known, since they are scored."""
    from labelwright.corpus.partial_labels import check_known

    for name, (_, _, source) in _columns(dev, schemes).items():
        check_known(files.gold_of(dev, name), f"{source}: column {name}" if schemes else source)


def warn_about_dev(
    dev: "Data", schemes: Any, labels: Iterable[Any], hashes: list[str], asked: Request
) -> None:
    """Name labels that the training data lack, and say whether they have the same sentences."""
    from labelwright.inspection.warnings import labels_unseen, trained_on

    for learnt, (name, (values, _, source)) in zip(
        labels, _columns(dev, schemes).items(), strict=False
    ):
        warn(labels_unseen(learnt, values, f"{source}: column {name}" if schemes else source))
    if not has_attributes(dev) and not asked.get("quiet"):
        warn(trained_on("".join(hashes), dev))


def opened_labels(data: "Data", asked: Request, labels: Collection[str] = ()) -> "Data":
    """The training data with labels as --unmarked and --allowed-labels have them; a model may have
    further labels."""
    from labelwright.corpus.open_labels import (
        allowed_in,
        read_allowed_labels,
        unmarked_unknown,
        with_unmarked_unknown,
    )

    path = asked.get("allowed_labels")
    if asked.get("unmarked") == "unknown":  # then O says nothing
        data = (
            data._replace(y=unmarked_unknown(data.y))
            if has_attributes(data)
            else with_unmarked_unknown(data)
        )
    if path is None:
        return data
    if has_attributes(data):
        raise OptionError(
            f"{asked.place('allowed_labels')}: CRFsuite's data have no words; leave it out"
        )
    allowed, (alone, members) = read_allowed_labels(path), _known(data.values(data.label), labels)
    known = sorted(alone.union(*members))
    for word, of_word in allowed.items():
        for label in sorted(set(of_word).difference(known)):
            has = f"which has {some_of(known)}{like_label(label, known)}"
            raise CorpusError(f"{path}: {word}: no label {label!r} in {data.source}, {has}")
    return allowed_in(data, allowed)


def _known(values: Any, labels: Collection[str]) -> tuple[set[str], list[frozenset[str]]]:
    """The labels that a column, or a model, has as such, and the sets of labels in the column."""
    from labelwright.corpus.partial_labels import sets_among

    members = sets_among(values, labels)
    alone = {value for value, found in zip(values, members, strict=True) if found is None}
    return alone.union(labels), [found for found in members if found]


def set_rate(model: Any, dev: "Data | None", asked: Request) -> None:
    """With --unmarked unknown, estimate the entity rate of a CRF from development data, unless it
    is given; say so, or why not."""
    settings = model.get_params(deep=False)
    if (
        asked.get("unmarked") != "unknown"
        or dev is None
        or settings.get("entity_rate", 0) is not None
    ):
        return
    # those that are known
    labels = [label for sentence in dev.y for label in sentence if isinstance(label, str)]
    rate = round(1 - labels.count("O") / max(1, len(labels)), 4)
    line = f"--entity-rate {rate}: estimated from {asked.values['dev']}"
    if settings["optimizer"] != "lbfgs":
        line = "--entity-rate: not estimated, since SGD has no term for it; use --optimizer lbfgs"
    elif not 0 < rate < 1:
        line = f"--entity-rate: not estimated, since it is {rate:g} in {asked.values['dev']}"
    else:
        model.set_params(entity_rate=rate)
    if not asked.get("quiet"):
        say(line)


def say_known(
    data: "Data", schemes: Any, asked: Request, labels: Mapping[str, Collection[str]] | None = None
) -> None:
    """One line on each label column that is known in part; what cannot be done with it is refused.

    labels : those that a model has already, by its output"""
    from labelwright.corpus.partial_labels import NO_SET, broken_sets, how_many_known

    for name, (values, codes, source) in _columns(data, schemes).items():
        learnt = (labels or {}).get(name if schemes else "", ())
        for value in broken_sets(values, learnt):  # looks like a set of labels and is none
            token, ends = (
                codes.tolist().index(list(values).index(value)),
                [0, *accumulate(map(len, data.X))],
            )
            sentence = next(n for n, end in enumerate(ends[1:]) if token < end)
            raise CorpusError(
                f"{source}: sentence {sentence}, token {token - ends[sentence]}: {value!r} {NO_SET}"
            )
        known = how_many_known(values, codes)
        if not known.sets + known.unknown:
            continue
        if not asked.can("partial_labels"):
            raise OptionError(
                f"{source}: some labels are unknown, but a {asked.name} needs the label of every "
                "token"
            )
        for option in SAMPLED:
            if asked.get(option) and (option == "folds" or "dev" not in asked.values):
                mend = "leave it out" if option == "folds" else "add --dev FILE"
                raise OptionError(
                    f"{asked.place(option)}: scores need a label for every token; {mend}"
                )
        if asked.get("quiet"):
            continue
        of = f"{source}: column {name}" if schemes else source
        sets, unknown = counted(known.sets, "token"), counted(known.unknown, "token")
        say(
            f"{of}: {counted(known.labels, 'token')} with a label, {sets} with a set, {unknown} "
            "unknown"
        )
        alone, members = _known(values, learnt)
        alone |= {"O", *(next(iter(found)) for found in members if len(found) == 1)}
        only = sorted(frozenset().union(*members) - alone)  # nothing tells how these look
        if only:
            warn(f"{of}: {', '.join(only)}: only in sets of labels, at no token alone; misspelt?")


def _columns(data: "Data", schemes: Mapping[str, Any] | None) -> dict[str, tuple[Any, Any, str]]:
    """The label columns of training data: distinct values, codes [T] and the file."""
    if has_attributes(data):
        from labelwright.corpus.table import intern_labels

        column = intern_labels([label for sentence in data.y for label in sentence], data.y, "y")
        return {"": (column.values, column.codes, "labels")}
    names = list(schemes) if schemes else [data.label] if data.label else []
    return {name: (data.values(name), data.codes(name), data.source) for name in names}
