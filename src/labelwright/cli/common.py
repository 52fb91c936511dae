"""What several commands share: reading labelled files and models, checking targets, saying things."""

import json
import os
import sys
import tempfile
from collections.abc import Container, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from labelwright import signals
from labelwright.cli.options import DATA, OUTPUT, SCORING, option
from labelwright.errors import CorpusError, ModelFileError, OptionError
from labelwright.taggers.registry import FOREIGN
from labelwright.wording import counted as counted
from labelwright.wording import percent as percent
from labelwright.wording import printable

if TYPE_CHECKING:
    from labelwright.corpus.file_formats import FileOptions, OpenFile
    from labelwright.corpus.table import Corpus

FORMAT_HELP = (
    "columns, conllu, crfsuite, jsonl, parquet, spacy, text, doccano, label-studio, brat. [default: as it looks]"
)
SCHEME_NAMES = "iob1, iob2, ioe1, ioe2, bioes, bilou, bmes or io"

# Options that mean the same in several commands.
Columns = Annotated[str | None, option("Names of the columns, as in word,pos,chunk.", "NAMES", DATA)]
Label = Annotated[str | None, option("The label column. [default: the last]", "NAME", DATA)]
StrictScheme = Annotated[
    str | None, option("The scheme of strict reading. [default: as the labels look]", "NAME", SCORING)
]
Strict = Annotated[
    bool,
    option(
        "Count only chunks that are written as the scheme requires. [default: as conlleval counts]",
        None,
        SCORING,
        "--strict",
    ),
]
Format = Annotated[str | None, option(FORMAT_HELP, "NAME", DATA)]
LabelNames = Annotated[str | None, option("Names of labels that are numbers in JSON or Parquet.", "NAMES", DATA)]
SkipBadSpans = Annotated[
    bool, option("Leave out annotations of texts that cut a token or overlap.", None, DATA, "--skip-bad-spans")
]
Threads = Annotated[int | None, option("Threads; results stay the same. [default: all cores]", "N")]
Json = Annotated[bool, option("Print JSON instead of text.", None, OUTPUT, "--json")]


def aligned(rows: Sequence[Sequence[str]], right: Container[int] = ()) -> list[str]:
    """Lines of a table; the columns of these numbers stand to the right.

    >>> aligned([("name", "n"), ("a", "12")], {1})
    ['name   n', 'a     12']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def say(text: str) -> None:
    """One line on stderr."""
    with suppress(OSError):  # whoever would read it is gone
        sys.stderr.write(f"{printable(text)}\n")
        sys.stderr.flush()


def ended_by_signal(rest: str) -> typer.Exit:
    """Say which signal has ended the command, and the rest of the line; what is to be raised then."""
    say(f"labelwright: {signals.what_happened()}{rest}")
    return typer.Exit(signals.exit_status())


def show(text: str = "") -> None:
    """Text for people on stdout, never wrapped; control characters in it are escaped."""
    sys.stdout.write(f"{printable(text)}\n")


def show_json(value: Any) -> None:
    """One JSON object on stdout."""
    sys.stdout.write(f"{json.dumps(value, ensure_ascii=False, indent=2, default=_as_json)}\n")


def _as_json(value: Any) -> float | str:
    """A number of NumPy, or in words what JSON cannot hold, such as the word vectors of a model."""
    try:
        return float(value)
    except TypeError:
        return repr(value)


def write_page(path: str, text: str) -> bool:
    """Write an HTML page; False where it went to standard output."""
    if path == "-":
        sys.stdout.write(f"{text}\n")
        return False
    with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    return True


def heading(text: str) -> None:
    """A headline on stdout: bold on a terminal."""
    from rich.console import Console
    from rich.text import Text

    Console(soft_wrap=True).print(Text(printable(text), style="bold"))


def is_model(path: str) -> bool:
    """Whether a file begins like safetensors (eight bytes of length and a JSON object), or like a model of another
    program.  Pipes are not asked: what is read from them is gone."""
    if not os.path.isfile(path):
        return False
    try:
        with open(path, "rb") as file:
            head = file.read(9)
    except OSError:
        return False
    return (len(head) == 9 and head[8:] == b"{" and 0 in head[:8]) or head.startswith(tuple(FOREIGN))


def load_model(path: str, threads: int | None = None, attributes: bool = False) -> Any:
    """A model that can read column files; with `attributes`, or one for CRFsuite's data."""
    from labelwright.taggers.packing import with_text_labels
    from labelwright.taggers.registry import load

    model = load(path)
    kind = model.reads().kind
    if kind == "rows":
        raise ModelFileError(
            f"{path}: a {type(model).__name__} classifies rows, not sentences; use labelwright.load(...) in Python, or "
            "train with --model memory"
        )
    if kind != "columns" and not (kind == "dicts" and attributes and not layer_names(model)):
        raise ModelFileError(
            f"{path}: trained on feature {kind}, but columns are read here; use labelwright.load(...) in Python"
        )
    model = with_text_labels(model)
    if threads is not None:
        for part in {id(part): part for part in (model, *model._outputs.values())}.values():
            part.set_params(n_jobs=threads)
    return model


