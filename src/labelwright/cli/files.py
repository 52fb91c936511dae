"""What several commands read and write: models, labelled files, numbers beside tokens; targets are
checked first."""

import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labelwright.cli.show import say, warn
from labelwright.errors import CorpusError, ModelFileError, OptionError, unreadable
from labelwright.hub import PREFIX
from labelwright.taggers.registry import FOREIGN
from labelwright.wording import counted

if TYPE_CHECKING:
    from labelwright.corpus.file_formats import FileOptions, OpenFile
    from labelwright.corpus.table import Corpus
    from labelwright.corpus.tokenizer import Tokenizer

Data = Any  # a Corpus, or AttributeData

# -- models ----------------------------------------------------------------------------------------


def is_model(path: str) -> bool:
    """Whether a file begins like safetensors (eight bytes of length and a JSON object), or like a
    model of another program.  Pipes are not asked: what is read from them is gone."""
    if not os.path.isfile(path):
        return path.startswith(PREFIX)
    try:
        with open(path, "rb") as file:
            head = file.read(9)
    except OSError:
        return False
    return (len(head) == 9 and head[8:] == b"{" and 0 in head[:8]) or head.startswith(
        tuple(FOREIGN)
    )


def load_model(
    path: str | bytes, threads: int | None = None, attributes: bool = False, files: bool = True
) -> Any:
    """A model whose labels are texts; with `files`, one that reads columns or, with `attributes`,
    CRFsuite's data."""
    from labelwright.taggers.packing import with_text_labels
    from labelwright.taggers.registry import load

    model = load(path)
    kind = model.reads().kind if files else "columns"
    if kind == "rows":
        raise ModelFileError(
            f"{path!s}: a {type(model).__name__} classifies rows, not sentences; use "
            "labelwright.load(...) in Python, or train with --model memory"
        )
    if kind != "columns" and not (kind == "dicts" and attributes and not layer_names(model)):
        raise ModelFileError(
            f"{path!s}: trained on feature {kind}, but columns are read here; use "
            "labelwright.load(...) in Python"
        )
    model = with_text_labels(model)
    if threads is not None:
        for part in {id(part): part for part in (model, *model._outputs.values())}.values():
            part.set_params(n_jobs=threads)
    return model


def layer_names(model: Any) -> list[str]:
    """The names of the layers of a cascade; other taggers have none."""
    return [name for name in model._outputs if name]


def check_layer(
    layer: str | None, layers: Sequence[str], path: str, kind: str, flag: str = "--layer"
) -> None:
    if layer is not None and not layers:
        raise OptionError(f"{flag}: {path} is a {kind}, which has no layers; leave it out")
    if layer is not None and layer not in layers:
        raise OptionError(
            f"{flag}: {path} has no layer {layer!r}, expected one of {', '.join(layers)}"
        )


def input_names(model: Any) -> list[str]:
    return list(model.reads().columns)


def label_place(model: Any) -> tuple[list[str], str | None]:
    """The columns of the training file and which of them is the label; models made in Python: the
    last, `label`.

    A cascade has a column for each layer, and no one label."""
    inputs, layers = input_names(model), layer_names(model)
    label, columns = model.training_.get("label"), model.training_.get("columns")
    labels = layers or [label]
    if not all(labels) or not columns or [name for name in columns if name not in labels] != inputs:
        labels = layers or ["label"]
        columns = [*inputs, *labels]
    return list(columns), None if layers else labels[0]


# -- labelled files --------------------------------------------------------------------------------


def has_attributes(data: Data) -> bool:
    """Whether sentences have attributes, as CRFsuite's data, and no columns."""
    return hasattr(data, "X") and not hasattr(data, "names")


def gold_of(data: Data, output: str) -> Any:
    """The labels of labelled data for one output of a model."""
    return data.column(output) if output else data.y


def gold_labels(
    output: Any, data: "Corpus", column: str, offsets: Any, numbers: Sequence[int]
) -> dict[int, list[Any]]:
    """The labels of a column for some sentences, in the scheme of an output of a model; None or a
    set where the file leaves a label open."""
    from labelwright.corpus.partial_labels import left_open
    from labelwright.corpus.schemes import convert
    from labelwright.inspection.warnings import scheme_differs

    labels, bounds = data.tokens(column), offsets.tolist()
    sentences = [labels[bounds[n] : bounds[n + 1]] for n in numbers]
    if scheme_differs(output, data, column):
        sentences = convert(sentences, None, output.scheme_)
    sentences.append(list(data.values(column)))  # which tell what is a set of labels
    return dict(zip(numbers, left_open(sentences, output.classes_), strict=False))


