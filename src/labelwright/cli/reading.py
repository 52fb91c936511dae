"""Files to be tagged in any format: what the model reads of them, and how they are written with its labels."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from labelwright.cli.common import input_names, read_for, refuse_attributes
from labelwright.errors import CorpusError, OptionError

if TYPE_CHECKING:
    from labelwright.cli.recipe import Request
    from labelwright.corpus.file_formats import OpenFile
    from labelwright.corpus.split_texts import SplitTexts
    from labelwright.corpus.table import Corpus
    from labelwright.corpus.tokenizer import Tokenizer
    from labelwright.features.attribute_data import AttributeData

Data = Any  # a Corpus, or AttributeData
Added = dict[str, list[Any]]  # by output: its labels [N][T], and perhaps their probabilities; or the entities of texts


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


def open_for(model: Any, path: "str | OpenFile", format: str | None, columns: str | None = None) -> "OpenFile":
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
    from labelwright.corpus.pieces import pieces_of

    if reads_attributes(model):
        format = format or "crfsuite"
    begin = 0
    for file in pieces_of(path, format, named=columns is not None):
        if file.head is None:
            _check_for(model, file, columns)
        piece = to_tag(model, file, columns, known, tokenizer, begin)
        begin += sum(map(len, piece.split.texts)) if piece.split is not None else 0
        yield piece


def _text_to_tag(model: Any, file: "OpenFile", columns: str | None, tokenizer: "Tokenizer", begin: int) -> ToTag:
    """Texts, split into sentences of tokens."""
    from labelwright.corpus.file_formats import texts_of
    from labelwright.taggers.arguments import split_for

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


def to_tag(
    model: Any, file: "OpenFile", columns: str | None, known: str | None, tokenizer: "Tokenizer | None", begin: int = 0
) -> ToTag:
    """The sentences of a file, or of a piece of it that begins at this character."""
    from labelwright.corpus.file_formats import TEXTS

    if file.format in TEXTS:
        return _text_to_tag(model, file, columns or known, tokenizer or model.tokenizer(), begin)
    if tokenizer is not None:
        raise OptionError(f"{file.name}: read as {file.format}, which has tokens; for plain text add --text")
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
            fields[f"{field}_probabilities"] = [[round(float(p), 6) for p in row] for row in columns[1]]
    return [dict(zip(fields, values, strict=True)) for values in zip(*fields.values(), strict=True)]


def _write_jsonl(file: "OpenFile", added: Added) -> bytes:
    from labelwright.corpus.token_records import json_lines, without_header

    return without_header(json_lines(file))[0].extended(_fields(added))


def _write_parquet(file: "OpenFile", added: Added) -> bytes:
    from labelwright.corpus.parquet import extended, read_table

    return extended(read_table(file), _fields(added))


def _refuse_to_write(file: "OpenFile", *_: Any) -> bytes:
    raise OptionError(f"{file.name}: {READ_ONLY[file.format]}")


READ_ONLY = {
    "spacy": "DocBin files are read, not written; add --json, or use the spaCy component",
    "brat": "annotations of BRAT are read, not written; tag the texts with --text --to brat -o DIR",
}
WRITERS: dict[str, Callable[["OpenFile", Added], bytes]] = {
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
    "spacy": _refuse_to_write,
}


# -- texts ------------------------------------------------------------------------------------------------------------


def _write_doccano(file: "OpenFile", split: "SplitTexts", added: Added) -> bytes:
    from labelwright.corpus.token_records import json_lines

    columns: Added = {}
    for name, (texts,) in added.items():
        columns[name] = [[[list(each[:3]) for each in text] for text in texts]]
        if all(each.probability is not None for text in texts for each in text):
            columns[name].append([[each.probability for each in text] for text in texts])
    return json_lines(file).extended(_fields(columns))


def _write_label_studio(file: "OpenFile", split: "SplitTexts", added: Added) -> bytes:
    from labelwright.corpus.annotations import tasks_of, with_predictions

    if list(added) != [""]:
        raise OptionError(f"{file.name}: Label Studio has one list of predictions, and a cascade several; add --json")
    return with_predictions(tasks_of(file), zip(split.texts, added[""][0], strict=True))


TEXT_WRITERS: dict[str, Callable[["OpenFile", "SplitTexts", Added], bytes]] = {
    "doccano": _write_doccano,
    "label-studio": _write_label_studio,
    "brat": _refuse_to_write,
}