def layer_names(model: Any) -> list[str]:
    """The names of the layers of a cascade; other taggers have none."""
    return [name for name in model._outputs if name]


def input_names(model: Any) -> list[str]:
    """The columns that a model reads."""
    return list(model.reads().columns)


def is_conllu(path: str) -> bool:
    """Whether the name says CoNLL-U: .conllu, perhaps compressed."""
    return any(suffix in (".conllu", ".conll-u") for suffix in Path(path).suffixes[-2:])


def read_labelled(
    path: "str | OpenFile",
    columns: str | None = None,
    label: str | None = None,
    scheme: str | None = None,
    options: "FileOptions | None" = None,
    predicted: bool = False,
) -> "Corpus":
    """A labelled file; of a CoNLL-U file form and label are kept unless columns are named, and of CRFsuite's data the
    labels alone.  With `predicted`, the labels that `labelwright tag` wrote are preferred to others."""
    from labelwright.corpus.file_formats import RECORDS, TEXTS, FileOptions, opened, read_corpus

    options = options or FileOptions()
    file = opened(path, options.format, named=columns is not None or label is not None)
    check_file_options(file, options)
    corpus, notes = read_corpus(file, columns, label, options, predicted)
    for note in notes:
        say(f"labelwright: {note}")
    if file.format in RECORDS and corpus.label is None:
        if file.format in TEXTS:
            raise CorpusError(f"{file.name}: no text is annotated")
        raise CorpusError(f"{file.name}: no field with labels, expected tags, labels or ner_tags; name it with --label")
    if file.format == "conllu":
        assert corpus.label is not None
        names = [name.strip() for name in columns.split(",")] if columns else ["form", corpus.label]
        if corpus.label not in names:
            raise CorpusError(f"{file.name}: the label {corpus.label} is not among the columns {','.join(names)}")
        corpus = corpus.select(names)
    return corpus.with_scheme(scheme) if scheme else corpus


def check_file_options(file: "OpenFile", options: "FileOptions") -> None:
    """Refuse options that a file of this format does not take."""
    from labelwright.corpus.file_formats import RECORDS, TEXTS

    if options.label_names is not None and (file.format in TEXTS or file.format not in RECORDS):
        raise OptionError(f"--label-names: only for JSON lines and Parquet, but {file.name} is {file.format}")
    if options.skip_bad_spans and file.format not in TEXTS:
        raise OptionError(f"--skip-bad-spans: only for annotated texts, but {file.name} is {file.format}")