def is_conllu(path: str) -> bool:
    """Whether the name says CoNLL-U: .conllu, perhaps compressed."""
    return any(suffix in (".conllu", ".conll-u") for suffix in Path(path).suffixes[-2:])


def split_names(names: str | None) -> list[str]:
    return [name.strip() for name in names.split(",")] if names else []


def file_options(o: Any, tokenizer: "Tokenizer | None" = None) -> "FileOptions":
    """What a command, or a run (a dict), was told of a file beside its columns."""
    from labelwright.corpus.file_formats import FileOptions
    from labelwright.corpus.tokenizer import Tokenizer

    given = o if isinstance(o, dict) else vars(o)
    names, skip = given.get("label_names"), given.get("skip_bad_spans", False)
    return FileOptions(given.get("format"), names, bool(skip), tokenizer or Tokenizer())


def read_labelled(
    path: "str | OpenFile",
    columns: str | None = None,
    label: str | None = None,
    scheme: str | None = None,
    options: "FileOptions | None" = None,
    predicted: bool = False,
) -> "Corpus":
    """A labelled file; of a CoNLL-U file form and label are kept unless columns are named, and of
    CRFsuite's data the labels alone.  With `predicted`, the labels that `labelwright tag` wrote are
    preferred to others."""
    from labelwright.corpus.file_formats import RECORDS, TEXTS, FileOptions, opened

    options = options or FileOptions()
    file = opened(path, options.format, named=columns is not None or label is not None)
    corpus = read_noting(file, columns, label, options, predicted)
    if file.format in RECORDS and corpus.label is None:
        if file.format in TEXTS:
            raise CorpusError(f"{file.name}: no text is annotated")
        raise CorpusError(
            f"{file.name}: no field with labels, expected tags, labels or ner_tags; name it with "
            "--label"
        )
    if file.format == "conllu":
        assert corpus.label is not None
        names = split_names(columns) or ["form", corpus.label]
        if corpus.label not in names:
            raise CorpusError(
                f"{file.name}: the label {corpus.label} is not among the columns {','.join(names)}"
            )
        corpus = corpus.select(names)
    return corpus.with_scheme(scheme) if scheme else corpus


def read_noting(
    file: "OpenFile",
    columns: str | None,
    label: Any,
    options: "FileOptions",
    predicted: bool = False,
) -> "Corpus":
    """The sentences of a file, and a line on what is odd about them; options that its format lacks
    are refused."""
    from labelwright.corpus.file_formats import RECORDS, TEXTS, read_corpus

    if options.label_names is not None and (file.format in TEXTS or file.format not in RECORDS):
        raise OptionError(
            f"--label-names: only for JSON lines and Parquet, but {file.name} is {file.format}"
        )
    if options.skip_bad_spans and file.format not in TEXTS:
        raise OptionError(
            f"--skip-bad-spans: only for annotated texts, but {file.name} is {file.format}"
        )
    corpus, notes = read_corpus(file, columns, label, options, predicted)
    for note in notes:
        warn(note)
    return corpus


def open_for(
    model: Any, path: "str | OpenFile", format: str | None = None, columns: str | None = None
) -> "OpenFile":
    """A file in a format that the model can read; others are refused."""
    from labelwright.corpus.file_formats import opened

    if model.reads().kind != "dicts":
        file = opened(path, format, named=columns is not None)
        if file.format == "crfsuite":
            names = ",".join(input_names(model))
            raise CorpusError(
                f"{file.name}: holds attributes (CRFsuite's data), but the model reads columns "
                f"({names})"
            )
        return file
    file = opened(path, format or "crfsuite")
    if file.format != "crfsuite":
        raise OptionError(
            f"--format: the model reads attributes, as in CRFsuite's data; got {file.format}"
        )
    if columns is not None:
        raise OptionError(
            "--columns: the model reads attributes, which are no columns; leave it out"
        )
    if b"\t" not in file.getvalue():
        raise CorpusError(
            f"{file.name}: no attributes, but the model was trained on feature dicts; give "
            "CRFsuite's data, or use labelwright.load(...) in Python"
        )
    return file


