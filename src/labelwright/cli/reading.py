"""Files to be tagged in any format: what the model reads of them, and how they are written with its labels."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from labelwright.cli.common import input_names, read_for, refuse_attributes
from labelwright.errors import CorpusError, OptionError

if TYPE_CHECKING:
    from labelwright.cli.recipe import Request
    from labelwright.corpus.file_formats import OpenFile
    from labelwright.corpus.split_texts import Entity, SplitTexts
    from labelwright.corpus.table import Corpus
    from labelwright.corpus.tokenizer import Tokenizer
    from labelwright.features.attribute_data import AttributeData

Data = Any  # a Corpus, or AttributeData
Added = dict[str, list[Any]]  # by output: its labels [N][T], and perhaps their probabilities [N][T] as text


class ToTag(NamedTuple):
    """Sentences to be tagged: a file, or a piece of it."""

    data: Data
    write: Callable[[Added], bytes] | None = None  # the file with labels; None: as columns or CoNLL-U
    more: bool = False  # further pieces follow
    split: "SplitTexts | None" = None  # of texts: where their tokens are
    begin: int = 0  # where a piece of a text begins, in characters

    @property
    def corpus(self) -> "Corpus | None":
        """The sentences as columns, where they are such."""
        return None if has_attributes(self.data) else self.data


def has_attributes(data: Data) -> bool:
    """Whether sentences have attributes, as CRFsuite's data, and no columns."""
    return hasattr(data, "X") and not hasattr(data, "names")


def reads_attributes(model: Any) -> bool:
    """Whether a model reads attributes, not columns."""
    return bool(model.reads().kind == "dicts")


def sentences_of(data: Data) -> Any:
    """What a model reads of labelled data."""
    return data.X if has_attributes(data) else data


def read_attributes(file: "OpenFile", asked: "Request") -> "AttributeData":
    """CRFsuite's data, to train on."""
    from labelwright.corpus.schemes import convert
    from labelwright.features.attribute_data import read_crfsuite

    for name in ("columns", "label", "template"):
        if name in asked.values:
            raise OptionError(f"{asked.place(name)}: {file.name} has attributes, not columns; leave it out")
    data = read_crfsuite(file)
    scheme = asked.get("scheme")
    return data._replace(y=convert(data.y, None, scheme)) if scheme else data


def open_for(model: Any, path: str, format: str | None, columns: str | None = None) -> "OpenFile":
    """A file in a format that the model can read."""
    from labelwright.corpus.file_formats import opened

    if reads_attributes(model):
        file = opened(path, format or "crfsuite")
    else:
        file = opened(path, format, named=columns is not None)
    _check_for(model, file, columns)
    return file


def _check_for(model: Any, file: "OpenFile", columns: str | None) -> None:
    """Refuse a file that the model cannot read."""
    if not reads_attributes(model):
        refuse_attributes(model, file)
        return
    if file.format != "crfsuite":
        raise OptionError(f"--format: the model reads attributes, as in CRFsuite's data; got {file.format}")
    if columns is not None:
        raise OptionError("--columns: the model reads attributes, which are no columns; leave it out")
    if b"\t" not in file.getvalue():
        raise CorpusError(
            f"{file.name}: no attributes, but the model was trained on feature dicts; give CRFsuite's data, or use "
            "labelwright.load(...) in Python"
        )


def pieces_to_tag(
    model: Any,
    path: str,
    format: str | None,
    columns: str | None,
    known: str | None,
    tokenizer: "Tokenizer | None" = None,
) -> Iterator[ToTag]:
    """A file to be tagged, piece by piece; texts are split as those of the training data were, or by a tokenizer."""
    from labelwright.corpus.file_formats import TEXTS
    from labelwright.corpus.pieces import pieces_of

    if reads_attributes(model):
        format = format or "crfsuite"
    begin = 0
    for file in pieces_of(path, format, named=columns is not None):
        if file.head is None:
            _check_for(model, file, columns)
        if file.format in TEXTS:
            piece = _text_to_tag(model, file, columns or known, tokenizer or model.tokenizer(), begin)
            begin += sum(map(len, piece.split.texts)) if piece.split is not None else 0
            yield piece
        elif tokenizer is not None:
            raise _has_tokens(file)
        else:
            yield _to_tag(model, file, columns, known)


def whole_file(
    model: Any, path: str, format: str | None, columns: str | None, tokenizer: "Tokenizer | None" = None
) -> ToTag:
    """All sentences of a file for a model; texts are split as those of the training data were, or by a tokenizer."""
    from labelwright.corpus.file_formats import TEXTS

    file = open_for(model, path, format, columns)
    if file.format in TEXTS:
        return _text_to_tag(model, file, columns, tokenizer or model.tokenizer(), 0)
    if tokenizer is not None:
        raise _has_tokens(file)
    return _to_tag(model, file, columns, None)


def _has_tokens(file: "OpenFile") -> OptionError:
    return OptionError(f"{file.name}: read as {file.format}, which has tokens; for plain text add --text")