def named_for(model: Any, corpus: "Corpus") -> "Corpus":
    """A corpus read without names under the names that the model knows; the label may be there or not."""
    inputs = input_names(model)
    columns, label = label_place(model)
    if len(corpus.names) == len(inputs):
        return corpus.renamed(inputs, None)
    if len(corpus.names) == len(columns):
        return corpus.renamed(columns, label)
    with_labels = "with the label" if label is not None else f"with the labels ({','.join(columns)})"
    raise CorpusError(
        f"{corpus.source}: the model reads {counted(len(inputs), 'column')} ({','.join(inputs)}), or {len(columns)} "
        f"{with_labels}, got {len(corpus.names)}; name them all with --columns"
    )


def label_place(model: Any) -> tuple[list[str], str | None]:
    """The columns of the training file and which of them is the label; models made in Python: the last, `label`.

    A cascade has a column for each layer, and no one label."""
    inputs, layers = input_names(model), layer_names(model)
    label, columns = model.training_.get("label"), model.training_.get("columns")
    labels = layers or [label]
    if not all(labels) or not columns or [name for name in columns if name not in labels] != inputs:
        labels = layers or ["label"]
        columns = [*inputs, *labels]
    return list(columns), None if layers else labels[0]


def read_for(model: Any, path: "str | OpenFile", columns: str | None = None, more: Sequence[str] = ()) -> "Corpus":
    """A file for a model to label: its columns told by --columns, else by their number; CoNLL-U by their names, and
    files with fields by their names, too (`more` names further fields)."""
    from labelwright.corpus.file_formats import RECORDS, TEXTS, opened, read_corpus

    file = opened(path, named=columns is not None)
    refuse_attributes(model, file)
    if file.format == "conllu":
        label = label_place(model)[1] or "label"
        return read_corpus(file, label=label if label != "label" else "upos")[0]
    if file.format not in RECORDS:
        corpus, notes = read_corpus(file, columns, label=False)
        for note in notes:
            say(f"labelwright: {note}")
        return corpus if columns else named_for(model, corpus)
    inputs = input_names(model)
    fields = inputs if columns is None else [name.strip() for name in columns.split(",")]
    corpus = read_corpus(file, None if file.format in TEXTS else [*fields, *more], label=False)[0]
    if len(corpus.names) < len(inputs):
        names = ",".join(inputs)
        raise CorpusError(f"{file.name}: the model reads {len(inputs)} columns ({names}), got {','.join(corpus.names)}")
    return corpus if set(inputs) <= set(corpus.names) else corpus.renamed([*inputs, *corpus.names[len(inputs) :]], None)


def refuse_attributes(model: Any, file: "OpenFile") -> None:
    """Refuse CRFsuite's data for a model that reads columns."""
    if file.format == "crfsuite":
        names = ",".join(input_names(model))
        raise CorpusError(f"{file.name}: holds attributes (CRFsuite's data), but the model reads columns ({names})")


def inputs_of(model: Any, corpus: "Corpus") -> "Corpus":
    """The columns that the model reads; a CoNLL-U file has its words in `form`."""
    names = input_names(model)
    if "form" in corpus.names and "word" not in corpus.names:
        names = ["form" if name == "word" else name for name in names]
    return corpus.select(names)


def corpus_for(model: Any, gold: "Corpus") -> "Corpus":
    """The columns that the model reads of a labelled file."""
    known = set(input_names(model)) <= set(gold.names) or is_conllu(gold.source)
    return inputs_of(model, gold if known else named_for(model, gold))


def check_columns(corpus: "Corpus", layers: Sequence[str]) -> None:
    """Refuse a file without a column for one of these layers."""
    for name in layers:
        if name not in corpus.names:
            raise CorpusError(
                f"{corpus.source}: no column {name!r} for the layer of that name, got {','.join(corpus.names)}; "
                f"name the columns with --columns, as in word,{','.join(layers)}"
            )


def predicted_labels(path: str, gold: "Corpus") -> list[list[str]]:
    """What a file of predictions holds in its last column."""
    label = gold.label if is_conllu(path) else None
    predicted = read_labelled(path, label=label, predicted=True)
    if predicted.label is None:  # labels alone
        predicted = predicted.renamed(["label"], "label")
    _check_same_words(gold, predicted)
    _check_predictions(gold, predicted)
    return predicted.y