def gold_for(
    model: Any, path: "str | OpenFile", columns: str | None, label: str | None, files: "FileOptions"
) -> "Data":
    """A test file, its columns named as in training."""
    from labelwright.corpus.file_formats import RECORDS, TEXTS, records_of

    file, (names, trained_on) = open_for(model, path, files.format, columns), label_place(model)
    if file.format == "crfsuite":
        from labelwright.features.attributes import read_crfsuite

        return read_crfsuite(file)
    layers = layer_names(model)
    if layers:
        if label is not None:
            raise OptionError(
                "--label: a cascade has a label column for each layer, and all are scored; leave "
                "it out"
            )
        return read_layers(file, columns, layers, files, input_names(model), names)
    if file.format in RECORDS and file.format not in TEXTS:
        columns = columns or ",".join(input_names(model))
        label = label or (trained_on if trained_on in records_of(file).names else None)
    elif columns is None and label is None and file.format not in TEXTS:
        # the words of CoNLL-U are in `form`; a model that knows no name of its label gives upos
        other = {"word": "form", "label": "upos"} if file.format == "conllu" else {}
        columns, label = (
            ",".join(other.get(name, name) for name in names),
            other.get(str(trained_on), trained_on),
        )
    return read_labelled(file, columns, label, options=files)


def read_layers(
    file: "OpenFile",
    columns: str | None,
    layers: Sequence[str],
    options: "FileOptions",
    inputs: Sequence[str] = ("word",),
    names: Sequence[str] | None = None,
) -> "Corpus":
    """A file with a column for every layer of a cascade; `names` are those of a column file where
    none are given."""
    from labelwright.corpus.file_formats import RECORDS, read_corpus

    if file.format == "conllu":
        corpus = read_corpus(file)[0]
    elif file.format in RECORDS:
        corpus = read_corpus(file, columns or [*inputs, *layers], False, options)[0]
    else:
        corpus = read_corpus(file, columns, False)[0]
        if columns is None and names is not None:
            if len(corpus.names) != len(names):
                raise CorpusError(
                    f"{corpus.source}: expected the {len(names)} columns {','.join(names)}, with "
                    f"the labels of all layers, got {len(corpus.names)}; name them with --columns"
                )
            corpus = corpus.renamed(names, None)
    for name in layers:
        if name not in corpus.names:
            raise CorpusError(
                f"{corpus.source}: no column {name!r} for the layer of that name, got "
                f"{','.join(corpus.names)}; name the columns with --columns, as in "
                f"word,{','.join(layers)}"
            )
    return corpus


# -- what a model reads of them --------------------------------------------------------------------


def named_for(model: Any, corpus: "Corpus") -> "Corpus":
    """A corpus read without names under the names that the model knows; the label may be there or
    not."""
    inputs = input_names(model)
    columns, label = label_place(model)
    if len(corpus.names) == len(inputs):
        return corpus.renamed(inputs, None)
    if len(corpus.names) == len(columns):
        return corpus.renamed(columns, label)
    with_labels = (
        "with the label" if label is not None else f"with the labels ({','.join(columns)})"
    )
    raise CorpusError(
        f"{corpus.source}: the model reads {counted(len(inputs), 'column')} ({','.join(inputs)}), "
        f"or {len(columns)} {with_labels}, got {len(corpus.names)}; name them all with --columns"
    )


def read_for(
    model: Any, path: "str | OpenFile", columns: str | None = None, more: Sequence[str] = ()
) -> "Corpus":
    """A file for a model to label: its columns told by --columns, else by their number; CoNLL-U by
    their names, and files with fields by their names, too (`more` names further fields)."""
    from labelwright.corpus.file_formats import NOTHING_SAID, RECORDS, TEXTS, read_corpus

    file, inputs = open_for(model, path, None, columns), input_names(model)
    if file.format == "conllu":
        label = label_place(model)[1] or "label"
        return read_corpus(file, label=label if label != "label" else "upos")[0]
    if file.format not in RECORDS:
        corpus = read_noting(file, columns, False, NOTHING_SAID)
        return corpus if columns else named_for(model, corpus)
    fields = split_names(columns) or inputs
    corpus = read_corpus(file, None if file.format in TEXTS else [*fields, *more], label=False)[0]
    if len(corpus.names) < len(inputs):
        names = ",".join(inputs)
        raise CorpusError(
            f"{file.name}: the model reads {len(inputs)} columns ({names}), got "
            f"{','.join(corpus.names)}"
        )
    return (
        corpus
        if set(inputs) <= set(corpus.names)
        else corpus.renamed([*inputs, *corpus.names[len(inputs) :]], None)
    )