def _text_to_tag(model: Any, file: "OpenFile", columns: str | None, tokenizer: "Tokenizer", begin: int) -> ToTag:
    """Texts, split into sentences of tokens."""
    from labelwright.corpus.file_formats import texts_of
    from labelwright.taggers.texts import split_for

    if columns is not None:
        raise OptionError(f"--columns, --known: {file.name}: texts have words, and no columns")
    split = split_for(model, [item.text for item in texts_of(file)], tokenizer)
    corpus = split.corpus(file.name, tokenizer).renamed(input_names(model) or ["word"], None)
    write = TEXT_WRITERS.get(file.format)
    return ToTag(corpus, write and (lambda added: write(file, split, added)), file.more, split, begin)


@contextmanager
def perhaps_text(model: Any, columns: str | None) -> Iterator[None]:
    """Errors about columns say what plain text needs, which may have been given."""
    try:
        yield
    except CorpusError as error:
        if columns is not None or "column" not in str(error):
            raise
        others = ",".join(input_names(model)[1:])
        needs = f"train on words and labels alone, or a cascade that predicts {others}" if others else "add --text"
        raise CorpusError(f"{error}; for plain text {needs}") from None


def _to_tag(model: Any, file: "OpenFile", columns: str | None, known: str | None) -> ToTag:
    if file.format == "crfsuite":
        from labelwright.features.attribute_data import read_crfsuite

        if known is not None:
            raise OptionError("--known: CRFsuite's data have no columns")
        return ToTag(read_crfsuite(file), lambda added: _label_lines(file, added), file.more)
    with perhaps_text(model, columns) if file.format == "columns" else nullcontext():
        corpus = read_for(model, file, columns, [known] if known else [])
    if file.format in ("columns", "conllu"):
        return ToTag(corpus, None, file.more)
    return ToTag(corpus, lambda added: WRITERS[file.format](file, added), file.more)


# -- writing ----------------------------------------------------------------------------------------------------------


def _label_lines(file: "OpenFile", added: Added) -> bytes:
    """One label in each line, a blank line after each sentence; a probability follows after a colon, as in CRFsuite."""
    from labelwright.corpus.writable import check_written

    columns = next(iter(added.values()))
    check_written((label for sentence in columns[0] for label in sentence), file.name)
    lines: list[str] = []
    for sentence in zip(*columns, strict=True):
        lines += [":".join(parts) for parts in zip(*sentence, strict=True)]
        lines.append("")
    return "".join(f"{line}\n" for line in lines).encode()


def _fields(added: Added) -> list[dict[str, Any]]:
    """The fields that every sentence gets."""
    from labelwright.corpus.file_formats import PREDICTED

    fields: dict[str, Sequence[Any]] = {}
    for name, columns in added.items():
        field = f"{PREDICTED}_{name}" if name else PREDICTED
        fields[field] = columns[0]
        if len(columns) > 1:
            fields[f"{field}_probabilities"] = [[float(p) for p in sentence] for sentence in columns[1]]
    return [dict(zip(fields, values, strict=True)) for values in zip(*fields.values(), strict=True)]


def _write_jsonl(file: "OpenFile", added: Added) -> bytes:
    from labelwright.corpus.token_records import json_lines, without_header

    return without_header(json_lines(file))[0].extended(_fields(added))


def _write_parquet(file: "OpenFile", added: Added) -> bytes:
    from labelwright.corpus.parquet import extended, read_table

    return extended(read_table(file), _fields(added))


def _write_docbin(file: "OpenFile", added: Added) -> bytes:
    raise OptionError(f"{file.name}: DocBin files are read, not written; add --json, or use the spaCy component")


WRITERS: dict[str, Callable[["OpenFile", Added], bytes]] = {
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
    "spacy": _write_docbin,
}


# -- texts ------------------------------------------------------------------------------------------------------------


def _entities(file: "OpenFile", split: "SplitTexts", added: Added) -> "dict[str, list[list[Entity]]]":
    """For every output the places that its labels mark, text by text."""
    from labelwright.corpus.split_texts import labelled_spans

    marked = {}
    for name, columns in added.items():
        if len(columns) > 1:
            raise OptionError(f"--probabilities: {file.name}: annotated texts have no place for them; add --json")
        marked[name] = split.entities([labelled_spans(labels) for labels in columns[0]])
    return marked


def _write_doccano(file: "OpenFile", split: "SplitTexts", added: Added) -> bytes:
    from labelwright.corpus.token_records import json_lines

    marked = _entities(file, split, added)
    columns = {name: [[[list(each[:3]) for each in text] for text in rows]] for name, rows in marked.items()}
    return json_lines(file).extended(_fields(columns))


def _write_label_studio(file: "OpenFile", split: "SplitTexts", added: Added) -> bytes:
    from labelwright.corpus.annotations import tasks_of, with_predictions

    if list(added) != [""]:
        raise OptionError(f"{file.name}: Label Studio has one list of predictions, and a cascade several; add --json")
    marked = _entities(file, split, added)
    return with_predictions(tasks_of(file), zip(split.texts, marked[""], strict=True))


def _write_brat(file: "OpenFile", split: "SplitTexts", added: Added) -> bytes:
    raise OptionError(f"{file.name}: annotations of BRAT are read, not written; tag each text with --text --to brat")


TEXT_WRITERS: dict[str, Callable[["OpenFile", "SplitTexts", Added], bytes]] = {
    "doccano": _write_doccano,
    "label-studio": _write_label_studio,
    "brat": _write_brat,
}