def _check_predictions(gold: "Corpus", predicted: "Corpus") -> None:
    """Refuse a file without predictions, whose last column is not the label."""
    from labelwright.corpus.schemes import is_chunk_label

    assert gold.label is not None
    assert predicted.label is not None
    if 1 < len(predicted.names) < len(gold.names) and not is_conllu(predicted.source):
        raise CorpusError(
            f"{predicted.source}: has {len(predicted.names)} columns, but {gold.source} has {len(gold.names)}; "
            "expected as many and the predicted label last, or predicted labels alone"
        )
    labels, wanted = predicted.values(predicted.label), gold.values(gold.label)
    if set(labels) & set(wanted) or all(map(is_chunk_label, [*labels, *wanted])):  # chunks may be all wrong
        return
    place = predicted.names.index(predicted.label) + 1
    raise CorpusError(
        f"{predicted.source}: column {place} holds no label of {gold.source}, column {gold.label}, but such as "
        f"{labels[0]!r}; expected predictions like {wanted[0]!r} there"
    )


def _check_same_words(gold: "Corpus", predicted: "Corpus") -> None:
    """Refuse predictions for another text; files of labels alone have no words to compare."""
    if len(predicted.names) < 2 or len(gold.names) < 2 or gold.offsets.tolist() != predicted.offsets.tolist():
        return  # different lengths are reported by the evaluation
    ours, theirs = gold.column(gold.input_names[0]), predicted.column(predicted.input_names[0])
    for n, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        for t, (x, y) in enumerate(zip(a, b, strict=True)):
            if x != y:
                raise CorpusError(
                    f"{predicted.source}: sentence {n}, token {t} is {y!r}, but {gold.source} has {x!r} there; "
                    "expected the same text in both"
                )


def check_target(path: str, inputs: Iterable[str] = (), for_model: bool = False) -> None:
    """Refuse a target that cannot be written, or that holds what must be kept, before any work is done for it."""
    if path == "-" and not for_model:
        return
    if not path:
        raise OptionError("-o: got nothing, expected the name of a file to write")
    target = Path(os.path.realpath(path))
    if not for_model and os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        return  # a pipe or a device, perhaps by way of /dev/stdout
    if target.is_dir():
        raise OptionError(f"{path}: is a folder, expected the name of a file to write")
    if not target.parent.is_dir():
        raise OptionError(f"{path}: cannot be written: there is no folder {Path(path).parent}")
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device
        raise OptionError(f"{path}: is not a regular file, expected the name of a model file to write")
    refuse_inputs(path, inputs)
    if not for_model and is_model(path):
        raise OptionError(f"{path}: is a model, which this command would replace; name another file to write")
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise OptionError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from None


def refuse_inputs(path: str, inputs: Iterable[str]) -> None:
    """Refuse to write where an input of the same command is."""
    for source in inputs:
        if os.path.exists(path) and os.path.exists(source) and os.path.samefile(path, source):
            raise OptionError(f"{path}: would replace {source}, which this command reads; name another file to write")


class Lines:
    """One line per iteration on stderr, and one before each further random start."""

    def __init__(self) -> None:
        self._last, self._starts = -1, 1

    def __call__(self, record: Any, max_iter: int) -> None:
        if record["iteration"] <= self._last:
            self._starts += 1
            say(f"start {self._starts}")
        self._last = record["iteration"]
        dev = f"  dev {100 * record['dev']:.2f}" if "dev" in record else ""
        what = f"loss {record['loss']:14.4f}"
        if "mistakes" in record:
            what = f"mistakes {record['mistakes']:9,}  separable {percent(record['separable']):>8}"
        say(f"{record['iteration']:5d}  {what}  {record['seconds']:8.2f} s{dev}")

    def close(self) -> None:
        """Nothing is left open."""