def inputs_of(model: Any, corpus: "Corpus") -> "Corpus":
    """The columns that the model reads; a CoNLL-U file has its words in `form`."""
    names = input_names(model)
    if "form" in corpus.names and "word" not in corpus.names:
        names = ["form" if name == "word" else name for name in names]
    return corpus.select(names)


def inputs_for(model: Any, gold: "Data") -> Any:
    """What the model reads of a labelled file."""
    if has_attributes(gold):
        return gold.X
    known = set(input_names(model)) <= set(gold.names) or is_conllu(gold.source)
    return inputs_of(model, gold if known else named_for(model, gold))


# -- predictions -----------------------------------------------------------------------------------


def predicted_by(model: Any, data: "Data") -> dict[str, Any]:
    predicted = model.predict(inputs_for(model, data))
    return predicted if layer_names(model) else {"": predicted}


def predicted_labels(path: str, gold: "Corpus") -> list[list[str]]:
    """What a file of predictions holds in its last column; one for another text, or without them,
    is refused."""
    from labelwright.corpus.schemes import is_chunk_label

    predicted = read_labelled(path, label=gold.label if is_conllu(path) else None, predicted=True)
    if predicted.label is None:  # labels alone
        predicted = predicted.renamed(["label"], "label")
    assert gold.label is not None
    assert predicted.label is not None
    _check_same_words(gold, predicted)
    if 1 < len(predicted.names) < len(gold.names) and not is_conllu(predicted.source):
        raise CorpusError(
            f"{predicted.source}: has {len(predicted.names)} columns, but {gold.source} has "
            f"{len(gold.names)}; expected as many and the predicted label last, or predicted "
            "labels alone"
        )
    labels, wanted = predicted.values(predicted.label), gold.values(gold.label)
    # chunks may be all wrong
    if not set(labels) & set(wanted) and not all(map(is_chunk_label, [*labels, *wanted])):
        place = predicted.names.index(predicted.label) + 1
        raise CorpusError(
            f"{predicted.source}: column {place} holds no label of {gold.source}, column "
            f"{gold.label}, but such as {labels[0]!r}; expected predictions like {wanted[0]!r} "
            "there"
        )
    return predicted.y


def _check_same_words(gold: "Corpus", predicted: "Corpus") -> None:
    """Refuse predictions for another text; files of labels alone have no words to compare."""
    if (
        len(predicted.names) < 2
        or len(gold.names) < 2
        or gold.offsets.tolist() != predicted.offsets.tolist()
    ):
        return  # different lengths are reported by the evaluation
    ours, theirs = gold.column(gold.input_names[0]), predicted.column(predicted.input_names[0])
    for n, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if a != b:
            t = next(t for t, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)
            raise CorpusError(
                f"{predicted.source}: sentence {n}, token {t} is {b[t]!r}, but {gold.source} has "
                f"{a[t]!r} there; expected the same text in both"
            )


# -- targets ---------------------------------------------------------------------------------------


def check_target(path: str, inputs: Iterable[str | None] = (), for_model: bool = False) -> None:
    """Refuse a target that cannot be written, or that holds what must be kept, before any work is
    done for it."""
    if path == "-" and not for_model:
        return
    if not path:
        raise OptionError("-o: got nothing, expected the name of a file to write")
    target = Path(os.path.realpath(path))
    if (
        not for_model
        and os.path.exists(path)
        and not os.path.isfile(path)
        and not os.path.isdir(path)
    ):
        return  # a pipe or a device, perhaps by way of /dev/stdout
    if target.is_dir():
        raise OptionError(f"{path}: is a folder, expected the name of a file to write")
    if not target.parent.is_dir():
        raise OptionError(f"{path}: cannot be written: there is no folder {Path(path).parent}")
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device
        raise OptionError(
            f"{path}: is not a regular file, expected the name of a model file to write"
        )
    refuse_inputs(path, inputs)
    if not for_model and is_model(path):
        raise OptionError(
            f"{path}: is a model, which this command would replace; name another file to write"
        )
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except OSError as error:
        raise OptionError(
            f"{path}: cannot be written: {(error.strerror or str(error)).lower()}"
        ) from None


