"""labelwright train: several label columns, labels that are known in part, and columns of weights."""

from collections.abc import Callable, Collection, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from labelwright.cli.files import check_columns, gold_of, has_attributes, split_names
from labelwright.cli.recipe import Request
from labelwright.cli.show import say, warn
from labelwright.errors import CorpusError, OptionError
from labelwright.wording import counted

if TYPE_CHECKING:
    from labelwright.cli.files import Data
    from labelwright.corpus.file_formats import FileOptions, OpenFile
    from labelwright.corpus.open_labels import Allowed
    from labelwright.corpus.table import Corpus

WEIGHTS = {"sentence_weight": "sentence", "token_weight": "token"}  # options, and what they give weights of
SAMPLED = ("search", "folds", "learning_curve")  # options that train and score on samples


def read_layers(
    file: "OpenFile", columns: str | None, schemes: Mapping[str, str | None], options: "FileOptions"
) -> "Corpus":
    """A file with a column for every layer, its labels in the scheme that is named for it."""
    from labelwright.corpus.file_formats import RECORDS, read_corpus

    names = list(schemes)
    chosen = split_names(columns)
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


def weighted_data(data: "Data", asked: Request) -> "tuple[Data, list[Any] | None]":
    """The training data without the column of weights that an option names, and the weights."""
    named = _weight_columns(asked)
    if not named:
        return data, None
    from labelwright.corpus.open_labels import weighted

    option, column = next(iter(named.items()))
    if has_attributes(data):
        raise OptionError(f"{asked.place(option)}: CRFsuite's data have no columns; leave it out")
    if len(named) > 1:
        other = asked.place(list(named)[1])
        raise OptionError(f"{asked.place(option)}: not together with {other}; leave one of them out")
    return weighted(data, **{WEIGHTS[option]: column})


def _weight_columns(asked: Request) -> dict[str, str]:
    """The columns of weights, by the option that names each."""
    return {option: asked.values[option] for option in WEIGHTS if asked.get(option) is not None}


def read_dev(read: Callable[[str], "Data"], names: str, asked: Request) -> "Data":
    """Development data with the columns of the training data; those of weights may be missing and are not read."""
    weights = _weight_columns(asked).values()
    try:
        dev = read(names)
    except CorpusError:
        if not weights:
            raise
        return read(",".join(name for name in names.split(",") if name not in weights))
    if has_attributes(dev) or not weights:
        return dev
    return dev.select([name for name in dev.names if name not in weights])


def check_known_labels(dev: "Data", schemes: Mapping[str, Any] | None, data: "Data | None" = None) -> None:
    """Refuse development data with labels that are not known, since they are scored; name those that `data` lack."""
    from labelwright.corpus.partial_labels import check_known
    from labelwright.inspection.warnings import labels_unseen

    learnt = [] if data is None else list(_columns(data, schemes).values())
    for n, (name, (values, _, source)) in enumerate(_columns(dev, schemes).items()):
        place = f"{source}: column {name}" if schemes else source
        check_known(gold_of(dev, name), place)
        warn(labels_unseen(learnt[n][0], values, place) if learnt else None)


def opened_labels(data: "Data", asked: Request, labels: Collection[str] = ()) -> "Data":
    """The training data with labels as --unmarked and --allowed-labels have them; a model may have further labels."""
    if asked.get("unmarked") == "unknown":  # then O says nothing
        from labelwright.corpus.open_labels import unmarked_unknown, with_unmarked_unknown

        data = data._replace(y=unmarked_unknown(data.y)) if has_attributes(data) else with_unmarked_unknown(data)
    if asked.get("allowed_labels") is None:
        return data
    if has_attributes(data):
        raise OptionError(f"{asked.place('allowed_labels')}: CRFsuite's data have no words; leave it out")
    from labelwright.corpus.open_labels import allowed_in, read_allowed_labels

    path = asked.values["allowed_labels"]
    allowed = read_allowed_labels(path)
    _check_allowed(path, allowed, data, labels)
    return allowed_in(data, allowed)


def _check_allowed(path: str, allowed: "Allowed", data: "Data", labels: Collection[str]) -> None:
    """Refuse labels of a dictionary that neither the data nor a model have."""
    from labelwright.corpus.partial_labels import sets_among
    from labelwright.wording import like_label, some_of

    values = data.values(data.label)
    members = sets_among(values, labels)
    known = {value for value, found in zip(values, members, strict=True) if found is None}.union(labels)
    known.update(label for found in members if found for label in found)
    for word, of_word in allowed.items():
        for label in sorted(set(of_word) - known):
            has = f"which has {some_of(sorted(known))}{like_label(label, sorted(known))}"
            raise CorpusError(f"{path}: {word}: no label {label!r} in {data.source}, {has}")


def set_rate(model: Any, dev: "Data | None", asked: Request) -> None:
    """With --unmarked unknown, estimate the entity rate of a CRF from development data, unless it is given; say
    so, or why not."""
    settings = model.get_params(deep=False)
    if asked.get("unmarked") != "unknown" or dev is None or settings.get("entity_rate", 0) is not None:
        return
    labels = [label for sentence in dev.y for label in sentence if isinstance(label, str)]  # those that are known
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
    data: "Data", schemes: Mapping[str, Any] | None, asked: Request, labels: Mapping[str, Collection[str]] | None = None
) -> None:
    """One line on each label column that is known in part; what cannot be done with it is refused.

    labels : those that a model has already, by its output"""
    for name, (values, codes, source) in _columns(data, schemes).items():
        from labelwright.corpus.partial_labels import how_many_known

        learnt = (labels or {}).get(name if schemes else "", ())
        _refuse_broken(data, values, codes, source, learnt)
        known = how_many_known(values, codes)
        if not known.sets + known.unknown:
            continue
        if not asked.can("partial_labels"):
            raise OptionError(f"{source}: some labels are unknown, but a {asked.name} needs the label of every token")
        for option in SAMPLED:
            if asked.get(option) and (option == "folds" or "dev" not in asked.values):
                mend = "leave it out" if option == "folds" else "add --dev FILE"
                raise OptionError(f"{asked.place(option)}: scores need a label for every token; {mend}")
        if not asked.get("quiet"):
            of = f"{source}: column {name}" if schemes else source
            sets, unknown = counted(known.sets, "token"), counted(known.unknown, "token")
            say(f"{of}: {counted(known.labels, 'token')} with a label, {sets} with a set, {unknown} unknown")
            _warn_of_members(of, values, learnt)


def _refuse_broken(data: "Data", values: Any, codes: Any, source: str, labels: Collection[str]) -> None:
    """Refuse a text that looks like a set of labels and is none, with its place."""
    from labelwright.corpus.partial_labels import NO_SET, broken_sets

    for value in broken_sets(values, labels):
        token = codes.tolist().index(list(values).index(value))
        lengths = map(len, data.X)
        sentence = next(n for n, end in enumerate(accumulate(lengths)) if token < end)
        token -= sum(len(each) for each in data.X[:sentence])
        raise CorpusError(f"{source}: sentence {sentence}, token {token}: {value!r} {NO_SET}")


def _warn_of_members(of: str, values: Any, labels: Collection[str]) -> None:
    """Say which labels occur in sets alone: nothing tells how they look, and they may be misspelt."""
    from labelwright.corpus.partial_labels import sets_among

    members = sets_among(values, labels)
    alone = {value for value, found in zip(values, members, strict=True) if found is None}.union(labels, ["O"])
    alone |= {next(iter(found)) for found in members if found and len(found) == 1}
    only = sorted({label for found in members if found for label in found} - alone)
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