def check_copy(path: str, place: str, inputs: Iterable[str | None]) -> None:
    """Refuse a target for a copy of a model that is no place for one, or that holds something
    else."""
    if path == "-":
        raise OptionError(f"{place}: expected the name of a model file to write, got '-'")
    check_target(path, inputs, for_model=True)
    if os.path.isfile(path) and os.path.getsize(path) and not is_model(path):
        raise OptionError(f"{path}: is no model, and would be replaced; name another file to write")


def refuse_inputs(path: str, inputs: Iterable[str | None]) -> None:
    for source in filter(None, inputs):
        if os.path.exists(path) and os.path.exists(source) and os.path.samefile(path, source):
            raise OptionError(
                f"{path}: would replace {source}, which this command reads; name another file to "
                "write"
            )


def write_page(path: str, text: str, told: str) -> None:
    """Write an HTML page, and say so unless it went to standard output."""
    if path == "-":
        sys.stdout.write(f"{text}\n")
        return
    with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    say(f"{path}: {told}")


# -- numbers beside the tokens: --arrays FILE has a row for each token, in the order of the file ---


class TokenRows:
    """The rows of a file, which are given to sentences one after the other."""

    def __init__(self, path: str, place: str = "--arrays"):
        self.path, self.place = path, place
        self._rows, self._begin = _read_rows(path, place), 0

    def beside(self, corpus: "Corpus", last: bool = True) -> "Corpus":
        """A corpus, or the next piece of one, with its rows beside its tokens; the last one must
        have all the rest."""
        begin, end = self._begin, self._begin + corpus.n_tokens
        if end > len(self._rows) or (last and end < len(self._rows)):
            rows = counted(len(self._rows), "row")
            tokens = f"{end:,} tokens or more" if end > len(self._rows) else counted(end, "token")
            why = f"but {corpus.source} has {tokens}; give a row for each token, in order"
            raise OptionError(f"{self.place}: {self.path} has {rows}, {why}")
        rows, self._begin = self._rows[begin:end], end
        return corpus.with_arrays([rows[a:b] for a, b in pairwise(corpus.offsets.tolist())])


def _read_rows(path: str, place: str) -> Any:
    """The array of a file [T, D]; one that is compressed is read within the limit of decompressed
    data."""
    import numpy as np

    from labelwright.corpus.limits import DECOMPRESSED, check_size

    try:
        content = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(content, np.lib.npyio.NpzFile):
            with content as archive:
                names = archive.files
                if len(names) != 1:
                    raise OptionError(
                        f"{place}: {path} has {len(names)} arrays ({', '.join(names):.80}), "
                        "expected one"
                    )
                members: Any = archive.zip
                check_size(members.infolist()[0].file_size, path, True, DECOMPRESSED)
                content = archive[names[0]]
    except (CorpusError, OptionError):
        raise
    except OSError as error:
        raise unreadable(OptionError, f"{place}: {path}", error) from None
    except Exception:  # NumPy, zipfile and zlib have many for damaged files
        content = None
    if not isinstance(content, np.ndarray):
        raise OptionError(
            f"{place}: {path} is no .npy or .npz file of numbers, as np.save writes them"
        )
    if content.ndim != 2 or content.dtype.kind not in "fiub":
        raise OptionError(
            f"{place}: {path} has {content.dtype} of shape {content.shape}, expected numbers "
            "[tokens, D], a row for each token"
        )
    return content


def rows_for(model: Any, path: str | None) -> TokenRows | None:
    """The rows that a trained model reads beside the tokens; refused where it reads none, or where
    they are missing."""
    templates = [
        part._features_read()[1]
        for part in model._outputs.values()
        if hasattr(part, "_features_read")
    ]
    reads = any(template is not None and "%a[" in template["text"] for template in templates)
    if reads and path is None:
        raise OptionError(
            "--arrays: the model reads a row of numbers for each token; add --arrays FILE.npy"
        )
    if path is not None and not reads:
        raise OptionError(
            "--arrays: the model was trained without arrays, and reads none; leave it out"
        )
    return None if path is None else TokenRows(path)
